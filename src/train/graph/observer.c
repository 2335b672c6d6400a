/* See observer.h. */
#include "train/graph/observer.h"

#include "train/graph/graph.h"

comet_status observer_add(observer *o, const listener *l)
{
    if (o->n_listeners == MAX_LISTENERS)
        return comet_fail(COMET_ERROR_ARGUMENT, "a model tells at most %d listeners", (int)MAX_LISTENERS);
    o->listeners[o->n_listeners++] = *l;
    return COMET_OK;
}

void observer_remove(observer *o, const void *self)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_listeners; i++)
        if (o->listeners[i].self != self)
            o->listeners[n++] = o->listeners[i];
    o->n_listeners = n;
}

/* Runs the statement for every listener l that has this call. */
#define TELL(m, name, statement)                                                                          \
    for (const listener *l = (m)->observer.listeners, *end = l + (m)->observer.n_listeners; l < end; l++) \
        if (l->name)                                                                                      \
    statement

/* The same; its time counts as assessing. A call that fails ends the step, and with it the clock. */
#define TELL_TIMED(m, name, statement)                                        \
    TELL(m, name, {                                                           \
        const step_part before = step_clock_switch(&(m)->clock, STEP_ASSESS); \
        statement;                                                            \
        step_clock_switch(&(m)->clock, before);                               \
    })

comet_status tell_step_begins(comet_model *m)
{
    TELL_TIMED(m, step_begins, TRY(l->step_begins(l->self, m)));
    return COMET_OK;
}

void tell_input_read(comet_model *m, const op *o)
{
    TELL_TIMED(m, input_read, l->input_read(l->self, m, o));
}

comet_status tell_part_done(comet_model *m, const op *o, uint32_t part)
{
    TELL_TIMED(m, part_done, TRY(l->part_done(l->self, m, o, part)));
    return COMET_OK;
}

comet_status tell_folded_part_done(comet_model *m, const op *o, uint32_t part)
{
    TELL_TIMED(m, folded_part_done, TRY(l->folded_part_done(l->self, m, o, part)));
    return COMET_OK;
}

comet_status tell_folded_done(comet_model *m, const op *o)
{
    TELL_TIMED(m, folded_done, TRY(l->folded_done(l->self, m, o)));
    return COMET_OK;
}

bool anyone_needs_norm(const comet_model *m)
{
    bool needed = false;
    TELL(m, needs_norm, needed |= l->needs_norm(l->self, m));
    return needed;
}

void tell_norm_done(comet_model *m, const op *o, const norm_harm *harm)
{
    TELL_TIMED(m, norm_done, l->norm_done(l->self, m, o, harm));
}

void tell_loss_known(comet_model *m, double loss)
{
    TELL_TIMED(m, loss_known, l->loss_known(l->self, m, loss));
}

comet_status tell_gradient_ready(comet_model *m, const op *o)
{
    TELL(m, gradient_ready, TRY(l->gradient_ready(l->self, m, o)));
    return COMET_OK;
}

void tell_gradient_used(comet_model *m, const gradient_part *part, uint64_t step)
{
    TELL_TIMED(m, gradient_used, l->gradient_used(l->self, m, part, step));
}

comet_status tell_update_done(comet_model *m, uint64_t step)
{
    TELL_TIMED(m, update_done, TRY(l->update_done(l->self, m, step)));
    return COMET_OK;
}
