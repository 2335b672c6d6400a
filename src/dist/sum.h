/* Sums of floats in the order of the ranks. */
#ifndef COMET_DIST_SUM_H
#define COMET_DIST_SUM_H

#include <stddef.h>

/* out[i] = parts[0][i] + parts[1][i] + ..., added from the left, for n_parts >= 1. `out` may be one of the parts. */
void sum_floats(float *out, const float *const *parts, size_t n_parts, size_t n);

#endif
