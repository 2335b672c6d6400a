/*
 * What is held for backward, tensor by tensor: raw by this model, and by a framework that computes nothing again.
 *
 * Such a framework keeps each distinct tensor that backward needs: inputs of layers, outputs of activations, indices. A model
 * without compression holds fewer: outputs of batch norms are computed again, and a batch norm that is folded into a
 * convolution has no input.
 */
#include "base/bytes.h"
#include "train/memory/memory.h"

/* The op whose backward is the last to need it, where a framework keeps it for the relu that made it. */
static bool value_held(const comet_model *m, uint32_t v, held_tensor *t)
{
    const value *x = &m->values[v];
    const op *producer = x->producer == NONE ? NULL : &m->ops[x->producer];
    const bool relu_output = producer && producer->relu && x->needs_gradient, has_slot = x->slot != COMET_NO_SLOT;
    if (!x->saved && !relu_output)
        return false;
    const bool early = !has_slot || x->put_by_producer || x->last_reader == NONE;
    *t = (held_tensor){.bytes = layout_bytes(x->layout),
                       .raw = has_slot,
                       .reference = true,
                       .first = !early     ? x->last_reader
                                : producer ? x->producer
                                           : 0,
                       .last = x->saved ? x->last_backward : producer->backward_by};
    if (!has_slot && relu_output && producer->backward_by < t->last)
        t->last = producer->backward_by;
    return true;
}

/* The input of a batch norm, held once where it is saved for others, too; or the workspace of an op. */
static bool op_held(const comet_model *m, const op *o, bool workspace, held_tensor *t)
{
    const value *x = &m->values[o->inputs[0]];
    const bool own = o->own.slot != COMET_NO_SLOT,
               has = workspace ? o->workspace.slot != COMET_NO_SLOT : own || o->backward_by != o->index;
    if (!has)
        return false;
    *t = (held_tensor){.bytes = layout_bytes(workspace ? o->workspace.layout : x->layout),
                       .raw = workspace || (own && x->slot == COMET_NO_SLOT),
                       .reference = workspace || !x->saved,
                       .first = o->index,
                       .last = o->backward_by};
    return true;
}

bool held_next(const comet_model *m, uint32_t *k, held_tensor *t)
{
    const uint32_t end = m->n_values + 2 * m->n_ops;
    bool found = false;
    for (; *k < end && !found; ++*k) {
        const uint32_t i = *k < m->n_values ? 0 : *k - m->n_values;
        found = *k < m->n_values ? value_held(m, *k, t) : op_held(m, &m->ops[i / 2], i % 2, t);
    }
    return found;
}

held_bytes held_at_most(const comet_model *m)
{
    held_tensor t;
    held_bytes sum = {0, 0};
    for (uint32_t k = 0; held_next(m, &k, &t);) {
        sum.raw += t.raw ? t.bytes : 0;
        sum.reference += t.reference ? t.bytes : 0;
    }
    return sum;
}

held_bytes held_after(const comet_model *m, const op *o, bool backward)
{
    held_tensor t;
    held_bytes sum = {0, 0};
    for (uint32_t k = 0; held_next(m, &k, &t);) {
        const bool held = backward ? t.last < o->index : t.first <= o->index;
        sum.raw += held && t.raw ? t.bytes : 0;
        sum.reference += held && t.reference ? t.bytes : 0;
    }
    return sum;
}
