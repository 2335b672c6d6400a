/*
 * The loops of Winograd's convolution for vectors of LANES floats; see winograd_kernels.h. winograd_<isa>.c include this once
 * each, with these defined:
 *   LANES              floats of a vector, which are the channels of a block
 *   MULTIPLY_ADD(a, b, c)  a b + c, fused where the instruction set has that
 *   TILE_GROUP         tiles whose products are summed up in registers at once, two vectors each
 *   CHANNEL_GROUP      channels, the same for gradients of weights
 *   KERNELS            the table's name
 *
 * Points of the transform are 0, a, -a, b, -b and infinity with a = 5/8 and b = 3/2: coefficients of the inputs' transform are
 * exact in float, and rounding errors are smaller than with 1 and 2.
 */
/* No include guard: see above. */

#include <string.h>

#include "train/backend/element.h"
#include "train/backend/winograd_kernels.h"

/* vec_bf16, load_bf16, save_bf16 */
#define LOOP(name) name##_bf16
#define LOOP_TARGET
#define LOOP_LANES LANES
#define LOOP_BF16
#if LANES == 16
#define LOOP_MASKS
#endif
#include "train/backend/element_lanes.h"

#include "train/backend/element_end.h"

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float vec_in_memory __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int32_t lanes_of_bits __attribute__((vector_size(LANES * sizeof(float))));

#define A 0.625f
#define B 1.5f
#define A2 (A * A)
#define B2 (B * B)
#define SCALE_0 (1 / (A2 * B2)) /* 1 / the product of the distances from each point to the others */
#define SCALE_A (1 / (2 * A2 * (A2 - B2)))
#define SCALE_B (1 / (2 * B2 * (B2 - A2)))

INLINE vec load(const float *p)
{
    return *(const vec_in_memory *)p;
}

INLINE void store(float *p, vec x)
{
    *(vec_in_memory *)p = x;
}

/* LANES elements of a tensor. The type is constant wherever these are inlined. */
INLINE vec load_from(comet_dtype type, const void *x, uint64_t first)
{
    const void *there = elements_from(type, x, first);
    return type == COMET_DTYPE_BF16 ? (vec)load_bf16(there) : load(there);
}

INLINE void store_at(comet_dtype type, void *x, uint64_t first, vec v)
{
    void *there = elements_at(type, x, first);
    if (type == COMET_DTYPE_BF16)
        save_bf16(v, there);
    else
        store(there, v);
}

INLINE vec splat(float x)
{
    return x - (vec){0}; /* not +: -0 must stay */
}

INLINE vec scaled_sum(float a, vec x, vec y)
{
    return MULTIPLY_ADD(splat(a), x, y);
}

/* ---- transforms of a line ---- */

/* Six inputs. */
INLINE void source_line(const vec d[6], vec v[6])
{
    const vec even_a = scaled_sum(-B2, d[2], d[4]), odd_a = scaled_sum(-B2, d[1], d[3]);
    const vec even_b = scaled_sum(-A2, d[2], d[4]), odd_b = scaled_sum(-A2, d[1], d[3]);
    v[0] = scaled_sum(A2 * B2, d[0], scaled_sum(-(A2 + B2), d[2], d[4]));
    v[1] = scaled_sum(A, odd_a, even_a);
    v[2] = scaled_sum(-A, odd_a, even_a);
    v[3] = scaled_sum(B, odd_b, even_b);
    v[4] = scaled_sum(-B, odd_b, even_b);
    v[5] = scaled_sum(A2 * B2, d[1], scaled_sum(-(A2 + B2), d[3], d[5]));
}

/* Six sums of products to four outputs. */
INLINE void output_line(const vec m[6], vec y[4])
{
    const vec sum_a = m[1] + m[2], difference_a = m[1] - m[2], sum_b = m[3] + m[4], difference_b = m[3] - m[4];
    y[0] = m[0] + sum_a + sum_b;
    y[1] = scaled_sum(A, difference_a, splat(B) * difference_b);
    y[2] = scaled_sum(A2, sum_a, splat(B2) * sum_b);
    y[3] = scaled_sum(A2 * A, difference_a, scaled_sum(B2 * B, difference_b, m[5]));
}

/* Four gradients of outputs: the transpose of output_line. */
INLINE void gradient_line(const vec y[4], vec d[6])
{
    const vec even_a = scaled_sum(A2, y[2], y[0]), odd_a = scaled_sum(A2, y[3], y[1]);
    const vec even_b = scaled_sum(B2, y[2], y[0]), odd_b = scaled_sum(B2, y[3], y[1]);
    d[0] = y[0];
    d[1] = scaled_sum(A, odd_a, even_a);
    d[2] = scaled_sum(-A, odd_a, even_a);
    d[3] = scaled_sum(B, odd_b, even_b);
    d[4] = scaled_sum(-B, odd_b, even_b);
    d[5] = y[3];
}

/* Three weights. */
INLINE void weights_line(const vec w[3], vec u[6])
{
    const vec even_a = splat(SCALE_A) * scaled_sum(A2, w[2], w[0]), odd_a = splat(A * SCALE_A) * w[1];
    const vec even_b = splat(SCALE_B) * scaled_sum(B2, w[2], w[0]), odd_b = splat(B * SCALE_B) * w[1];
    u[0] = splat(SCALE_0) * w[0];
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = w[2];
}

/* Six sums to three gradients of weights: the transpose of weights_line. */
INLINE void weights_gradient_line(const vec m[6], vec w[3])
{
    const vec sum_a = m[1] + m[2], difference_a = m[1] - m[2], sum_b = m[3] + m[4], difference_b = m[3] - m[4];
    w[0] = scaled_sum(SCALE_0, m[0], scaled_sum(SCALE_A, sum_a, splat(SCALE_B) * sum_b));
    w[1] = scaled_sum(A * SCALE_A, difference_a, splat(B * SCALE_B) * difference_b);
    w[2] = scaled_sum(A2 * SCALE_A, sum_a, scaled_sum(B2 * SCALE_B, sum_b, m[5]));
}

/* ---- tiles ---- */

typedef struct place {
    uint64_t image, y, x;
} place;

INLINE place place_of(const winograd_grid *g, uint64_t tile)
{
    return (place){tile / (g->down * g->across), tile / g->across % g->down, tile % g->across};
}

INLINE void place_next(const winograd_grid *g, place *p)
{
    if (++p->x < g->across)
        return;
    p->x = 0;
    if (++p->y < g->down)
        return;
    p->y = 0;
    p->image++;
}

/* The part of a tile of n rows and columns that is inside of the tensor. */
typedef struct window {
    int64_t top, left;                      /* of the tile, from the tensor's corner */
    int64_t first_row, end_row, first, end; /* of the tile, inside of the tensor */
    uint64_t offset;                        /* of the tensor's block, floats */
} window;

INLINE window window_of(const winograd_grid *g, place p, uint64_t block, int64_t n)
{
    window w = {.top = (int64_t)p.y * WINOGRAD_OUT - g->before[0], .left = (int64_t)p.x * WINOGRAD_OUT - g->before[1]};
    const int64_t rows = (int64_t)g->height - w.top, columns = (int64_t)g->width - w.left;
    w.first_row = w.top < 0 ? -w.top : 0;
    w.first = w.left < 0 ? -w.left : 0;
    w.end_row = rows < n ? rows : n;
    w.end = columns < n ? columns : n;
    w.offset = (p.image * g->n_blocks + block) * g->height * g->width * LANES;
    return w;
}

INLINE uint64_t at(const winograd_grid *g, const window *w, int64_t row, int64_t column)
{
    return w->offset + (uint64_t)((w->top + row) * (int64_t)g->width + w->left + column) * LANES;
}

/* Where a tile of n rows and columns lies, *row elements from one row to the next: in x, or in `copy` with zeros for what is
 * outside of the tensor. */
INLINE const void *tile_of(comet_dtype type, const winograd_grid *g, const window *w, const void *x, int n, void *copy,
                           uint64_t *row)
{
    if (w->first_row == 0 && w->first == 0 && w->end_row == n && w->end == n) {
        *row = g->width * LANES;
        return elements_from(type, x, at(g, w, 0, 0));
    }
    *row = (uint64_t)n * LANES;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const bool inside = i >= w->first_row && i < w->end_row && k >= w->first && k < w->end;
            store_at(type, copy, (uint64_t)(i * n + k) * LANES, inside ? load_from(type, x, at(g, w, i, k)) : (vec){0});
        }
    return copy;
}

INLINE void source_of(comet_dtype type, const winograd_grid *g, winograd_tiles t, const void *src, float *v, uint64_t points)
{
    place p = place_of(g, t.first);
    float copy[WINOGRAD_IN * WINOGRAD_IN * LANES];
    for (uint64_t tile = 0; tile < t.n; tile++, place_next(g, &p), v += LANES) {
        const window w = window_of(g, p, t.block, WINOGRAD_IN);
        uint64_t row;
        const void *x = tile_of(type, g, &w, src, WINOGRAD_IN, copy, &row);
        vec half[6][6];
        UNROLL
        for (uint64_t i = 0; i < 6; i++) {
            vec line[6];
            UNROLL
            for (uint64_t k = 0; k < 6; k++)
                line[k] = load_from(type, x, i * row + k * LANES);
            source_line(line, half[i]);
        }
        UNROLL
        for (uint64_t k = 0; k < 6; k++) {
            const vec column[6] = {half[0][k], half[1][k], half[2][k], half[3][k], half[4][k], half[5][k]};
            vec done[6];
            source_line(column, done);
            UNROLL
            for (uint64_t i = 0; i < 6; i++)
                store(v + (i * 6 + k) * points, done[i]);
        }
    }
}

static void source(comet_dtype type, const winograd_grid *g, winograd_tiles t, const void *src, float *v, uint64_t points)
{
    if (type == COMET_DTYPE_BF16)
        source_of(COMET_DTYPE_BF16, g, t, src, v, points);
    else
        source_of(COMET_DTYPE_F32, g, t, src, v, points);
}

INLINE void gradient_of(comet_dtype type, const winograd_grid *g, winograd_tiles t, const void *dst, float *d, uint64_t points)
{
    place p = place_of(g, t.first);
    float copy[WINOGRAD_OUT * WINOGRAD_OUT * LANES];
    for (uint64_t tile = 0; tile < t.n; tile++, place_next(g, &p), d += LANES) {
        const window w = window_of(g, p, t.block, WINOGRAD_OUT);
        uint64_t row;
        const void *y = tile_of(type, g, &w, dst, WINOGRAD_OUT, copy, &row);
        vec half[4][6];
        UNROLL
        for (uint64_t i = 0; i < 4; i++) {
            vec line[4];
            UNROLL
            for (uint64_t k = 0; k < 4; k++)
                line[k] = load_from(type, y, i * row + k * LANES);
            gradient_line(line, half[i]);
        }
        UNROLL
        for (uint64_t k = 0; k < 6; k++) {
            const vec column[4] = {half[0][k], half[1][k], half[2][k], half[3][k]};
            vec done[6];
            gradient_line(column, done);
            UNROLL
            for (uint64_t i = 0; i < 6; i++)
                store(d + (i * 6 + k) * points, done[i]);
        }
    }
}

static void gradient(comet_dtype type, const winograd_grid *g, winograd_tiles t, const void *dst, float *d, uint64_t points)
{
    if (type == COMET_DTYPE_BF16)
        gradient_of(COMET_DTYPE_BF16, g, t, dst, d, points);
    else
        gradient_of(COMET_DTYPE_F32, g, t, dst, d, points);
}

INLINE vec finished(comet_dtype type, vec y, const winograd_finish *f, vec bias, const void *dst, uint64_t there)
{
    if (f->bias)
        y += bias;
    if (f->adds)
        y += load_from(type, dst, there);
    if (f->relu)
        y = (vec)((lanes_of_bits)y & ~(y < (vec){0})); /* NaN goes on */
    return y;
}

INLINE void output_of(comet_dtype type, const winograd_grid *g, winograd_tiles t, const float *m, uint64_t points,
                      const winograd_finish *f, void *dst)
{
    place p = place_of(g, t.first);
    const vec bias = f->bias ? load(f->bias) : (vec){0};
    for (uint64_t tile = 0; tile < t.n; tile++, place_next(g, &p), m += LANES) {
        const window w = window_of(g, p, t.block, WINOGRAD_OUT);
        vec half[6][4];
        UNROLL
        for (uint64_t i = 0; i < 6; i++) {
            vec line[6];
            UNROLL
            for (uint64_t k = 0; k < 6; k++)
                line[k] = load(m + (i * 6 + k) * points);
            output_line(line, half[i]);
        }
        UNROLL
        for (int k = 0; k < 4; k++) {
            const vec column[6] = {half[0][k], half[1][k], half[2][k], half[3][k], half[4][k], half[5][k]};
            vec y[4];
            output_line(column, y);
            UNROLL
            for (int i = 0; i < 4; i++) {
                if (i >= w.end_row || k >= w.end)
                    continue;
                const uint64_t there = at(g, &w, i, k);
                store_at(type, dst, there, finished(type, y[i], f, bias, dst, there));
            }
        }
    }
}

static void output(comet_dtype type, const winograd_grid *g, winograd_tiles t, const float *m, uint64_t points,
                   const winograd_finish *f, void *dst)
{
    if (type == COMET_DTYPE_BF16)
        output_of(COMET_DTYPE_BF16, g, t, m, points, f, dst);
    else
        output_of(COMET_DTYPE_F32, g, t, m, points, f, dst);
}

/* ---- weights ---- */

/* The lanes of row r become lane r of each row. */
static void transpose(const float *from, float *to)
{
    for (size_t i = 0; i < LANES; i++)
        for (size_t k = 0; k < LANES; k++)
            to[k * LANES + i] = from[i * LANES + k];
}

static void weights(const float *w, bool turned, float *u, uint64_t points)
{
    float other[WINOGRAD_TAPS * LANES * LANES];
    if (turned) {
        for (size_t tap = 0; tap < WINOGRAD_TAPS; tap++)
            transpose(w + (WINOGRAD_TAPS - 1 - tap) * LANES * LANES, other + tap * LANES * LANES);
        w = other;
    }
    for (size_t channel = 0; channel < LANES; channel++, w += LANES, u += LANES) {
        vec half[3][6];
        UNROLL
        for (size_t i = 0; i < 3; i++) {
            vec line[3];
            UNROLL
            for (size_t k = 0; k < 3; k++)
                line[k] = load(w + (i * 3 + k) * LANES * LANES);
            weights_line(line, half[i]);
        }
        UNROLL
        for (size_t k = 0; k < 6; k++) {
            const vec column[3] = {half[0][k], half[1][k], half[2][k]};
            vec done[6];
            weights_line(column, done);
            UNROLL
            for (size_t i = 0; i < 6; i++)
                store(u + (i * 6 + k) * points, done[i]);
        }
    }
}

static void weights_gradient(const float *du, uint64_t points, float *dw)
{
    for (size_t channel = 0; channel < LANES; channel++, du += LANES, dw += LANES) {
        vec half[6][3];
        UNROLL
        for (size_t i = 0; i < 6; i++) {
            vec line[6];
            UNROLL
            for (size_t k = 0; k < 6; k++)
                line[k] = load(du + (i * 6 + k) * points);
            weights_gradient_line(line, half[i]);
        }
        UNROLL
        for (size_t k = 0; k < 3; k++) {
            const vec column[6] = {half[0][k], half[1][k], half[2][k], half[3][k], half[4][k], half[5][k]};
            vec done[3];
            weights_gradient_line(column, done);
            UNROLL
            for (size_t i = 0; i < 3; i++)
                store(dw + (i * 3 + k) * LANES * LANES, done[i]);
        }
    }
}

/* ---- products ---- */

/* n_tiles tiles and n_vectors vectors, both constant in each call: all sums stay in registers. */
INLINE void product_group(const winograd_product *p, const float *v, float *m, int n_tiles, int n_vectors)
{
    vec sums[TILE_GROUP][WINOGRAD_VECTORS];
    const float *u = p->u;
    UNROLL
    for (int t = 0; t < n_tiles; t++)
        UNROLL
    for (int k = 0; k < n_vectors; k++)
        sums[t][k] = (vec){0};
    for (uint64_t block = 0; block < p->n_blocks; block++, v += p->v_blocks)
        for (int channel = 0; channel < LANES; channel++, u += LANES) {
            vec factors[WINOGRAD_VECTORS];
            UNROLL
            for (int k = 0; k < n_vectors; k++)
                factors[k] = load(u + (uint64_t)k * p->u_vectors);
            UNROLL
            for (int t = 0; t < n_tiles; t++) {
                const vec x = splat(v[t * LANES + channel]);
                UNROLL
                for (int k = 0; k < n_vectors; k++)
                    sums[t][k] = MULTIPLY_ADD(x, factors[k], sums[t][k]);
            }
        }
    UNROLL
    for (int t = 0; t < n_tiles; t++)
        UNROLL
    for (int k = 0; k < n_vectors; k++)
        store(m + (uint64_t)k * p->m_vectors + (uint64_t)t * LANES, sums[t][k]);
}

#define GROUP_OF(n)                                      \
    case n:                                              \
        if (p->n_vectors == WINOGRAD_VECTORS)            \
            product_group(p, v, m, n, WINOGRAD_VECTORS); \
        else                                             \
            product_group(p, v, m, n, 1);                \
        break;

static void product_of(const winograd_product *p, const float *v, float *m, uint64_t n_tiles)
{
    switch (n_tiles) {
        GROUP_OF(1)
        GROUP_OF(2)
        GROUP_OF(3)
        GROUP_OF(4)
        GROUP_OF(5)
        GROUP_OF(6)
#if TILE_GROUP > 6
        GROUP_OF(7)
        GROUP_OF(8)
        GROUP_OF(9)
        GROUP_OF(10)
        GROUP_OF(11)
        GROUP_OF(12)
        GROUP_OF(13)
        GROUP_OF(14)
#endif
    }
}

/* Groups of about equal size. */
static void product(const winograd_product *p)
{
    const uint64_t n = (p->n_tiles + TILE_GROUP - 1) / TILE_GROUP;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t first = p->n_tiles * i / n, end = p->n_tiles * (i + 1) / n;
        product_of(p, p->v + first * LANES, p->m + first * LANES, end - first);
    }
}

/* CHANNEL_GROUP channels from `channel` on, and n_vectors vectors, which is constant in each call. */
INLINE void gram_group(const winograd_gram *g, uint64_t channel, int n_vectors)
{
    vec sums[CHANNEL_GROUP][WINOGRAD_VECTORS];
    const float *v = g->v + channel, *d = g->d;
    UNROLL
    for (int c = 0; c < CHANNEL_GROUP; c++)
        UNROLL
    for (int k = 0; k < n_vectors; k++)
        sums[c][k] = (vec){0};
    for (uint64_t t = 0; t < g->n_tiles; t++, v += LANES, d += LANES) {
        vec factors[WINOGRAD_VECTORS];
        UNROLL
        for (int k = 0; k < n_vectors; k++)
            factors[k] = load(d + (uint64_t)k * g->d_vectors);
        UNROLL
        for (int c = 0; c < CHANNEL_GROUP; c++) {
            const vec x = splat(v[c]);
            UNROLL
            for (int k = 0; k < n_vectors; k++)
                sums[c][k] = MULTIPLY_ADD(x, factors[k], sums[c][k]);
        }
    }
    UNROLL
    for (int c = 0; c < CHANNEL_GROUP; c++)
        UNROLL
    for (int k = 0; k < n_vectors; k++) {
        float *du = g->du + (uint64_t)k * g->du_vectors + (channel + (uint64_t)c) * LANES;
        store(du, g->first ? sums[c][k] : load(du) + sums[c][k]);
    }
}

static void gram(const winograd_gram *g)
{
    for (uint64_t channel = 0; channel < LANES; channel += CHANNEL_GROUP)
        if (g->n_vectors == WINOGRAD_VECTORS)
            gram_group(g, channel, WINOGRAD_VECTORS);
        else
            gram_group(g, channel, 1);
}

static void sum(comet_dtype type, const void *x, uint64_t n, float *sums)
{
    vec s = {0};
    for (uint64_t i = 0; i < n; i++)
        s += type == COMET_DTYPE_BF16 ? load_from(COMET_DTYPE_BF16, x, i * LANES) : load_from(COMET_DTYPE_F32, x, i * LANES);
    store(sums, s);
}

const winograd_kernels KERNELS = {
    .lanes = LANES,
    .source = source,
    .gradient = gradient,
    .output = output,
    .weights = weights,
    .weights_gradient = weights_gradient,
    .product = product,
    .gram = gram,
    .sum = sum,
};
