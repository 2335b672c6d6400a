/* Sums over a tensor by channel, in double precision and in an order that depends on the tensor and its tiles alone. */
#ifndef COMET_TRAIN_MATH_CHANNEL_SUMS_H
#define COMET_TRAIN_MATH_CHANNEL_SUMS_H

#include "train/math/norm.h"

/* The first n elements, whole images, of a tensor that lies as `shape` says. */
typedef struct channel_sums_spec {
    const norm_shape *shape;
    uint64_t n;
    uint64_t tile;      /* elements, whole rows, that are added at once; 0: chosen here */
    const float *shift; /* by channel, subtracted from each element; NULL: none */
} channel_sums_spec;

uint64_t channel_sums_bytes(const channel_sums_spec *spec);

/* Sums under construction, in a scratch of channel_sums_bytes. */
typedef struct channel_sums {
    const norm_shape *shape;
    uint64_t n, tile, n_tiles;
    float *lanes;     /* the shift */
    double *segments; /* of all tiles */
    uint64_t segment_doubles;
} channel_sums;

void channel_sums_begin(channel_sums *c, const channel_sums_spec *spec, void *scratch);
/* Adds tile k, with which x begins; from any thread. */
void channel_sums_add(const channel_sums *c, uint64_t k, const void *x);
/* Writes the sum of each channel, then the sum of its squares, to sums[2 * channels]. */
void channel_sums_end(const channel_sums *c, double *sums);

/* All at once. */
comet_status channel_sums_of(const channel_sums_spec *spec, const void *x, uint32_t n_threads, void *scratch, double *sums);

#endif
