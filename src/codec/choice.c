/*
 * Predictors are compared on a sample: up to 32 runs of one block (10 for level fast), one at a varying place in each equal
 * part of the chunk. At equal distances they might all meet the same edge of every plane. For level fast the cost of a
 * predictor is what packing the sample would take. For level dense it is the entropy of the sample's symbols given the local
 * gradient, as the coder's contexts see it. All arithmetic is in integers, so that every machine chooses the same.
 */
#include "codec/choice.h"

#include "codec/dense.h"
#include "codec/entropy.h"
#include "codec/kernels/dense_model.h"
#include "codec/linear.h"

enum { RUN = BLOCK, FAST_RUNS = 10 };
enum { DENSE_BITS = 8 * 400 };                              /* about what states and tables of a chunk take */
enum { LINEAR_TRIES = 6 };                                  /* fits are slow */
#define SAMPLE_MARGIN 1.03                                  /* a chunk takes a little more than its sample predicts */
enum { LEVELS = 4, N_DIRECT = 32, TOKENS = N_DIRECT + 64 }; /* residuals from N_DIRECT on share a token by length */

typedef struct sample {
    const codec_kernels *kernels;
    enum code_width width;
    strides strides;
    linear_shape shape;
    const uint8_t *codes;
    uint8_t *residuals; /* room for a tile */
    size_t n_runs;
    size_t first[SAMPLE_RUNS];        /* element of each run */
    bool non_negative;                /* the sampled codes */
    uint8_t level[SAMPLE_RUNS * RUN]; /* of the gradient around each element */
} sample;

/* Residuals of the sample, counted by level and token. */
typedef struct histogram {
    uint32_t counts[LEVELS][TOKENS];
    uint64_t extra_bits;
} histogram;

static void count_residuals(histogram *c, enum code_width width, const void *residuals, size_t n, const uint8_t *level)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t z = width == CODES16 ? ((const uint16_t *)residuals)[i] : ((const uint32_t *)residuals)[i];
        unsigned length = z < N_DIRECT ? 0 : bit_length_u64(z);
        c->counts[level[i]][length ? N_DIRECT + length : z]++;
        c->extra_bits += length ? length - 1 : 0;
    }
}

static uint64_t entropy_bits(const histogram *c)
{
    uint64_t bits = 0;
    for (int l = 0; l < LEVELS; l++)
        bits += entropy_of_counts(c->counts[l], TOKENS);
    return bits / ENTROPY_UNIT + c->extra_bits;
}

static const uint8_t *run_codes(const sample *s, size_t k)
{
    return s->codes + s->first[k] * code_bytes(s->width);
}

static uint64_t distance_of(int64_t a, int64_t b)
{
    return (uint64_t)(a > b ? a - b : b - a);
}

/* Finds the gradient around every element of the sample, in four levels. */
static void find_levels(sample *s)
{
    for (size_t k = 0; k < s->n_runs; k++) {
        const uint8_t *codes = run_codes(s, k);
        for (ptrdiff_t i = 0; i < RUN; i++) {
            ptrdiff_t left = (ptrdiff_t)s->strides.left, up = (ptrdiff_t)s->strides.up;
            int64_t W = code_at(s->width, codes, i - left), N = code_at(s->width, codes, i - up);
            int64_t NW = code_at(s->width, codes, i - up - left);
            uint64_t g = distance_of(W, NW) + distance_of(N, NW);
            s->level[k * RUN + (size_t)i] = (uint8_t)(g < 1 ? 0 : g < 3 ? 1 : g < 8 ? 2 : 3);
        }
    }
}

/* Computes the zigzagged residuals of one run under the median predictor, for estimates. It is not for 64-bit codes. */
static void median_residuals(const sample *s, const uint8_t *codes, uint32_t *z)
{
    for (ptrdiff_t i = 0; i < RUN; i++) {
        ptrdiff_t left = i - (ptrdiff_t)s->strides.left, up = i - (ptrdiff_t)s->strides.up;
        int64_t W = code_at(s->width, codes, left), N = code_at(s->width, codes, up);
        int64_t NW = code_at(s->width, codes, up - (ptrdiff_t)s->strides.left);
        int64_t low = W < N ? W : N, high = W < N ? N : W, plane = W + N - NW;
        int64_t r = code_at(s->width, codes, i) - (plane < low ? low : plane > high ? high : plane);
        z[i] = (uint32_t)((uint64_t)r << 1 ^ (uint64_t)(r >> 63));
    }
}

static uint64_t dense_cost(const sample *s, enum predictor predictor, bool identity)
{
    histogram c = {.extra_bits = 0};
    for (size_t k = 0; k < s->n_runs; k++) {
        bool median = predictor == PREDICT_MEDIAN;
        if (median)
            median_residuals(s, run_codes(s, k), (uint32_t *)s->residuals);
        else
            s->kernels->predict[s->width](predictor, identity, run_codes(s, k), RUN, s->strides, s->residuals);
        count_residuals(&c, median ? CODES32 : s->width, s->residuals, RUN, s->level + k * RUN);
    }
    return entropy_bits(&c);
}

static uint64_t fast_cost(const sample *s, enum predictor predictor, bool identity)
{
    uint64_t bits = 0;
    for (size_t k = 0; k < s->n_runs; k++) {
        s->kernels->predict[s->width](predictor, identity, run_codes(s, k), RUN, s->strides, s->residuals);
        bits += s->kernels->pack_cost[s->width](s->residuals, 1);
    }
    return bits;
}

/* The cost of a linear fit, planes included, scaled to the size of the sample; UINT64_MAX if no tile could be tried. */
static uint64_t linear_cost(const sample *s, bool dense)
{
    enum { TILE = LINEAR_TILE * LINEAR_TILE };
    static const uint8_t no_level[TILE];
    histogram c = {.extra_bits = 0};
    uint64_t bits = 0, tried = 0;
    for (size_t k = 0; k < s->n_runs && tried < LINEAR_TRIES; k++)
        if (linear_sample(s->kernels, s->width, &s->shape, s->codes, s->first[k], (uint32_t *)s->residuals)) {
            if (dense)
                count_residuals(&c, CODES32, s->residuals, TILE, no_level);
            else
                bits += s->kernels->pack_cost[CODES32](s->residuals, TILE / BLOCK);
            tried++;
        }
    bits += entropy_bits(&c) + tried * 8 * LINEAR_BYTES;
    return tried ? bits * (s->n_runs * RUN) / (tried * TILE) : UINT64_MAX;
}

size_t choice_runs(const chunk_plan *plan, size_t n, size_t first[SAMPLE_RUNS])
{
    size_t most = plan->level == COMET_LEVEL_FAST ? FAST_RUNS : SAMPLE_RUNS, n_runs = n / RUN < most ? n / RUN : most;
    size_t part = n_runs ? n / n_runs : 0;
    for (size_t k = 0; k < n_runs; k++)
        first[k] = k * part + (size_t)((k + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 33) % (part - RUN + 1);
    return n_runs;
}

static bool sample_non_negative(const sample *s)
{
    int32_t signs = 0;
    for (size_t k = 0; k < s->n_runs; k++) {
        const void *codes = run_codes(s, k);
        const int16_t *c16 = codes;
        const int32_t *c32 = codes;
        for (size_t i = 0; i < RUN; i++)
            signs |= s->width == CODES16 ? c16[i] : c32[i];
    }
    return signs >= 0;
}

static sample sample_make(const chunk_plan *plan, const workspace *ws, enum code_width width, const void *codes, size_t n)
{
    sample s = {.kernels = plan->kernels,
                .width = width,
                .strides = {plan->shape.channels, plan->shape.line},
                .shape = {n, plan->shape.channels, plan->shape.columns},
                .codes = codes,
                .residuals = ws->residuals.data};
    s.n_runs = choice_runs(plan, n, s.first);
    if (width != CODES64)
        s.non_negative = sample_non_negative(&s);
    if (plan->level != COMET_LEVEL_FAST && width != CODES64)
        find_levels(&s);
    return s;
}

/* The cheapest of the predictors a level has; its cost goes to *best. */
static choice cheapest(const chunk_plan *plan, const sample *s, bool dense, bool all_codes, uint64_t *best)
{
    static const enum predictor fast_set[] = {PREDICT_NONE, PREDICT_LEFT, PREDICT_UP, PREDICT_LORENZO};
    static const enum predictor dense_set[] = {PREDICT_MEDIAN, PREDICT_LORENZO, PREDICT_LEFT, PREDICT_NONE};
    choice c = {.dense = dense};
    *best = UINT64_MAX;
    for (int i = 0; i < 4; i++) {
        enum predictor p = dense ? dense_set[i] : fast_set[i];
        bool identity = p == PREDICT_NONE && s->non_negative;
        uint64_t bits = dense ? dense_cost(s, p, identity) : fast_cost(s, p, identity);
        if (p == PREDICT_MEDIAN)
            c.median_bits = bits;
        if (bits < *best) {
            *best = bits;
            c.predictor = p;
            c.identity = identity;
        }
    }
    /* A plane costs a quarter of a bit an element: not worth a look where there are few bits to save. */
    if (!plan->lossless && s->width != CODES64 && *best > 6 * s->n_runs * RUN) {
        uint64_t bits = all_codes ? linear_cost(s, dense) : 0;
        if (bits < *best) {
            *best = bits;
            c = (choice){.dense = dense, .predictor = PREDICT_LINEAR, .median_bits = c.median_bits};
        }
    }
    c.bits = *best;
    c.n_sampled = s->n_runs * RUN;
    return c;
}

choice choose_coding(const chunk_plan *plan, const workspace *ws, enum code_width width, const void *codes, size_t n,
                     bool all_codes)
{
    uint64_t fast_bits, dense_bits;
    if (n < RUN) /* too little to sample, or to pay for tables */
        return (choice){.predictor = PREDICT_NONE};
    sample s = sample_make(plan, ws, width, codes, n);
    if (plan->level == COMET_LEVEL_FAST || width == CODES64)
        return cheapest(plan, &s, false, all_codes, &fast_bits);
    choice dense = cheapest(plan, &s, true, all_codes, &dense_bits);
    if (plan->level == COMET_LEVEL_DENSE)
        return dense;
    choice fast = cheapest(plan, &s, false, all_codes, &fast_bits);
    dense_bits += DENSE_BITS * (s.n_runs * RUN) / n;
    if (plan->min_ratio > 0) {
        double ratio = (double)(s.n_runs * RUN * comet_dtype_bytes(plan->dtype) * 8) / ((double)fast_bits + 1);
        return ratio >= plan->min_ratio * SAMPLE_MARGIN || fast_bits <= dense_bits ? fast : dense;
    }
    return dense_bits * 5 <= fast_bits * 4 ? dense : fast;
}

/* ---- waves ---- */

enum { WAVE_PARTS = 16, WAVE_SHARE = 32, WAVE_LEAST = 32 }; /* of each part, 1 step in 32 and 32 more are sampled */

/* The bits of the sampled steps with a predictor; the elements among them go to *n_sampled. */
static uint64_t wave_bits(const chunk_plan *plan, const workspace *ws, enum code_width width, const wave_shape *w,
                          enum predictor predictor, uint64_t *n_sampled)
{
    uint32_t counts[N_CONTEXTS][N_SYMBOLS] = {{0}};
    uint64_t bits = 0, part = w->steps / WAVE_PARTS, n_steps = min_u64(part, part / WAVE_SHARE + WAVE_LEAST);
    *n_sampled = 0;
    for (uint64_t p = 0; p < WAVE_PARTS; p++) {
        uint16_t *symbols = ws->symbols.data;
        uint32_t *escapes = ws->words.data;
        size_t first = (size_t)(p * part + (p + 1) * 7 % WAVE_SHARE * (part - n_steps) / WAVE_SHARE);
        const uint32_t *end =
            wave_kernels_of(plan->kernels)
                ->model[width](w, predictor, dense_wave_cells(ws, width), first, (size_t)n_steps, symbols, escapes);
        for (; escapes < end; escapes++)
            bits += 2 + bit_length_u64(*escapes);
        for (size_t i = 0; i < n_steps * LANES; i++)
            counts[symbols[i] >> 4 & 15][symbols[i] & 15]++;
    }
    for (int c = 0; c < WAVE_IDLE; c++) {
        for (int s = 0; s < N_SYMBOLS; s++) {
            *n_sampled += counts[c][s];
            bits += (uint64_t)counts[c][s] * symbol_bits[s];
        }
        bits += entropy_of_counts(counts[c], N_SYMBOLS) / ENTROPY_UNIT;
    }
    return bits;
}

void choose_wave(const chunk_plan *plan, const workspace *ws, enum code_width width, const wave_shape *w, choice *how)
{
    uint64_t n, n_volume;
    uint64_t bits = wave_bits(plan, ws, width, w, PREDICT_WAVE, &n);
    enum predictor predictor = PREDICT_WAVE;
    if (w->rows >= 2 * w->lines) {
        uint64_t volume = wave_bits(plan, ws, width, w, PREDICT_VOLUME, &n_volume);
        predictor = volume < bits ? PREDICT_VOLUME : PREDICT_WAVE;
        bits = volume < bits ? volume : bits;
    }
    /* The small sample of choose_coding is only compared with itself: a wave takes less than the median predictor. */
    bool other_pays = how->bits * 10 < how->median_bits * 9;
    if (!other_pays || (double)bits * (double)how->n_sampled < (double)how->bits * (double)n)
        *how = (choice){.dense = true, .predictor = predictor};
}
