/*
 * What errors do to gradients, collected in an assessing step. Every convolution tells what an error of its stored input does
 * to its gradient: the gain from ||dY|| and the share of non-zeros, and for some of them in turn the error itself: of the first
 * images the input is kept as it was, and since the gradient is linear in the input, the gradient of (stored - original) of
 * these images, zero elsewhere, is the error they made.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "train/channel_sums.h"
#include "train/model_assess.h"
#include "train/model_folded.h"

#define SAMPLE_BYTES ((uint64_t)384 << 10) /* of one convolution's sample, but at least an image */
#define SAMPLE_IMAGES 32
#define MEASURED_BYTES ((uint64_t)8 << 20) /* of samples in one assessment */

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
    const uint64_t turns = max_u64(1, (all + MEASURED_BYTES - 1) / MEASURED_BYTES);
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
    const uint32_t n_images = sample_images(m, o);
    *seen = (adapt_observation){.measured = NAN, .eb = slot_eb(m, value_slot(m, o->inputs[0]))};
    if (!o->sample)
        return COMET_OK;
    const uint64_t n_nonzero = count_nonzero(n_images * image_floats(m, o->inputs[0]), m->values[o->inputs[0]].taken);
    const double predicted = weighted_gain(m, o, n_images, n_nonzero) * seen->eb * seen->eb;
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
    seen->gain = weighted_gain(m, o, m->params.batch, a->n_nonzero) * m->params.accumulate;
    seen->measured *= seen->gain * seen->eb * seen->eb;
    return COMET_OK;
}

void assess_norm(comet_model *m, const op *o, const norm_harm *harm)
{
    const double eb = slot_eb(m, o->norm_slot);
    m->assessment->seen[o->consumer] =
        (adapt_observation){.gain = harm->scale / 3 * m->params.accumulate, .measured = NAN, .eb = eb};
    m->assessment->seen[o->pass] =
        (adapt_observation){.gain = harm->energy > 0 ? harm->passed / harm->energy / 3 : 0, .measured = NAN, .eb = eb};
    m->assessment->cut_gains[o->norm_slot] = harm->energy > 0 ? harm->cut / harm->energy / 3 : 0;
}

/* ---- a batch norm folded into its convolution ---- */

void assess_folded_part(comet_model *m, op *o, uint32_t part)
{
    if (!assess_is_due(m) || o->consumer == NONE)
        return;
    const uint64_t n = m->params.batch / o->n_parts * image_floats(m, o->inputs[0]);
    o->folded->n_nonzero = count_nonzero(n, m->values[o->inputs[0]].taken) + (part > 0 ? o->folded->n_nonzero : 0);
}

/* Sums of the first images of a tensor of o, its input or the gradient of its output, to FOLDED_PART_SUMS. */
static comet_status sum_sample(const comet_model *m, const op *o, const norm_shape *shape, const float *x, const float *shift)
{
    const channel_sums_spec spec = {.shape = shape,
                                    .x = x,
                                    .n = shape->n_elements / m->params.batch * sample_images(m, o),
                                    .shift = shift,
                                    .n_threads = m->params.n_threads};
    return channel_sums(&spec, folded_sums_at(m, o, FOLDED_PART_SUMS), folded_at(m, o, FOLDED_SCRATCH));
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
    const uint64_t n = sample_images(m, o) * image_floats(m, o->inputs[0]);
    if (o->n_parts > 1)
        TRY(saved_take_input(m, o, (saved_part){0, o->n_parts}));
    const double share = (double)count_nonzero(n, m->values[o->inputs[0]].taken) / (double)n;
    TRY(sample_energy(m, o, &energy));
    TRY(measure_folded(m, o, &squares));
    const double predicted = (double)o->folded->in * share / 3 * energy * eb * eb;
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
        const double r = 1 / sqrt((double)m->statistics[norm->batch_variance + c] + (double)norm->layer->eps);
        const double g = (double)gain[c], g_s = (double)slope[c] / r;
        const double own = g * g * fmax(all[c] - f->count * (double)mean[c] * (double)mean[c], 0);
        double squares = 0;
        for (uint64_t i = 0; i < f->in; i++)
            squares += (double)weights[c * f->in + i] * (double)weights[c * f->in + i];
        const double variance = squares * nonzero * r * r;
        harm.scale += all[c] * variance;
        harm.passed += (f->count * g_s * g_s + g * g * all[c] / f->count) * variance;
        harm.energy += own - f->count * g_s * g_s;
        *centred += own;
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
    seen[norm->consumer] = (adapt_observation){.gain = harm.scale / 3 * m->params.accumulate, .measured = NAN, .eb = eb};
    seen[norm->pass] =
        (adapt_observation){.gain = harm.energy > 0 ? harm.passed / harm.energy / 3 : 0, .measured = NAN, .eb = eb};
    return COMET_OK;
}
