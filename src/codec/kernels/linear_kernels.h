/* The kernels of the linear fit (PREDICT_LINEAR), part of the table in kernels.h; codec/linear.h has the format. */
#ifndef COMET_CODEC_LINEAR_KERNELS_H
#define COMET_CODEC_LINEAR_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINEAR_TILE 16 /* the most rows and columns of a tile that has a plane of its own */

typedef struct linear_plane {
    int32_t a; /* 256 times the value at row 0, column 0 */
    int16_t b, c;
} linear_plane;

/* A tile of one channel: its size, and the distances to the next row and column. */
typedef struct linear_grid {
    size_t rows, columns, line, step;
} linear_grid;

/* Sums of codes, and of codes times their column and their row. */
typedef struct linear_sums {
    int64_t codes, by_column, by_row;
} linear_sums;

/* Sums of the tiles of n neighbouring channels, the first of which begins at `codes`. */
typedef void linear_sums_fn(const linear_grid *g, const void *codes, size_t n, linear_sums *sums);
/* Subtracts the plane of each channel. False if what is left of any code leaves the range of codes. Codes are in range, and the
 * planes were fitted to them. */
typedef bool linear_subtract_fn(const linear_grid *g, const linear_plane *planes, size_t n, void *codes);
/* Adds planes, whatever they are, modulo the range of the codes' type. */
typedef void linear_add_fn(const linear_grid *g, const linear_plane *planes, size_t n, void *codes);

#endif
