/*
 * Operators of the training engine: finite differences for every one of them, fused against unfused, recomputed against kept,
 * and what a model promises about bits, memory and errors.
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
    p.no_winograd = p.no_recompute = true;
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

static void for_operator_nets(void (*check)(const comet_net *net))
{
    comet_net *net;
    for (size_t i = 0; (net = operator_net(i)) != NULL; i++) {
        check(net);
        comet_net_destroy(net);
    }
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
    direct.no_winograd = true;
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

static bool has_layer(const comet_net *net, comet_op op)
{
    for (uint32_t v = 1; v < comet_net_n_values(net); v++)
        if (comet_net_layer(net, v)->op == op)
            return true;
    return false;
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

/* ---- evaluation ---- */

/* Outputs of evaluation after a step that moved the running statistics; malloc'd. `from` gives its weights if not NULL. */
static float *evaluate(const comet_net *net, const comet_model_params *p, const trial *from, trial *t, comet_scores *scores)
{
    *t = trial_make(net, p);
    for (size_t i = 0; from && i < comet_model_n_tensors(t->model); i++) {
        float *x = tensor_read(from->model, i, NULL);
        assert_ok(comet_model_tensor_write(t->model, i, x));
        free(x);
    }
    if (!from)
        trial_gradients(t, 0);
    assert_ok(comet_model_evaluate(t->model, t->images, t->labels, t->batch, scores));
    float *y = need_malloc(t->batch * t->classes * sizeof *y);
    memcpy(y, comet_model_outputs(t->model), t->batch * t->classes * sizeof *y);
    return y;
}

static void check_inference(const comet_net *net)
{
    comet_model_params p = trial_params(3), q = p;
    q.inference = true;
    trial a, b;
    comet_scores s, r;
    float *x = evaluate(net, &p, NULL, &a, &s), *y = evaluate(net, &q, &a, &b, &r);
    if (memcmp(x, y, a.batch * a.classes * sizeof *x) != 0)
        fail_because("%s: outputs differ by %g", comet_net_name(net), relative_distance(a.batch * a.classes, y, x));
    assert_true(s.loss == r.loss && s.n_top1 == r.n_top1 && s.n_top5 == r.n_top5);
    assert_status(comet_model_gradients(b.model, b.images, b.labels, 0, &s), COMET_ERROR_ARGUMENT);
    free(x);
    free(y);
    trial_free(&a);
    trial_free(&b);
}

static void test_inference(void **state)
{
    for_operator_nets(check_inference);
}

/* Without batch norm and dropout a step computes what evaluation does, and its outputs stand until the next call. */
static void check_outputs_stay(const comet_net *net)
{
    if (has_layer(net, COMET_OP_BATCH_NORM) || has_layer(net, COMET_OP_DROPOUT))
        return;
    trial t;
    comet_scores s;
    float *y = evaluate(net, NULL, NULL, &t, &s);
    assert_near(trial_gradients(&t, 0), s.loss, 0);
    if (memcmp(y, comet_model_outputs(t.model), t.batch * t.classes * sizeof *y) != 0)
        fail_because("%s: outputs after backward are not those of forward", comet_net_name(net));
    free(y);
    trial_free(&t);
}

static void test_outputs_stay(void **state)
{
    for_operator_nets(check_outputs_stay);
}

/* ---- loss ---- */

static double plain_loss(const trial *t, const float *y, double smoothing)
{
    double loss = 0;
    for (uint32_t i = 0; i < t->batch; i++) {
        double sum = 0, total = 0;
        for (uint32_t c = 0; c < t->classes; c++) {
            sum += exp((double)y[i * t->classes + c]);
            total += (double)y[i * t->classes + c];
        }
        loss += log(sum) - (1 - smoothing) * (double)y[i * t->classes + t->labels[i]] - smoothing * total / t->classes;
    }
    return loss / t->batch;
}

static uint32_t plain_top(const trial *t, const float *y, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->batch; i++) {
        uint32_t above = 0;
        for (uint32_t c = 0; c < t->classes; c++)
            above += y[i * t->classes + c] > y[i * t->classes + t->labels[i]];
        n += above < k;
    }
    return n;
}

static void test_loss(void **state)
{
    comet_net *net = net_of("input 3 4 4\nflat = flatten\nfc = linear out=12\n");
    for (int i = 0; i < 3; i++) {
        comet_model_params p = trial_params(16);
        comet_scores s;
        trial t;
        p.label_smoothing = 0.15f * (float)i;
        float *y = evaluate(net, &p, NULL, &t, &s);
        assert_near(s.loss, plain_loss(&t, y, (double)p.label_smoothing), 1e-6);
        assert_int_equal(s.n_valid, 16);
        assert_int_equal(s.n_top1, plain_top(&t, y, 1));
        assert_int_equal(s.n_top5, plain_top(&t, y, 5));
        t.batch = 11; /* the other rows do not count, not even labels out of range */
        t.labels[11] = 12;
        assert_ok(comet_model_evaluate(t.model, t.images, t.labels, 11, &s));
        assert_near(s.loss, plain_loss(&t, y, (double)p.label_smoothing), 1e-6);
        assert_int_equal(s.n_top5, plain_top(&t, y, 5));
        free(y);
        trial_free(&t);
    }
    comet_net_destroy(net);
}

static void test_label_out_of_range(void **state)
{
    comet_net *net = operator_net_named("linear");
    trial t = trial_make(net, NULL);
    comet_scores s = {.loss = 77};
    t.labels[1] = t.classes;
    assert_status(comet_model_gradients(t.model, t.images, t.labels, 0, &s), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "label 4 in row 1"));
    assert_true(s.loss == 77); /* nothing is written, and there is nothing to update with */
    assert_status(comet_model_update(t.model, 0.1, 0), COMET_ERROR_ARGUMENT);
    assert_status(comet_model_evaluate(t.model, t.images, t.labels, 3, &s), COMET_ERROR_ARGUMENT);
    t.labels[1] = 0;
    assert_ok(comet_model_gradients(t.model, t.images, t.labels, 0, &s));
    trial_free(&t);
    comet_net_destroy(net);
}

static void test_average_beyond_padding(void **state)
{
    comet_net *net = net_of("input 3 5 4\na = conv out=4 kernel=1\np = avg_pool kernel=3 stride=2 pad=1 ceil=yes\n"
                            "flat = flatten\nfc = linear out=2\n");
    const comet_model_params p = trial_params(2);
    comet_model *model = NULL;
    assert_status(comet_model_create(&model, net, &p), COMET_ERROR_UNSUPPORTED);
    assert_non_null(strstr(comet_last_error(), "p: the last window"));
    comet_net_destroy(net);
}

/* ---- dropout ---- */

/* Shares of zeros; every other output is the input's over 1 - p. Whole rows only, if per_sample. */
static double check_mask(const trial *t, const float *plain, const float *dropped, double p, bool per_sample)
{
    uint32_t n_zero = 0;
    for (uint32_t i = 0; i < t->batch * t->classes; i++) {
        if (dropped[i] != 0)
            assert_near(dropped[i], plain[i] / (1 - p), 1e-5 * fabs(plain[i]));
        if (per_sample)
            assert_true((dropped[i] == 0) == (dropped[i / t->classes * t->classes] == 0));
        n_zero += dropped[i] == 0;
    }
    return (double)n_zero / (t->batch * t->classes);
}

static void check_dropout(const char *line, double p, bool per_sample)
{
    char text[160];
    snprintf(text, sizeof text, "input 3 2 2\nflat = flatten\nfc = linear out=50\ndrop = dropout %s\n", line);
    comet_net *net = net_of(text);
    const comet_model_params params = trial_params(400);
    trial t;
    comet_scores s;
    float *plain = evaluate(net, &params, NULL, &t, &s);
    const size_t bytes = t.batch * t.classes * sizeof *plain;
    float *first = need_malloc(bytes);
    trial_gradients(&t, 3);
    memcpy(first, comet_model_outputs(t.model), bytes);
    assert_near(check_mask(&t, plain, first, p, per_sample), p, per_sample ? 0.08 : 0.01);
    trial_gradients(&t, 4);
    assert_memory_not_equal(first, comet_model_outputs(t.model), bytes);
    trial_gradients(&t, 3);
    assert_memory_equal(first, comet_model_outputs(t.model), bytes);
    free(plain);
    free(first);
    trial_free(&t);
    comet_net_destroy(net);
}

static void test_dropout(void **state)
{
    check_dropout("p=0.3", 0.3, false);
    check_dropout("p=0.3 per_sample=yes", 0.3, true);
}

/* Two dropout layers, and the batches of an accumulated step, have masks of their own. */
static void test_dropout_masks_differ(void **state)
{
    comet_net *net = net_of("input 3 2 2\nflat = flatten\nfc = linear out=50\na = dropout fc\nb = dropout fc\ns = add a b\n");
    comet_model_params p = trial_params(40);
    p.accumulate = 2;
    trial t = trial_make(net, &p);
    const size_t n = t.batch * t.classes;
    float *first = need_malloc(n * sizeof *first);
    uint32_t n_zero = 0;
    trial_gradients(&t, 0);
    memcpy(first, comet_model_outputs(t.model), n * sizeof *first);
    for (size_t i = 0; i < n; i++)
        n_zero += first[i] == 0;
    assert_near((double)n_zero / (double)n, 0.25, 0.05); /* 0.5 if the masks were one */
    trial_gradients(&t, 0);
    assert_memory_not_equal(first, comet_model_outputs(t.model), n * sizeof *first);
    free(first);
    trial_free(&t);
    comet_net_destroy(net);
}

/* ---- memory and tensors ---- */

static void check_plan(const comet_net *net)
{
    for (int i = 0; i < 8; i++) {
        comet_model_params p = trial_params(3);
        comet_memory planned = {.size = sizeof planned};
        p.inference = i & 1;
        p.accumulate = i & 2 ? 2 : 1;
        comet_optimiser_init(&p.optimiser, i & 4 ? COMET_OPTIMISER_ADAMW : COMET_OPTIMISER_SGD);
        assert_ok(comet_model_plan(net, &p, &planned));
        trial t = trial_make(net, &p);
        const comet_memory real = memory_of(t.model);
        assert_memory_equal(&planned, &real, sizeof real);
        assert_true(real.total >= real.weights + real.gradients + real.optimiser + real.saved);
        trial_free(&t);
    }
}

static void test_plan(void **state)
{
    for_operator_nets(check_plan);
}

static void check_tensor_round_trip(comet_model *model, size_t index)
{
    comet_tensor_info info = {.size = sizeof info}, again = {.size = sizeof again};
    char name[32];
    assert_ok(comet_model_describe_tensor(model, index, &info));
    float *x = need_malloc(info.n_elements * sizeof *x);
    snprintf(name, sizeof name, "tensor %zu", index);
    formula_fill(name, 0, 1, info.n_elements, x);
    assert_ok(comet_model_tensor_write(model, index, x));
    float *y = tensor_read(model, index, &again);
    if (memcmp(x, y, info.n_elements * sizeof *x) != 0)
        fail_because("%s, kind %d, does not come back as written", info.name, (int)info.kind);
    free(x);
    free(y);
}

/* All are written before the first is read again, so that an overlap shows. */
static void check_all_round_trips(const comet_net *net)
{
    comet_model_params p = trial_params(1);
    comet_optimiser_init(&p.optimiser, COMET_OPTIMISER_ADAMW);
    trial t = trial_make(net, &p);
    for (size_t i = 0; i < comet_model_n_tensors(t.model); i++)
        check_tensor_round_trip(t.model, i);
    for (size_t i = 0; i < comet_model_n_tensors(t.model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        char name[32];
        float *x = tensor_read(t.model, i, &info), *y = need_malloc(info.n_elements * sizeof *y);
        snprintf(name, sizeof name, "tensor %zu", i);
        formula_fill(name, 0, 1, info.n_elements, y);
        assert_memory_equal(x, y, info.n_elements * sizeof *x);
        free(x);
        free(y);
    }
    trial_free(&t);
}

static void test_tensor_round_trip(void **state)
{
    static const char *const names[] = {"resnet20", "cnn28", "efficientnet_b0"};
    for_operator_nets(check_all_round_trips);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        comet_net *net = NULL;
        assert_ok(comet_net_zoo(&net, names[i], 0, 64 * (i >= 2), 0));
        check_all_round_trips(net);
        comet_net_destroy(net);
    }
}

/* ---- numbers that are not finite ---- */

static void check_first_bad(const comet_net *net)
{
    trial t = trial_make(net, NULL);
    const char *first =
        comet_net_layer(net, 1)->op == COMET_OP_FLATTEN ? comet_net_layer(net, 2)->name : comet_net_layer(net, 1)->name;
    assert_null(comet_model_first_bad(t.model, t.images, 0));
    t.images[t.n_images / 2] = NAN;
    const char *bad = comet_model_first_bad(t.model, t.images, 0);
    if (!bad || strcmp(bad, first) != 0)
        fail_because("%s: NaN begins in %s, not in %s", comet_net_name(net), bad ? bad : "no layer", first);
    trial_free(&t);
}

static void test_first_bad(void **state)
{
    for_operator_nets(check_first_bad);
}

/* A weight turned bad in the middle is found there; the step itself succeeds and says that the loss is not finite. */
static void test_bad_weight(void **state)
{
    comet_net *net = operator_net_named("residual");
    trial t = trial_make(net, NULL);
    comet_scores s;
    const size_t index = tensor_index(t.model, COMET_TENSOR_WEIGHT, "c2.weight");
    float *w = tensor_read(t.model, index, NULL);
    w[5] = INFINITY;
    assert_ok(comet_model_tensor_write(t.model, index, w));
    assert_ok(comet_model_gradients(t.model, t.images, t.labels, 0, &s));
    assert_false(isfinite(s.loss));
    assert_string_equal(comet_model_first_bad(t.model, t.images, 0), "c2");
    assert_status(comet_model_update(t.model, 0.1, 0), COMET_ERROR_ARGUMENT);
    free(w);
    trial_free(&t);
    comet_net_destroy(net);
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
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_outputs_stay),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_label_out_of_range),
        cmocka_unit_test(test_average_beyond_padding),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_masks_differ),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_tensor_round_trip),
        cmocka_unit_test(test_first_bad),
        cmocka_unit_test(test_bad_weight),
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
