/*
 * Trains a built-in net on batches that this program makes, with compressed activations.
 *
 * Each image is grey noise with a coloured square in it; the class is the colour. Replace make_batch by your own data.
 * Exits 0 if the loss fell.
 */
#include <comet/figures.h>
#include <comet/model.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 16, SQUARE = 6, PIXELS = SIDE * SIDE, CLASSES = 4, BATCH = 32, STEPS = 60 };

static const float COLOURS[CLASSES][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}}; /* red, green, blue, yellow */

static float images[BATCH * 3 * PIXELS]; /* image after image, in each the planes of red, green and blue */
static uint32_t labels[BATCH];

static uint32_t draw(uint32_t n) /* a number below n; the same numbers in every run */
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

static void make_batch(void)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        const uint32_t left = draw(SIDE - SQUARE), top = draw(SIDE - SQUARE);
        labels[i] = draw(CLASSES);
        for (uint32_t pixel = 0; pixel < PIXELS; pixel++) {
            const float noise = (float)draw(1000) / 1000.0f - 0.5f;
            const int in_square = pixel % SIDE - left < SQUARE && pixel / SIDE - top < SQUARE; /* unsigned: no lower test */
            for (uint32_t c = 0; c < 3; c++)
                images[(i * 3 + c) * PIXELS + pixel] = noise + (in_square ? COLOURS[labels[i]][c] : 0.0f);
        }
    }
}

static comet_status train(comet_model *model, double *first_loss, double *last_loss)
{
    comet_scores scores = {0};
    for (uint64_t step = 0; step < STEPS; step++) {
        make_batch();
        const comet_status status = comet_model_step(model, images, labels, step, 0.02, &scores); /* 0.02: learning rate */
        if (status != COMET_OK)
            return status;
        *first_loss = step == 0 ? scores.loss : *first_loss;
        if (step % 20 == 0 || step + 1 == STEPS)
            printf("step %2d: loss %.4f, %u of %d right\n", (int)step, scores.loss, scores.n_top1, (int)BATCH);
    }
    *last_loss = scores.loss;
    return COMET_OK;
}

/* Tests the net on a batch that it has not seen, and prints what compression has done. */
static comet_status describe(comet_model *model)
{
    comet_scores scores = {0};
    comet_memory memory;
    comet_compression_figures figures;
    comet_memory_init(&memory);
    comet_compression_figures_init(&figures);
    make_batch();
    comet_status status = comet_model_evaluate(model, images, labels, BATCH, &scores);
    if (status == COMET_OK)
        status = comet_model_describe_memory(model, &memory);
    if (status == COMET_OK)
        status = comet_model_describe_compression(model, &figures);
    if (status != COMET_OK)
        return status;
    printf("accuracy on new images: %.0f %%\n", 100.0 * scores.n_top1 / scores.n_valid);
    printf("activations: %.1f MiB without compression, at most %.1f MiB held\n", (double)memory.saved_reference / 1048576.0,
           (double)memory.saved / 1048576.0);
    printf("activations in the last step: ratio %.1f\n", figures.ratio);
    return COMET_OK;
}

int main(void)
{
    comet_net *net = NULL;
    comet_model *model = NULL;
    comet_model_params params;
    double first_loss = 0, last_loss = 0;
    comet_model_params_init(&params);
    params.batch = BATCH;
    params.compression.mode = COMET_COMPRESS_AUTO; /* as `comet train` does; the library's own default is OFF */
    comet_status status = comet_net_zoo(&net, "resnet20", 3, SIDE, CLASSES);
    if (status == COMET_OK)
        status = comet_model_create(&model, net, &params);
    if (status == COMET_OK)
        status = train(model, &first_loss, &last_loss);
    if (status == COMET_OK)
        status = describe(model);
    if (status != COMET_OK)
        fprintf(stderr, "train_batches: %s\n", comet_last_error());
    comet_model_destroy(model);
    comet_net_destroy(net);
    return status == COMET_OK && last_loss < first_loss ? EXIT_SUCCESS : EXIT_FAILURE;
}
