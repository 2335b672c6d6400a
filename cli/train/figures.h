/* Figures of models, data sets and loaders as values. The calls fail for structs of another size only. */
#ifndef COMET_CLI_FIGURES_H
#define COMET_CLI_FIGURES_H

#include "comet/train.h"

#define DEFINE_FIGURES(name, object, describe, type) \
    static inline type name(const object *of)        \
    {                                                \
        type found;                                  \
        type##_init(&found);                         \
        describe(of, &found);                        \
        return found;                                \
    }

DEFINE_FIGURES(memory_of, comet_model, comet_model_describe_memory, comet_memory)
DEFINE_FIGURES(compression_of, comet_model, comet_model_describe_compression, comet_compression_figures)
DEFINE_FIGURES(steps_of, comet_model, comet_model_describe_steps, comet_step_figures)
DEFINE_FIGURES(info_of, comet_dataset, comet_dataset_describe, comet_dataset_info)
DEFINE_FIGURES(stats_of, comet_loader, comet_loader_describe, comet_loader_stats)
#undef DEFINE_FIGURES

#endif
