/* The loops of batch normalisation against plain ones, bit for bit, for whatever instruction set is active. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "base/random.h"
#include "testing.h"
#include "train/math/norm.h"

enum { N_COEFFICIENTS = 16, RUN_ROWS = 64 };

/* Shapes as layouts give them: blocked by 16 and by 8, planar, channels last with a period that does and does not divide 16. */
static const norm_shape shapes[] = {
    {.n_elements = 3 * 2 * 49 * 16, .channels = 30, .period = 16, .rows = 49, .n_groups = 2, .width = 16},
    {.n_elements = 2 * 3 * 31 * 8, .channels = 24, .period = 8, .rows = 31, .n_groups = 3, .width = 16},
    {.n_elements = 4 * 5 * 1050, .channels = 5, .period = 1, .rows = 1050, .n_groups = 5, .width = 16},
    {.n_elements = 70 * 4, .channels = 4, .period = 4, .rows = 70, .n_groups = 1, .width = 16},
    {.n_elements = 70 * 24, .channels = 24, .period = 24, .rows = 70, .n_groups = 1, .width = 24},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], MOST = 4 * 5 * 1050, MOST_LANES = 5 * 24 };

typedef struct numbers {
    float z[MOST], dy[MOST], lanes[N_COEFFICIENTS][MOST_LANES];
} numbers;

static void fill(numbers *x, uint64_t seed)
{
    comet_random r = comet_random_start(seed, COMET_STREAM_SYNTHETIC, 0, 0);
    for (uint32_t i = 0; i < MOST; i++) {
        x->z[i] = (float)comet_random_normal(&r);
        x->dy[i] = (float)comet_random_normal(&r);
    }
    for (int k = 0; k < N_COEFFICIENTS; k++)
        for (uint32_t l = 0; l < MOST_LANES; l++)
            x->lanes[k][l] = (float)comet_random_normal(&r);
    static const float special[] = {0.0f, -0.0f, FLT_MIN, -FLT_MIN, 1e30f, -1e30f};
    for (uint32_t i = 0; i < sizeof special / sizeof special[0]; i++)
        x->z[7 * i + 3] = x->dy[11 * i + 5] = special[i];
}

static uint64_t lane_of(const norm_shape *s, uint64_t i)
{
    const uint64_t group = i / (s->rows * s->period);
    return group % s->n_groups * s->width + i % (s->rows * s->period) % s->width;
}

static void assert_bits(const char *what, int shape, uint64_t n, const float *got, const float *expected)
{
    for (uint64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &expected[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(expected[i])))
            fail_msg("%s, shape %d: element %llu is %a, not %a", what, shape, (unsigned long long)i, (double)got[i],
                     (double)expected[i]);
}

static norm_stored_coefficients stored_of(const numbers *x, bool signs)
{
    return (norm_stored_coefficients){.mask_from = signs ? NULL : x->lanes[0],
                                      .mask_scale = x->lanes[1],
                                      .mask_shift = x->lanes[2],
                                      .from = x->lanes[3],
                                      .scale = x->lanes[4],
                                      .out_from = x->lanes[5],
                                      .out_scale = x->lanes[6],
                                      .out_shift = x->lanes[7],
                                      .coarse = 3};
}

static bool passes(const norm_shape *s, const norm_stored_coefficients *c, float v, uint64_t l)
{
    return !s->relu || (c->mask_from ? (v - c->mask_from[l]) * c->mask_scale[l] + c->mask_shift[l] : -v) > 0;
}

static void check_apply(const norm_shape *s, int shape, const numbers *x, bool codes)
{
    static float y[MOST], w[MOST], expected_y[MOST], expected_w[MOST];
    const norm_apply_coefficients c = {x->lanes[8], x->lanes[9], x->lanes[10], x->lanes[11], x->lanes[12], 3};
    for (uint64_t i = 0; i < s->n_elements; i++) {
        const uint64_t l = lane_of(s, i);
        const float d = x->z[i] - c.mean[l], a = d * c.scale[l] + c.shift[l], stored = d * c.code_scale[l] + c.code_shift[l];
        expected_y[i] = s->relu && a < 0 ? 0 : a;
        expected_w[i] = !s->relu ? stored
                        : a > 0  ? (stored < -FLT_MIN ? stored : -FLT_MIN)
                                 : (stored < 0 ? 0 : stored) * (1 / c.coarse);
    }
    norm_apply(s, x->z, 0, s->n_elements, &c, y, codes ? w : NULL);
    assert_bits("apply", shape, s->n_elements, y, expected_y);
    if (codes)
        assert_bits("codes", shape, s->n_elements, w, expected_w);
}

static void check_read(const norm_shape *s, int shape, const numbers *x, bool signs)
{
    static float y[MOST], dx[MOST], expected_y[MOST], expected_dx[MOST];
    const norm_stored_coefficients c = stored_of(x, signs);
    const norm_gradient_coefficients g = {x->lanes[13], x->lanes[14], x->lanes[15]};
    for (uint64_t i = 0; i < s->n_elements; i++) {
        const uint64_t l = lane_of(s, i);
        const float v = x->z[i], a = (v - c.out_from[l]) * c.out_scale[l] + c.out_shift[l];
        const bool passed = passes(s, &c, v, l);
        expected_y[i] = !passed || (s->relu && a < 0) ? 0 : a;
        const float whole = s->relu && signs && !(v < 0) ? v * c.coarse : v;
        expected_dx[i] = (passed ? x->dy[i] : 0) * g.gain[l] + ((whole - c.from[l]) * g.slope[l] + g.offset[l]);
    }
    norm_output(s, x->z, 0, s->n_elements, &c, y);
    norm_gradient(s, x->z, x->dy, 0, s->n_elements, &c, &g, dx);
    assert_bits("output", shape, s->n_elements, y, expected_y);
    assert_bits("gradient", shape, s->n_elements, dx, expected_dx);
}

/* In float over RUN_ROWS rows of 16 lanes, then in double; rows of other widths, and tails, in double at once. */
static void sum_group(const norm_shape *s, const numbers *x, const norm_stored_coefficients *c, const float *shift,
                      bool squares, uint64_t first, double *segment)
{
    const uint64_t n = s->rows * s->period, whole = s->width == 16 ? n / 16 * 16 : 0;
    float run[NORM_SUMS][16] = {{0}};
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t l = lane_of(s, first + i), column = i % s->width;
        const float v = x->z[first + i];
        const float d = shift ? v - shift[l] : passes(s, c, v, l) ? x->dy[first + i] : 0;
        const bool signs = !shift && !c->mask_from;
        const float stored = s->relu && signs && !(v < 0) ? v * c->coarse : v, hat = (stored - c->from[l]) * c->scale[l];
        const float terms[NORM_SUMS] = {d, shift ? d * d : d * hat, signs ? hat : 0, squares ? d * d : 0};
        if (i >= whole) {
            for (uint64_t k = 0; k < NORM_SUMS; k++)
                segment[k * s->width + column] += (double)terms[k];
            continue;
        }
        for (int k = 0; k < NORM_SUMS; k++)
            run[k][column] += terms[k];
        if ((i + 1) % (16 * RUN_ROWS) != 0 && i + 1 != whole)
            continue;
        for (int k = 0; k < NORM_SUMS; k++)
            for (int column_of = 0; column_of < 16; column_of++)
                segment[k * 16 + column_of] += (double)run[k][column_of];
        memset(run, 0, sizeof run);
    }
}

static void check_sums(const norm_shape *s, int shape, const numbers *x, bool signs)
{
    enum { MOST_SEGMENTS = 32 };
    static double segments[MOST_SEGMENTS * NORM_SUMS * 24], expected[MOST_SEGMENTS * NORM_SUMS * 24];
    const norm_stored_coefficients c = stored_of(x, signs);
    const uint64_t group = s->rows * s->period, n_groups = s->n_elements / group;
    assert_true(norm_segments(s, s->n_elements) <= MOST_SEGMENTS);
    for (int way = 0; way < 3; way++) {
        const bool moments = way == 2, squares = way == 1;
        const float *shift = moments ? x->lanes[0] : NULL;
        memset(expected, 0, sizeof expected);
        for (uint64_t k = 0; k < n_groups; k++)
            sum_group(s, x, &c, shift, squares, k * group, expected + k * NORM_SUMS * s->width);
        if (moments)
            norm_sum_moments(s, x->z, 0, s->n_elements, shift, segments);
        else
            norm_sum_gradients(s, x->z, x->dy, 0, s->n_elements, &c, squares, segments);
        for (uint64_t i = 0; i < n_groups * NORM_SUMS * s->width; i++)
            if (memcmp(&segments[i], &expected[i], sizeof *segments) != 0)
                fail_msg("sums, shape %d: number %llu is %a, not %a", shape, (unsigned long long)i, segments[i], expected[i]);
    }
}

static void test_loops(void **state)
{
    (void)state;
    static numbers x;
    for (int k = 0; k < N_SHAPES; k++)
        for (int kind = 0; kind < 4; kind++) {
            norm_shape s = shapes[k];
            s.relu = kind & 1;
            fill(&x, (uint64_t)(4 * k + kind));
            check_apply(&s, k, &x, kind & 2);
            check_read(&s, k, &x, kind & 2);
            check_sums(&s, k, &x, kind & 2);
        }
}

/* ---- bf16: what the same loops make of the widened elements, rounded ---- */

typedef struct halves {
    uint16_t z[MOST], dy[MOST];
} halves;

/* Rounds the elements of x, some of them subnormal or not finite, and returns them as bf16. */
static const halves *round_elements(numbers *x)
{
    static halves h;
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY, 1e-40f, -1e-40f, 3e38f, -3e38f};
    for (uint32_t i = 0; i < COUNT_OF(odd); i++)
        x->z[131 * i + 17] = x->dy[137 * i + 19] = odd[i];
    for (uint32_t i = 0; i < MOST; i++) {
        h.z[i] = bf16_of_float(x->z[i]);
        h.dy[i] = bf16_of_float(x->dy[i]);
        x->z[i] = float_of_bf16(h.z[i]);
        x->dy[i] = float_of_bf16(h.dy[i]);
    }
    return &h;
}

static void assert_rounded(const char *what, int shape, uint64_t n, const uint16_t *got, const float *exact)
{
    for (uint64_t i = 0; i < n; i++)
        if (got[i] != bf16_of_float(exact[i]))
            fail_msg("%s in bf16, shape %d: element %llu is %04x, not %a rounded", what, shape, (unsigned long long)i, got[i],
                     (double)exact[i]);
}

static void check_bf16_elements(const norm_shape *s, int shape, const numbers *x, const halves *h, bool option)
{
    static float y[MOST], w[MOST], dx[MOST], again[MOST];
    static uint16_t y16[MOST], w16[MOST], dx16[MOST], again16[MOST];
    const uint64_t n = s->n_elements;
    const norm_apply_coefficients c = {x->lanes[8], x->lanes[9], x->lanes[10], x->lanes[11], x->lanes[12], 3};
    const norm_stored_coefficients v = stored_of(x, option);
    const norm_gradient_coefficients g = {x->lanes[13], x->lanes[14], x->lanes[15]};
    norm_shape half = *s;
    half.type = COMET_DTYPE_BF16;
    memcpy(y16, h->z, sizeof y16); /* in place */
    memcpy(dx16, h->dy, sizeof dx16);
    norm_apply(s, x->z, 0, n, &c, y, option ? w : NULL);
    norm_apply(&half, y16, 0, n, &c, y16, option ? w16 : NULL);
    norm_output(s, x->z, 0, n, &v, again);
    norm_output(&half, h->z, 0, n, &v, again16);
    norm_gradient(s, x->z, x->dy, 0, n, &v, &g, dx);
    norm_gradient(&half, h->z, dx16, 0, n, &v, &g, dx16);
    assert_rounded("apply", shape, n, y16, y);
    assert_rounded("codes", shape, option ? n : 0, w16, w);
    assert_rounded("output", shape, n, again16, again);
    assert_rounded("gradient", shape, n, dx16, dx);
}

static void check_bf16_sums(const norm_shape *s, int shape, const numbers *x, const halves *h, bool option)
{
    enum { MOST_DOUBLES = 32 * NORM_SUMS * 24 };
    static double exact[MOST_DOUBLES], got[MOST_DOUBLES];
    const norm_stored_coefficients v = stored_of(x, option);
    norm_shape half = *s;
    half.type = COMET_DTYPE_BF16;
    for (int way = 0; way < 3; way++) {
        memset(exact, 0, sizeof exact);
        memset(got, 0, sizeof got);
        if (way == 2) {
            norm_sum_moments(s, x->z, 0, s->n_elements, x->lanes[0], exact);
            norm_sum_moments(&half, h->z, 0, s->n_elements, x->lanes[0], got);
        } else {
            norm_sum_gradients(s, x->z, x->dy, 0, s->n_elements, &v, way == 1, exact);
            norm_sum_gradients(&half, h->z, h->dy, 0, s->n_elements, &v, way == 1, got);
        }
        for (uint64_t i = 0; i < MOST_DOUBLES; i++)
            if (memcmp(&got[i], &exact[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(exact[i])))
                fail_msg("sums in bf16, shape %d: number %llu is %a, not %a", shape, (unsigned long long)i, got[i], exact[i]);
    }
}

static void test_bf16(void **state)
{
    (void)state;
    static numbers x;
    for (int k = 0; k < N_SHAPES; k++)
        for (int kind = 0; kind < 4; kind++) {
            norm_shape s = shapes[k];
            s.relu = kind & 1;
            fill(&x, (uint64_t)(4 * k + kind));
            const halves *h = round_elements(&x);
            check_bf16_elements(&s, k, &x, h, kind & 2);
            check_bf16_sums(&s, k, &x, h, kind & 2);
        }
}

/* NaN goes through forward, whatever the relu. */
static void test_nan_goes_on(void **state)
{
    (void)state;
    static numbers x;
    static float y[MOST], w[MOST];
    norm_shape s = shapes[0];
    const norm_apply_coefficients c = {x.lanes[8], x.lanes[9], x.lanes[10], x.lanes[11], x.lanes[12], 3};
    s.relu = true;
    fill(&x, 1);
    x.z[100] = NAN;
    norm_apply(&s, x.z, 0, s.n_elements, &c, y, w);
    assert_true(isnan(y[100]) && isnan(w[100]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loops), cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_nan_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
