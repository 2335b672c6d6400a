/*
 * From a net to ops: which layers are fused, which layouts meet, what each op keeps for backward.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/graph/graph.h"

/* ---- growing arrays ---- */

static comet_status grow(void **items, uint32_t *capacity, uint32_t needed, size_t item_bytes)
{
    if (needed <= *capacity)
        return COMET_OK;
    const uint32_t larger = *capacity ? 2 * *capacity : 64;
    void *moved = realloc(*items, larger * item_bytes);
    if (!moved)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a graph of %u items", larger);
    *items = moved;
    *capacity = larger;
    return COMET_OK;
}

static comet_status add_value(comet_model *m, uint32_t *index)
{
    TRY(grow((void **)&m->values, &m->values_capacity, m->n_values + 1, sizeof *m->values));
    m->values[m->n_values] = (value){.root = m->n_values,
                                     .producer = NONE,
                                     .last_reader = NONE,
                                     .slot = COMET_NO_SLOT,
                                     .tensor = NONE,
                                     .whole = NO_BUFFER,
                                     .signs = NO_BUFFER,
                                     .first_backward = NONE,
                                     .last_backward = NONE,
                                     .buffer = NO_BUFFER};
    *index = m->n_values++;
    return COMET_OK;
}

static comet_status add_op(comet_model *m, const op_type *type, const comet_layer *layer, op **out)
{
    TRY(grow((void **)&m->ops, &m->ops_capacity, m->n_ops + 1, sizeof *m->ops));
    op *o = &m->ops[m->n_ops];
    *o = (op){.type = type,
              .layer = layer,
              .index = m->n_ops,
              .weight = NONE,
              .bias = NONE,
              .mean = NONE,
              .variance = NONE,
              .norm_slot = COMET_NO_SLOT,
              .norm_tensor = NONE,
              .norm_whole = NO_BUFFER,
              .norm_coarse = 1,
              .folded_into = NONE,
              .applied_by = NONE,
              .workspace = NO_BUFFER,
              .workspace_slot = COMET_NO_SLOT,
              .room_output = NO_BUFFER,
              .room_workspace = NO_BUFFER,
              .scratch_forward = NO_BUFFER,
              .scratch_weights = NO_BUFFER,
              .scratch_backward = NO_BUFFER,
              .weights_copy = NO_BUFFER,
              .fresh_weight = NO_BUFFER,
              .fresh_bias = NO_BUFFER,
              .gradient = NO_BUFFER,
              .part_gradient = NO_BUFFER,
              .mask_sums = NO_BUFFER,
              .diff_dst = NO_BUFFER,
              .diff = NO_BUFFER,
              .consumer = NONE,
              .pass = NONE};
    for (int i = 0; i < COMET_MAX_INPUTS; i++) {
        o->deliveries[i] = (delivery){NO_BUFFER, NO_BUFFER, NO_BUFFER, NO_BUFFER, false};
        o->rooms[i] = NO_BUFFER;
    }
    m->n_ops++;
    *out = o;
    return COMET_OK;
}

comet_status graph_add_parameter(comet_model *m, const parameter *p, uint32_t *index)
{
    TRY(grow((void **)&m->parameters, &m->parameters_capacity, m->n_parameters + 1, sizeof *m->parameters));
    uint64_t *block = p->learnt ? &m->n_learnt : &m->n_statistics;
    parameter *added = &m->parameters[m->n_parameters];
    *added = *p;
    added->n = layout_bytes(p->layout) / sizeof(float);
    added->offset = *block;
    *block += (added->n + 15) / 16 * 16; /* kernels like cache lines of their own */
    *index = m->n_parameters++;
    return COMET_OK;
}

comet_status graph_plain_like(comet_model *m, const layout *l, const layout **plain)
{
    uint64_t dims[5];
    const uint32_t n_dims = layout_dims(l, dims);
    return layout_plain(m->backend, n_dims, dims, plain);
}

/* ---- ops ---- */

enum { MAX_KEPT = 64 }; /* layers behind a flatten that are looked at */

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

static bool takes_relu(comet_op kind)
{
    return kind == COMET_OP_BATCH_NORM || kind == COMET_OP_CONV || kind == COMET_OP_LINEAR || kind == COMET_OP_ADD;
}

/* Is value v + 1 a relu of v that nothing else reads? Zoo and text files write a relu behind its layer. */
static bool relu_follows(const comet_net *net, uint32_t v)
{
    if (v + 1 >= comet_net_n_values(net) || !takes_relu(comet_net_layer(net, v)->op))
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

/* A copy of value v in the layout `wanted`. */
static comet_status add_reorder(comet_model *m, const comet_layer *layer, uint32_t v, const layout *wanted, uint32_t *out)
{
    op *o;
    TRY(add_value(m, out));
    TRY(add_op(m, &op_type_reorder, layer, &o));
    o->n_inputs = 1;
    o->inputs[0] = v;
    m->values[*out].layout = wanted;
    return finish_op(m, o, *out);
}

/* Does the reader take a flattened value in any order of its elements? */
static bool order_free(comet_op kind)
{
    return kind == COMET_OP_LINEAR || kind == COMET_OP_DROPOUT || kind == COMET_OP_RELU || kind == COMET_OP_RELU6 ||
           kind == COMET_OP_SILU || kind == COMET_OP_SIGMOID || kind == COMET_OP_FLATTEN;
}

/* Does a reader of value v count on the order of elements, or one that comes behind layers that keep it? */
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
        if (reads && !order_free(reader->op))
            return true;
        if (reads && reader->op != COMET_OP_LINEAR && i - v < MAX_KEPT)
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

/* Channels behind those of a value that does not fill its blocks would begin within one. */
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

/* Ops whose inputs must lie alike get copies of those that do not lie as the first does; or, where the shapes differ, all in
 * plain order. */
static comet_status conform_inputs(comet_model *m, const comet_layer *layer, uint32_t n, uint32_t *inputs)
{
    const layout *first = m->values[inputs[0]].layout;
    bool alike = true, same = layer->op != COMET_OP_CONCAT;
    for (uint32_t i = 0; i < n; i++) {
        const layout *lies = m->values[inputs[i]].layout;
        alike &= lie_alike(first, lies) && (layer->op != COMET_OP_CONCAT || fills_blocks(lies));
        same &= same_shape(first, lies);
    }
    for (uint32_t i = 0; i < n && !alike; i++) {
        const layout *lies = m->values[inputs[i]].layout, *wanted = first;
        if (!same)
            TRY(graph_plain_like(m, lies, &wanted));
        if (wanted != lies)
            TRY(add_reorder(m, layer, inputs[i], wanted, &inputs[i]));
    }
    return COMET_OK;
}

static comet_status conform_conv_input(comet_model *m, const comet_layer *layer, bool relu, uint32_t *input)
{
    const layout *lies = m->values[*input].layout, *wanted;
    TRY(conv_wanted_layout(m, layer, relu, lies, &wanted));
    return wanted == lies ? COMET_OK : add_reorder(m, layer, *input, wanted, input);
}

/* Batch normalisation must know its channels. */
static comet_status conform_norm_input(comet_model *m, const comet_layer *layer, uint32_t *input)
{
    const layout *lies = m->values[*input].layout, *plain;
    uint64_t block;
    if (layout_describe(lies, &block) != ORDER_OTHER)
        return COMET_OK;
    TRY(graph_plain_like(m, lies, &plain));
    return add_reorder(m, layer, *input, plain, input);
}

/* The op of value v; with a relu behind it fused, its output is v + 1. */
static comet_status add_layer(comet_model *m, uint32_t v, bool relu)
{
    const comet_layer *layer = comet_net_layer(m->net, v);
    uint32_t inputs[COMET_MAX_INPUTS] = {0};
    op *o;
    for (uint32_t i = 0; i < layer->n_inputs; i++)
        inputs[i] = m->values[layer->inputs[i]].root;
    if (layer->op == COMET_OP_ADD || layer->op == COMET_OP_CONCAT || layer->op == COMET_OP_MULTIPLY)
        TRY(conform_inputs(m, layer, layer->n_inputs, inputs));
    if (layer->op == COMET_OP_CONV)
        TRY(conform_conv_input(m, layer, relu, &inputs[0]));
    if (layer->op == COMET_OP_BATCH_NORM)
        TRY(conform_norm_input(m, layer, &inputs[0]));
    TRY(add_op(m, op_type_of(layer->op), layer, &o));
    o->n_inputs = layer->n_inputs;
    memcpy(o->inputs, inputs, sizeof inputs);
    o->relu = relu;
    return finish_op(m, o, relu ? v + 1 : v);
}

/* Scores must lie row by row. */
static comet_status order_output(comet_model *m)
{
    const uint32_t last = comet_net_n_values(m->net) - 1;
    const layout *plain;
    m->output = m->values[last].root;
    if (m->values[m->output].producer == NONE)
        return comet_fail(COMET_ERROR_ARGUMENT, "the net %s has no layers that compute anything", comet_net_name(m->net));
    TRY(graph_plain_like(m, m->values[m->output].layout, &plain));
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

static comet_status build_ops(comet_model *m)
{
    const uint32_t n = comet_net_n_values(m->net);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t index;
        TRY(add_value(m, &index));
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

/* ---- what backward needs ---- */

/* From the output back: which values lead to it. */
static void mark_leading(comet_model *m)
{
    m->values[m->output].leads = true;
    for (uint32_t i = m->n_ops; i-- > 0;)
        for (uint32_t j = 0; m->values[m->ops[i].output].leads && j < m->ops[i].n_inputs; j++)
            m->values[m->ops[i].inputs[j]].leads = true;
}

/* Gradients are needed of what depends on parameters and leads to the output; a layer that nobody reads gets none. */
static void mark_gradients(comet_model *m)
{
    mark_leading(m);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        bool needs = o->weight != NONE;
        for (uint32_t j = 0; j < o->n_inputs; j++)
            needs |= m->values[o->inputs[j]].needs_gradient;
        m->values[o->output].needs_gradient = needs;
    }
    for (uint32_t v = 0; v < m->n_values; v++)
        m->values[v].needs_gradient &= m->values[v].leads;
}

/* Op o reads value v in backward. */
static void keep(comet_model *m, const op *o, uint32_t v, const char *what, comet_slot_class class_, comet_exactness exactness)
{
    value *x = &m->values[v];
    if (!x->saved || class_ < x->saved_class) {
        x->saved_for = what;
        x->saved_class = class_;
    }
    if (!x->saved || exactness < x->exactness)
        x->exactness = exactness;
    x->saved = true;
    x->n_backward++;
    if (x->last_backward == NONE || o->index < x->last_backward)
        x->last_backward = o->index; /* backward goes down */
    if (x->first_backward == NONE || o->index > x->first_backward)
        x->first_backward = o->index;
}

/* Masks come last: what else reads the value decides whether masks are all that is read. */
static void mark_kept(comet_model *m)
{
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (!m->values[o->output].needs_gradient)
            continue;
        for (uint32_t j = 0; o->type->keeps_input && j < o->n_inputs; j++)
            keep(m, o, o->inputs[j], o->type->kept_as, o->type->kept_class, o->type->exactness);
        if (o->type->keeps_output)
            keep(m, o, o->output, o->type->kept_as, o->type->kept_class, o->type->exactness);
    }
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (!m->values[o->output].needs_gradient || !o->masks)
            continue;
        value *y = &m->values[o->output];
        y->masks_only = !y->saved;
        keep(m, o, o->output, "relu output", COMET_SLOT_ACTIVATION, COMET_SUPPORT);
    }
}

/* The output of batch norm follows from what it stores anyway: one elementwise pass in place of a stored tensor. */
static void mark_derived(comet_model *m)
{
    for (uint32_t v = 0; v < m->n_values; v++) {
        value *x = &m->values[v];
        x->derived = x->saved && x->producer != NONE && m->ops[x->producer].layer->op == COMET_OP_BATCH_NORM &&
                     m->ops[x->producer].type != &op_type_reorder && (m->coded || !m->params.no_recompute);
    }
}

comet_status graph_build(comet_model *m)
{
    TRY(build_ops(m));
    if (m->params.inference)
        return COMET_OK;
    mark_gradients(m);
    mark_kept(m);
    mark_derived(m);
    TRY(folded_find(m));
    TRY(saved_declare(m));
    return sample_find(m);
}
