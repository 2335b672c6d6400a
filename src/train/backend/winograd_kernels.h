/*
 * The loops of Winograd's convolution, one table for each instruction set; winograd.c says what they compute and calls them.
 * Tensors, f32 or bf16 as `type` says, lie in blocks of `lanes` channels: [image][block][row][column][lane], weights [outputs /
 * lanes][inputs / lanes][3][3] [input lane][output lane]. What belongs to one of the 36 points lies `points` floats after what
 * belongs to the one before.
 */
#ifndef COMET_TRAIN_BACKEND_WINOGRAD_KERNELS_H
#define COMET_TRAIN_BACKEND_WINOGRAD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comet/codec.h"

enum {
    WINOGRAD_OUT = 4,     /* rows and columns of a tile's output */
    WINOGRAD_IN = 6,      /* of the input that it depends on */
    WINOGRAD_POINTS = 36, /* products an output channel and tile: IN * IN */
    WINOGRAD_TAPS = 9,
    WINOGRAD_VECTORS = 2, /* blocks of outputs that a product makes at once */
};

/* Tiles of a tensor: number t is tile (t / across % down, t % across) of image t / (across * down). Tile (y, x) begins at row
 * y * 4 - before[0] and column x * 4 - before[1]; what lies outside of the tensor is zero. */
typedef struct winograd_grid {
    uint64_t down, across; /* tiles an image */
    uint64_t height, width, n_blocks;
    int64_t before[2];
} winograd_grid;

/* Tiles [first, first + n), of one block of channels. */
typedef struct winograd_tiles {
    uint64_t first, n, block;
} winograd_tiles;

/* What happens to an output before it is written. */
typedef struct winograd_finish {
    const float *bias; /* of the block's lanes, or NULL */
    bool relu, adds;   /* adds: to what is there */
} winograd_finish;

/* m[vector][tile][lane] = sum over n_in input channels of v[channel block][tile][channel] u[vector][channel][lane] */
typedef struct winograd_product {
    const float *v, *u;
    float *m;
    uint64_t v_blocks, u_vectors, m_vectors; /* floats from one block, or vector, to the next */
    uint64_t n_tiles, n_blocks, n_vectors;
} winograd_product;

/* du[vector][channel][lane] = (first: 0, else itself) + sum over tiles of v[tile][channel] d[vector][tile][lane], for the
 * channels of a block */
typedef struct winograd_gram {
    const float *v, *d;
    float *du;
    uint64_t d_vectors, du_vectors;
    uint64_t n_tiles, n_vectors;
    bool first;
} winograd_gram;

typedef struct winograd_kernels {
    size_t lanes;
    /* v[tile][lane] of each point: the 6 x 6 inputs of each tile, transformed. */
    void (*source)(comet_dtype type, const winograd_grid *g, winograd_tiles t, const void *src, float *v, uint64_t points);
    /* d[tile][lane]: the 4 x 4 gradients of each tile's outputs, transformed. */
    void (*gradient)(comet_dtype type, const winograd_grid *g, winograd_tiles t, const void *dst, float *d, uint64_t points);
    /* Writes the 4 x 4 outputs of each tile from m[tile][lane]. */
    void (*output)(comet_dtype type, const winograd_grid *g, winograd_tiles t, const float *m, uint64_t points,
                   const winograd_finish *f, void *dst);
    /* u[input lane][output lane] of a block of weights. Turned: rotated by half a turn, and inputs and outputs change places.
     */
    void (*weights)(const float *w, bool turned, float *u, uint64_t points);
    /* A block of the weights' gradient from du[input lane][output lane]. */
    void (*weights_gradient)(const float *du, uint64_t points, float *dw);
    void (*product)(const winograd_product *p);
    void (*gram)(const winograd_gram *g);
    /* sums[lane] = the sum over n vectors */
    void (*sum)(comet_dtype type, const void *x, uint64_t n, float *sums);
} winograd_kernels;

extern const winograd_kernels winograd_kernels_reference; /* blocks of 8 channels */
#ifdef COMET_HAVE_AVX2
extern const winograd_kernels winograd_kernels_avx2; /* 8 */
#endif
#ifdef COMET_HAVE_AVX512
extern const winograd_kernels winograd_kernels_avx512; /* 16 */
#endif

#endif
