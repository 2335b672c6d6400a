/*
 * From ops to memory: which buffer holds what, from which moment to which.
 *
 * Forward: an op's output gets a buffer of its own, or its first input's where the op works in place and nobody needs that
 * input any more. A saved value's buffer lives on until its last backward reader (policy raw).
 *
 * Backward: the gradient of a value is made by its readers, last reader first. The first to deliver writes (or, where the
 * gradient passes through unchanged, shares the buffer it came in); those after it add. A buffer that holds the gradient of
 * several values is read-only until all but one of them are done with it.
 */
#include <stdlib.h>

#include "train/model_internal.h"

/* ---- forward ---- */

/* May op o write over its input j? */
static bool may_overwrite(const comet_model *m, const op *o, uint32_t j)
{
    const value *x = &m->values[o->inputs[j]];
    const value *y = &m->values[o->output];
    return o->type->in_place && x->producer != NONE && x->last_reader == o->index && (!x->saved || x->recomputed) &&
           o->inputs[j] != m->output && layout_bytes(x->layout) == layout_bytes(y->layout);
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

static comet_status lower_forward(comet_model *m)
{
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        TRY(lower_output(m, o));
        for (uint32_t j = 0; j < o->n_inputs; j++)
            if (m->values[o->inputs[j]].producer != NONE)
                arena_extend(&m->arena, m->values[o->inputs[j]].buffer, i);
        arena_extend(&m->arena, m->values[o->output].buffer, i);
        const uint64_t scratch =
            max_u64(o->forward ? kernel_scratch_bytes(o->forward) : 0, o->apply ? kernel_scratch_bytes(o->apply) : 0);
        if (scratch > 0)
            TRY(arena_declare(&m->arena, scratch, i, &o->scratch_forward));
        if (o->workspace_layout)
            TRY(arena_declare(&m->arena, layout_bytes(o->workspace_layout), i, &o->workspace));
    }
    arena_extend(&m->arena, m->values[m->output].buffer, 2 * m->n_ops); /* the loss reads it, and the caller afterwards */
    return COMET_OK;
}

/* ---- what is saved ---- */

static comet_status lower_saved(comet_model *m)
{
    for (uint32_t v = 0; v < m->n_values; v++) {
        value *x = &m->values[v];
        if (!x->saved || x->producer == NONE)
            continue;
        if (!x->recomputed) {
            arena_extend(&m->arena, x->buffer, x->last_backward);
            continue;
        }
        TRY(arena_declare(&m->arena, layout_bytes(x->layout), x->first_backward, &x->again));
        arena_extend(&m->arena, x->again, x->last_backward);
    }
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].workspace_slot != STORE_NO_SLOT)
            arena_extend(&m->arena, m->ops[i].workspace, moment_backward(m, &m->ops[i]));
    return COMET_OK;
}

/* ---- backward ---- */

/* While gradients are lowered: where that of each value is, and how many values still need a buffer's contents. */
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
            return comet_fail(COMET_ERROR_MEMORY, "no memory to plan gradients");
        for (uint32_t i = g->n_buffers; i < n; i++)
            larger[i] = 0;
        g->n_users = larger;
        g->n_buffers = n;
    }
    g->n_users[*id] = 1;
    return COMET_OK;
}

/* The gradient in `fresh` (one user: this delivery) joins what value v has. */
static comet_status deliver(comet_model *m, gradients *g, op *o, uint32_t j, buffer_id fresh)
{
    const uint32_t v = o->inputs[j], moment = moment_backward(m, o);
    const buffer_id there = g->at[v];
    if (there == NO_BUFFER) {
        g->at[v] = fresh;
        return COMET_OK;
    }
    arena_extend(&m->arena, there, moment);
    buffer_id sum = there;
    if (g->n_users[there] > 1 && g->n_users[fresh] == 1)
        sum = fresh;
    else if (g->n_users[there] > 1)
        TRY(new_gradient(m, g, layout_bytes(m->values[v].layout), moment, &sum));
    o->deliveries[j].a = sum == fresh ? fresh : there;
    o->deliveries[j].b = sum == fresh ? there : fresh;
    o->deliveries[j].sum = sum;
    if (sum != fresh)
        g->n_users[fresh]--;
    if (sum != there)
        g->n_users[there]--;
    g->at[v] = sum;
    return kernel_add(m->backend, false, m->values[v].layout, &o->add[j]);
}

static comet_status lower_fused_relu(comet_model *m, gradients *g, op *o)
{
    o->diff = o->diff_dst;
    if (!o->backward_relu || g->n_users[o->diff_dst] == 1)
        return COMET_OK;
    g->n_users[o->diff_dst]--;
    return new_gradient(m, g, layout_bytes(m->values[o->output].layout), moment_backward(m, o), &o->diff);
}

static comet_status lower_input(comet_model *m, gradients *g, op *o, uint32_t j)
{
    const value *x = &m->values[o->inputs[j]];
    if (!x->needs_gradient && !o->type->always_writes)
        return COMET_OK;
    if (o->type->passes_gradient) {
        g->n_users[o->diff]++;
        return deliver(m, g, o, j, o->diff);
    }
    buffer_id *write = &o->deliveries[j].write;
    if (o->type->backward_in_place && g->n_users[o->diff] == 1) {
        *write = o->diff;
        g->n_users[o->diff]++;
    } else {
        TRY(new_gradient(m, g, layout_bytes(x->layout), moment_backward(m, o), write));
    }
    return x->needs_gradient ? deliver(m, g, o, j, *write) : COMET_OK;
}

static comet_status lower_backward_memory(comet_model *m, op *o)
{
    const kernel *const recompute = o->recompute == NONE ? NULL : m->ops[m->values[o->recompute].producer].apply;
    const kernel *const kernels[] = {o->backward_data,   o->backward_weights, o->backward_relu,
                                     o->weights_reorder, o->gradient_reorder, recompute};
    const uint32_t moment = moment_backward(m, o);
    uint64_t scratch = 0;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        scratch = max_u64(scratch, kernels[i] ? kernel_scratch_bytes(kernels[i]) : 0);
    for (uint32_t i = 0; i < o->n_inputs; i++)
        scratch = max_u64(scratch, max_u64(o->parts[i] ? kernel_scratch_bytes(o->parts[i]) : 0,
                                           o->add[i] ? kernel_scratch_bytes(o->add[i]) : 0));
    if (scratch > 0)
        TRY(arena_declare(&m->arena, scratch, moment, &o->scratch_backward));
    const bool adds = m->params.accumulate > 1;
    if (o->weight == NONE)
        return COMET_OK;
    if (o->weights_reorder || (adds && o->gradient_reorder)) {
        const uint64_t other = o->weights_reorder ? layout_bytes(kernel_layout(o->weights_reorder, ARG_DST)) : 0;
        const uint64_t own = layout_bytes(m->parameters[o->weight].layout);
        TRY(arena_declare(&m->arena, max_u64(other, own), moment, &o->weights_copy));
    }
    if (adds || o->gradient_reorder) {
        const layout *l = o->backward_weights ? kernel_layout(o->backward_weights, ARG_DIFF_WEIGHTS) : NULL;
        TRY(arena_declare(&m->arena, layout_bytes(l ? l : m->parameters[o->weight].layout), moment, &o->fresh_weight));
    }
    if (adds && o->bias != NONE)
        TRY(arena_declare(&m->arena, layout_bytes(m->parameters[o->bias].layout), moment, &o->fresh_bias));
    return COMET_OK;
}

static comet_status lower_op_backward(comet_model *m, gradients *g, op *o)
{
    if (!m->values[o->output].needs_gradient || g->at[o->output] == NO_BUFFER)
        return COMET_OK;
    o->diff_dst = g->at[o->output];
    arena_extend(&m->arena, o->diff_dst, moment_backward(m, o));
    TRY(lower_fused_relu(m, g, o));
    for (uint32_t j = 0; j < o->n_inputs; j++)
        TRY(lower_input(m, g, o, j));
    g->n_users[o->diff]--;
    return lower_backward_memory(m, o);
}

static comet_status lower_backward(comet_model *m)
{
    gradients g = {.at = malloc(m->n_values * sizeof *g.at)};
    comet_status status = COMET_OK;
    if (!g.at)
        return comet_fail(COMET_ERROR_MEMORY, "no memory to plan gradients");
    for (uint32_t v = 0; v < m->n_values; v++)
        g.at[v] = NO_BUFFER;
    status = new_gradient(m, &g, layout_bytes(m->values[m->output].layout), m->n_ops, &g.at[m->output]);
    for (uint32_t i = m->n_ops; status == COMET_OK && i-- > 0;)
        status = lower_op_backward(m, &g, &m->ops[i]);
    free(g.at);
    free(g.n_users);
    return status;
}

/* ---- the table ---- */

static uint64_t reference_bytes(const comet_model *m)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < m->n_values; v++) {
        const value *x = &m->values[v];
        const bool relu_output = x->producer != NONE && m->ops[x->producer].relu;
        if (x->saved || (relu_output && x->needs_gradient))
            bytes += layout_bytes(x->layout);
    }
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].workspace_slot != STORE_NO_SLOT && m->ops[i].layer->op != COMET_OP_BATCH_NORM)
            bytes += layout_bytes(m->ops[i].workspace_layout);
    return bytes;
}

/* All slots are held at once between forward and backward. */
static uint64_t held_bytes(const comet_model *m)
{
    uint64_t bytes = 0;
    for (store_slot s = 0; s < store_n_slots(m->store); s++)
        bytes += store_slot_spec(m->store, s)->bytes;
    return bytes;
}

static uint64_t scratch_at_most(const comet_model *m)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        const buffer_id forward[] = {o->scratch_forward}, backward[] = {o->scratch_backward, o->weights_copy, o->fresh_weight};
        uint64_t a = 0, b = 0;
        for (size_t j = 0; j < sizeof forward / sizeof forward[0]; j++)
            a += forward[j] == NO_BUFFER ? 0 : m->arena.buffers[forward[j]].bytes;
        for (size_t j = 0; j < sizeof backward / sizeof backward[0]; j++)
            b += backward[j] == NO_BUFFER ? 0 : m->arena.buffers[backward[j]].bytes;
        most = max_u64(most, max_u64(a, b));
    }
    return most;
}

static void fill_memory(comet_model *m)
{
    const uint64_t learnt = m->n_learnt * sizeof(float);
    const comet_optimiser *o = &m->params.optimiser;
    const bool trains = !m->params.inference;
    comet_memory *t = &m->memory;
    *t = (comet_memory){.weights = learnt + m->n_statistics * sizeof(float)};
    t->gradients = trains ? learnt : 0;
    t->optimiser = !trains ? 0 : o->kind == COMET_OPTIMISER_ADAMW ? 2 * learnt : o->momentum > 0 ? learnt : 0;
    t->saved_reference = trains ? reference_bytes(m) : 0;
    t->saved = trains ? held_bytes(m) : 0;
    t->scratch = scratch_at_most(m);
    const uint64_t input = layout_bytes(m->values[0].layout); /* the caller's */
    const uint64_t in_arena = t->saved > input && m->values[0].saved ? t->saved - input : t->saved;
    t->transient = m->arena.bytes > in_arena ? m->arena.bytes - in_arena : 0;
    t->total = t->weights + t->gradients + t->optimiser + m->arena.bytes + input;
}

comet_status lower(comet_model *m)
{
    TRY(lower_forward(m));
    if (!m->params.inference) {
        TRY(lower_saved(m));
        TRY(lower_backward(m));
    }
    TRY(arena_plan(&m->arena));
    fill_memory(m);
    return COMET_OK;
}
