/*
 * Backward of fused relus: gradients pass where the output was positive. It goes tile by tile of the stored output, or by its
 * signs where an earlier reader left them.
 */
#include "base/bytes.h"
#include "train/backend/element.h"
#include "train/math/channel_sums.h"
#include "train/math/elementwise.h"
#include "train/math/tile_run.h"
#include "train/memory/memory.h"

/* Bytes of value v's sign mask. No word of it may belong to two tiles, which different threads may decode. */
uint64_t mask_signs_bytes(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    const uint64_t n = layout_elements(x->layout);
    uint64_t n_tiles, tile;
    if (!m->coded || x->slot == COMET_NO_SLOT || x->producer == NONE || !m->ops[x->producer].mask.used ||
        comet_store_tiling(m->store, x->slot, &n_tiles, &tile) != COMET_OK || (n_tiles > 1 && tile % SIGNS_A_WORD != 0))
        return 0;
    return ceil_div_u64(n, SIGNS_A_WORD) * sizeof(uint16_t);
}

typedef struct mask_job {
    const comet_model *m;
    comet_slot slot;
    comet_dtype type;
    uint64_t tile, n;
    const uint16_t *signs;  /* known already, or NULL */
    const void *whole, *dy; /* whole: decoded already, or NULL */
    void *dx, *rooms;
    const channel_sums *sums; /* of dx, or NULL */
} mask_job;

static comet_status mask_tile(void *arg, uint64_t k, size_t worker)
{
    const mask_job *job = arg;
    const uint64_t first = k * job->tile, n = min_u64(job->tile, job->n - first);
    const void *dy = elements_from(job->type, job->dy, first);
    void *dx = elements_at(job->type, job->dx, first);
    if (job->signs) {
        relu_backward_mask(job->type, n, job->signs + first / SIGNS_A_WORD, dy, dx);
    } else {
        const void *y = job->whole ? elements_from(job->type, job->whole, first) : NULL;
        void *room = elements_at(job->type, job->rooms, worker * job->tile);
        if (!y) {
            comet_store_prefetch(job->m->store, worker, dy);
            TRY(comet_store_take_tile_any(job->m->store, job->slot, k, worker, room, &y));
        }
        relu_backward(job->type, n, y, dy, dx);
    }
    if (job->sums)
        channel_sums_add(job->sums, k, dx);
    return COMET_OK;
}

static uint64_t mask_tile_elements(const comet_model *m, const op *o)
{
    uint64_t n_tiles, tile;
    return comet_store_tiling(m->store, m->values[o->output].slot, &n_tiles, &tile) == COMET_OK ? tile : 0;
}

static channel_sums_spec mask_sums_spec(const comet_model *m, const op *o)
{
    return (channel_sums_spec){.shape = &o->mask.shape, .n = o->mask.shape.n_elements, .tile = mask_tile_elements(m, o)};
}

/* Tiles must end between rows. */
uint64_t mask_sums_bytes(const comet_model *m, const op *o)
{
    return o->mask.sums && mask_tile_elements(m, o) % o->mask.shape.period == 0 ? 2 * o->mask.shape.channels * sizeof(double)
                                                                                : 0;
}

static uint64_t mask_rooms_bytes(const comet_model *m, const op *o)
{
    const value *y = &m->values[o->output];
    if (y->signs != NO_BUFFER) /* declared by its readers, which are lowered before */
        return 0;
    return padded_bytes(m->params.n_threads * mask_tile_elements(m, o) * comet_dtype_bytes(layout_type(y->layout)));
}

/* Room for a tile for each worker, then for the sums. */
uint64_t mask_scratch_bytes(const comet_model *m, const op *o)
{
    if (!o->mask.used)
        return 0;
    const channel_sums_spec spec = mask_sums_spec(m, o);
    return mask_rooms_bytes(m, o) + (mask_sums_bytes(m, o) > 0 ? channel_sums_bytes(&spec) : 0);
}

comet_status mask_gradient(comet_model *m, const op *o)
{
    const value *y = &m->values[o->output];
    const channel_sums_spec spec = mask_sums_spec(m, o);
    uint64_t n_tiles;
    channel_sums sums;
    mask_job job = {.m = m,
                    .slot = y->slot,
                    .type = layout_type(y->layout),
                    .n = layout_elements(y->layout),
                    .signs = y->signs_known ? arena_at(&m->arena, y->signs) : NULL,
                    .whole = y->decoded ? arena_at(&m->arena, y->whole) : NULL,
                    .dy = arena_at(&m->arena, o->buffers.diff_dst),
                    .dx = arena_at(&m->arena, o->buffers.diff),
                    .rooms = arena_at(&m->arena, o->buffers.scratch_weights)};
    TRY(comet_store_tiling(m->store, y->slot, &n_tiles, &job.tile));
    if (o->buffers.mask_sums != NO_BUFFER) {
        channel_sums_begin(&sums, &spec, (uint8_t *)job.rooms + mask_rooms_bytes(m, o));
        job.sums = &sums;
    }
    TRY(tile_run(m->params.n_threads, 0, n_tiles, mask_tile, &job, o->layer->name));
    if (job.sums)
        channel_sums_end(&sums, arena_at(&m->arena, o->buffers.mask_sums));
    return COMET_OK;
}
