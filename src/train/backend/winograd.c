/*
 * Winograd's F(4 x 4, 3 x 3): y = A' [(G w G') o (B' x B)] A for every tile of 4 x 4 outputs, which depends on 6 x 6 inputs, w
 * being 3 x 3 weights and o the product of each of 36 points. Summed over input channels, the products of a point are those of
 * two matrices: tiles x inputs and inputs x outputs.
 *
 *   forward           v = B' x B, u = G w G', m = v u for each point, y = A' m A
 *   backward data     the same with the gradient of y, and weights rotated by half a turn with inputs and outputs exchanged
 *   backward weights  v = B' x B, d = A dy A', du = v' d for each point (a sum over tiles), dw = G' du G
 *
 * Two schedules of the first two. Where weights are small, u is computed once; then each thread takes some tiles at a time,
 * as many as fit its second-level cache, from source to destination. Where weights are large and tiles few, v is computed
 * for many tiles; then each thread takes two blocks of outputs at a time, transforms their weights, and goes through the tiles.
 *
 * Gradients of weights take slices of the tiles, one after another, and du adds up over them. Where one slice has all tiles, du
 * and d are made for a few blocks of outputs at a time, since nothing is added to them later: of 512 x 512 channels they are 4
 * of 36 MiB and 1 of 9.
 *
 * Which thread takes what is decided while it runs, so that a late thread does less. Every sum has one order whoever computes
 * it.
 */
#include "train/backend/winograd.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "comet/base.h"
#include "train/backend/element.h"
#include "train/backend/parallel.h"

enum {
    LINE = 16,                /* floats of a cache line */
    TILE_CACHE = 640 << 10,   /* bytes of a thread's v and m */
    GRAM_SLICE = 6 << 20,     /* bytes of v and d together: they stay in the last-level cache */
    GRAM_SUMS = 6 << 20,      /* bytes of du, where it is made for a few blocks of outputs at a time */
    LARGE_WEIGHTS = 16 << 20, /* bytes of u from which channels are outside */
    TILE_STEP = 14,
};

static const winograd_kernels *kernels_now(void)
{
#ifdef COMET_HAVE_AVX512
    if (comet_isa_active() == COMET_ISA_AVX512)
        return &winograd_kernels_avx512;
#endif
#ifdef COMET_HAVE_AVX2
    if (comet_isa_active() == COMET_ISA_AVX2)
        return &winograd_kernels_avx2;
#endif
    return &winograd_kernels_reference;
}

size_t winograd_block(void)
{
    return kernels_now()->lanes;
}

/* ---- planning ---- */

/* An odd number of cache lines, so that the 36 points do not compete for the same places in a cache. */
static uint64_t odd_lines(uint64_t floats)
{
    return (ceil_div_u64(floats, LINE) | 1) * LINE;
}

/* Tiles of `dims` that begin at multiples of 4 less `before`. */
static winograd_grid grid_of(const uint64_t dims[3], const uint64_t outputs[3], int64_t before_y, int64_t before_x,
                             size_t lanes)
{
    return (winograd_grid){.down = ceil_div_u64(outputs[1], WINOGRAD_OUT),
                           .across = ceil_div_u64(outputs[2], WINOGRAD_OUT),
                           .height = dims[1],
                           .width = dims[2],
                           .n_blocks = ceil_div_u64(dims[0], lanes),
                           .before = {before_y, before_x}};
}

static void set_grids(winograd_plan *p)
{
    const winograd_shape *s = &p->shape;
    const size_t lanes = p->kernels->lanes;
    const int64_t y = (int64_t)s->padding[0], x = (int64_t)s->padding[1];
    if (p->pass == WINOGRAD_BACKWARD_DATA) {
        p->from = grid_of(s->out, s->in, 2 - y, 2 - x, lanes);
        p->to = grid_of(s->in, s->in, 0, 0, lanes);
    } else {
        p->from = grid_of(s->in, s->out, y, x, lanes);
        p->to = grid_of(s->out, s->out, 0, 0, lanes);
    }
    p->n_from = p->from.n_blocks;
    p->n_to = p->to.n_blocks;
    p->n_tiles = s->batch * p->to.down * p->to.across;
}

/* Bytes of v and m a tile. */
static uint64_t tile_bytes(const winograd_plan *p)
{
    return sizeof(float) * WINOGRAD_POINTS * p->kernels->lanes * (p->n_from + WINOGRAD_VECTORS);
}

static uint64_t weights_floats(const winograd_plan *p, uint64_t n_outputs)
{
    return odd_lines(p->n_from * p->kernels->lanes * n_outputs * p->kernels->lanes);
}

static void plan_tiles_outside(winograd_plan *p)
{
    const size_t lanes = p->kernels->lanes;
    const uint64_t fit = TILE_CACHE / tile_bytes(p) / TILE_STEP * TILE_STEP;
    const uint64_t share = ceil_div_u64(ceil_div_u64(p->n_tiles, 8), TILE_STEP) * TILE_STEP;
    p->tiles = min_u64(fit > TILE_STEP ? fit : TILE_STEP, share);
    p->v_points = odd_lines(p->n_from * p->tiles * lanes);
    p->m_points = odd_lines(WINOGRAD_VECTORS * p->tiles * lanes);
    p->u_points = weights_floats(p, p->n_to);
    p->n_threads = min_u64(p->n_threads, ceil_div_u64(p->n_tiles, p->tiles));
    p->shared_floats = WINOGRAD_POINTS * p->u_points;
    p->thread_floats = WINOGRAD_POINTS * (p->v_points + p->m_points);
}

static void plan_channels_outside(winograd_plan *p, uint64_t tiles)
{
    const size_t lanes = p->kernels->lanes;
    p->channels_outside = true;
    p->tiles = tiles;
    p->v_points = odd_lines(p->n_from * p->tiles * lanes);
    p->m_points = odd_lines(WINOGRAD_VECTORS * p->tiles * lanes);
    p->u_points = weights_floats(p, WINOGRAD_VECTORS);
    p->n_threads = min_u64(p->n_threads, ceil_div_u64(p->n_to, WINOGRAD_VECTORS));
    p->shared_floats = WINOGRAD_POINTS * p->v_points;
    p->thread_floats = WINOGRAD_POINTS * (p->u_points + p->m_points);
}

/* Blocks of outputs whose sums are made at once. */
static uint64_t blocks_at_once(const winograd_plan *p)
{
    const uint64_t pair = sizeof(float) * WINOGRAD_POINTS * weights_floats(p, WINOGRAD_VECTORS);
    const uint64_t blocks = max_u64(GRAM_SUMS / pair, 1) * WINOGRAD_VECTORS;
    return p->tiles < p->n_tiles ? p->n_to : min_u64(blocks, p->n_to);
}

static void plan_weights(winograd_plan *p)
{
    const size_t lanes = p->kernels->lanes;
    const uint64_t bytes = sizeof(float) * WINOGRAD_POINTS * lanes * (p->n_from + p->n_to);
    const uint64_t fit = GRAM_SLICE / bytes;
    p->tiles = min_u64(fit < 128 ? 128 : fit, p->n_tiles);
    p->blocks = blocks_at_once(p);
    p->v_points = odd_lines(p->n_from * p->tiles * lanes);
    p->m_points = odd_lines(p->blocks * p->tiles * lanes);
    p->u_points = weights_floats(p, p->blocks);
    p->shared_floats = WINOGRAD_POINTS * (p->v_points + p->m_points + p->u_points);
    p->thread_floats = 0;
}

uint64_t winograd_scratch_bytes(const winograd_plan *p)
{
    return sizeof(float) * (p->shared_floats + p->n_threads * p->thread_floats);
}

bool winograd_make(const winograd_shape *s, winograd_pass pass, size_t n_threads, uint64_t scratch_bytes, winograd_plan *out)
{
    winograd_plan p = {.shape = *s, .pass = pass, .kernels = kernels_now(), .n_threads = n_threads > 0 ? n_threads : 1};
    if (s->padding[0] > 2 || s->padding[1] > 2)
        return false;
    set_grids(&p);
    if (p.n_tiles == 0)
        return false;
    if (pass == WINOGRAD_BACKWARD_WEIGHTS) {
        plan_weights(&p);
    } else if (WINOGRAD_POINTS * weights_floats(&p, p.n_to) * sizeof(float) < LARGE_WEIGHTS) {
        plan_tiles_outside(&p);
    } else {
        for (uint64_t n = 1; n <= s->batch; n++) {
            plan_channels_outside(&p, ceil_div_u64(s->batch, n) * p.to.down * p.to.across);
            if (winograd_scratch_bytes(&p) <= scratch_bytes)
                break;
        }
    }
    if (winograd_scratch_bytes(&p) > scratch_bytes)
        return false;
    *out = p;
    return true;
}

/* Measured with AVX-512 and AVX2, one thread and two: with a few tiles, the transforms of weights outweigh what is saved; in
 * small outputs most of a tile lies outside; channels that fill less than a block are computed for nothing. */
bool winograd_pays(const winograd_shape *s)
{
    enum { FEW_TILES = 24 };
    const uint64_t down = ceil_div_u64(s->out[1], WINOGRAD_OUT), across = ceil_div_u64(s->out[2], WINOGRAD_OUT);
    const uint64_t lanes = winograd_block(), used = s->out[1] * s->out[2],
                   covered = WINOGRAD_OUT * WINOGRAD_OUT * down * across;
    return s->in[0] >= lanes && s->out[0] >= lanes && s->batch * down * across >= FEW_TILES && 2 * used >= covered;
}

/* ---- running ---- */

typedef struct job {
    const winograd_plan *p;
    const void *src, *diff_dst;
    const float *weights, *bias;
    void *dst;
    float *diff_weights, *diff_bias;
    float *shared, *private;
    uint64_t first_tile, n_tiles;   /* of a slice */
    uint64_t first_block, n_blocks; /* of outputs whose gradients of weights are made */
    uint64_t n_items;
    void (*item)(const struct job *j, uint64_t item, float *private);
    atomic_uint_fast64_t *next;
} job;

static void work(void *arg, size_t thread)
{
    const job *j = arg;
    for (;;) {
        const uint64_t item = atomic_fetch_add_explicit(j->next, 1, memory_order_relaxed);
        if (item >= j->n_items)
            return;
        j->item(j, item, j->private + thread * j->p->thread_floats);
    }
}

static void run_items(job *j, uint64_t n, void (*item)(const job *j, uint64_t item, float *private))
{
    atomic_uint_fast64_t next;
    atomic_init(&next, 0);
    j->next = &next;
    j->n_items = n;
    j->item = item;
    parallel_run(NULL, min_u64(n, j->p->n_threads), work, j);
}

/* Weights of output block `to` and input block `from`, in the direction of the pass. */
static void transform_weights(const job *j, uint64_t to, uint64_t from, float *u)
{
    const winograd_plan *p = j->p;
    const bool turned = p->pass == WINOGRAD_BACKWARD_DATA;
    const uint64_t square = p->kernels->lanes * p->kernels->lanes;
    const uint64_t index = turned ? from * p->n_to + to : to * p->n_from + from;
    p->kernels->weights(j->weights + index * WINOGRAD_TAPS * square, turned, u, p->u_points);
}

static void prepare_weights(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t square = p->kernels->lanes * p->kernels->lanes;
    (void)private;
    for (uint64_t from = 0; from < p->n_from; from++)
        transform_weights(j, item, from, j->shared + (item * p->n_from + from) * square);
}

/* The outputs of blocks [block, block + n_vectors) from sources v and weights u of these blocks. */
static void multiply_out(const job *j, winograd_tiles t, uint64_t n_vectors, const float *v, const float *u, float *m)
{
    const winograd_plan *p = j->p;
    const uint64_t lanes = p->kernels->lanes, block = t.block;
    winograd_product product = {.v_blocks = p->tiles * lanes,
                                .u_vectors = p->n_from * lanes * lanes,
                                .m_vectors = p->tiles * lanes,
                                .n_tiles = t.n,
                                .n_blocks = p->n_from,
                                .n_vectors = n_vectors};
    for (uint64_t point = 0; point < WINOGRAD_POINTS; point++) {
        product.v = v + point * p->v_points;
        product.u = u + point * p->u_points;
        product.m = m + point * p->m_points;
        p->kernels->product(&product);
    }
    for (uint64_t k = 0; k < n_vectors; k++) {
        float bias[LINE] = {0};
        winograd_finish finish = {.relu = p->shape.relu, .adds = p->shape.adds};
        if (j->bias) {
            const uint64_t first = (block + k) * lanes;
            memcpy(bias, j->bias + first, min_u64(lanes, p->shape.out[0] - first) * sizeof *bias);
            finish.bias = bias;
        }
        t.block = block + k;
        p->kernels->output(p->shape.type, &p->to, t, m + k * product.m_vectors, p->m_points, &finish, j->dst);
    }
}

static void do_tiles(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t lanes = p->kernels->lanes, first = item * p->tiles;
    winograd_tiles t = {.first = first, .n = min_u64(p->tiles, p->n_tiles - first)};
    float *v = private, *m = v + WINOGRAD_POINTS * p->v_points;
    for (; t.block < p->n_from; t.block++)
        p->kernels->source(p->shape.type, &p->from, t, j->src, v + t.block * p->tiles * lanes, p->v_points);
    for (t.block = 0; t.block < p->n_to; t.block += WINOGRAD_VECTORS)
        multiply_out(j, t, min_u64(WINOGRAD_VECTORS, p->n_to - t.block), v, j->shared + t.block * p->n_from * lanes * lanes, m);
}

/* ---- channels outside ---- */

enum { STEP = 16 }; /* tiles that are transformed at once */

static void transform_sources(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t lanes = p->kernels->lanes, steps = ceil_div_u64(j->n_tiles, STEP), first = item % steps * STEP;
    const winograd_tiles t = {j->first_tile + first, min_u64(STEP, j->n_tiles - first), item / steps};
    (void)private;
    p->kernels->source(p->shape.type, &p->from, t, j->src, j->shared + (t.block * p->tiles + first) * lanes, p->v_points);
}

static void do_outputs(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t square = p->kernels->lanes * p->kernels->lanes, block = item * WINOGRAD_VECTORS;
    const uint64_t n_vectors = min_u64(WINOGRAD_VECTORS, p->n_to - block);
    const winograd_tiles t = {j->first_tile, j->n_tiles, block};
    float *u = private, *m = u + WINOGRAD_POINTS * p->u_points;
    for (uint64_t k = 0; k < n_vectors; k++)
        for (uint64_t from = 0; from < p->n_from; from++)
            transform_weights(j, block + k, from, u + (k * p->n_from + from) * square);
    multiply_out(j, t, n_vectors, j->shared, u, m);
}

static void set_slice(job *j, uint64_t first)
{
    j->first_tile = first;
    j->n_tiles = min_u64(j->p->tiles, j->p->n_tiles - first);
}

void winograd_run_data(const winograd_plan *p, const void *src, const float *weights, const float *bias, void *dst,
                       float *scratch)
{
    job j = {.p = p, .src = src, .weights = weights, .bias = bias, .dst = dst, .shared = scratch};
    j.private = scratch + p->shared_floats;
    if (!p->channels_outside) {
        run_items(&j, p->n_to, prepare_weights);
        run_items(&j, ceil_div_u64(p->n_tiles, p->tiles), do_tiles);
        return;
    }
    for (uint64_t first = 0; first < p->n_tiles; first += p->tiles) {
        set_slice(&j, first);
        run_items(&j, ceil_div_u64(j.n_tiles, STEP) * p->n_from, transform_sources);
        run_items(&j, ceil_div_u64(p->n_to, WINOGRAD_VECTORS), do_outputs);
    }
}

/* ---- gradients of weights ---- */

static float *gram_gradients(const job *j)
{
    return j->shared + WINOGRAD_POINTS * j->p->v_points;
}

static float *gram_sums(const job *j)
{
    return gram_gradients(j) + WINOGRAD_POINTS * j->p->m_points;
}

/* Items of the gradient, then of the sources. */
static void transform_both(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t lanes = p->kernels->lanes, steps = ceil_div_u64(j->n_tiles, STEP), first = item % steps * STEP;
    const uint64_t block = item / steps;
    const winograd_tiles t = {j->first_tile + first, min_u64(STEP, j->n_tiles - first), j->first_block + block};
    if (block < j->n_blocks)
        p->kernels->gradient(p->shape.type, &p->to, t, j->diff_dst, gram_gradients(j) + (block * p->tiles + first) * lanes,
                             p->m_points);
    else
        transform_sources(j, item - j->n_blocks * steps, private);
}

/* One point and two blocks of outputs. */
static void sum_tiles(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t lanes = p->kernels->lanes, square = lanes * lanes, pairs = ceil_div_u64(j->n_blocks, WINOGRAD_VECTORS);
    const uint64_t point = item / pairs, block = item % pairs * WINOGRAD_VECTORS;
    winograd_gram g = {.d = gram_gradients(j) + point * p->m_points + block * p->tiles * lanes,
                       .d_vectors = p->tiles * lanes,
                       .du_vectors = p->n_from * square,
                       .n_tiles = j->n_tiles,
                       .n_vectors = min_u64(WINOGRAD_VECTORS, j->n_blocks - block),
                       .first = j->first_tile == 0};
    (void)private;
    for (uint64_t from = 0; from < p->n_from; from++) {
        g.v = j->shared + point * p->v_points + from * p->tiles * lanes;
        g.du = gram_sums(j) + point * p->u_points + (block * p->n_from + from) * square;
        p->kernels->gram(&g);
    }
}

static void finish_weights(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t square = p->kernels->lanes * p->kernels->lanes, index = j->first_block * p->n_from + item;
    (void)private;
    p->kernels->weights_gradient(gram_sums(j) + item * square, p->u_points, j->diff_weights + index * WINOGRAD_TAPS * square);
}

/* The bias of one block of outputs: sums of rows in float, of rows in double. */
static void sum_bias(const job *j, uint64_t item, float *private)
{
    const winograd_plan *p = j->p;
    const uint64_t lanes = p->kernels->lanes, area = p->to.height * p->to.width, first = item * lanes;
    double sums[LINE] = {0};
    (void)private;
    for (uint64_t row = 0; row < p->shape.batch * p->to.height; row++) {
        float partial[LINE];
        const uint64_t image = row / p->to.height, y = row % p->to.height;
        const uint64_t at = ((image * p->n_to + item) * area + y * p->to.width) * lanes;
        p->kernels->sum(p->shape.type, elements_from(p->shape.type, j->diff_dst, at), p->to.width, partial);
        for (uint64_t l = 0; l < lanes; l++)
            sums[l] += (double)partial[l];
    }
    for (uint64_t l = 0; l < min_u64(lanes, p->shape.out[0] - first); l++)
        j->diff_bias[first + l] = (float)sums[l];
}

/* Sources are transformed for the first blocks; the others find them there, since they all lie in one slice. */
static void weights_of_blocks(job *j, uint64_t first_block)
{
    const winograd_plan *p = j->p;
    j->first_block = first_block;
    j->n_blocks = min_u64(p->blocks, p->n_to - first_block);
    for (uint64_t first = 0; first < p->n_tiles; first += p->tiles) {
        set_slice(j, first);
        run_items(j, ceil_div_u64(j->n_tiles, STEP) * (j->n_blocks + (first_block == 0 ? p->n_from : 0)), transform_both);
        run_items(j, WINOGRAD_POINTS * ceil_div_u64(j->n_blocks, WINOGRAD_VECTORS), sum_tiles);
    }
    run_items(j, j->n_blocks * p->n_from, finish_weights);
}

void winograd_run_weights(const winograd_plan *p, const void *src, const void *diff_dst, float *diff_weights, float *diff_bias,
                          float *scratch)
{
    job j = {.p = p, .src = src, .diff_dst = diff_dst, .diff_weights = diff_weights, .diff_bias = diff_bias};
    j.shared = j.private = scratch;
    for (uint64_t block = 0; block < p->n_to; block += p->blocks)
        weights_of_blocks(&j, block);
    if (diff_bias)
        run_items(&j, p->n_to, sum_bias);
}
