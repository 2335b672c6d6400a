/* What a model promises: evaluation, loss, dropout, planned memory, its tensors, numbers that are not finite. */
#include "describing.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "train/graph/saving.h"

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

/* A rank without a row of the last batch. */
static void test_no_valid_row(void **state)
{
    comet_net *net = operator_net_named("linear");
    trial t = trial_make(net, NULL);
    comet_scores s = {.loss = 77, .n_valid = 7, .n_top1 = 7, .n_top5 = 7};
    for (uint64_t i = 0; i < t.n_images; i++)
        t.images[i] = NAN;
    t.labels[0] = t.classes;
    assert_ok(comet_model_evaluate(t.model, t.images, t.labels, 0, &s));
    assert_true(s.loss == 0 && s.n_valid == 0 && s.n_top1 == 0 && s.n_top5 == 0);
    trial_free(&t);
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

/* Read and written by parts of any length, a tensor is the same. */
static void check_parts(comet_model *model, size_t index)
{
    static const uint64_t lengths[] = {1, 7, 64, 1000};
    comet_tensor_info info;
    float *whole = tensor_read(model, index, &info), *parts = need_malloc(info.n_elements * sizeof *parts);
    for (uint64_t first = 0, k = index, n; first < info.n_elements; first += n) {
        n = min_u64(lengths[k++ % COUNT_OF(lengths)], info.n_elements - first);
        assert_ok(model_tensor_read_part(model, index, first, n, parts + first));
    }
    assert_memory_equal(whole, parts, info.n_elements * sizeof *whole);
    for (uint64_t i = 0; i < info.n_elements; i++)
        parts[i] = (float)i - 3;
    for (uint64_t first = 0, k = index, n; first < info.n_elements; first += n) {
        n = min_u64(lengths[k++ % COUNT_OF(lengths)], info.n_elements - first);
        assert_ok(model_tensor_write_part(model, index, first, n, parts + first));
    }
    float *written = tensor_read(model, index, NULL);
    assert_memory_equal(written, parts, info.n_elements * sizeof *written);
    assert_ok(comet_model_tensor_write(model, index, whole));
    free(written);
    free(parts);
    free(whole);
}

/* All are written before the first is read again, so that an overlap shows. */
static void check_all_round_trips(const comet_net *net)
{
    comet_model_params p = trial_params(1);
    comet_optimiser_init(&p.optimiser, COMET_OPTIMISER_ADAMW);
    trial t = trial_make(net, &p);
    for (size_t i = 0; i < comet_model_n_tensors(t.model); i++)
        check_tensor_round_trip(t.model, i);
    for (size_t i = 0; i < comet_model_n_tensors(t.model); i++)
        check_parts(t.model, i);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_outputs_stay),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_no_valid_row),
        cmocka_unit_test(test_label_out_of_range),
        cmocka_unit_test(test_average_beyond_padding),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_masks_differ),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_tensor_round_trip),
        cmocka_unit_test(test_first_bad),
        cmocka_unit_test(test_bad_weight),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
