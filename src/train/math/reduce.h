/* What a whole array comes to: in blocks of 4096 elements on all threads, added in order, so that it is the same for any
 * number. */
#ifndef COMET_TRAIN_MATH_REDUCE_H
#define COMET_TRAIN_MATH_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In double. */
double sum_of_squares(size_t n, const float *x);

uint64_t count_nonzero(size_t n, const float *x);

/* Is every element finite? */
bool all_finite(size_t n, const float *x);

/* A gradient with weight decay, beside the mean that momentum makes of earlier ones. */
typedef struct momentum_terms {
    const float *gradient, *weights, *momentum;
    double decay, to_mean;
} momentum_terms;

/* Sum of (gradient + decay weights - to_mean momentum)^2, and of |momentum| to *size. */
double momentum_distance(size_t n, const momentum_terms *terms, double *size);

#endif
