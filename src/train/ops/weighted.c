/*
 * Convolution and linear layers while they run. Backward takes the batch in parts, so that a coded input is never whole in
 * memory. weighted_prepare.c makes their kernels.
 *
 * A layer whose weight is frozen stores no input: the gradient that it passes on needs the weight alone, and that of its bias,
 * if it is trained, is a sum over the gradient of its output.
 */
#include "base/bytes.h"
#include "train/backend/accumulate.h"
#include "train/math/channel_sums.h"
#include "train/math/depthwise.h"
#include "train/memory/memory.h"
#include "train/ops/ops.h"

/* ---- running ---- */

/* A copy of o's weights as a kernel needs them; without `reorder` they lie so already. */
static comet_status copy_weights(const comet_model *m, const op *o, kernel *reorder, buffer_id copy, buffer_id scratch,
                                 void **weights)
{
    *weights = learnt(m, m->weights, o->weight);
    if (!reorder)
        return COMET_OK;
    const kernel_args move = {
        .at = {[ARG_SRC] = *weights, [ARG_DST] = arena_at(&m->arena, copy), [ARG_SCRATCH] = arena_at(&m->arena, scratch)}};
    *weights = move.at[ARG_DST];
    return kernel_run(reorder, &move);
}

comet_status weighted_forward(comet_model *m, op *o, run_mode mode)
{
    void *weights;
    if (mode == RUN_TRAIN)
        tell_input_read(m, o);
    TRY(copy_weights(m, o, weighted_of(o)->forward_reorder, o->buffers.forward_weights, o->buffers.scratch_forward, &weights));
    const kernel_args args = {.at = {[ARG_SRC] = value_data(m, o->inputs[0]),
                                     [ARG_WEIGHTS] = weights,
                                     [ARG_BIAS] = learnt(m, m->weights, o->bias),
                                     [ARG_DST] = value_data(m, o->output),
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_forward)}};
    return kernel_run(o->forward, &args);
}

void depthwise_gradient(const comet_model *m, const op *o, uint64_t n_images, const void *x, const void *diff, float *gradient)
{
    const comet_layer *l = o->layer;
    depthwise_spec d = {.type = layout_type(input_layout(m, o)), .batch = n_images};
    uint64_t in[5], out[5];
    layout_dims(input_layout(m, o), in);
    layout_dims(m->values[o->output].layout, out);
    layout_describe(input_layout(m, o), &d.block);
    d.n_blocks = (in[1] + d.block - 1) / d.block;
    for (int i = 0; i < 2; i++) {
        d.in[i] = in[2 + i];
        d.out[i] = out[2 + i];
        d.kernel[i] = l->kernel[i];
        d.stride[i] = l->stride[i];
        d.padding[i] = l->padding[i];
        d.dilation[i] = l->dilation[i];
    }
    depthwise_backward_weights(&d, x, diff, gradient);
}

comet_status weighted_part_of_weights(comet_model *m, op *o, uint32_t part, float *weight, float *bias)
{
    void *diff = part_of(m, o, o->output, arena_at(&m->arena, o->buffers.diff), part);
    if (weighted_of(o)->own_depthwise) {
        depthwise_gradient(m, o, m->params.batch / o->n_parts, value_data_backward(m, o->inputs[0]), diff, weight);
        return COMET_OK;
    }
    const kernel_args args = {.at = {[ARG_SRC] = value_data_backward(m, o->inputs[0]),
                                     [ARG_DIFF_WEIGHTS] = weight,
                                     [ARG_DIFF_BIAS] = bias,
                                     [ARG_DIFF_DST] = diff,
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_weights)}};
    return kernel_run(o->backward_weights, &args);
}

uint64_t weighted_gradient_bytes(const comet_model *m, const op *o)
{
    const layout *l = o->backward_weights ? kernel_layout(o->backward_weights, ARG_DIFF_WEIGHTS) : NULL;
    return layout_bytes(l ? l : m->parameters[o->weight].layout);
}

static uint64_t part_gradient_bytes(const comet_model *m, const op *o)
{
    const uint64_t weight = padded_floats(weighted_gradient_bytes(m, o) / sizeof(float));
    return (weight + (is_trained(m, o->bias) ? m->parameters[o->bias].n : 0)) * sizeof(float);
}

/* ---- memory ---- */

/* Is the bias trained, but not the weight? */
static bool learns_bias_alone(const comet_model *m, const op *o)
{
    return !is_trained(m, o->weight) && is_trained(m, o->bias);
}

/* How the gradient of the output lies, summed by channel. */
static norm_shape output_shape(const comet_model *m, const op *o)
{
    return norm_shape_of(m->values[o->output].layout, false);
}

/* The sums of squares are made, too. */
static uint64_t bias_sums_bytes(const norm_shape *s)
{
    return padded_floats(4 * s->channels) * sizeof(float);
}

static uint64_t bias_scratch_bytes(const comet_model *m, const op *o)
{
    const norm_shape s = output_shape(m, o);
    const channel_sums_spec spec = {.shape = &s, .n = s.n_elements};
    return learns_bias_alone(m, o) ? bias_sums_bytes(&s) + channel_sums_bytes(&spec) : 0;
}

uint64_t weighted_scratch_bytes(const comet_model *m, const op *o, op_phase phase)
{
    const weighted *w = weighted_of(o);
    const kernel *k = phase == PHASE_WEIGHTS   ? w->gradient_reorder
                      : phase == PHASE_DATA    ? w->weights_reorder
                      : phase == PHASE_FORWARD ? w->forward_reorder
                                               : NULL;
    const uint64_t reorder = k ? kernel_scratch_bytes(k) : 0;
    switch (phase) {
    case PHASE_FORWARD: return max_u64(reorder, w->choice_bytes[PASS_FORWARD]);
    case PHASE_WEIGHTS: return max_u64(bias_scratch_bytes(m, o), max_u64(reorder, w->choice_bytes[PASS_BACKWARD_WEIGHTS]));
    case PHASE_DATA: return max_u64(reorder, w->choice_bytes[PASS_BACKWARD_DATA]);
    default: return reorder;
    }
}

comet_status weighted_declare_forward(comet_model *m, op *o)
{
    const kernel *reorder = weighted_of(o)->forward_reorder;
    return reorder
               ? arena_declare(&m->arena, layout_bytes(kernel_layout(reorder, ARG_DST)), o->index, &o->buffers.forward_weights)
               : COMET_OK;
}

comet_status weighted_declare_backward(comet_model *m, op *o, uint32_t weights, uint32_t data)
{
    const weighted *w = weighted_of(o);
    const bool adds = m->params.accumulate > 1 && is_trained(m, o->weight);
    if (w->weights_reorder || (adds && w->gradient_reorder)) {
        const uint64_t other = w->weights_reorder ? layout_bytes(kernel_layout(w->weights_reorder, ARG_DST)) : 0;
        const uint64_t own = adds && w->gradient_reorder ? layout_bytes(m->parameters[o->weight].layout) : 0;
        TRY(arena_declare(&m->arena, max_u64(other, own), data, &o->buffers.weights_copy));
        if (own > 0)
            arena_extend(&m->arena, o->buffers.weights_copy, weights);
    }
    if (o->n_parts > 1 && is_trained(m, o->weight))
        TRY(arena_declare(&m->arena, part_gradient_bytes(m, o), weights, &o->buffers.part_gradient));
    if (adds || w->gradient_reorder)
        TRY(arena_declare(&m->arena, weighted_gradient_bytes(m, o), weights, &o->buffers.fresh_weight));
    if (adds && is_trained(m, o->bias))
        TRY(arena_declare(&m->arena, layout_bytes(m->parameters[o->bias].layout), weights, &o->buffers.fresh_bias));
    return COMET_OK;
}

/* ---- backward ---- */

/* The first part writes, the others add. */
static comet_status run_parts(comet_model *m, op *o, float *weight, float *bias)
{
    const uint64_t n = weighted_gradient_bytes(m, o) / sizeof(float);
    float *part_weight = arena_at(&m->arena, o->buffers.part_gradient);
    float *part_bias = bias && part_weight ? part_weight + padded_floats(n) : NULL;
    for (uint32_t k = 0; k < o->n_parts; k++) {
        TRY(saved_take_input(m, o, (saved_part){k, o->n_parts}));
        TRY(weighted_part_of_weights(m, o, k, k == 0 ? weight : part_weight, k == 0 ? bias : part_bias));
        if (k > 0)
            add_to(n, part_weight, weight);
        if (k > 0 && bias)
            add_to(m->parameters[o->bias].n, part_bias, bias);
        TRY(tell_part_done(m, o, k));
    }
    return COMET_OK;
}

/* The gradient is written where it is kept, or to a buffer first if its layout differs or it must be added to what is there. */
static comet_status weighted_backward_weights(comet_model *m, op *o)
{
    const bool adds = m->n_accumulated > 0;
    float *weight = gradient_at(m, o, o->weight), *bias = gradient_at(m, o, o->bias);
    kernel *reorder = weighted_of(o)->gradient_reorder;
    float *fresh_weight = reorder || adds ? arena_at(&m->arena, o->buffers.fresh_weight) : weight;
    float *fresh_bias = bias && adds ? arena_at(&m->arena, o->buffers.fresh_bias) : bias;
    TRY(run_parts(m, o, fresh_weight, fresh_bias));
    if (reorder) {
        float *there = adds ? arena_at(&m->arena, o->buffers.weights_copy) : weight;
        const kernel_args move = {
            .at = {
                [ARG_SRC] = fresh_weight, [ARG_DST] = there, [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_weights)}};
        TRY(kernel_run(reorder, &move));
        fresh_weight = there;
    }
    if (adds)
        add_to(m->parameters[o->weight].n, fresh_weight, weight);
    if (adds && bias)
        add_to(m->parameters[o->bias].n, fresh_bias, bias);
    return COMET_OK;
}

/* Where part `part` of the gradient of the input lies in the end. */
static void *delivered_part(const comet_model *m, const op *o, uint32_t part)
{
    const delivery *d = &o->buffers.deliveries[0];
    return part_of(m, o, o->inputs[0], arena_at(&m->arena, d->by_parts ? d->sum : d->write), part);
}

comet_status weighted_part_of_data(comet_model *m, const op *o, void *weights, uint32_t part, void **gradient)
{
    const delivery *d = &o->buffers.deliveries[0];
    *gradient = d->by_parts ? arena_at(&m->arena, d->write) : delivered_part(m, o, part);
    const kernel_args args = {.at = {[ARG_DIFF_SRC] = *gradient,
                                     [ARG_WEIGHTS] = weights,
                                     [ARG_DIFF_DST] = part_of(m, o, o->output, arena_at(&m->arena, o->buffers.diff), part),
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_backward)}};
    return kernel_run(o->backward_data, &args);
}

comet_status weighted_deliver_part(comet_model *m, const op *o, uint32_t part)
{
    const delivery *d = &o->buffers.deliveries[0];
    void *there = delivered_part(m, o, part);
    const kernel_args sum = {.at = {[ARG_SRC] = there,
                                    [ARG_SRC_1] = arena_at(&m->arena, d->write),
                                    [ARG_DST] = there,
                                    [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_backward)}};
    return d->by_parts ? kernel_run(o->add[0], &sum) : COMET_OK;
}

static comet_status backward_bias_alone(comet_model *m, const op *o)
{
    const norm_shape s = output_shape(m, o);
    const channel_sums_spec spec = {.shape = &s, .n = s.n_elements};
    double *sums = arena_at(&m->arena, o->buffers.scratch_weights);
    float *bias = gradient_at(m, o, o->bias);
    TRY(channel_sums_of(&spec, arena_at(&m->arena, o->buffers.diff), m->params.n_threads, (char *)sums + bias_sums_bytes(&s),
                        sums));
    for (uint64_t c = 0; c < m->parameters[o->bias].n; c++)
        bias[c] = (float)sums[c] + (m->n_accumulated > 0 ? bias[c] : 0);
    return COMET_OK;
}

comet_status weighted_backward(comet_model *m, op *o)
{
    if (is_trained(m, o->weight))
        TRY(weighted_backward_weights(m, o));
    else if (is_trained(m, o->bias))
        TRY(backward_bias_alone(m, o));
    if (!needs_gradient_of(m, o, 0))
        return COMET_OK;
    void *weights;
    TRY(copy_weights(m, o, weighted_of(o)->weights_reorder, o->buffers.weights_copy, o->buffers.scratch_backward, &weights));
    for (uint32_t k = 0; k < o->n_parts; k++) {
        void *gradient;
        TRY(weighted_part_of_data(m, o, weights, k, &gradient));
        TRY(weighted_deliver_part(m, o, k));
    }
    return COMET_OK;
}
