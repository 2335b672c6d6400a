/* Sizes of nets; see net_size.h. */
#include "train/net_size.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t elements(comet_shape s)
{
    return (uint64_t)s.channels * s.height * s.width;
}

net_size layer_size(const comet_net *net, uint32_t value)
{
    const comet_layer *layer = comet_net_layer(net, value);
    const comet_shape out = comet_net_shape(net, value);
    const uint64_t bias = layer->bias ? layer->out_channels : 0;
    uint64_t taps; /* weights in the sum of one output element */
    switch (layer->op) {
    case COMET_OP_CONV:
        taps = (uint64_t)comet_net_shape(net, layer->inputs[0]).channels / layer->groups * layer->kernel[0] * layer->kernel[1];
        break;
    case COMET_OP_LINEAR: taps = comet_net_shape(net, layer->inputs[0]).channels; break;
    case COMET_OP_BATCH_NORM: return (net_size){2 * (uint64_t)out.channels, 0};
    default: return (net_size){0, 0};
    }
    return (net_size){taps * layer->out_channels + bias, taps * elements(out)};
}

static uint64_t add_held(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

net_size whole_size(const comet_net *net)
{
    net_size sum = {0, 0};
    for (uint32_t v = 1; v < comet_net_n_values(net); v++) {
        const net_size s = layer_size(net, v);
        sum.parameters = add_held(sum.parameters, s.parameters);
        sum.multiply_adds = add_held(sum.multiply_adds, s.multiply_adds);
    }
    return sum;
}

const char *count_text(uint64_t count, char *text)
{
    static const char prefixes[] = "kMGTPE";
    double scaled = (double)count / 1000;
    size_t i = 0;
    if (count < 1000) {
        snprintf(text, COUNT_TEXT_BYTES, "%" PRIu64, count);
        return text;
    }
    for (; scaled >= 999.995 && prefixes[i + 1]; i++)
        scaled /= 1000;
    snprintf(text, COUNT_TEXT_BYTES, "%.2f %c", scaled, prefixes[i]);
    return text;
}
