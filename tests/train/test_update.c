/* From gradients to weights, and from batches to statistics, on a model's own tensors: the norm that clipping takes, what
 * decays, the mean over accumulated batches, running statistics, and evaluation that depends on nothing but the image. */
#include "training.h"

#include <math.h>
#include <stdlib.h>

#include "tiny_net.h"

static comet_net *tiny(void)
{
    comet_net *net = net_of(TINY_NET), *plain = net_without_dropout(net);
    comet_net_destroy(net);
    return plain;
}

/* SGD without momentum or decay: an update moves weights by the rate times the gradient. */
static comet_model_params plain_sgd(void)
{
    comet_model_params p = trial_params(4);
    p.optimiser.momentum = p.optimiser.weight_decay = 0;
    return p;
}

/* How far an update with the gradients of batch 0 moves all weights, before less after; malloc'd. The gradients are in *g. */
static float *move_of(const comet_net *net, const comet_model_params *p, double rate, float **g, uint64_t *n)
{
    trial t = trial_make(net, p);
    trial_gradients(&t, 0);
    *g = tensors_read(t.model, COMET_TENSOR_GRADIENT, n);
    float *before = tensors_read(t.model, COMET_TENSOR_WEIGHT, n);
    assert_ok(comet_model_update(t.model, rate, 0));
    float *after = tensors_read(t.model, COMET_TENSOR_WEIGHT, n);
    for (uint64_t i = 0; i < *n; i++)
        before[i] -= after[i];
    free(after);
    trial_free(&t);
    return before;
}

/* ---- clipping ---- */

/* Above the limit the whole gradient, in its own direction, has the limit's norm; below it nothing changes. */
static void test_clip_norm_is_of_all_gradients(void **state)
{
    const double rate = 0.5;
    comet_net *net = tiny();
    float *g = NULL;
    uint64_t n = 0;
    for (int i = 0; i < 4; i++) {
        static const double shares[] = {0.1, 0.5, 0.95, 1.05}; /* of the gradient's norm */
        comet_model_params p = plain_sgd();
        free(move_of(net, &p, rate, &g, &n));
        const double norm = norm_of(n, g), limit = shares[i] * norm;
        free(g);
        p.optimiser.clip_norm = (float)limit;
        float *moved = move_of(net, &p, rate, &g, &n);
        assert_near(norm_of(n, moved), rate * fmin(norm, limit), 1e-4 * rate * norm);
        for (uint64_t k = 0; k < n; k++)
            g[k] = (float)(rate * fmin(shares[i], 1) * (double)g[k]);
        assert_true(relative_distance(n, moved, g) < 1e-4);
        free(moved);
        free(g);
    }
    comet_net_destroy(net);
}

/* ---- decay ---- */

/* The weights after one update, with this decay. */
static trial updated(const comet_net *net, comet_model_params p, double rate, double decay)
{
    p.optimiser.weight_decay = (float)decay;
    trial t = trial_make(net, &p);
    trial_gradients(&t, 0);
    assert_ok(comet_model_update(t.model, rate, 0));
    return t;
}

/* Compared with no decay, every weight is nearer to 0 by rate * decay of what it was, biases and batch norms too; statistics
 * are not touched. */
static void check_decay(comet_optimiser_kind kind)
{
    enum { WEIGHT_DECAY_TENSORS = 7 }; /* conv1, bn1 x 2, conv2 x 2, fc x 2 */
    const double rate = 0.25, decay = 0.5;
    comet_net *net = tiny();
    comet_model_params p = plain_sgd();
    comet_optimiser_init(&p.optimiser, kind);
    p.optimiser.momentum = 0;
    trial start = trial_make(net, &p), with = updated(net, p, rate, decay), without = updated(net, p, rate, 0);
    size_t n_decayed = 0;
    for (size_t i = 0; i < comet_model_n_tensors(start.model); i++) {
        comet_tensor_info info;
        float *w = tensor_read(start.model, i, &info), *a = tensor_read(with.model, i, NULL),
              *b = tensor_read(without.model, i, NULL);
        const bool weight = info.kind == COMET_TENSOR_WEIGHT;
        for (uint64_t k = 0; k < info.n_elements && (weight || info.kind == COMET_TENSOR_STATISTIC); k++)
            assert_near((double)b[k] - (double)a[k], weight ? rate * decay * (double)w[k] : 0, 1e-6 * (1 + fabs((double)w[k])));
        n_decayed += weight && norm_of(info.n_elements, w) > 0;
        free(w);
        free(a);
        free(b);
    }
    assert_int_equal(n_decayed, WEIGHT_DECAY_TENSORS);
    trial_free(&start);
    trial_free(&with);
    trial_free(&without);
    comet_net_destroy(net);
}

static void test_every_weight_decays(void **state)
{
    check_decay(COMET_OPTIMISER_SGD);
    check_decay(COMET_OPTIMISER_ADAMW);
}

/* ---- accumulated batches ---- */

static float *gradients_of(const comet_net *net, uint32_t accumulate, const uint64_t *batches, uint32_t n_batches, uint64_t *n)
{
    comet_model_params p = plain_sgd();
    p.accumulate = accumulate;
    trial t = trial_make(net, &p);
    for (uint32_t i = 0; i < n_batches; i++) {
        trial_batch(&t, batches[i]);
        trial_gradients(&t, 0);
    }
    float *g = tensors_read(t.model, COMET_TENSOR_GRADIENT, n);
    trial_free(&t);
    return g;
}

/* Three batches give the mean of their three gradients; a fourth begins anew. */
static void test_accumulated_gradients_are_the_mean(void **state)
{
    static const uint64_t batches[4] = {5, 6, 7, 8};
    comet_net *net = tiny();
    uint64_t n = 0;
    float *mean = gradients_of(net, 3, batches, 3, &n), *sum = need_malloc(n * sizeof *sum);
    memset(sum, 0, n * sizeof *sum);
    for (int i = 0; i < 3; i++) {
        float *one = gradients_of(net, 1, batches + i, 1, &n);
        for (uint64_t k = 0; k < n; k++)
            sum[k] += one[k] / 3;
        assert_true(relative_distance(n, one, mean) > 0.1);
        free(one);
    }
    assert_true(relative_distance(n, mean, sum) < 1e-5);
    free(mean);
    mean = gradients_of(net, 3, batches, 4, &n);
    float *fourth = gradients_of(net, 3, batches + 3, 1, &n);
    assert_true(relative_distance(n, mean, fourth) < 1e-6);
    free(mean);
    free(fourth);
    free(sum);
    comet_net_destroy(net);
}

/* ---- statistics ---- */

static float *statistic(const trial *t, const char *name)
{
    return tensor_read(t->model, tensor_index(t->model, COMET_TENSOR_STATISTIC, name), NULL);
}

/* Two steps of a batch norm on the images themselves. A step takes the share `momentum` of the batch's mean and unbiased
 * variance; evaluation takes none. */
static void check_statistics(const char *text, double share)
{
    enum { BATCH = 4, CHANNELS = 3, PLANE = 16, N = BATCH * PLANE };
    comet_net *net = net_of(text);
    const comet_model_params p = plain_sgd();
    trial t = trial_make(net, &p);
    double mean[CHANNELS] = {0}, variance[CHANNELS] = {1, 1, 1};
    for (uint64_t step = 0; step < 2; step++) {
        comet_scores s;
        trial_batch(&t, step);
        for (uint64_t i = 0; i < t.n_images; i++) /* channels that differ */
            t.images[i] = t.images[i] * (float)(1 + i / PLANE % CHANNELS) + (float)(i / PLANE % CHANNELS);
        trial_gradients(&t, step);
        assert_ok(comet_model_evaluate(t.model, t.images, t.labels, BATCH, &s));
        for (int c = 0; c < CHANNELS; c++) {
            double sum = 0, squares = 0;
            for (int i = 0; i < N; i++)
                sum += (double)t.images[(i / PLANE * CHANNELS + c) * PLANE + i % PLANE] / N;
            for (int i = 0; i < N; i++)
                squares += pow((double)t.images[(i / PLANE * CHANNELS + c) * PLANE + i % PLANE] - sum, 2) / (N - 1);
            mean[c] += share * (sum - mean[c]);
            variance[c] += share * (squares - variance[c]);
        }
    }
    float *m = statistic(&t, "bn.running_mean"), *v = statistic(&t, "bn.running_var");
    for (int c = 0; c < CHANNELS; c++) {
        assert_near(m[c], mean[c], 1e-5);
        assert_near(v[c], variance[c], 1e-5 * variance[c]);
    }
    free(m);
    free(v);
    trial_free(&t);
    comet_net_destroy(net);
}

static void test_running_statistics(void **state)
{
    check_statistics("input 3 4 4\nbn = batch_norm\nflat = flatten\nfc = linear out=4\n", 0.1);
    check_statistics("input 3 4 4\nbn = batch_norm momentum=0.3\nflat = flatten\nfc = linear out=4\n", 0.3);
}

/* ---- evaluation ---- */

/* What an image scores does not depend on the images beside it, on the rows that are valid, or on how often it was evaluated.
 */
static void test_evaluation_is_of_one_image(void **state)
{
    comet_net *net = net_of(TINY_NET); /* with dropout, which evaluation leaves out */
    const comet_model_params p = plain_sgd();
    trial t = trial_make(net, &p);
    const uint64_t image = t.n_images / t.batch;
    float first[4], *kept = need_malloc(image * sizeof *kept);
    comet_scores s;
    trial_gradients(&t, 0);
    memcpy(kept, t.images, image * sizeof *kept);
    assert_ok(comet_model_evaluate(t.model, t.images, t.labels, t.batch, &s));
    memcpy(first, comet_model_outputs(t.model), sizeof first);
    for (uint32_t row = 0; row < t.batch; row++) {
        trial_batch(&t, 10 + row);
        memcpy(t.images + row * image, kept, image * sizeof *kept);
        assert_ok(comet_model_evaluate(t.model, t.images, t.labels, row + 1, &s));
        assert_int_equal(s.n_valid, row + 1);
        const float *scores = comet_model_outputs(t.model) + row * t.classes;
        for (uint32_t c = 0; c < t.classes; c++)
            assert_near(scores[c], first[c], 1e-6);
    }
    free(kept);
    trial_free(&t);
    comet_net_destroy(net);
}

/* ---- seeds ---- */

/* First weights depend on the seed, and no two tensors of one shape begin alike. */
static void test_seeds_choose_first_weights(void **state)
{
    comet_net *net = net_of("input 3 4 4\na = conv out=3 kernel=3 pad=1 bias=no\nb = conv out=3 kernel=3 pad=1 bias=no\n"
                            "flat = flatten\nfc = linear out=4\n");
    float *weights[4];
    uint64_t n = 0;
    for (uint64_t i = 0; i < 4; i++) {
        comet_model_params p = plain_sgd();
        comet_model *model = NULL;
        p.seed = i % 3;
        assert_ok(comet_model_create(&model, net, &p));
        weights[i] = tensors_read(model, COMET_TENSOR_WEIGHT, &n);
        comet_model_destroy(model);
    }
    assert_memory_equal(weights[0], weights[3], n * sizeof(float));
    assert_true(relative_distance(81, weights[0], weights[0] + 81) > 1);
    for (int i = 0; i < 3; i++)
        assert_true(relative_distance(n, weights[i], weights[(i + 1) % 3]) > 1);
    for (int i = 0; i < 4; i++)
        free(weights[i]);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clip_norm_is_of_all_gradients),      cmocka_unit_test(test_every_weight_decays),
        cmocka_unit_test(test_accumulated_gradients_are_the_mean), cmocka_unit_test(test_running_statistics),
        cmocka_unit_test(test_evaluation_is_of_one_image),         cmocka_unit_test(test_seeds_choose_first_weights),
    };
    return cmocka_run_group_tests_name("update", tests, NULL, NULL);
}
