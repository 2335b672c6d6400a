/*
 * What backward needs: which values have gradients, which are read again, and which of these are computed again.
 */
#include "train/graph/graph.h"

/* Marks, from the output back, the values that it depends on. */
static void mark_leading(comet_model *m)
{
    m->values[m->output].leads = true;
    for (uint32_t i = m->n_ops; i-- > 0;)
        for (uint32_t j = 0; m->values[m->ops[i].output].leads && j < m->ops[i].n_inputs; j++)
            m->values[m->ops[i].inputs[j]].leads = true;
}

/* Gradients are needed of what depends on parameters that are trained and leads to the output; a layer that nobody reads gets
 * none. */
static void mark_gradients(comet_model *m)
{
    mark_leading(m);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        bool needs = op_learns(m, o);
        for (uint32_t j = 0; j < o->n_inputs; j++)
            needs |= m->values[o->inputs[j]].needs_gradient;
        m->values[o->output].needs_gradient = needs;
    }
    for (uint32_t v = 0; v < m->n_values; v++)
        m->values[v].needs_gradient &= m->values[v].leads;
}

/* Op o reads value v in backward. */
static void keep(comet_model *m, const op *o, uint32_t v, const char *what, comet_slot_class class_, comet_exactness exactness)
{
    value *x = &m->values[v];
    if (!x->saved || class_ < x->saved_class) {
        x->saved_for = what;
        x->saved_class = class_;
    }
    if (!x->saved || exactness < x->exactness)
        x->exactness = exactness;
    x->saved = true;
    x->n_backward++;
    if (x->last_backward == NONE || o->index < x->last_backward)
        x->last_backward = o->index; /* backward goes down */
    if (x->first_backward == NONE || o->index > x->first_backward)
        x->first_backward = o->index;
}

/* Masks come last: a value needs only its sign mask where nothing else reads it. */
static void mark_kept(comet_model *m)
{
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (!m->values[o->output].needs_gradient)
            continue;
        for (uint32_t j = 0; o->type->keeps_input && j < o->n_inputs; j++)
            keep(m, o, o->inputs[j], o->type->kept_as, o->type->kept_class, o->type->exactness);
        if (o->type->keeps_output)
            keep(m, o, o->output, o->type->kept_as, o->type->kept_class, o->type->exactness);
    }
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (!m->values[o->output].needs_gradient || !o->mask.used)
            continue;
        value *y = &m->values[o->output];
        y->masks_only = !y->saved;
        keep(m, o, o->output, "relu output", COMET_SLOT_ACTIVATION, COMET_SUPPORT);
    }
}

/* The output of a batch norm is computed from what it stores anyway: one elementwise pass replaces a stored tensor. */
static void mark_derived(comet_model *m)
{
    for (uint32_t v = 0; v < m->n_values; v++) {
        value *x = &m->values[v];
        x->derived =
            x->saved && x->producer != NONE && m->ops[x->producer].type->derive && (m->coded || !m->params.no_recompute);
    }
}

void graph_mark(comet_model *m)
{
    mark_gradients(m);
    mark_kept(m);
    mark_derived(m);
}
