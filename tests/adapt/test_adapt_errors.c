/* The adaptive bound follows measured errors: the closed loop, what one measurement changes, the history of errors. */
#include "adapt_testing.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the closed loop ---- */

typedef enum drift { DRIFT_ALONE, DRIFT_TOGETHER, DRIFT_UP, DRIFT_DOWN } drift;

/* A layer whose true sigma is `off` times the predicted one, and whose ||dY|| changes by up to 20 % from one assessment to the
 * next: alone, or together with the gradient's own noise, at random or always in one direction. */
typedef struct loop {
    comet_random random;
    drift drift;
    double off, size, noise; /* true to predicted sigma; ||dY||; the true variance of the gradient */
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

/* What a consumer sees in a step: the gradient's noise is known to 10 %, the error of some thousand weights to 2 %. */
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

/* sigma / sigma* as reported, and with the sigma* of the true noise. */
static void run_loop(adapt_rule rule, loop l, extremes *reported, extremes *truth)
{
    adapt *a = new_adapt(rule, 0.01, 1, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 100);
    for (uint64_t step = 1; step < 40; step++) {
        const adapt_observation seen = loop_step(&l, adapt_eb(a, tensor));
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, step);
        const adapt_state s = adapt_consumer_state(a, consumer);
        if (step < 5) /* no bound yet, then one whose error was not measured, then one that rises */
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
    assert_true(reported.least >= 0.5 && reported.most <= 1.3);
    assert_true(truth.least >= 0.5 && truth.most <= 1.2);
}

/* A layer whose errors at equal bounds scatter from one assessment to the next: the logarithm of sigma has the deviation
 * `scatter` about a mean that moves by `factor` at each assessment. The root mean square of sigma / sigma* over the assessments
 * after the first 20, in which the aim is found. */
static double aimed_error(adapt_rule rule, double scatter, double factor, uint64_t seed)
{
    enum { N = 220, FIRST = 20, STEPS = 10 };
    comet_random r = random_of(5000 + seed);
    adapt *a = new_adapt(rule, 0.01, 1, false);
    const uint32_t tensor = new_tensor(a, 10), consumer = new_parameter(a, tensor, 100);
    double harm = 7, sum = 0;
    for (uint64_t k = 1; k <= N; k++) {
        const double eb = adapt_eb(a, tensor), sigma = exp(scatter * comet_random_normal(&r));
        const adapt_observation seen = {.gain = harm,
                                        .gradient_noise = 50,
                                        .mean_momentum = 1,
                                        .measured = eb > 0 ? harm * sigma * sigma * eb * eb : NAN,
                                        .eb = eb};
        for (int i = 0; i < STEPS; i++)
            adapt_observe(a, consumer, &seen);
        adapt_assess(a, k);
        const adapt_state s = adapt_consumer_state(a, consumer);
        const double ratio = s.sigma_measured / s.sigma_target;
        if (k > FIRST)
            sum += rule == ADAPT_NOISE ? ratio * ratio : ratio;
        harm *= factor;
    }
    adapt_destroy(a);
    return rule == ADAPT_NOISE ? sqrt(sum / (N - FIRST)) : sum / (N - FIRST);
}

/* Errors come as close to sigma* as their scatter allows: the noise that training sees is the budget, less what is not known of
 * it, where a fixed aim would use six tenths of it, or more than all. */
static void test_aim(void **state)
{
    static const double scatters[] = {0, 0.05, 0.1, 0.18, 0.3}, least[] = {0.95, 0.94, 0.92, 0.89, 0.82};
    static const double drifts[] = {1, 0.97, 1.03};
    for (size_t i = 0; i < COUNT_OF(scatters); i++) {
        extremes e = {INFINITY, 0};
        for (uint64_t seed = 0; seed < 20; seed++)
            for (size_t k = 0; k < COUNT_OF(drifts); k++) {
                note(&e, aimed_error(ADAPT_NOISE, scatters[i], drifts[k], seed));
                note(&e, aimed_error(ADAPT_SIGMA, scatters[i], drifts[k], seed));
            }
        print_message("errors scatter by %.2f: sigma / sigma* from %.3f to %.3f\n", scatters[i], e.least, e.most);
        assert_true(e.least >= least[i] && e.most <= 1.02);
    }
}

/* A steady layer whose predicted sigma is three times too low: the first measurement corrects the bound at once. */
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

/* A measurement with a bound far below the limit counts only if it shows more harm than is known; it is always reported. */
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

/* One assessment of n steps in which the tensor was stored with `stored` times the bound in force, and the error was `ratio`
 * times the target. */
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

/* sigma_ratio is a mean over the last steps in which older steps fade: of squares, or of errors under the paper's rule. It is
 * reported from a weight of 30 steps on, errors at the limit and below it have their own, and a retreat forgets both. */
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
        assess_error(&h, 40, 0.3, 0.5); /* not at the limit: a mean of its own, but the other one fades */
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

/* Errors are at the limit only if every measured step was stored with the bound; steps that were not measured do not count. */
static void test_least_bound_of_steps(void **state)
{
    static const double parts[][2] = {{1, 1}, {1, 0.5}, {0.5, 1}, {0.98, 1}, {0.995, 1}};
    static const bool at_limit[] = {true, false, false, false, true};
    for (size_t k = 0; k < COUNT_OF(parts); k++) {
        history h = history_begin(ADAPT_NOISE);
        const double eb = adapt_eb(h.a, h.tensor);
        adapt_observation seen = {.gain = 1e-3, .gradient_noise = 100, .mean_momentum = 10, .measured = NAN, .eb = eb / 100};
        adapt_observe(h.a, h.consumer, &seen);
        for (int i = 0; i < 2; i++) {
            seen.eb = parts[k][i] * eb;
            seen.measured = 1e-3 * seen.eb * seen.eb;
            adapt_observe(h.a, h.consumer, &seen);
        }
        adapt_assess(h.a, ++h.step);
        assert_true(adapt_consumer_state(h.a, h.consumer).at_limit == at_limit[k]);
        adapt_destroy(h.a);
    }
}

/* Where the gain is 0, or the tensor was stored exactly, there is no error to measure. */
static void test_nothing_to_measure(void **state)
{
    static const struct {
        double gain, eb;
    } cases[] = {{0, 0.1}, {1, 0}, {1, 0.1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
        const uint32_t consumer = new_parameter(a, new_tensor(a, 10), 100);
        const adapt_observation seen = {.gain = cases[i].gain, .gradient_noise = 100, .measured = 0.25, .eb = cases[i].eb};
        adapt_observe(a, consumer, &seen);
        adapt_assess(a, 1);
        const double measured = adapt_consumer_state(a, consumer).sigma_measured;
        assert_true(i < 2 ? isnan(measured) : fabs(measured - 0.05) < 1e-15);
        adapt_destroy(a);
    }
}

/* A retreat forgets errors below the limit as it forgets those at the limit. */
static void test_retreat_forgets_both_histories(void **state)
{
    for (int below = 0; below < 2; below++) {
        history h = history_begin(ADAPT_NOISE);
        const double stored = below ? 0.5 : 1;
        assess_error(&h, 40, 0.9, stored);
        assert_ratios(&h, 0.9, below ? NAN : 0.9);
        adapt_retreat(h.a, ++h.step);
        history_observe(&h);
        assess_error(&h, 10, 0.9, stored);
        assert_ratios(&h, NAN, NAN);
        adapt_destroy(h.a);
    }
}

/* Steps with errors of 0.2 and 1 are averaged as variances, or as standard deviations under the paper's rule: predicted errors,
 * measured errors, and the bound from either. */
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

/* Measured harm stays until it is measured again. After a retreat a prediction replaces it if it is worse, and later
 * predictions replace that one. */
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
    } places[] = {{"/../include/comet", "figures.h", "NaN: a weight of less than ", " of them"},
                  {"/../docs", "log.md", "Null while fewer than ", " steps count"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documented_steps),
        cmocka_unit_test(test_closed_loop),
        cmocka_unit_test(test_aim),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_measured_below_limit),
        cmocka_unit_test(test_error_history),
        cmocka_unit_test(test_means_over_steps),
        cmocka_unit_test(test_measured_once),
        cmocka_unit_test(test_least_bound_of_steps),
        cmocka_unit_test(test_retreat_forgets_both_histories),
        cmocka_unit_test(test_nothing_to_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
