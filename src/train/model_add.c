/*
 * The sum of two values, with a relu behind it or without. It goes tile by tile of the store, so that what belongs to it
 * happens while a tile lies in the caches: batch norms that left their output to it are applied before, the sum is coded
 * behind.
 */
#include "base/bytes.h"
#include "train/elementwise.h"
#include "train/model_internal.h"
#include "train/tile_run.h"

typedef struct add_run {
    comet_model *m;
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

static void apply_late_norms(const add_run *r, uint64_t first, uint64_t n)
{
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t producer = r->m->values[r->o->inputs[j]].producer;
        if (producer != NONE && r->m->ops[producer].applied_by == r->o->index)
            norm_apply_late(r->m, &r->m->ops[producer], first, n);
    }
}

static comet_status add_tile(void *arg, uint64_t k, size_t worker)
{
    const add_run *r = arg;
    const uint64_t first = k * r->tile, n = min_u64(r->tile, r->n - first);
    apply_late_norms(r, first, n);
    sum_of(n, r->a + first, r->b + first, r->o->relu, r->y + first);
    return r->slot == COMET_NO_SLOT ? COMET_OK : comet_store_put_tile(r->m->store, r->slot, k, worker, r->y + first);
}

uint64_t add_tile_elements(const comet_model *m, const op *o)
{
    const value *y = &m->values[o->output];
    uint64_t n_tiles, tile;
    return y->put_by_producer && comet_store_tiling(m->store, y->slot, &n_tiles, &tile) == COMET_OK ? tile : TILE;
}

static comet_status add_tiles(add_run *r)
{
    r->tile = add_tile_elements(r->m, r->o);
    return tile_run(r->m->params.n_threads, 0, (r->n + r->tile - 1) / r->tile, add_tile, r, r->o->layer->name);
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
