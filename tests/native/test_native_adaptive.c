/* The adaptive bound through the library's functions: the same as adapt.h, with numbers checked and names copied. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "adapt/adapt.h"
#include "native_testing.h"

static comet_native_adapt *create(int rule)
{
    comet_native_adapt *a = NULL;
    assert_int_equal(comet_native_adapt_create(&a, rule, 0.01, 100, 1), COMET_OK);
    return a;
}

/* A tensor of 1000 elements with one parameter and one pass-on consumer. */
static comet_native_adapt *small(void)
{
    comet_native_adapt *a = create(0);
    uint32_t tensor = 9, parameter = 9, pass = 9;
    char name[8];
    snprintf(name, sizeof name, "conv1");
    assert_int_equal(comet_native_adapt_add_tensor(a, name, 1000, &tensor), COMET_OK);
    assert_int_equal(comet_native_adapt_add_parameter(a, tensor, name, 50, &parameter), COMET_OK);
    assert_int_equal(comet_native_adapt_add_pass(a, tensor, name, &pass), COMET_OK);
    snprintf(name, sizeof name, "gone"); /* names were copied */
    assert_true(tensor == 0 && parameter == 0 && pass == 1);
    return a;
}

static void run_steps(comet_native_adapt *a, uint64_t first, uint64_t n)
{
    for (uint64_t step = first; step < first + n; step++) {
        if (!comet_native_adapt_due(a, step))
            continue;
        const double eb = comet_native_adapt_eb(a, 0);
        assert_int_equal(comet_native_adapt_observe(a, 0, 40, 2.5 + (double)(step % 3), 0, NAN, eb), COMET_OK);
        assert_int_equal(comet_native_adapt_observe(a, 1, 0.5, 0, 0, NAN, eb), COMET_OK);
        if (comet_native_adapt_complete(a, step))
            comet_native_adapt_assess(a, step);
    }
}

static void test_a_bound_as_adapt_computes_it(void **state)
{
    comet_native_adapt *a = small();
    adapt *plain = NULL;
    const adapt_params params = {ADAPT_NOISE, 0.01, 100, true};
    uint32_t number = 0;
    assert_int_equal(adapt_create(&plain, &params), COMET_OK);
    assert_int_equal(adapt_add_tensor(plain, "conv1", 1000, &number), COMET_OK);
    assert_int_equal(adapt_add_parameter(plain, 0, "conv1", 50, &number), COMET_OK);
    assert_int_equal(adapt_add_pass(plain, 0, "conv1", &number), COMET_OK);
    assert_true(comet_native_adapt_eb(a, 0) == 0);
    run_steps(a, 0, 30);
    for (uint64_t step = 0; step < 30; step++) {
        if (!adapt_due(plain, step))
            continue;
        const adapt_observation parameter = {40, 2.5 + (double)(step % 3), 0, NAN, adapt_eb(plain, 0)};
        const adapt_observation pass = {0.5, 0, 0, NAN, adapt_eb(plain, 0)};
        adapt_observe(plain, 0, &parameter);
        adapt_observe(plain, 1, &pass);
        if (adapt_complete(plain, step))
            adapt_assess(plain, step);
    }
    assert_true(adapt_eb(plain, 0) > 0 && comet_native_adapt_eb(a, 0) == adapt_eb(plain, 0));
    assert_true(comet_native_adapt_pass_left(a, 1) == adapt_pass_left(plain, 1));
    assert_int_equal(comet_native_adapt_n_assessed(a), adapt_n_assessed(plain));
    assert_true(comet_native_adapt_noise(3, 0.9, 7) == adapt_noise(3, 0.9, 7));
    adapt_destroy(plain);
    comet_native_adapt_destroy(a);
}

static void test_what_is_told_of_consumers(void **state)
{
    comet_native_adapt *a = small();
    comet_native_consumer c = {.size = sizeof c};
    run_steps(a, 0, 30);
    assert_int_equal(comet_native_adapt_n_consumers(a), 2);
    assert_int_equal(comet_native_adapt_consumer(a, 0, &c), COMET_OK);
    assert_true(c.is_parameter && c.tensor == 0 && c.sigma_target > 0 && c.sigma_predicted > 0 && isnan(c.sigma_measured));
    assert_int_equal(comet_native_adapt_consumer(a, 1, &c), COMET_OK);
    assert_true(!c.is_parameter && c.tensor == 0 && isnan(c.sigma_target));
    double least = 0, most = 0;
    comet_native_adapt_sigma_ratios(a, &least, &most);
    assert_true(isnan(least) && isnan(most));
    comet_native_adapt_destroy(a);
}

/* After a restart the next step is assessed, and the bound stays until then. */
static void test_a_restart_keeps_bounds(void **state)
{
    comet_native_adapt *a = small();
    run_steps(a, 0, 60);
    const double eb = comet_native_adapt_eb(a, 0);
    uint64_t step = 60;
    while (step < 80 && comet_native_adapt_complete(a, step + 1))
        step++;
    assert_false(comet_native_adapt_complete(a, step + 1));
    comet_native_adapt_restart(a, step);
    assert_true(eb > 0 && comet_native_adapt_eb(a, 0) == eb);
    assert_true(comet_native_adapt_due(a, step + 1) && comet_native_adapt_complete(a, step + 1));
    comet_native_adapt_destroy(a);
}

/* Numbers that were exported and imported go on bit for bit. */
static void test_a_state_resumes(void **state)
{
    comet_native_adapt *a = small(), *b = small();
    run_steps(a, 0, 25);
    const uint64_t n = comet_native_adapt_n_numbers(a);
    double *numbers = malloc(n * sizeof *numbers);
    assert_non_null(numbers);
    assert_int_equal(comet_native_adapt_export(a, numbers, n - 1), COMET_ERROR_CAPACITY);
    assert_int_equal(comet_native_adapt_export(a, numbers, n), COMET_OK);
    assert_int_not_equal(comet_native_adapt_import(b, numbers, n - 1), COMET_OK);
    assert_int_equal(comet_native_adapt_import(b, numbers, n), COMET_OK);
    run_steps(a, 25, 200);
    run_steps(b, 25, 200);
    assert_true(comet_native_adapt_eb(a, 0) > 0 && comet_native_adapt_eb(a, 0) == comet_native_adapt_eb(b, 0));
    comet_native_adapt_retreat(a, 225);
    assert_true(comet_native_adapt_eb(a, 0) == 0 && comet_native_adapt_eb(b, 0) > 0);
    free(numbers);
    comet_native_adapt_destroy(a);
    comet_native_adapt_destroy(b);
}

static void test_numbers_that_are_not_there(void **state)
{
    comet_native_adapt *a = small();
    comet_native_consumer c = {.size = 4};
    uint32_t number = 77;
    assert_int_equal(comet_native_adapt_add_parameter(a, 1, "x", 5, &number), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_adapt_add_pass(a, UINT32_MAX, "x", &number), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_adapt_add_tensor(a, NULL, 5, &number), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_adapt_add_tensor(NULL, "x", 5, &number), COMET_ERROR_ARGUMENT);
    assert_int_equal(number, 77);
    assert_int_equal(comet_native_adapt_observe(a, 2, 1, 1, 1, NAN, 0), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_native_last_error(), "no consumer 2: there are 2"));
    assert_int_equal(comet_native_adapt_consumer(a, 0, &c), COMET_ERROR_ARGUMENT);
    c.size = sizeof c;
    assert_int_equal(comet_native_adapt_consumer(a, 2, &c), COMET_ERROR_ARGUMENT);
    assert_true(isnan(comet_native_adapt_eb(a, 1)) && isnan(comet_native_adapt_pass_left(a, 2)));
    comet_native_adapt_destroy(a);
    comet_native_adapt_destroy(NULL);
}

static void test_rules_that_make_no_sense(void **state)
{
    static const struct {
        int rule;
        double share;
        uint32_t window;
    } bad[] = {{2, 0.01, 100}, {-1, 0.01, 100}, {0, 0, 100}, {0, -1, 100}, {0, NAN, 100}, {1, INFINITY, 100}, {1, 0.01, 0}};
    comet_native_adapt *a = NULL;
    for (size_t k = 0; k < COUNT_OF(bad); k++)
        assert_int_equal(comet_native_adapt_create(&a, bad[k].rule, bad[k].share, bad[k].window, 0), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_adapt_create(NULL, 0, 0.01, 100, 0), COMET_ERROR_ARGUMENT);
    assert_null(a);
    comet_native_adapt_destroy(create(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bound_as_adapt_computes_it), cmocka_unit_test(test_what_is_told_of_consumers),
        cmocka_unit_test(test_a_restart_keeps_bounds),       cmocka_unit_test(test_a_state_resumes),
        cmocka_unit_test(test_numbers_that_are_not_there),   cmocka_unit_test(test_rules_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
