/*
 * One assessment: limits of consumers, and bounds of tensors. docs/theory.md has the derivation.
 *
 * The bound of a tensor is the least of its consumers' limits. M is the reference of a parameter consumer's rule (state.h). The
 * error may add `share` times M, and the error of a bound of 1 adds `harm` times M, so the limit is aim * sqrt(share / harm);
 * aim.c has the aim. The harm is measured, or gain / M where it is not. The limit of a pass-on consumer that may let in the
 * relative energy E is sqrt(E / gain).
 */
#include "adapt/state.h"

/* A bound rises at most by this factor in one assessment, at first from the bound that the tensor was stored with: what larger
 * errors do is measured before they are made. */
static const double MAX_RISE = 2;
/* An error was measured at the limit if the tensor was stored with at least this part of its bound. */
static const double AT_LIMIT = 0.99;

/* A few mini-batches say little about the gain: the limit falls as far as it must, but rises only three quarters of the way on
 * a logarithmic scale. */
static double pass_limit(const adapt *a, const consumer_state *c)
{
    const double last = c->limit, limit = c->gain == 0 ? INFINITY : sqrt(adapt_pass_share(a, c) / c->gain);
    return last > 0 && isfinite(last) && isfinite(limit) && limit > last ? limit * sqrt(sqrt(last / limit)) : limit;
}

static void assess_parameter(const adapt *a, consumer_state *c, bool was_known)
{
    /* The caller may have stored the tensor more exactly than the bound allows. */
    const double eb = a->tensors[c->tensor].eb;
    c->at_limit = c->limits && c->collected.n_measured > 0 && eb > 0 && c->collected.eb >= AT_LIMIT * eb;
    const known_harm before = {was_known ? c->harm : 0, c->harm_measured};
    adapt_assess_gradient(a, c, was_known);
    adapt_follow_aim(a, c, &before);
    c->limit = c->gain == 0                      ? INFINITY
               : c->reference > 0 && c->harm > 0 ? c->aim * sqrt(adapt_parameter_share(a, c) / c->harm)
                                                 : 0;
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
    if (is_parameter(c)) {
        c->gain = from_average(a, c->gain);
        assess_parameter(a, c, was_known);
    } else {
        c->limit = pass_limit(a, c);
    }
    c->collected = (collection){0};
}

/* Activation assessment: the new bound is the least limit of the tensor's consumers, but no more than MAX_RISE allows; 0 while
 * any consumer has not been observed. Among equal limits the first consumer is the one that limits. */
static double assess_tensor(adapt *a, uint32_t tensor)
{
    consumer_state *least = NULL;
    const tensor_state *t = &a->tensors[tensor];
    const double from = t->eb > 0 ? t->eb : t->stored, most = from > 0 ? MAX_RISE * from : INFINITY;
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

/* The factor, 1 or more, by which the bound rose or fell since the last assessment; 1 for a first bound. */
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
    /* What was predicted belongs to a state of the net that is gone; harm that was measured is kept, it belongs to the layer.
     */
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        c->known = c->limits = c->at_limit = false;
        c->collected = (collection){0};
        c->errors[0] = c->errors[1] = (error_history){0};
        adapt_reset_aim(c);
        c->harm = c->harm_measured ? c->harm : 0;
        c->limit = INFINITY;
        c->allowed = c->measured = NAN;
    }
    a->n_assessed = 0;
    adapt_plan_restart(a, step);
}

void adapt_restart(adapt *a, uint64_t step)
{
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
