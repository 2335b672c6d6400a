/*
 * What forward leaves for backward: the slots of the store, and when they are put, taken and dropped.
 */
#include "base/bytes.h"
#include "train/graph/graph.h"
#include "train/math/channel_sums.h"
#include "train/math/elementwise.h"
#include "train/math/tile_run.h"

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

static const char *maker_of(const comet_model *m, const value *x)
{
    return x->producer == NONE ? "input" : m->ops[x->producer].layer->name;
}

static comet_status declare_value(comet_model *m, value *x)
{
    if (!x->saved || x->derived)
        return COMET_OK;
    const comet_slot_spec spec = spec_of(maker_of(m, x), x->saved_class, x->exactness, x->layout);
    x->put_by_producer = m->coded && x->producer != NONE && m->ops[x->producer].type == op_type_of(COMET_OP_ADD);
    return comet_store_declare(m->store, &spec, &x->slot);
}

/* Signs stand for the relu behind it. Where it is folded into another op there is no slot, but the same tiles. */
static comet_status declare_norm(comet_model *m, op *o)
{
    uint64_t n_tiles;
    const comet_slot_spec spec =
        spec_of(o->layer->name, COMET_SLOT_NORM_INPUT, o->relu ? COMET_SUPPORT : COMET_LOSSY, m->values[o->inputs[0]].layout);
    TRY(comet_store_spec_tiling(&spec, &n_tiles, &o->norm_tile));
    if (n_tiles > 1 && o->norm_tile % o->norm.period != 0) /* tiles of rows that long end within one */
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: batch normalisation of %llu channels without planes is too wide",
                          o->layer->name, (unsigned long long)o->norm.channels);
    if (o->folded_into != NONE)
        return COMET_OK;
    m->values[o->inputs[0]].norm_input = true;
    return comet_store_declare(m->store, &spec, &o->norm_slot);
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

comet_slot value_slot(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    return x->derived ? m->ops[x->producer].norm_slot : x->slot;
}

/* ---- forward ---- */

static comet_status dump_value(comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    return m->dump ? dump_tensor(m, maker_of(m, x), x->saved_for, x->layout, value_data(m, v)) : COMET_OK;
}

static comet_status put_value(comet_model *m, uint32_t v)
{
    TRY(dump_value(m, v));
    return comet_store_put(m->store, m->values[v].slot, value_data(m, v));
}

comet_status saved_put_before(comet_model *m, const op *o)
{
    for (uint32_t j = 0; j < o->n_inputs; j++) {
        const value *x = &m->values[o->inputs[j]];
        bool again = false; /* the same value twice */
        for (uint32_t k = 0; k < j; k++)
            again |= o->inputs[k] == o->inputs[j];
        if (x->slot != COMET_NO_SLOT && !x->put_by_producer && x->last_reader == o->index && !again)
            TRY(put_value(m, o->inputs[j]));
    }
    return COMET_OK;
}

comet_status saved_put_after(comet_model *m, const op *o)
{
    const value *y = &m->values[o->output];
    if (y->slot != COMET_NO_SLOT && !y->put_by_producer && y->last_reader == NONE)
        TRY(put_value(m, o->output));
    return o->workspace_slot == COMET_NO_SLOT ? COMET_OK
                                              : comet_store_put(m->store, o->workspace_slot, arena_at(&m->arena, o->workspace));
}

/* A bound relative to the deviation is known when all of it is there. */
comet_status saved_put_begin(comet_model *m, uint32_t v, comet_slot *slot)
{
    const comet_slot_policy *p = comet_store_slot_policy(m->store, m->values[v].slot);
    *slot = COMET_NO_SLOT;
    if (p->policy != COMET_POLICY_LOSSLESS && (p->policy != COMET_POLICY_BOUNDED || p->of_deviation))
        return COMET_OK;
    *slot = m->values[v].slot;
    return comet_store_put_begin(m->store, *slot);
}

comet_status saved_put_end(comet_model *m, uint32_t v, comet_slot slot)
{
    if (slot == COMET_NO_SLOT)
        return put_value(m, v);
    TRY(dump_value(m, v));
    return comet_store_put_end(m->store, slot);
}

/* ---- backward ---- */

/* Tiles decoded one after another into a room. */
typedef struct take_job {
    const comet_model *m;
    comet_slot slot;
    uint64_t n;           /* elements of the tensor */
    uint64_t first, tile; /* the room's first tile; elements of one */
    float *room;
    uint16_t *signs; /* of the tensor, to be told on the way, or NULL */
} take_job;

static comet_status take_tile(void *arg, uint64_t k, size_t worker)
{
    const take_job *job = arg;
    const uint64_t first = k * job->tile;
    const float *x;
    TRY(comet_store_take_tile(job->m->store, job->slot, k, worker, job->room + (k - job->first) * job->tile, &x));
    if (job->signs)
        signs_of(min_u64(job->tile, job->n - first), x, job->signs + first / SIGNS_A_WORD);
    return COMET_OK;
}

/* Where a part begins, and the tiles around it, for which a room has place. */
typedef struct part_tiles {
    uint64_t begin, first, end, tile;
} part_tiles;

static comet_status tiles_of_part(const comet_model *m, uint32_t v, saved_part part, part_tiles *t)
{
    const uint64_t n = layout_bytes(m->values[v].layout) / sizeof(float) / part.n;
    uint64_t n_tiles;
    TRY(comet_store_tiling(m->store, value_slot(m, v), &n_tiles, &t->tile));
    t->begin = part.index * n;
    t->first = t->begin / t->tile;
    t->end = (t->begin + n + t->tile - 1) / t->tile;
    return COMET_OK;
}

static comet_status derive_part(comet_model *m, uint32_t v, saved_part part, float *room, buffer_id scratch)
{
    value *x = &m->values[v];
    op *producer = &m->ops[x->producer];
    part_tiles t;
    TRY(tiles_of_part(m, v, part, &t));
    x->taken = room + (t.begin - t.first * t.tile);
    TRY(norm_again(m, producer, t.first, t.end, room, arena_at(&m->arena, scratch)));
    norm_took(producer, part.index + 1 == part.n);
    return COMET_OK;
}

/* Into `whole`, if there is one, for later readers too. */
static comet_status decode_part(comet_model *m, uint32_t v, saved_part part, float *room)
{
    value *x = &m->values[v];
    const bool keeps = x->whole != NO_BUFFER;
    part_tiles t;
    TRY(tiles_of_part(m, v, part, &t));
    float *where = keeps ? (float *)arena_at(&m->arena, x->whole) + t.first * t.tile : room;
    take_job job = {.m = m,
                    .slot = x->slot,
                    .n = layout_bytes(x->layout) / sizeof(float),
                    .first = t.first,
                    .tile = t.tile,
                    .room = where,
                    .signs = x->signs_known ? NULL : arena_at(&m->arena, x->signs)};
    x->taken = where + (t.begin - t.first * t.tile);
    if (!x->decoded)
        TRY(tile_run(m->params.n_threads, t.first, t.end, take_tile, &job, m->ops[x->producer].layer->name));
    const bool all = part.index + 1 == part.n;
    x->decoded = x->decoded || (keeps && all);
    x->signs_known = x->signs != NO_BUFFER && (x->signs_known || all);
    return COMET_OK;
}

uint64_t saved_room_bytes(const comet_model *m, uint32_t v, uint32_t n_parts)
{
    const value *x = &m->values[v];
    uint64_t n_tiles, tile;
    if (n_parts == 1 || comet_store_tiling(m->store, value_slot(m, v), &n_tiles, &tile) != COMET_OK)
        return layout_bytes(x->layout);
    return layout_bytes(x->layout) / n_parts + 2 * tile * sizeof(float);
}

static comet_status take_value(comet_model *m, uint32_t v, saved_part part, buffer_id room, buffer_id scratch)
{
    value *x = &m->values[v];
    void *where = arena_at(&m->arena, room), *whole;
    if (x->derived)
        return derive_part(m, v, part, where, scratch);
    if (room != NO_BUFFER && (part.n > 1 || x->whole != NO_BUFFER || x->signs != NO_BUFFER))
        return decode_part(m, v, part, where);
    TRY(comet_store_take(m->store, x->slot, where, &whole));
    x->taken = (float *)whole + part.index * (layout_bytes(x->layout) / sizeof(float) / part.n);
    return COMET_OK;
}

comet_status saved_take_input(comet_model *m, op *o, saved_part part)
{
    return take_value(m, o->inputs[0], part, o->rooms[0], o->scratch_weights);
}

comet_status saved_take(comet_model *m, op *o)
{
    const saved_part all = {0, 1};
    for (uint32_t j = 0; o->type->keeps_input && o->n_parts == 0 && j < o->n_inputs; j++)
        if (j == 0 || o->inputs[j] != o->inputs[0])
            TRY(take_value(m, o->inputs[j], all, o->rooms[j], o->scratch_weights));
    if (o->type->keeps_output)
        TRY(take_value(m, o->output, all, o->room_output, o->scratch_weights));
    if (o->workspace_slot == COMET_NO_SLOT)
        return COMET_OK;
    return comet_store_take(m->store, o->workspace_slot, arena_at(&m->arena, o->room_workspace), &o->workspace_taken);
}

/* Words must not reach from one tile into the next, which another thread may decode. */
uint64_t saved_signs_bytes(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    const uint64_t n = layout_bytes(x->layout) / sizeof(float);
    uint64_t n_tiles, tile;
    if (!m->coded || x->slot == COMET_NO_SLOT || x->producer == NONE || !m->ops[x->producer].masks ||
        comet_store_tiling(m->store, x->slot, &n_tiles, &tile) != COMET_OK || (n_tiles > 1 && tile % SIGNS_A_WORD != 0))
        return 0;
    return ceil_div_u64(n, SIGNS_A_WORD) * sizeof(uint16_t);
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
    uint64_t tile, n;
    const uint16_t *signs;   /* known already, or NULL */
    const float *whole, *dy; /* whole: decoded already, or NULL */
    float *dx, *rooms;
    const channel_sums *sums; /* of dx, or NULL */
} mask_job;

static comet_status mask_tile(void *arg, uint64_t k, size_t worker)
{
    const mask_job *job = arg;
    const uint64_t first = k * job->tile, n = min_u64(job->tile, job->n - first);
    if (job->signs) {
        pass_where_set(n, job->signs + first / SIGNS_A_WORD, job->dy + first, job->dx + first);
    } else {
        const float *y = job->whole ? job->whole + first : NULL;
        if (!y) {
            comet_store_prefetch(job->m->store, worker, job->dy + first);
            TRY(comet_store_take_tile(job->m->store, job->slot, k, worker, job->rooms + worker * job->tile, &y));
        }
        pass_where_positive(n, y, job->dy + first, job->dx + first);
    }
    if (job->sums)
        channel_sums_add(job->sums, k, job->dx + first);
    return COMET_OK;
}

static uint64_t mask_tile_elements(const comet_model *m, const op *o)
{
    uint64_t n_tiles, tile;
    return comet_store_tiling(m->store, m->values[o->output].slot, &n_tiles, &tile) == COMET_OK ? tile : 0;
}

static channel_sums_spec mask_sums_spec(const comet_model *m, const op *o)
{
    return (channel_sums_spec){.shape = &o->norm, .n = o->norm.n_elements, .tile = mask_tile_elements(m, o)};
}

/* Tiles must end between rows. */
uint64_t saved_mask_sums_bytes(const comet_model *m, const op *o)
{
    return o->sums && mask_tile_elements(m, o) % o->norm.period == 0 ? 2 * o->norm.channels * sizeof(double) : 0;
}

static uint64_t mask_rooms_floats(const comet_model *m, const op *o)
{
    if (m->values[o->output].signs != NO_BUFFER) /* declared by its readers, which are lowered before */
        return 0;
    return padded_floats(m->params.n_threads * mask_tile_elements(m, o));
}

/* A tile for each worker, then what sums need. */
uint64_t saved_mask_scratch_bytes(const comet_model *m, const op *o)
{
    if (!o->masks)
        return 0;
    const channel_sums_spec spec = mask_sums_spec(m, o);
    const uint64_t rooms = mask_rooms_floats(m, o) * sizeof(float);
    return rooms + (saved_mask_sums_bytes(m, o) > 0 ? channel_sums_bytes(&spec) : 0);
}

comet_status saved_mask(comet_model *m, const op *o)
{
    const value *y = &m->values[o->output];
    const channel_sums_spec spec = mask_sums_spec(m, o);
    uint64_t n_tiles;
    channel_sums sums;
    mask_job job = {.m = m,
                    .slot = y->slot,
                    .n = layout_bytes(y->layout) / sizeof(float),
                    .signs = y->signs_known ? arena_at(&m->arena, y->signs) : NULL,
                    .whole = y->decoded ? arena_at(&m->arena, y->whole) : NULL,
                    .dy = arena_at(&m->arena, o->diff_dst),
                    .dx = arena_at(&m->arena, o->diff),
                    .rooms = arena_at(&m->arena, o->scratch_weights)};
    TRY(comet_store_tiling(m->store, y->slot, &n_tiles, &job.tile));
    if (o->mask_sums != NO_BUFFER) {
        channel_sums_begin(&sums, &spec, job.rooms + mask_rooms_floats(m, o));
        job.sums = &sums;
    }
    TRY(tile_run(m->params.n_threads, 0, n_tiles, mask_tile, &job, o->layer->name));
    if (job.sums)
        channel_sums_end(&sums, arena_at(&m->arena, o->mask_sums));
    return COMET_OK;
}
