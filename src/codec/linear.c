/* Fitting and applying planes; see linear.h for the format. */
#include "codec/linear.h"

#include <math.h>
#include <stdlib.h>

typedef struct plane {
    int32_t a;
    int16_t b, c;
} plane;

typedef struct tile {
    size_t first; /* index of its first element */
    size_t rows, columns;
    size_t line, step; /* distances down and right */
} tile;

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

/* The k-th tile, cut at the chunk's edges. A last line that is cut short counts only if the tile lies left of the cut. */
static tile tile_at(const linear_shape *s, size_t k)
{
    size_t channel = k % s->channels, across = k / s->channels % tiles_across(s), down = k / s->channels / tiles_across(s);
    tile t = {.line = s->channels * s->columns, .step = s->channels};
    size_t x = across * LINEAR_TILE, y = down * LINEAR_TILE;
    t.first = y * t.line + x * t.step + channel;
    t.columns = s->columns - x < LINEAR_TILE ? s->columns - x : LINEAR_TILE;
    size_t last = t.first + (t.columns - 1) * t.step; /* of the first row */
    t.rows = last < s->n ? (s->n - 1 - last) / t.line + 1 : 0;
    if (t.rows > LINEAR_TILE)
        t.rows = LINEAR_TILE;
    return t;
}

static void add_at(enum code_width width, void *codes, size_t i, int64_t v)
{
    if (width == CODES16) {
        int16_t *c = (int16_t *)codes + i;
        *c = (int16_t)(uint16_t)((uint16_t)*c + (uint16_t)v);
    } else {
        int32_t *c = (int32_t *)codes + i;
        *c = (int32_t)((uint32_t)*c + (uint32_t)v);
    }
}

static int64_t clamp(double v, double limit)
{
    return llrint(v < -limit ? -limit : v > limit ? limit : v);
}

/* Least squares on a full grid: the two slopes are independent of each other. */
static plane fit(enum code_width width, const void *codes, const tile *t)
{
    double mx = (double)(t->columns - 1) / 2, my = (double)(t->rows - 1) / 2, sum = 0, sum_x = 0, sum_y = 0, xx = 0, yy = 0;
    for (size_t y = 0; y < t->rows; y++)
        for (size_t x = 0; x < t->columns; x++) {
            double v = (double)code_at(width, codes, (ptrdiff_t)(t->first + y * t->line + x * t->step));
            double dx = (double)x - mx, dy = (double)y - my;
            sum += v;
            sum_x += dx * v;
            sum_y += dy * v;
            xx += dx * dx;
            yy += dy * dy;
        }
    plane p = {0, 0, 0};
    p.b = (int16_t)clamp(xx > 0 ? sum_x / xx * 256 : 0, 32767);
    p.c = (int16_t)clamp(yy > 0 ? sum_y / yy * 256 : 0, 32767);
    double mean = sum / (double)(t->rows * t->columns) * 256;
    p.a = (int32_t)clamp(mean - p.b * mx - p.c * my, 2147483647.0);
    return p;
}

static int64_t plane_at(const plane *p, size_t x, size_t y)
{
    return (p->a + (int64_t)p->b * (int64_t)x + (int64_t)p->c * (int64_t)y + 128) >> 8;
}

/* Adds sign * plane to every element; returns the largest magnitude that results. */
static uint64_t apply(enum code_width width, void *codes, const tile *t, const plane *p, int64_t sign)
{
    uint64_t largest = 0;
    for (size_t y = 0; y < t->rows; y++)
        for (size_t x = 0; x < t->columns; x++) {
            size_t i = t->first + y * t->line + x * t->step;
            int64_t v = sign * plane_at(p, x, y), sum = code_at(width, codes, (ptrdiff_t)(i)) + v;
            uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
            largest = magnitude > largest ? magnitude : largest;
            add_at(width, codes, i, v);
        }
    return largest;
}

static void write_plane(uint8_t *out, const plane *p)
{
    store_u32(out, (uint32_t)p->a);
    store_u16(out + 4, (uint16_t)p->b);
    store_u16(out + 6, (uint16_t)p->c);
}

static plane read_plane(const uint8_t *in)
{
    return (plane){(int32_t)load_u32(in), (int16_t)load_u16(in + 4), (int16_t)load_u16(in + 6)};
}

static void restore(enum code_width width, const linear_shape *s, const uint8_t *planes, void *codes, size_t n_tiles)
{
    for (size_t k = 0; k < n_tiles; k++) {
        tile t = tile_at(s, k);
        plane p = read_plane(planes + k * LINEAR_BYTES);
        apply(width, codes, &t, &p, 1);
    }
}

void linear_decode(enum code_width width, const linear_shape *s, const uint8_t *planes, void *codes)
{
    restore(width, s, planes, codes, linear_n_tiles(s));
}

bool linear_encode(enum code_width width, const linear_shape *s, void *codes, uint8_t *planes)
{
    uint64_t limit = width == CODES16 ? CODE16_LIMIT : CODE32_LIMIT;
    size_t n_tiles = linear_n_tiles(s);
    for (size_t k = 0; k < n_tiles; k++) {
        tile t = tile_at(s, k);
        plane p = {0, 0, 0};
        if (t.rows > 0)
            p = fit(width, codes, &t);
        write_plane(planes + k * LINEAR_BYTES, &p);
        if (apply(width, codes, &t, &p, -1) > limit) {
            restore(width, s, planes, codes, k + 1);
            return false;
        }
    }
    return true;
}

bool linear_sample(enum code_width width, const linear_shape *s, const void *codes, size_t first, uint32_t *residuals)
{
    tile t = {
        .first = first, .rows = LINEAR_TILE, .columns = LINEAR_TILE, .line = s->channels * s->columns, .step = s->channels};
    size_t column = first % t.line / t.step;
    if (s->columns - column < LINEAR_TILE || first + (LINEAR_TILE - 1) * (t.line + t.step) >= s->n)
        return false;
    plane p = fit(width, codes, &t);
    for (size_t y = 0; y < LINEAR_TILE; y++)
        for (size_t x = 0; x < LINEAR_TILE; x++) {
            int64_t r = code_at(width, codes, (ptrdiff_t)(first + y * t.line + x * t.step)) - plane_at(&p, x, y);
            residuals[y * LINEAR_TILE + x] = (uint32_t)((uint64_t)r << 1 ^ (uint64_t)(r >> 63));
        }
    return true;
}
