/* Figures of models, data sets and loaders as values; a call that fails fails the test. */
#ifndef COMET_TESTS_DESCRIBING_H
#define COMET_TESTS_DESCRIBING_H

#include "comet/train.h"
#include "testing.h"

#define DEFINE_DESCRIBED(name, object, describe, type) \
    static inline type name(const object *of)          \
    {                                                  \
        type found;                                    \
        type##_init(&found);                           \
        assert_ok(describe(of, &found));               \
        return found;                                  \
    }

DEFINE_DESCRIBED(memory_of, comet_model, comet_model_describe_memory, comet_memory)
DEFINE_DESCRIBED(compression_of, comet_model, comet_model_describe_compression, comet_compression_figures)
DEFINE_DESCRIBED(steps_of, comet_model, comet_model_describe_steps, comet_step_figures)
DEFINE_DESCRIBED(data_info, comet_dataset, comet_dataset_describe, comet_dataset_info)
DEFINE_DESCRIBED(stats_of, comet_loader, comet_loader_describe, comet_loader_stats)

#endif
