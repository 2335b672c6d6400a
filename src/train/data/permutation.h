/* A random order of n things that is computed where it is needed: no table, no state, any position at once. */
#ifndef COMET_TRAIN_DATA_PERMUTATION_H
#define COMET_TRAIN_DATA_PERMUTATION_H

#include <stdbool.h>

#include "base/random.h"
#include "comet/base.h"

typedef struct permutation {
    uint64_t seed, part, n;
    comet_stream stream;
    unsigned half_bits;
} permutation;

/* The order that (seed, stream, part) gives n things, 0 < n <= 2^32. */
permutation permutation_of(uint64_t seed, comet_stream stream, uint64_t part, uint64_t n);

/* Which thing stands at `position` < n. */
uint64_t permutation_at(const permutation *p, uint64_t position);

/* Splits n >= 2 things into nine parts to train and one to test. *indices, which the caller frees, lists those of the requested
 * part in ascending order. */
comet_status holdout_indices(uint64_t seed, uint64_t n, bool test, uint32_t **indices, uint64_t *n_indices);

#endif
