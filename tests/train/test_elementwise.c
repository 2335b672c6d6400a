/* Sums and masks element by element, of every length, in place and not, under whatever instruction set is active. */
#include <math.h>
#include <stdlib.h>

#include "base/convert.h"
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

/* ---- products, of either type: against plain loops in float ---- */

/* Elements of a type, and their values. */
typedef struct elements {
    comet_dtype type;
    size_t n;
    float *values;
    void *data;
} elements;

static elements elements_new(comet_dtype type, size_t n, test_rng *r)
{
    elements x = {type, n, need_malloc((n + 1) * sizeof(float)), need_malloc((n + 1) * sizeof(float))};
    fill(r, x.values, n);
    for (size_t i = 0; i < n; i++)
        if (type == COMET_DTYPE_BF16) {
            ((uint16_t *)x.data)[i] = bf16_of_float(x.values[i]);
            x.values[i] = float_of_bf16(((uint16_t *)x.data)[i]);
        } else {
            ((float *)x.data)[i] = x.values[i];
        }
    return x;
}

static void elements_free(elements *x)
{
    free(x->values);
    free(x->data);
}

/* Is every element of x what the float there is, rounded? */
static void check_elements(const char *what, const elements *x, const float *exact)
{
    for (size_t i = 0; i < x->n; i++) {
        const float rounded = x->type == COMET_DTYPE_BF16 ? float_of_bf16(bf16_of_float(exact[i])) : exact[i];
        const float got =
            x->type == COMET_DTYPE_BF16 ? float_of_bf16(((const uint16_t *)x->data)[i]) : ((const float *)x->data)[i];
        if (!same(got, rounded))
            fail_because("%s, type %d: %a, not %a at %zu of %zu", what, x->type, (double)got, (double)rounded, i, x->n);
    }
}

/* The factor that element i of a tensor goes with, if it is spread. */
static size_t factor_of(const multiply_spec *s, size_t i)
{
    const size_t columns = s->order == ORDER_PLANAR ? 1 : s->order == ORDER_CHANNELS_LAST ? s->channels : s->block;
    return s->spread ? i / (columns * s->plane) * columns + i % columns : i;
}

static void check_multiply(const multiply_spec *s, test_rng *r)
{
    const size_t n = s->batch * s->channels * s->plane, n_b = s->spread ? s->batch * s->channels : n;
    elements a = elements_new(s->type, n, r), b = elements_new(s->type, n_b, r), dy = elements_new(s->type, n, r);
    elements y = elements_new(s->type, n, r), db = elements_new(s->type, n_b, r);
    float *product = need_malloc(n * sizeof *product), *da = need_malloc(n * sizeof *da),
          *sums = need_malloc(n_b * sizeof *sums);
    memset(sums, 0, n_b * sizeof *sums);
    for (size_t i = 0; i < n; i++) {
        product[i] = a.values[i] * b.values[factor_of(s, i)];
        da[i] = dy.values[i] * b.values[factor_of(s, i)];
        const float term = dy.values[i] * a.values[i];
        sums[factor_of(s, i)] = s->spread ? sums[factor_of(s, i)] + term : term; /* 0 + -0 would be 0 */
    }
    multiply_forward(s, a.data, b.data, y.data);
    check_elements("product", &y, product);
    multiply_backward(s, a.data, b.data, dy.data, y.data, NULL);
    check_elements("da", &y, da);
    multiply_backward(s, a.data, b.data, dy.data, dy.data, db.data); /* in place */
    check_elements("da in place", &dy, da);
    check_elements("db", &db, sums);
    elements *all[] = {&a, &b, &dy, &y, &db};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        elements_free(all[i]);
    free(product);
    free(da);
    free(sums);
}

static void test_multiply(void **state)
{
    static const multiply_spec specs[] = {
        {.order = ORDER_PLANAR, .batch = 2, .channels = 3, .plane = 37, .block = 1},
        {.order = ORDER_CHANNELS_LAST, .batch = 2, .channels = 40, .plane = 9, .block = 1},
        {.order = ORDER_BLOCKED, .batch = 2, .channels = 32, .plane = 9, .block = 16},
        {.order = ORDER_BLOCKED, .batch = 2, .channels = 16, .plane = 9, .block = 8},
    };
    test_rng r = {74};
    for (size_t k = 0; k < COUNT_OF(specs); k++)
        for (int kind = 0; kind < 4; kind++) {
            multiply_spec s = specs[k];
            s.spread = kind & 1;
            s.type = kind & 2 ? COMET_DTYPE_BF16 : COMET_DTYPE_F32;
            check_multiply(&s, &r);
        }
}

/* ---- bf16: what the same functions make of the values, rounded ---- */

static void check_bf16_tiles(size_t n, test_rng *r)
{
    elements a = elements_new(COMET_DTYPE_BF16, n, r), b = elements_new(COMET_DTYPE_BF16, n, r);
    elements y = elements_new(COMET_DTYPE_BF16, n, r);
    float exact[MOST];
    uint16_t signs[MOST / SIGNS_A_WORD + 1], exact_signs[MOST / SIGNS_A_WORD + 1];
    for (int relu = 0; relu < 2; relu++) {
        sum_of(COMET_DTYPE_F32, n, a.values, b.values, relu, exact);
        sum_of(COMET_DTYPE_BF16, n, a.data, b.data, relu, y.data);
        check_elements("sum", &y, exact);
    }
    relu_backward(COMET_DTYPE_F32, n, a.values, b.values, exact);
    relu_backward(COMET_DTYPE_BF16, n, a.data, b.data, y.data);
    check_elements("relu's gradient", &y, exact);
    signs_of(COMET_DTYPE_F32, n, a.values, exact_signs);
    signs_of(COMET_DTYPE_BF16, n, a.data, signs);
    assert_memory_equal(signs, exact_signs, (n + SIGNS_A_WORD - 1) / SIGNS_A_WORD * sizeof *signs);
    relu_backward_mask(COMET_DTYPE_BF16, n, signs, b.data, b.data);
    check_elements("relu's gradient by signs, in place", &b, exact);
    elements *all[] = {&a, &b, &y};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        elements_free(all[i]);
}

static void test_bf16(void **state)
{
    test_rng r = {75};
    for (size_t n = 0; n < MOST; n++)
        check_bf16_tiles(n, &r);
}

static void test_dropout_bf16(void **state)
{
    enum { ROWS = 5, ROW = 37 };
    test_rng r = {76};
    elements x = elements_new(COMET_DTYPE_BF16, ROWS * ROW, &r), y = elements_new(COMET_DTYPE_BF16, ROWS * ROW, &r);
    float exact[ROWS * ROW];
    for (int kind = 0; kind < 4; kind++) {
        dropout_spec s = {.seed = 5, .step = 3, .layer = 1, .p = kind & 1 ? 0.4f : 0, .per_sample = kind & 2};
        s.rows = ROWS;
        s.n = ROWS * ROW;
        dropout_apply(&s, x.values, exact);
        s.type = COMET_DTYPE_BF16;
        dropout_apply(&s, x.data, y.data);
        check_elements("dropout", &y, exact);
    }
    elements_free(&x);
    elements_free(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_relu_backward),
        cmocka_unit_test(test_relu_backward_mask),
        cmocka_unit_test(test_dropout_of_ranks),
        cmocka_unit_test(test_multiply),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_dropout_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
