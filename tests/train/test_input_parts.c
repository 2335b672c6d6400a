/*
 * Operators that take their stored input in parts of the batch: the parts make the gradients of the whole, and only one of them
 * is decoded at a time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/graph/graph.h"
#include "train/run/plan.h"
#include "training.h"

enum { WHOLE = 32, PART = 2 }; /* batches; a batch of 2 is taken at once */

/* An image has 512 KiB after the first convolution. */
static const char parted[] = "net parted\n"
                             "input 3 64 64\n"
                             "a = conv out=32 kernel=3 pad=1\n"
                             "s = silu\n"
                             "g = global_avg_pool\n"
                             "c = conv out=32 kernel=1\n"
                             "h = sigmoid\n"
                             "w = multiply s h\n"
                             "p = global_avg_pool\n"
                             "flat = flatten\n"
                             "fc = linear out=5\n";

static const op *op_named(const comet_model *m, const char *layer)
{
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (strcmp(m->ops[i].layer->name, layer) == 0)
            return &m->ops[i];
    fail_because("no op of layer %s", layer);
    return NULL;
}

/* All gradients of one batch, from the k-th image of `data` on. */
static float *gradients_of(trial *t, const trial *data, uint32_t k, uint64_t *n)
{
    comet_scores scores;
    const uint64_t image = data->n_images / data->batch;
    assert_ok(comet_model_gradients(t->model, data->images + k * image, data->labels + k, 0, &scores));
    return tensors_read(t->model, COMET_TENSOR_GRADIENT, n);
}

/* The loss is a mean over images, and no layer joins them, so that the gradients are means, too. */
static void check_gradients(comet_compress_mode mode)
{
    comet_net *net = net_of(parted);
    comet_model_params p = trial_params(WHOLE), q = trial_params(PART);
    p.compression.mode = q.compression.mode = mode;
    trial whole = trial_make(net, &p), part = trial_make(net, &q);
    uint64_t n = 0;
    float *expected = gradients_of(&whole, &whole, 0, &n), *sum = need_malloc(n * sizeof *sum);
    memset(sum, 0, n * sizeof *sum);
    assert_true(op_named(whole.model, "s")->n_parts > 1 && op_named(whole.model, "w")->n_parts > 1);
    assert_true(op_named(part.model, "s")->n_parts == 1 && op_named(part.model, "w")->n_parts == 1);
    for (uint32_t k = 0; k < WHOLE; k += PART) {
        float *gradient = gradients_of(&part, &whole, k, &n);
        for (uint64_t i = 0; i < n; i++)
            sum[i] += gradient[i] * PART / WHOLE;
        free(gradient);
    }
    assert_true(norm_of(n, expected) > 0);
    assert_true(relative_distance(n, sum, expected) < 1e-5);
    free(expected);
    free(sum);
    trial_free(&whole);
    trial_free(&part);
    comet_net_destroy(net);
}

static void test_gradients(void **state)
{
    (void)state;
    check_gradients(COMET_COMPRESS_OFF);
    check_gradients(COMET_COMPRESS_LOSSLESS);
}

/* One part is decoded at a time, and the gradient of the input replaces that of the output. */
static void test_memory(void **state)
{
    static const char *const layers[] = {"s", "w"};
    (void)state;
    comet_net *net = net_of(parted);
    comet_model_params p = trial_params(WHOLE);
    p.compression.mode = COMET_COMPRESS_FAST;
    comet_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    assert_ok(plan_model(m, net, &p));
    for (size_t i = 0; i < COUNT_OF(layers); i++) {
        const op *o = op_named(m, layers[i]);
        const uint64_t bytes = layout_bytes(input_layout(m, o));
        assert_true(m->arena.buffers[o->buffers.rooms[0]].bytes < bytes / 2);
        assert_true(o->buffers.deliveries[0].write == o->buffers.diff);
    }
    comet_model_destroy(m); /* its memory was never taken */
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
