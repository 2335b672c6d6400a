/* What an error of a stored tensor does to gradients: gains of docs/theory.md against simulation. Those of batch norms, and
 * convolutions once more, are in tests/train/test_model_gains.c, as the model itself computes them. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"

static comet_random random_of(uint64_t part)
{
    return comet_random_start(2022, COMET_STREAM_SYNTHETIC, part, 0);
}

typedef struct conv_case {
    int n, c_in, c_out, groups, size, kernel, stride, pad;
    double nonzero;
} conv_case;

static int conv_out(const conv_case *c)
{
    return (c->size + 2 * c->pad - c->kernel) / c->stride + 1;
}

/* Share of (tap, output position) pairs along one side that fall on the image rather than on padding. */
static double valid_share(const conv_case *c)
{
    int n_valid = 0;
    for (int o = 0; o < conv_out(c); o++)
        for (int k = 0; k < c->kernel; k++) {
            const int at = o * c->stride + k - c->pad;
            n_valid += at >= 0 && at < c->size;
        }
    return (double)n_valid / (conv_out(c) * c->kernel);
}

/* One element of dW. */
static double weight_gradient(const conv_case *c, const double *x, const double *dy, int o, int i, int ky, int kx)
{
    const int out = conv_out(c), c_group = c->c_in / c->groups, group = o / (c->c_out / c->groups);
    double sum = 0;
    for (int n = 0; n < c->n; n++)
        for (int y = 0; y < out; y++)
            for (int z = 0; z < out; z++) {
                const int at_y = y * c->stride + ky - c->pad, at_x = z * c->stride + kx - c->pad;
                if (at_y < 0 || at_y >= c->size || at_x < 0 || at_x >= c->size)
                    continue;
                const int channel = group * c_group + i;
                sum += x[((n * c->c_in + channel) * c->size + at_y) * c->size + at_x] *
                       dy[((n * c->c_out + o) * out + y) * out + z];
            }
    return sum;
}

/* Summed squares of dW; dW is linear in X, so that of the error is the error of dW. */
static double weight_gradient_energy(const conv_case *c, const double *x, const double *dy)
{
    double energy = 0;
    for (int o = 0; o < c->c_out; o++)
        for (int i = 0; i < c->c_in / c->groups; i++)
            for (int k = 0; k < c->kernel * c->kernel; k++) {
                const double d = weight_gradient(c, x, dy, o, i, k / c->kernel, k % c->kernel);
                energy += d * d;
            }
    return energy;
}

static double nearest_error(double x, double eb)
{
    return 2 * eb * nearbyint(x / (2 * eb)) - x;
}

/* As the codec with keep support: midpoints of (0, 2 eb], (2 eb, 4 eb], ... and their mirror images. */
static double support_error(double x, double eb)
{
    return copysign((2 * ceil(fabs(x) / (2 * eb)) - 1) * eb, x) - x;
}

/* Error of half-normal values, zeros elsewhere; returns how many are not zero. */
static size_t fill_errors(comet_random *r, double *e, size_t n, double nonzero, double eb)
{
    size_t n_nonzero = 0;
    for (size_t i = 0; i < n; i++) {
        const bool zero = comet_random_uniform(r) >= nonzero;
        n_nonzero += !zero;
        e[i] = zero ? 0 : support_error(fabs(comet_random_normal(r)), eb);
    }
    return n_nonzero;
}

static double fill_normal(comet_random *r, double *x, size_t n)
{
    double energy = 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = comet_random_normal(r);
        energy += x[i] * x[i];
    }
    return energy;
}

/* Mean of true / predicted summed variance of dW over draws. */
static double conv_ratio(const conv_case *c, uint64_t part, double eb)
{
    enum { DRAWS = 50 };
    const size_t n_x = (size_t)(c->n * c->c_in * c->size * c->size), out = (size_t)conv_out(c);
    const size_t n_dy = (size_t)(c->n * c->c_out) * out * out;
    double *e = need_malloc(n_x * sizeof *e), *dy = need_malloc(n_dy * sizeof *dy), ratio = 0;
    comet_random r = random_of(part);
    for (int draw = 0; draw < DRAWS; draw++) {
        const double share = (double)fill_errors(&r, e, n_x, c->nonzero, eb) / (double)n_x;
        const double energy = fill_normal(&r, dy, n_dy);
        const double gain = c->c_in / c->groups * c->kernel * c->kernel * share / 3 * energy;
        ratio += weight_gradient_energy(c, e, dy) / (gain * eb * eb) / DRAWS;
    }
    free(e);
    free(dy);
    return ratio;
}

static void test_convolution_gain(void **state)
{
    static const conv_case cases[] = {
        {4, 6, 8, 1, 12, 3, 1, 0, 0.5},  {4, 6, 8, 1, 12, 3, 1, 1, 0.3},   {4, 6, 8, 2, 12, 3, 1, 1, 0.7},
        {4, 6, 8, 1, 13, 3, 2, 1, 0.5},  {8, 8, 8, 8, 10, 3, 1, 1, 1.0},   {4, 6, 8, 1, 12, 5, 1, 2, 0.5},
        {4, 12, 8, 1, 12, 1, 1, 0, 0.4}, {64, 40, 10, 1, 1, 1, 1, 0, 0.5}, /* the last is a linear layer */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const double valid = valid_share(&cases[i]) * valid_share(&cases[i]);
        const double ratio = conv_ratio(&cases[i], i, 0.15);
        print_message("conv %zu: variance / predicted %.3f, inside the image %.3f\n", i, ratio, valid);
        assert_within(ratio / valid, 0.9, 1.1);
        assert_true(ratio < 1.1);
    }
}

static double silu_slope(double x)
{
    const double s = 1 / (1 + exp(-x));
    return s + x * s * (1 - s);
}

/* Relative energy 0.126 eb^2 for x ~ N(0, 1), and eb^2 / (3 mean x^2) for a factor of a product. */
static void test_elementwise_gains(void **state)
{
    enum { N = 200000 };
    const double eb = 0.1;
    comet_random r = random_of(200);
    double silu_error = 0, silu_energy = 0, product_error = 0, product_energy = 0;
    for (int i = 0; i < N; i++) {
        const double x = comet_random_normal(&r), dy = comet_random_normal(&r), e = nearest_error(x, eb);
        const double slope = silu_slope(x), off = silu_slope(x + e) - slope;
        silu_error += dy * dy * off * off;
        silu_energy += dy * dy * slope * slope;
        product_error += dy * dy * e * e;
        product_energy += dy * dy * x * x;
    }
    assert_near(silu_error / silu_energy, 0.1263 * eb * eb, 0.03 * 0.1263 * eb * eb);
    assert_near(product_error / product_energy, eb * eb / 3, 0.03 * eb * eb / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolution_gain),
        cmocka_unit_test(test_elementwise_gains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
