/* Optimisers against torch's numbers, the norm against a plain sum, initial weights against their distribution; all of them the
 * same bits for any number of threads. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "train/backend/parallel.h"
#include "train/math/initialise.h"
#include "train/math/optimiser.h"

#include "optimiser_golden.h"

/* The gradient of tools/golden_optimisers.py. */
static float golden_gradient(int step, int i)
{
    return (float)((step * 7 + i * 3) % 11 - 5) / 8;
}

static void test_golden(void **unused)
{
    for (size_t c = 0; c < COUNT_OF(golden_cases); c++) {
        comet_optimiser o;
        float w[GOLDEN_N], momentum[GOLDEN_N] = {0}, second_moment[GOLDEN_N] = {0}, g[GOLDEN_N];
        comet_optimiser_init(&o, golden_cases[c].kind);
        o.momentum = (float)golden_cases[c].momentum;
        o.weight_decay = (float)golden_cases[c].weight_decay;
        o.beta1 = golden_cases[c].beta1, o.beta2 = golden_cases[c].beta2, o.eps = golden_cases[c].eps;
        o.nesterov = golden_cases[c].nesterov;
        memcpy(w, golden_weights, sizeof w);
        for (int step = 0; step < GOLDEN_STEPS; step++) {
            const optimiser_step s = {
                .optimiser = &o, .rate = golden_cases[c].rate, .step = (uint64_t)step, .gradient_scale = 0.5f};
            const bool plain = o.kind == COMET_OPTIMISER_SGD && o.momentum == 0;
            for (int i = 0; i < GOLDEN_N; i++)
                g[i] = 2 * golden_gradient(step, i); /* and the scale makes it whole again */
            const optimiser_state state = {.momentum = {.data = plain ? NULL : momentum},
                                           .second_moment = {.data = o.kind == COMET_OPTIMISER_ADAMW ? second_moment : NULL}};
            optimiser_apply(&s, GOLDEN_N, w, g, &state, true);
        }
        for (int i = 0; i < GOLDEN_N; i++)
            assert_near((double)w[i], golden_cases[c].weights[i], 2e-7 * (1 + fabs(golden_cases[c].weights[i])));
    }
}

static void test_no_decay(void **unused)
{
    comet_optimiser o;
    comet_optimiser_init(&o, COMET_OPTIMISER_SGD);
    const optimiser_step s = {.optimiser = &o, .rate = 0.1, .gradient_scale = 1};
    float w = 1, g = 0, m = 0;
    const optimiser_state state = {.momentum = {.data = &m}};
    optimiser_apply(&s, 1, &w, &g, &state, false);
    assert_true(w == 1);
    optimiser_apply(&s, 1, &w, &g, &state, true);
    assert_true(w < 1);
}

static float *numbers(size_t n, uint64_t seed)
{
    test_rng r = {seed};
    float *x = need_malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(&r);
    return x;
}

static void test_clip(void **state)
{
    assert_near((double)optimiser_clip_scale(10, 0), 1, 0);
    assert_near((double)optimiser_clip_scale(0.5, 1), 1, 0);
    assert_near((double)optimiser_clip_scale(10, 1), 1 / (10 + 1e-6), 1e-8);
}

static void test_threads_same_bits(void **unused)
{
    enum { N = 150001 };
    float *g = numbers(N, 3), *result[2];
    for (int kind = 0; kind < 2; kind++) {
        for (int run = 0; run < 2; run++) {
            comet_optimiser o;
            float *m = calloc(N, sizeof *m), *v = calloc(N, sizeof *v);
            result[run] = numbers(N, 4);
            parallel_set_threads(run == 0 ? 1 : 3);
            comet_optimiser_init(&o, (comet_optimiser_kind)kind);
            const optimiser_step s = {.optimiser = &o, .rate = 0.01, .gradient_scale = 1};
            const optimiser_state state = {.momentum = {.data = m}, .second_moment = {.data = v}};
            optimiser_apply(&s, N, result[run], g, &state, true);
            free(m);
            free(v);
        }
        assert_memory_equal(result[0], result[1], N * sizeof(float));
        free(result[0]);
        free(result[1]);
    }
    free(g);
}

static void check_moments(comet_init init, double variance, double largest)
{
    enum { N = 200000 };
    float *x = need_malloc(N * sizeof *x), *again = need_malloc(N * sizeof *again);
    double sum = 0, squares = 0, most = 0;
    parallel_set_threads(1);
    initialise_weight(7, 3, init, 50, 20, N, x);
    parallel_set_threads(4);
    initialise_weight(7, 3, init, 50, 20, N, again);
    assert_memory_equal(x, again, N * sizeof *x);
    initialise_weight(7, 4, init, 50, 20, N, again);
    assert_memory_not_equal(x, again, N * sizeof *x);
    for (size_t i = 0; i < N; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        most = fmax(most, fabs((double)x[i]));
    }
    assert_near(sum / N, 0, 5 * sqrt(variance / N));
    assert_near(squares / N, variance, 0.02 * variance);
    assert_true(most <= largest);
    free(x);
    free(again);
}

static void test_initialise(void **state)
{
    enum { N_BIASES = 3000 };
    float bias[N_BIASES];
    check_moments(COMET_INIT_DEFAULT, 1.0 / 50 / 3, 1 / sqrt(50.0));
    check_moments(COMET_INIT_HE_FAN_OUT, 2.0 / 20, INFINITY);
    check_moments(COMET_INIT_NORMAL_001, 1e-4, INFINITY);
    check_moments(COMET_INIT_UNIFORM_FAN_OUT, 1.0 / 20 / 3, 1 / sqrt(20.0));
    initialise_bias(1, 2, COMET_INIT_HE_FAN_OUT, 50, N_BIASES, bias);
    for (int i = 0; i < N_BIASES; i++)
        assert_true(bias[i] == 0);
    double squares = 0;
    initialise_bias(1, 2, COMET_INIT_DEFAULT, 50, N_BIASES, bias);
    for (int i = 0; i < N_BIASES; i++) {
        assert_true(fabsf(bias[i]) <= 1 / sqrtf(50));
        squares += (double)bias[i] * (double)bias[i];
    }
    assert_near(squares / N_BIASES, 1.0 / 50 / 3, 0.05 / 50 / 3); /* uniform, as weights are */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_no_decay),
        cmocka_unit_test(test_clip),       cmocka_unit_test(test_threads_same_bits),
        cmocka_unit_test(test_initialise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
