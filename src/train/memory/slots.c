/*
 * The slots of the store that a model uses.
 */
#include "train/math/tile_run.h"
#include "train/memory/memory.h"

/* The tensor is flat where the codec has no such layout. */
comet_tensor layout_tensor(const layout *l)
{
    comet_tensor t;
    const comet_dtype type = layout_type(l);
    uint64_t dims[5], block = 1, n = layout_elements(l);
    size_t bytes = 0;
    const uint32_t n_dims = layout_dims(l, dims);
    const layout_order order = layout_describe(l, &block);
    const bool named = order == ORDER_PLANAR || (n_dims == 4 && (order == ORDER_CHANNELS_LAST || block == 8 || block == 16));
    if (named && comet_tensor_init(&t, type, n_dims, dims) == COMET_OK) {
        t.layout = order == ORDER_PLANAR          ? COMET_LAYOUT_PLANAR
                   : order == ORDER_CHANNELS_LAST ? COMET_LAYOUT_CHANNELS_LAST
                   : block == 8                   ? COMET_LAYOUT_BLOCKED8
                                                  : COMET_LAYOUT_BLOCKED16;
        if (comet_tensor_bytes(&t, &bytes) == COMET_OK && bytes == layout_bytes(l))
            return t;
    }
    comet_tensor_init(&t, type, 1, &n);
    return t;
}

comet_slot_spec saved_spec(const char *layer, comet_slot_class class_, comet_exactness exactness, const layout *l)
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
    const comet_slot_spec spec = saved_spec(value_maker(m, x), x->saved_class, x->exactness, x->layout);
    x->put_by_producer = m->coded && x->producer != NONE && m->ops[x->producer].type->puts_output;
    return comet_store_declare(m->store, &spec, &x->slot);
}

/* Workspaces are bytes, whatever their layout says. */
static comet_status declare_workspace(comet_model *m, op *o)
{
    op_workspace *w = &o->workspace;
    comet_slot_spec spec = saved_spec(o->layer->name, w->class_, COMET_EXACT, w->layout);
    const uint64_t n = (spec.bytes + sizeof(float) - 1) / sizeof(float);
    TRY(comet_tensor_init(&spec.tensor, COMET_DTYPE_F32, 1, &n));
    spec.index_bits = w->index_bits;
    return comet_store_declare(m->store, &spec, &w->slot);
}

comet_status saved_declare(comet_model *m)
{
    for (uint32_t v = 0; v < m->n_values; v++)
        TRY(declare_value(m, &m->values[v]));
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (!m->values[o->output].needs_gradient)
            continue;
        if (o->type->declare_own)
            TRY(o->type->declare_own(m, o));
        if (o->workspace.layout)
            TRY(declare_workspace(m, o));
    }
    return COMET_OK;
}

comet_slot value_slot(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    return x->derived ? m->ops[x->producer].own.slot : x->slot;
}

uint64_t saved_made_tile(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    uint64_t n_tiles, tile;
    return x->put_by_producer && comet_store_tiling(m->store, x->slot, &n_tiles, &tile) == COMET_OK ? tile : TILE;
}
