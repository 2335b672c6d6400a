/*
 * Elements to payload: quantise, choose, predict, code. A chunk is raw where that takes no more bytes.
 *
 * Level fast goes tile by tile, so that memory is read while bits are packed: the choice is made beforehand, on the codes of a
 * few runs. The other ways need all the codes first.
 */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "codec/blocks.h"
#include "codec/choice.h"
#include "codec/dense.h"
#include "codec/elements.h"
#include "codec/linear.h"
#include "codec/parts.h"

void chunk_stats_init(chunk_stats *stats)
{
    *stats = (chunk_stats){.min = INFINITY, .max = -INFINITY};
}

/* A chunk while it is encoded. */
typedef struct chunk {
    const chunk_plan *plan;
    workspace *ws;
    const uint8_t *x;
    size_t n, element;
    quantiser quantiser;
    enum code_width width;
    uint8_t *codes;
    uint64_t *failed;
    uint64_t n_failed;
    moments moments;
    summary figures;
    wave_shape wave;
} chunk;

/* ---- codes ---- */

/* Sets the code width, zeroes what lies before the codes and, up to a whole block, after them, and resets the counts. */
static void begin_codes(chunk *c, enum code_width width)
{
    uint8_t *start = c->ws->codes.data;
    size_t size = code_bytes(width), blocks = (c->n + BLOCK - 1) / BLOCK;
    c->width = width;
    c->codes = codes_of(c->ws, c->plan, width);
    c->n_failed = 0;
    c->moments = (moments){.min = INFINITY, .max = -INFINITY};
    memset(start, 0, (size_t)(c->codes - start));
    memset(c->codes + c->n * size, 0, (blocks * BLOCK - c->n) * size);
}

static void count_failed(chunk *c, size_t i, size_t n)
{
    for (size_t b = i / BLOCK; b * BLOCK < i + n; b++)
        if (c->failed[b])
            c->n_failed += (uint64_t)__builtin_popcountll(c->failed[b]);
}

/* Elements [i, i + n) of the chunk, n <= QUANT_TILE, i at the start of a block. */
static void quantise_tile(chunk *c, size_t i, size_t n)
{
    c->plan->kernels->quantise[c->width][c->plan->dtype](&c->quantiser, c->x + i * c->element, n, (uint32_t)i,
                                                         c->codes + i * code_bytes(c->width), c->failed + i / BLOCK,
                                                         &c->moments);
    count_failed(c, i, n);
}

static void quantise_all(chunk *c, enum code_width width)
{
    begin_codes(c, width);
    for (size_t i = 0; i < c->n; i += QUANT_TILE)
        quantise_tile(c, i, (size_t)min_u64(QUANT_TILE, c->n - i));
}

/* Part of a chunk in whole blocks, at most QUANT_TILE elements. */
typedef struct span {
    size_t begin, end;
} span;

/* The blocks around elements [begin, end), as far as they lie in the chunk; begin may be negative. */
static span span_around(const chunk *c, ptrdiff_t begin, ptrdiff_t end)
{
    size_t first = begin < 0 ? 0 : (size_t)begin / BLOCK * BLOCK, past = end < 0 ? 0 : (size_t)end;
    past = (past + BLOCK - 1) / BLOCK * BLOCK;
    return (span){first, past < c->n ? past : c->n};
}

/* Quantises only what choose_coding looks at: runs, their left neighbours, and both for the line above. The elements are
 * prefetched together first, since they lie far apart. */
static void quantise_sample(chunk *c, enum code_width width)
{
    size_t first[SAMPLE_RUNS], n_runs = choice_runs(c->plan, c->n, first), n_spans = 0;
    ptrdiff_t left = (ptrdiff_t)c->plan->shape.channels, up = (ptrdiff_t)c->plan->shape.line;
    span spans[4 * SAMPLE_RUNS];
    for (size_t k = 0; k < n_runs; k++)
        for (int above = 0; above < 2; above++) {
            ptrdiff_t begin = (ptrdiff_t)first[k] - (above ? up : 0), end = begin + BLOCK;
            bool near = left <= 4 * BLOCK; /* one span for both */
            spans[n_spans++] = span_around(c, near ? begin - left : begin, end);
            if (!near)
                spans[n_spans++] = span_around(c, begin - left, end - left);
        }
    for (size_t k = 0; k < n_spans; k++)
        for (size_t i = spans[k].begin * c->element; i < spans[k].end * c->element; i += 64)
            __builtin_prefetch(c->x + i, 0, 3);
    begin_codes(c, width);
    for (size_t k = 0; k < n_spans; k++)
        if (spans[k].begin < spans[k].end)
            quantise_tile(c, spans[k].begin, spans[k].end - spans[k].begin);
    begin_codes(c, width);
}

/* Turns bit patterns into integers in the order of the values, with 0 for +0. */
static void lossless_codes(chunk *c)
{
    begin_codes(c, c->element == 8 ? CODES64 : CODES32);
    int32_t *out32 = (int32_t *)(void *)c->codes;
    int64_t *out64 = (int64_t *)(void *)c->codes;
    for (size_t i = 0; i < c->n; i++) {
        const uint8_t *p = c->x + i * c->element;
        if (c->element == 2) {
            int16_t v = (int16_t)load_u16(p);
            out32[i] = v < 0 ? (int16_t)(v ^ 0x7fff) : v;
        } else if (c->element == 4) {
            int32_t v = (int32_t)load_u32(p);
            out32[i] = v < 0 ? v ^ 0x7fffffff : v;
        } else {
            int64_t v = (int64_t)load_u64(p);
            out64[i] = v < 0 ? v ^ INT64_MAX : v;
        }
    }
    memset(c->failed, 0, (c->n / BLOCK + 1) * sizeof *c->failed);
}

/* Are all elements seen so far finite and within the range of 16-bit codes? NaN and Inf show in the squares. */
static bool all_in_range(const chunk *c)
{
    double squares = 0;
    for (int i = 0; i < SUM_LANES; i++)
        squares += c->moments.sum_of_squares[i];
    double limit = (CODE16_LIMIT - 1) / (double)c->quantiser.inverse;
    return isfinite(squares) && c->moments.min > -limit && c->moments.max < limit;
}

/* Do 16-bit codes suit the elements seen so far? They do not where wider ones might have fewer outliers: never if these come
 * from rounding to a 16-bit type. */
static bool codes16_suit(const chunk *c)
{
    return c->n_failed <= c->n / 64 || (c->element == 2 && all_in_range(c));
}

/* Quantises to 16 bits, or to 32 where 16 make many outliers and 32 do not. */
static void lossy_codes(chunk *c)
{
    quantise_all(c, CODES16);
    if (!codes16_suit(c)) {
        uint64_t failed16 = c->n_failed;
        quantise_all(c, CODES32);
        if (c->n_failed > failed16 / 2)
            quantise_all(c, CODES16);
    }
}

/* Do the runs that choose_coding looks at have no zero? */
static bool sample_nonzero(const chunk *c)
{
    size_t first[SAMPLE_RUNS], n_runs = choice_runs(c->plan, c->n, first);
    for (size_t k = 0; k < n_runs; k++)
        for (size_t i = first[k]; i < first[k] + BLOCK; i++)
            if (element_value(c->plan->dtype, c->x, i) == 0)
                return false;
    return n_runs > 0;
}

/* Where many elements failed for want of a code for zero, the quantiser gets one. */
static bool zeros_after_all(chunk *c)
{
    bool many = c->quantiser.mode == QUANTISE_NONZERO && c->n_failed > c->n / 64;
    if (many)
        c->quantiser.mode = QUANTISE_SUPPORT;
    return many;
}

static void make_codes(chunk *c)
{
    if (c->plan->lossless) {
        lossless_codes(c);
        return;
    }
    lossy_codes(c);
    if (zeros_after_all(c))
        lossy_codes(c);
}

/* ---- sections of the payload ---- */

static size_t n_blocks_of(size_t n)
{
    return (n + BLOCK - 1) / BLOCK;
}

static block_writer fast_begin(const chunk *c, uint8_t *out)
{
    return blocks_write_begin(out, c->ws->aside.data, n_blocks_of(c->n));
}

static uint8_t *fast_end(const chunk *c, const block_writer *w)
{
    return blocks_write_end(w, c->ws->aside.data, n_blocks_of(c->n));
}

/* Predicts and packs the codes of elements [i, i + n). */
static void fast_tile(const chunk *c, const choice *how, size_t i, size_t n, block_writer *w)
{
    const codec_kernels *k = c->plan->kernels;
    strides s = {c->plan->shape.channels, c->plan->shape.line};
    size_t n_blocks = n_blocks_of(n);
    k->predict[c->width](how->predictor, how->identity, c->codes + i * code_bytes(c->width), n_blocks * BLOCK, s,
                         c->ws->residuals.data);
    k->pack[c->width](c->ws->residuals.data, n_blocks, i / BLOCK, w);
}

/* Returns the end. */
static uint8_t *write_fast(const chunk *c, const choice *how, uint8_t *out)
{
    block_writer w = fast_begin(c, out);
    for (size_t i = 0; i < c->n; i += QUANT_TILE)
        fast_tile(c, how, i, (size_t)min_u64(QUANT_TILE, c->n - i), &w);
    return fast_end(c, &w);
}

/* Quantises to 16 bits and writes in one pass. Returns the end, or NULL if 16 bits do not suit the elements. */
static uint8_t *quantise_and_write_fast(chunk *c, const choice *how, uint8_t *out)
{
    block_writer w = fast_begin(c, out);
    tile_job job = {.quantiser = &c->quantiser,
                    .moments = &c->moments,
                    .predictor = how->predictor,
                    .identity = how->identity,
                    .strides = {c->plan->shape.channels, c->plan->shape.line},
                    .residuals = c->ws->residuals.data,
                    .out = &w};
    int16_t *codes = (int16_t *)(void *)c->codes;
    const uint8_t *prefetch = c->ws->prefetch;
    size_t carried = codes_carried(c->plan);
    for (size_t i = 0; i < c->n; i += QUANT_TILE) {
        job.n = (size_t)min_u64(QUANT_TILE, c->n - i);
        job.first = (uint32_t)i;
        job.x = c->x + i * c->element;
        job.codes = carried ? codes : codes + i;
        if (carried && i)
            memcpy(codes - carried, codes + QUANT_TILE - carried, carried * sizeof *codes);
        job.failed = c->failed + i / BLOCK;
        job.prefetch = prefetch ? prefetch + i * c->element : NULL;
        c->n_failed += c->plan->kernels->encode_tile[c->plan->dtype](&job);
        if (!codes16_suit(c))
            return NULL;
    }
    return fast_end(c, &w);
}

/* Is the chunk coded in parts, or else raw? */
static bool in_parts(const chunk *c)
{
    return c->plan->profile == COMET_PROFILE_DEVICE && c->plan->level == COMET_LEVEL_DENSE;
}

/* Codes of 64 bits are never in parts. */
static uint8_t *write_in_parts(const chunk *c, const choice *how, uint8_t *out, size_t most)
{
    if (c->width == CODES64)
        return NULL;
    return parts_encode(c->ws, &c->plan->shape, c->width, how->predictor, how->identity, c->codes, c->n, out, most);
}

/* Writes codes dense, or fast where dense tables do not pay; *how then says which. Returns the end. */
static uint8_t *write_codes(chunk *c, choice *how, uint8_t *out, size_t most)
{
    if (in_parts(c))
        return write_in_parts(c, how, out, most);
    if (how->dense && how->predictor >= PREDICT_WAVE) {
        uint8_t *end = dense_encode_wave(c->plan->kernels, c->ws, c->width, how->predictor, &c->wave, out, most);
        if (end)
            return end;
        *how = (choice){.predictor = PREDICT_LORENZO};
    }
    if (how->dense) {
        lanes l = geometry_lanes(&c->plan->shape, c->plan->chunk_elements, c->n);
        uint8_t *end = dense_encode(c->plan->kernels, c->ws, c->width, how->predictor, how->identity, &l, c->codes, out, most);
        if (end)
            return end;
        how->dense = false;
        how->predictor = how->predictor == PREDICT_MEDIAN ? PREDICT_LORENZO : how->predictor;
    }
    return write_fast(c, how, out);
}

static chunk_payload write_raw(const chunk *c)
{
    uint8_t *out = c->ws->out.data;
    memset(out, 0, CHUNK_HEADER_BYTES);
    memcpy(out + CHUNK_HEADER_BYTES, c->x, c->n * c->element);
    return (chunk_payload){out, chunk_bound(c->n, c->element)};
}

static enum chunk_mode mode_of(const chunk *c, const choice *how)
{
    return in_parts(c) ? CHUNK_PARTS : how->dense ? CHUNK_DENSE : CHUNK_FAST;
}

/* Adds header and outliers to the codes, which end at `codes_end` or are NULL. Returns no payload if a raw one is as short. */
static chunk_payload finish(const chunk *c, const choice *how, uint8_t *codes_end)
{
    uint8_t *head = c->ws->out.data;
    size_t raw = chunk_bound(c->n, c->element);
    if (!codes_end || (size_t)(codes_end - head) + c->n_failed * (c->element + 1) >= raw)
        return (chunk_payload){0};
    uint8_t *end = codes_end;
    if (c->n_failed)
        end = c->plan->kernels->write_outliers(c->x, c->element, c->failed, c->n, codes_end);
    head[0] = (uint8_t)mode_of(c, how);
    head[1] = (uint8_t)c->width;
    head[2] = (uint8_t)how->predictor;
    head[3] = (uint8_t)(how->identity | (c->quantiser.mode == QUANTISE_NONZERO ? CHUNK_NONZERO : 0));
    store_u32(head + 4, (uint32_t)c->n_failed);
    store_u32(head + 8, (uint32_t)(end - codes_end));
    size_t bytes = (size_t)(end - head);
    return bytes < raw ? (chunk_payload){head, bytes} : (chunk_payload){0};
}

/* Writes the payload from all codes. Returns none if a raw one is as short. */
static chunk_payload write_coded(chunk *c, choice *how)
{
    uint8_t *head = c->ws->out.data, *out = head + CODED_HEADER_BYTES;
    if (how->predictor == PREDICT_LINEAR) {
        linear_shape s = {c->n, c->plan->shape.channels, c->plan->shape.columns};
        if (linear_encode(c->plan->kernels, c->width, &s, c->codes, out))
            out += linear_n_tiles(&s) * LINEAR_BYTES;
        else
            how->predictor = how->dense ? PREDICT_MEDIAN : PREDICT_LORENZO;
    }
    size_t so_far = (size_t)(out - head), raw = chunk_bound(c->n, c->element);
    if (so_far >= raw)
        return (chunk_payload){0};
    return finish(c, how, write_codes(c, how, out, raw - so_far));
}

/* ---- the whole ---- */

/* Arranges the codes in a wave, where that is possible, and asks whether this pays. */
static void consider_wave(chunk *c, choice *how)
{
    if (!c->plan->waves || c->plan->lossless || !how->dense || !geometry_wave(&c->plan->shape, c->n, &c->wave))
        return;
    dense_wave_begin(c->ws, c->width);
    wave_kernels_of(c->plan->kernels)->gather[c->width](&c->wave, c->codes, dense_wave_cells(c->ws, c->width));
    choose_wave(c->plan, c->ws, c->width, &c->wave, how);
}

static choice choose(chunk *c)
{
    choice how = {.dense = true};
    if (!in_parts(c)) {
        how = choose_coding(c->plan, c->ws, c->width, c->codes, c->n, true);
        consider_wave(c, &how);
    } else if (c->width != CODES64) {
        how.predictor = parts_choose(c->ws, &c->plan->shape, c->width, c->codes, c->n, &how.identity);
    }
    return how;
}

/* Elements of 16 bits that are not finite have shown in the squares. */
static uint64_t count_nonfinite(const chunk *c)
{
    uint64_t count = 0;
    if (c->element == 2)
        return 0;
    for (size_t b = 0; c->n_failed && b * BLOCK < c->n; b++)
        for (uint64_t mask = c->failed[b]; mask; mask &= mask - 1)
            count += isfinite(element_value(c->plan->dtype, c->x, b * BLOCK + (size_t)__builtin_ctzll(mask))) ? 0 : 1;
    return count;
}

/* Takes the figures of the elements from the moments, or from a slow pass where there are NaN or Inf or squares overflow. */
static void take_figures(chunk *c)
{
    double sum = 0;
    const moments *m = &c->moments;
    for (int i = 0; i < SUM_LANES; i++)
        sum += m->sum_of_squares[i];
    bool tiny = m->n_nonzero && sum < 0x1p-80 && c->plan->dtype != COMET_DTYPE_F64;
    if (c->plan->lossless || !isfinite(sum) || tiny || count_nonfinite(c))
        c->figures = elements_summary(c->plan->dtype, c->x, c->n);
    else
        c->figures = (summary){.sum_of_squares = sum, .min = m->min, .max = m->max, .n_nonzero = m->n_nonzero};
}

static void add_figures(const chunk *c, unsigned mode, chunk_stats *stats)
{
    const summary *f = &c->figures;
    stats->min = f->min < stats->min ? f->min : stats->min;
    stats->max = f->max > stats->max ? f->max : stats->max;
    stats->n_nonzero += f->n_nonzero;
    stats->n_nonfinite += f->n_nonfinite;
    stats->n_outliers += mode == CHUNK_RAW ? 0 : c->n_failed;
    stats->n_chunks[mode]++;
}

/* Chooses and writes at level fast in one pass over the elements. Returns the end, or NULL where that is not possible. */
static uint8_t *write_in_one_pass(chunk *c, choice *how, chunk_stats *stats)
{
    double t0 = comet_seconds();
    quantise_sample(c, CODES16);
    *how = choose_coding(c->plan, c->ws, c->width, c->codes, c->n, false);
    double t1 = comet_seconds();
    stats->seconds_predict += t1 - t0;
    if (how->predictor == PREDICT_LINEAR)
        return NULL;
    uint8_t *end = quantise_and_write_fast(c, how, (uint8_t *)c->ws->out.data + CODED_HEADER_BYTES);
    stats->seconds_code += comet_seconds() - t1;
    return end;
}

/* Encodes at level fast in one pass. Returns no payload where that is not possible, or, with *raw, where a raw one is as short.
 */
static chunk_payload encode_in_one_pass(chunk *c, chunk_stats *stats, bool *raw)
{
    choice how;
    uint8_t *end = write_in_one_pass(c, &how, stats);
    if (end && zeros_after_all(c))
        end = write_in_one_pass(c, &how, stats);
    chunk_payload p = finish(c, &how, end);
    *raw = end && !p.data;
    return p;
}

static chunk_payload encode_in_stages(chunk *c, chunk_stats *stats)
{
    double t0 = comet_seconds();
    make_codes(c);
    double t1 = comet_seconds();
    choice how = choose(c);
    double t2 = comet_seconds();
    chunk_payload p = write_coded(c, &how);
    stats->seconds_quantise += t1 - t0;
    stats->seconds_predict += t2 - t1;
    stats->seconds_code += comet_seconds() - t2;
    return p;
}

chunk_payload chunk_encode(const chunk_plan *plan, workspace *ws, uint64_t index, const void *x, size_t n, chunk_stats *stats,
                           double *sum_of_squares)
{
    chunk c = {.plan = plan, .ws = ws, .x = x, .n = n, .element = comet_dtype_bytes(plan->dtype), .failed = ws->failed.data};
    c.quantiser = plan->quantiser;
    c.quantiser.key = quantiser_key(plan->seed, index);
    if (!plan->lossless && c.quantiser.mode == QUANTISE_SUPPORT && sample_nonzero(&c))
        c.quantiser.mode = QUANTISE_NONZERO;
    chunk_payload p = {0};
    bool raw = false;
    if (plan->level == COMET_LEVEL_FAST && !plan->lossless)
        p = encode_in_one_pass(&c, stats, &raw);
    if (!p.data && !raw)
        p = encode_in_stages(&c, stats);
    if (!p.data)
        p = write_raw(&c);
    take_figures(&c);
    add_figures(&c, p.data[0], stats);
    *sum_of_squares = c.figures.sum_of_squares;
    return p;
}
