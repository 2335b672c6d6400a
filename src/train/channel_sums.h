/* Sums over a tensor by channel, in double precision and in an order that depends on the tensor alone. */
#ifndef COMET_TRAIN_CHANNEL_SUMS_H
#define COMET_TRAIN_CHANNEL_SUMS_H

#include "train/norm.h"

/* The first n elements, whole images, of a tensor that lies as `shape` says. */
typedef struct channel_sums_spec {
    const norm_shape *shape;
    const float *x;
    uint64_t n;
    const float *shift; /* by channel, taken off each element; NULL: nothing is */
    uint32_t n_threads;
} channel_sums_spec;

/* The sum of each channel, then the sum of its squares, to sums[2 * channels]. `scratch` has channel_sums_bytes. */
comet_status channel_sums(const channel_sums_spec *spec, double *sums, void *scratch);
uint64_t channel_sums_bytes(const norm_shape *shape, uint64_t n);

#endif
