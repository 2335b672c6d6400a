/*
 * Convolution and linear layers: their kernels and weights. weighted.c runs them.
 *
 * Weights are kept in floats. In bf16 a copy of them is made before each pass that reads them, and lives as long as the pass.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "train/graph/conv_choices.h"
#include "train/ops/conv_candidates.h"
#include "train/ops/ops.h"

/* ---- parameters ---- */

/* What describes the weight of a convolution or linear layer. */
typedef struct weight_shape {
    const layout *kept;
    uint32_t n_dims;
    uint64_t dims[4], fan_in, fan_out;
} weight_shape;

/* Weight and bias. */
static comet_status add_weights(comet_model *m, op *o, const weight_shape *w)
{
    parameter p = named_parameter(o, "weight");
    uint64_t lying[5];
    p.layout = w->kept;
    TRY(layout_plain(m->backend, layout_dims(p.layout, lying), lying, &p.plain));
    p.n_dims = w->n_dims;
    memcpy(p.dims, w->dims, w->n_dims * sizeof *w->dims);
    p.init = o->layer->init;
    p.fan_in = w->fan_in;
    p.fan_out = w->fan_out;
    TRY(graph_add_parameter(m, &p, &o->weight));
    if (!o->layer->bias)
        return COMET_OK;
    parameter bias = named_parameter(o, "bias");
    bias.init = o->layer->init;
    bias.fan_in = w->fan_in;
    return graph_add_vector(m, &bias, o->layer->out_channels, &o->bias);
}

/* Kernels may need the weights in another layout or type than that in which they are kept. */
static comet_status bridge_forward(comet_model *m, op *o)
{
    const layout *kept = m->parameters[o->weight].layout, *needed = kernel_layout(o->forward, ARG_WEIGHTS);
    return needed == kept ? COMET_OK : kernel_reorder(m->backend, kept, needed, &weighted_of(o)->forward_reorder);
}

static comet_status bridge_backward(comet_model *m, op *o)
{
    const layout *kept = m->parameters[o->weight].layout;
    const layout *data = o->backward_data ? kernel_layout(o->backward_data, ARG_WEIGHTS) : kept;
    const layout *gradient = o->backward_weights ? kernel_layout(o->backward_weights, ARG_DIFF_WEIGHTS) : kept;
    if (data != kept)
        TRY(kernel_reorder(m->backend, kept, data, &weighted_of(o)->weights_reorder));
    if (gradient != kept)
        TRY(kernel_reorder(m->backend, gradient, kept, &weighted_of(o)->gradient_reorder));
    return COMET_OK;
}

/* ---- kernels ---- */

#define SMALL_SCRATCH ((uint64_t)64 << 20)
#define LARGE_SCRATCH ((uint64_t)160 << 20)
#define MIN_LINEAR_BATCH 96             /* of a linear layer in bf16 */
#define PART_BYTES ((uint64_t)32 << 20) /* of an input that backward decodes at once */

/* A scratchpad may have up to four times the bytes that a kernel reads and writes. Beyond that, the memory that direct
 * convolution saves is worth the time that it costs. */
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
    conv_spec s = {.batch = m->params.batch, .groups = l->groups, .bias = l->bias, .relu = relu, .type = layout_type(input)};
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
    s.ways = conv_ways_of(&m->params, l->name);
    set_scratch(&s);
    return s;
}

conv_spec conv_pass_spec(const comet_model *m, const op *o, kernel_pass pass)
{
    conv_spec s = conv_spec_of(m, o->layer, o->relu, input_layout(m, o));
    if (pass != PASS_FORWARD) {
        s.batch /= o->n_parts;
        set_scratch(&s);
    }
    return s;
}

/* Where a pass in bf16 would be slow, the convolution computes in floats. Images, the net's input, need no gradient. */
static comet_status conv_type(comet_model *m, const comet_layer *layer, const conv_spec *s, const layout *input,
                              comet_dtype *type)
{
    conv_spec typed = *s;
    bool fast = true;
    typed.type = m->type;
    if (m->type != COMET_DTYPE_F32)
        TRY(conv_is_fast(m->backend, &typed, input, layer->inputs[0] != 0, &fast));
    *type = fast ? m->type : COMET_DTYPE_F32;
    return COMET_OK;
}

comet_status conv_input_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input, const layout **needed)
{
    conv_spec s = conv_spec_of(m, layer, relu, input);
    kernel *k;
    TRY(conv_type(m, layer, &s, input, &s.type));
    TRY(kernel_conv_forward(m->backend, &s, input, &k));
    *needed = kernel_layout(k, ARG_SRC);
    kernel_destroy(k);
    return COMET_OK;
}

/* A layer whose weight is frozen: backward reads no input. */
static const op_type op_type_frozen_conv = {.name = "conv",
                                            .prepare = conv_prepare,
                                            .destroy = weighted_destroy,
                                            .forward = weighted_forward,
                                            .backward = weighted_backward,
                                            .input_layout = conv_input_layout,
                                            .scratch_bytes = weighted_scratch_bytes,
                                            .declare_forward = weighted_declare_forward,
                                            .declare_backward = weighted_declare_backward,
                                            .takes_relu = true};
static const op_type op_type_frozen_linear = {.name = "linear",
                                              .prepare = linear_prepare,
                                              .destroy = weighted_destroy,
                                              .forward = weighted_forward,
                                              .backward = weighted_backward,
                                              .input_layout = linear_input_layout,
                                              .scratch_bytes = weighted_scratch_bytes,
                                              .declare_forward = weighted_declare_forward,
                                              .declare_backward = weighted_declare_backward,
                                              .takes_relu = true,
                                              .any_order = true};

static bool is_depthwise(const conv_spec *s)
{
    return s->groups > 1 && s->groups == s->in[0] && s->groups == s->out[0];
}

/* Backward weights: the library's kernel, or our own where that is reference code and the layouts suit. */
static comet_status conv_prepare_weights(comet_model *m, op *o, const conv_spec *s)
{
    uint64_t block;
    TRY(kernel_conv_backward_weights(m->backend, s, o->forward, &o->backward_weights));
    weighted *w = weighted_of(o);
    w->own_depthwise = is_depthwise(s) && !s->bias && kernel_is_slow(o->backward_weights) &&
                       layout_describe(input_layout(m, o), &block) == ORDER_BLOCKED && (block == 8 || block == 16) &&
                       layout_is_depthwise(kernel_layout(o->forward, ARG_WEIGHTS), block);
    if (!w->own_depthwise)
        return COMET_OK;
    kernel_destroy(o->backward_weights);
    o->backward_weights = NULL;
    return COMET_OK;
}

/* Will any gradient flow to input 0? It will if an earlier op has parameters that are trained, which is known since ops are
 * prepared in order. */
static bool has_learnt_before(const comet_model *m, const op *o)
{
    for (uint32_t i = 0; i < o->index; i++)
        if (op_learns(m, &m->ops[i]))
            return true;
    return false;
}

/* The number of equal parts of the batch, each with at most PART_BYTES of the input. A part has two images for every thread and
 * is large compared with the weights, whose gradient is added up once a part; all its tensors begin aligned. The number does
 * not depend on how tensors are held, so that results do not. */
static uint32_t conv_parts(const comet_model *m, const conv_spec *s)
{
    const uint64_t in = s->in[0] * s->in[1] * s->in[2], out = s->out[0] * s->out[1] * s->out[2];
    const uint64_t weights = s->out[0] * s->in[0] / s->groups * s->kernel[0] * s->kernel[1];
    const uint64_t size = comet_dtype_bytes(s->type), aligned = COMET_ALIGNMENT / size;
    uint32_t best = 1;
    for (uint32_t n = 2; n <= s->batch && in % aligned == 0 && out % aligned == 0; n++) {
        const uint64_t images = s->batch / n;
        if (images < 2 * (uint64_t)m->params.n_threads || images * in < 8 * weights ||
            best * PART_BYTES >= s->batch * in * size)
            break;
        if (s->batch % n == 0)
            best = n;
    }
    return best;
}

/* Scratch for whichever candidate a trial will choose. */
static comet_status conv_plan_choice(comet_model *m, op *o, kernel_pass pass)
{
    const conv_spec s = conv_pass_spec(m, o, pass);
    conv_candidates c;
    if (!conv_choices_missing(&m->params))
        return COMET_OK;
    TRY(conv_candidates_make(m->backend, &s, input_layout(m, o), pass, &c));
    weighted_of(o)->choice_bytes[pass] = conv_candidates_scratch_bytes(&c);
    conv_candidates_free(&c);
    return COMET_OK;
}

static comet_status make_state(op *o)
{
    o->state = calloc(1, sizeof(weighted));
    return o->state ? COMET_OK
                    : comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the state of %s", o->layer->name);
}

void weighted_destroy(op *o)
{
    weighted *w = weighted_of(o);
    if (!w)
        return;
    kernel_destroy(w->forward_reorder);
    kernel_destroy(w->weights_reorder);
    kernel_destroy(w->gradient_reorder);
    free(w);
    o->state = NULL;
}

/* Weights are kept as forward needs them, or in bf16 as the kernel for their gradient makes that. */
static comet_status conv_kept(comet_model *m, const op *o, const conv_spec *s, const layout **kept)
{
    kernel *k;
    *kept = kernel_layout(o->forward, ARG_WEIGHTS);
    if (s->type == COMET_DTYPE_F32)
        return COMET_OK;
    if (is_depthwise(s) && layout_typed(m->backend, *kept, COMET_DTYPE_F32, kept) == COMET_OK)
        return COMET_OK;
    TRY(kernel_conv_backward_weights(m->backend, s, o->forward, &k));
    *kept = kernel_layout(k, ARG_DIFF_WEIGHTS);
    kernel_destroy(k);
    return COMET_OK;
}

static comet_status conv_prepare_forward(comet_model *m, op *o, const conv_spec *s)
{
    const comet_layer *l = o->layer;
    const uint64_t area = (uint64_t)l->kernel[0] * l->kernel[1], in = s->in[0] / l->groups;
    weight_shape w = {.n_dims = 4,
                      .dims = {l->out_channels, in, l->kernel[0], l->kernel[1]},
                      .fan_in = in * area,
                      .fan_out = l->out_channels * area};
    TRY(make_state(o));
    TRY(kernel_conv_forward(m->backend, s, input_layout(m, o), &o->forward));
    set_output_layout(m, o, kernel_layout(o->forward, ARG_DST));
    TRY(conv_kept(m, o, s, &w.kept));
    TRY(add_weights(m, o, &w));
    TRY(bridge_forward(m, o));
    return conv_plan_choice(m, o, PASS_FORWARD);
}

comet_status conv_prepare(comet_model *m, op *o)
{
    conv_spec s = conv_spec_of(m, o->layer, o->relu, input_layout(m, o));
    const bool first = !has_learnt_before(m, o);
    TRY(conv_prepare_forward(m, o, &s));
    if (m->params.inference)
        return COMET_OK;
    o->n_parts = conv_parts(m, &s);
    s = conv_pass_spec(m, o, PASS_BACKWARD_DATA);
    if (!first) {
        TRY(conv_plan_choice(m, o, PASS_BACKWARD_DATA));
        TRY(kernel_conv_backward_data(m->backend, &s, o->forward, &o->backward_data));
    }
    s.bias = is_trained(m, o->bias);
    if (is_trained(m, o->weight)) {
        TRY(conv_plan_choice(m, o, PASS_BACKWARD_WEIGHTS));
        TRY(conv_prepare_weights(m, o, &s));
    } else {
        o->type = &op_type_frozen_conv;
    }
    o->mask.used = o->relu;
    return bridge_backward(m, o);
}

comet_status conv_sample_kernel(comet_model *m, const op *o, uint64_t n_images, uint64_t channels, kernel **k)
{
    conv_spec s = conv_spec_of(m, o->layer, false, input_layout(m, o));
    s.batch = n_images;
    s.in[0] = channels;
    s.bias = false;
    s.ways.of[PASS_BACKWARD_WEIGHTS] = CONV_DIRECT;
    return kernel_conv_backward_weights(m->backend, &s, o->forward, k);
}

/* With few images a linear layer spends its time on reading weights, so that a copy of them in bf16 costs more than it saves.
 * Scores are floats: so is the last layer. */
comet_status linear_input_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input,
                                 const layout **needed)
{
    const bool last = layer == comet_net_layer(m->net, comet_net_n_values(m->net) - 1);
    const comet_dtype type = last || m->params.batch < MIN_LINEAR_BATCH ? COMET_DTYPE_F32 : m->type;
    uint64_t block;
    (void)relu;
    *needed = input;
    if (layout_type(input) != type && layout_describe(input, &block) == ORDER_OTHER)
        TRY(graph_plain_like(m, input, needed));
    return layout_typed(m->backend, *needed, type, needed);
}

static comet_status linear_kept(comet_model *m, const op *o, const layout **kept)
{
    kernel *k;
    *kept = kernel_layout(o->forward, ARG_WEIGHTS);
    if (layout_type(*kept) == COMET_DTYPE_F32)
        return COMET_OK;
    TRY(kernel_linear_backward_weights(m->backend, false, o->forward, &k));
    *kept = kernel_layout(k, ARG_DIFF_WEIGHTS);
    kernel_destroy(k);
    return COMET_OK;
}

static comet_status linear_prepare_forward(comet_model *m, op *o)
{
    const comet_layer *l = o->layer;
    const comet_shape in = comet_net_shape(m->net, l->inputs[0]);
    const uint64_t inputs = (uint64_t)in.channels * in.height * in.width;
    weight_shape w = {.n_dims = 2, .dims = {l->out_channels, inputs}, .fan_in = inputs, .fan_out = l->out_channels};
    TRY(make_state(o));
    TRY(kernel_linear_forward(m->backend, l->out_channels, l->bias, o->relu, input_layout(m, o), &o->forward));
    set_output_layout(m, o, kernel_layout(o->forward, ARG_DST));
    TRY(linear_kept(m, o, &w.kept));
    TRY(add_weights(m, o, &w));
    return bridge_forward(m, o);
}

comet_status linear_prepare(comet_model *m, op *o)
{
    const bool first = !has_learnt_before(m, o);
    TRY(linear_prepare_forward(m, o));
    if (m->params.inference)
        return COMET_OK;
    o->n_parts = 1;
    if (!first)
        TRY(kernel_linear_backward_data(m->backend, o->forward, &o->backward_data));
    if (is_trained(m, o->weight))
        TRY(kernel_linear_backward_weights(m->backend, is_trained(m, o->bias), o->forward, &o->backward_weights));
    else
        o->type = &op_type_frozen_linear;
    o->mask.used = o->relu;
    return bridge_backward(m, o);
}
