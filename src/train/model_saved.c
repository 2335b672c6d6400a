/*
 * What forward leaves for backward: the slots of the store, and when they are put, taken and dropped.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "train/elementwise.h"
#include "train/model_internal.h"
#include "train/parallel.h"

/* ---- slots ---- */

/* Flat where the layout has no name in the codec. */
comet_tensor layout_tensor(const layout *l)
{
    comet_tensor t;
    uint64_t dims[5], block = 1, n = layout_bytes(l) / sizeof(float);
    size_t bytes = 0;
    const uint32_t n_dims = layout_dims(l, dims);
    const layout_order order = layout_describe(l, &block);
    const bool named = order == ORDER_PLANAR || (n_dims == 4 && (order == ORDER_CHANNELS_LAST || block == 8 || block == 16));
    if (named && comet_tensor_init(&t, COMET_DTYPE_F32, n_dims, dims) == COMET_OK) {
        t.layout = order == ORDER_PLANAR          ? COMET_LAYOUT_PLANAR
                   : order == ORDER_CHANNELS_LAST ? COMET_LAYOUT_CHANNELS_LAST
                   : block == 8                   ? COMET_LAYOUT_BLOCKED8
                                                  : COMET_LAYOUT_BLOCKED16;
        if (comet_tensor_bytes(&t, &bytes) == COMET_OK && bytes == layout_bytes(l))
            return t;
    }
    comet_tensor_init(&t, COMET_DTYPE_F32, 1, &n);
    return t;
}

static comet_slot_spec spec_of(const char *layer, comet_slot_class class_, comet_exactness exactness, const layout *l)
{
    comet_slot_spec spec;
    comet_slot_spec_init(&spec);
    spec.layer = layer;
    spec.class_ = class_;
    spec.exactness = exactness;
    spec.tensor = layout_tensor(l);
    spec.bytes = layout_bytes(l);
    return spec;
}

static comet_status declare_value(comet_model *m, value *x)
{
    if (!x->saved || x->derived)
        return COMET_OK;
    const char *layer = x->producer == NONE ? "input" : m->ops[x->producer].layer->name;
    const comet_slot_spec spec = spec_of(layer, x->saved_class, x->exactness, x->layout);
    return comet_store_declare(m->store, &spec, &x->slot);
}

/* Signs stand for the relu behind it. */
static comet_status declare_norm(comet_model *m, op *o)
{
    uint64_t n_tiles, tile;
    const comet_slot_spec spec =
        spec_of(o->layer->name, COMET_SLOT_NORM_INPUT, o->relu ? COMET_SUPPORT : COMET_LOSSY, m->values[o->inputs[0]].layout);
    m->values[o->inputs[0]].norm_input = true;
    TRY(comet_store_declare(m->store, &spec, &o->norm_slot));
    TRY(comet_store_tiling(m->store, o->norm_slot, &n_tiles, &tile));
    if (n_tiles > 1 && tile % o->norm.period != 0) /* tiles of rows that long end within one */
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: batch normalisation of %llu channels without planes is too wide",
                          o->layer->name, (unsigned long long)o->norm.channels);
    return COMET_OK;
}

/* Bits that the number of an element within the window takes. */
static uint32_t window_bits(const comet_layer *l)
{
    uint32_t bits = 1;
    while (bits < 8 && (1u << bits) < l->kernel[0] * l->kernel[1])
        bits++;
    return bits < 8 ? bits : 0;
}

/* The indices of max pooling are bytes, as long as windows are small; other workspaces are taken as they are. */
static comet_status declare_workspace(comet_model *m, op *o)
{
    const bool pool = o->layer->op == COMET_OP_MAX_POOL;
    comet_slot_spec spec =
        spec_of(o->layer->name, pool ? COMET_SLOT_INDEX : COMET_SLOT_OTHER, COMET_EXACT, o->workspace_layout);
    const uint64_t n = (spec.bytes + sizeof(float) - 1) / sizeof(float);
    TRY(comet_tensor_init(&spec.tensor, COMET_DTYPE_F32, 1, &n));
    spec.index_bits = pool ? window_bits(o->layer) : 0;
    return comet_store_declare(m->store, &spec, &o->workspace_slot);
}

comet_status saved_declare(comet_model *m)
{
    for (uint32_t v = 0; v < m->n_values; v++)
        TRY(declare_value(m, &m->values[v]));
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (!m->values[o->output].needs_gradient)
            continue;
        if (o->mean != NONE)
            TRY(declare_norm(m, o));
        if (o->workspace_layout)
            TRY(declare_workspace(m, o));
    }
    return COMET_OK;
}

/* ---- forward ---- */

static comet_status put_value(comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    const char *layer = x->producer == NONE ? "input" : m->ops[x->producer].layer->name;
    if (m->dump)
        TRY(dump_tensor(m, layer, x->saved_for, x->layout, value_data(m, v)));
    return comet_store_put(m->store, x->slot, value_data(m, v));
}

comet_status saved_put_before(comet_model *m, const op *o)
{
    for (uint32_t j = 0; j < o->n_inputs; j++) {
        const value *x = &m->values[o->inputs[j]];
        bool again = false; /* the same value twice */
        for (uint32_t k = 0; k < j; k++)
            again |= o->inputs[k] == o->inputs[j];
        if (x->slot != COMET_NO_SLOT && x->last_reader == o->index && !again)
            TRY(put_value(m, o->inputs[j]));
    }
    return COMET_OK;
}

comet_status saved_put_after(comet_model *m, const op *o)
{
    const value *y = &m->values[o->output];
    if (y->slot != COMET_NO_SLOT && y->last_reader == NONE)
        TRY(put_value(m, o->output));
    return o->workspace_slot == COMET_NO_SLOT ? COMET_OK
                                              : comet_store_put(m->store, o->workspace_slot, arena_at(&m->arena, o->workspace));
}

/* ---- backward ---- */

static comet_status take_value(comet_model *m, uint32_t v, buffer_id room, buffer_id scratch)
{
    value *x = &m->values[v];
    void *where = arena_at(&m->arena, room);
    if (!x->derived)
        return comet_store_take(m->store, x->slot, where, &x->taken);
    x->taken = where;
    return norm_again(m, &m->ops[x->producer], where, arena_at(&m->arena, scratch));
}

comet_status saved_take(comet_model *m, op *o)
{
    for (uint32_t j = 0; o->type->keeps_input && j < o->n_inputs; j++)
        if (j == 0 || o->inputs[j] != o->inputs[0])
            TRY(take_value(m, o->inputs[j], o->rooms[j], o->scratch_weights));
    if (o->type->keeps_output)
        TRY(take_value(m, o->output, o->room_output, o->scratch_weights));
    if (o->workspace_slot == COMET_NO_SLOT)
        return COMET_OK;
    return comet_store_take(m->store, o->workspace_slot, arena_at(&m->arena, o->room_workspace), &o->workspace_taken);
}

static comet_status drop_value(comet_model *m, const op *o, uint32_t v)
{
    value *x = &m->values[v];
    x->taken = NULL;
    return x->slot != COMET_NO_SLOT && x->last_backward == o->index ? comet_store_drop(m->store, x->slot) : COMET_OK;
}

comet_status saved_drop(comet_model *m, op *o)
{
    for (uint32_t j = 0; o->type->keeps_input && j < o->n_inputs; j++)
        if (j == 0 || o->inputs[j] != o->inputs[0])
            TRY(drop_value(m, o, o->inputs[j]));
    if (o->type->keeps_output || o->masks)
        TRY(drop_value(m, o, o->output));
    if (o->norm_slot != COMET_NO_SLOT)
        TRY(comet_store_drop(m->store, o->norm_slot));
    return o->workspace_slot == COMET_NO_SLOT ? COMET_OK : comet_store_drop(m->store, o->workspace_slot);
}

/* ---- masks ---- */

typedef struct mask_job {
    const comet_model *m;
    comet_slot slot;
    uint64_t n_tiles, tile, n;
    const float *dy;
    float *dx, *rooms;
    atomic_size_t next;
    atomic_int status;
    char error[256]; /* of the first that failed: sentences stay with their threads */
} mask_job;

static comet_status mask_tile(mask_job *job, uint64_t k, size_t worker)
{
    const float *y;
    const uint64_t first = k * job->tile, n = min_u64(job->tile, job->n - first);
    TRY(comet_store_take_tile(job->m->store, job->slot, k, worker, job->rooms + worker * job->tile, &y));
    pass_where_positive(n, y, job->dy + first, job->dx + first);
    return COMET_OK;
}

static void mask_tiles(void *arg, size_t worker)
{
    mask_job *job = arg;
    for (;;) {
        const uint64_t k = atomic_fetch_add(&job->next, 1);
        if (k >= job->n_tiles)
            return;
        const comet_status status = mask_tile(job, k, worker);
        int none = COMET_OK;
        if (status != COMET_OK && atomic_compare_exchange_strong(&job->status, &none, (int)status))
            snprintf(job->error, sizeof job->error, "%s", comet_last_error());
    }
}

comet_status saved_mask(comet_model *m, const op *o)
{
    const value *y = &m->values[o->output];
    mask_job job = {.m = m,
                    .slot = y->slot,
                    .n = layout_bytes(y->layout) / sizeof(float),
                    .dy = arena_at(&m->arena, o->diff_dst),
                    .dx = arena_at(&m->arena, o->diff),
                    .rooms = arena_at(&m->arena, o->scratch_weights)};
    TRY(comet_store_tiling(m->store, y->slot, &job.n_tiles, &job.tile));
    parallel_run(NULL, (size_t)min_u64(m->params.n_threads, job.n_tiles), mask_tiles, &job);
    const comet_status status = (comet_status)atomic_load(&job.status);
    return status == COMET_OK ? COMET_OK : comet_fail(status, "%s: %s", o->layer->name, job.error);
}
