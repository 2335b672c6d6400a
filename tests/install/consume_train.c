/* A program that uses an installed comet::train: a net of two layers learns to tell two images apart. */
#include <comet/train.h>
#include <stdio.h>

enum { PIXELS = 16, CLASSES = 2, STEPS = 20 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, comet_last_error());
    return 1;
}

static comet_status add(comet_net *net, comet_op op, const char *name, uint32_t input, uint32_t outputs)
{
    comet_layer layer;
    comet_layer_init(&layer, op, name);
    layer.n_inputs = 1;
    layer.inputs[0] = input;
    layer.out_channels = outputs;
    return comet_net_add(net, &layer, NULL);
}

int main(void)
{
    float images[2 * PIXELS];
    const uint32_t labels[2] = {0, 1};
    comet_net *net;
    comet_model *model;
    comet_model_params params;
    comet_scores first = {0}, last = {0};
    for (int i = 0; i < 2 * PIXELS; i++)
        images[i] = i < PIXELS ? 1.0f : -1.0f;
    if (comet_net_create(&net, "two", 1, 4, 4) != COMET_OK || add(net, COMET_OP_FLATTEN, "flatten", 0, 0) != COMET_OK ||
        add(net, COMET_OP_LINEAR, "fc", 1, CLASSES) != COMET_OK)
        return failed("net");
    comet_model_params_init(&params);
    params.batch = 2;
    if (comet_model_create(&model, net, &params) != COMET_OK)
        return failed("model");
    for (uint64_t step = 0; step < STEPS; step++) {
        if (comet_model_gradients(model, images, labels, step, &last) != COMET_OK ||
            comet_model_update(model, 0.1, step) != COMET_OK)
            return failed("step");
        if (step == 0)
            first = last;
    }
    printf("comet %s: loss %.3f, after %d steps %.3f\n", comet_version(), first.loss, (int)STEPS, last.loss);
    comet_model_destroy(model);
    comet_net_destroy(net);
    return last.loss < first.loss ? 0 : 1;
}
