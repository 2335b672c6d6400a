/*
 * The kinds of ops: how each prepares its kernels, runs forward and runs backward.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "train/depthwise.h"
#include "train/elementwise.h"
#include "train/model_internal.h"

/* ---- where things are ---- */

void *value_data(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    if (x->producer != NONE)
        return arena_at(&m->arena, x->buffer);
    /* The caller's images; kernels take operands without const but do not write to sources. */
    union {
        const float *in;
        void *out;
    } images = {.in = m->images};
    return images.out;
}

static void *value_data_backward(const comet_model *m, uint32_t v)
{
    return m->values[v].taken;
}

float *learnt(const comet_model *m, float *block, uint32_t index)
{
    return index == NONE || !block ? NULL : block + m->parameters[index].offset;
}

static uint64_t padded_floats(uint64_t n)
{
    return (n + 15) / 16 * 16;
}

float *gradient_at(const comet_model *m, const op *o, uint32_t index)
{
    if (index == NONE || m->gradients)
        return learnt(m, m->gradients, index);
    float *own = arena_at(&m->arena, o->gradient);
    return index == o->weight ? own : own + padded_floats(m->parameters[o->weight].n);
}

static const layout *input_layout(const comet_model *m, const op *o)
{
    return m->values[o->inputs[0]].layout;
}

static void set_output_layout(comet_model *m, const op *o, const layout *l)
{
    m->values[o->output].layout = l;
}

static bool wants_gradient(const comet_model *m, const op *o, uint32_t input)
{
    return m->values[o->inputs[input]].needs_gradient;
}

/* Will any gradient flow to input 0? Known while ops are prepared in order: an earlier op has parameters. */
static bool has_learnt_before(const comet_model *m, const op *o)
{
    uint32_t first = NONE;
    for (uint32_t i = 0; i < o->index; i++)
        if (m->ops[i].weight != NONE && first == NONE)
            first = i;
    return first != NONE;
}

void op_destroy(op *o)
{
    kernel *const kernels[] = {o->forward, o->backward_data, o->backward_weights, o->weights_reorder, o->gradient_reorder};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        kernel_destroy(kernels[i]);
    for (uint32_t i = 0; i < MAX_PARTS; i++)
        kernel_destroy(o->parts[i]);
    for (uint32_t i = 0; i < COMET_MAX_INPUTS; i++)
        kernel_destroy(o->add[i]);
}

/* ---- parameters ---- */

parameter named_parameter(const op *o, const char *suffix)
{
    parameter p = {.learnt = true};
    snprintf(p.name, sizeof p.name, "%s.%s", o->layer->name, suffix);
    return p;
}

comet_status add_vector(comet_model *m, const parameter *described, uint64_t n, uint32_t *index)
{
    parameter p = *described;
    p.n_dims = 1;
    p.dims[0] = n;
    TRY(layout_plain(m->backend, 1, &n, &p.plain));
    p.layout = p.plain;
    return graph_add_parameter(m, &p, index);
}

/* Weight and bias of a convolution or linear layer; the weight lies as the forward kernel wants it. */
static comet_status add_weights(comet_model *m, op *o, uint32_t n_dims, const uint64_t *dims, uint64_t fan_in, uint64_t fan_out)
{
    parameter p = named_parameter(o, "weight");
    uint64_t lying[5];
    p.layout = kernel_layout(o->forward, ARG_WEIGHTS);
    TRY(layout_plain(m->backend, layout_dims(p.layout, lying), lying, &p.plain));
    p.n_dims = n_dims;
    memcpy(p.dims, dims, n_dims * sizeof *dims);
    p.init = o->layer->init;
    p.fan_in = fan_in;
    p.fan_out = fan_out;
    TRY(graph_add_parameter(m, &p, &o->weight));
    if (!o->layer->bias)
        return COMET_OK;
    parameter bias = named_parameter(o, "bias");
    bias.init = o->layer->init;
    bias.fan_in = fan_in;
    return add_vector(m, &bias, o->layer->out_channels, &o->bias);
}

/* Backward kernels may want the weights in another layout than forward's. */
static comet_status bridge_layouts(comet_model *m, op *o)
{
    const layout *kept = kernel_layout(o->forward, ARG_WEIGHTS);
    const layout *data = o->backward_data ? kernel_layout(o->backward_data, ARG_WEIGHTS) : kept;
    const layout *gradient = o->backward_weights ? kernel_layout(o->backward_weights, ARG_DIFF_WEIGHTS) : kept;
    if (data != kept)
        TRY(kernel_reorder(m->backend, kept, data, &o->weights_reorder));
    if (gradient != kept)
        TRY(kernel_reorder(m->backend, gradient, kept, &o->gradient_reorder));
    return COMET_OK;
}

/* ---- convolution and linear ---- */

#define SMALL_SCRATCH ((uint64_t)64 << 20)
#define LARGE_SCRATCH ((uint64_t)160 << 20)
#define PART_BYTES ((uint64_t)32 << 20) /* of an input that backward decodes at once */

/* Up to four times what a kernel itself reads and writes is in proportion; beyond that direct convolution gives back more
 * memory than it costs time. */
static void set_scratch(conv_spec *s)
{
    const uint64_t data = sizeof(float) * s->batch * (s->in[0] * s->in[1] * s->in[2] + s->out[0] * s->out[1] * s->out[2]);
    s->data_scratch_bytes = SMALL_SCRATCH;
    s->weights_scratch_bytes = max_u64(SMALL_SCRATCH, min_u64(4 * data, LARGE_SCRATCH));
}

static conv_spec conv_spec_of(const comet_model *m, const comet_layer *l, bool relu, const layout *input)
{
    uint64_t dims[5];
    layout_dims(input, dims);
    conv_spec s = {.batch = m->params.batch, .groups = l->groups, .bias = l->bias, .relu = relu};
    memcpy(s.in, dims + 1, sizeof s.in);
    memcpy(s.kernel, l->kernel, sizeof s.kernel);
    memcpy(s.stride, l->stride, sizeof s.stride);
    memcpy(s.padding, l->padding, sizeof s.padding);
    memcpy(s.dilation, l->dilation, sizeof s.dilation);
    s.out[0] = l->out_channels;
    for (int i = 0; i < 2; i++) {
        const uint64_t window = (uint64_t)l->dilation[i] * (l->kernel[i] - 1) + 1;
        s.out[1 + i] = (s.in[1 + i] + 2 * (uint64_t)l->padding[i] - window) / l->stride[i] + 1;
    }
    s.winograd = !m->params.no_winograd;
    set_scratch(&s);
    return s;
}

comet_status conv_wanted_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input, const layout **wanted)
{
    const conv_spec s = conv_spec_of(m, layer, relu, input);
    kernel *k;
    TRY(kernel_conv_forward(m->backend, &s, input, &k));
    *wanted = kernel_layout(k, ARG_SRC);
    kernel_destroy(k);
    return COMET_OK;
}

static bool is_depthwise(const conv_spec *s)
{
    return s->groups > 1 && s->groups == s->in[0] && s->groups == s->out[0];
}

/* Backward weights: the library's kernel, or our own where that is reference code and the layouts suit. */
static comet_status conv_prepare_weights(comet_model *m, op *o, const conv_spec *s)
{
    uint64_t block;
    TRY(kernel_conv_backward_weights(m->backend, s, o->forward, &o->backward_weights));
    o->own_depthwise = is_depthwise(s) && !s->bias && kernel_is_slow(o->backward_weights) &&
                       layout_describe(input_layout(m, o), &block) == ORDER_BLOCKED && (block == 8 || block == 16) &&
                       layout_is_depthwise(kernel_layout(o->forward, ARG_WEIGHTS), block);
    if (!o->own_depthwise)
        return COMET_OK;
    kernel_destroy(o->backward_weights);
    o->backward_weights = NULL;
    return COMET_OK;
}

/* Equal parts of the batch with at most PART_BYTES of the input, that leave every thread two images and are large beside the
 * weights, whose gradient is added up once a part; all tensors must begin aligned. How tensors are held does not matter, so
 * that results do not depend on it. */
static uint32_t conv_parts(const comet_model *m, const conv_spec *s)
{
    const uint64_t in = s->in[0] * s->in[1] * s->in[2], out = s->out[0] * s->out[1] * s->out[2];
    const uint64_t weights = s->out[0] * s->in[0] / s->groups * s->kernel[0] * s->kernel[1];
    uint32_t best = 1;
    for (uint32_t n = 2; n <= s->batch && in % 16 == 0 && out % 16 == 0; n++) {
        const uint64_t images = s->batch / n;
        if (images < 2 * (uint64_t)m->params.n_threads || images * in < 8 * weights || best * PART_BYTES >= s->batch * in * 4)
            break;
        if (s->batch % n == 0)
            best = n;
    }
    return best;
}

static comet_status conv_prepare(comet_model *m, op *o)
{
    const comet_layer *l = o->layer;
    conv_spec s = conv_spec_of(m, l, o->relu, input_layout(m, o));
    const uint64_t area = (uint64_t)l->kernel[0] * l->kernel[1], in = s.in[0] / l->groups;
    const uint64_t dims[4] = {l->out_channels, in, l->kernel[0], l->kernel[1]};
    const bool first = !has_learnt_before(m, o);
    TRY(kernel_conv_forward(m->backend, &s, input_layout(m, o), &o->forward));
    set_output_layout(m, o, kernel_layout(o->forward, ARG_DST));
    TRY(add_weights(m, o, 4, dims, in * area, l->out_channels * area));
    if (m->params.inference)
        return COMET_OK;
    o->n_parts = conv_parts(m, &s);
    s.batch /= o->n_parts;
    set_scratch(&s);
    if (!first)
        TRY(kernel_conv_backward_data(m->backend, &s, o->forward, &o->backward_data));
    TRY(conv_prepare_weights(m, o, &s));
    o->masks = o->relu;
    return bridge_layouts(m, o);
}

static comet_status linear_prepare(comet_model *m, op *o)
{
    const comet_layer *l = o->layer;
    const comet_shape in = comet_net_shape(m->net, l->inputs[0]);
    const uint64_t inputs = (uint64_t)in.channels * in.height * in.width, dims[2] = {l->out_channels, inputs};
    const bool first = !has_learnt_before(m, o);
    TRY(kernel_linear_forward(m->backend, l->out_channels, l->bias, o->relu, input_layout(m, o), &o->forward));
    set_output_layout(m, o, kernel_layout(o->forward, ARG_DST));
    TRY(add_weights(m, o, 2, dims, inputs, l->out_channels));
    if (m->params.inference)
        return COMET_OK;
    o->n_parts = 1;
    if (!first)
        TRY(kernel_linear_backward_data(m->backend, o->forward, &o->backward_data));
    TRY(kernel_linear_backward_weights(m->backend, l->bias, o->forward, &o->backward_weights));
    o->masks = o->relu;
    return bridge_layouts(m, o);
}

static comet_status weighted_forward(comet_model *m, op *o, run_mode mode)
{
    if (mode == RUN_TRAIN)
        TRY(assess_before(m, o));
    const kernel_args args = {.at = {[ARG_SRC] = value_data(m, o->inputs[0]),
                                     [ARG_WEIGHTS] = learnt(m, m->weights, o->weight),
                                     [ARG_BIAS] = learnt(m, m->weights, o->bias),
                                     [ARG_DST] = value_data(m, o->output),
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_forward)}};
    return kernel_run(o->forward, &args);
}

/* Where part `part` of o's batch begins in a tensor of value v. */
static float *part_of(const comet_model *m, const op *o, uint32_t v, float *whole, uint32_t part)
{
    return whole + part * (layout_bytes(m->values[v].layout) / sizeof(float) / o->n_parts);
}

static void depthwise_gradient(const comet_model *m, const op *o, const float *diff, float *gradient)
{
    const comet_layer *l = o->layer;
    depthwise_spec d = {.batch = m->params.batch / o->n_parts};
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
    depthwise_backward_weights(&d, value_data_backward(m, o->inputs[0]), diff, gradient);
}

comet_status op_run_backward_weights(comet_model *m, op *o, uint32_t part, float *weight, float *bias)
{
    float *diff = part_of(m, o, o->output, arena_at(&m->arena, o->diff), part);
    if (o->own_depthwise) {
        depthwise_gradient(m, o, diff, weight);
        return COMET_OK;
    }
    const kernel_args args = {.at = {[ARG_SRC] = value_data_backward(m, o->inputs[0]),
                                     [ARG_DIFF_WEIGHTS] = weight,
                                     [ARG_DIFF_BIAS] = bias,
                                     [ARG_DIFF_DST] = diff,
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_weights)}};
    return kernel_run(o->backward_weights, &args);
}

uint64_t op_gradient_bytes(const comet_model *m, const op *o)
{
    const layout *l = o->backward_weights ? kernel_layout(o->backward_weights, ARG_DIFF_WEIGHTS) : NULL;
    return layout_bytes(l ? l : m->parameters[o->weight].layout);
}

uint64_t op_part_gradient_bytes(const comet_model *m, const op *o)
{
    const uint64_t weight = padded_floats(op_gradient_bytes(m, o) / sizeof(float));
    return (weight + (o->bias == NONE ? 0 : m->parameters[o->bias].n)) * sizeof(float);
}

/* The first part writes, the others add. */
static comet_status run_parts(comet_model *m, op *o, float *weight, float *bias)
{
    const uint64_t n = op_gradient_bytes(m, o) / sizeof(float);
    float *part_weight = arena_at(&m->arena, o->part_gradient);
    float *part_bias = bias && part_weight ? part_weight + padded_floats(n) : NULL;
    for (uint32_t k = 0; k < o->n_parts; k++) {
        TRY(saved_take_input(m, o, (saved_part){k, o->n_parts}));
        TRY(op_run_backward_weights(m, o, k, k == 0 ? weight : part_weight, k == 0 ? bias : part_bias));
        if (k > 0)
            add_to(n, part_weight, weight);
        if (k > 0 && bias)
            add_to(m->parameters[o->bias].n, part_bias, bias);
        TRY(assess_weighted(m, o, k));
    }
    return COMET_OK;
}

/* The gradient goes where it is kept; or first beside it, if its layout differs or it is to be added to what is there. */
static comet_status weighted_backward_weights(comet_model *m, op *o)
{
    const bool adds = m->n_accumulated > 0;
    float *weight = gradient_at(m, o, o->weight), *bias = gradient_at(m, o, o->bias);
    float *fresh_weight = o->gradient_reorder || adds ? arena_at(&m->arena, o->fresh_weight) : weight;
    float *fresh_bias = bias && adds ? arena_at(&m->arena, o->fresh_bias) : bias;
    TRY(run_parts(m, o, fresh_weight, fresh_bias));
    if (o->gradient_reorder) {
        float *there = adds ? arena_at(&m->arena, o->weights_copy) : weight;
        const kernel_args move = {
            .at = {[ARG_SRC] = fresh_weight, [ARG_DST] = there, [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_weights)}};
        TRY(kernel_run(o->gradient_reorder, &move));
        fresh_weight = there;
    }
    if (adds)
        add_to(m->parameters[o->weight].n, fresh_weight, weight);
    if (adds && bias)
        add_to(m->parameters[o->bias].n, fresh_bias, bias);
    return COMET_OK;
}

/* The gradient of the input from a part of the batch; where that is to be added to another, part by part. */
static comet_status run_part_of_data(comet_model *m, op *o, void *weights, uint32_t part)
{
    const delivery *d = &o->deliveries[0];
    float *write = arena_at(&m->arena, d->write), *whole = d->by_parts ? arena_at(&m->arena, d->sum) : write;
    float *there = part_of(m, o, o->inputs[0], whole, part);
    void *scratch = arena_at(&m->arena, o->scratch_backward);
    const kernel_args args = {.at = {[ARG_DIFF_SRC] = d->by_parts ? write : there,
                                     [ARG_WEIGHTS] = weights,
                                     [ARG_DIFF_DST] = part_of(m, o, o->output, arena_at(&m->arena, o->diff), part),
                                     [ARG_SCRATCH] = scratch}};
    TRY(kernel_run(o->backward_data, &args));
    const kernel_args sum = {.at = {[ARG_SRC] = there, [ARG_SRC_1] = write, [ARG_DST] = there, [ARG_SCRATCH] = scratch}};
    return d->by_parts ? kernel_run(o->add[0], &sum) : COMET_OK;
}

static comet_status weighted_backward(comet_model *m, op *o)
{
    TRY(weighted_backward_weights(m, o));
    if (!wants_gradient(m, o, 0))
        return COMET_OK;
    void *weights = learnt(m, m->weights, o->weight);
    if (o->weights_reorder) {
        void *copy = arena_at(&m->arena, o->weights_copy);
        const kernel_args move = {
            .at = {[ARG_SRC] = weights, [ARG_DST] = copy, [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_backward)}};
        TRY(kernel_run(o->weights_reorder, &move));
        weights = copy;
    }
    for (uint32_t k = 0; k < o->n_parts; k++)
        TRY(run_part_of_data(m, o, weights, k));
    return COMET_OK;
}

/* ---- one source, one destination: activations, pooling, lrn, changes of layout ---- */

static comet_status single_forward(comet_model *m, op *o, run_mode mode)
{
    (void)mode;
    const kernel_args args = {.at = {[ARG_SRC] = value_data(m, o->inputs[0]),
                                     [ARG_DST] = value_data(m, o->output),
                                     [ARG_WORKSPACE] = arena_at(&m->arena, o->workspace),
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_forward)}};
    return kernel_run(o->forward, &args);
}

static comet_status single_backward(comet_model *m, op *o)
{
    const kernel_args args = {.at = {[ARG_SRC] = o->type->keeps_input ? value_data_backward(m, o->inputs[0]) : NULL,
                                     [ARG_DST] = o->type->keeps_output ? value_data_backward(m, o->output) : NULL,
                                     [ARG_DIFF_DST] = arena_at(&m->arena, o->diff),
                                     [ARG_DIFF_SRC] = arena_at(&m->arena, o->deliveries[0].write),
                                     [ARG_WORKSPACE] = o->workspace_taken,
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_backward)}};
    return kernel_run(o->backward_data, &args);
}

static comet_status activation_prepare(comet_model *m, op *o)
{
    const layout *data = input_layout(m, o);
    set_output_layout(m, o, data);
    TRY(kernel_activation_forward(m->backend, o->layer->op, data, &o->forward));
    return m->params.inference ? COMET_OK : kernel_activation_backward(m->backend, o->layer->op, data, &o->backward_data);
}

/* torch divides such a window by the part of it within the padding, for which oneDNN has no name. */
static comet_status check_padded_average(const comet_layer *l, const pool_spec *s, const uint64_t *dims)
{
    bool beyond = false;
    for (int i = 0; i < 2; i++)
        beyond |= (s->out[i] - 1) * s->stride[i] + s->kernel[i] > dims[2 + i] + 2 * (uint64_t)s->padding[i];
    if (s->max || !beyond || (s->padding[0] == 0 && s->padding[1] == 0))
        return COMET_OK;
    return comet_fail(COMET_ERROR_UNSUPPORTED,
                      "%s: the last window of an average pool with padding reaches beyond it; leave out "
                      "ceil=yes or the padding",
                      l->name);
}

static comet_status pool_prepare(comet_model *m, op *o)
{
    const comet_layer *l = o->layer;
    uint64_t dims[5];
    layout_dims(input_layout(m, o), dims);
    const comet_shape out = comet_net_shape(m->net, m->values[o->output].root);
    pool_spec s = {.max = l->op == COMET_OP_MAX_POOL, .out = {out.height, out.width}};
    for (int i = 0; i < 2; i++) {
        const bool global = l->op == COMET_OP_GLOBAL_AVG_POOL;
        s.kernel[i] = global ? (uint32_t)dims[2 + i] : l->kernel[i];
        s.stride[i] = global ? 1 : l->stride[i];
        s.padding[i] = l->padding[i];
    }
    TRY(check_padded_average(l, &s, dims));
    TRY(kernel_pool_forward(m->backend, &s, input_layout(m, o), &o->forward));
    set_output_layout(m, o, kernel_layout(o->forward, ARG_DST));
    o->workspace_layout = kernel_layout(o->forward, ARG_WORKSPACE);
    return m->params.inference ? COMET_OK : kernel_pool_backward(m->backend, &s, o->forward, &o->backward_data);
}

static comet_status lrn_prepare(comet_model *m, op *o)
{
    const layout *data = input_layout(m, o);
    set_output_layout(m, o, data);
    TRY(kernel_lrn_forward(m->backend, o->layer, data, &o->forward));
    o->workspace_layout = kernel_layout(o->forward, ARG_WORKSPACE);
    return m->params.inference ? COMET_OK : kernel_lrn_backward(m->backend, o->layer, o->forward, &o->backward_data);
}

/* Planes become rows by way of plain planes, which lie likewise. */
static comet_status reorder_prepare(comet_model *m, op *o)
{
    const layout *from = input_layout(m, o), *to = m->values[o->output].layout;
    uint64_t dims[5];
    if (layout_dims(from, dims) != layout_dims(to, dims))
        TRY(graph_plain_like(m, from, &to));
    TRY(kernel_reorder(m->backend, from, to, &o->forward));
    return m->params.inference ? COMET_OK : kernel_reorder(m->backend, to, from, &o->backward_data);
}

static comet_status reorder_backward(comet_model *m, op *o)
{
    const kernel_args args = {.at = {[ARG_SRC] = arena_at(&m->arena, o->diff),
                                     [ARG_DST] = arena_at(&m->arena, o->deliveries[0].write),
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_backward)}};
    return kernel_run(o->backward_data, &args);
}

/* ---- dropout ---- */

static comet_status dropout_prepare(comet_model *m, op *o)
{
    set_output_layout(m, o, input_layout(m, o));
    return COMET_OK;
}

static dropout_spec dropout_spec_of(const comet_model *m, const op *o, bool active)
{
    return (dropout_spec){.seed = m->params.seed,
                          .step = m->step * m->params.accumulate + m->n_accumulated,
                          .layer = o->output, /* its number in the net: ops are more or fewer with the layouts */
                          .p = active ? o->layer->p : 0,
                          .per_sample = o->layer->per_sample,
                          .rows = m->params.batch,
                          .n = layout_bytes(input_layout(m, o)) / sizeof(float)};
}

static comet_status dropout_forward(comet_model *m, op *o, run_mode mode)
{
    const dropout_spec s = dropout_spec_of(m, o, mode != RUN_EVALUATE);
    dropout_apply(&s, value_data(m, o->inputs[0]), value_data(m, o->output));
    return COMET_OK;
}

static comet_status dropout_backward(comet_model *m, op *o)
{
    const dropout_spec s = dropout_spec_of(m, o, true);
    dropout_apply(&s, arena_at(&m->arena, o->diff), arena_at(&m->arena, o->deliveries[0].write));
    return COMET_OK;
}

/* ---- joining ---- */

static comet_status add_prepare(comet_model *m, op *o)
{
    set_output_layout(m, o, input_layout(m, o));
    o->masks = o->relu && !m->params.inference;
    return kernel_add(m->backend, o->relu, input_layout(m, o), &o->forward);
}

/* The first operand may be the destination; the second may too, being the first then. */
static comet_status add_forward(comet_model *m, op *o, run_mode mode)
{
    (void)mode;
    void *a = value_data(m, o->inputs[0]), *b = value_data(m, o->inputs[1]), *dst = value_data(m, o->output);
    const kernel_args args = {.at = {[ARG_SRC] = b == dst ? b : a,
                                     [ARG_SRC_1] = b == dst ? a : b,
                                     [ARG_DST] = dst,
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_forward)}};
    return kernel_run(o->forward, &args);
}

static comet_status add_backward(comet_model *m, op *o)
{
    (void)m, (void)o; /* the gradient passes through */
    return COMET_OK;
}

static comet_status multiply_prepare(comet_model *m, op *o)
{
    set_output_layout(m, o, input_layout(m, o));
    return COMET_OK;
}

static multiply_spec multiply_spec_of(const comet_model *m, const op *o)
{
    const layout *a = input_layout(m, o), *b = m->values[o->inputs[1]].layout;
    uint64_t dims[5] = {0, 0, 1, 1};
    multiply_spec s = {.spread = a != b};
    layout_dims(a, dims);
    s.order = layout_describe(a, &s.block);
    s.batch = dims[0];
    s.channels = (dims[1] + s.block - 1) / s.block * s.block;
    s.plane = dims[2] * dims[3];
    return s;
}

static comet_status multiply_run(comet_model *m, op *o, run_mode mode)
{
    (void)mode;
    const multiply_spec s = multiply_spec_of(m, o);
    multiply_forward(&s, value_data(m, o->inputs[0]), value_data(m, o->inputs[1]), value_data(m, o->output));
    return COMET_OK;
}

static comet_status multiply_run_backward(comet_model *m, op *o)
{
    const multiply_spec s = multiply_spec_of(m, o);
    multiply_backward(&s, value_data_backward(m, o->inputs[0]), value_data_backward(m, o->inputs[1]),
                      arena_at(&m->arena, o->diff), arena_at(&m->arena, o->deliveries[0].write),
                      arena_at(&m->arena, o->deliveries[1].write));
    return COMET_OK;
}

static comet_status concat_prepare(comet_model *m, op *o)
{
    const layout *sources[COMET_MAX_INPUTS];
    uint64_t dims[5], first = 0;
    for (uint32_t i = 0; i < o->n_inputs; i++)
        sources[i] = m->values[o->inputs[i]].layout;
    TRY(kernel_concat(m->backend, o->n_inputs, sources, &o->forward));
    set_output_layout(m, o, kernel_layout(o->forward, ARG_DST));
    for (uint32_t i = 0; i < o->n_inputs && !m->params.inference; i++) {
        TRY(kernel_take_channels(m->backend, kernel_layout(o->forward, ARG_DST), first, sources[i], &o->parts[i]));
        layout_dims(sources[i], dims);
        first += dims[1];
    }
    return COMET_OK;
}

static comet_status concat_forward(comet_model *m, op *o, run_mode mode)
{
    (void)mode;
    kernel_args args = {.at = {[ARG_DST] = value_data(m, o->output), [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_forward)}};
    for (uint32_t i = 0; i < o->n_inputs; i++)
        args.at[ARG_MULTIPLE + i] = value_data(m, o->inputs[i]);
    return kernel_run(o->forward, &args);
}

static comet_status concat_backward(comet_model *m, op *o)
{
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        const kernel_args args = {.at = {[ARG_SRC] = arena_at(&m->arena, o->diff),
                                         [ARG_DST] = arena_at(&m->arena, o->deliveries[i].write),
                                         [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_backward)}};
        if (wants_gradient(m, o, i))
            TRY(kernel_run(o->parts[i], &args));
    }
    return COMET_OK;
}

/* ---- the table ---- */

static const op_type op_types[COMET_N_OPS] = {
    [COMET_OP_CONV] = {.name = "conv",
                       .prepare = conv_prepare,
                       .forward = weighted_forward,
                       .backward = weighted_backward,
                       .keeps_input = true,
                       .kept_as = "conv input",
                       .kept_class = COMET_SLOT_CONV_INPUT,
                       .exactness = COMET_LOSSY},
    [COMET_OP_LINEAR] = {.name = "linear",
                         .prepare = linear_prepare,
                         .forward = weighted_forward,
                         .backward = weighted_backward,
                         .keeps_input = true,
                         .kept_as = "linear input",
                         .kept_class = COMET_SLOT_CONV_INPUT,
                         .exactness = COMET_LOSSY},
    [COMET_OP_BATCH_NORM] = {.name = "batch norm",
                             .prepare = norm_prepare,
                             .forward = norm_forward,
                             .backward = norm_backward,
                             .in_place = true,
                             .backward_in_place = true,
                             .always_writes = true},
    [COMET_OP_RELU] = {.name = "relu",
                       .prepare = activation_prepare,
                       .forward = single_forward,
                       .backward = single_backward,
                       .keeps_output = true,
                       .kept_as = "relu output",
                       .kept_class = COMET_SLOT_ACTIVATION,
                       .exactness = COMET_SUPPORT,
                       .in_place = true,
                       .backward_in_place = true},
    [COMET_OP_RELU6] = {.name = "relu6",
                        .prepare = activation_prepare,
                        .forward = single_forward,
                        .backward = single_backward,
                        .keeps_output = true,
                        .kept_as = "relu6 output",
                        .kept_class = COMET_SLOT_ACTIVATION,
                        .exactness = COMET_EXACT,
                        .in_place = true,
                        .backward_in_place = true},
    [COMET_OP_SILU] = {.name = "silu",
                       .prepare = activation_prepare,
                       .forward = single_forward,
                       .backward = single_backward,
                       .keeps_input = true,
                       .kept_as = "silu input",
                       .kept_class = COMET_SLOT_ACTIVATION,
                       .exactness = COMET_LOSSY,
                       .in_place = true,
                       .backward_in_place = true},
    [COMET_OP_SIGMOID] = {.name = "sigmoid",
                          .prepare = activation_prepare,
                          .forward = single_forward,
                          .backward = single_backward,
                          .keeps_output = true,
                          .kept_as = "sigmoid output",
                          .kept_class = COMET_SLOT_ACTIVATION,
                          .exactness = COMET_LOSSY,
                          .in_place = true,
                          .backward_in_place = true},
    [COMET_OP_MAX_POOL] = {.name = "max pool",
                           .prepare = pool_prepare,
                           .forward = single_forward,
                           .backward = single_backward,
                           .kept_as = "pool indices"},
    [COMET_OP_AVG_POOL] = {.name = "average pool",
                           .prepare = pool_prepare,
                           .forward = single_forward,
                           .backward = single_backward},
    [COMET_OP_GLOBAL_AVG_POOL] = {.name = "global average pool",
                                  .prepare = pool_prepare,
                                  .forward = single_forward,
                                  .backward = single_backward},
    [COMET_OP_LRN] = {.name = "lrn",
                      .prepare = lrn_prepare,
                      .forward = single_forward,
                      .backward = single_backward,
                      .keeps_input = true,
                      .kept_as = "lrn input",
                      .kept_class = COMET_SLOT_ACTIVATION,
                      .exactness = COMET_LOSSY},
    [COMET_OP_DROPOUT] = {.name = "dropout",
                          .prepare = dropout_prepare,
                          .forward = dropout_forward,
                          .backward = dropout_backward,
                          .in_place = true,
                          .backward_in_place = true},
    [COMET_OP_ADD] = {.name = "add",
                      .prepare = add_prepare,
                      .forward = add_forward,
                      .backward = add_backward,
                      .in_place = true,
                      .passes_gradient = true},
    [COMET_OP_MULTIPLY] = {.name = "multiply",
                           .prepare = multiply_prepare,
                           .forward = multiply_run,
                           .backward = multiply_run_backward,
                           .keeps_input = true,
                           .kept_as = "factor",
                           .kept_class = COMET_SLOT_ACTIVATION,
                           .exactness = COMET_LOSSY},
    [COMET_OP_CONCAT] = {.name = "concat", .prepare = concat_prepare, .forward = concat_forward, .backward = concat_backward},
};

const op_type op_type_reorder = {
    .name = "change of layout", .prepare = reorder_prepare, .forward = single_forward, .backward = reorder_backward};

const op_type *op_type_of(comet_op kind)
{
    return &op_types[kind];
}
