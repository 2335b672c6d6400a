/*
 * See onnx_graph.h. What the operators mean: onnx/docs/Operators.md, at opset 13.
 *
 * Pools whose last window is not full get padding at the end instead of ceil_mode, whose meaning differs between runtimes: as
 * much as that window lacks. Maxima ignore padding; averages without padding of their own count elements of the image only, as
 * torch does, and a model has no averages with both.
 */
#include "train/files/onnx_graph.h"

#include <stdio.h>
#include <string.h>

/* Field numbers in onnx.proto. */
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT = 2, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 }; /* of attributes */
enum {
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_ELEMENT = 1,
    TENSOR_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2
};
/* A name and a suffix. */
enum { NAME_BYTES = COMET_MAX_LAYER_NAME + 16 };
/* No layer's name has a slash. */
static const char zero[] = "constant/0", six[] = "constant/6";

typedef struct value_name {
    char text[NAME_BYTES];
} value_name;

static value_name name_with(const comet_layer *layer, const char *suffix)
{
    value_name name;
    snprintf(name.text, sizeof name.text, "%s%s", layer->name, suffix);
    return name;
}

/* What the graph calls a value. Dropout passes its input on. */
static value_name name_of(const comet_net *net, uint32_t value)
{
    while (comet_net_layer(net, value)->op == COMET_OP_DROPOUT && value + 1 < comet_net_n_values(net))
        value = comet_net_layer(net, value)->inputs[0];
    if (value == 0)
        return (value_name){"input"};
    if (value + 1 == comet_net_n_values(net))
        return (value_name){"scores"};
    return name_with(comet_net_layer(net, value), "/out");
}

/* ---- attributes ---- */

static protobuf attribute(const char *name, int type)
{
    protobuf a = {0};
    protobuf_put_text(&a, ATTRIBUTE_NAME, name);
    protobuf_put_int(&a, ATTRIBUTE_TYPE, type);
    return a;
}

static void put_int(protobuf *node, const char *name, int64_t value)
{
    protobuf a = attribute(name, TYPE_INT);
    protobuf_put_int(&a, ATTRIBUTE_INT, value);
    protobuf_put_message(node, NODE_ATTRIBUTE, &a);
}

static void put_float(protobuf *node, const char *name, float value)
{
    protobuf a = attribute(name, TYPE_FLOAT);
    protobuf_put_float(&a, ATTRIBUTE_FLOAT, value);
    protobuf_put_message(node, NODE_ATTRIBUTE, &a);
}

static void put_ints(protobuf *node, const char *name, const int64_t *values, size_t n)
{
    protobuf a = attribute(name, TYPE_INTS);
    for (size_t i = 0; i < n; i++)
        protobuf_put_int(&a, ATTRIBUTE_INTS, values[i]);
    protobuf_put_message(node, NODE_ATTRIBUTE, &a);
}

static void put_pair(protobuf *node, const char *name, const uint32_t sides[2])
{
    const int64_t values[2] = {sides[0], sides[1]};
    put_ints(node, name, values, 2);
}

/* ---- nodes ---- */

static protobuf begin_node(const char *operator_name, const char *name)
{
    protobuf node = {0};
    protobuf_put_text(&node, NODE_OPERATOR, operator_name);
    protobuf_put_text(&node, NODE_NAME, name);
    return node;
}

static void put_input(protobuf *node, value_name name)
{
    protobuf_put_text(node, NODE_INPUT, name.text);
}

/* The inputs of the layer, and its result. */
static void put_ends(protobuf *node, const comet_net *net, uint32_t value)
{
    const comet_layer *layer = comet_net_layer(net, value);
    for (uint32_t i = 0; i < layer->n_inputs; i++)
        put_input(node, name_of(net, layer->inputs[i]));
    protobuf_put_text(node, NODE_OUTPUT, name_of(net, value).text);
}

static void put_window(protobuf *node, const comet_layer *layer)
{
    put_pair(node, "kernel_shape", layer->kernel);
    put_pair(node, "strides", layer->stride);
}

static void put_conv(protobuf *node, const comet_layer *layer)
{
    const int64_t pads[4] = {layer->padding[0], layer->padding[1], layer->padding[0], layer->padding[1]};
    put_input(node, name_with(layer, ".weight"));
    if (layer->bias)
        put_input(node, name_with(layer, ".bias"));
    put_window(node, layer);
    put_ints(node, "pads", pads, 4);
    put_pair(node, "dilations", layer->dilation);
    put_int(node, "group", layer->groups);
}

static void put_linear(protobuf *node, const comet_layer *layer)
{
    put_input(node, name_with(layer, ".weight"));
    if (layer->bias)
        put_input(node, name_with(layer, ".bias"));
    put_int(node, "transB", 1);
}

static void put_batch_norm(protobuf *node, const comet_layer *layer)
{
    static const char *const parts[] = {".weight", ".bias", ".running_mean", ".running_var"};
    for (size_t i = 0; i < 4; i++)
        put_input(node, name_with(layer, parts[i]));
    put_float(node, "epsilon", layer->eps);
}

static void put_pool(protobuf *node, const comet_net *net, uint32_t value)
{
    const comet_layer *layer = comet_net_layer(net, value);
    const comet_shape in = comet_net_shape(net, layer->inputs[0]), out = comet_net_shape(net, value);
    const int64_t sides[2] = {in.height, in.width}, windows[2] = {out.height, out.width};
    int64_t pads[4];
    bool beyond = false;
    for (int i = 0; i < 2; i++) {
        const int64_t reach = (windows[i] - 1) * layer->stride[i] + layer->kernel[i];
        const int64_t lacks = reach - sides[i] - 2 * (int64_t)layer->padding[i];
        beyond = beyond || lacks > 0;
        pads[i] = layer->padding[i];
        pads[2 + i] = layer->padding[i] + (lacks > 0 ? lacks : 0);
    }
    put_window(node, layer);
    put_ints(node, "pads", pads, 4);
    if (layer->op == COMET_OP_AVG_POOL)
        put_int(node, "count_include_pad", beyond ? 0 : 1);
}

static void put_lrn(protobuf *node, const comet_layer *layer)
{
    put_float(node, "alpha", layer->lrn_alpha);
    put_float(node, "beta", layer->lrn_beta);
    put_float(node, "bias", layer->lrn_k);
    put_int(node, "size", layer->lrn_size);
}

static const char *operator_of(comet_op op)
{
    switch (op) {
    case COMET_OP_CONV: return "Conv";
    case COMET_OP_LINEAR: return "Gemm";
    case COMET_OP_BATCH_NORM: return "BatchNormalization";
    case COMET_OP_RELU: return "Relu";
    case COMET_OP_RELU6: return "Clip";
    case COMET_OP_SILU:
    case COMET_OP_MULTIPLY: return "Mul";
    case COMET_OP_SIGMOID: return "Sigmoid";
    case COMET_OP_MAX_POOL: return "MaxPool";
    case COMET_OP_AVG_POOL: return "AveragePool";
    case COMET_OP_GLOBAL_AVG_POOL: return "GlobalAveragePool";
    case COMET_OP_LRN: return "LRN";
    case COMET_OP_ADD: return "Add";
    case COMET_OP_CONCAT: return "Concat";
    case COMET_OP_FLATTEN: return "Flatten";
    case COMET_OP_DROPOUT:
    case COMET_OP_INPUT:
    case COMET_N_OPS: break;
    }
    return "Identity"; /* a dropout at the end */
}

static void put_sigmoid_of_silu(protobuf *graph, const comet_net *net, const comet_layer *layer)
{
    const value_name name = name_with(layer, "/sigmoid");
    protobuf node = begin_node("Sigmoid", name.text);
    put_input(&node, name_of(net, layer->inputs[0]));
    protobuf_put_text(&node, NODE_OUTPUT, name.text);
    protobuf_put_message(graph, ONNX_GRAPH_NODE, &node);
}

static void put_node(protobuf *graph, const comet_net *net, uint32_t value)
{
    const comet_layer *layer = comet_net_layer(net, value);
    if (layer->op == COMET_OP_SILU)
        put_sigmoid_of_silu(graph, net, layer);
    protobuf node = begin_node(operator_of(layer->op), layer->name);
    put_ends(&node, net, value);
    switch (layer->op) {
    case COMET_OP_CONV: put_conv(&node, layer); break;
    case COMET_OP_LINEAR: put_linear(&node, layer); break;
    case COMET_OP_BATCH_NORM: put_batch_norm(&node, layer); break;
    case COMET_OP_RELU6:
        protobuf_put_text(&node, NODE_INPUT, zero);
        protobuf_put_text(&node, NODE_INPUT, six);
        break;
    case COMET_OP_SILU: put_input(&node, name_with(layer, "/sigmoid")); break;
    case COMET_OP_MAX_POOL:
    case COMET_OP_AVG_POOL: put_pool(&node, net, value); break;
    case COMET_OP_LRN: put_lrn(&node, layer); break;
    case COMET_OP_CONCAT:
    case COMET_OP_FLATTEN: put_int(&node, "axis", 1); break;
    default: break;
    }
    protobuf_put_message(graph, ONNX_GRAPH_NODE, &node);
}

static void put_constant(protobuf *graph, const char *name, float number)
{
    protobuf t = {0};
    protobuf_put_int(&t, ONNX_TENSOR_TYPE, ONNX_FLOAT);
    protobuf_put_text(&t, ONNX_TENSOR_NAME, name);
    protobuf_put_bytes(&t, ONNX_TENSOR_RAW, &number, sizeof number);
    protobuf_put_message(graph, ONNX_GRAPH_INITIALIZER, &t);
}

void onnx_graph_put_nodes(protobuf *graph, const comet_net *net)
{
    const uint32_t n = comet_net_n_values(net);
    bool bounded = false;
    protobuf_put_text(graph, ONNX_GRAPH_NAME, comet_net_name(net));
    for (uint32_t v = 1; v < n; v++) {
        const comet_layer *layer = comet_net_layer(net, v);
        bounded = bounded || layer->op == COMET_OP_RELU6;
        if (layer->op != COMET_OP_DROPOUT || v + 1 == n)
            put_node(graph, net, v);
    }
    if (bounded) {
        put_constant(graph, zero, 0);
        put_constant(graph, six, 6);
    }
}

/* ---- values ---- */

static void put_dim(protobuf *shape, int64_t value, const char *parameter)
{
    protobuf dim = {0};
    if (parameter)
        protobuf_put_text(&dim, DIM_PARAM, parameter);
    else
        protobuf_put_int(&dim, DIM_VALUE, value);
    protobuf_put_message(shape, SHAPE_DIM, &dim);
}

static void put_value(protobuf *graph, uint32_t field, const char *name, comet_shape s)
{
    protobuf value = {0}, type = {0}, tensor = {0}, shape = {0};
    put_dim(&shape, 0, "batch");
    put_dim(&shape, s.channels, NULL);
    if (!s.flat) {
        put_dim(&shape, s.height, NULL);
        put_dim(&shape, s.width, NULL);
    }
    protobuf_put_int(&tensor, TENSOR_ELEMENT, ONNX_FLOAT);
    protobuf_put_message(&tensor, TENSOR_SHAPE, &shape);
    protobuf_put_message(&type, TYPE_TENSOR, &tensor);
    protobuf_put_text(&value, VALUE_NAME, name);
    protobuf_put_message(&value, VALUE_TYPE, &type);
    protobuf_put_message(graph, field, &value);
}

void onnx_graph_put_values(protobuf *graph, const comet_net *net)
{
    const uint32_t last = comet_net_n_values(net) - 1;
    put_value(graph, ONNX_GRAPH_INPUT, name_of(net, 0).text, comet_net_shape(net, 0));
    put_value(graph, ONNX_GRAPH_OUTPUT, name_of(net, last).text, comet_net_shape(net, last));
    for (uint32_t v = 1; v < last; v++) {
        const comet_layer *layer = comet_net_layer(net, v);
        if (layer->op == COMET_OP_SILU)
            put_value(graph, ONNX_GRAPH_VALUE, name_with(layer, "/sigmoid").text, comet_net_shape(net, v));
        if (layer->op != COMET_OP_DROPOUT)
            put_value(graph, ONNX_GRAPH_VALUE, name_of(net, v).text, comet_net_shape(net, v));
    }
}
