#include "store/tiles.h"

#include <math.h>

#include "base/bytes.h"
#include "base/float_env.h"
#include "base/status.h"
#include "base/threads.h"
#include "store/packed.h"

/*
 * Elements a tile at most. Half a MiB, so that a tile and what becomes of it are in a core's own cache; halves of small tensors
 * are still whole tiles. In training ResNet-18 and -50 lose 0.5 % of their ratio at level dense against tiles twice as large,
 * and nothing at fast; tiles half as large cost dense another 1 to 2 %, and its time a seventh more. Against dense's own choice
 * of chunks ResNet-18's activations lose 1.5 to 3.4 % on average at equal bounds, 4 to 13 % where planes are 112 x 112.
 */
#define TILE_ELEMENTS ((uint64_t)1 << 17)

/* Whole planes, and whole blocks, where that is possible. */
static uint64_t whole_planes(uint64_t plane)
{
    uint64_t unit = plane;
    while (unit <= TILE_ELEMENTS && unit % BLOCK != 0)
        unit *= 2;
    return TILE_ELEMENTS / (unit <= TILE_ELEMENTS ? unit : plane) * (unit <= TILE_ELEMENTS ? unit : plane);
}

/* As many planes as level dense takes side by side, or a multiple; else whole planes; else equal parts of that many planes. */
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
    c->plan.lossless = !quantiser_make(COMET_DTYPE_F32, eb, isinf(eb) ? QUANTISE_SUPPORT : mode, &c->plan.quantiser);
    float_env_leave(&host);
    return !c->plan.lossless;
}

comet_status tile_reserve(const tile_coding *c, const comet_allocator *allocator, workspace *ws)
{
    if (c->packed_bits)
        return comet_buffer_reserve(allocator, &ws->out, (size_t)c->plan.chunk_elements * sizeof(float) + READ_SLACK);
    const chunk_needs needs = {.codes = true, .dense = c->plan.level != COMET_LEVEL_FAST, .width = CODES32};
    TRY(workspace_reserve_encoder(ws, allocator, &c->plan));
    return workspace_reserve_decoder(ws, allocator, &c->plan, &needs);
}

static comet_status encode_packed(const tile_coding *c, workspace *ws, uint64_t k, const uint8_t *x, size_t bytes,
                                  chunk_payload *payload)
{
    if (!packed_write(x, bytes, c->packed_bits, ws->out.data))
        return comet_fail(COMET_ERROR_ARGUMENT, "an index in tile %llu does not fit %u bits", (unsigned long long)k,
                          c->packed_bits);
    *payload = (chunk_payload){ws->out.data, packed_bytes(bytes, c->packed_bits)};
    return COMET_OK;
}

comet_status tile_encode(const tile_coding *c, workspace *ws, uint64_t k, const void *x, size_t bytes, chunk_payload *payload,
                         tile_figures *figures)
{
    *figures = (tile_figures){.min = INFINITY, .max = -INFINITY};
    if (c->packed_bits)
        return encode_packed(c, ws, k, x, bytes, payload);
    chunk_stats stats;
    chunk_stats_init(&stats);
    fenv_t host;
    float_env_enter(&host);
    *payload = chunk_encode(&c->plan, ws, k, x, bytes / sizeof(float), &stats, &figures->sum_of_squares);
    float_env_leave(&host);
    figures->mode = payload->data[0];
    figures->predictor = payload->data[2];
    figures->n_nonzero = stats.n_nonzero;
    figures->n_nonfinite = stats.n_nonfinite;
    figures->min = stats.min;
    figures->max = stats.max;
    return COMET_OK;
}

comet_status tile_decode(const tile_coding *c, workspace *ws, uint64_t k, chunk_payload payload, void *x, size_t bytes,
                         bool stream)
{
    if (c->packed_bits) {
        packed_read(payload.data, bytes, c->packed_bits, x);
        return COMET_OK;
    }
    /* What is held can only be damaged in memory, but then it must not reach for buffers that were never reserved. */
    if (payload.data[0] == CHUNK_DENSE && c->plan.level == COMET_LEVEL_FAST)
        return comet_fail(COMET_ERROR_CORRUPT, "tile %llu, coded fast, has become dense", (unsigned long long)k);
    fenv_t host;
    float_env_enter(&host);
    comet_status status = chunk_decode(&c->plan, ws, k, payload.data, payload.bytes, x, bytes / sizeof(float), stream);
    float_env_leave(&host);
    if (stream)
        comet_store_fence();
    return status;
}
