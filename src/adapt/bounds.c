/*
 * The adaptive bound; see adapt.h for the contract and docs/theory.md for the derivation.
 *
 * The bound of a tensor is the least of its consumers' limits. A parameter consumer may have `share` of what its rule measures
 * by, M, and an error of bound 1 adds `harm` times M: its limit is AIM * sqrt(share / harm), with harm measured, or gain / M
 * where it is not; a pass-on consumer with allowed relative energy E has sqrt(E / gain).
 */
#include "adapt/state.h"

/* Bounds aim at this part of sigma*: with errors half as large again as expected it is 1.17, with a third less 0.52. */
static const double AIM = 0.78;
/* Nor does a bound rise by more than CLIMB at once, from what tensors were stored with: what larger errors do is measured on
 * the way, not foreseen. */
static const double CLIMB = 2;

/* A few mini-batches say little: it falls as far as it must, but rises three quarters of the way on a logarithmic scale. */
static double pass_limit(const adapt *a, const consumer_state *c)
{
    const double last = c->limit, limit = c->gain == 0 ? INFINITY : sqrt(adapt_pass_share(a, c) / c->gain);
    return last > 0 && isfinite(last) && isfinite(limit) && limit > last ? limit * sqrt(sqrt(last / limit)) : limit;
}

static void assess_parameter(const adapt *a, consumer_state *c, bool was_known)
{
    /* The caller may have stored more exactly than allowed; then the measurement says nothing about the bound. */
    const double eb = a->tensors[c->tensor].eb;
    c->at_limit = c->limits && c->collected.n_measured > 0 && eb > 0 && c->collected.eb >= 0.99 * eb;
    adapt_assess_gradient(a, c, was_known);
    c->limit = c->gain == 0 ? INFINITY : c->measure > 0 && c->harm > 0 ? AIM * sqrt(adapt_parameter_share(a, c) / c->harm) : 0;
}

static void assess_consumer(const adapt *a, consumer_state *c)
{
    c->measured = NAN;
    c->at_limit = false;
    if (c->collected.n == 0)
        return;
    const bool was_known = c->known;
    c->known = true;
    c->gain = c->collected.gain / c->collected.n;
    if (c->n_weights > 0) {
        c->gain = from_average(a, c->gain);
        assess_parameter(a, c, was_known);
    } else {
        c->limit = pass_limit(a, c);
    }
    c->collected = (collection){0};
}

/* Activation assessment: the least limit, of the first consumer among equals, as far as the bound may rise at once; 0 while any
 * consumer's harm is unknown. */
static double assess_tensor(adapt *a, uint32_t tensor)
{
    consumer_state *least = NULL;
    const tensor_state *t = &a->tensors[tensor];
    const double from = t->eb > 0 ? t->eb : t->stored, most = from > 0 ? CLIMB * from : INFINITY;
    double eb = INFINITY;
    bool known = true;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        if (c->tensor != tensor)
            continue;
        c->limits = false;
        known = known && c->known;
        if (c->limit < eb) {
            eb = c->limit;
            least = c;
        }
    }
    if (!known)
        return 0;
    if (least)
        least->limits = eb <= most;
    return isfinite(eb) ? fmin(eb, most) : eb;
}

/* By which factor since the last assessment, up or down; a first bound has not moved. */
static double moved_by(const tensor_state *t)
{
    if (t->last == 0 || t->eb == t->last)
        return 1;
    return t->eb > t->last ? t->eb / t->last : t->eb > 0 ? t->last / t->eb : INFINITY;
}

void adapt_assess(adapt *a, uint64_t step)
{
    adapt_distribute_shares(a);
    for (uint32_t i = 0; i < a->n_consumers; i++)
        assess_consumer(a, &a->consumers[i]);
    double moved = 1;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        tensor_state *t = &a->tensors[i];
        t->eb = assess_tensor(a, i);
        moved = fmax(moved, moved_by(t));
        t->last = t->eb;
    }
    a->n_assessed++;
    adapt_plan_next(a, step, moved);
}

void adapt_retreat(adapt *a, uint64_t step)
{
    for (uint32_t i = 0; i < a->n_tensors; i++)
        a->tensors[i].eb = a->tensors[i].stored = 0;
    /* What was predicted before belongs to another state of the net; what was measured belongs to the layer. */
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        c->known = c->limits = c->at_limit = false;
        c->collected = (collection){0};
        c->errors[0] = c->errors[1] = (error_history){0};
        c->harm = c->harm_measured ? c->harm : 0;
        c->limit = INFINITY;
        c->allowed = c->measured = NAN;
    }
    a->n_assessed = 0;
    adapt_plan_restart(a, step);
}

uint64_t adapt_n_assessed(const adapt *a)
{
    return a->n_assessed;
}

double adapt_eb(const adapt *a, uint32_t tensor)
{
    return tensor < a->n_tensors && a->n_assessed > 0 ? a->tensors[tensor].eb : 0;
}

double adapt_pass_left(const adapt *a, uint32_t consumer)
{
    if (consumer >= a->n_consumers || adapt_is_parameter(a, consumer) || !a->consumers[consumer].known)
        return 0;
    const consumer_state *c = &a->consumers[consumer];
    const double eb = adapt_eb(a, c->tensor), left = adapt_pass_share(a, c) - c->gain * eb * eb;
    return left > 0 && isfinite(left) ? left : 0;
}
