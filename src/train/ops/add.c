/*
 * The sum of two values, with or without a fused relu. It goes tile by tile of the store, so that everything happens while a
 * tile lies in the caches: deferred batch norms are applied before, the sum is coded afterwards.
 */
#include "base/bytes.h"
#include "train/backend/element.h"
#include "train/math/elementwise.h"
#include "train/math/tile_run.h"
#include "train/memory/memory.h"
#include "train/ops/ops.h"

/* One of the two. */
typedef struct addend {
    const void *x;
    bool is_deferred; /* it is a deferred norm, computed here from its input */
    deferred_norm deferred;
} addend;

typedef struct add_run {
    comet_model *m;
    const op *o;
    addend addends[2];
    comet_dtype type;
    void *y;
    uint64_t n, tile, piece;
    comet_slot slot; /* where tiles go; COMET_NO_SLOT: nowhere */
} add_run;

comet_status add_prepare(comet_model *m, op *o)
{
    set_output_layout(m, o, input_layout(m, o));
    o->mask.used = o->relu && !m->params.inference;
    return COMET_OK;
}

static addend addend_of(comet_model *m, const op *o, uint32_t j)
{
    const uint32_t producer = m->values[o->inputs[j]].producer;
    const batch_norm *norm = producer == NONE ? NULL : batch_norm_of(&m->ops[producer]);
    addend a = {.x = value_data(m, o->inputs[j]), .is_deferred = norm && norm->deferred_to == o->index};
    if (a.is_deferred)
        a.deferred = deferred_norm_of(m, &m->ops[producer]);
    return a;
}

static const void *addend_at(const add_run *r, int j, uint64_t first, uint64_t n, size_t worker)
{
    const addend *a = &r->addends[j];
    return a->is_deferred ? deferred_norm_apply(&a->deferred, first, n, worker) : elements_from(r->type, a->x, first);
}

static comet_status add_tile(void *arg, uint64_t k, size_t worker)
{
    const add_run *r = arg;
    const uint64_t first = k * r->tile, end = min_u64(first + r->tile, r->n);
    for (uint64_t i = first; i < end; i += r->piece) {
        const uint64_t n = min_u64(r->piece, end - i);
        const void *a = addend_at(r, 0, i, n, worker), *b = addend_at(r, 1, i, n, worker);
        sum_of(r->type, n, a, b, r->o->relu, elements_at(r->type, r->y, i));
    }
    if (r->slot == COMET_NO_SLOT)
        return COMET_OK;
    if (end < r->n) /* of one addend: as much is fetched as is coded */
        comet_store_prefetch(r->m->store, worker, elements_from(r->type, r->addends[1].x, end));
    return comet_store_put_tile(r->m->store, r->slot, k, worker, elements_from(r->type, r->y, first));
}

static comet_status add_tiles(add_run *r)
{
    r->tile = r->piece = saved_made_tile(r->m, r->o->output);
    for (int j = 0; j < 2; j++)
        if (r->addends[j].is_deferred)
            r->piece = min_u64(r->piece, r->addends[j].deferred.piece);
    return tile_run(r->m->params.n_threads, 0, (r->n + r->tile - 1) / r->tile, add_tile, r, r->o->layer->name);
}

comet_status add_forward(comet_model *m, op *o, run_mode mode)
{
    const value *y = &m->values[o->output];
    add_run r = {.m = m,
                 .o = o,
                 .addends = {addend_of(m, o, 0), addend_of(m, o, 1)},
                 .type = layout_type(y->layout),
                 .y = value_data(m, o->output),
                 .n = layout_elements(y->layout),
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
