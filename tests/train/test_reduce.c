/* Sums, counts and verdicts over arrays: against plain loops, and the same bits for any number of threads and any instruction
 * set. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "testing.h"
#include "train/backend/parallel.h"
#include "train/math/reduce.h"

static const size_t sizes[] = {0, 1, 7, 4095, 4096, 4097, 100003, 512 * 4096 + 5};

/* One in three is zero, of either sign. */
static float *numbers(size_t n, uint64_t seed)
{
    test_rng r = {seed};
    float *x = need_malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = rng_chance(&r, 3) ? copysignf(0, (float)rng_normal(&r)) : (float)rng_normal(&r);
    return x;
}

static void test_sum_of_squares(void **state)
{
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        float *x = numbers(sizes[k], k);
        double expected = 0;
        for (size_t i = 0; i < sizes[k]; i++)
            expected += (double)x[i] * (double)x[i];
        parallel_set_threads(1);
        const double one = sum_of_squares(COMET_DTYPE_F32, sizes[k], x);
        assert_near(one, expected, 1e-12 * expected);
        for (size_t threads = 2; threads <= 5; threads++) {
            parallel_set_threads(threads);
            const double many = sum_of_squares(COMET_DTYPE_F32, sizes[k], x);
            assert_memory_equal(&one, &many, sizeof one);
        }
        free(x);
    }
}

static void test_count_nonzero(void **state)
{
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        float *x = numbers(sizes[k], k);
        uint64_t expected = 0;
        if (sizes[k] > 1)
            x[sizes[k] - 1] = NAN; /* is not zero */
        for (size_t i = 0; i < sizes[k]; i++)
            expected += x[i] != 0;
        parallel_set_threads(1 + k % 3);
        assert_true(count_nonzero(COMET_DTYPE_F32, sizes[k], x) == expected);
        free(x);
    }
}

/* One element that is not, anywhere. */
static void test_all_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    test_rng r = {91};
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        float *x = numbers(sizes[k], k);
        parallel_set_threads(1 + k % 3);
        assert_true(all_finite(COMET_DTYPE_F32, sizes[k], x));
        for (int i = 0; sizes[k] > 0 && i < 6; i++) {
            const size_t at = i == 0 ? 0 : i == 1 ? sizes[k] - 1 : (size_t)rng_below(&r, sizes[k]);
            const float was = x[at];
            x[at] = bad[i % 3];
            assert_false(all_finite(COMET_DTYPE_F32, sizes[k], x));
            x[at] = was;
        }
        free(x);
    }
}

/* The same as of the values, widened. */
static void test_bf16(void **state)
{
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        const size_t n = sizes[k];
        float *x = numbers(n, k);
        uint16_t *h = need_malloc((n + 1) * sizeof *h);
        for (size_t i = 0; i < n; i++) {
            h[i] = bf16_of_float(x[i]);
            x[i] = float_of_bf16(h[i]);
        }
        parallel_set_threads(1 + k % 3);
        const double expected = sum_of_squares(COMET_DTYPE_F32, n, x), got = sum_of_squares(COMET_DTYPE_BF16, n, h);
        assert_memory_equal(&got, &expected, sizeof got);
        assert_true(count_nonzero(COMET_DTYPE_BF16, n, h) == count_nonzero(COMET_DTYPE_F32, n, x));
        assert_true(all_finite(COMET_DTYPE_BF16, n, h));
        if (n > 0) {
            h[n / 2] = 0xff80; /* -Inf */
            assert_false(all_finite(COMET_DTYPE_BF16, n, h));
        }
        free(x);
        free(h);
    }
}

static void test_momentum_distance(void **state)
{
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        const size_t n = sizes[k];
        float *g = numbers(n, k), *w = numbers(n, k + 100), *m = numbers(n, k + 200);
        const momentum_terms terms = {.gradient = g, .weights = w, .momentum = {.data = m}, .decay = 0.3, .to_mean = 0.7};
        double squares = 0, magnitudes = 0, size, other_size;
        for (size_t i = 0; i < n; i++) {
            const double d = (double)g[i] + 0.3 * (double)w[i] - 0.7 * (double)m[i];
            squares += d * d;
            magnitudes += fabs((double)m[i]);
        }
        parallel_set_threads(1);
        const double one = momentum_distance(n, &terms, &size);
        assert_near(one, squares, 1e-12 * squares);
        assert_near(size, magnitudes, 1e-12 * magnitudes);
        for (size_t threads = 2; threads <= 5; threads++) {
            parallel_set_threads(threads);
            const double many = momentum_distance(n, &terms, &other_size);
            assert_memory_equal(&one, &many, sizeof one);
            assert_memory_equal(&size, &other_size, sizeof size);
        }
        free(g);
        free(w);
        free(m);
    }
}

/* Each of them with each instruction set that there is. */
static void test_instruction_sets(void **state)
{
    const comet_isa before = comet_isa_active();
    parallel_set_threads(1);
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        const size_t n = sizes[k];
        float *g = numbers(n, k), *w = numbers(n, k + 100), *m = numbers(n, k + 200);
        const momentum_terms terms = {.gradient = g, .weights = g, .momentum = {.data = m}, .decay = 0.3, .to_mean = 0.7};
        double expected[5];
        if (n > 1)
            w[n / 2] = NAN;
        for (int isa = COMET_ISA_REFERENCE; isa <= COMET_ISA_AVX512; isa++) {
            double found[5] = {0};
            comet_isa_set_cap((comet_isa)isa);
            found[0] = sum_of_squares(COMET_DTYPE_F32, n, g);
            found[1] = momentum_distance(n, &terms, &found[2]);
            found[3] = (double)count_nonzero(COMET_DTYPE_F32, n, w);
            found[4] = all_finite(COMET_DTYPE_F32, n, g) - 2 * all_finite(COMET_DTYPE_F32, n, w);
            if (isa == COMET_ISA_REFERENCE)
                memcpy(expected, found, sizeof expected);
            assert_memory_equal(found, expected, sizeof expected);
        }
        free(g);
        free(w);
        free(m);
    }
    comet_isa_set_cap(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_of_squares),    cmocka_unit_test(test_count_nonzero),
        cmocka_unit_test(test_all_finite),        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_momentum_distance), cmocka_unit_test(test_instruction_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
