/* The adaptive bound: the gradient's own noise, bounds from observations, shares of best fit. */
#include "adapt_testing.h"

/* ---- the gradient's own noise ---- */

/* The mean of estimates by adapt_noise, in units of the true noise, after n_steps of momentum. */
static double noise_estimate(double beta, uint64_t n_steps)
{
    enum { DIMS = 400, RUNS = 30 };
    comet_random r = random_of(300 + n_steps + (uint64_t)(1000 * beta));
    double estimates = 0;
    for (int run = 0; run < RUNS; run++) {
        double distance = 0;
        for (int d = 0; d < DIMS; d++) {
            const double mean = 0.1 * d, spread = 1 + d % 3;
            double momentum = 0, sum = 0, weight = 1;
            for (uint64_t k = 0; k < n_steps; k++, weight *= beta) {
                momentum = beta * momentum + mean + spread * comet_random_normal(&r);
                sum += weight;
            }
            const double off = mean + spread * comet_random_normal(&r) - momentum / sum;
            distance += off * off / (spread * spread);
        }
        estimates += adapt_noise(distance, beta, n_steps) / DIMS / RUNS;
    }
    return estimates;
}

static void test_noise(void **state)
{
    static const double betas[] = {0, 0.5, 0.9, 0.99, 1};
    static const uint64_t steps[] = {1, 2, 5, 60};
    for (size_t i = 0; i < COUNT_OF(betas); i++)
        for (size_t k = 0; k < COUNT_OF(steps); k++)
            assert_within(noise_estimate(betas[i], steps[k]), 0.96, 1.04);
}

static void test_noise_limits(void **state)
{
    assert_true(adapt_noise(5, 0.9, 0) == 0);
    assert_near(adapt_noise(2, 0.9, 1), 1, 1e-15);
    assert_near(adapt_noise(1, 0.9, UINT64_MAX), 1 / (1 + 0.1 / 1.9), 1e-15);
    assert_near(adapt_noise(1, 1, 4), 0.8, 1e-15);
    assert_near(adapt_noise(1, 1 - 1e-15, 4), 0.8, 1e-2);
    assert_true(isnan(adapt_noise(1, -0.1, 3)) && isnan(adapt_noise(1, 1.1, 3)) && isnan(adapt_noise(1, NAN, 3)));
}

/* ---- bounds ---- */

static void test_noise_rule(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 1000), first = new_parameter(a, tensor, 50), second = new_parameter(a, tensor, 10);
    assert_true(adapt_eb(a, tensor) == 0);
    observe(a, first, 4, 100);
    observe(a, second, 9, 100);
    assert_true(adapt_eb(a, tensor) == 0);
    adapt_assess(a, 1);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 100 / 9), 1e-15);
    const adapt_state s = adapt_consumer_state(a, second);
    assert_near(s.sigma_target, sqrt(0.01 * 100 / 10), 1e-15);
    assert_near(s.sigma_predicted, AIM * s.sigma_target, 1e-15);
    assert_true(isnan(s.sigma_measured) && s.share == 1 && s.limits);
    assert_false(adapt_consumer_state(a, first).limits);
    assert_true(adapt_n_consumers(a) == 2 && adapt_consumer_tensor(a, second) == tensor && adapt_is_parameter(a, second));
    assert_string_equal(adapt_consumer_name(a, second), "weights");
    adapt_destroy(a);
}

/* The harm of one assessment, predicted or measured, counts half on a logarithmic scale, and three quarters under the paper's
 * rule; both up and down. */
static void test_harm_is_smoothed(void **state)
{
    static const double allowances[] = {1, 4, 0.5, 1}, weights[] = {[ADAPT_NOISE] = 0.5, [ADAPT_SIGMA] = 0.75};
    for (adapt_rule rule = ADAPT_NOISE; rule <= ADAPT_SIGMA; rule++)
        for (int measured = 0; measured < 2; measured++) {
            adapt *a = new_adapt(rule, rule == ADAPT_NOISE ? 0.01 : 0.1, 1000, false);
            const uint32_t tensor = new_tensor(a, 1000), consumer = new_parameter(a, tensor, 50);
            double expected = 1;
            for (size_t i = 0; i < COUNT_OF(allowances); i++) {
                const adapt_observation seen = {.gain = measured ? 7 : 0.5,
                                                .gradient_noise = 50 * allowances[i],
                                                .mean_momentum = sqrt(allowances[i]),
                                                .measured = measured ? 0.5 * 0.1 * 0.1 : NAN,
                                                .eb = 0.1};
                adapt_observe(a, consumer, &seen);
                adapt_assess(a, i + 1);
                expected = i == 0 ? 1 : pow(expected, 1 - weights[rule]) * pow(allowances[i], weights[rule]);
                const double most = 0.2 * pow(2, (double)i); /* as far as it may climb */
                assert_near(adapt_eb(a, tensor), fmin(AIM * sqrt(expected), most), 1e-14);
            }
            adapt_destroy(a);
        }
}

/* The limit of a pass-on consumer falls at once, and rises 3/4 of the way. */
static void test_pass_rises_slowly(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 1000), pass = new_pass(a, tensor);
    observe(a, pass, 1, NAN);
    adapt_assess(a, 1);
    observe(a, pass, 1.0 / 4, NAN);
    adapt_assess(a, 2);
    assert_near(adapt_eb(a, tensor), 0.1 * pow(2, 0.75), 1e-14);
    observe(a, pass, 4, NAN);
    adapt_assess(a, 3);
    assert_near(adapt_eb(a, tensor), 0.1 / 2, 1e-14);
    adapt_destroy(a);
}

/* A bound at most doubles, at first from what the tensor was stored with. Until it reaches its consumer's limit, errors are not
 * measured at the limit. It falls at once, and a retreat begins again. */
static void test_climb(void **state)
{
    static const double bounds[] = {0.02, 0.04, 0.08, 0.16, 0.25};
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 50);
    const double gain = AIM * AIM * 0.01 * 100 / (0.25 * 0.25); /* whose limit is 0.25 */
    adapt_observation seen = seen_of(gain, 100);
    seen.eb = 0.01;
    for (size_t i = 0; i < COUNT_OF(bounds); i++) {
        seen.measured = gain * seen.eb * seen.eb;
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, i + 1);
        assert_int_equal(adapt_n_assessed(a), i + 1);
        assert_near(adapt_eb(a, tensor), bounds[i], 1e-12);
        assert_true(adapt_consumer_state(a, consumer).limits == (i + 1 == COUNT_OF(bounds)));
        assert_false(adapt_consumer_state(a, consumer).at_limit);
        seen.eb = adapt_eb(a, tensor);
    }
    seen.measured = 16 * gain * seen.eb * seen.eb;
    adapt_observe(a, consumer, &seen);
    adapt_assess(a, 20);
    assert_true(adapt_consumer_state(a, consumer).at_limit);
    assert_near(adapt_eb(a, tensor), 0.25 / 2, 1e-12); /* half way to a quarter */
    adapt_retreat(a, 21);
    assert_int_equal(adapt_n_assessed(a), 0);
    seen.eb = 0.01;
    seen.measured = gain * seen.eb * seen.eb;
    adapt_observe(a, consumer, &seen);
    adapt_assess(a, 22);
    assert_near(adapt_eb(a, tensor), 0.02, 1e-12);
    adapt_destroy(a);
}

/* An assessment uses means over its steps; for errors and for what they may add, means over the steps in which errors were
 * measured. */
static void test_collected(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 50);
    static const adapt_observation steps[] = {{.gain = 1, .gradient_noise = 100, .measured = 0.5, .eb = 0.5},
                                              {.gain = 5, .gradient_noise = 900, .measured = NAN, .eb = 0.5},
                                              {.gain = 3, .gradient_noise = 140, .measured = 1.5, .eb = 0.5}};
    observe(a, consumer, 1, 80);
    observe(a, consumer, 3, 120);
    adapt_assess(a, 1);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 100 / 2), 1e-15);
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        adapt_observe(a, consumer, &steps[i]);
    adapt_assess(a, 2);
    const adapt_state s = adapt_consumer_state(a, consumer);
    assert_near(s.sigma_target, sqrt(0.01 * 120 / 50), 1e-15);
    assert_near(s.sigma_measured, sqrt(1.0 / 50), 1e-15);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 120 / (1 / 0.25)), 1e-15);
    adapt_destroy(a);
}

/* A net whose gradients become alike: gains fall a hundredfold against both the measured error and the gradient's own noise.
 * The bound is computed from the quotient of these two, which stays. */
static void test_alike_gradients(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 50);
    observe(a, consumer, 1, 100);
    adapt_assess(a, 1);
    for (uint64_t step = 2; step < 30; step++) {
        const double alike = pow(1.2, (double)step), eb = adapt_eb(a, tensor), noise = step % 2 ? 100 : 400;
        const adapt_observation seen = {
            .gain = noise / 100 / alike, .gradient_noise = noise, .measured = noise / 100 * eb * eb, .eb = eb};
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
        const adapt_state s = adapt_consumer_state(a, consumer);
        if (step < 12)
            assert_near(s.sigma_measured / s.sigma_target, AIM, 1e-12);
        assert_within(s.sigma_measured / s.sigma_target, AIM - 1e-12, 1);
    }
    adapt_destroy(a);
}

/* What a pass-on consumer may let in beyond what the bound does that another consumer sets. */
static void test_pass_left(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 16, false);
    uint32_t consumer, pass;
    const uint32_t tensor = new_tensor(a, 10);
    assert_ok(adapt_add_parameter(a, tensor, "weights", 10, &consumer));
    assert_ok(adapt_add_pass(a, tensor, "pass", &pass));
    const adapt_observation weights = {.gain = 9, .gradient_noise = 100, .measured = NAN};
    adapt_observation passed = {.gain = 1e-3, .measured = NAN};
    assert_true(adapt_pass_left(a, pass) == 0);
    adapt_observe(a, consumer, &weights);
    adapt_observe(a, pass, &passed);
    adapt_assess(a, 1);
    const double eb = adapt_eb(a, tensor);
    assert_near(adapt_pass_left(a, pass), 0.01 - 1e-3 * eb * eb, 1e-15);
    assert_true(adapt_pass_left(a, consumer) == 0);
    passed.gain = 1e3; /* now this consumer sets the bound */
    adapt_observe(a, pass, &passed);
    adapt_assess(a, 2);
    assert_true(adapt_eb(a, tensor) < eb && adapt_pass_left(a, pass) < 1e-12);
    adapt_retreat(a, 3);
    assert_true(adapt_pass_left(a, pass) == 0);
    adapt_destroy(a);
}

static void test_sigma_rule(void **state)
{
    adapt *a = new_adapt(ADAPT_SIGMA, 0.02, 1000, true);
    const uint32_t tensor = new_tensor(a, 1000), consumer = new_parameter(a, tensor, 50);
    const uint32_t other = new_tensor(a, 10), pass = new_pass(a, other);
    const adapt_observation seen = {.gain = 5, .gradient_noise = NAN, .mean_momentum = 0.3, .measured = NAN};
    adapt_observe(a, consumer, &seen);
    observe(a, pass, 4, NAN);
    adapt_assess(a, 1);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(50 * 0.006 * 0.006 / 5), 1e-15);
    assert_near(adapt_consumer_state(a, consumer).sigma_target, 0.006, 1e-15);
    assert_near(adapt_eb(a, other), sqrt(0.01 / 4), 1e-15);
    assert_true(isnan(adapt_consumer_state(a, pass).sigma_target));
    adapt_destroy(a);
}

/* All pass-on consumers together may add the share. */
static void test_pass_on(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.04, 1000, false);
    uint32_t tensors[4], consumers[4];
    for (uint32_t i = 0; i < 4; i++) {
        tensors[i] = new_tensor(a, 1000);
        consumers[i] = new_pass(a, tensors[i]);
        observe(a, consumers[i], i + 1, NAN);
    }
    const uint32_t strict = new_parameter(a, tensors[3], 5);
    observe(a, strict, 1, 1e-6);
    adapt_assess(a, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_near(adapt_eb(a, tensors[i]), sqrt(0.01 / (i + 1)), 1e-15);
    assert_near(adapt_eb(a, tensors[3]), AIM * sqrt(0.04 * 1e-6), 1e-15);
    adapt_destroy(a);
}

static void test_no_limit(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t alone = new_tensor(a, 10), tensor = new_tensor(a, 10), silent = new_tensor(a, 10);
    const uint32_t harmless = new_parameter(a, tensor, 5), without = new_parameter(a, silent, 5);
    assert_true(adapt_eb(a, alone) == 0 && adapt_eb(a, ADAPT_NONE) == 0);
    observe(a, harmless, 0, 1);
    observe(a, without, 1, 0);
    adapt_assess(a, 1);
    assert_true(isinf(adapt_eb(a, alone)) && isinf(adapt_eb(a, tensor)));
    assert_true(adapt_eb(a, silent) == 0);
    adapt_retreat(a, 2); /* the limit of doubling does not apply where there is no bound */
    adapt_observation seen = seen_of(0, 1);
    seen.eb = 0.1;
    adapt_observe(a, harmless, &seen);
    adapt_assess(a, 3);
    assert_true(isinf(adapt_eb(a, tensor)));
    adapt_destroy(a);
}

/* A tensor with a consumer that was never observed has no bound; bad observations change nothing. */
static void test_unobserved(void **state)
{
    static const double bad[] = {NAN, INFINITY, -1};
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), one = new_parameter(a, tensor, 5), two = new_pass(a, tensor);
    observe(a, one, 1, 1);
    adapt_assess(a, 1);
    assert_true(adapt_eb(a, tensor) == 0);
    observe(a, two, 1, NAN);
    adapt_assess(a, 2);
    const double eb = adapt_eb(a, tensor);
    assert_near(eb, AIM * 0.1, 1e-15);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        observe(a, one, bad[i], 1);
        observe(a, two, bad[i], NAN);
        adapt_assess(a, 4 + 4 * i);
        assert_true(adapt_eb(a, tensor) == eb);
        observe(a, one, 1, bad[i]);
        observe(a, ADAPT_NONE, 1, 1);
        adapt_assess(a, 6 + 4 * i);
        assert_true(adapt_eb(a, tensor) == eb);
    }
    adapt_destroy(a);
}

static void test_bad_arguments(void **state)
{
    static const adapt_params bad[] = {{ADAPT_NOISE, 0, 10, false},
                                       {ADAPT_NOISE, NAN, 10, false},
                                       {ADAPT_NOISE, INFINITY, 10, false},
                                       {ADAPT_SIGMA, 0.01, 0, false},
                                       {(adapt_rule)7, 0.01, 10, false}};
    adapt *a = NULL;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_status(adapt_create(&a, &bad[i]), COMET_ERROR_ARGUMENT);
    assert_null(a);
    adapt_destroy(NULL);
    a = new_adapt(ADAPT_NOISE, 0.01, 10, false);
    uint32_t id = 77;
    assert_status(adapt_add_tensor(a, "empty", 0, &id), COMET_ERROR_ARGUMENT);
    assert_status(adapt_add_pass(a, 0, "astray", &id), COMET_ERROR_ARGUMENT);
    const uint32_t tensor = new_tensor(a, 1);
    assert_status(adapt_add_parameter(a, tensor, "empty", 0, &id), COMET_ERROR_ARGUMENT);
    assert_int_equal(id, 77);
    adapt_destroy(a);
}

/* ---- best fit ---- */

/* Bits that all elements need more than with equal shares: the sum of n * -log2(eb), less that of the uniform split. */
static double bits_against_uniform(const uint64_t *sizes, const uint32_t *n_readers, size_t n, double *mean_share)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, true);
    double bits = 0;
    *mean_share = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t tensor = new_tensor(a, sizes[i]);
        for (uint32_t k = 0; k < n_readers[i]; k++)
            observe(a, new_parameter(a, tensor, 10), 1, 1);
    }
    adapt_assess(a, 1);
    for (uint32_t i = 0; i < n; i++)
        bits -= (double)sizes[i] * log2(adapt_eb(a, i) / (AIM * sqrt(0.01)));
    for (uint32_t i = 0; i < adapt_n_consumers(a); i++) {
        const double share = adapt_consumer_state(a, i).share;
        assert_within(share, 0.125, 4);
        *mean_share += share / adapt_n_consumers(a);
    }
    adapt_destroy(a);
    return bits;
}

static void test_best_fit(void **state)
{
    static const uint64_t sizes[] = {800000, 400000, 400000, 200000, 100000, 50000, 1000, 10};
    static const uint32_t one[] = {1, 1, 1, 1, 1, 1, 1, 1}, several[] = {1, 2, 3, 1, 2, 1, 2, 1};
    static const uint64_t equal[] = {5, 5, 5};
    double mean;
    const double bits = bits_against_uniform(sizes, one, COUNT_OF(sizes), &mean);
    print_message("best fit: %.3f bits an element less than with equal shares\n", -bits / 1951010);
    assert_true(bits < -0.2 * 1951010);
    assert_near(mean, 1, 1e-12);
    assert_true(bits_against_uniform(sizes, several, COUNT_OF(sizes), &mean) < 0);
    assert_near(mean, 1, 1e-12);
    assert_near(bits_against_uniform(equal, one, COUNT_OF(equal), &mean), 0, 1e-12);
    assert_near(mean, 1, 1e-12);
}

/* Shares within the limits are in proportion to elements per consumer; parameter and pass-on consumers apart. */
static void test_best_fit_shares(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, true);
    const uint32_t large = new_tensor(a, 3000), small = new_tensor(a, 1000), passed = new_tensor(a, 600);
    const uint32_t on_large = new_parameter(a, large, 1), on_small = new_parameter(a, small, 1);
    const uint32_t pass = new_pass(a, passed), more = new_pass(a, small);
    observe(a, on_large, 1, 1);
    observe(a, on_small, 1, 1);
    observe(a, pass, 1, NAN);
    observe(a, more, 1e-9, NAN);
    adapt_assess(a, 1);
    assert_near(adapt_consumer_state(a, on_large).share, 1.5, 1e-12);
    assert_near(adapt_consumer_state(a, on_small).share, 0.5, 1e-12);
    assert_near(adapt_eb(a, large), AIM * sqrt(0.015), 1e-12);
    assert_near(adapt_eb(a, small), AIM * sqrt(0.005), 1e-12);
    assert_near(adapt_eb(a, passed), sqrt(0.01 * 0.75 / 2), 1e-12);
    adapt_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_noise_limits),
        cmocka_unit_test(test_noise_rule),
        cmocka_unit_test(test_harm_is_smoothed),
        cmocka_unit_test(test_pass_rises_slowly),
        cmocka_unit_test(test_climb),
        cmocka_unit_test(test_collected),
        cmocka_unit_test(test_alike_gradients),
        cmocka_unit_test(test_pass_left),
        cmocka_unit_test(test_sigma_rule),
        cmocka_unit_test(test_pass_on),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_unobserved),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_best_fit_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
