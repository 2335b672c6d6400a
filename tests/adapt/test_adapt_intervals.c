/* The adaptive bound over a run: which steps are assessed, retreats, checkpoints. */
#include "adapt_testing.h"

/* ---- intervals ---- */

/* Assesses at the next step after `from` that ends an assessment, with noise that moves the bound by `factor`. */
static uint64_t next_assessment(adapt *a, uint32_t consumer, uint64_t from, double factor, double *noise)
{
    uint64_t step = from + 1;
    while (!adapt_complete(a, step))
        step++;
    *noise *= pow(factor, 4); /* smoothing takes its root, and the bound is the root of that */
    observe(a, consumer, 1, *noise);
    adapt_assess(a, step);
    return step;
}

/* An assessment at step 8000: from there on the age of the run does not limit the gap. */
static uint64_t grow_old(adapt *a, uint32_t consumer)
{
    observe(a, consumer, 1, 100);
    adapt_assess(a, 8000);
    return 8000;
}

static void check_windows(adapt *a, uint32_t tensor, uint32_t consumer, uint64_t from, const double *factors,
                          const uint64_t *steps, size_t n)
{
    double noise = 100;
    for (size_t i = 0; i < n; i++) {
        from = next_assessment(a, consumer, from, factors[i], &noise);
        assert_int_equal(from, steps[i]);
        /* Let the smoothing settle so that the next factor is the bound's. */
        const adapt_state s = adapt_consumer_state(a, consumer);
        const double aimed = s.sigma_predicted / s.sigma_target, eb = adapt_eb(a, tensor);
        noise = eb * eb / (aimed * aimed * 0.01);
    }
}

static void test_windows(void **state)
{
    static const double young[] = {1, 1, 0.4, 1, 1, 1, 1.5, 1, 1, 1, 1, 1, 1, 1},
                        old[] = {1, 1.5, 1, 1, 3, 2, 0.3, 3, 0.2, 1, 1};
    static const uint64_t young_steps[] = {1, 3, 7, 11, 19, 29, 39, 49, 59, 69, 79, 89, 100, 112},
                          old_steps[] = {8020, 8060, 8100, 8180, 8340, 8420, 8460, 8480, 8490, 8500, 8520};
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 5);
    assert_false(adapt_due(a, 0));
    check_windows(a, tensor, consumer, 0, young, young_steps, COUNT_OF(young));
    adapt_destroy(a);
    a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    assert_int_equal(new_tensor(a, 10), tensor);
    assert_int_equal(new_parameter(a, tensor, 5), consumer);
    for (uint64_t step = 1; step < 30; step *= 2) {
        observe(a, consumer, 1, 100);
        adapt_assess(a, step);
    }
    check_windows(a, tensor, consumer, grow_old(a, consumer), old, old_steps, COUNT_OF(old));
    adapt_destroy(a);
}

/* With a steady bound the measured error decides on the gap: shorter where it is above sigma*, longer only where it is well
 * below. */
static void test_gap_by_errors(void **state)
{
    static const struct {
        double ratio; /* measured / target */
        uint64_t step;
    } plan[] = {{0.8, 8020}, {0.8, 8060}, {1.0, 8140}, {1.1, 8220}, {0.8, 8260}, {1.3, 8340},
                {2.0, 8380}, {2.0, 8400}, {2.0, 8410}, {1.0, 8420}, {0.6, 8430}, {0.6, 8450}};
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 5);
    adapt_observation seen = seen_of(1, 100);
    seen.measured = NAN;
    for (uint64_t step = 1; step < 30; step *= 2) {
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
    }
    uint64_t step = grow_old(a, consumer);
    for (size_t i = 0; i < COUNT_OF(plan); i++) {
        while (!adapt_complete(a, step))
            step++;
        assert_int_equal(step, plan[i].step);
        seen.measured = plan[i].ratio * plan[i].ratio * 0.01 * 100;
        seen.eb = plan[i].ratio; /* the harm is then the known one, and the bound stays */
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
    }
    adapt_destroy(a);
}

/* Each assessment collects the last ten steps of its gap, or the last half, up to twenty; the last step completes it. */
static void test_collecting_steps(void **state)
{
    static const struct {
        uint64_t end, n;
    } plan[] = {{1, 1}, {3, 2}, {7, 4}, {15, 8}, {25, 10}, {35, 10}, {45, 10}, {8020, 10}, {8060, 20}, {8140, 20}};
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    uint64_t step = 0, n = 0;
    for (size_t i = 0; i < COUNT_OF(plan); i++, n = 0) {
        for (; !adapt_complete(a, step); step++)
            n += adapt_due(a, step);
        assert_true(adapt_due(a, step));
        assert_int_equal(step, plan[i].end);
        assert_int_equal(n + 1, plan[i].n);
        step = step == 45 ? 8000 : step;
        adapt_assess(a, step++);
    }
    adapt_destroy(a);
}

static void test_window_of_one(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1, false);
    for (uint64_t step = 1; step < 10; step++) {
        assert_true(adapt_due(a, step));
        adapt_assess(a, step);
        assert_false(adapt_due(a, step));
    }
    adapt_destroy(a);
}

static void test_retreat(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 32, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 5), pass = new_pass(a, tensor);
    double noise = 1;
    observe(a, pass, 1e-9, NAN);
    uint64_t step = 0;
    while (step < 400)
        step = next_assessment(a, consumer, step, 1, &noise);
    assert_true(adapt_eb(a, tensor) > 0 && !adapt_complete(a, step + 31));
    adapt_retreat(a, step + 3);
    assert_true(adapt_eb(a, tensor) == 0 && !adapt_due(a, step + 3) && adapt_due(a, step + 4));
    observe(a, consumer, 1, 400);
    adapt_assess(a, step + 4);
    assert_true(adapt_eb(a, tensor) == 0);                                    /* the other consumer was not observed since */
    assert_true(adapt_complete(a, step + 5) && !adapt_complete(a, step + 4)); /* the gap is 1 again */
    observe(a, pass, 1e-9, NAN);
    adapt_assess(a, step + 5);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 400), 1e-12);
    adapt_destroy(a);
}

/* A retreat in the middle of an assessment forgets what was collected, and the step of the retreat is not collected. */
/* A new start of the gaps keeps the bound: the next step is assessed, then gaps grow from 1 again. */
static void test_restart(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 5);
    grow_old(a, consumer);
    const double eb = adapt_eb(a, tensor);
    assert_true(eb > 0);
    assert_false(adapt_complete(a, 8001));
    adapt_restart(a, 8000);
    assert_true(adapt_due(a, 8001) && adapt_complete(a, 8001));
    assert_true(adapt_eb(a, tensor) == eb);
    assert_int_equal(adapt_n_assessed(a), 1);
    observe(a, consumer, 1, 100);
    adapt_assess(a, 8001);
    assert_false(adapt_complete(a, 8002));
    assert_true(adapt_complete(a, 8003));
    adapt_destroy(a);
}

static void test_retreat_while_collecting(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 5);
    double noise = 1;
    uint64_t step = 0;
    while (step < 100)
        step = next_assessment(a, consumer, step, 1, &noise);
    do
        step++;
    while (!adapt_due(a, step));
    assert_false(adapt_complete(a, step));
    observe(a, consumer, 1, 1e6);
    adapt_retreat(a, step);
    assert_false(adapt_due(a, step));
    assert_true(adapt_due(a, step + 1) && adapt_complete(a, step + 1));
    observe(a, consumer, 1, 100);
    adapt_assess(a, step + 1);
    assert_near(adapt_consumer_state(a, consumer).sigma_target, sqrt(0.01 * 100 / 5), 1e-14);
    adapt_destroy(a);
}

/* After a retreat a pass-on consumer has no limit to rise from slowly, and predicted harm is none that a measured one must
 * exceed. */
static void test_retreat_forgets_limits(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t passed = new_tensor(a, 10), pass = new_pass(a, passed);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 5);
    observe(a, pass, 1, NAN);
    observe(a, consumer, 4, 100);
    adapt_assess(a, 1);
    assert_near(adapt_eb(a, passed), 0.1, 1e-15);
    adapt_retreat(a, 2);
    observe(a, pass, 1.0 / 16, NAN);
    const adapt_observation seen = {.gain = 4, .gradient_noise = 100, .measured = 1e-2, .eb = 0.2}; /* a harm of 1/400 */
    adapt_observe(a, consumer, &seen);
    adapt_assess(a, 3);
    assert_near(adapt_eb(a, passed), 0.4, 1e-14);
    assert_near(adapt_consumer_state(a, consumer).sigma_predicted, adapt_eb(a, tensor) * sqrt(0.25 / 5), 1e-14);
    adapt_destroy(a);
}

/* The gap never exceeds the window, however old the run; nor in a run resumed with a shorter window. */
static void test_window_is_the_longest_gap(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 24, false), *b = new_adapt(ADAPT_NOISE, 0.01, 5, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 5);
    assert_true(new_tensor(b, 10) == tensor && new_parameter(b, tensor, 5) == consumer);
    double noise = 100;
    uint64_t step = 0, before = 0;
    while (step < 2000) {
        before = step;
        step = next_assessment(a, consumer, step, 1, &noise);
        assert_true(step - before <= 24);
    }
    assert_int_equal(step - before, 24);
    double *numbers = need_malloc(adapt_n_numbers(a) * sizeof *numbers);
    adapt_export(a, numbers);
    assert_ok(adapt_import(b, numbers, adapt_n_numbers(a)));
    step = next_assessment(b, consumer, step, 1.5, &noise); /* at the time that was planned; it leaves the gap as it is */
    before = step;
    step = next_assessment(b, consumer, step, 1, &noise);
    assert_int_equal(step - before, 5);
    free(numbers);
    adapt_destroy(a);
    adapt_destroy(b);
}

/* ---- checkpoints ---- */

enum { N_TWIN = 4 };

/* Three tensors with one parameter each, one with a pass-on consumer, and one without consumers. */
static adapt *new_twin(void)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1024, true);
    for (uint32_t i = 0; i < N_TWIN - 1; i++)
        new_parameter(a, new_tensor(a, 100 << i), 10 + i);
    new_pass(a, new_tensor(a, 50));
    new_tensor(a, 7);
    return a;
}

static void drive(adapt *a, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++) {
        if (!adapt_due(a, step))
            continue;
        comet_random r = random_of(5000 + step);
        for (uint32_t i = 0; i < N_TWIN; i++) {
            adapt_observation seen = seen_of(exp(0.3 * comet_random_normal(&r)), 1);
            seen.eb = adapt_eb(a, adapt_consumer_tensor(a, i));
            seen.measured = comet_random_uniform(&r) < 0.3 ? NAN : 2 * seen.gain * seen.eb * seen.eb;
            adapt_observe(a, i, &seen);
        }
        if (adapt_complete(a, step))
            adapt_assess(a, step);
    }
}

static void assert_same(const adapt *a, const adapt *b)
{
    const size_t n = adapt_n_numbers(a);
    assert_int_equal(n, adapt_n_numbers(b));
    double *one = need_malloc(2 * n * sizeof *one), *two = one + n;
    adapt_export(a, one);
    adapt_export(b, two);
    assert_memory_equal(one, two, n * sizeof *one);
    for (size_t i = 0; i < n; i++)
        assert_true(isfinite(one[i]));
    for (uint32_t i = 0; i <= N_TWIN; i++)
        assert_true(adapt_eb(a, i) == adapt_eb(b, i));
    double told[4];
    adapt_sigma_ratios(a, &told[0], &told[1]);
    adapt_sigma_ratios(b, &told[2], &told[3]);
    assert_memory_equal(told, told + 2, 2 * sizeof *told);
    free(one);
}

/* A run resumed from exported numbers gives the same bits, at any step, also in the middle of an assessment. */
static void test_resume(void **state)
{
    int n_half_way = 0;
    for (uint64_t at = 0; at < 300; at++) {
        adapt *a = new_twin(), *b = new_twin();
        drive(a, 0, at);
        if (at % 10 == 9)
            adapt_retreat(a, at - 1);
        n_half_way += at > 0 && adapt_due(a, at - 1);
        double *numbers = need_malloc(adapt_n_numbers(a) * sizeof *numbers);
        adapt_export(a, numbers);
        assert_ok(adapt_import(b, numbers, adapt_n_numbers(a)));
        assert_same(a, b);
        drive(a, at, 500);
        drive(b, at, 500);
        assert_same(a, b);
        for (uint32_t k = 0; k < N_TWIN - 1; k++)
            assert_true(adapt_consumer_state(a, k).share == adapt_consumer_state(b, k).share);
        free(numbers);
        adapt_destroy(a);
        adapt_destroy(b);
    }
    assert_true(n_half_way > 10);
}

/* Numbers of another net, of another version or damaged are refused, and nothing changes. */
static void test_foreign_numbers(void **state)
{
    adapt *a = new_twin(), *kept = new_twin();
    drive(a, 0, 100);
    drive(kept, 0, 100);
    const size_t n = adapt_n_numbers(a);
    double *numbers = need_malloc(n * sizeof *numbers);
    assert_status(adapt_import(a, numbers, 0), COMET_ERROR_CORRUPT);
    assert_status(adapt_import(a, numbers, n - 1), COMET_ERROR_CORRUPT);
    for (size_t i = 0; i < n; i++) {
        adapt_export(kept, numbers);
        numbers[i] = NAN;
        assert_status(adapt_import(a, numbers, n), COMET_ERROR_CORRUPT);
        numbers[i] = -2;
        assert_status(adapt_import(a, numbers, n), COMET_ERROR_CORRUPT);
    }
    adapt_export(kept, numbers);
    numbers[0] += 1;
    assert_status(adapt_import(a, numbers, n), COMET_ERROR_CORRUPT);
    assert_same(a, kept);
    free(numbers);
    adapt_destroy(a);
    adapt_destroy(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_gap_by_errors),
        cmocka_unit_test(test_collecting_steps),
        cmocka_unit_test(test_window_of_one),
        cmocka_unit_test(test_retreat),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_retreat_while_collecting),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_foreign_numbers),
        cmocka_unit_test(test_retreat_forgets_limits),
        cmocka_unit_test(test_window_is_the_longest_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
