/*
 * From ops to memory: which buffer holds what, from which moment to which.
 *
 * Forward: an op's output gets a buffer of its own, or its first input's where the op works in place and nobody needs that
 * input any more. A saved value's buffer lives on until its last backward reader where it is held raw; where it is coded, it
 * has been put before its last reader runs, and backward readers have room of their own to decode it into.
 *
 * Backward: the gradient of a value is made by its readers, last reader first. The first to deliver writes (or, where the
 * gradient passes through unchanged, shares the buffer it came in); those after it add. A buffer that holds the gradient of
 * several values is read-only until all but one of them are done with it.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "train/memory/memory.h"

/* ---- forward ---- */

/* May op o write over its input j? */
static bool may_overwrite(const comet_model *m, const op *o, uint32_t j)
{
    const value *x = &m->values[o->inputs[j]];
    const value *y = &m->values[o->output];
    const bool held = !m->coded && ((x->saved && !x->derived) || x->norm_input);
    return o->type->in_place && x->producer != NONE && x->last_reader == o->index && !held && o->inputs[j] != m->output &&
           layout_bytes(x->layout) == layout_bytes(y->layout);
}

static comet_status lower_output(comet_model *m, const op *o)
{
    value *y = &m->values[o->output];
    for (uint32_t j = 0; j < o->n_inputs; j++)
        if (may_overwrite(m, o, j)) {
            y->buffer = m->values[o->inputs[j]].buffer;
            return COMET_OK;
        }
    return arena_declare(&m->arena, layout_bytes(y->layout), o->index, &y->buffer);
}

static uint64_t scratch_of(const kernel *k)
{
    return k ? kernel_scratch_bytes(k) : 0;
}

static uint64_t own_scratch(const comet_model *m, const op *o, op_phase phase)
{
    return o->type->scratch_bytes ? o->type->scratch_bytes(m, o, phase) : 0;
}

static comet_status lower_forward(comet_model *m)
{
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        TRY(lower_output(m, o));
        for (uint32_t j = 0; j < o->n_inputs; j++)
            if (m->values[o->inputs[j]].producer != NONE)
                arena_extend(&m->arena, m->values[o->inputs[j]].buffer, i);
        arena_extend(&m->arena, m->values[o->output].buffer, i);
        const uint64_t scratch = max_u64(scratch_of(o->forward), own_scratch(m, o, PHASE_FORWARD));
        if (scratch > 0)
            TRY(arena_declare(&m->arena, scratch, i, &o->buffers.scratch_forward));
        if (o->workspace.layout)
            TRY(arena_declare(&m->arena, layout_bytes(o->workspace.layout), i, &o->buffers.workspace));
        if (o->type->declare_forward)
            TRY(o->type->declare_forward(m, o));
    }
    arena_extend(&m->arena, m->values[m->output].buffer, moments_of(m) - 1); /* the loss reads it, and the caller afterwards */
    return COMET_OK;
}

/* ---- what is saved ---- */

static comet_status hold_raw(comet_model *m)
{
    for (uint32_t v = 0; v < m->n_values; v++) {
        const value *x = &m->values[v];
        if (x->saved && !x->derived && x->producer != NONE)
            arena_extend(&m->arena, x->buffer, moment_backward(m, &m->ops[x->last_backward], 1));
    }
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        const value *x = &m->values[o->inputs[0]];
        if (o->own.slot != COMET_NO_SLOT && x->producer != NONE)
            arena_extend(&m->arena, x->buffer, moment_backward(m, o, 1));
        if (o->workspace.slot != COMET_NO_SLOT)
            arena_extend(&m->arena, o->buffers.workspace, moment_backward(m, o, 1));
    }
    return COMET_OK;
}

/* Room to decode one of n_parts of value v, at phase 0 if the op is done with it then. */
static comet_status add_room(comet_model *m, const op *o, uint32_t v, uint32_t n_parts, buffer_id *room)
{
    const value *x = &m->values[v];
    if (x->producer == NONE || (!m->coded && !x->derived))
        return COMET_OK;
    TRY(arena_declare(&m->arena, saved_room_bytes(m, v, n_parts), moment_backward(m, o, 0), room));
    if (o->weight == NONE)
        arena_extend(&m->arena, *room, moment_backward(m, o, 1));
    return COMET_OK;
}

/* Declares room for the signs of o's input, if o is the first to decode it, until the relu that made it reads them. */
static comet_status add_signs(comet_model *m, const op *o)
{
    value *x = &m->values[o->inputs[0]];
    const uint64_t bytes = o->n_parts > 0 && x->first_backward == o->index ? mask_signs_bytes(m, o->inputs[0]) : 0;
    if (bytes == 0)
        return COMET_OK;
    TRY(arena_declare(&m->arena, bytes, moment_backward(m, o, 0), &x->signs));
    arena_extend(&m->arena, x->signs, moment_backward(m, &m->ops[x->producer], 0));
    return COMET_OK;
}

static comet_status add_rooms(comet_model *m, op *o)
{
    TRY(add_signs(m, o));
    for (uint32_t j = 0; o->type->keeps_input && j < o->n_inputs; j++)
        if (j == 0 || o->inputs[j] != o->inputs[0])
            TRY(add_room(m, o, o->inputs[j], j == 0 && o->n_parts > 0 ? o->n_parts : 1, &o->buffers.rooms[j]));
    if (o->type->keeps_output)
        TRY(add_room(m, o, o->output, 1, &o->buffers.room_output));
    if (!m->coded || o->workspace.slot == COMET_NO_SLOT)
        return COMET_OK;
    TRY(arena_declare(&m->arena, layout_bytes(o->workspace.layout), moment_backward(m, o, 0), &o->buffers.room_workspace));
    arena_extend(&m->arena, o->buffers.room_workspace, moment_backward(m, o, 1));
    return COMET_OK;
}

/* ---- backward ---- */

/* State while gradients are lowered: the buffer of each value's gradient, and how many values still need a buffer's
 * contents. */
typedef struct gradients {
    buffer_id *at;     /* by value */
    uint32_t *n_users; /* by buffer */
    uint32_t n_buffers;
} gradients;

static comet_status new_gradient(comet_model *m, gradients *g, uint64_t bytes, uint32_t moment, buffer_id *id)
{
    TRY(arena_declare(&m->arena, bytes, moment, id));
    if (*id >= g->n_buffers) {
        const uint32_t n = 2 * *id + 64;
        uint32_t *larger = realloc(g->n_users, n * sizeof *larger);
        if (!larger)
            return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a plan of the gradients");
        for (uint32_t i = g->n_buffers; i < n; i++)
            larger[i] = 0;
        g->n_users = larger;
        g->n_buffers = n;
    }
    g->n_users[*id] = 1;
    return COMET_OK;
}

/* NOLINTBEGIN(clang-analyzer-core.NullDereference): new_gradient has counted every buffer that a value has. */

/* The gradient in `fresh` (one user: this delivery) joins what value v has. */
static comet_status deliver(comet_model *m, gradients *g, op *o, uint32_t j, buffer_id fresh)
{
    const uint32_t v = o->inputs[j], moment = moment_backward(m, o, 1);
    const buffer_id there = g->at[v];
    if (there == NO_BUFFER) {
        g->at[v] = fresh;
        return COMET_OK;
    }
    const bool by_parts = o->buffers.deliveries[j].by_parts;
    arena_extend(&m->arena, there, moment);
    buffer_id sum = there;
    if (g->n_users[there] > 1 && g->n_users[fresh] == 1)
        sum = fresh;
    else if (g->n_users[there] > 1)
        TRY(new_gradient(m, g, layout_bytes(m->values[v].layout), moment, &sum));
    o->buffers.deliveries[j].a = sum == fresh ? fresh : there;
    o->buffers.deliveries[j].b = sum == fresh ? there : fresh;
    o->buffers.deliveries[j].sum = sum;
    if (sum != fresh)
        g->n_users[fresh]--;
    if (sum != there)
        g->n_users[there]--;
    g->at[v] = sum;
    return kernel_add(m->backend, by_parts ? kernel_layout(o->backward_data, ARG_DIFF_SRC) : m->values[v].layout, &o->add[j]);
}

static comet_status lower_fused_relu(comet_model *m, gradients *g, op *o)
{
    o->buffers.diff = o->buffers.diff_dst;
    if (!o->mask.used || g->n_users[o->buffers.diff_dst] == 1)
        return COMET_OK;
    g->n_users[o->buffers.diff_dst]--;
    TRY(new_gradient(m, g, layout_bytes(m->values[o->output].layout), moment_backward(m, o, 0), &o->buffers.diff));
    arena_extend(&m->arena, o->buffers.diff, moment_backward(m, o, 1));
    return COMET_OK;
}

static comet_status lower_input(comet_model *m, gradients *g, op *o, uint32_t j)
{
    const value *x = &m->values[o->inputs[j]];
    if (!x->needs_gradient)
        return COMET_OK;
    if (o->type->passes_gradient || o->backward_by != o->index) {
        g->n_users[o->buffers.diff]++;
        return deliver(m, g, o, j, o->buffers.diff);
    }
    delivery *d = &o->buffers.deliveries[j];
    if (o->type->backward_in_place && j == 0 && g->n_users[o->buffers.diff] == 1) {
        d->write = o->buffers.diff;
        g->n_users[o->buffers.diff]++;
    } else {
        d->by_parts =
            o->n_parts > 1 && o->weight != NONE && g->at[o->inputs[j]] != NO_BUFFER && g->n_users[g->at[o->inputs[j]]] == 1;
        const uint64_t bytes = layout_bytes(x->layout) / (d->by_parts ? o->n_parts : 1);
        TRY(new_gradient(m, g, bytes, moment_backward(m, o, 1), &d->write));
        if (o->n_parts == 0 || o->weight == NONE) /* others have gradients of weights first */
            arena_extend(&m->arena, d->write, moment_backward(m, o, 0));
    }
    return deliver(m, g, o, j, d->write);
}

/* Scratch for deriving value v. */
static uint64_t derive_scratch(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    return x->derived ? own_scratch(m, &m->ops[x->producer], PHASE_DERIVE) : 0;
}

/* Phase 0: taking, masking, gradients of weights. */
static uint64_t scratch_of_weights(const comet_model *m, const op *o)
{
    const uint64_t kernels = max_u64(scratch_of(o->backward_weights), own_scratch(m, o, PHASE_WEIGHTS));
    uint64_t bytes = max_u64(mask_scratch_bytes(m, o), kernels);
    for (uint32_t j = 0; o->type->keeps_input && j < o->n_inputs; j++)
        bytes = max_u64(bytes, derive_scratch(m, o->inputs[j]));
    return bytes;
}

static uint64_t scratch_of_data(const comet_model *m, const op *o)
{
    uint64_t bytes = max_u64(scratch_of(o->backward_data), own_scratch(m, o, PHASE_DATA));
    for (uint32_t i = 0; i < o->n_inputs; i++)
        bytes = max_u64(bytes, scratch_of(o->add[i]));
    return bytes;
}

/* Declares the gradients of its parameters, where they do not lie in the block of all gradients. */
static comet_status lower_fused_gradient(comet_model *m, op *o, uint32_t weights, uint32_t data)
{
    const uint64_t weight = is_trained(m, o->weight) ? m->parameters[o->weight].n + 16 : 0;
    const uint64_t bias = is_trained(m, o->bias) ? m->parameters[o->bias].n + 16 : 0;
    TRY(arena_declare(&m->arena, (weight + bias) * sizeof(float), weights, &o->buffers.gradient));
    arena_extend(&m->arena, o->buffers.gradient, data);
    return COMET_OK;
}

static comet_status lower_backward_memory(comet_model *m, op *o)
{
    const op *at = &m->ops[o->backward_by];
    const uint32_t weights = moment_backward(m, at, 0), data = moment_backward(m, at, 1);
    const uint64_t scratch_weights = scratch_of_weights(m, o), scratch_data = scratch_of_data(m, o);
    if (scratch_weights > 0)
        TRY(arena_declare(&m->arena, scratch_weights, weights, &o->buffers.scratch_weights));
    if (scratch_data > 0)
        TRY(arena_declare(&m->arena, scratch_data, data, &o->buffers.scratch_backward));
    const uint64_t sums = mask_sums_bytes(m, o);
    if (sums > 0)
        TRY(arena_declare(&m->arena, sums, weights, &o->buffers.mask_sums));
    if (m->samples.work_bytes && m->samples.work_bytes[o->index] > 0)
        TRY(arena_declare(&m->arena, m->samples.work_bytes[o->index], weights, &o->buffers.sample_work));
    if (m->params.fused_update && op_learns(m, o))
        TRY(lower_fused_gradient(m, o, weights, data));
    return o->type->declare_backward ? o->type->declare_backward(m, o, weights, data) : COMET_OK;
}

static comet_status lower_op_backward(comet_model *m, gradients *g, op *o)
{
    if (!m->values[o->output].needs_gradient || g->at[o->output] == NO_BUFFER)
        return COMET_OK;
    o->buffers.diff_dst = g->at[o->output];
    arena_extend(&m->arena, o->buffers.diff_dst, moment_backward(m, o, 1));
    TRY(lower_fused_relu(m, g, o));
    TRY(add_rooms(m, o));
    for (uint32_t j = 0; j < o->n_inputs; j++)
        TRY(lower_input(m, g, o, j));
    g->n_users[o->buffers.diff]--;
    return lower_backward_memory(m, o);
}

/* NOLINTEND(clang-analyzer-core.NullDereference) */

static comet_status lower_backward(comet_model *m)
{
    gradients g = {.at = malloc(m->n_values * sizeof *g.at)};
    comet_status status = COMET_OK;
    if (!g.at)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a plan of the gradients");
    for (uint32_t v = 0; v < m->n_values; v++)
        g.at[v] = NO_BUFFER;
    status = new_gradient(m, &g, layout_bytes(m->values[m->output].layout), m->n_ops, &g.at[m->output]);
    for (uint32_t i = m->n_ops; status == COMET_OK && i-- > 0;)
        status = lower_op_backward(m, &g, &m->ops[i]);
    free(g.at);
    free(g.n_users);
    return status;
}

comet_status lower(comet_model *m)
{
    TRY(lower_forward(m));
    if (m->params.inference)
        return COMET_OK;
    if (!m->coded)
        TRY(hold_raw(m));
    return lower_backward(m);
}
