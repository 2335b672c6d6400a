/*
 * The sum of two values, with a relu behind it or without. It goes tile by tile of the store, so that a sum that is to be coded
 * is coded while it lies in the caches.
 */
#include "base/bytes.h"
#include "train/elementwise.h"
#include "train/model_internal.h"
#include "train/tile_run.h"

typedef struct add_run {
    const comet_model *m;
    const op *o;
    const float *a, *b;
    float *y;
    uint64_t n, tile;
    comet_slot slot; /* that tiles go to, COMET_NO_SLOT: none */
} add_run;

comet_status add_prepare(comet_model *m, op *o)
{
    set_output_layout(m, o, input_layout(m, o));
    o->masks = o->relu && !m->params.inference;
    return COMET_OK;
}

static comet_status add_tile(void *arg, uint64_t k, size_t worker)
{
    const add_run *r = arg;
    const uint64_t first = k * r->tile;
    sum_of(min_u64(r->tile, r->n - first), r->a + first, r->b + first, r->o->relu, r->y + first);
    return r->slot == COMET_NO_SLOT ? COMET_OK : comet_store_put_tile(r->m->store, r->slot, k, worker, r->y + first);
}

static comet_status add_tiles(add_run *r)
{
    uint64_t n_tiles = (r->n + TILE - 1) / TILE;
    r->tile = TILE;
    if (r->slot != COMET_NO_SLOT)
        TRY(comet_store_tiling(r->m->store, r->slot, &n_tiles, &r->tile));
    return tile_run(r->m->params.n_threads, 0, n_tiles, add_tile, r, r->o->layer->name);
}

comet_status add_forward(comet_model *m, op *o, run_mode mode)
{
    const value *y = &m->values[o->output];
    add_run r = {.m = m,
                 .o = o,
                 .a = value_data(m, o->inputs[0]),
                 .b = value_data(m, o->inputs[1]),
                 .y = value_data(m, o->output),
                 .n = layout_bytes(y->layout) / sizeof(float),
                 .slot = COMET_NO_SLOT};
    if (mode != RUN_TRAIN || !y->put_by_producer)
        return add_tiles(&r);
    TRY(saved_put_begin(m, o->output, &r.slot));
    TRY(add_tiles(&r));
    return saved_put_end(m, o->output, r.slot);
}

comet_status add_backward(comet_model *m, op *o)
{
    (void)m, (void)o; /* the gradient passes through */
    return COMET_OK;
}
