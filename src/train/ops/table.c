/*
 * The kinds of ops: how each prepares its kernels, runs forward and runs backward. Those with weights are in model_weighted.c,
 * batch norm in model_norm.c, addition in model_add.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "train/graph/graph.h"
#include "train/math/elementwise.h"

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

float *learnt(const comet_model *m, float *block, uint32_t index)
{
    return index == NONE || !block ? NULL : block + m->parameters[index].offset;
}

float *gradient_at(const comet_model *m, const op *o, uint32_t index)
{
    if (index == NONE || m->gradients)
        return learnt(m, m->gradients, index);
    float *own = arena_at(&m->arena, o->gradient);
    return index == o->weight ? own : own + padded_floats(m->parameters[o->weight].n);
}

void op_destroy(op *o)
{
    kernel *const kernels[] = {o->forward, o->backward_data, o->backward_weights, o->weights_reorder, o->gradient_reorder};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        kernel_destroy(kernels[i]);
    for (uint32_t i = 0; i < MAX_PIECES; i++)
        kernel_destroy(o->pieces[i]);
    for (uint32_t i = 0; i < COMET_MAX_INPUTS; i++)
        kernel_destroy(o->add[i]);
    folded_destroy(o->folded);
    sample_destroy(o->sampler);
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
        TRY(kernel_take_channels(m->backend, kernel_layout(o->forward, ARG_DST), first, sources[i], &o->pieces[i]));
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
            TRY(kernel_run(o->pieces[i], &args));
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
