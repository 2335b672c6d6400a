/*
 * Operators of the training engine: finite differences for every one of them, fused against unfused, recomputed against kept,
 * and other ways to the same gradients. What a model promises beyond is in test_model.c.
 */
#include "describing.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- finite differences ---- */

/* Steps per element, largest first, and points of the path between at which the gradient is taken. The best of them counts:
 * large steps suffer from curvature and from the kinks of relu and max pool, small ones from the rounding of floats; a wrong
 * gradient disagrees at all of them. The change of the loss is the integral of the gradient also across kinks. */
static const struct {
    double h;
    int n_points;
} steps[] = {{1e-2, 1}, {2e-3, 1}, {4e-4, 1}, {1e-3, 32}, {4e-4, 64}};
enum { N_DIRECTIONS = 2 };
static const double TOLERANCE = 4e-3, /* of the change expected of a random direction */
    LOSS_NOISE = 6e-7;                /* of two losses from floats */

static double loss_at(trial *t, size_t weight, const float *w)
{
    assert_ok(comet_model_tensor_write(t->model, weight, w));
    return trial_gradients(t, 0);
}

/* One tensor of a trial, and a way to walk from where it is. */
typedef struct walk {
    trial *t;
    size_t weight, gradient;
    uint64_t n;
    const float *base;
    double *direction;
    float *at, *g;
} walk;

static void walk_to(walk *w, double h)
{
    for (uint64_t i = 0; i < w->n; i++)
        w->at[i] = (float)(w->base[i] + h * w->direction[i]);
}

/* The change of the loss that the gradient at base + h direction predicts for a step of 2 length. */
static double predicted(walk *w, double h, double length)
{
    double sum = 0;
    walk_to(w, h);
    loss_at(w->t, w->weight, w->at);
    assert_ok(comet_model_tensor_read(w->t->model, w->gradient, w->g));
    for (uint64_t i = 0; i < w->n; i++)
        sum += w->g[i] * w->direction[i];
    return 2 * length * sum;
}

/* Loss at base + h d minus loss at base - h d, against the integral of the gradient; as a share of the allowed error. */
static double probe(walk *w, double norm, double h, int n_points)
{
    double expected = 0;
    for (int i = 0; i < n_points; i++)
        expected += predicted(w, h * (2 * i + 1 - n_points) / n_points, h / n_points);
    walk_to(w, h);
    const double up = loss_at(w->t, w->weight, w->at);
    walk_to(w, -h);
    const double down = loss_at(w->t, w->weight, w->at);
    return fabs(up - down - expected) / (TOLERANCE * 2 * h * norm + LOSS_NOISE);
}

static double best_probe(walk *w, double norm, test_rng *r)
{
    double best = INFINITY;
    for (uint64_t i = 0; i < w->n; i++)
        w->direction[i] = rng_normal(r);
    for (size_t k = 0; k < COUNT_OF(steps) && best > 1; k++)
        best = fmin(best, probe(w, norm, steps[k].h, steps[k].n_points));
    return best;
}

static void check_weight(trial *t, size_t weight, const char *net)
{
    comet_tensor_info info = {.size = sizeof info};
    test_rng r = {weight + 1};
    float *base = tensor_read(t->model, weight, &info);
    const size_t gradient = tensor_index(t->model, COMET_TENSOR_GRADIENT, info.name);
    trial_gradients(t, 0);
    float *g = tensor_read(t->model, gradient, NULL);
    const double norm = norm_of(info.n_elements, g);
    walk w = {.t = t, .weight = weight, .gradient = gradient, .n = info.n_elements, .base = base, .g = g};
    w.direction = need_malloc(w.n * sizeof *w.direction);
    w.at = need_malloc(w.n * sizeof *w.at);
    /* Below this, rounding would hide a wrong gradient. */
    if (norm < 3e-3 && strncmp(info.name, "weak.", 5) != 0)
        fail_because("%s: gradient of %s has norm %g", net, info.name, norm);
    for (int i = 0; i < N_DIRECTIONS; i++) {
        const double error = best_probe(&w, norm, &r);
        if (!(error <= 1))
            fail_because("%s: gradient of %s is off by %g times what is allowed", net, info.name, error);
    }
    assert_ok(comet_model_tensor_write(t->model, weight, base));
    free(base);
    free(w.direction);
    free(w.at);
    free(g);
}

static void check_gradients(const comet_net *net, const comet_model_params *params)
{
    trial t = trial_make(net, params);
    for (size_t i = 0; i < comet_model_n_tensors(t.model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(t.model, i, &info));
        if (info.kind == COMET_TENSOR_WEIGHT)
            check_weight(&t, i, comet_net_name(net));
    }
    trial_free(&t);
}

static void test_finite_differences(void **state)
{
    comet_net *net = operator_net(*(const size_t *)*state);
    comet_model_params p = trial_params(3);
    check_gradients(net, &p);
    p.convolutions = COMET_CONVOLUTIONS_DIRECT;
    p.no_recompute = true;
    check_gradients(net, &p);
    comet_net_destroy(net);
}

static void test_finite_differences_smoothing(void **state)
{
    comet_net *net = operator_net_named("residual");
    comet_model_params p = trial_params(4);
    p.label_smoothing = 0.2f;
    check_gradients(net, &p);
    comet_net_destroy(net);
}

/* ---- two ways to the same gradients ---- */

/* Loss and gradients of a few steps with updates between them, one after another; malloc'd. */
static float *history(const comet_net *net, const comet_model_params *p, uint64_t *n)
{
    enum { N_STEPS = 3 };
    trial t = trial_make(net, p);
    float *all = NULL;
    *n = 0;
    for (uint64_t s = 0; s < N_STEPS; s++) {
        uint64_t n_gradients;
        trial_batch(&t, s);
        const double loss = trial_gradients(&t, s);
        float *g = tensors_read(t.model, COMET_TENSOR_GRADIENT, &n_gradients);
        float *larger = realloc(all, (*n + n_gradients + 1) * sizeof *all);
        assert_non_null(larger);
        all = larger;
        memcpy(all + *n, g, n_gradients * sizeof *g);
        all[*n + n_gradients] = (float)loss;
        *n += n_gradients + 1;
        free(g);
        assert_ok(comet_model_update(t.model, 0.01, s));
    }
    trial_free(&t);
    return all;
}

/* tolerance 0: the same bits. */
static void compare_histories(const comet_net *a, const comet_model_params *pa, const comet_net *b,
                              const comet_model_params *pb, double tolerance)
{
    uint64_t n, m;
    float *x = history(a, pa, &n), *y = history(b, pb, &m);
    assert_int_equal(n, m);
    const double distance = relative_distance(n, x, y);
    if (!(distance <= tolerance) || (tolerance == 0 && memcmp(x, y, n * sizeof *x) != 0))
        fail_because("%s: gradients differ by %g of their norm", comet_net_name(a), distance);
    free(x);
    free(y);
}

/* The same net, with a layer that nothing reads before each relu, so that none follows its layer. */
static comet_net *net_unfused(const comet_net *net)
{
    const comet_shape in = comet_net_shape(net, 0);
    uint32_t *at = need_malloc(comet_net_n_values(net) * sizeof *at);
    comet_net *copy = NULL;
    assert_ok(comet_net_create(&copy, comet_net_name(net), in.channels, in.height, in.width));
    at[0] = 0;
    for (uint32_t v = 1; v < comet_net_n_values(net); v++) {
        comet_layer layer = *comet_net_layer(net, v), between;
        comet_layer_init(&between, COMET_OP_SIGMOID, "");
        snprintf(between.name, sizeof between.name, "between.%u", v);
        between.n_inputs = 1;
        if (layer.op == COMET_OP_RELU)
            assert_ok(comet_net_add(copy, &between, NULL));
        for (uint32_t i = 0; i < layer.n_inputs; i++)
            layer.inputs[i] = at[layer.inputs[i]];
        assert_ok(comet_net_add(copy, &layer, &at[v]));
    }
    free(at);
    return copy;
}

static void check_unfused(const comet_net *net)
{
    comet_net *plain = net_without_dropout(net), *unfused = net_unfused(plain); /* masks depend on a layer's number */
    const comet_model_params p = trial_params(3);
    compare_histories(unfused, &p, plain, &p, 1e-5);
    comet_net_destroy(plain);
    comet_net_destroy(unfused);
}

static void test_fused_relu(void **state)
{
    for_operator_nets(check_unfused);
}

static void check_recompute(const comet_net *net)
{
    comet_model_params again = trial_params(3), kept = again;
    kept.no_recompute = true;
    compare_histories(net, &again, net, &kept, 0);
}

static void test_recompute(void **state)
{
    for_operator_nets(check_recompute);
}

/* A layer that nobody reads takes part in forward alone; what it reads is still computed again for the others. */
static void test_unread_layer(void **state)
{
    static const char text[] = "net unread\n"
                               "input 3 8 8\n"
                               "a = conv input out=16 kernel=3 pad=1\n"
                               "b = batch_norm\n"
                               "r = relu\n"
                               "c = conv r out=16 kernel=3 pad=1\n"
                               "unread = conv r out=16 kernel=3 pad=1\n"
                               "f = flatten c\n"
                               "fc = linear f out=5\n";
    comet_net *net;
    comet_model_params p = trial_params(3);
    comet_tensor_info info = {.size = sizeof info};
    assert_ok(comet_net_read(&net, "text", text, strlen(text)));
    check_recompute(net);
    trial t = trial_make(net, &p);
    trial_batch(&t, 0);
    trial_gradients(&t, 0);
    float *read = tensor_read(t.model, tensor_index(t.model, COMET_TENSOR_GRADIENT, "c.weight"), &info);
    assert_true(norm_of(info.n_elements, read) > 1e-3);
    free(read);
    float *unread = tensor_read(t.model, tensor_index(t.model, COMET_TENSOR_GRADIENT, "unread.weight"), &info);
    assert_true(norm_of(info.n_elements, unread) == 0);
    free(unread);
    trial_free(&t);
    comet_net_destroy(net);
}

/* Recomputing is what the memory is for: it must hold less. */
static void test_recompute_saves(void **state)
{
    comet_net *net = operator_net_named("residual");
    comet_model_params p = trial_params(3);
    comet_memory again = {.size = sizeof again}, kept = {.size = sizeof kept};
    assert_ok(comet_model_plan(net, &p, &again));
    p.no_recompute = true;
    assert_ok(comet_model_plan(net, &p, &kept));
    assert_true(again.saved < kept.saved && again.total < kept.total);
    assert_int_equal(again.saved_reference, kept.saved_reference);
    comet_net_destroy(net);
}

static void check_winograd(const comet_net *net)
{
    comet_net *plain = net_without_dropout(net); /* masks depend on the layout */
    comet_model_params fast = trial_params(3), direct = fast;
    direct.convolutions = COMET_CONVOLUTIONS_DIRECT;
    compare_histories(plain, &fast, plain, &direct, 3e-5); /* of three steps; one is within 1e-5 */
    comet_net_destroy(plain);
}

static void test_winograd(void **state)
{
    for_operator_nets(check_winograd);
}

static void check_same_bits(const comet_net *net)
{
    comet_model_params p = trial_params(3);
    p.n_threads = 2;
    compare_histories(net, &p, net, &p, 0);
}

static void test_same_bits(void **state)
{
    for_operator_nets(check_same_bits);
}

static void check_threads(const comet_net *net)
{
    comet_model_params one = trial_params(3), two = one;
    two.n_threads = 2;
    compare_histories(net, &two, net, &one, 1e-5);
}

static void test_threads(void **state)
{
    for_operator_nets(check_threads);
}

/* Two halves of a batch, averaged, are the whole; but not with batch norm or other dropout masks. */
static void check_accumulation(const comet_net *net)
{
    comet_model_params whole = trial_params(4), half = trial_params(2);
    half.accumulate = 2;
    if (has_layer(net, COMET_OP_BATCH_NORM) || has_layer(net, COMET_OP_DROPOUT))
        return;
    trial a = trial_make(net, &whole), b = trial_make(net, &half);
    for (int round = 0; round < 2; round++) {
        uint64_t n;
        comet_scores s[2];
        const double loss = trial_gradients(&a, 0);
        for (uint32_t i = 0; i < 2; i++)
            assert_ok(comet_model_gradients(b.model, a.images + i * b.n_images, a.labels + 2 * i, 0, &s[i]));
        assert_near((s[0].loss + s[1].loss) / 2, loss, 1e-5 * loss);
        float *x = tensors_read(a.model, COMET_TENSOR_GRADIENT, &n), *y = tensors_read(b.model, COMET_TENSOR_GRADIENT, &n);
        if (!(relative_distance(n, y, x) <= 1e-5))
            fail_because("%s: two halves differ from the whole by %g", comet_net_name(net), relative_distance(n, y, x));
        free(x);
        free(y);
        assert_ok(comet_model_update(a.model, 0.01, 0));
        assert_ok(comet_model_update(b.model, 0.01, 0));
    }
    trial_free(&a);
    trial_free(&b);
}

static void test_accumulation(void **state)
{
    for_operator_nets(check_accumulation);
}

/* With batch norm: the same half twice is that half. */
static void check_accumulation_twice(const comet_net *net)
{
    comet_net *plain = net_without_dropout(net);
    comet_model_params once = trial_params(3), twice = once;
    uint64_t n;
    twice.accumulate = 2;
    trial a = trial_make(plain, &once), b = trial_make(plain, &twice);
    trial_gradients(&a, 0);
    trial_gradients(&b, 0);
    trial_gradients(&b, 0);
    float *x = tensors_read(a.model, COMET_TENSOR_GRADIENT, &n), *y = tensors_read(b.model, COMET_TENSOR_GRADIENT, &n);
    if (!(relative_distance(n, y, x) <= 1e-6))
        fail_because("%s: the same batch twice differs by %g", comet_net_name(net), relative_distance(n, y, x));
    free(x);
    free(y);
    trial_free(&a);
    trial_free(&b);
    comet_net_destroy(plain);
}

static void test_accumulation_twice(void **state)
{
    for_operator_nets(check_accumulation_twice);
}

/* ---- the list ---- */

enum { MOST_NETS = 128 };

/* Each small net is a test of its own. */
static size_t add_nets(struct CMUnitTest *tests, size_t *numbers)
{
    comet_net *net;
    size_t n = 0;
    for (; n < MOST_NETS && (net = operator_net(n)) != NULL; n++) {
        char *name = need_malloc(COMET_MAX_LAYER_NAME + 32);
        snprintf(name, COMET_MAX_LAYER_NAME + 32, "finite differences: %s", comet_net_name(net));
        numbers[n] = n;
        tests[n] = (struct CMUnitTest){.name = name, .test_func = test_finite_differences, .initial_state = &numbers[n]};
        comet_net_destroy(net);
    }
    return n;
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_finite_differences_smoothing),
        cmocka_unit_test(test_fused_relu),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_unread_layer),
        cmocka_unit_test(test_recompute_saves),
        cmocka_unit_test(test_winograd),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_accumulation_twice),
    };
    static struct CMUnitTest tests[MOST_NETS + COUNT_OF(others)];
    static size_t numbers[MOST_NETS];
    const size_t n = add_nets(tests, numbers);
    memcpy(tests + n, others, sizeof others);
    const int failed = _cmocka_run_group_tests("operators", tests, n + COUNT_OF(others), NULL, NULL);
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)tests[i].name);
    return failed;
}
