#include "store/tile_codec.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/float_env.h"
#include "base/status.h"
#include "base/threads.h"
#include "store/packed.h"
#include "store/plateau.h"

/*
 * The most elements of a tile: half a MiB, so that a tile and its coded form fit a core's own cache. Tiles twice as large would
 * improve the ratio of ResNet-18 and -50 in training by 0.5 % at level dense, and not at fast; tiles half as large would cost
 * dense another 1 to 2 %, and a seventh more time. With the chunks that dense itself would choose, ResNet-18's activations
 * would be 1.5 to 3.4 % smaller on average at equal bounds, 4 to 13 % where planes are 112 x 112.
 */
#define TILE_ELEMENTS ((uint64_t)1 << 17)

/* The part of the bound that the error on plateaus may have. Where the square of an error adds up to 300 times that of
 * independent ones, (1/32)^2 leaves a third of one. */
#define PLATEAU_REACH 0x1p-5f

/* As many planes as fit a tile, and whole blocks where that is possible. */
static uint64_t whole_planes(uint64_t plane)
{
    uint64_t unit = plane;
    while (unit <= TILE_ELEMENTS && unit % BLOCK != 0)
        unit *= 2;
    return TILE_ELEMENTS / (unit <= TILE_ELEMENTS ? unit : plane) * (unit <= TILE_ELEMENTS ? unit : plane);
}

/* A multiple of the planes that level dense codes side by side; else whole planes; else equal parts of that many planes. */
static uint64_t preferred(const geometry *g)
{
    uint64_t bands = geometry_lanes(g, TILE_ELEMENTS, (size_t)TILE_ELEMENTS).bands, group = bands * g->line;
    if (g->lines <= TILE_ELEMENTS / group)
        return TILE_ELEMENTS / (group * g->lines) * (group * g->lines);
    if (g->lines <= TILE_ELEMENTS / g->line)
        return whole_planes(g->line * g->lines);
    uint64_t rows = TILE_ELEMENTS / group;
    if (rows)
        return group * ceil_div_u64(g->lines, ceil_div_u64(g->lines, rows));
    return max_u64(TILE_ELEMENTS / g->line, 1) * g->line;
}

uint64_t tiles_elements(const geometry *g)
{
    uint64_t elements = min_u64(preferred(g), g->n_elements);
    return elements < MIN_CHUNK_ELEMENTS ? MIN_CHUNK_ELEMENTS : elements;
}

bool tile_coding_set_bound(tile_coding *c, double eb, enum quantiser_mode mode)
{
    /* With a step above every finite number the codes of SUPPORT are the signs. */
    fenv_t host;
    float_env_enter(&host);
    c->plan.lossless = !quantiser_make(c->plan.dtype, eb, isinf(eb) ? QUANTISE_SUPPORT : mode, &c->plan.quantiser);
    const bool plateaus = c->plan.dtype == COMET_DTYPE_F32 && !c->plan.lossless && !isinf(eb) && mode != QUANTISE_DITHER;
    c->reach = plateaus ? c->plan.quantiser.eb * PLATEAU_REACH : 0;
    float_env_leave(&host);
    return !c->plan.lossless;
}

comet_status tile_reserve(const tile_coding *c, const comet_allocator *allocator, workspace *ws)
{
    if (c->packed_bits)
        return comet_buffer_reserve(allocator, &ws->out,
                                    (size_t)c->plan.chunk_elements * comet_dtype_bytes(c->plan.dtype) + READ_SLACK);
    const chunk_needs needs = {.codes = true, .dense = c->plan.level != COMET_LEVEL_FAST, .width = CODES32};
    const size_t n = (size_t)c->plan.chunk_elements;
    TRY(workspace_reserve_encoder(ws, allocator, &c->plan));
    if (c->reach > 0) {
        const size_t payload = chunk_bound(n, sizeof(float)), record = plateau_record_bound(n);
        TRY(comet_buffer_reserve(allocator, &ws->changed, n * sizeof(float) + record));
        TRY(comet_buffer_reserve(allocator, &ws->out, payload + record + sizeof(uint32_t) + READ_SLACK));
    }
    return workspace_reserve_decoder(ws, allocator, &c->plan, &needs);
}

/* ---- plateaus ---- */

/* The plan of a tile with plateaus: zeros and signs are exact. */
static chunk_plan plan_with_plateaus(const tile_coding *c)
{
    chunk_plan plan = c->plan;
    plan.quantiser.mode = QUANTISE_SUPPORT;
    return plan;
}

static void append_record(workspace *ws, chunk_payload *payload, const uint8_t *record, uint32_t bytes)
{
    uint8_t *end = (uint8_t *)ws->out.data + payload->bytes;
    memcpy(end, record, bytes);
    memcpy(end + bytes, &bytes, sizeof bytes);
    payload->bytes += bytes + sizeof bytes;
}

/* Corrects the figures to those of the elements before they were replaced. */
static void correct_figures(const plateau_figures *p, tile_figures *f)
{
    f->n_nonzero += p->n_zeros;
    f->sum_of_squares += p->sum_of_squares;
    f->min = p->min;
    f->max = p->max;
}

/* ---- one tile ---- */

static comet_status encode_packed(const tile_coding *c, workspace *ws, uint64_t k, const uint8_t *x, size_t bytes,
                                  chunk_payload *payload)
{
    if (!packed_write(x, bytes, c->packed_bits, ws->out.data))
        return comet_fail(COMET_ERROR_ARGUMENT, "an index in tile %llu does not fit %u bits", (unsigned long long)k,
                          c->packed_bits);
    *payload = (chunk_payload){ws->out.data, packed_bytes(bytes, c->packed_bits)};
    return COMET_OK;
}

/* Encodes elements, or those with plateaus replaced, as a chunk. */
static chunk_payload encode_chunk(const chunk_plan *plan, workspace *ws, uint64_t k, const void *x, size_t n, tile_figures *f)
{
    chunk_stats stats;
    chunk_stats_init(&stats);
    const chunk_payload payload = chunk_encode(plan, ws, k, x, n, &stats, &f->sum_of_squares);
    f->mode = payload.data[0];
    f->predictor = payload.data[2];
    f->n_nonzero = stats.n_nonzero;
    f->n_nonfinite = stats.n_nonfinite;
    f->min = stats.min;
    f->max = stats.max;
    return payload;
}

/* Encodes a chunk with a bound, and appends the record of its plateaus. */
static chunk_payload encode_bounded(const tile_coding *c, workspace *ws, uint64_t k, const float *x, size_t n, tile_figures *f)
{
    const plateau_span span = {&c->plan.shape, k * c->plan.chunk_elements, n};
    float *changed = ws->changed.data;
    uint8_t *record = (uint8_t *)(changed + c->plan.chunk_elements);
    plateau_figures replaced;
    const size_t bytes = plateau_replace(&span, c->reach, x, changed, record, &replaced);
    const chunk_plan plan = bytes > 0 ? plan_with_plateaus(c) : c->plan;
    chunk_payload payload = encode_chunk(&plan, ws, k, bytes > 0 ? changed : x, n, f);
    if (bytes > 0)
        correct_figures(&replaced, f);
    append_record(ws, &payload, record, (uint32_t)bytes);
    return payload;
}

comet_status tile_encode(const tile_coding *c, workspace *ws, uint64_t k, const void *x, size_t bytes, chunk_payload *payload,
                         tile_figures *figures)
{
    *figures = (tile_figures){.min = INFINITY, .max = -INFINITY};
    if (c->packed_bits)
        return encode_packed(c, ws, k, x, bytes, payload);
    const size_t n = bytes / comet_dtype_bytes(c->plan.dtype);
    fenv_t host;
    float_env_enter(&host);
    *payload = c->reach > 0 ? encode_bounded(c, ws, k, x, n, figures) : encode_chunk(&c->plan, ws, k, x, n, figures);
    float_env_leave(&host);
    return COMET_OK;
}

static comet_status decode_chunk(const chunk_plan *plan, workspace *ws, uint64_t k, chunk_payload payload, void *x, size_t n,
                                 bool stream)
{
    /* Memory may have been damaged; then decoding must not use buffers that were never reserved. */
    if (payload.bytes > 0 && payload.data[0] == CHUNK_DENSE && plan->level == COMET_LEVEL_FAST)
        return comet_fail(COMET_ERROR_CORRUPT, "tile %llu was coded fast, but its header says dense", (unsigned long long)k);
    if (payload.bytes > 2 && payload.data[0] == CHUNK_DENSE && payload.data[2] >= PREDICT_WAVE)
        return comet_fail(COMET_ERROR_CORRUPT, "tile %llu was coded without a wave, but its header says otherwise",
                          (unsigned long long)k);
    comet_status status = chunk_decode(plan, ws, k, payload.data, payload.bytes, x, n, stream);
    if (stream)
        comet_store_fence();
    return status;
}

/* Elements with plateaus are changed once more right after decoding, so they are not written past the caches. */
static comet_status decode_bounded(const tile_coding *c, workspace *ws, uint64_t k, chunk_payload payload, float *x, size_t n,
                                   bool stream)
{
    const plateau_span span = {&c->plan.shape, k * c->plan.chunk_elements, n};
    uint32_t bytes = 0;
    const size_t room = payload.bytes < sizeof bytes ? 0 : payload.bytes - sizeof bytes;
    memcpy(&bytes, payload.data + room, sizeof bytes);
    if (bytes > room)
        return comet_fail(COMET_ERROR_CORRUPT, "tile %llu has lost its end", (unsigned long long)k);
    payload.bytes = room - bytes;
    if (bytes == 0)
        return decode_chunk(&c->plan, ws, k, payload, x, n, stream);
    const chunk_plan plan = plan_with_plateaus(c);
    TRY(decode_chunk(&plan, ws, k, payload, x, n, false));
    if (!plateau_restore(&span, payload.data + payload.bytes, bytes, x))
        return comet_fail(COMET_ERROR_CORRUPT, "the record of plateaus of tile %llu is damaged", (unsigned long long)k);
    return COMET_OK;
}

comet_status tile_decode(const tile_coding *c, workspace *ws, uint64_t k, chunk_payload payload, void *x, size_t bytes,
                         bool stream)
{
    if (c->packed_bits) {
        packed_read(payload.data, bytes, c->packed_bits, x);
        return COMET_OK;
    }
    const size_t n = bytes / comet_dtype_bytes(c->plan.dtype);
    fenv_t host;
    float_env_enter(&host);
    comet_status status =
        c->reach > 0 ? decode_bounded(c, ws, k, payload, x, n, stream) : decode_chunk(&c->plan, ws, k, payload, x, n, stream);
    float_env_leave(&host);
    return status;
}
