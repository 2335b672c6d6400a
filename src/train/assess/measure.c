/*
 * Collects, in an assessed step, what errors do to gradients. Every convolution reports what an error of its stored input does
 * to its gradient: the gain from ||dY|| and the share of non-zeros, and for some of them, in turns, the error itself, measured
 * on a sample (sample.h).
 */
#include <math.h>

#include "base/bytes.h"
#include "train/assess/assess.h"
#include "train/assess/sample.h"
#include "train/math/channel_sums.h"
#include "train/math/reduce.h"
#include "train/ops/folded.h"

comet_status measure_begin(comet_model *m)
{
    const assessment *a = m->assessment;
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (sampler_of(m, &m->ops[i]))
            sampler_of(m, &m->ops[i])->x = NULL;
    /* Not in the first assessment, when bounds are far from what they will be and coded tensors take the most memory. */
    const bool samples = a->due && adapt_n_assessed(a->adapt) > 0 && memory_sample_bytes(m) > 0;
    return samples == (m->samples.room != NULL) ? COMET_OK : memory_share_region(m, samples);
}

/* Each turn of a convolution takes the next channels. */
void measure_input(void *self, comet_model *m, const op *o)
{
    const assessment *a = self;
    const sampler *s = sampler_of(m, o);
    if (!a->due || !m->samples.room || !s || a->ops[o->index].consumer == NONE ||
        s->turn != a->n_collected % m->samples.n_turns)
        return;
    sample_keep(m, o, a->n_collected / m->samples.n_turns, m->samples.room);
}

static bool is_sampled(const comet_model *m, const op *o)
{
    const sampler *s = sampler_of(m, o);
    return s && s->x;
}

static void *work_of(const comet_model *m, const op *o)
{
    return arena_at(&m->arena, o->buffers.sample_work);
}

/* The share of pairs of a tap and an output position along side d that lie on the image, not on its padding. */
static double share_on_image(const comet_layer *l, int d, uint64_t in, uint64_t out)
{
    uint64_t n = 0;
    for (uint64_t p = 0; p < out; p++)
        for (uint64_t k = 0; k < l->kernel[d]; k++) {
            const uint64_t at = p * l->stride[d] + k * l->dilation[d];
            n += at >= l->padding[d] && at - l->padding[d] < in;
        }
    return (double)n / (double)(out * l->kernel[d]);
}

/* The mean number of inputs that a weight's gradient sums up for each output position. */
static double taps_on_image(const comet_model *m, const op *o)
{
    const parameter *p = &m->parameters[o->weight];
    uint64_t in[5], out[5];
    double taps = 1;
    for (uint32_t i = 1; i < p->n_dims; i++)
        taps *= (double)p->dims[i];
    if (o->layer->op != COMET_OP_CONV)
        return taps;
    layout_dims(input_layout(m, o), in);
    layout_dims(m->values[o->output].layout, out);
    return taps * share_on_image(o->layer, 0, in[2], out[2]) * share_on_image(o->layer, 1, in[3], out[3]);
}

/* The gain of a weighted op over the first n_images: taps of a weight's input, times share of non-zeros, times ||dY||^2. */
static double weighted_gain(const comet_model *m, const op *o, uint32_t n_images, double nonzero)
{
    const double energy = sum_of_squares(layout_type(m->values[o->output].layout), n_images * image_elements(m, o->output),
                                         arena_at(&m->arena, o->buffers.diff));
    return taps_on_image(m, o) * nonzero / 3 * energy;
}

/* Elements of an input without the padding of its blocks. */
static double real_elements(const comet_model *m, const op *o)
{
    uint64_t dims[5];
    const uint32_t n_dims = layout_dims(m->values[o->inputs[0]].layout, dims);
    double elements = 1;
    for (uint32_t i = 0; i < n_dims; i++)
        elements *= (double)dims[i];
    return elements;
}

/* The sum of squares of the error that the sample made. */
static comet_status measure(comet_model *m, const op *o, double *squares)
{
    const float *gradient;
    uint64_t n;
    TRY(sample_gradient(m, o, work_of(m, o), &gradient, &n));
    *squares = sum_of_squares(COMET_DTYPE_F32, n, gradient);
    return COMET_OK;
}

/* Measured over predicted for the sample; NaN where there is none, or it was stored exactly. */
static comet_status compare_weighted(comet_model *m, const op *o, double eb, double *quotient)
{
    const sampler *s = sampler_of(m, o);
    double squares;
    *quotient = NAN;
    if (!is_sampled(m, o))
        return COMET_OK;
    TRY(measure(m, o, &squares));
    const double predicted = weighted_gain(m, o, s->n_images, sample_nonzero(m, o)) * eb * eb / (double)s->n_choices;
    if (predicted > 0)
        *quotient = squares / predicted;
    return COMET_OK;
}

/* In the part of o's input that was taken. */
static uint64_t count_nonzero_of_part(const comet_model *m, const op *o)
{
    const uint64_t n = m->params.batch / o->n_parts * image_elements(m, o->inputs[0]);
    return count_nonzero(layout_type(input_layout(m, o)), n, value_data_backward(m, o->inputs[0]));
}

comet_status measure_part(void *self, comet_model *m, const op *o, uint32_t part)
{
    assessment *a = self;
    const uint32_t consumer = a->ops[o->index].consumer;
    if (!a->due || consumer == NONE)
        return COMET_OK;
    a->n_nonzero = count_nonzero_of_part(m, o) + (part > 0 ? a->n_nonzero : 0);
    if (is_sampled(m, o))
        sample_compare(m, o, part, work_of(m, o));
    if (part + 1 < o->n_parts)
        return COMET_OK;
    const double eb = slot_eb(m, value_slot(m, o->inputs[0]));
    const double gain = weighted_gain(m, o, m->params.batch, (double)a->n_nonzero / real_elements(m, o)) * m->params.accumulate;
    double quotient;
    TRY(compare_weighted(m, o, eb, &quotient));
    a->seen[consumer] = (adapt_observation){.gain = gain, .measured = quotient * gain * eb * eb, .eb = eb};
    return COMET_OK;
}

/* The error's share of the energy of the gradient that is passed on, for a bound of 1; NaN where that gradient is zero although
 * there is an error, or not finite. */
static double share_of_energy(double harmful, const norm_harm *harm)
{
    return harm->energy > 0 ? harmful / harm->energy / 3 : harmful == 0 ? 0 : NAN;
}

static void observe_norm(comet_model *m, const op *o, const norm_harm *harm, double eb)
{
    adapt_observation *seen = m->assessment->seen;
    const op_bounds *b = &m->assessment->ops[o->index];
    if (b->consumer != NONE)
        seen[b->consumer] = (adapt_observation){.gain = harm->scale / 3 * m->params.accumulate, .measured = NAN, .eb = eb};
    if (b->pass != NONE)
        seen[b->pass] = (adapt_observation){.gain = share_of_energy(harm->passed, harm), .measured = NAN, .eb = eb};
}

void measure_norm(void *self, comet_model *m, const op *o, const norm_harm *harm)
{
    assessment *a = self;
    if (!a->due)
        return;
    observe_norm(m, o, harm, slot_eb(m, o->own.slot));
    a->cut_gains[o->own.slot] = share_of_energy(harm->cut, harm);
}

/* ---- a batch norm folded into its convolution ---- */

comet_status measure_folded_part(void *self, comet_model *m, const op *o, uint32_t part)
{
    assessment *a = self;
    if (!a->due || a->ops[o->index].consumer == NONE)
        return COMET_OK;
    a->n_nonzero = count_nonzero_of_part(m, o) + (part > 0 ? a->n_nonzero : 0);
    if (is_sampled(m, o))
        sample_compare(m, o, part, work_of(m, o));
    return COMET_OK;
}

/* ||g (dy - mean)||^2 over the sample's images: the gradient that errors of the input are multiplied by, without the small part
 * of xhat. */
static comet_status sample_energy(const comet_model *m, const op *o, double *energy)
{
    const folded *f = folded_of(o);
    const norm_shape *shape = &batch_norm_of(&m->ops[o->folds])->shape;
    const float *gain = folded_at(m, o, FOLDED_GAIN);
    double *sums = folded_sums_at(m, o, FOLDED_PART_SUMS);
    const channel_sums_spec spec = {.shape = shape,
                                    .n = shape->n_elements / m->params.batch * sampler_of(m, o)->n_images,
                                    .shift = folded_at(m, o, FOLDED_MEAN)};
    TRY(channel_sums_of(&spec, arena_at(&m->arena, o->buffers.diff), m->params.n_threads, folded_at(m, o, FOLDED_SCRATCH),
                        sums));
    *energy = 0;
    for (uint64_t c = 0; c < f->out; c++)
        *energy += (double)gain[c] * (double)gain[c] * sums[f->out + c];
    return COMET_OK;
}

/* The sum of squares of the error that the sample made: of g (Q - mean(dy) S^T). */
static comet_status folded_error(comet_model *m, const op *o, double *squares)
{
    const sampler *s = sampler_of(m, o);
    const float *gain = folded_at(m, o, FOLDED_GAIN), *mean = folded_at(m, o, FOLDED_MEAN), *products;
    double *sums = folded_sums_at(m, o, FOLDED_PART_SUMS);
    const norm_shape shape = norm_shape_of(kernel_layout(s->gradient, ARG_SRC), false);
    const channel_sums_spec spec = {.shape = &shape, .n = shape.n_elements};
    uint64_t n;
    TRY(sample_gradient(m, o, work_of(m, o), &products, &n));
    TRY(channel_sums_of(&spec, work_of(m, o), m->params.n_threads, folded_at(m, o, FOLDED_SCRATCH), sums));
    *squares = 0;
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t c = k / s->channels, i = k % s->channels;
        const double e = (double)gain[c] * ((double)products[k] - (double)mean[c] * sums[i]);
        *squares += e * e;
    }
    return COMET_OK;
}

/* Measured over predicted, as above. */
static comet_status compare_folded(comet_model *m, const op *o, double eb, double *quotient)
{
    double energy, squares;
    *quotient = NAN;
    if (!is_sampled(m, o))
        return COMET_OK;
    TRY(sample_energy(m, o, &energy));
    TRY(folded_error(m, o, &squares));
    const double predicted = (double)sampler_of(m, o)->channels * sample_nonzero(m, o) / 3 * energy * eb * eb;
    if (predicted > 0)
        *quotient = squares / predicted;
    return COMET_OK;
}

/* What an error of the input does to the batch norm: the variance of xhat's error is the input error's times (row of W)^2 r^2.
 * *centred: ||g (dy - mean)||^2. */
static norm_harm folded_harm(const comet_model *m, const op *o, double nonzero, double *centred)
{
    const folded *f = folded_of(o);
    const op *norm = &m->ops[o->folds];
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
        harm.passed += (f->count * g_s * g_s + g * g * centred_squares / (f->count * norm_ranks(m))) * variance;
        harm.energy += g * g * centred_squares - f->count * g_s * g_s;
        *centred += g * g * centred_squares;
    }
    return harm;
}

comet_status measure_folded(void *self, comet_model *m, const op *o)
{
    assessment *a = self;
    const folded *f = folded_of(o);
    const op *norm = &m->ops[o->folds];
    const uint32_t consumer = a->ops[o->index].consumer;
    if (!a->due || consumer == NONE || a->ops[norm->index].consumer == NONE)
        return COMET_OK;
    const double eb = slot_eb(m, value_slot(m, o->inputs[0])), nonzero = (double)a->n_nonzero / (f->count * (double)f->in);
    double quotient, centred;
    TRY(compare_folded(m, o, eb, &quotient));
    const norm_harm harm = folded_harm(m, o, nonzero, &centred);
    const double gain = (double)f->in * nonzero / 3 * centred * m->params.accumulate;
    a->seen[consumer] = (adapt_observation){.gain = gain, .measured = quotient * gain * eb * eb, .eb = eb};
    observe_norm(m, norm, &harm, eb);
    return COMET_OK;
}
