/* Sums and masks element by element, of every length, in place and not, under whatever instruction set is active. */
#include <math.h>

#include "testing.h"
#include "train/math/elementwise.h"

enum { MOST = 70 };

/* Numbers of all kinds; one in eight stands at the relu's threshold or is no number. */
static void fill(test_rng *r, float *x, size_t n)
{
    static const float odd[] = {0.0f, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f, -1e-45f};
    for (size_t i = 0; i < n; i++)
        x[i] = rng_chance(r, 8) ? odd[rng_below(r, COUNT_OF(odd))] : (float)rng_normal(r);
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_sum(const float *a, const float *b, bool relu, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = a[i] + b[i], expected = relu && !(v > 0) ? 0 : v;
        if (!same(y[i], expected))
            fail_because("%a + %a, relu %d: %a at %zu of %zu", (double)a[i], (double)b[i], relu, (double)y[i], i, n);
    }
}

static void test_sum(void **state)
{
    float a[MOST], b[MOST], y[MOST + 1];
    test_rng r = {71};
    for (size_t n = 0; n < MOST; n++)
        for (int relu = 0; relu < 2; relu++) {
            fill(&r, a, n);
            fill(&r, b, n);
            y[n] = 7;
            sum_of(COMET_DTYPE_F32, n, a, b, relu, y);
            check_sum(a, b, relu, y, n);
            memcpy(y, a, n * sizeof *y);
            sum_of(COMET_DTYPE_F32, n, y, b, relu, y);
            check_sum(a, b, relu, y, n);
            memcpy(y, b, n * sizeof *y);
            sum_of(COMET_DTYPE_F32, n, a, y, relu, y);
            check_sum(a, b, relu, y, n);
            memcpy(y, a, n * sizeof *y);
            sum_of(COMET_DTYPE_F32, n, y, y, relu, y);
            check_sum(a, a, relu, y, n);
            assert_true(y[n] == 7);
        }
}

static void check_pass(const float *y, const float *dy, const float *dx, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!same(dx[i], y[i] > 0 ? dy[i] : 0))
            fail_because("%a where the output is %a: %a at %zu of %zu", (double)dy[i], (double)y[i], (double)dx[i], i, n);
}

static void test_relu_backward(void **state)
{
    float y[MOST] = {0}, dy[MOST] = {0}, dx[MOST + 1];
    test_rng r = {72};
    for (size_t n = 0; n < MOST; n++) {
        fill(&r, y, n);
        fill(&r, dy, n);
        dx[n] = 7;
        relu_backward(COMET_DTYPE_F32, n, y, dy, dx);
        check_pass(y, dy, dx, n);
        memcpy(dx, dy, n * sizeof *dx);
        relu_backward(COMET_DTYPE_F32, n, y, dx, dx);
        check_pass(y, dy, dx, n);
        assert_true(dx[n] == 7);
    }
}

/* Signs serve in place of the values they were taken from; words after the last are left alone. */
static void test_relu_backward_mask(void **state)
{
    float y[MOST] = {0}, dy[MOST], dx[MOST + 1];
    uint16_t signs[MOST / SIGNS_A_WORD + 2];
    test_rng r = {73};
    for (size_t n = 0; n < MOST; n++) {
        const size_t n_words = (n + SIGNS_A_WORD - 1) / SIGNS_A_WORD;
        fill(&r, y, n);
        fill(&r, dy, n);
        dx[n] = 7;
        signs[n_words] = 0x1234;
        signs_of(COMET_DTYPE_F32, n, y, signs);
        for (size_t i = 0; i < n; i++)
            if ((signs[i / SIGNS_A_WORD] >> i % SIGNS_A_WORD & 1) != (y[i] > 0))
                fail_because("the sign of %a at %zu of %zu", (double)y[i], i, n);
        relu_backward_mask(COMET_DTYPE_F32, n, signs, dy, dx);
        check_pass(y, dy, dx, n);
        memcpy(dx, dy, n * sizeof *dx);
        relu_backward_mask(COMET_DTYPE_F32, n, signs, dx, dx);
        check_pass(y, dy, dx, n);
        assert_true(dx[n] == 7 && signs[n_words] == 0x1234);
    }
}

/* Ranks with a few rows each drop together what one with all rows drops, also where a row is no multiple of what one draw of
 * random numbers serves. */
static void test_dropout_of_ranks(void **state)
{
    enum { ROWS = 6, MOST_ROW = 11 };
    float x[ROWS * MOST_ROW], whole[ROWS * MOST_ROW], parts[ROWS * MOST_ROW + 1];
    for (size_t i = 0; i < COUNT_OF(x); i++)
        x[i] = (float)(i + 1);
    for (uint64_t row = 1; row <= MOST_ROW; row++)
        for (uint64_t share = 1; share <= ROWS; share++)
            for (int per_sample = 0; per_sample < 2; per_sample++) {
                dropout_spec s = {.seed = 5, .step = row, .layer = 3, .p = 0.4f, .per_sample = per_sample};
                s.rows = ROWS;
                s.n = ROWS * row;
                dropout_apply(&s, x, whole);
                parts[s.n] = 7;
                s.rows = share;
                s.n = share * row;
                for (s.first_row = 0; s.first_row + share <= ROWS; s.first_row += share)
                    dropout_apply(&s, x + s.first_row * row, parts + s.first_row * row);
                assert_memory_equal(whole, parts, s.first_row * row * sizeof *whole);
                assert_true(parts[ROWS * row] == 7);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_relu_backward),
        cmocka_unit_test(test_relu_backward_mask),
        cmocka_unit_test(test_dropout_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
