/*
 * Planes of PREDICT_LINEAR for 16-bit codes, in vectors of LINEAR_LANES lanes of 32 bits. A family's unit defines LINEAR_LANES
 * to fit its registers and includes this after generic.h.
 *
 * Lanes are neighbouring channels, or, where there is one channel, the columns of a whole tile. Nothing overflows 32 bits:
 * codes have 13 bits, sums of 256 of them times at most 16 have 25, and planes that were fitted to them 23. What is added when
 * planes are undone counts modulo 2^16, so that its low 24 bits are enough, whatever the planes are.
 */
#ifndef COMET_CODEC_LINEAR_LANES_H
#define COMET_CODEC_LINEAR_LANES_H

#include "codec/kernels/generic.h"

typedef int16_t lanes16 __attribute__((vector_size(2 * LINEAR_LANES)));
typedef int32_t lanes32 __attribute__((vector_size(4 * LINEAR_LANES)));
typedef uint32_t ulanes32 __attribute__((vector_size(4 * LINEAR_LANES)));

enum { LINEAR_PARTS = LINEAR_TILE / LINEAR_LANES }; /* vectors in a row of a tile of one channel */

static inline lanes32 load_lanes(const int16_t *c)
{
    lanes16 v;
    memcpy(&v, c, sizeof v);
    return __builtin_convertvector(v, lanes32);
}

static inline void store_lanes(lanes32 v, int16_t *c)
{
    const lanes16 low = __builtin_convertvector(v, lanes16);
    memcpy(c, &low, sizeof low);
}

static inline lanes32 magnitude_lanes(lanes32 v)
{
    const lanes32 sign = v >> 31;
    return (v ^ sign) - sign;
}

/* Are all numbers whose bits are in `some` at most CODE16_LIMIT, 2^13 - 1? */
static inline bool lanes_in_range(lanes32 some)
{
    int32_t all = 0;
    for (int l = 0; l < LINEAR_LANES; l++)
        all |= some[l];
    return all <= CODE16_LIMIT;
}

/* 256 times the planes of LINEAR_LANES channels at row 0 and column 0, and their slopes. */
typedef struct plane_lanes {
    ulanes32 a, b, c;
} plane_lanes;

static inline plane_lanes plane_lanes_of(const linear_plane *planes)
{
    plane_lanes p = {0};
    for (int l = 0; l < LINEAR_LANES; l++) {
        p.a[l] = (uint32_t)planes[l].a + 128;
        p.b[l] = (uint32_t)planes[l].b;
        p.c[l] = (uint32_t)planes[l].c;
    }
    return p;
}

/* One plane, with columns from LINEAR_LANES * part on in the lanes. */
static inline plane_lanes plane_columns_of(const linear_plane *plane, uint32_t part)
{
    plane_lanes p = {0};
    for (uint32_t l = 0; l < LINEAR_LANES; l++) {
        p.a[l] = (uint32_t)plane->a + 128 + (uint32_t)plane->b * (LINEAR_LANES * part + l);
        p.c[l] = (uint32_t)plane->c;
    }
    return p;
}

/* ---- lanes are channels ---- */

/* A sum times its number of columns (or rows), less all running sums, is the sum of codes times their column (row). */
static inline void sum_channels(const linear_grid *g, const int16_t *c, linear_sums *sums)
{
    lanes32 all = {0}, running_columns = {0}, running_rows = {0};
    for (size_t y = 0; y < g->rows; y++) {
        lanes32 row = {0};
        for (size_t x = 0; x < g->columns; x++) {
            row += load_lanes(c + y * g->line + x * g->step);
            running_columns += row;
        }
        all += row;
        running_rows += all;
    }
    for (int l = 0; l < LINEAR_LANES; l++)
        sums[l] = (linear_sums){all[l], all[l] * (int64_t)g->columns - running_columns[l],
                                all[l] * (int64_t)g->rows - running_rows[l]};
}

static inline bool subtract_channels(const linear_grid *g, const linear_plane *planes, int16_t *c)
{
    const plane_lanes p = plane_lanes_of(planes);
    lanes32 some = {0};
    ulanes32 first = p.a;
    for (size_t y = 0; y < g->rows; y++, first += p.c) {
        ulanes32 at = first;
        for (size_t x = 0; x < g->columns; x++, at += p.b) {
            int16_t *code = c + y * g->line + x * g->step;
            const lanes32 left = load_lanes(code) - ((lanes32)at >> 8);
            some |= magnitude_lanes(left);
            store_lanes(left, code);
        }
    }
    return lanes_in_range(some);
}

static inline void add_channels(const linear_grid *g, const linear_plane *planes, int16_t *c)
{
    const plane_lanes p = plane_lanes_of(planes);
    ulanes32 first = p.a;
    for (size_t y = 0; y < g->rows; y++, first += p.c) {
        ulanes32 at = first;
        for (size_t x = 0; x < g->columns; x++, at += p.b) {
            int16_t *code = c + y * g->line + x * g->step;
            store_lanes(load_lanes(code) + ((lanes32)at >> 8), code);
        }
    }
}

/* ---- lanes are columns ---- */

/* Does a tile have one channel, and rows of whole vectors? */
static inline bool lanes_are_columns(const linear_grid *g)
{
    return g->step == 1 && g->columns == LINEAR_TILE;
}

static inline linear_sums sum_columns(const linear_grid *g, const int16_t *c)
{
    linear_sums s = {0, 0, 0};
    for (int part = 0; part < LINEAR_PARTS; part++) {
        lanes32 all = {0}, running_rows = {0};
        for (size_t y = 0; y < g->rows; y++) {
            all += load_lanes(c + y * g->line + LINEAR_LANES * part);
            running_rows += all;
        }
        for (int l = 0; l < LINEAR_LANES; l++) {
            s.codes += all[l];
            s.by_column += (int64_t)all[l] * (LINEAR_LANES * part + l);
            s.by_row += all[l] * (int64_t)g->rows - running_rows[l];
        }
    }
    return s;
}

static inline bool subtract_columns(const linear_grid *g, const linear_plane *plane, int16_t *c)
{
    lanes32 some = {0};
    for (uint32_t part = 0; part < LINEAR_PARTS; part++) {
        const plane_lanes p = plane_columns_of(plane, part);
        ulanes32 at = p.a;
        for (size_t y = 0; y < g->rows; y++, at += p.c) {
            int16_t *code = c + y * g->line + LINEAR_LANES * part;
            const lanes32 left = load_lanes(code) - ((lanes32)at >> 8);
            some |= magnitude_lanes(left);
            store_lanes(left, code);
        }
    }
    return lanes_in_range(some);
}

static inline void add_columns(const linear_grid *g, const linear_plane *plane, int16_t *c)
{
    for (uint32_t part = 0; part < LINEAR_PARTS; part++) {
        const plane_lanes p = plane_columns_of(plane, part);
        ulanes32 at = p.a;
        for (size_t y = 0; y < g->rows; y++, at += p.c) {
            int16_t *code = c + y * g->line + LINEAR_LANES * part;
            store_lanes(load_lanes(code) + ((lanes32)at >> 8), code);
        }
    }
}

/* ---- the kernels ---- */

static void linear_sums_16_lanes(const linear_grid *g, const void *codes, size_t n, linear_sums *sums)
{
    const int16_t *c = codes;
    size_t k = 0;
    if (lanes_are_columns(g))
        for (; k < n; k++)
            sums[k] = sum_columns(g, c + k);
    for (; k + LINEAR_LANES <= n; k += LINEAR_LANES)
        sum_channels(g, c + k, sums + k);
    linear_sums_16_generic(g, c + k, n - k, sums + k);
}

static bool linear_subtract_16_lanes(const linear_grid *g, const linear_plane *planes, size_t n, void *codes)
{
    int16_t *c = codes;
    size_t k = 0;
    bool fits = true;
    if (lanes_are_columns(g))
        for (; k < n; k++)
            fits &= subtract_columns(g, planes + k, c + k);
    for (; k + LINEAR_LANES <= n; k += LINEAR_LANES)
        fits &= subtract_channels(g, planes + k, c + k);
    return linear_subtract_16_generic(g, planes + k, n - k, c + k) && fits;
}

static void linear_add_16_lanes(const linear_grid *g, const linear_plane *planes, size_t n, void *codes)
{
    int16_t *c = codes;
    size_t k = 0;
    if (lanes_are_columns(g))
        for (; k < n; k++)
            add_columns(g, planes + k, c + k);
    for (; k + LINEAR_LANES <= n; k += LINEAR_LANES)
        add_channels(g, planes + k, c + k);
    linear_add_16_generic(g, planes + k, n - k, c + k);
}

#undef LINEAR_16
#define LINEAR_16(stem) stem##_16_lanes

#endif
