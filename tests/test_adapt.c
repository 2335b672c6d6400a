/* The adaptive bound: the gradient's own noise, bounds, the closed loop, the plan of assessments, checkpoints. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "adapt/adapt.h"
#include "base/random.h"

static const double AIM = 0.78; /* of the allowed sigma, as adapt.h says */

/* ---- helpers ---- */

static comet_random random_of(uint64_t part)
{
    return comet_random_start(2022, COMET_STREAM_SYNTHETIC, part, 0);
}

static adapt *new_adapt(adapt_rule rule, double share, uint32_t window, bool best_fit)
{
    const adapt_params params = {.rule = rule, .share = share, .window = window, .best_fit = best_fit};
    adapt *a;
    assert_ok(adapt_create(&a, &params));
    return a;
}

static uint32_t new_tensor(adapt *a, uint64_t n)
{
    uint32_t tensor;
    assert_ok(adapt_add_tensor(a, "tensor", n, &tensor));
    return tensor;
}

static uint32_t new_parameter(adapt *a, uint32_t tensor, uint64_t n_weights)
{
    uint32_t consumer;
    assert_ok(adapt_add_parameter(a, tensor, "weights", n_weights, &consumer));
    return consumer;
}

static uint32_t new_pass(adapt *a, uint32_t tensor)
{
    uint32_t consumer;
    assert_ok(adapt_add_pass(a, tensor, "passed", &consumer));
    return consumer;
}

static adapt_observation seen_of(double gain, double noise)
{
    return (adapt_observation){.gain = gain, .gradient_noise = noise, .mean_momentum = 1, .measured = NAN};
}

static void observe(adapt *a, uint32_t consumer, double gain, double noise)
{
    const adapt_observation seen = seen_of(gain, noise);
    adapt_observe(a, consumer, &seen);
}

/* ---- the gradient's own noise ---- */

/* Mean of adapt_noise's estimates, in units of the truth, after n_steps of momentum. */
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

/* The estimate of one assessment counts half on a logarithmic scale, under the paper's rule three quarters, up and down;
 * predicted or measured. */
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

/* Of a gradient passed on: the bound falls at once, and rises 3/4 of the way. */
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

/* A bound at most doubles, at first from what the tensor was stored with; until its consumer's limit is reached, that is not
 * what errors are measured against. It falls at once, and a retreat begins again. */
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

/* An assessment is of the means over its steps; errors, and what is allowed beside them, over those in which they were
 * measured.
 */
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

/* A net whose gradients grow alike: what is predicted falls behind the error a hundredfold, and so it does behind the
 * gradient's own noise. The bound follows the quotient of the two, which stays. */
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
        assert_near(s.sigma_measured / s.sigma_target, AIM, 1e-12);
    }
    adapt_destroy(a);
}

/* What a pass-on consumer may still let in at the bound that another sets. */
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
    passed.gain = 1e3; /* now it sets the bound */
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
    adapt_retreat(a, 2); /* nor does it climb there from what it is stored with */
    adapt_observation seen = seen_of(0, 1);
    seen.eb = 0.1;
    adapt_observe(a, harmless, &seen);
    adapt_assess(a, 3);
    assert_true(isinf(adapt_eb(a, tensor)));
    adapt_destroy(a);
}

/* A tensor with a consumer whose harm nobody has seen has no bound; bad observations change nothing. */
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

/* Bits an element more than with equal shares, summed over elements: sum of n * -log2(eb) against the uniform split. */
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

/* Shares of tensors inside the limits are in proportion to their elements for each consumer; pass-on ones among themselves. */
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

/* ---- the closed loop ---- */

typedef enum drift { DRIFT_ALONE, DRIFT_TOGETHER, DRIFT_UP, DRIFT_DOWN } drift;

/* A layer whose true sigma is `off` times the predicted one, and whose ||dY|| changes by up to 20 % from one assessment to the
 * next: alone, or together with the gradient's own noise, at random or always in one direction. */
typedef struct loop {
    comet_random random;
    drift drift;
    double off, size, noise; /* of sigma; of ||dY||; the true variance of the gradient */
} loop;

static void loop_drift(loop *l)
{
    const double u = 2 * comet_random_uniform(&l->random) - 1;
    switch (l->drift) {
    case DRIFT_ALONE: l->size = 1 + 0.1 * u; break;
    case DRIFT_TOGETHER: l->size *= 1 + 0.2 * u; break;
    case DRIFT_UP: l->size *= 1.2; break;
    case DRIFT_DOWN: l->size /= 1.2; break;
    }
    l->noise = l->drift == DRIFT_ALONE ? 50 : 50 * l->size * l->size;
}

/* What a step shows: the gradient's noise known to 10 %, the error of a gradient of some thousand weights to 2 %. */
static adapt_observation loop_step(loop *l, double eb)
{
    loop_drift(l);
    const double gain = 7 * l->size * l->size, sigma = l->off * (1 + 0.02 * comet_random_normal(&l->random));
    return (adapt_observation){.gain = gain,
                               .gradient_noise = l->noise * (1 + 0.1 * comet_random_normal(&l->random)),
                               .mean_momentum = 1,
                               .measured = eb > 0 ? sigma * sigma * gain * eb * eb : NAN,
                               .eb = eb};
}

typedef struct extremes {
    double least, most;
} extremes;

static void note(extremes *e, double x)
{
    e->least = fmin(e->least, x);
    e->most = fmax(e->most, x);
}

/* sigma / sigma* as it reports, and against the target that the true noise would give. */
static void run_loop(adapt_rule rule, loop l, extremes *reported, extremes *truth)
{
    adapt *a = new_adapt(rule, 0.01, 1, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 100);
    for (uint64_t step = 1; step < 40; step++) {
        const adapt_observation seen = loop_step(&l, adapt_eb(a, tensor));
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
        const adapt_state s = adapt_consumer_state(a, consumer);
        if (step < 5) /* no bound yet, then one that nobody has measured, then one that climbs */
            continue;
        assert_true(s.at_limit);
        note(reported, s.sigma_measured / s.sigma_target);
        note(truth, sqrt(seen.measured / (rule == ADAPT_NOISE ? 0.01 * l.noise : 100 * 0.01 * 0.01)));
    }
    adapt_destroy(a);
}

static void test_closed_loop(void **state)
{
    static const double offs[] = {1.0 / 3, 0.6, 1, 1.7, 3};
    extremes reported = {INFINITY, 0}, truth = {INFINITY, 0};
    for (size_t i = 0; i < COUNT_OF(offs); i++)
        for (uint64_t seed = 0; seed < 20; seed++)
            for (int k = DRIFT_ALONE; k <= DRIFT_DOWN; k++) {
                const loop l = {.random = random_of(1000 + seed), .drift = (drift)k, .off = offs[i], .size = 1};
                run_loop(ADAPT_NOISE, l, &reported, &truth);
                if (k == DRIFT_ALONE)
                    run_loop(ADAPT_SIGMA, l, &reported, &truth);
            }
    print_message("closed loop: sigma / sigma* from %.3f to %.3f reported, from %.3f to %.3f in truth\n", reported.least,
                  reported.most, truth.least, truth.most);
    assert_true(reported.least >= 0.5 && reported.most <= 1.2);
    assert_true(truth.least >= 0.5 && truth.most <= 1.2);
}

/* Steady, with a prediction three times too low: on target at once after the first measurement. */
static void test_calibration(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 100);
    adapt_observation seen = seen_of(2, 50);
    for (uint64_t step = 1; step <= 3; step++) {
        seen.eb = adapt_eb(a, tensor);
        seen.measured = 9 * 2 * seen.eb * seen.eb;
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
    }
    const adapt_state s = adapt_consumer_state(a, consumer);
    assert_true(s.at_limit);
    assert_near(s.sigma_measured / s.sigma_target, AIM, 1e-12);
    assert_near(s.sigma_predicted, s.sigma_measured, 1e-12);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 50 / 2) / 3, 1e-12);
    adapt_destroy(a);
}

/* A measurement with a bound far below the limit counts where it shows more harm than is known, and always shows in the log. */
static void test_measured_below_limit(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 100);
    adapt_observation seen = seen_of(2, 50);
    const double eb = AIM * sqrt(0.01 * 50 / 2);
    for (uint64_t step = 1; step < 3; step++) {
        seen.eb = 0.12 * adapt_eb(a, tensor);
        seen.measured = 0.25 * 2 * seen.eb * seen.eb;
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
        assert_near(adapt_eb(a, tensor), eb, 1e-15);
    }
    const adapt_state s = adapt_consumer_state(a, consumer);
    assert_false(s.at_limit);
    assert_near(s.sigma_measured / s.sigma_target, 0.5 * 0.12 * AIM, 1e-12);
    seen.eb = 0.13 * adapt_eb(a, tensor);
    seen.measured = 0.25 * 2 * seen.eb * seen.eb;
    adapt_observe(a, consumer, &seen);
    adapt_assess(a, 4);
    assert_near(adapt_eb(a, tensor), 2 * eb, 1e-15);
    seen.eb = 0.01 * adapt_eb(a, tensor);
    seen.measured = 4 * 2 * seen.eb * seen.eb;
    adapt_observe(a, consumer, &seen);
    adapt_assess(a, 8);
    assert_near(adapt_eb(a, tensor), eb, 1e-15); /* half way from 2 to 1/2 */
    adapt_assess(a, 16);
    assert_true(isnan(adapt_consumer_state(a, consumer).sigma_measured));
    adapt_destroy(a);
}

/* A tensor with one consumer of 100 weights that was observed once; errors of 0.1 a weight are allowed. */
typedef struct history {
    adapt *a;
    uint32_t tensor, consumer;
    uint64_t step;
} history;

static void history_observe(history *h)
{
    const adapt_observation seen = {.gain = 1e-3, .gradient_noise = 100, .mean_momentum = 10, .measured = NAN};
    adapt_observe(h->a, h->consumer, &seen);
    adapt_assess(h->a, ++h->step);
}

static history history_begin(adapt_rule rule)
{
    history h = {.a = new_adapt(rule, 0.01, 1000, false)};
    h.tensor = new_tensor(h.a, 10);
    h.consumer = new_parameter(h.a, h.tensor, 100);
    history_observe(&h);
    return h;
}

/* One assessment of n steps in which the tensor was stored with `stored` of the bound in force, and the error was `ratio` of
 * the target. */
static void assess_error(history *h, int n, double ratio, double stored)
{
    const adapt_observation seen = {.gain = 1e-3,
                                    .gradient_noise = 100,
                                    .mean_momentum = 10,
                                    .measured = ratio * ratio,
                                    .eb = stored * adapt_eb(h->a, h->tensor)};
    for (int i = 0; i < n; i++)
        adapt_observe(h->a, h->consumer, &seen);
    adapt_assess(h->a, ++h->step);
}

static void assert_ratios(const history *h, double expected, double expected_least)
{
    double least, most;
    adapt_sigma_ratios(h->a, &least, &most);
    const double ratio = adapt_consumer_state(h->a, h->consumer).sigma_ratio;
    assert_true(isnan(expected) ? isnan(ratio) && isnan(most) : fabs(ratio - expected) < 1e-12 && ratio == most);
    assert_true(isnan(expected_least) ? isnan(least) : fabs(least - expected_least) < 1e-12);
}

/* Errors over the last steps: a mean in which older steps fade, of squares or, under the paper's rule, of the errors; told from
 * a weight of 30 steps on, apart for errors at the limit and others, and forgotten by a retreat. */
static void test_error_history(void **state)
{
    static const double powers[] = {[ADAPT_NOISE] = 2, [ADAPT_SIGMA] = 1};
    for (adapt_rule rule = ADAPT_NOISE; rule <= ADAPT_SIGMA; rule++) {
        const double power = powers[rule], fade = 31.0 / 32;
        history h = history_begin(rule);
        assess_error(&h, 29, 0.9, 1);
        assert_ratios(&h, NAN, NAN);
        assess_error(&h, 1, 0.5, 1);
        assert_ratios(&h, NAN, NAN); /* 29 have faded to less */
        assess_error(&h, 20, 0.6, 1);
        double n = (29 * fade + 1) * pow(fade, 20) + 20,
               sum = (29 * fade * pow(0.9, power) + pow(0.5, power)) * pow(fade, 20) + 20 * pow(0.6, power);
        assert_ratios(&h, pow(sum / n, 1 / power), pow(sum / n, 1 / power));
        assess_error(&h, 40, 0.3, 0.5); /* not at the limit: apart, but those fade */
        assert_ratios(&h, 0.3, NAN);
        assess_error(&h, 30, 0.8, 1);
        n = n * pow(fade, 70) + 30;
        sum = sum * pow(fade, 70) + 30 * pow(0.8, power);
        assert_ratios(&h, pow(sum / n, 1 / power), pow(sum / n, 1 / power));
        history_observe(&h); /* not measured */
        assert_ratios(&h, NAN, NAN);
        adapt_retreat(h.a, ++h.step);
        history_observe(&h);
        assess_error(&h, 10, 0.8, 1);
        assert_ratios(&h, NAN, NAN);
        adapt_destroy(h.a);
    }
}

/* The text of a file as one line, without the stars of comments. */
static char *one_line(const char *folder, const char *name)
{
    const blob file = read_file(folder, name);
    char *text = need_malloc(file.bytes + 1);
    size_t n = 0;
    for (size_t i = 0; i < file.bytes; i++) {
        const char c = (char)(file.data[i] == '\n' || file.data[i] == '*' ? ' ' : file.data[i]);
        if (c != ' ' || n == 0 || text[n - 1] != ' ')
            text[n++] = c;
    }
    text[n] = '\0';
    free(file.data);
    return text;
}

/* The number of steps that a ratio needs, wherever a reader meets it. */
static void test_documented_steps(void **state)
{
    static const struct {
        const char *folder, *name, *before, *after;
    } places[] = {{"/../include/comet", "train.h", "NaN: a weight of less than ", " of them"},
                  {"/../docs", "training.md", "Null while these weigh less than ", " steps"},
                  {"/../docs", "theory.md", "It is told from a weight of ", " steps on"}};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        char folder[400], phrase[80];
        snprintf(folder, sizeof folder, "%s%s", COMET_TESTS_DIR, places[i].folder);
        snprintf(phrase, sizeof phrase, "%s%d%s", places[i].before, ADAPT_RATIO_STEPS, places[i].after);
        char *text = one_line(folder, places[i].name);
        if (!strstr(text, phrase))
            fail_msg("%s lacks \"%s\"", places[i].name, phrase);
        free(text);
    }
}

/* Of steps with errors of 0.2 and 1 the variance's mean counts, or the standard deviation's under the paper's rule; so it does
 * for the bound, and for errors that are predicted. */
static void test_means_over_steps(void **state)
{
    static const double means[] = {[ADAPT_NOISE] = 0.52, [ADAPT_SIGMA] = 0.36}; /* squared */
    for (adapt_rule rule = ADAPT_NOISE; rule <= ADAPT_SIGMA; rule++) {
        adapt *a = new_adapt(rule, 0.01, 1000, false);
        const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 100);
        adapt_observation seen = {.gradient_noise = 100, .mean_momentum = 10, .measured = NAN};
        for (int i = 0; i < 2; i++) {
            seen.gain = i == 0 ? 0.04 : 1;
            adapt_observe(a, consumer, &seen);
        }
        adapt_assess(a, 1);
        assert_near(adapt_eb(a, tensor), AIM / sqrt(means[rule]), 1e-14);
        adapt_destroy(a);
    }
    for (adapt_rule rule = ADAPT_NOISE; rule <= ADAPT_SIGMA; rule++) {
        history h = history_begin(rule);
        adapt_observation seen = {.gain = 1e-3, .gradient_noise = 100, .mean_momentum = 10, .eb = 2};
        for (int i = 0; i < 2; i++) {
            seen.measured = i == 0 ? 0.04 : 1;
            adapt_observe(h.a, h.consumer, &seen);
        }
        adapt_assess(h.a, ++h.step);
        const adapt_state s = adapt_consumer_state(h.a, h.consumer);
        assert_near(s.sigma_target, 0.1, 1e-15);
        assert_near(s.sigma_measured, sqrt(means[rule] / 100), 1e-15);
        assert_near(adapt_eb(h.a, h.tensor), AIM * 2 / sqrt(means[rule]), 1e-14);
        adapt_destroy(h.a);
    }
}

/* What was measured stays where it is not measured again; behind a retreat a prediction counts if it is worse, and then gives
 * way to others. */
static void test_measured_once(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 100);
    observe(a, consumer, 2, 50);
    adapt_assess(a, 1);
    adapt_observation seen = seen_of(2, 50);
    seen.eb = adapt_eb(a, tensor);
    seen.measured = 9 * 2 * seen.eb * seen.eb;
    adapt_observe(a, consumer, &seen);
    adapt_assess(a, 2);
    const double eb = adapt_eb(a, tensor);
    observe(a, consumer, 200, 50);
    adapt_assess(a, 4);
    assert_true(adapt_eb(a, tensor) == eb);
    adapt_retreat(a, 5);
    observe(a, consumer, 2, 50);
    adapt_assess(a, 6);
    assert_true(adapt_eb(a, tensor) == eb);
    adapt_retreat(a, 7);
    observe(a, consumer, 200, 50);
    adapt_assess(a, 8);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 50 / 200), 1e-15);
    observe(a, consumer, 50, 50);
    adapt_assess(a, 10);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 50 / 100), 1e-15);
    adapt_destroy(a);
}

/* ---- when ---- */

/* Assesses at the next step after `from` that ends an assessment, with noise that moves the bound by `factor`. */
static uint64_t next_assessment(adapt *a, uint32_t consumer, uint64_t from, double factor, double *noise)
{
    uint64_t step = from + 1;
    while (!adapt_complete(a, step))
        step++;
    *noise *= pow(factor, 4); /* half of it counts, and the bound is its root */
    observe(a, consumer, 1, *noise);
    adapt_assess(a, step);
    return step;
}

/* The run is not young any more. */
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
        noise = adapt_eb(a, tensor) * adapt_eb(a, tensor) / (AIM * AIM * 0.01);
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

/* With a steady bound the gap follows the measured error: shorter where it is above sigma*, longer only where all are well
 * below. */
static void test_windows_of_worn_bounds(void **state)
{
    static const struct {
        double ratio; /* measured / target */
        uint64_t step;
    } plan[] = {{0.8, 8020}, {0.8, 8060}, {1.0, 8140}, {1.1, 8220}, {0.8, 8260}, {1.3, 8340},
                {2.0, 8380}, {2.0, 8400}, {2.0, 8410}, {1.0, 8420}, {0.8, 8430}, {0.8, 8450}};
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
        seen.eb = plan[i].ratio; /* so that the harm is the one known: the bound stays */
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
    }
    adapt_destroy(a);
}

/* Each assessment collects over its gap up to ten steps, or over half of it up to twenty, the last of which completes it. */
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
    assert_true(adapt_eb(a, tensor) == 0);                                    /* what the other consumer saw is of the past */
    assert_true(adapt_complete(a, step + 5) && !adapt_complete(a, step + 4)); /* close again */
    observe(a, pass, 1e-9, NAN);
    adapt_assess(a, step + 5);
    assert_near(adapt_eb(a, tensor), AIM * sqrt(0.01 * 400), 1e-12);
    adapt_destroy(a);
}

/* A retreat in the middle of an assessment forgets what it has collected, and the step itself is not collected. */
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

/* ---- checkpoints ---- */

enum { N_TWIN = 4 };

/* Three tensors with one parameter each, and one that is passed on and that nobody limits otherwise. */
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

/* A run that goes on from exported numbers at any time gives the same bits, also in the middle of an assessment. */
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
        cmocka_unit_test(test_closed_loop),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_measured_below_limit),
        cmocka_unit_test(test_error_history),
        cmocka_unit_test(test_documented_steps),
        cmocka_unit_test(test_means_over_steps),
        cmocka_unit_test(test_measured_once),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_windows_of_worn_bounds),
        cmocka_unit_test(test_collecting_steps),
        cmocka_unit_test(test_window_of_one),
        cmocka_unit_test(test_retreat),
        cmocka_unit_test(test_retreat_while_collecting),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_foreign_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
