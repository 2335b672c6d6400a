/* From a net to ops: which layers are fused, and where layouts are changed. */
#include "train/run/build.h"

#include <string.h>

#include "train/graph/graph.h"
#include "train/ops/ops.h"

enum { MAX_KEPT = 64 }; /* layers after a flatten that are looked at */

static uint32_t count_readers(const comet_net *net, uint32_t v)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < comet_net_n_values(net); i++) {
        const comet_layer *l = comet_net_layer(net, i);
        for (uint32_t j = 0; j < l->n_inputs; j++)
            n += l->inputs[j] == v;
    }
    return n;
}

/* Is value v + 1 a relu of v that nothing else reads? Zoo and text files write a relu after its layer. */
static bool relu_follows(const comet_net *net, uint32_t v)
{
    if (v + 1 >= comet_net_n_values(net) || !op_type_of(comet_net_layer(net, v)->op)->takes_relu)
        return false;
    const comet_layer *next = comet_net_layer(net, v + 1);
    return next->op == COMET_OP_RELU && next->inputs[0] == v && count_readers(net, v) == 1;
}

static comet_status finish_op(comet_model *m, op *o, uint32_t output)
{
    o->output = output;
    m->values[output].producer = o->index;
    for (uint32_t i = 0; i < o->n_inputs; i++)
        m->values[o->inputs[i]].last_reader = o->index;
    return o->type->prepare(m, o);
}

/* A copy of value v in the layout `needed`. */
static comet_status add_reorder(comet_model *m, const comet_layer *layer, uint32_t v, const layout *needed, uint32_t *out)
{
    op *o;
    TRY(graph_add_value(m, out));
    TRY(graph_add_op(m, &op_type_reorder, layer, &o));
    o->n_inputs = 1;
    o->inputs[0] = v;
    m->values[*out].layout = needed;
    return finish_op(m, o, *out);
}

/* Does a reader of value v count on the order of elements, or one that comes after layers that keep it? */
static bool order_matters(const comet_net *net, uint32_t v)
{
    bool kept[MAX_KEPT] = {false}; /* values in the same order as v, by their distance */
    const uint32_t n = comet_net_n_values(net);
    kept[0] = true;
    for (uint32_t i = v + 1; i < n; i++) {
        const comet_layer *reader = comet_net_layer(net, i);
        bool reads = false;
        for (uint32_t j = 0; j < reader->n_inputs; j++)
            reads |= reader->inputs[j] >= v && reader->inputs[j] - v < MAX_KEPT && kept[reader->inputs[j] - v];
        if (reads && !op_type_of(reader->op)->any_order)
            return true;
        if (reads && op_type_of(reader->op)->keeps_order && i - v < MAX_KEPT)
            kept[i - v] = true;
    }
    return false;
}

/* Flatten is a view; where a reader counts on the order of elements they are put in order first, as rows. */
static comet_status add_flatten(comet_model *m, uint32_t v)
{
    const comet_layer *layer = comet_net_layer(m->net, v);
    uint32_t root = m->values[layer->inputs[0]].root;
    if (order_matters(m->net, v)) {
        const uint64_t dims[2] = {m->params.batch, comet_net_shape(m->net, v).channels};
        const layout *rows;
        TRY(layout_plain(m->backend, 2, dims, &rows));
        TRY(layout_typed(m->backend, rows, layout_type(m->values[root].layout), &rows));
        TRY(add_reorder(m, layer, root, rows, &root));
    }
    m->values[v].root = root;
    return COMET_OK;
}

static bool lie_alike(const layout *a, const layout *b)
{
    uint64_t block, other_block;
    const layout_order order = layout_describe(a, &block);
    return a == b || (order != ORDER_OTHER && layout_describe(b, &other_block) == order && other_block == block);
}

/* Channels after those of a value that does not fill its blocks would begin within one. */
static bool fills_blocks(const layout *l)
{
    uint64_t dims[5], block;
    layout_dims(l, dims);
    return layout_describe(l, &block) != ORDER_OTHER && dims[1] % block == 0;
}

static bool same_shape(const layout *a, const layout *b)
{
    uint64_t dims[5], other[5];
    const uint32_t n = layout_dims(a, dims);
    return layout_dims(b, other) == n && memcmp(dims, other, n * sizeof *dims) == 0;
}

/* Inputs of an op that reads several must have one type: that of the first. */
static comet_status conform_types(comet_model *m, const comet_layer *layer, uint32_t n, uint32_t *inputs)
{
    const comet_dtype type = layout_type(m->values[inputs[0]].layout);
    for (uint32_t i = 1; i < n; i++) {
        const layout *lies = m->values[inputs[i]].layout, *needed;
        TRY(layout_typed(m->backend, lies, type, &needed));
        if (needed != lies)
            TRY(add_reorder(m, layer, inputs[i], needed, &inputs[i]));
    }
    return COMET_OK;
}

/* Ops whose inputs must lie alike get copies of those that do not lie as the first does; or, where the shapes differ, all in
 * plain order. */
static comet_status conform_inputs(comet_model *m, const comet_layer *layer, uint32_t n, uint32_t *inputs)
{
    const layout *first = m->values[inputs[0]].layout;
    const bool joins = op_type_of(layer->op)->joins_channels;
    bool alike = true, same = !joins;
    TRY(conform_types(m, layer, n, inputs));
    for (uint32_t i = 0; i < n; i++) {
        const layout *lies = m->values[inputs[i]].layout;
        alike &= lie_alike(first, lies) && (!joins || fills_blocks(lies));
        same &= same_shape(first, lies);
    }
    for (uint32_t i = 0; i < n && !alike; i++) {
        const layout *lies = m->values[inputs[i]].layout, *needed = first;
        if (!same)
            TRY(graph_plain_like(m, lies, &needed));
        if (needed != lies)
            TRY(add_reorder(m, layer, inputs[i], needed, &inputs[i]));
    }
    return COMET_OK;
}

/* A copy of the input in the layout that the op needs, where that differs from how it lies. */
static comet_status conform_input(comet_model *m, const comet_layer *layer, bool relu, uint32_t *input)
{
    const layout *lies = m->values[*input].layout, *needed;
    TRY(op_type_of(layer->op)->input_layout(m, layer, relu, lies, &needed));
    return needed == lies ? COMET_OK : add_reorder(m, layer, *input, needed, input);
}

/* The op of value v; with a relu fused into it, its output is v + 1. */
static comet_status add_layer(comet_model *m, uint32_t v, bool relu)
{
    const comet_layer *layer = comet_net_layer(m->net, v);
    const op_type *type = op_type_of(layer->op);
    uint32_t inputs[COMET_MAX_INPUTS] = {0};
    op *o;
    for (uint32_t i = 0; i < layer->n_inputs; i++)
        inputs[i] = m->values[layer->inputs[i]].root;
    if (type->inputs_alike)
        TRY(conform_inputs(m, layer, layer->n_inputs, inputs));
    if (type->input_layout)
        TRY(conform_input(m, layer, relu, &inputs[0]));
    TRY(graph_add_op(m, type, layer, &o));
    o->n_inputs = layer->n_inputs;
    memcpy(o->inputs, inputs, sizeof inputs);
    o->relu = relu;
    return finish_op(m, o, relu ? v + 1 : v);
}

/* Scores must be floats and lie row by row. */
static comet_status order_output(comet_model *m)
{
    const uint32_t last = comet_net_n_values(m->net) - 1;
    const layout *plain;
    m->output = m->values[last].root;
    if (m->values[m->output].producer == NONE)
        return comet_fail(COMET_ERROR_ARGUMENT, "the net %s has no layers that compute anything", comet_net_name(m->net));
    TRY(graph_plain_like(m, m->values[m->output].layout, &plain));
    TRY(layout_typed(m->backend, plain, COMET_DTYPE_F32, &plain));
    if (plain != m->values[m->output].layout)
        TRY(add_reorder(m, comet_net_layer(m->net, last), m->output, plain, &m->output));
    return COMET_OK;
}

static comet_status add_input(comet_model *m)
{
    const comet_shape s = comet_net_shape(m->net, 0);
    const uint64_t dims[4] = {m->params.batch, s.channels, s.height, s.width};
    return layout_plain(m->backend, 4, dims, &m->values[0].layout);
}

comet_status graph_build(comet_model *m)
{
    const uint32_t n = comet_net_n_values(m->net);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t index;
        TRY(graph_add_value(m, &index));
    }
    TRY(add_input(m));
    for (uint32_t v = 1; v < n; v++) {
        if (comet_net_layer(m->net, v)->op == COMET_OP_FLATTEN) {
            TRY(add_flatten(m, v));
            continue;
        }
        const bool relu = relu_follows(m->net, v);
        TRY(add_layer(m, v, relu));
        v += relu;
    }
    return order_output(m);
}
