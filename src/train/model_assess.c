/*
 * How each saved tensor is held: policies for every step, and the assessments that adapt the bounds (src/store/adapt.h).
 *
 * In an assessing step every convolution tells what an error of its stored input does to its gradient: the gain from ||dY|| and
 * the share of non-zeros, and for some of them in turn the error itself: of the first image the input is kept as it was, and
 * since the gradient is linear in the input, the gradient of (stored - original) of that image, zero elsewhere, is the error it
 * made.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/threads.h"
#include "store/adapt.h"
#include "train/model_internal.h"
#include "train/model_state.h"

#define WIDEST_BOUND 0.7                 /* standard deviations: beyond this errors are no longer even and centred */
#define DITHER_FROM 0.35                 /* likewise: from here on dither makes them so, where zeros need not be kept */
#define SAMPLE_BYTES ((uint64_t)512 << 10) /* of one convolution's sample, but at least an image */
#define SAMPLE_IMAGES 8
#define MEASURED_BYTES ((uint64_t)8 << 20) /* of samples in one assessment */
#define SPIKE 2.0                           /* times the mean loss */
#define UNKNOWN_RATIO 8                     /* of what has not been put yet, where it may be lossy */
#define HIDDEN_MOMENTUM 0.9                 /* of optimisers that have none */
#define SILU_GAIN 0.126                     /* docs/theory.md */
#define SIGMOID_GAIN (4.0 / 3)
#define EXACT_WHOLE 9007199254740992.0 /* whole numbers up to here are exact in a double */

enum { STATE_VERSION = 1, N_STATE_HEAD = 7 };

/* A consumer that only passes gradients on. */
typedef struct pass_consumer {
    uint32_t consumer, value;
    comet_op op;
} pass_consumer;

struct assessment {
    adapt *adapt;
    bool due;
    uint64_t n_assessments;
    double loss_mean;
    adapt_observation *seen; /* by consumer */
    pass_consumer *passes;
    uint32_t n_passes;
    double *deviations; /* by slot: of what was put last; 0: not known */
    bool *dense;        /* by slot: mode auto */
    bool chosen;        /* `dense` is; not after a resume */
    uint64_t n_updates; /* that a hidden momentum has seen */
    uint64_t n_nonzero; /* of the input at hand, in its parts so far */
    double began, step_seconds;
    uint64_t held, conv_raw, conv_held, n_nonfinite; /* of the last step, at its peak */
};

static bool is_lossy_mode(const comet_model *m)
{
    return m->params.compression.mode >= COMET_COMPRESS_FAST;
}

bool model_hides_momentum(const comet_model *m)
{
    const comet_optimiser *o = &m->params.optimiser;
    return m->coded && is_lossy_mode(m) && o->kind == COMET_OPTIMISER_SGD && !(o->momentum > 0);
}

/* ---- tensors and consumers ---- */

static bool slot_may_be_lossy(const comet_model *m, comet_slot slot)
{
    return slot != COMET_NO_SLOT && comet_store_slot_spec(m->store, slot)->exactness != COMET_EXACT;
}

/* The tensor of the adaptive bound that stands for value v, or NONE. */
static uint32_t tensor_for(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    return x->derived ? m->ops[x->producer].norm_tensor : x->tensor;
}

static comet_status add_tensors(comet_model *m)
{
    adapt *a = m->assessment->adapt;
    for (uint32_t v = 0; v < m->n_values; v++) {
        value *x = &m->values[v];
        if (x->producer != NONE && !x->masks_only && slot_may_be_lossy(m, x->slot))
            TRY(adapt_add_tensor(a, m->ops[x->producer].layer->name, layout_bytes(x->layout) / sizeof(float), &x->tensor));
    }
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (slot_may_be_lossy(m, o->norm_slot))
            TRY(adapt_add_tensor(a, o->layer->name, o->norm.n_elements, &o->norm_tensor));
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

static comet_status add_consumers(comet_model *m, op *o)
{
    adapt *a = m->assessment->adapt;
    if (!m->values[o->output].needs_gradient)
        return COMET_OK;
    if (o->norm_tensor != NONE) {
        TRY(adapt_add_parameter(a, o->norm_tensor, o->layer->name, m->parameters[o->weight].dims[0], &o->consumer));
        return adapt_add_pass(a, o->norm_tensor, o->layer->name, &o->pass);
    }
    if (passes_only(o) || o->layer->op == COMET_OP_SIGMOID)
        return add_passes(m, o);
    const uint32_t tensor = o->weight != NONE && o->mean == NONE ? tensor_for(m, o->inputs[0]) : NONE;
    if (tensor == NONE)
        return COMET_OK;
    const parameter *p = &m->parameters[o->weight];
    uint64_t n = 1;
    for (uint32_t i = 0; i < p->n_dims; i++)
        n *= p->dims[i];
    return adapt_add_parameter(a, tensor, o->layer->name, n, &o->consumer);
}

static comet_status allocate(comet_model *m)
{
    assessment *a = m->assessment;
    const size_t n_slots = comet_store_n_slots(m->store);
    a->seen = calloc(adapt_n_consumers(a->adapt) + 1, sizeof *a->seen);
    a->dense = calloc(n_slots + 1, sizeof *a->dense);
    a->deviations = calloc(n_slots + 1, sizeof *a->deviations);
    return a->seen && a->dense && a->deviations
               ? COMET_OK
               : comet_fail(COMET_ERROR_MEMORY, "no memory to assess %u consumers", adapt_n_consumers(a->adapt));
}

comet_status assess_create(comet_model *m)
{
    const comet_compression *c = &m->params.compression;
    if (!m->coded || !is_lossy_mode(m))
        return COMET_OK;
    m->assessment = calloc(1, sizeof *m->assessment);
    if (!m->assessment)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for assessments");
    m->assessment->passes = calloc(m->n_ops * COMET_MAX_INPUTS, sizeof *m->assessment->passes);
    if (!m->assessment->passes)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for assessments");
    const adapt_params params = {.rule = c->sigma > 0 ? ADAPT_SIGMA : ADAPT_NOISE,
                                 .share = c->sigma > 0 ? c->sigma : c->noise,
                                 .window = c->window,
                                 .best_fit = !(c->sigma > 0)};
    TRY(adapt_create(&m->assessment->adapt, &params));
    TRY(add_tensors(m));
    for (uint32_t i = 0; i < m->n_ops; i++)
        TRY(add_consumers(m, &m->ops[i]));
    return allocate(m);
}

void assess_destroy(comet_model *m)
{
    assessment *a = m->assessment;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        free(m->ops[i].sample);
        m->ops[i].sample = NULL;
    }
    if (!a)
        return;
    adapt_destroy(a->adapt);
    free(a->seen);
    free(a->passes);
    free(a->deviations);
    free(a->dense);
    free(a);
    m->assessment = NULL;
}

/* ---- policies ---- */

/* Standard deviations, while nothing is known: well below what the rule comes to in most layers, for its usual share and for
 * smaller ones. */
static double start_bound(const comet_model *m)
{
    const comet_compression *c = &m->params.compression;
    return c->sigma > 0 ? fmin(10 * c->sigma, 0.1) : fmin(1.5 * sqrt(c->noise), 0.15);
}

static uint64_t dither_seed(const comet_model *m, comet_slot slot)
{
    return (m->params.seed * 0x9E3779B97F4A7C15u + m->step * m->params.accumulate + m->n_accumulated) * 0xBF58476D1CE4E5B9u +
           slot;
}

static comet_level level_of(const comet_model *m, comet_slot slot)
{
    const assessment *a = m->assessment;
    if (a->n_assessments == 0) /* bounds are narrow, and the peak of memory should not be in the first steps */
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

static comet_slot_policy value_policy(const comet_model *m, const value *x)
{
    if (!is_lossy_mode(m) || !slot_may_be_lossy(m, x->slot))
        return exact_policy(m, x->slot);
    comet_slot_policy p = bounded_policy(m, x->slot);
    const double eb = x->masks_only ? INFINITY : adapt_eb(m->assessment->adapt, x->tensor),
                 deviation = m->assessment->deviations[x->slot];
    p.eb = x->masks_only ? INFINITY : fmin(eb, WIDEST_BOUND * deviation);
    if (!x->masks_only && (eb == 0 || deviation == 0)) {
        p.eb = start_bound(m);
        p.of_deviation = true;
    }
    p.dither = x->exactness == COMET_LOSSY && x->saved_class == COMET_SLOT_ACTIVATION && !p.of_deviation &&
               p.eb > DITHER_FROM * deviation;
    p.dither_seed = dither_seed(m, x->slot);
    return p;
}

/* Of the output before relu: gamma in the mean. */
static double norm_deviation(const comet_model *m, const op *o)
{
    const float *gamma = learnt(m, m->weights, o->weight);
    double squares = 0;
    for (uint64_t c = 0; c < o->norm.channels; c++)
        squares += (double)gamma[c] * (double)gamma[c];
    return sqrt(squares / (double)o->norm.channels);
}

static comet_slot_policy norm_policy(const comet_model *m, const op *o)
{
    if (!is_lossy_mode(m) || o->norm_tensor == NONE)
        return exact_policy(m, o->norm_slot);
    comet_slot_policy p = bounded_policy(m, o->norm_slot);
    const double eb = adapt_eb(m->assessment->adapt, o->norm_tensor), deviation = norm_deviation(m, o);
    p.eb = eb == 0 ? start_bound(m) * deviation : fmin(eb, (o->relu ? WIDEST_BOUND : 1) * deviation);
    if (!isfinite(p.eb)) /* gamma is not: forward will tell */
        p.eb = 0;
    p.dither = !o->relu && p.eb > DITHER_FROM * deviation;
    p.dither_seed = dither_seed(m, o->norm_slot);
    return p;
}

static comet_status set_policy(comet_model *m, comet_slot slot, const comet_slot_policy *policy, uint64_t *held)
{
    const comet_compression *c = &m->params.compression;
    comet_slot_policy p = *policy;
    comet_slot_report r;
    comet_slot_report_init(&r);
    if (c->spill_folder && comet_store_slot_report(m->store, slot, &r) == COMET_OK) {
        const uint64_t raw = comet_store_slot_spec(m->store, slot)->bytes;
        *held += r.n_puts > 0 ? r.bytes_held : p.policy == COMET_POLICY_BOUNDED ? raw / UNKNOWN_RATIO : raw;
        p.spill = *held > c->spill_above;
    }
    return comet_store_set_policy(m->store, slot, &p);
}

comet_status assess_set_policies(comet_model *m)
{
    assessment *a = m->assessment;
    uint64_t held = 0;
    if (a) {
        a->began = comet_now();
        a->due = m->n_accumulated + 1 == m->params.accumulate && adapt_due(a->adapt, m->step);
    }
    if (!m->coded)
        return COMET_OK;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        const value *y = &m->values[o->output];
        comet_slot_policy p;
        if (y->slot != COMET_NO_SLOT) {
            p = value_policy(m, y);
            TRY(set_policy(m, y->slot, &p, &held));
        }
        if (o->norm_slot != COMET_NO_SLOT) {
            p = norm_policy(m, o);
            TRY(set_policy(m, o->norm_slot, &p, &held));
        }
        if (o->workspace_slot != COMET_NO_SLOT) {
            p = exact_policy(m, o->workspace_slot);
            TRY(set_policy(m, o->workspace_slot, &p, &held));
        }
    }
    return COMET_OK;
}

/* ---- collecting ---- */

bool assess_is_due(const comet_model *m)
{
    return m->assessment && m->assessment->due;
}

static double eb_in_force(const comet_model *m, comet_slot slot)
{
    comet_slot_report r;
    comet_slot_report_init(&r);
    return comet_store_slot_report(m->store, slot, &r) == COMET_OK ? r.eb : 0;
}

static uint64_t image_floats(const comet_model *m, uint32_t v)
{
    return layout_bytes(m->values[v].layout) / sizeof(float) / m->params.batch;
}

static bool is_measured(const comet_model *m, const op *o)
{
    return assess_is_due(m) && o->consumer != NONE && o->layer->op == COMET_OP_CONV;
}

static uint32_t sample_images(const comet_model *m, const op *o)
{
    const uint64_t n = SAMPLE_BYTES / (image_floats(m, o->inputs[0]) * sizeof(float));
    return (uint32_t)min_u64(m->params.batch / o->n_parts, min_u64(SAMPLE_IMAGES, n > 0 ? n : 1));
}

static uint64_t sample_bytes(const comet_model *m, const op *o)
{
    return sample_images(m, o) * image_floats(m, o->inputs[0]) * sizeof(float);
}

static uint64_t gradient_bytes(const comet_model *m, const op *o)
{
    const layout *l = o->backward_weights ? kernel_layout(o->backward_weights, ARG_DIFF_WEIGHTS) : NULL;
    return layout_bytes(l ? l : m->parameters[o->weight].layout);
}

uint64_t assess_bytes(const comet_model *m)
{
    uint64_t samples = 0, largest = 0;
    for (uint32_t i = 0; m->coded && is_lossy_mode(m) && i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (o->layer->op != COMET_OP_CONV || o->n_parts == 0 || !slot_may_be_lossy(m, value_slot(m, o->inputs[0])))
            continue;
        samples += sample_bytes(m, o);
        largest = max_u64(largest, gradient_bytes(m, o));
    }
    return min_u64(samples, MEASURED_BYTES) + largest;
}

/* Convolutions take turns, as many at once as MEASURED_BYTES allow; not in the first assessment, when bounds are far from what
 * they will be and coded tensors take the most memory. */
static bool has_turn(const comet_model *m, const op *o)
{
    uint64_t before = 0, all = 0;
    if (m->assessment->n_assessments == 0)
        return false;
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (is_measured(m, &m->ops[i])) {
            before += i < o->index ? sample_bytes(m, &m->ops[i]) : 0;
            all += sample_bytes(m, &m->ops[i]);
        }
    const uint64_t turns = (all + MEASURED_BYTES - 1) / MEASURED_BYTES;
    return before / MEASURED_BYTES % turns == m->assessment->n_assessments % turns;
}

comet_status assess_before(comet_model *m, op *o)
{
    if (!is_measured(m, o) || !has_turn(m, o))
        return COMET_OK;
    free(o->sample);
    o->sample = malloc(sample_bytes(m, o));
    if (!o->sample)
        return comet_fail(COMET_ERROR_MEMORY, "%s: no memory to measure its error", o->layer->name);
    memcpy(o->sample, value_data(m, o->inputs[0]), sample_bytes(m, o));
    return COMET_OK;
}

static double sum_of_squares(uint64_t n, const float *x)
{
    double sum = 0;
    for (uint64_t i = 0; i < n;) {
        float part[16] = {0};
        const uint64_t end = min_u64(n, i + 1024);
        for (; i + 16 <= end; i += 16)
            for (int l = 0; l < 16; l++)
                part[l] += x[i + (uint64_t)l] * x[i + (uint64_t)l];
        for (; i < end; i++)
            sum += (double)x[i] * (double)x[i];
        for (int l = 0; l < 16; l++)
            sum += (double)part[l];
    }
    return sum;
}

static uint64_t count_nonzero(uint64_t n, const float *x)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++)
        count += x[i] != 0;
    return count;
}

/* The gain of a weighted op over the first n_images: taps of a weight's input, times share of non-zeros, times ||dY||^2. */
static double weighted_gain(const comet_model *m, const op *o, uint32_t n_images, uint64_t n_nonzero)
{
    const parameter *p = &m->parameters[o->weight];
    uint64_t dims[5], taps = 1, elements = 1;
    const uint32_t n_dims = layout_dims(m->values[o->inputs[0]].layout, dims);
    for (uint32_t i = 1; i < n_dims; i++)
        elements *= dims[i];
    for (uint32_t i = 1; i < p->n_dims; i++)
        taps *= p->dims[i];
    const double share = (double)n_nonzero / ((double)elements * n_images);
    return (double)taps * share / 3 * sum_of_squares(n_images * image_floats(m, o->output), arena_at(&m->arena, o->diff));
}

/* The error of the first images, and zeros for all others of the first part. */
static void leave_error(comet_model *m, op *o)
{
    const uint64_t image = image_floats(m, o->inputs[0]), n = sample_images(m, o) * image;
    float *x = m->values[o->inputs[0]].taken;
    for (uint64_t i = 0; i < n; i++)
        x[i] -= o->sample[i];
    memset(x + n, 0, (m->params.batch / o->n_parts * image - n) * sizeof *x);
    free(o->sample);
    o->sample = NULL;
}

/* The sum of squares of the error that the first images made. Kernels count on aligned memory. */
static comet_status measure(comet_model *m, op *o, double *squares)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    const size_t bytes = gradient_bytes(m, o), bias_bytes = o->bias == NONE ? 0 : m->parameters[o->bias].n * sizeof(float);
    float *gradient = comet_allocate(&allocator, bytes), *bias = bias_bytes > 0 ? comet_allocate(&allocator, bias_bytes) : NULL;
    comet_status status = gradient && (bias || bias_bytes == 0) ? COMET_OK : COMET_ERROR_MEMORY;
    leave_error(m, o);
    if (status == COMET_OK)
        status = op_run_backward_weights(m, o, 0, gradient, bias);
    if (status == COMET_OK)
        *squares = sum_of_squares(bytes / sizeof(float), gradient);
    comet_release(&allocator, gradient, bytes);
    comet_release(&allocator, bias, bias_bytes);
    return status;
}

/* The first part tells how far the error is from its prediction: seen->measured is their quotient until the last part. */
static comet_status assess_first_part(comet_model *m, op *o, adapt_observation *seen)
{
    const uint32_t n_images = sample_images(m, o);
    *seen = (adapt_observation){.measured = NAN, .eb = eb_in_force(m, value_slot(m, o->inputs[0]))};
    if (!o->sample || !(seen->eb > 0))
        return COMET_OK;
    const uint64_t n_nonzero = count_nonzero(n_images * image_floats(m, o->inputs[0]), m->values[o->inputs[0]].taken);
    const double predicted = weighted_gain(m, o, n_images, n_nonzero) * seen->eb * seen->eb;
    double squares = 0;
    TRY(measure(m, o, &squares));
    if (predicted > 0)
        seen->measured = squares / predicted;
    return COMET_OK;
}

comet_status assess_weighted(comet_model *m, op *o, uint32_t part)
{
    if (!assess_is_due(m) || o->consumer == NONE)
        return COMET_OK;
    assessment *a = m->assessment;
    adapt_observation *seen = &a->seen[o->consumer];
    const uint32_t n_images = m->params.batch / o->n_parts;
    const uint64_t n_nonzero = count_nonzero(n_images * image_floats(m, o->inputs[0]), m->values[o->inputs[0]].taken);
    a->n_nonzero = n_nonzero + (part > 0 ? a->n_nonzero : 0);
    if (part == 0)
        TRY(assess_first_part(m, o, seen));
    if (part + 1 < o->n_parts)
        return COMET_OK;
    seen->gain = weighted_gain(m, o, m->params.batch, a->n_nonzero) * m->params.accumulate;
    seen->measured *= seen->gain * seen->eb * seen->eb;
    return COMET_OK;
}

void assess_norm(comet_model *m, const op *o, const norm_harm *harm)
{
    const double eb = eb_in_force(m, o->norm_slot);
    m->assessment->seen[o->consumer] =
        (adapt_observation){.gain = harm->scale / 3 * m->params.accumulate, .measured = NAN, .eb = eb};
    m->assessment->seen[o->pass] =
        (adapt_observation){.gain = harm->energy > 0 ? harm->passed / harm->energy / 3 : 0, .measured = NAN, .eb = eb};
}

static void observe_pass(const comet_model *m, const pass_consumer *p)
{
    const double deviation = m->assessment->deviations[value_slot(m, p->value)], squares = deviation * deviation;
    const double gain = p->op == COMET_OP_SILU      ? SILU_GAIN / fmax(squares, 1e-12)
                        : p->op == COMET_OP_SIGMOID ? SIGMOID_GAIN
                                                    : 1 / (3 * fmax(squares, 1e-12));
    const adapt_observation seen = {.gain = gain, .measured = NAN, .eb = eb_in_force(m, value_slot(m, p->value))};
    adapt_observe(m->assessment->adapt, p->consumer, &seen);
}

/* ---- assessing ---- */

/* ||g - mean||^2 and mean |momentum| over a weight tensor, where momentum, of `step` updates, estimates the mean. */
static void compare_with_momentum(const comet_model *m, const parameter *p, const float *gradient, uint64_t step,
                                  adapt_observation *seen)
{
    const comet_optimiser *o = &m->params.optimiser;
    const bool adam = o->kind == COMET_OPTIMISER_ADAMW;
    const float *momentum = m->first + p->offset, *weights = m->weights + p->offset;
    const double beta = adam ? o->beta1 : model_hides_momentum(m) ? HIDDEN_MOMENTUM : (double)o->momentum;
    const double weighted = 1 - pow(beta, (double)step), decay = adam ? 0 : (double)o->weight_decay;
    const double to_mean = !(weighted > 0) ? 0 : adam ? 1 / weighted : (1 - beta) / weighted;
    double squares = 0, size = 0;
    for (uint64_t i = 0; i < p->n; i++) {
        const double d = (double)gradient[i] + decay * (double)weights[i] - to_mean * (double)momentum[i];
        squares += d * d;
        size += fabs((double)momentum[i]);
    }
    seen->gradient_noise = adapt_noise(squares, beta, step);
    seen->mean_momentum = size / (double)p->n * (adam ? 1 / (1 - beta) : 1); /* in units of SGD's */
}

/* The cheapest levels within the budget of time. What the other level would give is guessed from the one in use. */
static comet_status choose_levels(comet_model *m)
{
    assessment *a = m->assessment;
    const uint32_t n = comet_store_n_slots(m->store);
    const double smaller = 1.5, slower = 6;
    adapt_choice *choices = calloc(n, sizeof *choices);
    if (!choices)
        return comet_fail(COMET_ERROR_MEMORY, "no memory to choose levels");
    for (comet_slot s = 0; s < n; s++) {
        comet_slot_report r;
        comet_slot_report_init(&r);
        if (comet_store_slot_report(m->store, s, &r) != COMET_OK || r.n_puts == 0 || !(r.eb > 0))
            continue;
        const double seconds = (r.seconds_put + r.seconds_take) / (double)r.n_puts;
        const bool dense = r.level == COMET_LEVEL_DENSE;
        choices[s].bytes[dense] = (double)r.bytes_held;
        choices[s].bytes[!dense] = (double)r.bytes_held * (dense ? smaller : 1 / smaller);
        choices[s].seconds[dense] = seconds;
        choices[s].seconds[!dense] = seconds * (dense ? 1 / slower : slower);
    }
    adapt_choose_levels(choices, n, m->params.compression.overhead * a->step_seconds * m->params.n_threads);
    for (comet_slot s = 0; s < n; s++)
        a->dense[s] = choices[s].dense;
    a->chosen = true;
    free(choices);
    return COMET_OK;
}

static void move_hidden_momentum(comet_model *m, const parameter *p, const float *gradient)
{
    float *momentum = m->first + p->offset;
    const float *weights = m->weights + p->offset, decay = m->params.optimiser.weight_decay;
    for (uint64_t i = 0; i < p->n; i++)
        momentum[i] = (float)HIDDEN_MOMENTUM * momentum[i] + gradient[i] + decay * weights[i];
}

void assess_gradient(comet_model *m, const op *o, uint64_t step)
{
    assessment *a = m->assessment;
    const uint32_t own[2] = {o->weight, o->bias};
    if (!a)
        return;
    if (a->due && o->consumer != NONE)
        compare_with_momentum(m, &m->parameters[o->weight], gradient_at(m, o, o->weight),
                              model_hides_momentum(m) ? a->n_updates : step, &a->seen[o->consumer]);
    for (int i = 0; i < 2 && model_hides_momentum(m); i++)
        if (own[i] != NONE)
            move_hidden_momentum(m, &m->parameters[own[i]], gradient_at(m, o, own[i]));
}

/* Values that are not finite are held exactly, but say that something is wrong. */
static void look_for_nonfinite(comet_model *m, uint64_t step)
{
    assessment *a = m->assessment;
    a->n_nonfinite = 0;
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++) {
        comet_slot_report r;
        comet_slot_report_init(&r);
        if (comet_store_slot_spec(m->store, s)->class_ < COMET_SLOT_INDEX &&
            comet_store_slot_report(m->store, s, &r) == COMET_OK)
            a->n_nonfinite += r.n_nonfinite;
    }
    if (a->n_nonfinite > 0)
        adapt_retreat(a->adapt, step);
}

static comet_status assess_now(comet_model *m, uint64_t step)
{
    assessment *a = m->assessment;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (o->consumer != NONE)
            adapt_observe(a->adapt, o->consumer, &a->seen[o->consumer]);
        if (o->pass != NONE)
            adapt_observe(a->adapt, o->pass, &a->seen[o->pass]);
    }
    for (uint32_t i = 0; i < a->n_passes; i++)
        observe_pass(m, &a->passes[i]);
    adapt_assess(a->adapt, step);
    a->n_assessments++;
    return COMET_OK;
}

/* Levels are chosen in assessments, and once more after a resume, as soon as a step has told how long it takes. */
static bool levels_are_due(const comet_model *m)
{
    const assessment *a = m->assessment;
    return m->params.compression.mode == COMET_COMPRESS_AUTO && a->n_assessments > 0 && a->step_seconds > 0 &&
           (a->due || !a->chosen);
}

comet_status assess_update(comet_model *m, uint64_t step)
{
    assessment *a = m->assessment;
    if (!a)
        return COMET_OK;
    if (a->due)
        TRY(assess_now(m, step));
    if (levels_are_due(m))
        TRY(choose_levels(m));
    if (!a->due)
        a->step_seconds = comet_now() - a->began;
    a->due = false;
    look_for_nonfinite(m, step);
    a->n_updates++;
    return COMET_OK;
}

/* Bytes held for convolution inputs, each slot once. */
static void count_held(comet_model *m)
{
    assessment *a = m->assessment;
    comet_store_totals t;
    comet_store_totals_init(&t);
    if (comet_store_totals_read(m->store, &t) == COMET_OK)
        a->held = t.held + t.spilled;
    a->conv_raw = a->conv_held = 0;
    for (uint32_t v = 1; v < m->n_values; v++) {
        const value *x = &m->values[v];
        comet_slot_report r;
        comet_slot_report_init(&r);
        if (!x->saved || x->saved_class != COMET_SLOT_CONV_INPUT ||
            comet_store_slot_report(m->store, value_slot(m, v), &r) != COMET_OK)
            continue;
        a->conv_raw += layout_bytes(x->layout);
        a->conv_held += r.bytes_held;
    }
}

/* Deviations of what was put, about zero: relu outputs are compared with their own size. The next step's bounds need them, also
 * where that is in another process: so they are kept here and not read off the store. */
static void keep_deviations(comet_model *m)
{
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++) {
        comet_slot_report r;
        comet_slot_report_init(&r);
        const bool known = comet_store_slot_report(m->store, s, &r) == COMET_OK && r.n_elements > 0;
        const double deviation = known ? sqrt(r.sum_of_squares / (double)r.n_elements) : 0;
        m->assessment->deviations[s] = isfinite(deviation) ? deviation : 0;
    }
}

void assess_loss(comet_model *m, double loss)
{
    assessment *a = m->assessment;
    if (!a)
        return;
    count_held(m);
    keep_deviations(m);
    a->due = a->due && isfinite(loss); /* there will be no gradients */
    if (!isfinite(loss) || (a->loss_mean > 0 && loss > SPIKE * a->loss_mean))
        adapt_retreat(a->adapt, m->step);
    if (isfinite(loss))
        a->loss_mean = a->loss_mean > 0 ? 0.98 * a->loss_mean + 0.02 * loss : loss;
}

/* ---- for checkpoints ---- */

/* Levels are not in it: they follow the clock, and any gives the same values. */
size_t model_state_n(const comet_model *m)
{
    return m->assessment ? N_STATE_HEAD + comet_store_n_slots(m->store) + adapt_n_numbers(m->assessment->adapt) : 0;
}

static void state_head(const comet_model *m, double head[N_STATE_HEAD])
{
    const comet_compression *c = &m->params.compression;
    const assessment *a = m->assessment;
    const double numbers[N_STATE_HEAD] = {STATE_VERSION,
                                          c->sigma > 0 ? ADAPT_SIGMA : ADAPT_NOISE,
                                          c->sigma > 0 ? c->sigma : c->noise,
                                          comet_store_n_slots(m->store),
                                          (double)a->n_assessments,
                                          (double)a->n_updates,
                                          a->loss_mean};
    memcpy(head, numbers, sizeof numbers);
}

void model_state_export(const comet_model *m, double *numbers)
{
    const assessment *a = m->assessment;
    if (!a)
        return;
    const size_t n_slots = comet_store_n_slots(m->store);
    state_head(m, numbers);
    memcpy(numbers + N_STATE_HEAD, a->deviations, n_slots * sizeof *numbers);
    adapt_export(a->adapt, numbers + N_STATE_HEAD + n_slots);
}

static bool is_size(double x)
{
    return isfinite(x) && x >= 0;
}

static bool is_count(double x)
{
    return x >= 0 && x <= EXACT_WHOLE && x == floor(x);
}

/* The first four numbers say of what the state is, and must be those of this model. */
static bool state_fits(const comet_model *m, const double *x, size_t n)
{
    double ours[N_STATE_HEAD];
    if (n == 0 || n != model_state_n(m))
        return false;
    state_head(m, ours);
    bool fits = memcmp(x, ours, 4 * sizeof *x) == 0 && is_count(x[4]) && is_count(x[5]) && is_size(x[6]);
    for (size_t i = 0; i < comet_store_n_slots(m->store); i++)
        fits = fits && is_size(x[N_STATE_HEAD + i]);
    return fits;
}

comet_status model_state_import(comet_model *m, const double *numbers, size_t n)
{
    assessment *a = m->assessment;
    if (!state_fits(m, numbers, n))
        return comet_fail(COMET_ERROR_CORRUPT, "%zu numbers are not the state of this model's bounds, which has %zu", n,
                          model_state_n(m));
    const size_t n_slots = comet_store_n_slots(m->store), n_before = N_STATE_HEAD + n_slots;
    TRY(adapt_import(a->adapt, numbers + n_before, n - n_before));
    a->n_assessments = (uint64_t)numbers[4];
    a->n_updates = (uint64_t)numbers[5];
    a->loss_mean = numbers[6];
    memcpy(a->deviations, numbers + N_STATE_HEAD, n_slots * sizeof *numbers);
    return COMET_OK;
}

comet_status model_state_restart(comet_model *m)
{
    if (!m->assessment)
        return COMET_OK;
    assess_destroy(m);
    if (model_hides_momentum(m))
        memset(m->first, 0, m->n_learnt * sizeof *m->first);
    return assess_create(m);
}

/* ---- for those who ask ---- */

void comet_compression_init(comet_compression *compression)
{
    *compression = (comet_compression){.size = sizeof *compression, .noise = 0.01, .overhead = 0.05, .window = 1000};
}

comet_compression_figures comet_model_compression(const comet_model *m)
{
    comet_compression_figures f = {
        .mode = m->params.compression.mode, .ratio = NAN, .conv_ratio = NAN, .sigma_ratio_min = NAN, .sigma_ratio_max = NAN};
    const assessment *a = m->assessment;
    const comet_memory memory = comet_model_memory(m);
    comet_store_totals t;
    comet_store_totals_init(&t);
    if (comet_store_totals_read(m->store, &t) == COMET_OK) {
        f.codec_seconds = (t.seconds_put + t.seconds_take) / m->params.n_threads;
        f.spilled_bytes = t.spilled_peak;
    }
    if (memory.saved > 0)
        f.ratio = (double)memory.saved_reference / (double)memory.saved;
    if (!a)
        return f;
    f.n_assessments = a->n_assessments;
    f.n_nonfinite = a->n_nonfinite;
    if (a->held > 0)
        f.ratio = (double)memory.saved_reference / (double)a->held;
    if (a->conv_held > 0)
        f.conv_ratio = (double)a->conv_raw / (double)a->conv_held;
    adapt_sigma_ratios(a->adapt, &f.sigma_ratio_min, &f.sigma_ratio_max);
    return f;
}

static const char *predictor_name(uint32_t predictor)
{
    static const char *const names[] = {"none", "left", "up", "lorenzo", "median", "linear"};
    return predictor < sizeof names / sizeof names[0] ? names[predictor] : "?";
}

static void fill_line(const comet_model *m, const op *o, comet_assessment_line *line)
{
    const bool norm = o->norm_slot != COMET_NO_SLOT;
    const comet_slot slot = norm ? o->norm_slot : value_slot(m, o->inputs[0]);
    const adapt_state s = adapt_consumer_state(m->assessment->adapt, o->consumer);
    comet_slot_report r;
    comet_slot_report_init(&r);
    comet_store_slot_report(m->store, slot, &r);
    *line = (comet_assessment_line){.layer = o->layer->name,
                                    .what = norm ? "bn output" : o->type->kept_as,
                                    .eb = r.eb,
                                    .nonzero = r.n_elements > 0 ? (double)r.n_nonzero / (double)r.n_elements : NAN,
                                    .sigma_target = s.sigma_target,
                                    .sigma_measured = s.sigma_measured,
                                    .level = r.level == COMET_LEVEL_DENSE ? "dense" : "fast",
                                    .predictor = predictor_name(r.predictor),
                                    .bytes_raw = r.bytes_raw,
                                    .bytes = r.bytes_held};
}

bool comet_model_assessment_line(const comet_model *m, size_t index, comet_assessment_line *line)
{
    size_t i = 0;
    for (uint32_t k = 0; m->assessment && k < m->n_ops; k++)
        if (m->ops[k].consumer != NONE && i++ == index) {
            fill_line(m, &m->ops[k], line);
            return true;
        }
    return false;
}
