/*
 * Shapes: what a layer makes of the shapes of its inputs, and the sentences where they do not fit.
 *
 *   conv     (in + 2 pad - dilation (kernel - 1) - 1) / stride + 1, rounded down
 *   pool     the same with dilation 1, rounded down or, with ceil_mode, up; a last window must begin inside the input or the
 *            padding before it (torch's rule)
 *
 * Options are at most 2^24 and shapes at most NET_MAX_ELEMENTS, so that 64-bit sums and products below cannot overflow.
 */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "train/net/net_internal.h"

/* "layer2.0.bn2 (64 x 28 x 28)", for sentences. */
typedef struct label {
    char text[COMET_MAX_LAYER_NAME + 48];
} label;

static label label_of(const comet_net *net, uint32_t value)
{
    const comet_shape s = net->shapes[value];
    label l;
    if (s.flat)
        snprintf(l.text, sizeof l.text, "%s (%u, flat)", net->layers[value].name, s.channels);
    else
        snprintf(l.text, sizeof l.text, "%s (%u x %u x %u)", net->layers[value].name, s.channels, s.height, s.width);
    return l;
}

static bool shapes_equal(comet_shape a, comet_shape b)
{
    return a.channels == b.channels && a.height == b.height && a.width == b.width && a.flat == b.flat;
}

comet_status net_check_elements(const char *name, uint64_t channels, uint64_t height, uint64_t width)
{
    const uint64_t limit = NET_MAX_ELEMENTS;
    if (channels == 0 || height == 0 || width == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: its shape %llu x %llu x %llu is empty", name, (unsigned long long)channels,
                          (unsigned long long)height, (unsigned long long)width);
    if (channels > limit || height > limit / channels || width > limit / channels / height)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: its shape %llu x %llu x %llu has more than %llu elements", name,
                          (unsigned long long)channels, (unsigned long long)height, (unsigned long long)width,
                          (unsigned long long)limit);
    return COMET_OK;
}

static comet_status set_shape(const comet_layer *layer, comet_shape *shape, uint64_t channels, uint64_t height, uint64_t width)
{
    comet_status status = net_check_elements(layer->name, channels, height, width);
    if (status == COMET_OK)
        *shape = (comet_shape){(uint32_t)channels, (uint32_t)height, (uint32_t)width, false};
    return status;
}

/* ---- layers with one input ---- */

static comet_status keep_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    *shape = net->shapes[layer->inputs[0]];
    return COMET_OK;
}

static comet_status lrn_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    if (layer->lrn_size % 2 == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: size %u is even; it must be odd", layer->name, layer->lrn_size);
    return keep_shape(net, layer, shape);
}

/* Places of a window of `extent` along an axis; 0 if it does not fit once. */
static uint64_t count_windows(uint64_t in, uint64_t extent, uint64_t stride, uint64_t padding, bool round_up)
{
    const uint64_t room = in + 2 * padding + (round_up ? stride - 1 : 0);
    if (room < extent)
        return 0;
    uint64_t n = (room - extent) / stride + 1;
    if (round_up && (n - 1) * stride >= in + padding)
        n--;
    return n;
}

static comet_status check_groups(const comet_net *net, const comet_layer *layer, uint32_t in_channels)
{
    if (in_channels % layer->groups != 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %u groups do not divide the %u channels of its input %s", layer->name,
                          layer->groups, in_channels, label_of(net, layer->inputs[0]).text);
    if (layer->out_channels % layer->groups != 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %u groups do not divide its %u outputs", layer->name, layer->groups,
                          layer->out_channels);
    return COMET_OK;
}

static comet_status check_weights(const comet_layer *layer, uint64_t inputs, uint64_t window)
{
    const uint64_t limit = NET_MAX_ELEMENTS;
    if (inputs > limit / layer->out_channels || window > limit / layer->out_channels / inputs)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: its weights (%u x %llu x %llu) have more than %llu elements", layer->name,
                          layer->out_channels, (unsigned long long)inputs, (unsigned long long)window,
                          (unsigned long long)limit);
    return COMET_OK;
}

/* Height and width that a sliding window leaves. */
static comet_status slide(const comet_net *net, const comet_layer *layer, uint64_t plane[2])
{
    const comet_shape in = net->shapes[layer->inputs[0]];
    const uint64_t sides[2] = {in.height, in.width};
    for (int i = 0; i < 2; i++) {
        const uint64_t dilation = layer->op == COMET_OP_CONV ? layer->dilation[i] : 1;
        const uint64_t extent = dilation * (layer->kernel[i] - 1) + 1;
        plane[i] = count_windows(sides[i], extent, layer->stride[i], layer->padding[i], layer->ceil_mode);
    }
    if (plane[0] > 0 && plane[1] > 0)
        return COMET_OK;
    const bool dilated = layer->dilation[0] > 1 || layer->dilation[1] > 1;
    char dilation[48] = "";
    if (dilated)
        snprintf(dilation, sizeof dilation, " with dilation %u x %u", layer->dilation[0], layer->dilation[1]);
    return comet_fail(COMET_ERROR_ARGUMENT, "%s: kernel %u x %u%s is larger than its input %s padded by %u x %u", layer->name,
                      layer->kernel[0], layer->kernel[1], dilation, label_of(net, layer->inputs[0]).text, layer->padding[0],
                      layer->padding[1]);
}

static comet_status conv_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    const uint32_t in_channels = net->shapes[layer->inputs[0]].channels;
    uint64_t plane[2];
    comet_status status = check_groups(net, layer, in_channels);
    if (status == COMET_OK)
        status = check_weights(layer, in_channels / layer->groups, (uint64_t)layer->kernel[0] * layer->kernel[1]);
    if (status == COMET_OK)
        status = slide(net, layer, plane);
    if (status == COMET_OK)
        status = set_shape(layer, shape, layer->out_channels, plane[0], plane[1]);
    return status;
}

static comet_status linear_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    comet_status status = check_weights(layer, net->shapes[layer->inputs[0]].channels, 1);
    if (status == COMET_OK)
        *shape = (comet_shape){layer->out_channels, 1, 1, true};
    return status;
}

static comet_status pool_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    uint64_t plane[2];
    for (int i = 0; i < 2; i++)
        if (layer->padding[i] > layer->kernel[i] / 2)
            return comet_fail(COMET_ERROR_ARGUMENT, "%s: pad %u x %u is more than half of kernel %u x %u", layer->name,
                              layer->padding[0], layer->padding[1], layer->kernel[0], layer->kernel[1]);
    comet_status status = slide(net, layer, plane);
    if (status == COMET_OK)
        status = set_shape(layer, shape, net->shapes[layer->inputs[0]].channels, plane[0], plane[1]);
    return status;
}

static comet_status global_pool_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    *shape = (comet_shape){net->shapes[layer->inputs[0]].channels, 1, 1, false};
    return COMET_OK;
}

static comet_status flatten_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    const comet_shape in = net->shapes[layer->inputs[0]];
    *shape = (comet_shape){in.channels * in.height * in.width, 1, 1, true};
    return COMET_OK;
}

/* ---- layers with several ---- */

static comet_status add_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    const comet_shape first = net->shapes[layer->inputs[0]], second = net->shapes[layer->inputs[1]];
    if (!shapes_equal(first, second))
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: inputs %s and %s differ", layer->name,
                          label_of(net, layer->inputs[0]).text, label_of(net, layer->inputs[1]).text);
    *shape = first;
    return COMET_OK;
}

static comet_status multiply_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    const comet_shape first = net->shapes[layer->inputs[0]], second = net->shapes[layer->inputs[1]];
    const bool spread =
        !first.flat && !second.flat && second.channels == first.channels && second.height == 1 && second.width == 1;
    if (!spread && !shapes_equal(first, second))
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: inputs %s and %s differ, and the second is not %u x 1 x 1", layer->name,
                          label_of(net, layer->inputs[0]).text, label_of(net, layer->inputs[1]).text, first.channels);
    *shape = first;
    return COMET_OK;
}

static comet_status concat_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    comet_shape out = net->shapes[layer->inputs[0]];
    uint64_t channels = out.channels;
    for (uint32_t i = 1; i < layer->n_inputs; i++) {
        const comet_shape in = net->shapes[layer->inputs[i]];
        if (in.height != out.height || in.width != out.width || in.flat != out.flat)
            return comet_fail(COMET_ERROR_ARGUMENT, "%s: inputs %s and %s differ in more than channels", layer->name,
                              label_of(net, layer->inputs[0]).text, label_of(net, layer->inputs[i]).text);
        channels += in.channels;
    }
    comet_status status = net_check_elements(layer->name, channels, out.height, out.width);
    out.channels = (uint32_t)channels;
    if (status == COMET_OK)
        *shape = out;
    return status;
}

/* ---- all kinds ---- */

enum input_kind { ANY, PLANES, FLAT };

static const struct op_info {
    const char *name;
    uint32_t min_inputs, max_inputs;
    enum input_kind takes;
    comet_status (*shape)(const comet_net *net, const comet_layer *layer, comet_shape *shape);
} ops[COMET_N_OPS] = {
    [COMET_OP_INPUT] = {"input", 0, 0, ANY, NULL},
    [COMET_OP_CONV] = {"conv", 1, 1, PLANES, conv_shape},
    [COMET_OP_LINEAR] = {"linear", 1, 1, FLAT, linear_shape},
    [COMET_OP_BATCH_NORM] = {"batch_norm", 1, 1, ANY, keep_shape},
    [COMET_OP_RELU] = {"relu", 1, 1, ANY, keep_shape},
    [COMET_OP_RELU6] = {"relu6", 1, 1, ANY, keep_shape},
    [COMET_OP_SILU] = {"silu", 1, 1, ANY, keep_shape},
    [COMET_OP_SIGMOID] = {"sigmoid", 1, 1, ANY, keep_shape},
    [COMET_OP_MAX_POOL] = {"max_pool", 1, 1, PLANES, pool_shape},
    [COMET_OP_AVG_POOL] = {"avg_pool", 1, 1, PLANES, pool_shape},
    [COMET_OP_GLOBAL_AVG_POOL] = {"global_avg_pool", 1, 1, PLANES, global_pool_shape},
    [COMET_OP_LRN] = {"lrn", 1, 1, PLANES, lrn_shape},
    [COMET_OP_DROPOUT] = {"dropout", 1, 1, ANY, keep_shape},
    [COMET_OP_ADD] = {"add", 2, 2, ANY, add_shape},
    [COMET_OP_MULTIPLY] = {"multiply", 2, 2, ANY, multiply_shape},
    [COMET_OP_CONCAT] = {"concat", 2, COMET_MAX_INPUTS, ANY, concat_shape},
    [COMET_OP_FLATTEN] = {"flatten", 1, 1, PLANES, flatten_shape},
};

const char *comet_op_name(comet_op op)
{
    return (size_t)op < COMET_N_OPS ? ops[op].name : "unknown";
}

uint32_t net_min_inputs(comet_op op)
{
    return ops[op].min_inputs;
}

uint32_t net_max_inputs(comet_op op)
{
    return ops[op].max_inputs;
}

comet_status net_infer_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape)
{
    const struct op_info *op = &ops[layer->op];
    const bool flat = net->shapes[layer->inputs[0]].flat;
    if (op->takes == FLAT && !flat)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: its input %s is not flat; put a flatten layer before it", layer->name,
                          label_of(net, layer->inputs[0]).text);
    if (op->takes == PLANES && flat)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: its input %s is flat; %s takes channels x height x width", layer->name,
                          label_of(net, layer->inputs[0]).text, op->name);
    return op->shape(net, layer, shape);
}
