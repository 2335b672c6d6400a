/*
 * The block-wise linear fit: a plane for each tile of 16 lines x 16 positions of one channel, subtracted from the codes before
 * they are coded. It pays on noisy ramps, where Lorenzo prediction would add up the noise of three neighbours.
 *
 * A tile's plane is (a + b dx + c dy + 128) >> 8; a has 32 bits and b, c 16. Tiles run along lines, then down, channels
 * innermost.
 */
#ifndef COMET_CODEC_LINEAR_H
#define COMET_CODEC_LINEAR_H

#include "codec/kernels/kernels.h"

#define LINEAR_BYTES 8 /* a tile */

/* A chunk's lines as the fit sees them. */
typedef struct linear_shape {
    size_t n, channels, columns;
} linear_shape;

size_t linear_n_tiles(const linear_shape *s);

/* Subtracts the planes in place and writes linear_n_tiles x LINEAR_BYTES bytes. False, with the codes restored, if a residual
 * would leave the range of codes. */
bool linear_encode(const codec_kernels *kernels, enum code_width width, const linear_shape *s, void *codes, uint8_t *planes);

/* Adds the planes back. */
void linear_decode(const codec_kernels *kernels, enum code_width width, const linear_shape *s, const uint8_t *planes,
                   void *codes);

/* Residuals of the single tile whose first element is at `first`, zigzagged, LINEAR_TILE^2 of them; false if the tile does not
 * lie whole in the chunk. For estimates. */
bool linear_sample(const codec_kernels *kernels, enum code_width width, const linear_shape *s, const void *codes, size_t first,
                   uint32_t *residuals);

#endif
