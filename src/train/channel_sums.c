/* See channel_sums.h. */
#include "train/channel_sums.h"

#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/tile_run.h"

#define TILE ((uint64_t)1 << 16) /* elements */

typedef struct sums_run {
    const channel_sums_spec *spec;
    uint64_t tile;
    float *lanes;
    double *segments; /* of all tiles */
    uint64_t segment_doubles;
} sums_run;

static uint64_t tile_of(const norm_shape *s)
{
    const uint64_t rows = TILE / s->period;
    return (rows > 0 ? rows : 1) * s->period;
}

static uint64_t segment_doubles(const norm_shape *s)
{
    return norm_segments(s, tile_of(s)) * NORM_SUMS * s->width;
}

static uint64_t lanes_bytes(const norm_shape *s)
{
    return (norm_lanes(s) * sizeof(float) + 63) / 64 * 64;
}

static uint64_t count_tiles(const norm_shape *s, uint64_t n)
{
    return (n + tile_of(s) - 1) / tile_of(s);
}

uint64_t channel_sums_bytes(const norm_shape *s, uint64_t n)
{
    return lanes_bytes(s) + count_tiles(s, n) * segment_doubles(s) * sizeof(double);
}

static comet_status sum_tile(void *arg, uint64_t tile, size_t worker)
{
    const sums_run *r = arg;
    const uint64_t first = tile * r->tile;
    (void)worker;
    norm_sum_moments(r->spec->shape, r->spec->x + first, first, min_u64(r->tile, r->spec->n - first), r->lanes,
                     r->segments + tile * r->segment_doubles);
    return COMET_OK;
}

comet_status channel_sums(const channel_sums_spec *spec, double *sums, void *scratch)
{
    const norm_shape *s = spec->shape;
    const uint64_t n_tiles = count_tiles(s, spec->n);
    sums_run r = {.spec = spec, .tile = tile_of(s), .lanes = scratch, .segment_doubles = segment_doubles(s)};
    r.segments = (double *)(void *)((uint8_t *)scratch + lanes_bytes(s));
    memset(r.lanes, 0, lanes_bytes(s));
    if (spec->shift)
        norm_spread(s, spec->shift, r.lanes);
    TRY(tile_run(spec->n_threads, 0, n_tiles, sum_tile, &r, "sums by channel"));
    memset(sums, 0, 2 * s->channels * sizeof *sums);
    for (uint64_t k = 0; k < n_tiles; k++) {
        const uint64_t first = k * r.tile;
        norm_fold(s, first, min_u64(r.tile, spec->n - first), r.segments + k * r.segment_doubles, 2, sums);
    }
    return COMET_OK;
}
