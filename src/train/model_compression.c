/*
 * What compression does to a model's memory and gradients, for those who ask.
 */
#include <math.h>

#include "train/model_internal.h"

void comet_compression_init(comet_compression *compression)
{
    *compression =
        (comet_compression){.size = sizeof *compression, .noise = 0.01, .overhead = 0.05, .window = 1000};
}

comet_compression_figures comet_model_compression(const comet_model *m)
{
    return (comet_compression_figures){.mode = m->params.compression.mode, .ratio = NAN, .conv_ratio = NAN,
                                       .sigma_ratio_min = NAN, .sigma_ratio_max = NAN};
}

bool comet_model_assessment_line(const comet_model *m, size_t index, comet_assessment_line *line)
{
    (void)m, (void)index, (void)line;
    return false;
}

comet_status comet_model_dump(comet_model *m, const char *folder)
{
    (void)m, (void)folder;
    return COMET_OK;
}
