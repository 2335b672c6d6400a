/* Models whose optimiser's state is not f32: resumed with the same bits, the same for any number of threads, near those with
 * f32, converted from and to other formats with a note, and counted in the plan. */
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "train/files/checkpoint.h"
#include "train/math/optimiser_state.h"

#include "describing.h"
#include "tiny_net.h"

static char folder[256];

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-state.XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int tear_down(void **state)
{
    char path[320];
    checkpoint_clear(folder);
    snprintf(path, sizeof path, "%s/.lock", folder);
    unlink(path);
    return rmdir(folder);
}

/* ---- steps ---- */

typedef struct variant {
    const char *name;
    comet_optimiser_kind kind;
    comet_state_format format;
    comet_compress_mode mode;
    const char *rates;
    double clip;
    float momentum;
    uint32_t accumulate;
    bool fused, nesterov;
} variant;

static const variant variants[] = {
    {.name = "sgd", .format = COMET_STATE_CODED, .momentum = 0.9f, .accumulate = 1},
    {.name = "sgd, fused", .format = COMET_STATE_CODED, .momentum = 0.9f, .accumulate = 1, .fused = true},
    {.name = "nesterov, rates",
     .format = COMET_STATE_CODED,
     .momentum = 0.9f,
     .accumulate = 1,
     .nesterov = true,
     .rates = "fc=10x"},
    {.name = "accumulated", .format = COMET_STATE_BF16, .momentum = 0.9f, .accumulate = 2},
    {.name = "clipped", .format = COMET_STATE_CODED, .momentum = 0.9f, .accumulate = 1, .clip = 0.5},
    {.name = "adamw", .kind = COMET_OPTIMISER_ADAMW, .format = COMET_STATE_CODED, .accumulate = 1},
    {.name = "adamw, fused", .kind = COMET_OPTIMISER_ADAMW, .format = COMET_STATE_CODED, .accumulate = 1, .fused = true},
    {.name = "adamw, bf16", .kind = COMET_OPTIMISER_ADAMW, .format = COMET_STATE_BF16, .accumulate = 1, .fused = true},
    {.name = "bounded", .format = COMET_STATE_CODED, .momentum = 0.9f, .accumulate = 1, .mode = COMET_COMPRESS_FAST},
    {.name = "bounded, hidden momentum",
     .format = COMET_STATE_CODED,
     .accumulate = 1,
     .fused = true,
     .mode = COMET_COMPRESS_FAST},
};

static comet_model_params variant_params(const variant *v)
{
    comet_model_params p = trial_params(4);
    comet_optimiser_init(&p.optimiser, v->kind);
    p.seed = 3;
    p.n_threads = 1;
    p.optimiser.state = v->format;
    p.optimiser.momentum = v->momentum;
    p.optimiser.nesterov = v->nesterov;
    p.optimiser.clip_norm = (float)v->clip;
    p.compression.mode = v->mode;
    p.accumulate = v->accumulate;
    p.fused_update = v->fused;
    p.rates = v->rates;
    return p;
}

static trial trial_of(const comet_model_params *p)
{
    comet_net *net = net_of(TINY_NET);
    trial t = trial_make(net, p);
    comet_net_destroy(net);
    return t;
}

static void steps(trial *t, const variant *v, uint64_t first, uint64_t end)
{
    const double rate = v->kind == COMET_OPTIMISER_ADAMW ? 0.002 : 0.02;
    for (uint64_t i = first; i < end; i++) {
        for (uint32_t k = 0; k < v->accumulate; k++) {
            comet_scores scores;
            trial_batch(t, i * v->accumulate + k);
            assert_ok(v->fused ? comet_model_step(t->model, t->images, t->labels, i, rate, &scores)
                               : comet_model_gradients(t->model, t->images, t->labels, i, &scores));
        }
        if (!v->fused)
            assert_ok(comet_model_update(t->model, rate, i));
    }
}

static const comet_tensor_kind kinds[] = {COMET_TENSOR_WEIGHT, COMET_TENSOR_STATISTIC, COMET_TENSOR_MOMENTUM,
                                          COMET_TENSOR_SECOND_MOMENT};

static void check_same(const comet_model *a, const comet_model *b, const char *what)
{
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        uint64_t n, n_other;
        float *x = tensors_read(a, kinds[k], &n), *y = tensors_read(b, kinds[k], &n_other);
        assert_int_equal(n, n_other);
        if (n > 0 && memcmp(x, y, n * sizeof *x) != 0)
            fail_because("%s: tensors of kind %d differ", what, (int)kinds[k]);
        free(x);
        free(y);
    }
}

/* ---- resuming ---- */

static checkpoint_state state_of(const comet_model_params *p)
{
    return (checkpoint_state){
        .test_loss = NAN,
        .test_top1 = NAN,
        .test_top5 = NAN,
        .settings = {.optimiser = (uint64_t)p->optimiser.kind, .optimiser_state = (uint64_t)p->optimiser.state}};
}

/* Saves `from` and loads it into a model that has seen other steps; what has changed goes to `changed`. */
static trial resumed(const trial *from, const variant *to, char changed[CHECKPOINT_CHANGED_BYTES],
                     const comet_model_params *saved)
{
    const comet_model_params p = variant_params(to);
    const checkpoint_state s = state_of(saved), expected = state_of(&p);
    checkpoint_state loaded;
    checkpoint_found found = CHECKPOINT_NONE;
    assert_ok(checkpoint_save(folder, from->model, &s, NULL));
    trial t = trial_of(&p);
    steps(&t, to, 50, 52);
    assert_ok(checkpoint_load(folder, t.model, &expected.settings, &loaded, &found, changed));
    assert_int_equal(found, CHECKPOINT_LAST);
    return t;
}

static void test_resume(void **unused)
{
    enum { STEPS = 12, SAVED = 5 };
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        const variant *v = &variants[i];
        const comet_model_params p = variant_params(v);
        char changed[CHECKPOINT_CHANGED_BYTES];
        trial whole = trial_of(&p), before = trial_of(&p);
        steps(&whole, v, 0, STEPS);
        steps(&before, v, 0, SAVED);
        trial after = resumed(&before, v, changed, &p);
        assert_string_equal(changed, "");
        check_same(before.model, after.model, v->name);
        steps(&after, v, SAVED, STEPS);
        check_same(whole.model, after.model, v->name);
        trial_free(&whole);
        trial_free(&before);
        trial_free(&after);
    }
}

/* From each format to each other: the user is told, and the state is that of the file within half a step of a code. */
static void test_other_format(void **unused)
{
    for (int from = 0; from <= (int)COMET_STATE_CODED; from++)
        for (int to = 0; to <= (int)COMET_STATE_CODED; to++) {
            variant v = {.kind = COMET_OPTIMISER_ADAMW, .format = (comet_state_format)from, .accumulate = 1}, w = v;
            char changed[CHECKPOINT_CHANGED_BYTES];
            w.format = (comet_state_format)to;
            const comet_model_params p = variant_params(&v);
            trial a = trial_of(&p);
            steps(&a, &v, 0, 5);
            trial b = resumed(&a, &w, changed, &p);
            assert_string_equal(changed, from == to ? "" : "format of the optimiser's state");
            for (size_t k = 0; k < COUNT_OF(kinds); k++) {
                uint64_t n, n_other;
                float *x = tensors_read(a.model, kinds[k], &n), *y = tensors_read(b.model, kinds[k], &n_other);
                const double most = k < 2 || to == COMET_STATE_F32 || from == to ? 0 : to == COMET_STATE_BF16 ? 0.002 : 0.02;
                assert_int_equal(n, n_other);
                assert_true(n > 0 && relative_distance(n, y, x) <= most);
                free(x);
                free(y);
            }
            steps(&b, &w, 5, 6);
            trial_free(&a);
            trial_free(&b);
        }
}

/* ---- threads, and f32 ---- */

static void test_threads(void **unused)
{
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        const variant *v = &variants[i];
        comet_model_params one = variant_params(v), two = one, other = one;
        two.n_threads = 2;
        other.seed = 4; /* weights are set by a formula: only draws differ */
        trial a = trial_of(&one), b = trial_of(&two), c = trial_of(&other);
        steps(&a, v, 0, 1);
        steps(&b, v, 0, 1);
        steps(&c, v, 0, 1);
        uint64_t n;
        float *x = tensors_read(a.model, COMET_TENSOR_MOMENTUM, &n), *y = tensors_read(b.model, COMET_TENSOR_MOMENTUM, &n),
              *z = tensors_read(c.model, COMET_TENSOR_MOMENTUM, &n);
        const double distance = relative_distance(n, x, y), by_seed = relative_distance(n, z, y);
        if (!(distance < 0.3 * by_seed)) /* gradients of two threads differ by rounding, draws do not */
            fail_because("%s: momenta of 1 and 2 threads are %g apart, of 2 seeds %g", v->name, distance, by_seed);
        free(x);
        free(y);
        free(z);
        trial_free(&a);
        trial_free(&b);
        trial_free(&c);
    }
}

static void test_near_f32(void **unused)
{
    enum { STEPS = 10 };
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        variant v = variants[i];
        if (v.mode != COMET_COMPRESS_OFF)
            continue;
        uint64_t n;
        float *weights[3], *moved[2];
        for (int k = 0; k < 3; k++) {
            variant one = v;
            one.format = k == 2 ? COMET_STATE_F32 : v.format;
            const comet_model_params p = variant_params(&one);
            trial t = trial_of(&p);
            steps(&t, &one, 0, k == 0 ? 0 : STEPS);
            weights[k] = tensors_read(t.model, COMET_TENSOR_WEIGHT, &n);
            trial_free(&t);
        }
        for (int k = 0; k < 2; k++) {
            moved[k] = weights[k + 1];
            for (uint64_t j = 0; j < n; j++)
                moved[k][j] -= weights[0][j];
        }
        const double distance = relative_distance(n, moved[0], moved[1]);
        print_message("%s, %s: weights moved %.4f of the way apart from f32's\n", v.name, comet_state_format_name(v.format),
                      distance);
        assert_true(distance > 0 && distance < 0.08);
        for (int k = 0; k < 3; k++)
            free(weights[k]);
    }
}

/* ---- memory ---- */

static void test_memory(void **unused)
{
    comet_net *net = net_of(TINY_NET);
    for (int kind = 0; kind < 2; kind++) {
        comet_model_params p = trial_params(4);
        comet_optimiser_init(&p.optimiser, (comet_optimiser_kind)kind);
        comet_memory f32 = {.size = sizeof f32}, bf16 = f32, coded = f32;
        assert_ok(comet_model_plan(net, &p, &f32));
        p.optimiser.state = COMET_STATE_BF16;
        assert_ok(comet_model_plan(net, &p, &bf16));
        p.optimiser.state = COMET_STATE_CODED;
        assert_ok(comet_model_plan(net, &p, &coded));
        assert_int_equal(bf16.optimiser * 2, f32.optimiser);
        assert_int_equal(coded.optimiser * 64, f32.optimiser * 17);
        assert_int_equal(f32.total - coded.total, f32.optimiser - coded.optimiser);
        p.optimiser.kind = COMET_OPTIMISER_SGD;
        p.optimiser.momentum = 0;
        assert_ok(comet_model_plan(net, &p, &coded));
        assert_int_equal(coded.optimiser, 0);
    }
    comet_net_destroy(net);
}

static void test_refusals(void **unused)
{
    comet_net *net = net_of(TINY_NET);
    comet_model_params p = trial_params(4);
    comet_model *model = NULL;
    p.optimiser.state = (comet_state_format)3;
    assert_status(comet_model_create(&model, net, &p), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "format 3"));
    p.optimiser.state = COMET_STATE_CODED;
    p.accumulate = 2;
    trial t = trial_make(net, &p);
    trial_gradients(&t, 0);
    float x[4096];
    const size_t index = tensor_index(t.model, COMET_TENSOR_MOMENTUM, "fc.bias");
    assert_status(comet_model_tensor_read(t.model, index, x), COMET_ERROR_ARGUMENT); /* it would overwrite gradients */
    assert_status(comet_model_tensor_write(t.model, index, x), COMET_ERROR_ARGUMENT);
    trial_gradients(&t, 0);
    assert_ok(comet_model_update(t.model, 0.1, 0));
    assert_ok(comet_model_tensor_read(t.model, index, x));
    trial_free(&t);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),   cmocka_unit_test(test_other_format), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_near_f32), cmocka_unit_test(test_memory),       cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
