/* Fitting and applying planes; see linear.h for the format. */
#include "codec/linear.h"

#include <math.h>

/* Tiles of neighbouring channels at one place, which are fitted together. */
typedef struct tile_group {
    linear_grid grid; /* of each; no rows: they lie after the chunk's end */
    size_t first;     /* index of the first element of the first channel's */
    size_t n;
} tile_group;

enum { GROUP = 64 }; /* the most tiles in a group */

static size_t tiles_across(const linear_shape *s)
{
    return (s->columns + LINEAR_TILE - 1) / LINEAR_TILE;
}

static size_t tiles_down(const linear_shape *s)
{
    size_t line = s->channels * s->columns, lines = (s->n + line - 1) / line;
    return (lines + LINEAR_TILE - 1) / LINEAR_TILE;
}

size_t linear_n_tiles(const linear_shape *s)
{
    return tiles_across(s) * tiles_down(s) * s->channels;
}

/* The rows of a tile whose first row ends with element `last`. */
static size_t rows_of(const linear_shape *s, size_t last)
{
    const size_t line = s->channels * s->columns, rows = last < s->n ? (s->n - 1 - last) / line + 1 : 0;
    return rows < LINEAR_TILE ? rows : LINEAR_TILE;
}

/* The group that begins with the k-th tile, cut at the chunk's edges. A last line that is cut short counts only if the tile
 * lies left of the cut, and tiles on both sides of it are in groups of their own. */
static tile_group group_at(const linear_shape *s, size_t k)
{
    const size_t channel = k % s->channels, across = k / s->channels % tiles_across(s),
                 down = k / s->channels / tiles_across(s), x = across * LINEAR_TILE;
    tile_group t = {.grid = {.line = s->channels * s->columns, .step = s->channels}, .n = s->channels - channel};
    t.first = down * LINEAR_TILE * t.grid.line + x * t.grid.step + channel;
    t.n = t.n < GROUP ? t.n : GROUP;
    t.grid.columns = s->columns - x < LINEAR_TILE ? s->columns - x : LINEAR_TILE;
    const size_t last = t.first + (t.grid.columns - 1) * t.grid.step; /* of the first channel's first row */
    t.grid.rows = rows_of(s, last);
    if (rows_of(s, last + t.n - 1) != t.grid.rows)
        t.n = 1;
    return t;
}

static void *code_address(enum code_width width, void *codes, size_t i)
{
    return (uint8_t *)codes + i * code_bytes(width);
}

static int64_t clamp(double v, double limit)
{
    return llrint(v < -limit ? -limit : v > limit ? limit : v);
}

/* Least squares on a full grid: the two slopes are independent of each other. All is exact up to the divisions. */
static linear_plane fit(const linear_grid *g, const linear_sums *sums)
{
    const size_t n = g->rows * g->columns;
    const double mx = (double)(g->columns - 1) / 2, my = (double)(g->rows - 1) / 2, sum = (double)sums->codes;
    const double sum_x = (double)sums->by_column - mx * sum, sum_y = (double)sums->by_row - my * sum;
    const double xx = (double)(n * (g->columns * g->columns - 1)) / 12, yy = (double)(n * (g->rows * g->rows - 1)) / 12;
    linear_plane p = {0, 0, 0};
    p.b = (int16_t)clamp(xx > 0 ? sum_x / xx * 256 : 0, 32767);
    p.c = (int16_t)clamp(yy > 0 ? sum_y / yy * 256 : 0, 32767);
    const double mean = sum / (double)n * 256;
    p.a = (int32_t)clamp(mean - p.b * mx - p.c * my, 2147483647.0);
    return p;
}

static void write_plane(uint8_t *out, const linear_plane *p)
{
    store_u32(out, (uint32_t)p->a);
    store_u16(out + 4, (uint16_t)p->b);
    store_u16(out + 6, (uint16_t)p->c);
}

static linear_plane read_plane(const uint8_t *in)
{
    return (linear_plane){(int32_t)load_u32(in), (int16_t)load_u16(in + 4), (int16_t)load_u16(in + 6)};
}

/* Adds the planes of the first n_tiles tiles, which are whole groups. */
static void restore(const codec_kernels *kernels, enum code_width width, const linear_shape *s, const uint8_t *in, void *codes,
                    size_t n_tiles)
{
    linear_plane planes[GROUP];
    tile_group t;
    for (size_t k = 0; k < n_tiles; k += t.n) {
        t = group_at(s, k);
        for (size_t i = 0; i < t.n; i++)
            planes[i] = read_plane(in + (k + i) * LINEAR_BYTES);
        if (t.grid.rows > 0)
            kernels->linear_add[width](&t.grid, planes, t.n, code_address(width, codes, t.first));
    }
}

void linear_decode(const codec_kernels *kernels, enum code_width width, const linear_shape *s, const uint8_t *planes,
                   void *codes)
{
    restore(kernels, width, s, planes, codes, linear_n_tiles(s));
}

/* Fits a plane to each tile of a group, writes and subtracts it. False if a residual leaves the range of codes. */
static bool encode_group(const codec_kernels *kernels, enum code_width width, const tile_group *t, void *codes, uint8_t *out)
{
    linear_sums sums[GROUP];
    linear_plane planes[GROUP] = {{0, 0, 0}};
    void *first = code_address(width, codes, t->first);
    if (t->grid.rows > 0)
        kernels->linear_sums[width](&t->grid, first, t->n, sums);
    for (size_t i = 0; i < t->n; i++) {
        if (t->grid.rows > 0)
            planes[i] = fit(&t->grid, &sums[i]);
        write_plane(out + i * LINEAR_BYTES, &planes[i]);
    }
    return t->grid.rows == 0 || kernels->linear_subtract[width](&t->grid, planes, t->n, first);
}

bool linear_encode(const codec_kernels *kernels, enum code_width width, const linear_shape *s, void *codes, uint8_t *planes)
{
    const size_t n_tiles = linear_n_tiles(s);
    tile_group t;
    for (size_t k = 0; k < n_tiles; k += t.n) {
        t = group_at(s, k);
        if (!encode_group(kernels, width, &t, codes, planes + k * LINEAR_BYTES)) {
            restore(kernels, width, s, planes, codes, k + t.n);
            return false;
        }
    }
    return true;
}

/* The plane at a place of its tile. */
static int64_t plane_at(const linear_plane *p, size_t x, size_t y)
{
    return (p->a + (int64_t)p->b * (int64_t)x + (int64_t)p->c * (int64_t)y + 128) >> 8;
}

bool linear_sample(const codec_kernels *kernels, enum code_width width, const linear_shape *s, const void *codes, size_t first,
                   uint32_t *residuals)
{
    const linear_grid g = {LINEAR_TILE, LINEAR_TILE, s->channels * s->columns, s->channels};
    const size_t column = first % g.line / g.step;
    if (s->columns - column < LINEAR_TILE || first + (LINEAR_TILE - 1) * (g.line + g.step) >= s->n)
        return false;
    linear_sums sums;
    kernels->linear_sums[width](&g, (const uint8_t *)codes + first * code_bytes(width), 1, &sums);
    const linear_plane p = fit(&g, &sums);
    for (size_t y = 0; y < LINEAR_TILE; y++)
        for (size_t x = 0; x < LINEAR_TILE; x++) {
            int64_t r = code_at(width, codes, (ptrdiff_t)(first + y * g.line + x * g.step)) - plane_at(&p, x, y);
            residuals[y * LINEAR_TILE + x] = (uint32_t)((uint64_t)r << 1 ^ (uint64_t)(r >> 63));
        }
    return true;
}
