/* Ops with one source and one destination: activations, pooling, local response normalisation, changes of layout. */
#include "train/memory/memory.h"
#include "train/ops/ops.h"

comet_status single_forward(comet_model *m, op *o, run_mode mode)
{
    (void)mode;
    const kernel_args args = {.at = {[ARG_SRC] = value_data(m, o->inputs[0]),
                                     [ARG_DST] = value_data(m, o->output),
                                     [ARG_WORKSPACE] = arena_at(&m->arena, o->buffers.workspace),
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_forward)}};
    return kernel_run(o->forward, &args);
}

static comet_status run_backward(comet_model *m, const op *o, void *diff, void *write)
{
    const kernel_args args = {.at = {[ARG_SRC] = o->type->keeps_input ? value_data_backward(m, o->inputs[0]) : NULL,
                                     [ARG_DST] = o->type->keeps_output ? value_data_backward(m, o->output) : NULL,
                                     [ARG_DIFF_DST] = diff,
                                     [ARG_DIFF_SRC] = write,
                                     [ARG_WORKSPACE] = o->workspace.taken,
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_backward)}};
    return kernel_run(o->backward_data, &args);
}

comet_status single_backward(comet_model *m, op *o)
{
    void *diff = arena_at(&m->arena, o->buffers.diff), *write = arena_at(&m->arena, o->buffers.deliveries[0].write);
    if (o->n_parts == 0)
        return run_backward(m, o, diff, write);
    for (uint32_t k = 0; k < o->n_parts; k++) {
        TRY(saved_take_input(m, o, (saved_part){k, o->n_parts}));
        TRY(run_backward(m, o, part_of(m, o, o->output, diff, k), part_of(m, o, o->inputs[0], write, k)));
    }
    return COMET_OK;
}

/* What backward decodes of an input at once, where the batch divides so; no part has less than a quarter of that, since tiles
 * of the store that two parts touch are decoded twice. */
#define PART_BYTES ((uint64_t)4 << 20)

comet_status backward_parts(comet_model *m, const op *o, uint32_t *n_parts, const layout **part)
{
    const layout *l = input_layout(m, o);
    uint64_t dims[5], block;
    *n_parts = 0;
    *part = l;
    if (layout_dims(l, dims) != 4 || layout_describe(l, &block) == ORDER_OTHER)
        return COMET_OK;
    const uint64_t bytes = layout_bytes(l);
    *n_parts = 1;
    for (uint32_t n = 2; n <= m->params.batch && *n_parts * PART_BYTES < bytes && bytes / n >= PART_BYTES / 4; n++)
        if (m->params.batch % n == 0)
            *n_parts = n;
    return layout_resized(m->backend, l, dims[0] / *n_parts, dims[1], part);
}

/* The backward of silu reads its input, those of the others their outputs. */
comet_status activation_prepare(comet_model *m, op *o)
{
    const layout *data = input_layout(m, o);
    set_output_layout(m, o, data);
    TRY(kernel_activation_forward(m->backend, o->layer->op, data, &o->forward));
    if (o->type->keeps_input)
        TRY(backward_parts(m, o, &o->n_parts, &data));
    return m->params.inference ? COMET_OK : kernel_activation_backward(m->backend, o->layer->op, data, &o->backward_data);
}

/* torch divides such a window by the part of it within the padding, which oneDNN does not offer. */
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

/* Bits that the number of an element within the window takes; 0 where the indices of max pooling are not bytes. */
static uint32_t window_bits(const comet_layer *l)
{
    uint32_t bits = 1;
    while (bits < 8 && (1u << bits) < l->kernel[0] * l->kernel[1])
        bits++;
    return bits < 8 ? bits : 0;
}

comet_status pool_prepare(comet_model *m, op *o)
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
    o->workspace.layout = kernel_layout(o->forward, ARG_WORKSPACE);
    o->workspace.class_ = s.max ? COMET_SLOT_INDEX : COMET_SLOT_OTHER;
    o->workspace.index_bits = s.max ? window_bits(l) : 0;
    return m->params.inference ? COMET_OK : kernel_pool_backward(m->backend, &s, o->forward, &o->backward_data);
}

comet_status lrn_prepare(comet_model *m, op *o)
{
    const layout *data = input_layout(m, o);
    set_output_layout(m, o, data);
    TRY(kernel_lrn_forward(m->backend, o->layer, data, &o->forward));
    o->workspace.layout = kernel_layout(o->forward, ARG_WORKSPACE);
    o->workspace.class_ = COMET_SLOT_OTHER;
    return m->params.inference ? COMET_OK : kernel_lrn_backward(m->backend, o->layer, o->forward, &o->backward_data);
}

/* Planes are first brought into plain order, in which flattened rows lie the same way. The type may change, too. */
static comet_status reorder_prepare(comet_model *m, op *o)
{
    const layout *from = input_layout(m, o), *to = m->values[o->output].layout;
    uint64_t dims[5];
    const comet_dtype type = layout_type(to);
    if (layout_dims(from, dims) != layout_dims(to, dims))
        TRY(graph_plain_like(m, from, &to));
    TRY(layout_typed(m->backend, to, type, &to));
    TRY(kernel_reorder(m->backend, from, to, &o->forward));
    return m->params.inference ? COMET_OK : kernel_reorder(m->backend, to, from, &o->backward_data);
}

static comet_status reorder_backward(comet_model *m, op *o)
{
    const kernel_args args = {.at = {[ARG_SRC] = arena_at(&m->arena, o->buffers.diff),
                                     [ARG_DST] = arena_at(&m->arena, o->buffers.deliveries[0].write),
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_backward)}};
    return kernel_run(o->backward_data, &args);
}

const op_type op_type_reorder = {
    .name = "change of layout", .prepare = reorder_prepare, .forward = single_forward, .backward = reorder_backward};
