/* Reductions of a whole array. All threads reduce blocks of 4096 elements, which are added in order, so that results are the
 * same for any number of threads. Elements are f32 or bf16. */
#ifndef COMET_TRAIN_MATH_REDUCE_H
#define COMET_TRAIN_MATH_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comet/codec.h"
#include "train/math/optimiser_state.h"

/* In double. */
double sum_of_squares(comet_dtype type, size_t n, const void *x);

uint64_t count_nonzero(comet_dtype type, size_t n, const void *x);

/* Is every element finite? */
bool all_finite(comet_dtype type, size_t n, const void *x);

/* A gradient with weight decay, and the momentum, which gives the mean of earlier gradients. */
typedef struct momentum_terms {
    const float *gradient, *weights;
    state_block momentum;
    double decay, to_mean;
} momentum_terms;

/* Sum of (gradient + decay weights - to_mean momentum)^2, and of |momentum| to *size. */
double momentum_distance(size_t n, const momentum_terms *terms, double *size);

#endif
