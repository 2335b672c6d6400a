/*
 * A Feistel network on the bits of the position, with the counter-based random numbers as its round function, is a bijection of
 * [0, 4^half_bits). Applying it again while the result is n or more makes it one of [0, n) ("cycle walking"): since 4^half_bits
 * is less than 4n (or 16), four applications are the most to be expected.
 *
 * A table by Fisher and Yates would be as random, but takes 4 bytes an image for each epoch that is in the loader's queue, and
 * somebody has to build it while the others wait.
 */
#include "train/data/permutation.h"

#include <stdlib.h>

#include "train/data/storage.h"

enum { N_ROUNDS = 8 };

permutation permutation_of(uint64_t seed, comet_stream stream, uint64_t part, uint64_t n)
{
    permutation p = {.seed = seed, .stream = stream, .part = part, .n = n, .half_bits = 2};
    while ((uint64_t)1 << (2 * p.half_bits) < n)
        p.half_bits++;
    return p;
}

static uint64_t mix(const permutation *p, uint64_t value)
{
    const uint32_t mask = (uint32_t)(((uint64_t)1 << p->half_bits) - 1);
    uint32_t left = (uint32_t)(value >> p->half_bits), right = (uint32_t)value & mask;
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        uint32_t random[4];
        comet_random_block(p->seed, p->stream, p->part, round << 32 | right, random);
        const uint32_t next = left ^ (random[0] & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << p->half_bits | right;
}

uint64_t permutation_at(const permutation *p, uint64_t position)
{
    uint64_t value = position;
    do
        value = mix(p, value);
    while (value >= p->n);
    return value;
}

comet_status holdout_indices(uint64_t seed, uint64_t n, bool test, uint32_t **indices, uint64_t *n_indices)
{
    const uint64_t n_test = n >= 20 ? n / 10 : 1, n_wanted = test ? n_test : n - n_test;
    bool *held = storage_new(n, sizeof *held);
    uint32_t *list = storage_new(n_wanted, sizeof *list);
    if (!held || !list) {
        free(held);
        free(list);
        return COMET_ERROR_MEMORY;
    }
    const permutation order = permutation_of(seed, COMET_STREAM_SPLIT, 0, n);
    for (uint64_t i = 0; i < n_test; i++)
        held[permutation_at(&order, i)] = true;
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++)
        if (held[i] == test)
            list[at++] = (uint32_t)i;
    free(held);
    *indices = list;
    *n_indices = n_wanted;
    return COMET_OK;
}
