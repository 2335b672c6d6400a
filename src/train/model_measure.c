/*
 * What errors do to gradients, collected in an assessing step. Every convolution tells what an error of its stored input does
 * to its gradient: the gain from ||dY|| and the share of non-zeros, and for some of them in turn the error itself: a few
 * channels of the first images are kept as they were, and since the gradient is linear in the input, the gradient of (stored -
 * original) of this sample, zero elsewhere, is the error it made. Images differ more than channels do, so that many images with
 * few channels tell most.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "train/channel_sums.h"
#include "train/model_assess.h"
#include "train/model_folded.h"
#include "train/reduce.h"

#define SAMPLE_BYTES ((uint64_t)2 << 20) /* of one convolution's sample, but at least one image's */
#define SAMPLE_IMAGES 16
#define SAMPLE_CHANNELS 16
#define MEASURED_BYTES ((uint64_t)12 << 20) /* of samples in one assessment */

static uint64_t image_floats(const comet_model *m, uint32_t v)
{
    return layout_bytes(m->values[v].layout) / sizeof(float) / m->params.batch;
}

static bool is_measured(const comet_model *m, const op *o)
{
    return assess_is_due(m) && o->consumer != NONE && o->layer->op == COMET_OP_CONV;
}

/* Which part of a convolution's input is kept: of the first images, a run of floats that is some of its channels. */
typedef struct sample_spec {
    uint32_t n_images;
    uint64_t first, n; /* floats within an image */
    uint64_t channels;
} sample_spec;

/* Channels that follow one another lie together in planes and blocks, some of which make a sample: the `turn`th ones. All of
 * them where they do not, or where not all meet the same weights. */
static sample_spec sample_in_turn(const comet_model *m, const op *o, uint64_t turn)
{
    const layout *l = m->values[o->inputs[0]].layout;
    uint64_t dims[5] = {0}, block = 1;
    const layout_order order = layout_describe(l, &block);
    const uint64_t image = image_floats(m, o->inputs[0]);
    layout_dims(l, dims);
    sample_spec s = {.n = image, .channels = dims[1]};
    if ((order == ORDER_PLANAR || order == ORDER_BLOCKED) && o->layer->groups == 1 && dims[1] % SAMPLE_CHANNELS == 0) {
        const uint64_t n_choices = dims[1] / SAMPLE_CHANNELS;
        s.channels = SAMPLE_CHANNELS;
        s.n = image / n_choices;
        s.first = turn % n_choices * s.n;
    }
    const uint64_t n_images = max_u64(SAMPLE_BYTES / (s.n * sizeof(float)), 1);
    s.n_images = (uint32_t)min_u64(m->params.batch / o->n_parts, min_u64(SAMPLE_IMAGES, n_images));
    return s;
}

static uint64_t input_channels(const comet_model *m, const op *o)
{
    uint64_t dims[5] = {0};
    layout_dims(m->values[o->inputs[0]].layout, dims);
    return dims[1];
}

static uint64_t sample_bytes(const comet_model *m, const op *o)
{
    const sample_spec s = sample_in_turn(m, o, 0);
    return s.n_images * s.n * sizeof(float);
}

/* Steps until each convolution was measured, as many at once as MEASURED_BYTES allow. */
static uint64_t count_turns(const comet_model *m)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < m->n_ops; i++)
        all += is_measured(m, &m->ops[i]) ? sample_bytes(m, &m->ops[i]) : 0;
    return max_u64(1, (all + MEASURED_BYTES - 1) / MEASURED_BYTES);
}

/* Each turn of a convolution takes the next channels. */
static sample_spec sample_of(const comet_model *m, const op *o)
{
    return sample_in_turn(m, o, m->assessment->n_collected / count_turns(m));
}

/* Samples of the turn that has most, and the gradient of the layer at hand. */
uint64_t assess_bytes(const comet_model *m)
{
    uint64_t before = 0, turn = 0, most = 0, largest = 0;
    for (uint32_t i = 0; model_is_lossy(m) && i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (o->layer->op != COMET_OP_CONV || o->n_parts == 0 || !slot_may_be_lossy(m, value_slot(m, o->inputs[0])))
            continue;
        const uint64_t bytes = sample_bytes(m, o);
        turn += bytes;
        most = max_u64(most, turn);
        if (before / MEASURED_BYTES != (before + bytes) / MEASURED_BYTES) /* the next to begin has another turn */
            turn = 0;
        before += bytes;
        largest = max_u64(largest, op_gradient_bytes(m, o));
    }
    return most + largest;
}

/* Not in the first assessment, when bounds are far from what they will be and coded tensors take the most memory. */
static bool has_turn(const comet_model *m, const op *o)
{
    const uint64_t turns = count_turns(m);
    uint64_t before = 0;
    if (m->assessment->n_assessments == 0)
        return false;
    for (uint32_t i = 0; i < o->index; i++)
        before += is_measured(m, &m->ops[i]) ? sample_bytes(m, &m->ops[i]) : 0;
    return before / MEASURED_BYTES % turns == m->assessment->n_collected % turns;
}

comet_status assess_before(comet_model *m, op *o)
{
    if (!is_measured(m, o) || !has_turn(m, o))
        return COMET_OK;
    free(o->sample);
    o->sample = malloc(sample_bytes(m, o));
    if (!o->sample)
        return comet_fail(COMET_ERROR_MEMORY, "%s: no memory to measure its error", o->layer->name);
    const sample_spec s = sample_of(m, o);
    const float *x = value_data(m, o->inputs[0]);
    for (uint32_t i = 0; i < s.n_images; i++)
        memcpy(o->sample + i * s.n, x + i * image_floats(m, o->inputs[0]) + s.first, s.n * sizeof *x);
    return COMET_OK;
}

/* The share of non-zeros in what is sampled, as it was decoded. */
static double sample_nonzero(const comet_model *m, const op *o, const sample_spec *s)
{
    const float *x = m->values[o->inputs[0]].taken;
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->n_images; i++)
        count += count_nonzero(s->n, x + i * image_floats(m, o->inputs[0]) + s->first);
    return (double)count / ((double)s->n * s->n_images);
}

/* The gain of a weighted op over the first n_images: taps of a weight's input, times share of non-zeros, times ||dY||^2. */
static double weighted_gain(const comet_model *m, const op *o, uint32_t n_images, double nonzero)
{
    const parameter *p = &m->parameters[o->weight];
    uint64_t taps = 1;
    for (uint32_t i = 1; i < p->n_dims; i++)
        taps *= p->dims[i];
    return (double)taps * nonzero / 3 * sum_of_squares(n_images * image_floats(m, o->output), arena_at(&m->arena, o->diff));
}

/* Elements of an input without what fills up its blocks. */
static double real_elements(const comet_model *m, const op *o)
{
    uint64_t dims[5];
    const uint32_t n_dims = layout_dims(m->values[o->inputs[0]].layout, dims);
    double elements = 1;
    for (uint32_t i = 0; i < n_dims; i++)
        elements *= (double)dims[i];
    return elements;
}

/* The error of the sample, and zeros for all else of the first part. */
static void leave_error(comet_model *m, op *o)
{
    const sample_spec s = sample_of(m, o);
    const uint64_t image = image_floats(m, o->inputs[0]), behind = s.first + s.n;
    float *x = m->values[o->inputs[0]].taken;
    for (uint32_t i = 0; i < s.n_images; i++, x += image) {
        memset(x, 0, s.first * sizeof *x);
        for (uint64_t k = 0; k < s.n; k++)
            x[s.first + k] -= o->sample[i * s.n + k];
        memset(x + behind, 0, (image - behind) * sizeof *x);
    }
    memset(x, 0, (m->params.batch / o->n_parts - s.n_images) * image * sizeof *x);
    free(o->sample);
    o->sample = NULL;
}

/* The sum of squares of the error that the sample made. Kernels count on aligned memory. */
static comet_status measure(comet_model *m, op *o, double *squares)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    const size_t bytes = op_gradient_bytes(m, o), bias_bytes = o->bias == NONE ? 0 : m->parameters[o->bias].n * sizeof(float);
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
    const sample_spec s = sample_of(m, o);
    *seen = (adapt_observation){.measured = NAN, .eb = slot_eb(m, value_slot(m, o->inputs[0]))};
    if (!o->sample)
        return COMET_OK;
    const double predicted = weighted_gain(m, o, s.n_images, sample_nonzero(m, o, &s)) * seen->eb * seen->eb *
                             (double)s.channels / (double)input_channels(m, o);
    double squares = 0;
    TRY(measure(m, o, &squares));
    if (predicted > 0) /* not where it was stored exactly */
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
    seen->gain = weighted_gain(m, o, m->params.batch, (double)a->n_nonzero / real_elements(m, o)) * m->params.accumulate;
    seen->measured *= seen->gain * seen->eb * seen->eb;
    return COMET_OK;
}

/* Of the gradient passed on, for an error of bound 1; NaN where something is let into a gradient that is nothing, or not
 * finite. */
static double share_of_energy(double harmful, const norm_harm *harm)
{
    return harm->energy > 0 ? harmful / harm->energy / 3 : harmful == 0 ? 0 : NAN;
}

static void observe_norm(comet_model *m, const op *o, const norm_harm *harm, double eb)
{
    adapt_observation *seen = m->assessment->seen;
    seen[o->consumer] = (adapt_observation){.gain = harm->scale / 3 * m->params.accumulate, .measured = NAN, .eb = eb};
    seen[o->pass] = (adapt_observation){.gain = share_of_energy(harm->passed, harm), .measured = NAN, .eb = eb};
}

void assess_norm(comet_model *m, const op *o, const norm_harm *harm)
{
    observe_norm(m, o, harm, slot_eb(m, o->norm_slot));
    m->assessment->cut_gains[o->norm_slot] = share_of_energy(harm->cut, harm);
}

/* ---- a batch norm folded into its convolution ---- */

void assess_folded_part(comet_model *m, op *o, uint32_t part)
{
    if (!assess_is_due(m) || o->consumer == NONE)
        return;
    const uint64_t n = m->params.batch / o->n_parts * image_floats(m, o->inputs[0]);
    o->folded->n_nonzero = count_nonzero(n, m->values[o->inputs[0]].taken) + (part > 0 ? o->folded->n_nonzero : 0);
}

/* Sums of the sample's images of a tensor of o, its input or the gradient of its output, to FOLDED_PART_SUMS. */
static comet_status sum_sample(const comet_model *m, const op *o, const norm_shape *shape, const float *x, const float *shift)
{
    const channel_sums_spec spec = {
        .shape = shape, .n = shape->n_elements / m->params.batch * sample_of(m, o).n_images, .shift = shift};
    return channel_sums_of(&spec, x, m->params.n_threads, folded_at(m, o, FOLDED_SCRATCH),
                           folded_sums_at(m, o, FOLDED_PART_SUMS));
}

/* ||g (dy - mean)||^2 over the sample: what meets errors of the input, but for the small part that xhat takes. */
static comet_status sample_energy(const comet_model *m, const op *o, double *energy)
{
    const folded *f = o->folded;
    const float *gain = folded_at(m, o, FOLDED_GAIN);
    const double *squares = folded_sums_at(m, o, FOLDED_PART_SUMS) + f->out;
    TRY(sum_sample(m, o, &m->ops[f->norm].norm, arena_at(&m->arena, o->diff), folded_at(m, o, FOLDED_MEAN)));
    *energy = 0;
    for (uint64_t c = 0; c < f->out; c++)
        *energy += (double)gain[c] * (double)gain[c] * squares[c];
    return COMET_OK;
}

/* The sum of squares of the error that the sample made: of g (Q - mean(dy) S^T). */
static comet_status measure_folded(comet_model *m, op *o, double *squares)
{
    const folded *f = o->folded;
    const float *gain = folded_at(m, o, FOLDED_GAIN), *mean = folded_at(m, o, FOLDED_MEAN);
    const float *error = folded_at(m, o, FOLDED_OTHER);
    const double *inputs = folded_sums_at(m, o, FOLDED_PART_SUMS);
    leave_error(m, o);
    TRY(folded_products_of_first(m, o));
    TRY(sum_sample(m, o, &f->input, m->values[o->inputs[0]].taken, NULL));
    *squares = 0;
    for (uint64_t c = 0; c < f->out; c++)
        for (uint64_t i = 0; i < f->in; i++) {
            const double e = (double)gain[c] * ((double)error[c * f->in + i] - (double)mean[c] * inputs[i]);
            *squares += e * e;
        }
    return COMET_OK;
}

/* Measured over predicted for the sample; NaN where there is none. */
static comet_status compare_sample(comet_model *m, op *o, double eb, double *quotient)
{
    double energy, squares;
    *quotient = NAN;
    if (!o->sample)
        return COMET_OK;
    const sample_spec s = sample_of(m, o);
    if (o->n_parts > 1)
        TRY(saved_take_input(m, o, (saved_part){0, o->n_parts}));
    const double nonzero = sample_nonzero(m, o, &s);
    TRY(sample_energy(m, o, &energy));
    TRY(measure_folded(m, o, &squares));
    const double predicted = (double)s.channels * nonzero / 3 * energy * eb * eb;
    if (predicted > 0)
        *quotient = squares / predicted;
    return COMET_OK;
}

/* What an error of the input does to the batch norm: its variance is that of xhat's error by (row of W)^2 r^2. *centred:
 * ||g (dy - mean)||^2. */
static norm_harm folded_harm(const comet_model *m, const op *o, double nonzero, double *centred)
{
    const folded *f = o->folded;
    const op *norm = &m->ops[f->norm];
    const float *weights = folded_at(m, o, FOLDED_WEIGHTS), *gain = folded_at(m, o, FOLDED_GAIN);
    const float *slope = folded_at(m, o, FOLDED_SLOPE), *mean = folded_at(m, o, FOLDED_MEAN);
    const double *all = folded_sums_at(m, o, FOLDED_DIFF_SUMS) + f->out;
    norm_harm harm = {0};
    *centred = 0;
    for (uint64_t c = 0; c < f->out; c++) {
        const double r = inverse_deviation(m, norm, c);
        const double g = (double)gain[c], g_s = (double)slope[c] / r;
        const double centred_squares = fmax(all[c] - f->count * (double)mean[c] * (double)mean[c], 0);
        double squares = 0;
        for (uint64_t i = 0; i < f->in; i++)
            squares += (double)weights[c * f->in + i] * (double)weights[c * f->in + i];
        const double variance = squares * nonzero * r * r;
        harm.scale += centred_squares * variance;
        harm.passed += (f->count * g_s * g_s + g * g * centred_squares / f->count) * variance;
        harm.energy += g * g * centred_squares - f->count * g_s * g_s;
        *centred += g * g * centred_squares;
    }
    return harm;
}

comet_status assess_folded(comet_model *m, op *o)
{
    const folded *f = o->folded;
    const op *norm = &m->ops[f->norm];
    if (!assess_is_due(m) || o->consumer == NONE || norm->consumer == NONE)
        return COMET_OK;
    adapt_observation *seen = m->assessment->seen;
    const double eb = slot_eb(m, value_slot(m, o->inputs[0])), nonzero = (double)f->n_nonzero / (f->count * (double)f->in);
    double quotient, centred;
    TRY(compare_sample(m, o, eb, &quotient));
    const norm_harm harm = folded_harm(m, o, nonzero, &centred);
    const double gain = (double)f->in * nonzero / 3 * centred * m->params.accumulate;
    seen[o->consumer] = (adapt_observation){.gain = gain, .measured = quotient * gain * eb * eb, .eb = eb};
    observe_norm(m, norm, &harm, eb);
    return COMET_OK;
}
