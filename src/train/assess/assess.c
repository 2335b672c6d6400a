/*
 * Adaptive bounds of a model: tensors and their consumers, and the assessments in which bounds are found (src/adapt/adapt.h).
 */
#include "train/assess/assess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "train/math/optimiser.h"
#include "train/math/reduce.h"
#include "train/ops/ops.h"

#define SPIKE 2.0           /* a spike is at least this many times the mean loss, and */
#define SPIKE_SPREADS 6.0   /* this many mean deviations above it: losses of small batches differ by much */
#define HIDDEN_MOMENTUM 0.9 /* for optimisers that have no momentum */
#define COARSEST 1024.0     /* policy.c sets a lower limit, by the tensor's deviation */
#define SILU_GAIN 0.126     /* docs/theory.md */
#define SIGMOID_GAIN (4.0 / 3)

/* ---- tensors and consumers ---- */

/* The tensor of the adaptive bound that stands for value v, or NONE. */
static uint32_t tensor_for(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    const assessment *a = m->assessment;
    return x->derived ? a->ops[x->producer].tensor : a->value_tensors[v];
}

static comet_status add_tensors(comet_model *m)
{
    assessment *a = m->assessment;
    for (uint32_t v = 0; v < m->n_values; v++) {
        const value *x = &m->values[v];
        a->value_tensors[v] = NONE;
        if (x->producer != NONE && !x->masks_only && slot_may_be_lossy(m, x->slot))
            TRY(adapt_add_tensor(a->adapt, m->ops[x->producer].layer->name, layout_elements(x->layout), &a->value_tensors[v]));
    }
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        a->ops[i] = (op_bounds){NONE, NONE, NONE};
        if (slot_may_be_lossy(m, o->own.slot))
            TRY(adapt_add_tensor(a->adapt, o->layer->name, batch_norm_of(o)->shape.n_elements, &a->ops[i].tensor));
    }
    return COMET_OK;
}

static bool passes_only(const op *o)
{
    return o->type->keeps_input && o->weight == NONE;
}

static comet_status add_passes(comet_model *m, const op *o)
{
    assessment *a = m->assessment;
    for (uint32_t j = 0; j < o->n_inputs; j++) {
        const uint32_t v = o->type->keeps_input ? o->inputs[j] : o->output, tensor = tensor_for(m, v);
        if (tensor == NONE || (j > 0 && (o->inputs[j] == o->inputs[0] || !o->type->keeps_input)))
            continue;
        pass_consumer *p = &a->passes[a->n_passes];
        *p = (pass_consumer){.value = v, .op = o->layer->op};
        TRY(adapt_add_pass(a->adapt, tensor, o->layer->name, &p->consumer));
        a->n_passes++;
    }
    return COMET_OK;
}

/* The tensor that batch norm o reads in backward, or NONE. */
static uint32_t norm_tensor_of(const comet_model *m, const op *o)
{
    return o->backward_by == o->index ? m->assessment->ops[o->index].tensor : tensor_for(m, m->ops[o->backward_by].inputs[0]);
}

static comet_status add_consumers(comet_model *m, const op *o)
{
    adapt *a = m->assessment->adapt;
    op_bounds *b = &m->assessment->ops[o->index];
    if (!m->values[o->output].needs_gradient)
        return COMET_OK;
    const uint32_t norm = norm_tensor_of(m, o);
    if (norm != NONE) {
        if (is_trained(m, o->weight))
            TRY(adapt_add_parameter(a, norm, o->layer->name, m->parameters[o->weight].dims[0], &b->consumer));
        return needs_gradient_of(m, o, 0) ? adapt_add_pass(a, norm, o->layer->name, &b->pass) : COMET_OK;
    }
    if (passes_only(o) || o->layer->op == COMET_OP_SIGMOID)
        return add_passes(m, o);
    const uint32_t tensor = is_trained(m, o->weight) && !batch_norm_of(o) ? tensor_for(m, o->inputs[0]) : NONE;
    if (tensor == NONE)
        return COMET_OK;
    const parameter *p = &m->parameters[o->weight];
    uint64_t n = 1;
    for (uint32_t i = 0; i < p->n_dims; i++)
        n *= p->dims[i];
    return adapt_add_parameter(a, tensor, o->layer->name, n, &b->consumer);
}

static comet_status allocate(comet_model *m)
{
    assessment *a = m->assessment;
    const size_t n_slots = comet_store_n_slots(m->store);
    a->seen = calloc(adapt_n_consumers(a->adapt) + 1, sizeof *a->seen);
    a->dense = calloc(n_slots + 1, sizeof *a->dense);
    a->deviations = calloc(n_slots + 1, sizeof *a->deviations);
    a->cut_gains = calloc(n_slots + 1, sizeof *a->cut_gains);
    a->coarse = calloc(n_slots + 1, sizeof *a->coarse);
    a->clocks = calloc(n_slots + 1, sizeof *a->clocks);
    return a->seen && a->dense && a->deviations && a->cut_gains && a->coarse && a->clocks
               ? COMET_OK
               : comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate figures of %u consumers",
                            adapt_n_consumers(a->adapt));
}

void assess_destroy(comet_model *m)
{
    assessment *a = m->assessment;
    if (!a)
        return;
    adapt_destroy(a->adapt);
    observer_remove(&m->observer, a);
    free(a->ops);
    free(a->value_tensors);
    free(a->seen);
    free(a->passes);
    free(a->deviations);
    free(a->cut_gains);
    free(a->coarse);
    free(a->clocks);
    join_destroy(a);
    free(a->dense);
    free(a);
    m->assessment = NULL;
}

/* ---- assessing ---- */

void comet_model_hold_bounds(comet_model *m, bool hold)
{
    if (m->assessment)
        m->assessment->frozen = hold;
}

static void observe_pass(comet_model *m, const pass_consumer *p)
{
    const double deviation = m->assessment->deviations[value_slot(m, p->value)], squares = deviation * deviation;
    const double gain = p->op == COMET_OP_SILU      ? SILU_GAIN / fmax(squares, 1e-12)
                        : p->op == COMET_OP_SIGMOID ? SIGMOID_GAIN
                                                    : 1 / (3 * fmax(squares, 1e-12));
    m->assessment->seen[p->consumer] =
        (adapt_observation){.gain = gain, .measured = NAN, .eb = slot_eb(m, value_slot(m, p->value))};
}

/* ||g - mean||^2 and mean |momentum| over a weight tensor, where the momentum after `step` updates estimates the mean. */
static void compare_with_momentum(const comet_model *m, const parameter *p, const float *gradient, uint64_t step,
                                  adapt_observation *seen)
{
    const comet_optimiser *o = &m->params.optimiser;
    const bool adam = o->kind == COMET_OPTIMISER_ADAMW;
    const double beta = adam ? o->beta1 : model_hides_momentum(m) ? HIDDEN_MOMENTUM : (double)o->momentum;
    const double collected = 1 - pow(beta, (double)step);
    const momentum_terms terms = {.gradient = gradient,
                                  .weights = m->weights + p->offset,
                                  .momentum = state_at(m->momentum, p->offset),
                                  .decay = adam ? 0 : (double)o->weight_decay,
                                  .to_mean = !(collected > 0) ? 0
                                             : adam           ? 1 / collected
                                                              : (1 - beta) / collected};
    double size;
    const double squares = momentum_distance(p->n, &terms, &size);
    seen->gradient_noise = adapt_noise(squares, beta, step);
    seen->mean_momentum = mean_of_momentum(m, p, size);
}

static void move_hidden_momentum(comet_model *m, const gradient_part *part, uint64_t step)
{
    const uint64_t at = m->parameters[part->parameter].offset + part->state_first;
    const optimiser_step s = {.optimiser = &m->params.optimiser, .step = step, .seed = m->params.seed};
    const optimiser_state state = {.momentum = part->momentum, .first = at};
    optimiser_follow(&s, (float)HIDDEN_MOMENTUM, part->state_n, m->weights + at,
                     part->gradient + (part->state_first - part->first), &state);
}

static void gradient_used(void *self, comet_model *m, const gradient_part *part, uint64_t step)
{
    assessment *a = self;
    const uint32_t consumer = a->ops[part->op->index].consumer;
    const bool assessed = a->due && consumer != NONE && part->parameter == part->op->weight;
    if (assessed && a->joint)
        join_gradient_used(a, consumer, part, mean_of_momentum(m, &m->parameters[part->parameter], 1));
    else if (assessed)
        compare_with_momentum(m, &m->parameters[part->parameter], part->gradient, model_hides_momentum(m) ? a->n_updates : step,
                              &a->seen[consumer]);
    if (model_hides_momentum(m))
        move_hidden_momentum(m, part, step);
}

static void withdraw_bounds(comet_model *m, uint64_t step)
{
    adapt_retreat(m->assessment->adapt, step);
    m->assessment->n_withdrawals++;
}

/* Values that are not finite are held exactly, but they show that something is wrong. */
static void count_nonfinite(comet_model *m)
{
    assessment *a = m->assessment;
    a->n_nonfinite = 0;
    a->nonfinite_layer = NULL;
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++) {
        const comet_slot_spec *spec = comet_store_slot_spec(m->store, s);
        comet_slot_report r;
        comet_slot_report_init(&r);
        if (spec->class_ >= COMET_SLOT_INDEX || comet_store_describe_slot(m->store, s, &r) != COMET_OK || r.n_nonfinite == 0)
            continue;
        a->n_nonfinite += r.n_nonfinite;
        a->nonfinite_layer = a->nonfinite_layer ? a->nonfinite_layer : spec->layer;
    }
}

/* An error in what the relu cut off reaches only the gradient that is passed on. There it may use what the other errors leave
 * of the budget: coarse^2 times its part of the energy, docs/theory.md. The factor falls at once, like limits of pass-on
 * consumers, and rises half of the way. */
static void choose_coarse(comet_model *m, const op *o)
{
    assessment *a = m->assessment;
    const op_bounds *b = &a->ops[o->index];
    const double eb = adapt_eb(a->adapt, b->tensor), left = adapt_pass_left(a->adapt, b->pass),
                 harm = a->cut_gains[o->own.slot] * eb * eb, last = a->coarse[o->own.slot];
    if (isnan(harm))
        return;
    double coarse = harm > 0 ? sqrt(1 + left / harm) : COARSEST;
    coarse = coarse < COARSEST ? coarse : COARSEST;
    a->coarse[o->own.slot] = last >= 1 && coarse > last ? sqrt(last * coarse) : coarse;
}

static void observe_all(comet_model *m)
{
    assessment *a = m->assessment;
    for (uint32_t i = 0; i < adapt_n_consumers(a->adapt); i++)
        adapt_observe(a->adapt, i, &a->seen[i]);
    a->n_collected++;
}

static void assess_now(comet_model *m, uint64_t step)
{
    assessment *a = m->assessment;
    adapt_assess(a->adapt, step);
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (a->ops[i].pass != NONE && m->ops[i].relu)
            choose_coarse(m, &m->ops[i]);
    a->n_assessments++;
}

static comet_status update_done(void *self, comet_model *m, uint64_t step)
{
    assessment *a = self;
    for (uint32_t i = 0; a->due && i < a->n_passes; i++)
        observe_pass(m, &a->passes[i]);
    count_nonfinite(m);
    if (a->joint)
        TRY(join_observations(m));
    if (a->due)
        observe_all(m);
    a->complete = a->due && adapt_complete(a->adapt, step);
    if (a->complete)
        assess_now(m, step);
    TRY(choose_levels(m));
    const double seconds =
        comet_seconds() - a->began; /* assessing takes longer: then the time counts only if it is less than the known one */
    if (!a->due || a->step_seconds == 0 || seconds < a->step_seconds)
        a->step_seconds = seconds;
    a->due = false;
    if (a->n_nonfinite > 0)
        withdraw_bounds(m, step);
    a->n_updates++;
    return COMET_OK;
}

/* Bytes held for convolution inputs, each slot once. */
static void count_held(comet_model *m)
{
    assessment *a = m->assessment;
    comet_store_totals t;
    comet_store_totals_init(&t);
    if (comet_store_describe(m->store, &t) == COMET_OK)
        a->held = t.held + t.spilled;
    a->conv_raw = a->conv_held = 0;
    for (uint32_t v = 1; v < m->n_values; v++) {
        const value *x = &m->values[v];
        comet_slot_report r;
        comet_slot_report_init(&r);
        if (!x->saved || x->saved_class != COMET_SLOT_CONV_INPUT ||
            comet_store_describe_slot(m->store, value_slot(m, v), &r) != COMET_OK)
            continue;
        a->conv_raw += layout_bytes(x->layout);
        a->conv_held += r.bytes_held;
    }
}

/* Keeps the deviations, about zero, of what was put: relu outputs are compared with their own size. The next step's bounds need
 * them, and it may run in another process, so they are kept here instead of being read from the store. */
static void keep_deviations(comet_model *m)
{
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++) {
        comet_slot_report r;
        comet_slot_report_init(&r);
        const bool known = comet_store_describe_slot(m->store, s, &r) == COMET_OK && r.n_elements > 0;
        const double deviation = known ? sqrt(r.sum_of_squares / (double)r.n_elements) : 0;
        m->assessment->deviations[s] = isfinite(deviation) ? deviation : 0;
    }
}

/* Is the loss far above that of the last steps? Their spread is assumed to be large until it is known. */
static bool is_spike(const assessment *a, double loss)
{
    return a->loss_mean > 0 && loss > SPIKE * a->loss_mean && loss > a->loss_mean + SPIKE_SPREADS * a->loss_spread;
}

static void follow_loss(assessment *a, double loss)
{
    const bool first = !(a->loss_mean > 0);
    if (first || !is_spike(a, loss))
        a->loss_spread = first ? loss / SPIKE_SPREADS : 0.98 * a->loss_spread + 0.02 * fabs(loss - a->loss_mean);
    a->loss_mean = first ? loss : 0.98 * a->loss_mean + 0.02 * loss;
}

static void loss_known(void *self, comet_model *m, double loss)
{
    assessment *a = self;
    count_held(m);
    if (!a->joint || (is_last_batch(m) && isfinite(loss))) /* bounds depend on them: ranks keep none that are not joined */
        keep_deviations(m);
    const bool unsafe = !isfinite(loss) || is_spike(a, loss);
    a->due = a->due && !unsafe; /* there will be no gradients, or gradients that say nothing about the next ones */
    if (unsafe)
        withdraw_bounds(m, m->step);
    if (isfinite(loss))
        follow_loss(a, loss);
}

/* What a step does not observe counts as unknown, not as before. */
static void forget_observations(assessment *a, uint32_t n_slots)
{
    for (uint32_t i = 0; i < adapt_n_consumers(a->adapt); i++)
        a->seen[i].gain = NAN;
    for (uint32_t s = 0; s < n_slots; s++)
        a->cut_gains[s] = NAN;
}

static comet_status step_begins(void *self, comet_model *m)
{
    assessment *a = self;
    a->began = comet_seconds();
    a->due = !a->frozen && is_last_batch(m) && adapt_due(a->adapt, m->step);
    forget_observations(a, comet_store_n_slots(m->store));
    return measure_begin(m);
}

static bool needs_norm(void *self, const comet_model *m)
{
    (void)m;
    return ((const assessment *)self)->due;
}

/* ---- creation ---- */

static comet_status add_listener(comet_model *m)
{
    const listener l = {.self = m->assessment,
                        .step_begins = step_begins,
                        .input_read = measure_input,
                        .part_done = measure_part,
                        .folded_part_done = measure_folded_part,
                        .folded_done = measure_folded,
                        .needs_norm = needs_norm,
                        .norm_done = measure_norm,
                        .loss_known = loss_known,
                        .gradient_ready = m->assessment->joint ? join_gradient_ready : NULL,
                        .gradient_used = gradient_used,
                        .update_done = update_done};
    return observer_add(&m->observer, &l);
}

static comet_status create_adapt(comet_model *m)
{
    const comet_compression *c = &m->params.compression;
    const adapt_params params = {.rule = c->sigma > 0 ? ADAPT_SIGMA : ADAPT_NOISE,
                                 .share = c->sigma > 0 ? c->sigma : c->noise,
                                 .window = c->window,
                                 .best_fit = !(c->sigma > 0)};
    return adapt_create(&m->assessment->adapt, &params);
}

comet_status assess_create(comet_model *m)
{
    if (!model_is_lossy(m))
        return COMET_OK;
    assessment *a = m->assessment = calloc(1, sizeof *a);
    if (!a)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the assessment of bounds");
    a->passes = calloc((size_t)m->n_ops * COMET_MAX_INPUTS, sizeof *a->passes);
    a->ops = calloc(m->n_ops, sizeof *a->ops);
    a->value_tensors = calloc(m->n_values, sizeof *a->value_tensors);
    if (!a->passes || !a->ops || !a->value_tensors)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the assessment of bounds");
    TRY(create_adapt(m));
    TRY(add_tensors(m));
    for (uint32_t i = 0; i < m->n_ops; i++)
        TRY(add_consumers(m, &m->ops[i]));
    TRY(allocate(m));
    if (m->params.ranks)
        TRY(join_create(m));
    return add_listener(m);
}
