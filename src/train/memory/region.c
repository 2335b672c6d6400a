/*
 * The table of a model's memory, before and after steps; and the one region that transients and coded tensors share.
 *
 * Transients are largest where coded tensors are few: early in forward and late in backward. So the arena hangs from the top of
 * the region and coded tensors grow from its bottom. In an assessed step samples lie among them: above those that are there
 * when the first sample is kept, so that transients may have that place before and after. Each slot has a ceiling: the lowest
 * byte that any transient takes while the slot is held. What does not fit below goes to memory that the store takes itself.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/describe.h"
#include "base/memory.h"
#include "train/memory/memory.h"

/* ---- slots in time ---- */

typedef struct slot_life {
    comet_slot slot;
    uint32_t first, last; /* moments */
    bool masks_only;
} slot_life;

static bool value_life(const comet_model *m, uint32_t v, slot_life *life)
{
    const value *x = &m->values[v];
    if (x->slot == COMET_NO_SLOT || x->producer == NONE)
        return false;
    *life = (slot_life){.slot = x->slot,
                        .first = x->put_by_producer || x->last_reader == NONE ? x->producer : x->last_reader,
                        .last = moment_backward(m, &m->ops[x->last_backward], 1),
                        .masks_only = x->masks_only};
    return true;
}

/* The k-th slot that lies in the region, or false past the end. The net's input is the caller's. */
static bool next_life(const comet_model *m, uint32_t *k, slot_life *life)
{
    for (; *k < m->n_values + 2 * m->n_ops; ++*k) {
        if (*k < m->n_values) {
            if (!value_life(m, *k, life))
                continue;
        } else {
            const uint32_t i = (*k - m->n_values) / 2;
            const op *o = &m->ops[i];
            *life = (slot_life){
                .slot = (*k - m->n_values) % 2 ? o->workspace.slot : o->own.slot, .first = i, .last = moment_backward(m, o, 1)};
            if (life->slot == COMET_NO_SLOT)
                continue;
        }
        ++*k;
        return true;
    }
    return false;
}

/* The ratio that is planned for; it is cautious, since bounds are narrow in the first steps. What is held within bounds takes
 * as many bits an element in either type. */
static double planned_ratio(const comet_model *m, const slot_life *life)
{
    static const double cautious[] = {[COMET_COMPRESS_OFF] = 1,
                                      [COMET_COMPRESS_LOSSLESS] = 1.2,
                                      [COMET_COMPRESS_FAST] = 10,
                                      [COMET_COMPRESS_DENSE] = 14,
                                      [COMET_COMPRESS_AUTO] = 10};
    const comet_slot_spec *spec = comet_store_slot_spec(m->store, life->slot);
    const comet_compression *c = &m->params.compression;
    if (spec->index_bits > 0)
        return 8.0 / spec->index_bits;
    if (spec->exactness == COMET_EXACT)
        return 1;
    if (c->mode <= COMET_COMPRESS_LOSSLESS)
        return cautious[c->mode];
    const double size = (double)comet_dtype_bytes(spec->tensor.dtype) / sizeof(float);
    if (life->masks_only)
        return 30 * size;
    return c->planned_ratio > 0 ? c->planned_ratio : cautious[c->mode] * size;
}

static uint64_t planned_bytes(const comet_model *m, const slot_life *life)
{
    return (uint64_t)((double)comet_store_slot_spec(m->store, life->slot)->bytes / planned_ratio(m, life));
}

bool memory_coded_next(const comet_model *m, uint32_t *k, coded_tensor *t)
{
    slot_life life;
    if (!m->coded || !next_life(m, k, &life))
        return false;
    *t = (coded_tensor){.layer = comet_store_slot_spec(m->store, life.slot)->layer,
                        .bytes = planned_bytes(m, &life),
                        .first = life.first,
                        .last = life.last};
    return true;
}

/* ---- the region ---- */

/* Coded bytes held in memory at `moment`, as planned. */
static uint64_t coded_at(const comet_model *m, uint32_t moment)
{
    slot_life life;
    uint64_t bytes = 0;
    for (uint32_t k = 0; next_life(m, &k, &life);)
        if (life.first <= moment && moment <= life.last)
            bytes += planned_bytes(m, &life);
    const comet_compression *c = &m->params.compression;
    return c->spill_folder && c->spill_above < bytes ? c->spill_above : bytes;
}

/* A region while it is planned. */
typedef struct region_plan {
    uint32_t n_moments;
    uint64_t *coded, *live; /* bytes at each moment: of coded tensors, and of buffers */
    uint64_t bytes;         /* of all, once it is laid out */
} region_plan;

static comet_status lay_out(comet_model *m, region_plan *p)
{
    uint64_t most = 0;
    TRY(arena_plan(&m->arena, &(arena_others){p->coded, p->n_moments}));
    for (uint32_t moment = 0; moment < p->n_moments; moment++)
        most = max_u64(most, arena_height(&m->arena, moment, moment) + p->coded[moment]);
    p->bytes = (max_u64(most, m->arena.bytes) + 4095) / 4096 * 4096;
    return COMET_OK;
}

static void count_live(const comet_model *m, region_plan *p)
{
    memset(p->live, 0, p->n_moments * sizeof *p->live);
    for (uint32_t i = 0; i < m->arena.n_buffers; i++)
        for (uint32_t moment = m->arena.buffers[i].first; moment <= m->arena.buffers[i].last; moment++)
            p->live[moment] += m->arena.buffers[i].bytes;
}

/* Adds room for the whole tensor of a slot, from its first reader on, if the region then stays within `most` bytes. */
static comet_status add_whole(comet_model *m, region_plan *p, uint64_t most, comet_slot slot, uint32_t first, uint32_t last,
                              buffer_id *whole)
{
    const uint64_t bytes = comet_store_slot_spec(m->store, slot)->bytes;
    for (uint32_t moment = first; moment <= last; moment++)
        if (p->live[moment] + p->coded[moment] + bytes > most)
            return COMET_OK;
    for (uint32_t moment = first; moment <= last; moment++)
        p->live[moment] += bytes;
    TRY(arena_declare(&m->arena, bytes, first, whole));
    arena_extend(&m->arena, *whole, last);
    return COMET_OK;
}

/* The relu that made it decodes nothing where it has signs; a folded convolution decodes its parts twice. */
static bool is_decoded_again(const comet_model *m, const value *y)
{
    const op *first = &m->ops[y->first_backward];
    return y->n_backward - (y->signs != NO_BUFFER) > 1 || (first->folds != NONE && first->n_parts > 1);
}

/* Adds such room for what batch norms store, and for values that several ops decode. */
static comet_status add_wholes(comet_model *m, region_plan *p, uint64_t most)
{
    count_live(m, p);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        value *y = &m->values[o->output];
        const bool read = y->first_backward != NONE;
        const uint32_t last = moment_backward(m, o, 1), first = read ? moment_backward(m, &m->ops[y->first_backward], 0) : last;
        if (o->own.slot != COMET_NO_SLOT)
            TRY(add_whole(m, p, most, o->own.slot, first, last, &o->own.whole));
        else if (read && y->slot != COMET_NO_SLOT && y->first_backward != y->last_backward && is_decoded_again(m, y))
            TRY(add_whole(m, p, most, y->slot, first, last, &y->whole));
    }
    return lay_out(m, p);
}

static void remove_wholes(comet_model *m, uint32_t n_buffers)
{
    m->arena.n_buffers = n_buffers;
    for (uint32_t i = 0; i < m->n_ops; i++)
        m->ops[i].own.whole = NO_BUFFER;
    for (uint32_t v = 0; v < m->n_values; v++)
        m->values[v].whole = NO_BUFFER;
}

/* Lets a tensor be decoded once instead of up to three times, as far as the region has room for that outside its worst moments.
 * Buffers do not fit together without gaps, hence the trials. Level fast does not need it: it decodes at the speed of
 * memory. */
static comet_status use_spare_room(comet_model *m, region_plan *p)
{
    static const double shares[] = {1, 0.96, 0.92, 0.85, 0.75};
    const uint32_t n_buffers = m->arena.n_buffers;
    const uint64_t without = p->bytes;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        TRY(add_wholes(m, p, (uint64_t)(shares[i] * (double)without)));
        if (p->bytes <= without)
            return COMET_OK;
        remove_wholes(m, n_buffers);
    }
    return lay_out(m, p);
}

/* A slot on the store's stack. */
typedef struct stacked {
    slot_life life;
    uint64_t end;
} stacked;

uint64_t memory_sample_bytes(const comet_model *m)
{
    return ceil_div_u64(m->samples.bytes, COMET_ALIGNMENT) * COMET_ALIGNMENT;
}

/* From when to when samples take their place: from the first one until it is measured, and until every tensor that is coded
 * meanwhile, and lies above them, is dropped. */
static void find_sample_moments(comet_model *m, const stacked *slots, size_t n)
{
    uint32_t first = 0;
    while (first < m->n_ops && !m->samples.samplers[first])
        first++;
    m->samples.first = first;
    m->samples.last = first < m->n_ops ? moment_backward(m, &m->ops[first], 1) : 0;
    for (size_t i = 0; i < n; i++)
        if (slots[i].life.first >= first && slots[i].life.last > m->samples.last)
            m->samples.last = slots[i].life.last;
}

/* Adds samples to what is coded at every moment. */
static void add_samples(comet_model *m, region_plan *p, const stacked *slots, size_t n)
{
    if (memory_sample_bytes(m) == 0)
        return;
    find_sample_moments(m, slots, n);
    m->samples.at = m->samples.first > 0 ? ceil_div_u64(p->coded[m->samples.first - 1], COMET_ALIGNMENT) * COMET_ALIGNMENT : 0;
    for (uint32_t moment = m->samples.first; moment <= m->samples.last; moment++)
        p->coded[moment] += memory_sample_bytes(m);
}

/* The store stacks coded tensors in the order of their puts, and frees memory above the highest one that is held. */
static comet_status stack_coded(comet_model *m, region_plan *p)
{
    const comet_compression *c = &m->params.compression;
    const uint64_t most = c->spill_folder ? c->spill_above : UINT64_MAX;
    const size_t capacity = m->n_values + 2 * (size_t)m->n_ops;
    stacked *slots = calloc(capacity, sizeof *slots);
    size_t n = 0;
    if (!slots)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a plan of %zu slots", capacity);
    for (uint32_t k = 0; n < capacity && next_life(m, &k, &slots[n].life);)
        n++;
    for (uint32_t moment = 0; moment < p->n_moments; moment++) {
        uint64_t top = 0;
        for (size_t i = 0; i < n; i++)
            if (slots[i].life.first < moment && moment <= slots[i].life.last)
                top = max_u64(top, slots[i].end);
        for (size_t i = 0; i < n; i++)
            if (slots[i].life.first == moment)
                top = slots[i].end = top + planned_bytes(m, &slots[i].life);
        p->coded[moment] = min_u64(top, most);
    }
    add_samples(m, p, slots, n);
    free(slots);
    return COMET_OK;
}

static comet_status plan_moments(comet_model *m, region_plan *p)
{
    if (m->coded)
        TRY(stack_coded(m, p));
    TRY(lay_out(m, p));
    return m->coded && m->params.compression.mode == COMET_COMPRESS_DENSE ? use_spare_room(m, p) : COMET_OK;
}

/* Lays out the arena; *bytes are those of the arena and of coded tensors together. */
static comet_status plan_region(comet_model *m, uint64_t *bytes)
{
    const uint32_t n = moments_of(m);
    uint64_t *moments = calloc(2 * (size_t)n, sizeof *moments);
    if (!moments)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a plan of %u moments", n);
    region_plan p = {.n_moments = n, .coded = moments, .live = moments + n};
    const comet_status status = plan_moments(m, &p);
    free(moments);
    *bytes = p.bytes;
    return status;
}

comet_status memory_share_region(comet_model *m, bool samples)
{
    slot_life life;
    const sample_plan *s = &m->samples;
    const uint64_t whole = m->arena.bytes + m->arena.below;
    if (!m->coded || whole == 0)
        return COMET_OK;
    for (uint32_t k = 0; next_life(m, &k, &life);) {
        const bool below = samples && life.first < s->first, above = samples && !below;
        const uint64_t ceiling = whole - arena_height(&m->arena, life.first, life.last);
        TRY(comet_store_set_place(m->store, life.slot, above ? s->at + memory_sample_bytes(m) : 0,
                                  below ? min_u64(ceiling, s->at) : ceiling));
    }
    TRY(comet_store_lend(m->store, m->arena.memory, whole));
    m->samples.room = samples ? (uint8_t *)m->arena.memory + s->at : NULL;
    return COMET_OK;
}

/* ---- the table ---- */

static uint64_t scratch_at_most(const comet_model *m)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        const buffer_id work = o->buffers.work,
                        second = work != NO_BUFFER ? o->buffers.scratch_weights : o->buffers.weights_copy;
        const buffer_id phases[3][3] = {{o->buffers.scratch_forward, NO_BUFFER, NO_BUFFER},
                                        {o->buffers.scratch_weights, o->buffers.fresh_weight, o->buffers.part_gradient},
                                        {o->buffers.scratch_backward, second, work}};
        for (int p = 0; p < 3; p++) {
            uint64_t bytes = 0;
            for (int j = 0; j < 3; j++)
                bytes += phases[p][j] == NO_BUFFER ? 0 : m->arena.buffers[phases[p][j]].bytes;
            most = max_u64(most, bytes);
        }
    }
    return most;
}

static uint64_t input_bytes(const comet_model *m)
{
    return layout_bytes(m->values[0].layout);
}

/* All slots are held at once between forward and backward. */
static uint64_t saved_bytes(const comet_model *m)
{
    return coded_at(m, m->n_ops) + (m->values[0].saved ? input_bytes(m) : 0);
}

bool memory_keeps_steps(const comet_model *m)
{
    return m->coded && m->params.compression.spill_folder;
}

comet_status memory_plan(comet_model *m)
{
    const uint64_t learnt_bytes = m->n_learnt * sizeof(float);
    const bool trains = !m->params.inference;
    comet_memory *t = &m->memory;
    const uint64_t input = input_bytes(m);
    uint64_t region = 0;
    TRY(plan_region(m, &region));
    m->arena.below = region - m->arena.bytes;
    *t = (comet_memory){.weights = learnt_bytes + (m->n_frozen + m->n_statistics) * sizeof(float)};
    if (memory_keeps_steps(m))
        t->weights += m->n_statistics * sizeof(float);
    t->gradients = trains && !m->params.fused_update ? learnt_bytes : 0;
    t->optimiser = model_state_bytes(m, m->n_learnt);
    const held_bytes held = trains ? held_at_most(m) : (held_bytes){0, 0};
    t->saved_reference = held.reference;
    t->saved_raw = held.raw;
    t->saved = !trains ? 0 : m->coded ? saved_bytes(m) : held.raw;
    t->scratch = scratch_at_most(m);
    const uint64_t in_region = t->saved - (trains && m->values[0].saved ? input : 0);
    t->transient = m->coded ? m->arena.bytes : sub_u64(region, in_region);
    t->assessing = trains ? memory_sample_bytes(m) : 0;
    t->total = t->weights + t->gradients + t->optimiser + region + input;
    return COMET_OK;
}

/* Once a step has run, `saved` is what the store really held at its peak. What is held raw is known before. */
comet_memory memory_now(const comet_model *m)
{
    comet_memory memory = m->memory;
    comet_store_totals totals;
    comet_store_totals_init(&totals);
    if (!m->coded || comet_store_describe(m->store, &totals) != COMET_OK || totals.peak == 0)
        return memory;
    memory.saved = totals.peak;
    memory.total += totals.own_used;
    return memory;
}

void comet_memory_init(comet_memory *memory)
{
    *memory = (comet_memory){.size = sizeof *memory};
}

comet_status comet_model_describe_memory(const comet_model *m, comet_memory *memory)
{
    if (!m)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_model_describe_memory was given a null pointer");
    const comet_memory now = memory_now(m);
    return GIVE(comet_memory, memory, &now);
}
