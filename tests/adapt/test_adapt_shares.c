/* Shares of the noise budget: divided among the consumers of a tensor, within their limits, for any number of consumers. */
#include "adapt_testing.h"

/* A tensor whose noise two consumers add to has the elements of half a tensor for each of them. */
static void test_readers_divide_elements(void **state)
{
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, true);
    const uint32_t shared = new_tensor(a, 2400), alone = new_tensor(a, 600);
    const uint32_t first = new_parameter(a, shared, 5), second = new_parameter(a, shared, 7),
                   single = new_parameter(a, alone, 5);
    const uint32_t passes[] = {new_pass(a, shared), new_pass(a, shared), new_pass(a, shared), new_pass(a, alone)};
    for (uint32_t i = 0; i < adapt_n_consumers(a); i++)
        observe(a, i, 1, 1);
    adapt_assess(a, 1);
    /* 1200, 1200 and 600 elements, whose mean share is 1. */
    assert_near(adapt_consumer_state(a, first).share, 1.2, 1e-12);
    assert_near(adapt_consumer_state(a, second).share, 1.2, 1e-12);
    assert_near(adapt_consumer_state(a, single).share, 0.6, 1e-12);
    assert_near(adapt_eb(a, alone), sqrt(fmin(0.01 * 0.6 * AIM * AIM, 0.01 * 6 / 7.5 / 4)), 1e-12);
    /* Pass-on consumers have 800, 800, 800 and 600 elements and a quarter of the budget each, times their share. */
    const double eb = adapt_eb(a, shared), left = 0.01 / 4 * 8 / 7.5 - eb * eb;
    for (size_t i = 0; i < 3; i++)
        assert_near(adapt_pass_left(a, passes[i]), fmax(left, 0), 1e-15);
    adapt_destroy(a);
}

/* Whatever their number, pass-on consumers add no more than the share together. */
static void test_pass_on_of_many(void **state)
{
    static const uint32_t counts[] = {1, 2, 5, 40};
    for (int best_fit = 0; best_fit < 2; best_fit++)
        for (size_t k = 0; k < COUNT_OF(counts); k++) {
            adapt *a = new_adapt(ADAPT_NOISE, 0.04, 1000, best_fit != 0);
            double sum = 0;
            for (uint32_t i = 0; i < counts[k]; i++)
                observe(a, new_pass(a, new_tensor(a, 1000 + 100 * i)), 3 + i, NAN);
            adapt_assess(a, 1);
            for (uint32_t i = 0; i < counts[k]; i++) {
                const double eb = adapt_eb(a, i), energy = (3 + i) * eb * eb;
                sum += energy;
                assert_true(best_fit || fabs(energy - 0.04 / counts[k]) < 1e-15);
            }
            assert_near(sum, 0.04, 1e-12);
            adapt_destroy(a);
        }
}

/* Tensors far smaller and far larger than the others get an eighth and four times the share, not less and not more. */
static void test_share_limits(void **state)
{
    static const uint64_t sizes[] = {1, 1, 1, 1, 1000, 1000000000};
    static const double shares[] = {0.125, 0.125, 0.125, 0.125, 1.5, 4};
    for (int passes = 0; passes < 2; passes++) {
        adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, true);
        for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
            const uint32_t tensor = new_tensor(a, sizes[i]);
            observe(a, passes ? new_pass(a, tensor) : new_parameter(a, tensor, 5), 1, 1);
        }
        adapt_assess(a, 1);
        for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
            const double share = passes ? 0.01 / COUNT_OF(sizes) : 0.01 * AIM * AIM;
            assert_near(adapt_eb(a, i), sqrt(share * shares[i]), 1e-9);
        }
        adapt_destroy(a);
    }
}

/* More tensors and consumers than are allocated at first: each keeps its own. */
static void test_many_consumers(void **state)
{
    enum { N = 500 };
    adapt *a = new_adapt(ADAPT_NOISE, 0.01, 1000, false);
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t tensor = new_tensor(a, 10 + i), consumer = new_parameter(a, tensor, 1 + i);
        assert_true(tensor == i && consumer == i);
        observe(a, consumer, 1 + i, 100);
    }
    adapt_assess(a, 1);
    for (uint32_t i = 0; i < N; i++) {
        assert_near(adapt_eb(a, i), AIM * sqrt(1.0 / (1 + i)), 1e-14);
        assert_near(adapt_consumer_state(a, i).sigma_target, sqrt(1.0 / (1 + i)), 1e-14);
        assert_int_equal(adapt_consumer_tensor(a, i), i);
    }
    adapt_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_divide_elements),
        cmocka_unit_test(test_pass_on_of_many),
        cmocka_unit_test(test_share_limits),
        cmocka_unit_test(test_many_consumers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
