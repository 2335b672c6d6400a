/* The formats of the optimiser's state: what rounding costs against the figures of docs/theory.md, section 10, that it keeps
 * the mean, that the same floats come back from files, and that bits depend on neither threads nor parts nor instructions. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "train/backend/parallel.h"
#include "train/math/optimiser.h"

static const comet_state_format small_formats[] = {COMET_STATE_BF16, COMET_STATE_CODED};

typedef struct setting {
    comet_optimiser o;
    size_t n;
    float *weights, *gradient;
    optimiser_state state;
} setting;

static state_block new_block(comet_state_format format, bool squares, size_t n)
{
    void *data = calloc(1, state_bytes(format, n));
    assert_non_null(data);
    return (state_block){.format = format, .squares = squares, .data = data};
}

static setting setting_of(comet_optimiser_kind kind, comet_state_format format, size_t n)
{
    setting s = {.n = n, .weights = calloc(n, sizeof(float)), .gradient = calloc(n, sizeof(float))};
    assert_true(s.weights && s.gradient);
    comet_optimiser_init(&s.o, kind);
    s.o.weight_decay = 0;
    s.state.momentum = new_block(format, false, n);
    if (kind == COMET_OPTIMISER_ADAMW)
        s.state.second_moment = new_block(format, true, n);
    return s;
}

static void setting_free(setting *s)
{
    free(s->weights);
    free(s->gradient);
    free(s->state.momentum.data);
    free(s->state.second_moment.data);
}

static void update(setting *s, uint64_t step, uint64_t seed)
{
    const optimiser_step u = {.optimiser = &s->o, .rate = 1e-3, .step = step, .seed = seed, .gradient_scale = 1};
    optimiser_apply(&u, s->n, s->weights, s->gradient, &s->state, true);
}

static void fill_normal(float *x, size_t n, double deviation, uint64_t seed)
{
    test_rng r = {seed};
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(deviation * rng_normal(&r));
}

static float *read_all(state_block s, size_t n)
{
    float *x = need_malloc(n * sizeof *x);
    state_read(s, n, x);
    return x;
}

/* ---- sizes and exact values ---- */

static void test_sizes(void **unused)
{
    assert_int_equal(state_bytes(COMET_STATE_F32, 1000), 4000);
    assert_int_equal(state_bytes(COMET_STATE_BF16, 1600), 3200);
    assert_int_equal(state_bytes(COMET_STATE_CODED, 1600), 1700);
    assert_int_equal(state_bytes(COMET_STATE_CODED, 1), 17);
}

/* Nothing that is not 0 becomes 0 among second moments, zeros stay zeros, and what is not finite stays so in its block alone.
 */
static void test_special_values(void **unused)
{
    enum { N = 64 };
    float x[N] = {0}, y[N];
    for (size_t f = 0; f < COUNT_OF(small_formats); f++) {
        state_block v = new_block(small_formats[f], true, N), m = new_block(small_formats[f], false, N);
        for (int i = 0; i < 16; i++)
            x[i] = i % 4 == 0 ? 0 : powf(10, (float)-2 * (float)i); /* 1e-2 to 1e-30 */
        x[20] = 1e30f;
        x[40] = INFINITY;
        x[63] = NAN;
        state_write(v, N, x);
        state_read(v, N, y);
        for (int i = 0; i < 32; i++)
            assert_true((x[i] == 0) == (y[i] == 0) && isfinite(y[i]));
        assert_true(!isfinite(y[40]) && !isfinite(y[63]) && fabsf(y[20] / 1e30f - 1) < 0.04f);
        state_write(m, N, x);
        state_read(m, N, y);
        for (int i = 0; i < 16; i++)
            assert_true(fabsf(x[i] - y[i]) <= 0.01f * x[1]);
        assert_true(y[0] == 0 && y[16] == 0 && !isfinite(y[40]) && !isfinite(y[63]));
        free(v.data);
        free(m.data);
    }
}

/* Error of the nearest code: half a step. */
static void test_nearest(void **unused)
{
    enum { N = 16000 };
    for (int k = -30; k <= 30; k += 3) {
        const double size = pow(10, k / 3.0);
        float *x = need_malloc(N * sizeof *x), most = 0;
        fill_normal(x, N, size, (uint64_t)(k + 100));
        state_block m = new_block(COMET_STATE_CODED, false, N), v = new_block(COMET_STATE_CODED, true, N);
        state_write(m, N, x);
        float *y = read_all(m, N);
        for (size_t i = 0; i < N; i++) {
            most = 0;
            for (size_t j = i / 16 * 16; j < i / 16 * 16 + 16; j++)
                most = fmaxf(most, fabsf(x[j]));
            const double unit = 4 * (double)most / (127 * 127), step = 2 * sqrt(fabs((double)x[i]) * unit) + unit;
            if (!(fabs((double)y[i] - (double)x[i]) <= 0.51 * step))
                fail_because("%g is held as %g, its block's largest is %g", x[i], y[i], most);
        }
        for (size_t i = 0; i < N; i++)
            x[i] = fabsf(x[i]);
        state_write(v, N, x);
        free(y);
        y = read_all(v, N);
        for (size_t i = 0; i < N; i++)
            if (x[i] > 1e-4f * (float)size && !(fabsf(y[i] - x[i]) <= 1.01f / 32 * x[i]))
                fail_because("%g is held as %g", x[i], y[i]);
        free(y);
        free(x);
        free(m.data);
        free(v.data);
    }
}

/* ---- files: floats that were read are written to the same floats, nearest or at random ---- */

static void test_values_survive(void **unused)
{
    enum { N = 5003 };
    for (size_t f = 0; f < COUNT_OF(small_formats); f++) {
        setting s = setting_of(COMET_OPTIMISER_ADAMW, small_formats[f], N);
        for (uint64_t step = 0; step < 40; step++) {
            const double size = step < 36 ? pow(10, (double)(step % 9) - 4) : 1.8e-26;
            if (step == 36) /* momenta around the least that is coded */
                memset(s.state.momentum.data, 0, state_bytes(small_formats[f], N));
            fill_normal(s.gradient, N, size, step);
            update(&s, step, 1);
            for (int squares = 0; squares < 2; squares++) {
                const state_block block = squares ? s.state.second_moment : s.state.momentum;
                float *x = read_all(block, N), *y;
                state_block other = new_block(small_formats[f], squares, N);
                state_write(other, N, x);
                y = read_all(other, N);
                assert_memory_equal(x, y, N * sizeof *x);
                free(y);
                const comet_optimiser o = {.weight_decay = 0};
                const optimiser_step again = {.optimiser = &o, .seed = step};
                const optimiser_state state = {.momentum = other};
                memset(s.gradient, 0, N * sizeof(float));
                optimiser_follow(&again, 1, N, s.weights, s.gradient, &state); /* m = 1 * m + 0, encoded with draws */
                y = read_all(other, N);
                assert_memory_equal(x, y, N * sizeof *x);
                free(x);
                free(y);
                free(other.data);
            }
        }
        setting_free(&s);
    }
}

/* ---- same bits ---- */

static void check_same(const setting *a, const setting *b, const char *what)
{
    for (int k = 0; k < 3; k++) {
        float *x = k == 0 ? a->weights : read_all(k == 1 ? a->state.momentum : a->state.second_moment, a->n),
              *y = k == 0 ? b->weights : read_all(k == 1 ? b->state.momentum : b->state.second_moment, b->n);
        if (memcmp(x, y, a->n * sizeof *x) != 0)
            fail_because("%s: %s differ", what, k == 0 ? "weights" : k == 1 ? "momenta" : "second moments");
        if (k > 0) {
            free(x);
            free(y);
        }
    }
}

/* In parts of whole blocks, as ranks update them. */
static void update_in_parts(setting *s, uint64_t step, uint64_t seed)
{
    const optimiser_step u = {.optimiser = &s->o, .rate = 1e-3, .step = step, .seed = seed, .gradient_scale = 1};
    for (size_t first = 0, n; first < s->n; first += n) {
        n = s->n - first < 1008 ? s->n - first : 1008;
        const optimiser_state part = {.momentum = state_at(s->state.momentum, first),
                                      .second_moment = state_at(s->state.second_moment, first),
                                      .first = first};
        optimiser_apply(&u, n, s->weights + first, s->gradient + first, &part, true);
    }
}

static void test_same_bits(void **unused)
{
    enum { N = 150001, STEPS = 3, RUNS = 6 };
    const comet_isa before = comet_isa_active();
    for (size_t f = 0; f < COUNT_OF(small_formats); f++) {
        setting s[RUNS];
        for (int run = 0; run < RUNS; run++) {
            s[run] = setting_of(COMET_OPTIMISER_ADAMW, small_formats[f], N);
            parallel_set_threads(run == 0 ? 1 : 3);
            comet_isa_set_cap(run == 3 ? COMET_ISA_REFERENCE : run == 4 ? COMET_ISA_AVX2 : COMET_ISA_AVX512);
            for (uint64_t step = 0; step < STEPS; step++) {
                fill_normal(s[run].gradient, N, 1, step);
                (run == 2 ? update_in_parts : update)(&s[run], step, run == 5 ? 8 : 7);
            }
        }
        comet_isa_set_cap(before);
        check_same(&s[0], &s[1], "threads");
        check_same(&s[0], &s[2], "parts");
        check_same(&s[0], &s[3], "reference");
        check_same(&s[0], &s[4], "AVX2");
        assert_memory_not_equal(s[0].weights, s[5].weights, N * sizeof(float)); /* another seed */
        for (int run = 0; run < RUNS; run++)
            setting_free(&s[run]);
    }
}

/* ---- rounding keeps the mean ---- */

static void check_mean(comet_state_format format, bool squares)
{
    enum { N = 160, SEEDS = 40000 };
    float x[N], y[N];
    double sums[N] = {0}, of_squares[N] = {0};
    fill_normal(x, N, 1, 5);
    for (size_t i = 0; i < N; i++)
        x[i] = squares ? x[i] * x[i] + 1e-3f : x[i]; /* within the window of codes */
    const state_block block = new_block(format, squares, N);
    const comet_optimiser o = {.weight_decay = 0};
    const float weights[N] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const optimiser_step s = {.optimiser = &o, .seed = seed};
        const optimiser_state state = {.momentum = block};
        optimiser_follow(&s, 0, N, weights, x, &state);
        state_read(block, N, y);
        for (size_t i = 0; i < N; i++) {
            const double e = (double)y[i] - (double)x[i];
            sums[i] += e;
            of_squares[i] += e * e;
        }
    }
    for (size_t i = 0; i < N; i++) {
        const double deviation = sqrt(of_squares[i] / SEEDS / SEEDS);
        if (!(fabs(sums[i] / SEEDS) <= 5 * deviation + 2e-6 * fabs((double)x[i])))
            fail_because("format %d, second moment %d: %g becomes %+g +- %g in the mean", (int)format, squares, x[i],
                         sums[i] / SEEDS, deviation);
    }
    free(block.data);
}

static void test_unbiased(void **unused)
{
    for (size_t f = 0; f < COUNT_OF(small_formats); f++) {
        check_mean(small_formats[f], false);
        check_mean(small_formats[f], true);
    }
}

/* ---- what it costs ---- */

/* Share of the gradient's variance that rounding of the momentum adds: beta^2 (distance from f32's momentum)^2 / its variance.
 */
static double momentum_share(comet_optimiser_kind kind, comet_state_format format, double deviation)
{
    enum { N = 8192, STEPS = 120, SETTLED = 60 };
    setting exact = setting_of(kind, COMET_STATE_F32, N), s = setting_of(kind, format, N);
    double errors = 0, size = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        fill_normal(exact.gradient, N, deviation, step);
        memcpy(s.gradient, exact.gradient, N * sizeof(float));
        update(&exact, step, 1);
        update(&s, step, 1);
        float *x = read_all(exact.state.momentum, N), *y = read_all(s.state.momentum, N);
        for (size_t i = 0; i < N && step >= SETTLED; i++) {
            const double e = (double)y[i] - (double)x[i];
            errors += e * e;
            size += (double)x[i] * (double)x[i];
        }
        free(x);
        free(y);
    }
    setting_free(&exact);
    setting_free(&s);
    return 0.81 * errors / size;
}

/* Scales are powers of 4, so the mean over sizes from 1 to 4 counts. */
static double mean_share(comet_optimiser_kind kind, comet_state_format format)
{
    enum { SIZES = 6 };
    double sum = 0;
    for (int k = 0; k < SIZES; k++)
        sum += momentum_share(kind, format, 1e-3 * pow(4, (double)k / SIZES));
    return sum / SIZES;
}

static void test_noise_of_momentum(void **unused)
{
    for (int kind = 0; kind < 2; kind++) {
        const double coded = mean_share((comet_optimiser_kind)kind, COMET_STATE_CODED),
                     bf16 = mean_share((comet_optimiser_kind)kind, COMET_STATE_BF16);
        print_message("%s: rounding adds %.2e (coded) and %.2e (bf16) of the variance of gradients\n",
                      comet_optimiser_name((comet_optimiser_kind)kind), coded, bf16);
        assert_near(coded, 6.3e-4, 1e-4);
        assert_near(bf16, 2.4e-5, 4e-6);
    }
}

/* A second moment among ones that are the same, and among ones that are 10^4 times as large. */
static void check_second_moment(comet_state_format format, double least, double most)
{
    enum { N = 4096, STEPS = 4000, SETTLED = 2000, EACH = 100 };
    setting exact = setting_of(COMET_OPTIMISER_ADAMW, COMET_STATE_F32, N), s = setting_of(COMET_OPTIMISER_ADAMW, format, N);
    double errors[2] = {0}, means[2] = {0}, n_seen = 0;
    exact.o.beta2 = s.o.beta2 = 0.998;
    for (uint64_t step = 0; step < STEPS; step++) {
        fill_normal(exact.gradient, N, 1, step);
        for (size_t i = 0; i < N; i++) /* of all sizes within an octave; every second is 100 times smaller */
            exact.gradient[i] *= exp2f((float)(i % 512) / 1024) * (i % 2 ? 0.01f : 1);
        memcpy(s.gradient, exact.gradient, N * sizeof(float));
        update(&exact, step, 1);
        update(&s, step, 1);
        if (step < SETTLED || step % EACH != 0)
            continue;
        float *x = read_all(exact.state.second_moment, N), *y = read_all(s.state.second_moment, N);
        for (size_t i = 0; i < N; i++) {
            const double e = (double)y[i] / (double)x[i] - 1;
            errors[i % 2] += e * e;
            means[i % 2] += e;
        }
        n_seen += N / 2;
        free(x);
        free(y);
    }
    for (int k = 0; k < 2; k++) {
        print_message("%s: second moments %s are off by %+.2f %% in the mean, relative variance %.4f\n",
                      comet_state_format_name(format), k ? "1e-4 of their neighbours" : "of usual size",
                      100 * means[k] / n_seen, errors[k] / n_seen);
        assert_true(errors[k] / n_seen >= least && errors[k] / n_seen <= most);
        assert_near(means[k] / n_seen, 0, 0.015);
    }
    setting_free(&exact);
    setting_free(&s);
}

static void test_noise_of_second_moment(void **unused)
{
    check_second_moment(COMET_STATE_CODED, 0.017, 0.021); /* (0.97 * 0.0451 - 2 (1 - beta2)) / 2 = 0.0198 */
    check_second_moment(COMET_STATE_BF16, 0.0005, 0.0027);
}

/* ---- small updates arrive: weights are f32 ---- */

static void test_small_updates(void **unused)
{
    enum { N = 1600, STEPS = 200 };
    for (int kind = 0; kind < 2; kind++)
        for (int format = COMET_STATE_F32; format <= (int)COMET_STATE_CODED; format++) {
            setting s = setting_of((comet_optimiser_kind)kind, (comet_state_format)format, N);
            const optimiser_step u = {.optimiser = &s.o, .rate = 1e-5, .seed = 3, .gradient_scale = 1};
            s.o.momentum = 0;
            double moved = 0;
            for (size_t i = 0; i < N; i++)
                s.weights[i] = s.gradient[i] = 1;
            for (uint64_t step = 0; step < STEPS; step++) {
                optimiser_step now = u;
                now.step = step;
                optimiser_apply(&now, N, s.weights, s.gradient, &s.state, true);
                if (step == 0)
                    for (size_t i = 0; i < N; i++)
                        assert_near(1 - (double)s.weights[i], 1e-5, 1e-7);
            }
            for (size_t i = 0; i < N; i++)
                moved += 1 - (double)s.weights[i];
            assert_near(moved / N, 1e-5 * STEPS, 0.02 * 1e-5 * STEPS);
            setting_free(&s);
        }
}

/* Gradients a hundred times smaller than the others of their block move SGD's weights as far as they should. */
static void test_small_among_large(void **unused)
{
    enum { N = 1600, STEPS = 300 };
    setting s = setting_of(COMET_OPTIMISER_SGD, COMET_STATE_CODED, N);
    double moved = 0;
    for (size_t i = 0; i < N; i++)
        s.gradient[i] = i % 16 == 0 ? 1 : 0.01f;
    for (uint64_t step = 0; step < STEPS; step++)
        update(&s, step, 2);
    for (size_t i = 0; i < N; i++)
        moved -= i % 16 == 0 ? 0 : (double)s.weights[i];
    const double expected = 1e-3 * 0.01 * (10 * STEPS - 90);
    assert_near(moved / (N / 16 * 15), expected, 0.01 * expected);
    setting_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_values_survive),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_unbiased),
        cmocka_unit_test(test_noise_of_momentum),
        cmocka_unit_test(test_noise_of_second_moment),
        cmocka_unit_test(test_small_updates),
        cmocka_unit_test(test_small_among_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
