/* Batch norms folded into the backward pass of the 1 x 1 convolution before them: gradients are those of the two layers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describing.h"
#include "train/assess/assess.h"
#include "train/ops/ops.h"
#include "training.h"

/* The end of a bottleneck, and a shortcut that reads the same input. */
static comet_net *bottleneck(uint32_t pixels, uint32_t channels, uint32_t out)
{
    char text[600];
    snprintf(
        text, sizeof text,
        "net bottleneck\ninput 3 %u %u\nc = conv out=%u kernel=3 pad=1 bias=no\nn = batch_norm\nr = relu\n"
        "e = conv out=%u kernel=1 bias=no\nne = batch_norm\nd = conv r out=%u kernel=1 bias=no\nnd = batch_norm\n"
        "s = add ne nd\nt = relu\nf = conv out=16 kernel=3 pad=1\np = global_avg_pool\nflat = flatten\nfc = linear out=4\n",
        pixels, pixels, channels, out, out);
    return net_of(text);
}

static comet_model_params folding_params(uint32_t batch, comet_compress_mode mode, double noise)
{
    comet_model_params p = trial_params(batch);
    p.compression.mode = mode;
    p.compression.noise = noise;
    p.n_threads = 2;
    return p;
}

/* Inputs of batch norms that are neither held nor computed again. */
static uint32_t count_folded(const comet_model *model)
{
    comet_saved_line line = {.size = sizeof line};
    uint32_t n = 0;
    for (size_t i = 0; comet_model_describe_saved(model, i, &line) == COMET_OK; i++)
        n += line.recomputed && strcmp(line.what, "bn input") == 0;
    return n;
}

static const op *op_named(const comet_model *model, const char *layer)
{
    for (uint32_t i = 0; i < model->n_ops; i++)
        if (strcmp(model->ops[i].layer->name, layer) == 0)
            return &model->ops[i];
    fail_msg("there is no layer %s", layer);
    return NULL;
}

/* The largest relative distance of any tensor's gradient. */
static double farthest(const comet_model *a, const comet_model *b)
{
    double most = 0;
    uint64_t n;
    float *all = tensors_read(b, COMET_TENSOR_GRADIENT, &n);
    const double size = norm_of(n, all);
    free(all);
    for (size_t i = 0; i < comet_model_n_tensors(a); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_int_equal(comet_model_describe_tensor(a, i, &info), COMET_OK);
        if (info.kind != COMET_TENSOR_GRADIENT)
            continue;
        float *x = tensor_read(a, i, NULL), *y = tensor_read(b, i, NULL);
        if (norm_of(info.n_elements, y) > 1e-6 * size) /* that of a bias before a batch norm is rounding alone */
            most = fmax(most, relative_distance(info.n_elements, x, y));
        free(x);
        free(y);
    }
    return most;
}

/* With bounds of 1e-6 deviations the gradients are the raw ones but for rounding. */
static void check_gradients(comet_net *net, uint32_t batch, uint32_t accumulate, bool summed)
{
    comet_model_params raw = folding_params(batch, COMET_COMPRESS_OFF, 0.01),
                       coded = folding_params(batch, COMET_COMPRESS_FAST, 1e-12);
    raw.accumulate = coded.accumulate = accumulate;
    trial a = trial_make(net, &coded), b = trial_make(net, &raw);
    assert_int_equal(count_folded(a.model), 2);
    assert_int_equal(count_folded(b.model), 0);
    assert_true((op_named(a.model, "s")->buffers.mask_sums != NO_BUFFER) == summed);
    if (summed)
        assert_true(batch_norm_of(op_named(a.model, "ne"))->deferred_to == op_named(a.model, "s")->index);
    assert_true((a.model->values[op_named(a.model, "s")->output].signs != NO_BUFFER) == op_named(a.model, "s")->mask.used);
    assert_true(b.model->values[op_named(b.model, "s")->output].signs == NO_BUFFER);
    for (uint32_t k = 0; k < accumulate; k++) {
        trial_batch(&a, k);
        trial_batch(&b, k);
        assert_true(trial_gradients(&a, 0) == trial_gradients(&b, 0));
    }
    const double distance = farthest(a.model, b.model);
    print_message("batch %u: gradients to %.1e\n", batch, distance);
    assert_true(distance < 2e-5);
    trial_free(&a);
    trial_free(&b);
    comet_net_destroy(net);
}

/* Batches at once and in two parts (the last: an input of 38 MB), one by one and accumulated. */
static void test_gradients(void **state)
{
    (void)state;
    check_gradients(bottleneck(16, 16, 64), 4, 1, true);
    check_gradients(bottleneck(15, 32, 80), 5, 1, true);
    check_gradients(bottleneck(16, 16, 64), 4, 2, true);
    check_gradients(bottleneck(128, 16, 32), 36, 1, true);
}

/* The gradient of ne comes from two readers, the last of which has a relu: what passes that is not all of it. And sums are of
 * what joins, where no relu is in between. */
static void test_gradients_of_several_readers(void **state)
{
    static const char *const ends[] = {"o = add ne nd\ns = add o ne\nt = relu\n", "s = add ne nd\n"};
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "net several\ninput 3 16 16\nc = conv out=16 kernel=3 pad=1 bias=no\nn = batch_norm\nr = relu\n"
                 "e = conv out=64 kernel=1 bias=no\nne = batch_norm\nd = conv r out=64 kernel=1 bias=no\nnd = batch_norm\n%s"
                 "f = conv out=16 kernel=3 pad=1\np = global_avg_pool\nflat = flatten\nfc = linear out=4\n",
                 ends[i]);
        check_gradients(net_of(text), 4, 1, false);
    }
}

/* Nothing is folded that would not be right or worth it: a relu after the norm, another reader, a bias, a stride, a window, a
 * wide input, many channels. The first is. */
static void test_others_are_left_alone(void **state)
{
    static const char *const tails[] = {
        "e = conv out=64 kernel=1 bias=no\nne = batch_norm\ns = add ne ne\n",
        "e = conv out=64 kernel=1 bias=no\nne = batch_norm\nt = relu\nf = conv out=16 kernel=3 pad=1\n",
        "e = conv out=64 kernel=1 bias=no\nne = batch_norm\ns = add ne e\nf = conv out=16 kernel=3 pad=1\n",
        "e = conv out=64 kernel=1\nne = batch_norm\ns = add ne ne\n",
        "e = conv out=64 kernel=1 stride=2 bias=no\nne = batch_norm\ns = add ne ne\n",
        "e = conv out=64 kernel=3 pad=1 bias=no\nne = batch_norm\ns = add ne ne\n",
        "e = conv out=16 kernel=1 bias=no\nne = batch_norm\ns = add ne ne\n",
        "w = conv out=128 kernel=1\ne = conv out=256 kernel=1 bias=no\nne = batch_norm\ns = add ne ne\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "net other\ninput 3 16 16\nc = conv out=16 kernel=3 pad=1 bias=no\nn = batch_norm\nr = relu\n%s"
                 "p = global_avg_pool\nflat = flatten\nfc = linear out=4\n",
                 tails[i]);
        comet_net *net = net_of(text);
        const comet_model_params raw = folding_params(4, COMET_COMPRESS_OFF, 0.01),
                                 coded = folding_params(4, COMET_COMPRESS_FAST, 1e-12);
        trial a = trial_make(net, &coded), b = trial_make(net, &raw);
        assert_int_equal(count_folded(a.model), i == 0);
        assert_true(trial_gradients(&a, 0) == trial_gradients(&b, 0));
        assert_true(farthest(a.model, b.model) < 1e-3);
        trial_free(&a);
        trial_free(&b);
        comet_net_destroy(net);
    }
}

static float *train(comet_net *net, const comet_model_params *p, uint32_t n_steps, uint64_t *n)
{
    trial t = trial_make(net, p);
    for (uint32_t i = 0; i < n_steps; i++) {
        comet_scores scores;
        trial_batch(&t, i);
        assert_int_equal(comet_model_step(t.model, t.images, t.labels, i, 0.01, &scores), COMET_OK);
    }
    float *weights = tensors_read(t.model, COMET_TENSOR_WEIGHT, n);
    trial_free(&t);
    return weights;
}

/* Nor anything where what is saved comes back exactly, or where all is to be kept, or where there are few positions. */
static void test_not_folded(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        comet_net *net = bottleneck(i == 3 ? 7 : 16, 16, 64);
        comet_model_params p = folding_params(4,
                                              i == 0   ? COMET_COMPRESS_OFF
                                              : i == 1 ? COMET_COMPRESS_LOSSLESS
                                                       : COMET_COMPRESS_FAST,
                                              0.01);
        p.no_recompute = i == 2;
        trial t = trial_make(net, &p);
        assert_int_equal(count_folded(t.model), 0);
        trial_free(&t);
        comet_net_destroy(net);
    }
}

/* Updates made at once, either level and a disk give the same bits. */
static void test_same_bits(void **state)
{
    (void)state;
    comet_net *net = bottleneck(16, 16, 64);
    float *weights[4];
    uint64_t n[4];
    for (int i = 0; i < 4; i++) {
        comet_model_params p = folding_params(6, i == 2 ? COMET_COMPRESS_DENSE : COMET_COMPRESS_FAST, 0.01);
        p.fused_update = i == 1;
        p.compression.spill_folder = i == 3 ? "/tmp" : NULL;
        p.compression.spill_above = 10000;
        weights[i] = train(net, &p, 6, &n[i]);
        assert_true(n[i] == n[0] && memcmp(weights[i], weights[0], n[0] * sizeof(float)) == 0);
    }
    for (int i = 0; i < 4; i++)
        free(weights[i]);
    comet_net_destroy(net);
}

/* The error of the convolutions' gradients is measured and near its target; batch norms that store nothing are consumers. */
static void test_bounds_adapt(void **state)
{
    enum { STEPS = 120 };
    (void)state;
    comet_net *net = bottleneck(16, 16, 64);
    const comet_model_params p = folding_params(16, COMET_COMPRESS_DENSE, 0.01);
    trial t = trial_make(net, &p);
    for (uint32_t i = 0; i < STEPS; i++) {
        trial_batch(&t, i);
        assert_true(isfinite(trial_gradients(&t, i)));
        assert_int_equal(comet_model_update(t.model, 0.0001, i), COMET_OK); /* slowly: images learnt by heart have no noise */
    }
    const comet_compression_figures f = compression_of(t.model);
    comet_assessment_line line = {.size = sizeof line};
    uint32_t n_measured = 0, n_norms = 0;
    for (size_t i = 0; comet_model_describe_assessment(t.model, i, &line) == COMET_OK; i++) {
        assert_true(line.eb > 0 && line.sigma_target > 0 && line.bytes > 0);
        const double ratio = line.sigma_measured / line.sigma_target;
        assert_true(isnan(ratio) || (ratio < 1.2 && (!line.at_limit || ratio > 0.5)));
        n_measured += isfinite(ratio) && (strcmp(line.layer, "e") == 0 || strcmp(line.layer, "d") == 0);
        n_norms += strcmp(line.layer, "ne") == 0 || strcmp(line.layer, "nd") == 0;
    }
    print_message("sigma %.2f to %.2f\n", f.sigma_ratio_min, f.sigma_ratio_max);
    assert_true(f.sigma_ratio_min > 0.5 && f.sigma_ratio_max < 1.2 && n_measured == 2 && n_norms == 2);
    trial_free(&t);
    comet_net_destroy(net);
}

/* Steps that assess pass on the same gradients; in parts, too. */
static void test_gradients_while_assessing(void **state)
{
    static const struct {
        uint32_t pixels, batch, steps;
    } cases[] = {{16, 4, 9}, {128, 36, 4}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        comet_net *net = bottleneck(cases[i].pixels, 16, 32);
        const comet_model_params raw = folding_params(cases[i].batch, COMET_COMPRESS_OFF, 0.01),
                                 coded = folding_params(cases[i].batch, COMET_COMPRESS_DENSE, 1e-12);
        trial a = trial_make(net, &coded), b = trial_make(net, &raw);
        assert_int_equal(op_named(a.model, "e")->n_parts, i + 1);
        for (uint32_t step = 0; step < cases[i].steps; step++) {
            assert_true(trial_gradients(&a, step) == trial_gradients(&b, step));
            assert_true(farthest(a.model, b.model) < 2e-5);
            assert_int_equal(comet_model_update(a.model, 0, step), COMET_OK); /* nothing moves but the bounds */
        }
        assert_true(compression_of(a.model).n_assessments >= 2);
        trial_free(&a);
        trial_free(&b);
        comet_net_destroy(net);
    }
}

/* Squared error of the gradient of a layer's weights over what is predicted for its stored input. */
static double error_over_predicted(const comet_model *coded, const comet_model *raw, const char *layer)
{
    char name[64];
    comet_tensor_info info = {.size = sizeof info};
    snprintf(name, sizeof name, "%s.weight", layer);
    float *x = tensor_read(coded, tensor_index(coded, COMET_TENSOR_GRADIENT, name), &info);
    float *y = tensor_read(raw, tensor_index(raw, COMET_TENSOR_GRADIENT, name), NULL);
    const double error = relative_distance(info.n_elements, x, y) * norm_of(info.n_elements, y);
    const adapt_observation *seen = &coded->assessment->seen[coded->assessment->ops[op_named(coded, layer)->index].consumer];
    free(x);
    free(y);
    return error * error / (seen->gain * seen->eb * seen->eb);
}

/* What an error of the stored input does to the gradients of convolutions and batch norms is what the bound counts on. */
static void test_predicted_errors(void **state)
{
    static const char *const layers[] = {"e", "ne", "d", "nd"};
    (void)state;
    comet_net *net = bottleneck(48, 16, 64);
    const comet_model_params raw = folding_params(16, COMET_COMPRESS_OFF, 0.01),
                             coded = folding_params(16, COMET_COMPRESS_FAST, 0.0025);
    trial a = trial_make(net, &coded), b = trial_make(net, &raw);
    trial_gradients(&a, 0);
    assert_int_equal(comet_model_update(a.model, 0, 0), COMET_OK);
    trial_gradients(&a, 1); /* assesses */
    trial_gradients(&b, 0);
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        const double ratio = error_over_predicted(a.model, b.model, layers[i]);
        print_message("%s: squared error %.2f of the predicted\n", layers[i], ratio);
        assert_true(ratio > 0.5 && ratio < 2);
    }
    trial_free(&a);
    trial_free(&b);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gradients_of_several_readers),
        cmocka_unit_test(test_others_are_left_alone),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_not_folded),
        cmocka_unit_test(test_bounds_adapt),
        cmocka_unit_test(test_predicted_errors),
        cmocka_unit_test(test_gradients_while_assessing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
