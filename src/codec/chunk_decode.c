/* Payload to elements. Every field is checked before it is used; kernels may read READ_SLACK bytes past the end, never more. */
#include <string.h>

#include "base/status.h"
#include "codec/blocks.h"
#include "codec/dense.h"
#include "codec/linear.h"
#include "codec/parts.h"

/* A payload taken apart. */
typedef struct parts {
    enum chunk_mode mode;
    enum code_width width;
    enum predictor predictor;
    bool identity, nonzero, has_wave; /* has_wave: lines in a wave suit the chunk */
    wave_shape wave;
    uint32_t n_outliers;
    const uint8_t *planes, *codes, *outliers, *end; /* in this order */
} parts;

void chunk_examine(const uint8_t *payload, size_t bytes, chunk_needs *needs)
{
    if (bytes < CHUNK_HEADER_BYTES || payload[0] == CHUNK_RAW)
        return;
    needs->codes = true;
    needs->dense = needs->dense || payload[0] == CHUNK_DENSE;
    needs->parts = needs->parts || payload[0] == CHUNK_PARTS;
    needs->waves = needs->waves || payload[2] >= PREDICT_WAVE;
    enum code_width width = payload[1] < N_CODE_WIDTHS ? (enum code_width)payload[1] : CODES16;
    needs->width = width > needs->width ? width : needs->width;
}

static bool predictor_fits(const parts *p)
{
    if (p->mode == CHUNK_PARTS)
        return parts_have(p->predictor);
    switch (p->predictor) {
    case PREDICT_NONE:
    case PREDICT_LEFT:
    case PREDICT_LORENZO: return true;
    case PREDICT_LINEAR: return p->width != CODES64;
    case PREDICT_UP: return p->mode == CHUNK_FAST;
    case PREDICT_MEDIAN: return p->mode == CHUNK_DENSE;
    case PREDICT_WAVE:
    case PREDICT_VOLUME: return p->mode == CHUNK_DENSE && p->has_wave;
    default: return false;
    }
}

static bool mode_fits(const chunk_plan *plan, unsigned mode)
{
    if (mode == CHUNK_FAST)
        return plan->profile == COMET_PROFILE_HOST || plan->level == COMET_LEVEL_FAST;
    if (mode == CHUNK_DENSE)
        return plan->profile == COMET_PROFILE_HOST;
    return mode == CHUNK_PARTS && plan->profile == COMET_PROFILE_DEVICE && plan->level == COMET_LEVEL_DENSE;
}

/* Do the frame's type and bound allow codes of this width? */
static bool width_fits(const chunk_plan *plan, const parts *p)
{
    if (!plan->lossless)
        return p->width != CODES64;
    if (p->width == CODES64)
        return plan->dtype == COMET_DTYPE_F64 && p->mode == CHUNK_FAST;
    return plan->dtype != COMET_DTYPE_F64 && p->width == CODES32;
}

static bool take_apart(const chunk_plan *plan, const uint8_t *payload, size_t bytes, size_t n, parts *p)
{
    if (bytes < CODED_HEADER_BYTES || !mode_fits(plan, payload[0]) || payload[1] >= N_CODE_WIDTHS || payload[3] > 3)
        return false;
    *p = (parts){.mode = (enum chunk_mode)payload[0],
                 .width = (enum code_width)payload[1],
                 .predictor = (enum predictor)payload[2],
                 .identity = payload[3] & CHUNK_IDENTITY,
                 .nonzero = payload[3] & CHUNK_NONZERO,
                 .n_outliers = load_u32(payload + 4),
                 .end = payload + bytes};
    p->has_wave = !plan->lossless && geometry_wave(&plan->shape, n, &p->wave);
    size_t outlier_bytes = load_u32(payload + 8), planes = 0, room = bytes - CODED_HEADER_BYTES;
    bool unsigned_fits = p->predictor == PREDICT_NONE || (p->mode == CHUNK_FAST && p->predictor == PREDICT_LINEAR);
    if (!predictor_fits(p) || !width_fits(plan, p) || p->n_outliers > n || (p->identity && !unsigned_fits))
        return false;
    if (p->nonzero && (plan->lossless || plan->quantiser.mode != QUANTISE_SUPPORT))
        return false;
    if (p->predictor == PREDICT_LINEAR) {
        linear_shape s = {n, plan->shape.channels, plan->shape.columns};
        planes = linear_n_tiles(&s);
        if (planes > room / LINEAR_BYTES)
            return false;
        planes *= LINEAR_BYTES;
    }
    if (outlier_bytes > room - planes)
        return false;
    p->planes = payload + CODED_HEADER_BYTES;
    p->codes = p->planes + planes;
    p->outliers = p->end - outlier_bytes;
    return true;
}

/* Reads the steps to the next of n elements that is an outlier. */
static bool read_steps(const uint8_t **in, const uint8_t *end, size_t n, size_t *gap)
{
    for (size_t skipped = 0; *in < end && skipped < n;) {
        uint8_t step = *(*in)++;
        if (step < STEP_SKIP) {
            *gap = skipped + step;
            return true;
        }
        skipped += STEP_SKIP * (size_t)(step - STEP_SKIP + 1);
    }
    return false;
}

/* The outliers that are left. */
typedef struct outlier_reader {
    const uint8_t *steps, *steps_end, *values;
    uint32_t n_left;
    size_t next; /* the index of the first one left */
} outlier_reader;

/* Moves to the next outlier, `from` or a gap after it. Most gaps are a step. */
static inline bool next_outlier(outlier_reader *o, size_t from, size_t n)
{
    size_t gap;
    if (o->n_left == 0)
        return o->steps == o->steps_end;
    if (o->steps < o->steps_end && *o->steps < STEP_SKIP)
        gap = *o->steps++;
    else if (!read_steps(&o->steps, o->steps_end, n, &gap))
        return false;
    if (gap >= n - from)
        return false;
    o->next = from + gap;
    return true;
}

static bool outliers_begin(const parts *p, size_t element, size_t n, outlier_reader *o)
{
    if ((size_t)(p->end - p->outliers) / element < p->n_outliers)
        return false;
    const uint8_t *values = p->end - p->n_outliers * element;
    *o = (outlier_reader){.steps = p->outliers, .steps_end = values, .values = values, .n_left = p->n_outliers};
    return next_outlier(o, 0, n);
}

/* Puts the outliers before element `end` in their places; the first of the elements is at x. */
static inline bool put_sized_outliers(outlier_reader *reader, size_t element, uint8_t *x, size_t first, size_t end, size_t n)
{
    outlier_reader o = *reader; /* a copy, which stores to x cannot touch */
    while (o.n_left && o.next < end) {
        memcpy(x + (o.next - first) * element, o.values, element);
        o.values += element;
        o.n_left--;
        if (!next_outlier(&o, o.next + 1, n))
            return false;
    }
    *reader = o;
    return true;
}

static bool put_outliers(outlier_reader *o, size_t element, uint8_t *x, size_t first, size_t end, size_t n)
{
    return element == 2 ? put_sized_outliers(o, 2, x, first, end, n) : put_sized_outliers(o, element, x, first, end, n);
}

/* Decodes the codes of a tile, and its elements if there is a quantiser. */
static bool decode_tile(const chunk_plan *plan, enum code_width width, const packed_tile *t)
{
    const codec_kernels *k = plan->kernels;
    size_t n_blocks = (t->n + BLOCK - 1) / BLOCK;
    if (t->quantiser && width == CODES16)
        return k->decode_tile[plan->dtype](t);
    if (!k->unpack[width](t->first / BLOCK, n_blocks, t->identity, t->in, t->codes))
        return false;
    k->unpredict[width](t->predictor, t->codes, n_blocks * BLOCK, t->strides);
    if (t->quantiser)
        k->dequantise[width][plan->dtype](t->quantiser, t->codes, t->n, t->first, t->x, t->stream);
    return true;
}

/* Decodes the codes and, if there is a quantiser, the elements with their outliers. */
static bool decode_fast(const chunk_plan *plan, const parts *p, uint8_t *codes, size_t n, const quantiser *q, uint8_t *x,
                        bool stream, const uint8_t *prefetch, outlier_reader *outliers)
{
    size_t size = code_bytes(p->width), element = comet_dtype_bytes(plan->dtype), carried = q ? codes_carried(plan) : 0;
    block_reader in;
    if (!blocks_read_begin(p->codes, p->outliers, (n + BLOCK - 1) / BLOCK, &in))
        return false;
    for (size_t i = 0; i < n; i += QUANT_TILE) {
        if (carried && i)
            memcpy(codes - carried * size, codes + (QUANT_TILE - carried) * size, carried * size);
        packed_tile t = {.quantiser = q,
                         .in = &in,
                         .n = (size_t)min_u64(QUANT_TILE, n - i),
                         .first = (uint32_t)i,
                         .predictor = p->predictor,
                         .identity = p->identity,
                         .strides = {plan->shape.channels, plan->shape.line},
                         .codes = carried ? codes : codes + i * size,
                         .x = x + i * element,
                         .stream = stream,
                         .prefetch = prefetch ? prefetch + i * element : NULL};
        if (!decode_tile(plan, p->width, &t) || (q && !put_outliers(outliers, element, x, 0, i + t.n, n)))
            return false;
    }
    return blocks_read_finished(&in);
}

static void dequantise_chunk(const chunk_plan *plan, const parts *p, const quantiser *q, const uint8_t *codes, size_t n,
                             uint8_t *x, bool stream)
{
    size_t element = comet_dtype_bytes(plan->dtype);
    for (size_t i = 0; i < n; i += QUANT_TILE)
        plan->kernels->dequantise[p->width][plan->dtype](
            q, codes + i * code_bytes(p->width), (size_t)min_u64(QUANT_TILE, n - i), (uint32_t)i, x + i * element, stream);
}

/* Turns integers in the order of the values back into bit patterns. */
static void lossless_elements(size_t element, const void *codes, size_t n, uint8_t *x)
{
    const int32_t *in32 = codes;
    const int64_t *in64 = codes;
    for (size_t i = 0; i < n; i++) {
        if (element == 2) {
            int16_t v = (int16_t)in32[i];
            store_u16(x + 2 * i, (uint16_t)(v < 0 ? v ^ 0x7fff : v));
        } else if (element == 4) {
            store_u32(x + 4 * i, (uint32_t)(in32[i] < 0 ? in32[i] ^ 0x7fffffff : in32[i]));
        } else {
            store_u64(x + 8 * i, (uint64_t)(in64[i] < 0 ? in64[i] ^ INT64_MAX : in64[i]));
        }
    }
}

static bool decode_coded(const chunk_plan *plan, workspace *ws, uint64_t index, const parts *p, uint8_t *x, size_t n,
                         bool stream)
{
    size_t element = comet_dtype_bytes(plan->dtype);
    uint8_t *codes = codes_of(ws, plan, p->width);
    memset(ws->codes.data, 0, (size_t)(codes - (uint8_t *)ws->codes.data));
    quantiser q = plan->quantiser;
    q.mode = p->nonzero ? QUANTISE_NONZERO : q.mode;
    q.key = quantiser_key(plan->seed, index);
    bool together = p->mode == CHUNK_FAST && !plan->lossless && p->predictor != PREDICT_LINEAR;
    outlier_reader outliers;
    if (!outliers_begin(p, element, n, &outliers))
        return false;
    stream = stream && p->n_outliers <= n / 256; /* single elements are slow to write after the rest went around the caches */
    if (p->mode == CHUNK_FAST) {
        if (!decode_fast(plan, p, codes, n, together ? &q : NULL, x, stream, ws->prefetch, &outliers))
            return false;
    } else if (p->mode == CHUNK_PARTS) {
        if (!parts_decode(ws, &plan->shape, p->width, p->predictor, p->identity, p->codes, (size_t)(p->outliers - p->codes),
                          codes, n))
            return false;
    } else if (p->predictor >= PREDICT_WAVE) {
        size_t bytes = (size_t)(p->outliers - p->codes);
        if (!dense_decode_wave(plan->kernels, ws, p->width, p->predictor, &p->wave, p->codes, bytes, codes))
            return false;
    } else {
        lanes l = geometry_lanes(&plan->shape, plan->chunk_elements, n);
        size_t bytes = (size_t)(p->outliers - p->codes);
        if (!dense_decode(plan->kernels, ws, p->width, p->predictor, p->identity, &l, p->codes, bytes, codes))
            return false;
    }
    if (p->predictor == PREDICT_LINEAR) {
        linear_shape s = {n, plan->shape.channels, plan->shape.columns};
        linear_decode(plan->kernels, p->width, &s, p->planes, codes);
    }
    if (plan->lossless)
        lossless_elements(element, codes, n, x);
    else if (!together)
        dequantise_chunk(plan, p, &q, codes, n, x, stream);
    return put_outliers(&outliers, element, x, 0, n, n);
}

comet_status chunk_decode(const chunk_plan *plan, workspace *ws, uint64_t index, const uint8_t *payload, size_t bytes, void *x,
                          size_t n, bool stream)
{
    size_t element = comet_dtype_bytes(plan->dtype);
    if (bytes >= CHUNK_HEADER_BYTES && payload[0] == CHUNK_RAW) {
        if (bytes != chunk_bound(n, element) || payload[1] || payload[2] || payload[3])
            return comet_fail(COMET_ERROR_CORRUPT, "chunk %llu is raw, but its header or its length of %zu bytes is damaged",
                              (unsigned long long)index, bytes);
        memcpy(x, payload + CHUNK_HEADER_BYTES, n * element);
        return COMET_OK;
    }
    parts p;
    if (!take_apart(plan, payload, bytes, n, &p) || !decode_coded(plan, ws, index, &p, x, n, stream))
        return comet_fail(COMET_ERROR_CORRUPT, "chunk %llu is damaged", (unsigned long long)index);
    return COMET_OK;
}
