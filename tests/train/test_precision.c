/*
 * Models in bf16: gradients against those in float32, operator by operator and in nets of the zoo, weights that small updates
 * reach, memory, and what is refused. Other tests have bf16 in their tables: lossless is off (test_compression.c), stop and
 * resume (test_trainer.c), PyTorch's autocast (test_oracle.c).
 */
#include "describing.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>

static comet_model_params params_in(comet_precision precision, uint32_t batch)
{
    comet_model_params p = trial_params(batch);
    p.precision = precision;
    p.force_precision = true;
    return p;
}

/* ---- against float32 ---- */

/* Each activation and each gradient of one is rounded to 8 bits, by at most 2^-9 of itself. Gradients of small nets differ by a
 * few of these; where a batch norm takes most of a layer out again, or relus flip, by more. */
static const double TOLERANCE = 0.015, WORST = 0.08;

/* How far the gradients in the two precisions are apart, in units of their norm. */
static double distance_of(const comet_net *net, const comet_model_params *q)
{
    comet_model_params p = *q;
    p.precision = COMET_PRECISION_F32;
    trial exact = trial_make(net, &p), rounded = trial_make(net, q);
    uint64_t n, m;
    const double loss = trial_gradients(&exact, 0), other = trial_gradients(&rounded, 0);
    float *a = tensors_read(exact.model, COMET_TENSOR_GRADIENT, &n),
          *b = tensors_read(rounded.model, COMET_TENSOR_GRADIENT, &m);
    assert_int_equal(n, m);
    const double distance = relative_distance(n, b, a);
    if (!(fabs(loss - other) <= 0.02 * fabs(loss)))
        fail_because("%s: a loss of %g in bf16, %g in f32", comet_net_name(net), other, loss);
    free(a);
    free(b);
    trial_free(&exact);
    trial_free(&rounded);
    return distance;
}

typedef struct tally {
    uint32_t n, n_small;
} tally;

static tally operators;

static void check_operator(const comet_net *net)
{
    static const uint32_t batches[] = {8, 128}; /* linear layers are in bf16 only where the batch is large */
    for (size_t i = 0; i < COUNT_OF(batches); i++) {
        const comet_model_params p = params_in(COMET_PRECISION_BF16, batches[i]);
        const double distance = distance_of(net, &p);
        if (!(distance <= WORST))
            fail_because("%s, batch %u: gradients in bf16 are %g of their norm from those in f32", comet_net_name(net),
                         batches[i], distance);
        operators.n++;
        operators.n_small += distance <= TOLERANCE;
    }
}

static void test_operators(void **state)
{
    (void)state;
    operators = (tally){0};
    for_operator_nets(check_operator);
    if (operators.n_small * 10 < operators.n * 7)
        fail_because("of %u nets only %u have gradients within %g of f32's", operators.n, operators.n_small, TOLERANCE);
}

/* Folded norms, derived values and parts of the batch are in here. */
static void test_zoo(void **state)
{
    static const struct {
        const char *name;
        uint32_t image, batch;
        comet_compress_mode mode;
        double allowed; /* a deep net with random weights amplifies rounding, in torch's autocast as much: test_oracle.c */
    } cases[] = {{"cnn28", 28, 128, COMET_COMPRESS_FAST, 0.08},
                 {"resnet20", 32, 16, COMET_COMPRESS_OFF, 0.4},
                 {"resnet50", 64, 8, COMET_COMPRESS_LOSSLESS, 0.4},
                 {"resnet50", 64, 8, COMET_COMPRESS_FAST, 0.4}};
    formula_residual(1.0 / 16);
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        comet_net *net = NULL;
        assert_ok(comet_net_zoo(&net, cases[i].name, 0, cases[i].image, 10));
        comet_model_params p = params_in(COMET_PRECISION_BF16, cases[i].batch);
        p.compression.mode = cases[i].mode;
        const double distance = distance_of(net, &p);
        if (!(distance <= cases[i].allowed))
            fail_because("%s: gradients in bf16 are %g of their norm from those in f32", cases[i].name, distance);
        print_message("%s, %s: %.2g\n", cases[i].name, comet_compress_mode_name(cases[i].mode), distance);
        comet_net_destroy(net);
    }
    formula_residual(1);
}

/* ---- small updates ---- */

/* Weights are floats: updates of 1e-5 of a weight, which bf16 could not hold, add up, and forward sees their sum. */
static void test_small_updates(void **state)
{
    enum { N_UPDATES = 600 };
    comet_net *net = operator_net_named("conv_plain");
    comet_model_params p = params_in(COMET_PRECISION_BF16, 4);
    p.optimiser.momentum = 0;
    p.optimiser.weight_decay = 0;
    (void)state;
    trial t = trial_make(net, &p);
    const size_t weight = tensor_index(t.model, COMET_TENSOR_WEIGHT, "b.weight"),
                 gradient = tensor_index(t.model, COMET_TENSOR_GRADIENT, "b.weight");
    comet_tensor_info info;
    float *before = tensor_read(t.model, weight, &info);
    const double first = trial_gradients(&t, 0);
    float *g = tensor_read(t.model, gradient, NULL);
    const double rate = 1e-5 * norm_of(info.n_elements, before) / norm_of(info.n_elements, g);
    assert_ok(comet_model_update(t.model, rate, 0));
    float *after = tensor_read(t.model, weight, NULL);
    for (uint64_t i = 0; i < info.n_elements; i++)
        after[i] = before[i] - after[i], g[i] *= (float)rate;
    const double missed = relative_distance(info.n_elements, after, g);
    if (!(missed < 0.02))
        fail_because("an update of 1e-5 of the weights arrived with an error of %g of it", missed);
    for (uint64_t i = 1; i < N_UPDATES; i++) {
        trial_gradients(&t, i);
        assert_ok(comet_model_update(t.model, rate, i));
    }
    const double last = trial_gradients(&t, N_UPDATES);
    if (!(last < first))
        fail_because("after %d updates of 1e-5 the loss is %.9g, and was %.9g", N_UPDATES, last, first);
    free(before);
    free(after);
    free(g);
    trial_free(&t);
    comet_net_destroy(net);
}

/* ---- memory ---- */

/* Saved tensors and transients take half; weights and their gradients do not change. */
static void test_memory(void **state)
{
    comet_net *net = NULL;
    comet_memory f32, bf16;
    (void)state;
    comet_memory_init(&f32);
    comet_memory_init(&bf16);
    assert_ok(comet_net_zoo(&net, "resnet20", 0, 32, 10));
    comet_model_params p = params_in(COMET_PRECISION_F32, 64);
    p.convolutions = COMET_CONVOLUTIONS_DIRECT; /* without scratchpads of Winograd */
    assert_ok(comet_model_plan(net, &p, &f32));
    p.precision = COMET_PRECISION_BF16;
    p.force_precision = false;
    if (comet_model_plan(net, &p, &bf16) != COMET_OK)
        skip(); /* without the instructions most layers compute in floats */
    assert_true((double)bf16.saved_raw < 0.55 * (double)f32.saved_raw);
    assert_true((double)bf16.transient < 0.65 * (double)f32.transient);
    assert_int_equal(bf16.optimiser, f32.optimiser);
    comet_net_destroy(net);
}

/* ---- choosing ---- */

static void test_choice(void **state)
{
    comet_net *net = operator_net_named("conv_plain");
    comet_model_params p = trial_params(3);
    comet_model *m = NULL;
    (void)state;
    assert_int_equal(p.precision, COMET_PRECISION_F32);
    p.precision = COMET_PRECISION_AUTO;
    assert_ok(comet_model_create(&m, net, &p));
    const comet_precision chosen = comet_model_precision(m);
    comet_model_destroy(m);
    m = NULL;
    p.precision = COMET_PRECISION_BF16;
    const comet_status status = comet_model_create(&m, net, &p);
    assert_int_equal(status, chosen == COMET_PRECISION_BF16 ? COMET_OK : COMET_ERROR_UNSUPPORTED);
    if (status == COMET_OK)
        assert_int_equal(comet_model_precision(m), COMET_PRECISION_BF16);
    comet_model_destroy(m);
    p.precision = (comet_precision)3;
    m = NULL;
    assert_status(comet_model_create(&m, net, &p), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_precision_name(COMET_PRECISION_BF16), "bf16");
    assert_string_equal(comet_precision_name((comet_precision)3), "unknown");
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_operators),
                                     cmocka_unit_test(test_zoo), cmocka_unit_test(test_small_updates),
                                     cmocka_unit_test(test_memory)};
    return _cmocka_run_group_tests("precision", all, coarsest_precision() == COMET_PRECISION_BF16 ? COUNT_OF(all) : 1, NULL,
                                   NULL);
}
