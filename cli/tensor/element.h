/* Single elements, for people to read: their values as double and their coordinates. */
#ifndef COMET_CLI_ELEMENT_H
#define COMET_CLI_ELEMENT_H

#include "tensor/tensorio.h"

typedef struct element_pair {
    double original, decoded;
} element_pair;

/* Element `index`, in memory order, of two arrays of one type. */
element_pair element_read(comet_dtype dtype, const void *original, const void *decoded, uint64_t index);

/* The coordinates (.., c, h, w) of element `index` in memory order. A channel past the last is padding of a blocked layout. */
void element_place(const comet_tensor *tensor, uint64_t index, uint64_t place[COMET_MAX_DIMS]);

#endif
