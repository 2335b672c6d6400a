/* Gradients of a depthwise convolution's weights against plain sums, in f32 and bf16, with each instruction set. */
#include <stdlib.h>

#include "base/convert.h"
#include "testing.h"
#include "train/backend/parallel.h"
#include "train/math/depthwise.h"

enum { MOST_WEIGHTS = 2 * 25 * DEPTHWISE_MAX_BLOCK };

static const depthwise_spec specs[] = {
    {.batch = 3,
     .n_blocks = 2,
     .block = 16,
     .in = {9, 7},
     .out = {9, 7},
     .kernel = {3, 3},
     .stride = {1, 1},
     .padding = {1, 1},
     .dilation = {1, 1}},
    {.batch = 2,
     .n_blocks = 2,
     .block = 8,
     .in = {11, 8},
     .out = {6, 4},
     .kernel = {5, 5},
     .stride = {2, 2},
     .padding = {2, 2},
     .dilation = {1, 1}},
    {.batch = 1,
     .n_blocks = 1,
     .block = 16,
     .in = {12, 13},
     .out = {8, 3},
     .kernel = {3, 2},
     .stride = {1, 5},
     .padding = {0, 1},
     .dilation = {2, 3}},
};

/* One weight: the sum over images and outputs of x dy, in double. */
static double plain_gradient(const depthwise_spec *s, const float *x, const float *dy, uint64_t b, const uint64_t tap[2],
                             uint64_t l, double *size)
{
    double sum = 0;
    *size = 0;
    for (uint64_t n = 0; n < s->batch; n++)
        for (uint64_t i = 0; i < s->out[0] * s->out[1]; i++) {
            const uint64_t h = i / s->out[1] * s->stride[0] + tap[0] * s->dilation[0] - s->padding[0];
            const uint64_t w = i % s->out[1] * s->stride[1] + tap[1] * s->dilation[1] - s->padding[1];
            if (h >= s->in[0] || w >= s->in[1]) /* or below 0, which wraps around */
                continue;
            const uint64_t image = n * s->n_blocks + b;
            const double term = (double)x[((image * s->in[0] + h) * s->in[1] + w) * s->block + l] *
                                (double)dy[(image * s->out[0] * s->out[1] + i) * s->block + l];
            sum += term;
            *size += term < 0 ? -term : term;
        }
    return sum;
}

static void check_gradient(const depthwise_spec *s, const float *x, const float *dy, const float *dw)
{
    const uint64_t area = s->kernel[0] * s->kernel[1];
    for (uint64_t i = 0; i < s->n_blocks * area * s->block; i++) {
        const uint64_t t = i / s->block % area, tap[2] = {t / s->kernel[1], t % s->kernel[1]};
        double size;
        const double expected = plain_gradient(s, x, dy, i / s->block / area, tap, i % s->block, &size);
        assert_near((double)dw[i], expected, 1e-6 * size);
    }
}

/* n numbers that bf16 holds, as floats and as bf16. */
static float *numbers(test_rng *r, uint64_t n, uint16_t **halves)
{
    float *x = need_malloc(n * sizeof *x);
    *halves = need_malloc(n * sizeof **halves);
    for (uint64_t i = 0; i < n; i++) {
        (*halves)[i] = bf16_of_float((float)rng_normal(r));
        x[i] = float_of_bf16((*halves)[i]);
    }
    return x;
}

static void check_spec(const depthwise_spec *spec, test_rng *r)
{
    const uint64_t lines = spec->batch * spec->n_blocks * spec->block, weights = spec->kernel[0] * spec->kernel[1];
    const size_t bytes = spec->n_blocks * weights * spec->block * sizeof(float);
    uint16_t *x16, *dy16;
    float *x = numbers(r, lines * spec->in[0] * spec->in[1], &x16),
          *dy = numbers(r, lines * spec->out[0] * spec->out[1], &dy16);
    float first[MOST_WEIGHTS], dw[MOST_WEIGHTS];
    depthwise_spec half = *spec;
    half.type = COMET_DTYPE_BF16;
    for (int isa = COMET_ISA_REFERENCE; isa <= COMET_ISA_AVX512; isa++) {
        comet_isa_set_cap((comet_isa)isa);
        depthwise_backward_weights(spec, x, dy, isa == COMET_ISA_REFERENCE ? first : dw);
        if (isa != COMET_ISA_REFERENCE)
            assert_memory_equal(dw, first, bytes);
        depthwise_backward_weights(&half, x16, dy16, dw);
        assert_memory_equal(dw, first, bytes); /* elements of bf16 are exact in float */
    }
    check_gradient(spec, x, dy, first);
    free(x);
    free(dy);
    free(x16);
    free(dy16);
}

static void test_gradients(void **state)
{
    const comet_isa before = comet_isa_active();
    test_rng r = {77};
    for (size_t k = 0; k < COUNT_OF(specs); k++) {
        parallel_set_threads(1 + k % 2);
        check_spec(&specs[k], &r);
    }
    comet_isa_set_cap(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
