/*
 * How each saved tensor is held in the next step: exactly, or within its bound, at which level, in memory or on disk.
 */
#include <math.h>
#include <stdlib.h>

#include "adapt/levels.h"
#include "train/assess/assess.h"
#include "train/ops/ops.h"

#define WIDEST_BOUND 0.35    /* standard deviations: docs/theory.md, section 8 */
#define WIDEST_CUT 1.0       /* the same for what a relu cut off, which only sums over many elements read */
#define WIDEST_START 0.1     /* the same while nothing is known of the tensor */
#define NARROW_ASSESSMENTS 2 /* bounds are narrow until they have doubled twice */
#define UNKNOWN_RATIO 8      /* assumed of a slot that has not been put yet and may be lossy */

/* The bound, in standard deviations, while nothing is known: at the start and after a loss spike. Where gradients of different
 * positions are independent, such errors add a third of the allowed noise, or 0.12 % of the gradient's variance under the
 * paper's rule (docs/theory.md, section 3). At level dense, coded tensors then take no more than at level fast later. */
static double start_bound(const comet_model *m)
{
    const comet_compression *c = &m->params.compression;
    return fmin(c->sigma > 0 ? 6 * c->sigma : sqrt(c->noise), WIDEST_START);
}

/* Are bounds so narrow that level fast would take more memory than it does later? */
static bool bounds_are_narrow(const assessment *a)
{
    return adapt_n_assessed(a->adapt) < NARROW_ASSESSMENTS;
}

static comet_level level_of(const comet_model *m, comet_slot slot)
{
    const assessment *a = m->assessment;
    if (bounds_are_narrow(a))
        return COMET_LEVEL_DENSE;
    switch (m->params.compression.mode) {
    case COMET_COMPRESS_FAST: return COMET_LEVEL_FAST;
    case COMET_COMPRESS_AUTO: return !a->chosen || a->dense[slot] ? COMET_LEVEL_DENSE : COMET_LEVEL_FAST;
    default: return COMET_LEVEL_DENSE;
    }
}

static comet_slot_policy exact_policy(const comet_model *m, comet_slot slot)
{
    comet_slot_policy p;
    comet_slot_policy_init(&p);
    p.policy = comet_store_slot_spec(m->store, slot)->index_bits > 0 ? COMET_POLICY_PACKED : COMET_POLICY_LOSSLESS;
    p.level = m->params.compression.mode == COMET_COMPRESS_DENSE ? COMET_LEVEL_DENSE : COMET_LEVEL_FAST;
    return p;
}

static comet_slot_policy bounded_policy(const comet_model *m, comet_slot slot)
{
    comet_slot_policy p;
    comet_slot_policy_init(&p);
    p.policy = COMET_POLICY_BOUNDED;
    p.level = level_of(m, slot);
    return p;
}

static comet_slot_policy value_policy(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    if (!model_is_lossy(m) || !slot_may_be_lossy(m, x->slot))
        return exact_policy(m, x->slot);
    comet_slot_policy p = bounded_policy(m, x->slot);
    const double eb = x->masks_only ? INFINITY : adapt_eb(m->assessment->adapt, m->assessment->value_tensors[v]),
                 deviation = m->assessment->deviations[x->slot];
    p.eb = x->masks_only ? INFINITY : fmin(eb, WIDEST_BOUND * deviation);
    if (!x->masks_only && (eb == 0 || deviation == 0)) {
        p.eb = start_bound(m);
        p.of_deviation = true;
    }
    return p;
}

/* Deviation of the output before relu: the root mean square of gamma. */
static double norm_deviation(const comet_model *m, const op *o)
{
    const float *gamma = learnt(m, m->weights, o->weight);
    const uint64_t channels = batch_norm_of(o)->shape.channels;
    double squares = 0;
    for (uint64_t c = 0; c < channels; c++)
        squares += (double)gamma[c] * (double)gamma[c];
    return sqrt(squares / (double)channels);
}

/* Sets batch_norm.coarse, too: how much more coarsely what the relu cut off is stored. */
static comet_slot_policy norm_policy(const comet_model *m, const op *o)
{
    batch_norm *norm = batch_norm_of(o);
    const uint32_t tensor = m->assessment ? m->assessment->ops[o->index].tensor : NONE;
    norm->coarse = 1;
    if (tensor == NONE)
        return exact_policy(m, o->own.slot);
    comet_slot_policy p = bounded_policy(m, o->own.slot);
    const double eb = adapt_eb(m->assessment->adapt, tensor), deviation = norm_deviation(m, o);
    p.eb = eb == 0 ? start_bound(m) * deviation : fmin(eb, WIDEST_BOUND * deviation);
    if (!isfinite(p.eb)) /* gamma is not finite: forward will report it */
        p.eb = 0;
    if (o->relu && eb > 0 && p.eb > 0)
        norm->coarse = (float)fmax(1, fmin(m->assessment->coarse[o->own.slot], WIDEST_CUT * deviation / p.eb));
    return p;
}

static comet_status set_policy(comet_model *m, comet_slot slot, const comet_slot_policy *policy, uint64_t *held)
{
    const comet_compression *c = &m->params.compression;
    comet_slot_policy p = *policy;
    comet_slot_report r;
    comet_slot_report_init(&r);
    if (c->spill_folder && comet_store_describe_slot(m->store, slot, &r) == COMET_OK) {
        const uint64_t raw = comet_store_slot_spec(m->store, slot)->bytes;
        *held += r.n_puts > 0 ? r.bytes_held : p.policy == COMET_POLICY_BOUNDED ? raw / UNKNOWN_RATIO : raw;
        p.spill = *held > c->spill_above;
    }
    return comet_store_set_policy(m->store, slot, &p);
}

comet_status policy_set_all(comet_model *m)
{
    uint64_t held = 0;
    if (!m->coded)
        return COMET_OK;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        const value *y = &m->values[o->output];
        comet_slot_policy p;
        if (y->slot != COMET_NO_SLOT) {
            p = value_policy(m, o->output);
            TRY(set_policy(m, y->slot, &p, &held));
        }
        if (o->own.slot != COMET_NO_SLOT) {
            p = norm_policy(m, o);
            TRY(set_policy(m, o->own.slot, &p, &held));
        }
        if (o->workspace.slot != COMET_NO_SLOT) {
            p = exact_policy(m, o->workspace.slot);
            TRY(set_policy(m, o->workspace.slot, &p, &held));
        }
    }
    return COMET_OK;
}

/* ---- levels ---- */

/* Levels are chosen in assessments, and once more after a resume, as soon as the duration of a step is known. While bounds are
 * narrow there is no choice, and times say little about later steps. */
static bool levels_are_due(const comet_model *m)
{
    const assessment *a = m->assessment;
    return m->params.compression.mode == COMET_COMPRESS_AUTO && !bounds_are_narrow(a) && a->step_seconds > 0 &&
           (a->complete || !a->chosen);
}

/* The mean since the level was last changed. */
static double seconds_a_put(const level_clock *c, const comet_slot_report *r)
{
    return (r->seconds_put + r->seconds_take - c->seconds) / (double)(r->n_puts - c->n_puts);
}

static void set_level(comet_model *m, comet_slot slot, bool dense)
{
    assessment *a = m->assessment;
    comet_slot_report r;
    comet_slot_report_init(&r);
    if (a->chosen && a->dense[slot] == dense)
        return;
    a->dense[slot] = dense;
    if (comet_store_describe_slot(m->store, slot, &r) == COMET_OK)
        a->clocks[slot] = (level_clock){.seconds = r.seconds_put + r.seconds_take, .n_puts = r.n_puts};
}

/* The cheapest levels within the budget of time. What the other level would give is estimated from the one in use. */
comet_status choose_levels(comet_model *m)
{
    assessment *a = m->assessment;
    a->chosen = a->chosen && !bounds_are_narrow(a);
    if (!levels_are_due(m))
        return COMET_OK;
    const uint32_t n = comet_store_n_slots(m->store);
    const double smaller = 1.5, slower = 6;
    level_choice *choices = calloc(n, sizeof *choices);
    if (!choices)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the choice of levels");
    for (comet_slot s = 0; s < n; s++) {
        comet_slot_report r;
        comet_slot_report_init(&r);
        if (comet_store_describe_slot(m->store, s, &r) != COMET_OK || r.n_puts == a->clocks[s].n_puts || !(r.eb > 0))
            continue;
        const double seconds = seconds_a_put(&a->clocks[s], &r);
        const bool dense = r.level == COMET_LEVEL_DENSE;
        choices[s].bytes[dense] = (double)r.bytes_held;
        choices[s].bytes[!dense] = (double)r.bytes_held * (dense ? smaller : 1 / smaller);
        choices[s].seconds[dense] = seconds;
        choices[s].seconds[!dense] = seconds * (dense ? 1 / slower : slower);
    }
    levels_choose(choices, n, m->params.compression.overhead * a->step_seconds * m->params.n_threads);
    for (comet_slot s = 0; s < n; s++)
        set_level(m, s, choices[s].dense);
    a->chosen = true;
    free(choices);
    return COMET_OK;
}
