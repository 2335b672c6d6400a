/* Reductions of a whole array. All threads reduce blocks of 4096 elements, which are added in order, so that results are the
 * same for any number of threads. */
#ifndef COMET_TRAIN_MATH_REDUCE_H
#define COMET_TRAIN_MATH_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/math/optimiser_state.h"

/* In double. */
double sum_of_squares(size_t n, const float *x);

uint64_t count_nonzero(size_t n, const float *x);

/* Is every element finite? */
bool all_finite(size_t n, const float *x);

/* A gradient with weight decay, and the momentum, which gives the mean of earlier gradients. */
typedef struct momentum_terms {
    const float *gradient, *weights;
    state_block momentum;
    double decay, to_mean;
} momentum_terms;

/* Sum of (gradient + decay weights - to_mean momentum)^2, and of |momentum| to *size. */
double momentum_distance(size_t n, const momentum_terms *terms, double *size);

#endif
