/* When a net's gradients are ready in backward; see comet/scaling.h. */
#include "base/status.h"
#include "comet/scaling.h"

static double values_of(comet_shape s)
{
    return (double)s.channels * s.height * s.width;
}

/* Weights in the sum of one output, for layers that multiply; 0 for others. */
static double taps_of(const comet_net *net, const comet_layer *layer)
{
    const comet_shape in = comet_net_shape(net, layer->inputs[0]);
    const uint32_t read = layer->op == COMET_OP_CONV ? in.channels / layer->groups : 0; /* channels, by each output */
    if (layer->op == COMET_OP_CONV)
        return (double)read * layer->kernel[0] * layer->kernel[1];
    return layer->op == COMET_OP_LINEAR ? values_of(in) : 0;
}

static comet_timeline_layer layer_of(const comet_net *net, uint32_t value)
{
    const comet_layer *layer = comet_net_layer(net, value);
    const comet_shape out = comet_net_shape(net, value);
    const double taps = taps_of(net, layer), passes = layer->inputs[0] == 0 ? 1 : 2;
    comet_timeline_layer l = {.norm = layer->op == COMET_OP_BATCH_NORM};
    if (taps > 0) {
        l.seconds = passes * taps * values_of(out);
        l.parameters = (uint64_t)taps * layer->out_channels + (layer->bias ? layer->out_channels : 0);
    } else if (layer->op != COMET_OP_FLATTEN) {
        l.seconds = COMET_TIMELINE_VALUE * values_of(out);
        l.parameters = l.norm ? 2 * (uint64_t)out.channels : 0;
    }
    return l;
}

comet_status comet_timeline_of_net(const comet_net *net, comet_timeline_layer *layers, size_t *n_layers)
{
    double sum = 0;
    size_t n = 0;
    if (!net || !layers || !n_layers)
        return comet_fail(COMET_ERROR_ARGUMENT, "a timeline needs a net and room for its layers");
    for (uint32_t v = comet_net_n_values(net); v-- > 1;) {
        layers[n] = layer_of(net, v);
        sum += layers[n++].seconds;
    }
    if (!(sum > 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "net %s has no layer that computes", comet_net_name(net));
    for (size_t i = 0; i < n; i++)
        layers[i].seconds /= sum;
    *n_layers = n;
    return COMET_OK;
}
