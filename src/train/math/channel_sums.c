/* See channel_sums.h. */
#include "train/math/channel_sums.h"

#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/backend/element.h"
#include "train/math/tile_run.h"

static uint64_t tile_of(const channel_sums_spec *spec)
{
    const uint64_t period = spec->shape->period;
    return spec->tile > 0 ? spec->tile : max_u64(TILE / period, 1) * period;
}

static uint64_t segment_doubles(const channel_sums_spec *spec)
{
    return norm_segments(spec->shape, tile_of(spec)) * NORM_SUMS * spec->shape->width;
}

static uint64_t lanes_bytes(const norm_shape *s)
{
    return (norm_lanes(s) * sizeof(float) + 63) / 64 * 64;
}

static uint64_t count_tiles(const channel_sums_spec *spec)
{
    return (spec->n + tile_of(spec) - 1) / tile_of(spec);
}

uint64_t channel_sums_bytes(const channel_sums_spec *spec)
{
    return lanes_bytes(spec->shape) + count_tiles(spec) * segment_doubles(spec) * sizeof(double);
}

void channel_sums_begin(channel_sums *c, const channel_sums_spec *spec, void *scratch)
{
    *c = (channel_sums){.shape = spec->shape,
                        .n = spec->n,
                        .tile = tile_of(spec),
                        .n_tiles = count_tiles(spec),
                        .lanes = scratch,
                        .segments = (double *)(void *)((uint8_t *)scratch + lanes_bytes(spec->shape)),
                        .segment_doubles = segment_doubles(spec)};
    memset(c->lanes, 0, lanes_bytes(spec->shape));
    if (spec->shift)
        norm_spread(spec->shape, spec->shift, c->lanes);
}

static uint64_t length_of(const channel_sums *c, uint64_t k)
{
    return min_u64(c->tile, c->n - k * c->tile);
}

void channel_sums_add(const channel_sums *c, uint64_t k, const void *x)
{
    norm_sum_moments(c->shape, x, k * c->tile, length_of(c, k), c->lanes, c->segments + k * c->segment_doubles);
}

void channel_sums_end(const channel_sums *c, double *sums)
{
    memset(sums, 0, 2 * c->shape->channels * sizeof *sums);
    for (uint64_t k = 0; k < c->n_tiles; k++)
        norm_fold(c->shape, k * c->tile, length_of(c, k), c->segments + k * c->segment_doubles, 2, sums);
}

typedef struct whole {
    channel_sums sums;
    const void *x;
} whole;

static comet_status add_tile(void *arg, uint64_t k, size_t worker)
{
    const whole *w = arg;
    (void)worker;
    channel_sums_add(&w->sums, k, elements_from(w->sums.shape->type, w->x, k * w->sums.tile));
    return COMET_OK;
}

comet_status channel_sums_of(const channel_sums_spec *spec, const void *x, uint32_t n_threads, void *scratch, double *sums)
{
    whole w = {.x = x};
    channel_sums_begin(&w.sums, spec, scratch);
    TRY(tile_run(n_threads, 0, w.sums.n_tiles, add_tile, &w, "sums by channel"));
    channel_sums_end(&w.sums, sums);
    return COMET_OK;
}
