/* What a whole array comes to: in blocks of 4096 elements on all threads, added in order, so that it is the same for any
 * number. */
#ifndef COMET_TRAIN_REDUCE_H
#define COMET_TRAIN_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In double. */
double sum_of_squares(size_t n, const float *x);

uint64_t count_nonzero(size_t n, const float *x);

/* Is every element finite? */
bool all_finite(size_t n, const float *x);

#endif
