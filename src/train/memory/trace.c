/* What a step holds for backward, layer by layer, in the steps that were asked for. */
#include <stdlib.h>

#include "base/describe.h"
#include "train/memory/memory.h"

void comet_trace_point_init(comet_trace_point *point)
{
    *point = (comet_trace_point){.size = sizeof *point};
}

comet_status comet_model_trace(comet_model *m)
{
    if (!m || m->params.inference)
        return comet_fail(COMET_ERROR_ARGUMENT, "a trace needs a model for training");
    step_trace *t = &m->trace;
    if (!t->points)
        t->points = calloc(2 * (size_t)m->n_ops + 1, sizeof *t->points);
    if (!t->points)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a trace of %u layers", m->n_ops);
    t->wanted = true;
    return COMET_OK;
}

void trace_begin(comet_model *m)
{
    m->trace.on = m->trace.wanted;
    m->trace.wanted = false;
    if (m->trace.on)
        m->trace.n_points = 0;
}

void trace_end(comet_model *m)
{
    m->trace.on = false;
}

/* A layer may be several ops; the last of them counts. */
void trace_add(comet_model *m, const op *o, bool backward)
{
    step_trace *t = &m->trace;
    comet_store_totals totals;
    comet_store_totals_init(&totals);
    if (!t->on || comet_store_describe(m->store, &totals) != COMET_OK)
        return;
    const trace_point *last = t->n_points > 0 ? &t->points[t->n_points - 1] : NULL;
    if (last && last->backward == backward && m->ops[last->op].layer == o->layer)
        t->n_points--;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): comet_model_trace has allocated them */
    t->points[t->n_points++] = (trace_point){.op = o->index, .backward = backward, .bytes = totals.held + totals.spilled};
}

comet_status comet_model_describe_trace(const comet_model *m, size_t index, comet_trace_point *point)
{
    if (!m || index >= m->trace.n_points)
        return comet_fail(COMET_ERROR_ARGUMENT, "there is no model, or its trace has fewer than %zu points", index + 1);
    const trace_point *p = &m->trace.points[index];
    const op *o = &m->ops[p->op];
    const held_bytes held = held_after(m, o, p->backward);
    const comet_trace_point found = {.layer = o->layer->name,
                                     .backward = p->backward,
                                     .saved = p->bytes,
                                     .saved_raw = held.raw,
                                     .saved_reference = held.reference};
    return GIVE(comet_trace_point, point, &found);
}
