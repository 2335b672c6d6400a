/* Softmax and cross entropy over class scores, and how often the label was among the highest. */
#ifndef COMET_TRAIN_MATH_LOSS_H
#define COMET_TRAIN_MATH_LOSS_H

#include "comet/train.h"

typedef struct loss_spec {
    const float *scores; /* rows x classes */
    const uint32_t *labels;
    uint32_t rows, n_valid, classes;
    float smoothing;
    float gradient_scale; /* of the mean over the valid rows */
    float *gradient;      /* rows x classes, zero in rows from n_valid on; NULL: none. May not be `scores` */
} loss_spec;

/* COMET_ERROR_ARGUMENT for a label that is no class. */
comet_status loss_compute(const loss_spec *spec, comet_scores *out);

#endif
