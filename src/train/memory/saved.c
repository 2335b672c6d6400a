/*
 * What forward leaves for backward: when it is put, taken and dropped.
 */
#include "base/bytes.h"
#include "train/backend/element.h"
#include "train/math/elementwise.h"
#include "train/math/tile_run.h"
#include "train/memory/memory.h"

/* ---- forward ---- */

static comet_status dump_value(comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    return m->dump ? dump_tensor(m, value_maker(m, x), x->saved_for, x->layout, value_data(m, v)) : COMET_OK;
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
    return o->workspace.slot == COMET_NO_SLOT
               ? COMET_OK
               : comet_store_put(m->store, o->workspace.slot, arena_at(&m->arena, o->buffers.workspace));
}

/* A bound relative to the deviation is known only when the whole tensor is there. */
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
    comet_dtype type;
    void *room;
    uint16_t *signs; /* of the tensor, to be filled while it is decoded, or NULL */
} take_job;

static comet_status take_tile(void *arg, uint64_t k, size_t worker)
{
    const take_job *job = arg;
    const uint64_t first = k * job->tile;
    const void *x;
    void *room = elements_at(job->type, job->room, (k - job->first) * job->tile);
    TRY(comet_store_take_tile_any(job->m->store, job->slot, k, worker, room, &x));
    if (job->signs)
        signs_of(job->type, min_u64(job->tile, job->n - first), x, job->signs + first / SIGNS_A_WORD);
    return COMET_OK;
}

/* Where a part begins, and the tiles that cover it, for which a room has space. */
typedef struct part_tiles {
    uint64_t begin, first, end, tile;
} part_tiles;

static comet_status tiles_of_part(const comet_model *m, uint32_t v, saved_part part, part_tiles *t)
{
    const uint64_t n = layout_elements(m->values[v].layout) / part.n;
    uint64_t n_tiles;
    TRY(comet_store_tiling(m->store, value_slot(m, v), &n_tiles, &t->tile));
    t->begin = part.index * n;
    t->first = t->begin / t->tile;
    t->end = (t->begin + n + t->tile - 1) / t->tile;
    return COMET_OK;
}

void saved_own_taken(op *o, bool all)
{
    o->own.decoded |= all && o->own.whole != NO_BUFFER;
}

static comet_status derive_part(comet_model *m, uint32_t v, saved_part part, void *room, buffer_id scratch)
{
    value *x = &m->values[v];
    op *producer = &m->ops[x->producer];
    part_tiles t;
    TRY(tiles_of_part(m, v, part, &t));
    x->taken = elements_at(layout_type(x->layout), room, t.begin - t.first * t.tile);
    TRY(producer->type->derive(m, producer, t.first, t.end, room, arena_at(&m->arena, scratch)));
    saved_own_taken(producer, part.index + 1 == part.n);
    return COMET_OK;
}

/* Decodes into `whole`, if there is one, which serves later readers, too. */
static comet_status decode_part(comet_model *m, uint32_t v, saved_part part, void *room)
{
    value *x = &m->values[v];
    const comet_dtype type = layout_type(x->layout);
    const bool keeps = x->whole != NO_BUFFER;
    part_tiles t;
    TRY(tiles_of_part(m, v, part, &t));
    void *where = keeps ? elements_at(type, arena_at(&m->arena, x->whole), t.first * t.tile) : room;
    take_job job = {.m = m,
                    .slot = x->slot,
                    .n = layout_elements(x->layout),
                    .first = t.first,
                    .tile = t.tile,
                    .type = type,
                    .room = where,
                    .signs = x->signs_known ? NULL : arena_at(&m->arena, x->signs)};
    x->taken = elements_at(type, where, t.begin - t.first * t.tile);
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
    return layout_bytes(x->layout) / n_parts + 2 * tile * comet_dtype_bytes(layout_type(x->layout));
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
    x->taken = (uint8_t *)whole + part.index * (layout_bytes(x->layout) / part.n);
    return COMET_OK;
}

comet_status saved_take_input(comet_model *m, op *o, saved_part part)
{
    return take_value(m, o->inputs[0], part, o->buffers.rooms[0], o->buffers.scratch_weights);
}

comet_status saved_take(comet_model *m, op *o)
{
    const saved_part all = {0, 1};
    for (uint32_t j = o->n_parts > 0; o->type->keeps_input && j < o->n_inputs; j++)
        if (j == 0 || o->inputs[j] != o->inputs[0])
            TRY(take_value(m, o->inputs[j], all, o->buffers.rooms[j], o->buffers.scratch_weights));
    if (o->type->keeps_output)
        TRY(take_value(m, o->output, all, o->buffers.room_output, o->buffers.scratch_weights));
    if (o->workspace.slot == COMET_NO_SLOT)
        return COMET_OK;
    return comet_store_take(m->store, o->workspace.slot, arena_at(&m->arena, o->buffers.room_workspace), &o->workspace.taken);
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
    if (o->type->keeps_output || o->mask.used)
        TRY(drop_value(m, o, o->output));
    if (o->own.slot != COMET_NO_SLOT)
        TRY(comet_store_drop(m->store, o->own.slot));
    return o->workspace.slot == COMET_NO_SLOT ? COMET_OK : comet_store_drop(m->store, o->workspace.slot);
}
