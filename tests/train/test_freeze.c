/*
 * Frozen parameters: gradients of the others are what they were, nothing is kept for those that are frozen, memory falls, and
 * texts that name nothing are refused. test_oracle.c compares with PyTorch.
 */
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define THREE                                                                                                \
    "net three\ninput 3 16 16\n"                                                                             \
    "conv1 = conv out=16 kernel=3 pad=1 bias=no\nbn1 = batch_norm\nrelu1 = relu\npool = max_pool kernel=2\n" \
    "conv2 = conv out=32 kernel=3 pad=1 bias=no\nbn2 = batch_norm\nrelu2 = relu\n"                           \
    "conv3 = conv out=32 kernel=3 pad=1 bias=no\nbn3 = batch_norm\nrelu3 = relu\n"                           \
    "avg = global_avg_pool\nflat = flatten\nfc = linear out=4\n"

static comet_model_params freezing(const char *freeze, comet_compress_mode mode)
{
    comet_model_params p = trial_params(8);
    p.n_threads = 1;
    p.freeze = freeze;
    p.compression.mode = mode;
    return p;
}

static trial begin(const char *text, const comet_model_params *p)
{
    comet_net *net = net_of(text);
    trial t = trial_make(net, p);
    comet_net_destroy(net);
    return t;
}

static size_t count_of(const comet_model *m, comet_tensor_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < comet_model_n_tensors(m); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(m, i, &info));
        n += info.kind == kind;
    }
    return n;
}

static comet_memory memory_of(const comet_model *m)
{
    comet_memory memory = {.size = sizeof memory};
    assert_ok(comet_model_describe_memory(m, &memory));
    return memory;
}

/* ---- gradients ---- */

/* The same gradients in both models, to the bit where `exact`. */
static void check_same_gradients(const char *net, const comet_model *frozen, const comet_model *whole)
{
    for (size_t i = 0; i < comet_model_n_tensors(frozen); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(frozen, i, &info));
        if (info.kind != COMET_TENSOR_GRADIENT)
            continue;
        float *a = tensor_read(frozen, i, NULL), *b = tensor_read(whole, tensor_index(whole, info.kind, info.name), NULL);
        const size_t length = strlen(info.name);
        /* A bias alone is summed by other loops than with its weight. */
        const bool bias = length > 5 && strcmp(info.name + length - 5, ".bias") == 0;
        if (memcmp(a, b, info.n_elements * sizeof *a) != 0 &&
            !(bias && relative_distance(info.n_elements, a, b) < 1e-5 + 1e-5 / (1e-9 + norm_of(info.n_elements, b))))
            fail_because("%s: the gradient of %s is another one where other parameters are frozen", net, info.name);
        free(a);
        free(b);
    }
}

/* Batch norms whose scale and shift are frozen compute otherwise, so that only weights of other layers are: every second one,
 * then the others. Freezing them does not change the gradients of the rest. */
static void check_net(const comet_net *net)
{
    for (int which = 0; which < 2; which++) {
        char freeze[4096] = "";
        int n = 0, n_frozen = 0;
        for (uint32_t v = 1; v < comet_net_n_values(net); v++) {
            const comet_layer *l = comet_net_layer(net, v);
            if ((l->op != COMET_OP_CONV && l->op != COMET_OP_LINEAR) || n++ % 2 != which)
                continue;
            snprintf(freeze + strlen(freeze), sizeof freeze - strlen(freeze), "%s%s.weight", n_frozen++ > 0 ? "," : "",
                     l->name);
        }
        comet_model_params p = freezing(NULL, COMET_COMPRESS_OFF);
        p.batch = 3;
        trial whole = trial_make(net, &p);
        p.freeze = freeze[0] != '\0' ? freeze : NULL;
        comet_memory planned = {.size = sizeof planned};
        if (comet_model_plan(net, &p, &planned) == COMET_ERROR_ARGUMENT) { /* nothing is left to train */
            trial_free(&whole);
            continue;
        }
        trial frozen = trial_make(net, &p);
        assert_true(trial_gradients(&frozen, 0) == trial_gradients(&whole, 0));
        check_same_gradients(comet_net_name(net), frozen.model, whole.model);
        assert_int_equal(count_of(frozen.model, COMET_TENSOR_GRADIENT) + (size_t)n_frozen,
                         count_of(whole.model, COMET_TENSOR_GRADIENT));
        trial_free(&frozen);
        trial_free(&whole);
    }
}

static void test_gradients(void **state)
{
    for_operator_nets(check_net);
}

/* ---- steps ---- */

static float *weights_after(const char *text, const comet_model_params *p, uint64_t n_steps, bool fused, uint64_t *n)
{
    trial t = begin(text, p);
    comet_scores scores;
    for (uint64_t i = 0; i < n_steps; i++) {
        trial_batch(&t, i);
        if (fused) {
            assert_ok(comet_model_step(t.model, t.images, t.labels, i, 0.05, &scores));
        } else {
            trial_gradients(&t, i);
            assert_ok(comet_model_update(t.model, 0.05, i));
        }
    }
    float *weights = tensors_read(t.model, COMET_TENSOR_WEIGHT, n);
    trial_free(&t);
    return weights;
}

/* Off, lossless and with updates as soon as a gradient is there: the same bits, whatever is frozen. */
static void test_same_bits(void **state)
{
    static const char *const freezes[] = {"conv1,bn1",  "conv1,bn1,conv2,bn2,conv3,bn3", "conv2,bn2", "bn*", "*.weight",
                                          "*,!fc.bias", "bn2.weight,fc.weight"};
    for (size_t i = 0; i < COUNT_OF(freezes); i++)
        for (int adamw = 0; adamw < 2; adamw++) {
            comet_model_params p = freezing(freezes[i], COMET_COMPRESS_OFF);
            uint64_t n, m;
            comet_optimiser_init(&p.optimiser, adamw ? COMET_OPTIMISER_ADAMW : COMET_OPTIMISER_SGD);
            p.rates = "fc.bias=3x";
            float *off = weights_after(THREE, &p, 4, false, &n);
            p.compression.mode = COMET_COMPRESS_LOSSLESS;
            float *lossless = weights_after(THREE, &p, 4, false, &m);
            p.fused_update = true;
            float *fused = weights_after(THREE, &p, 4, true, &m);
            assert_int_equal(n, m);
            if (memcmp(off, lossless, n * sizeof *off) != 0 || memcmp(off, fused, n * sizeof *off) != 0)
                fail_because("frozen %s, adamw %d: lossless or fused updates have other bits", freezes[i], adamw);
            free(off);
            free(lossless);
            free(fused);
        }
}

/* Under bounds: a run with frozen layers learns, is assessed, and its frozen tensors stay as they were. */
static void test_bounds(void **state)
{
    static const char *const freezes[] = {"conv1,bn1", "conv2,bn2", "bn*", "*.weight", "conv1,bn1,conv2,bn2,conv3,bn3"};
    for (size_t i = 0; i < COUNT_OF(freezes); i++) {
        comet_model_params p = freezing(freezes[i], COMET_COMPRESS_FAST);
        comet_compression_figures figures = {.size = sizeof figures};
        trial t = begin(THREE, &p);
        comet_scores scores;
        double first = 0;
        for (uint64_t k = 0; k < 30; k++) {
            assert_ok(comet_model_step(t.model, t.images, t.labels, k, 0.02, &scores));
            first = k == 0 ? scores.loss : first;
        }
        assert_ok(comet_model_describe_compression(t.model, &figures));
        if (!(scores.loss < first))
            fail_because("frozen %s: the loss went from %g to %g", freezes[i], first, scores.loss);
        if (i != 3 && figures.n_assessments == 0)
            fail_because("frozen %s: bounds were never assessed", freezes[i]);
        trial_free(&t);
    }
}

/* Frozen weights and statistics stay as they were; those of batch norms that are not frozen move. */
static void test_nothing_moves(void **state)
{
    comet_model_params p = freezing("conv1,bn1,conv2.weight", COMET_COMPRESS_OFF);
    trial t = begin(THREE, &p), before = begin(THREE, &p);
    comet_scores scores;
    for (uint64_t k = 0; k < 3; k++)
        assert_ok(comet_model_step(t.model, t.images, t.labels, k, 0.1, &scores));
    size_t n_same = 0, n_other = 0;
    for (size_t i = 0; i < comet_model_n_tensors(t.model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(t.model, i, &info));
        if (info.kind != COMET_TENSOR_WEIGHT && info.kind != COMET_TENSOR_STATISTIC)
            continue;
        float *a = tensor_read(t.model, i, NULL), *b = tensor_read(before.model, i, NULL);
        const bool same = memcmp(a, b, info.n_elements * sizeof *a) == 0;
        const bool frozen =
            strncmp(info.name, "conv1", 5) == 0 || strncmp(info.name, "bn1", 3) == 0 || strcmp(info.name, "conv2.weight") == 0;
        if (same != frozen)
            fail_because("%s %s", info.name, frozen ? "moved although it is frozen" : "did not move");
        n_same += same;
        n_other += !same;
        free(a);
        free(b);
    }
    assert_int_equal(n_same, 6); /* conv1, bn1's four, conv2 */
    assert_int_equal(n_other, 11);
    trial_free(&t);
    trial_free(&before);
}

/* ---- rates ---- */

/* One step of SGD without momentum: a parameter with 10x moves ten times as far, another rate is that rate. */
static void test_rates(void **state)
{
    comet_model_params p = freezing(NULL, COMET_COMPRESS_OFF);
    p.optimiser.momentum = 0;
    p.optimiser.weight_decay = 0;
    uint64_t n;
    for (int fused = 0; fused < 2; fused++) {
        p.fused_update = false;
        p.rates = NULL;
        float *start = weights_after(THREE, &p, 0, false, &n), *plain = weights_after(THREE, &p, 1, false, &n);
        p.rates = "*=0.5x,conv3=2x,fc=0.5";
        p.rate_base = 0.05;
        p.fused_update = fused;
        float *rated = weights_after(THREE, &p, 1, fused, &n);
        comet_model_params q = freezing(NULL, COMET_COMPRESS_OFF);
        trial t = begin(THREE, &q);
        uint64_t at = 0;
        for (size_t i = 0; i < comet_model_n_tensors(t.model); i++) {
            comet_tensor_info info = {.size = sizeof info};
            assert_ok(comet_model_describe_tensor(t.model, i, &info));
            if (info.kind != COMET_TENSOR_WEIGHT)
                continue;
            const double factor = strncmp(info.name, "fc.", 3) == 0 ? 10 : strncmp(info.name, "conv3.", 6) == 0 ? 2 : 0.5;
            double moved = 0, expected = 0, error = 0;
            for (uint64_t k = at; k < at + info.n_elements; k++) {
                const double there = (double)rated[k] - (double)start[k], once = (double)plain[k] - (double)start[k];
                moved += there * there;
                expected += factor * factor * once * once;
                error += (there - factor * once) * (there - factor * once);
            }
            assert_true(moved > 0);
            if (!(sqrt(error) <= 1e-3 * sqrt(expected)))
                fail_because("%s moved by %g instead of %g", info.name, sqrt(moved), sqrt(expected));
            at += info.n_elements;
        }
        assert_int_equal(at, n);
        trial_free(&t);
        free(start);
        free(plain);
        free(rated);
    }
}

/* ---- memory ---- */

static void test_memory(void **state)
{
    const char *frozen = "conv1,bn1,conv2,bn2,conv3,bn3";
    for (int mode = 0; mode <= COMET_COMPRESS_FAST; mode++) {
        comet_model_params p = freezing(NULL, (comet_compress_mode)mode);
        trial whole = begin(THREE, &p);
        p.freeze = frozen;
        trial head = begin(THREE, &p);
        p.freeze = "conv1,bn1";
        trial part = begin(THREE, &p);
        p.freeze = "bn*";
        trial norms = begin(THREE, &p);
        const comet_memory a = memory_of(whole.model), b = memory_of(head.model), c = memory_of(part.model),
                           d = memory_of(norms.model);
        /* The head: its input, 32 floats an image. Momentum and gradients are those of 32 x 4 weights and 4 biases, padded. */
        assert_int_equal(b.saved_reference, 8 * 32 * sizeof(float));
        assert_true(b.gradients == (128 + 16) * sizeof(float) && b.optimiser == b.gradients);
        assert_int_equal(a.weights, b.weights);
        assert_true(b.total < a.total && c.total < a.total && c.saved_reference < a.saved_reference);
        /* What a frozen batch norm in the middle stores is no more than its relu's signs, in place of its input. */
        assert_true(d.saved_reference < a.saved_reference);
        comet_saved_line line = {.size = sizeof line};
        assert_ok(comet_model_describe_saved(head.model, 0, &line));
        assert_string_equal(line.what, "linear input");
        assert_status(comet_model_describe_saved(head.model, 1, &line), COMET_ERROR_ARGUMENT);
        trial_free(&whole);
        trial_free(&head);
        trial_free(&part);
        trial_free(&norms);
    }
}

/* ---- what is refused ---- */

static void check_refused(const char *freeze, const char *rates, const char *words)
{
    comet_net *net = net_of(THREE);
    comet_model *model = NULL;
    comet_model_params p = freezing(freeze, COMET_COMPRESS_OFF);
    p.rates = rates;
    assert_status(comet_model_create(&model, net, &p), COMET_ERROR_ARGUMENT);
    if (!strstr(comet_last_error(), words))
        fail_because("'%s' lacks '%s'", comet_last_error(), words);
    comet_net_destroy(net);
}

static void test_refused(void **state)
{
    check_refused("conv4", NULL, "'conv4' names no parameter of the net three; did you mean conv");
    check_refused("conv1,bn1.wieght", NULL, "did you mean bn1.weight?");
    check_refused("backbone.*", NULL, "'backbone.*' names no parameter of the net three, whose first is conv1.weight");
    check_refused("bn1.running_mean", NULL, "names no parameter");
    check_refused("relu1", NULL, "names no parameter");
    check_refused("conv1,,bn1", NULL, "a pattern of what is frozen is empty");
    check_refused("*", NULL, "all parameters of the net three are frozen: nothing is left to train");
    check_refused(NULL, "fc", "the rate 'fc' cannot be read");
    check_refused(NULL, "fc=x", "cannot be read");
    check_refused(NULL, "fc=10y", "cannot be read");
    check_refused(NULL, "=10x", "cannot be read");
    check_refused(NULL, "fc=nan", "cannot be read");
    check_refused(NULL, "fc=0x",
                  "the rate 'fc=0x' is 0: parameters that are not to be trained are frozen instead, with --freeze");
    check_refused(NULL, "fc=-1x", "is negative");
    check_refused(NULL, "fc=0.1", "the run's own rate is not known: give a factor");
    check_refused(NULL, "fd=2x", "'fd' names no parameter of the net three; did you mean fc?");
    check_refused("fc", "fc=2x", "a rate for 'fc', which is frozen");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),     cmocka_unit_test(test_same_bits), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_nothing_moves), cmocka_unit_test(test_rates),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
