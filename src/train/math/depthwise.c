/*
 * dw[kh][kw] = sum over images and outputs of x[oh s - p + kh d][ow s - p + kw d] dy[oh][ow], a lane for each channel of a
 * block. A row of outputs is summed in float in one register for each lane, rows in double.
 */
#include "train/math/depthwise.h"

#include <stddef.h>

#include "base/isa_pick.h"
#include "train/backend/parallel.h"

typedef struct work {
    const depthwise_spec *spec;
    const float *x, *dy;
    float *dw;
} work;

/* Outputs [first, end) whose tap at `offset` (already less the padding) falls inside an input of n. */
static void valid_outputs(int64_t offset, int64_t stride, int64_t n_in, int64_t n_out, int64_t *first, int64_t *end)
{
    *first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    *end = offset >= n_in ? 0 : (n_in - 1 - offset) / stride + 1;
    if (*end > n_out)
        *end = n_out;
}

/* sum[l] += over a row: x[i step + l] dy[i block + l] */
ISA_INLINED void sum_row(double *sum, const float *x, uint64_t step, const float *dy, int64_t n, size_t block)
{
    float partial[DEPTHWISE_MAX_BLOCK] = {0};
    for (int64_t i = 0; i < n; i++)
        for (size_t l = 0; l < block; l++)
            partial[l] += x[(uint64_t)i * step + l] * dy[(uint64_t)i * block + l];
    for (size_t l = 0; l < block; l++)
        sum[l] += partial[l];
}

/* One tap of one block of channels, over the whole batch. */
ISA_INLINED void sum_tap(const work *w, uint64_t b, uint64_t kh, uint64_t kw, size_t block)
{
    const depthwise_spec *s = w->spec;
    const int64_t top = (int64_t)(kh * s->dilation[0]) - (int64_t)s->padding[0];
    const int64_t left = (int64_t)(kw * s->dilation[1]) - (int64_t)s->padding[1];
    const int64_t down = (int64_t)s->stride[0], across = (int64_t)s->stride[1];
    int64_t first_row, end_row, first, end;
    double sum[DEPTHWISE_MAX_BLOCK] = {0};
    valid_outputs(top, down, (int64_t)s->in[0], (int64_t)s->out[0], &first_row, &end_row);
    valid_outputs(left, across, (int64_t)s->in[1], (int64_t)s->out[1], &first, &end);
    for (uint64_t n = 0; n < s->batch; n++) {
        const float *x = w->x + (n * s->n_blocks + b) * s->in[0] * s->in[1] * block;
        const float *dy = w->dy + (n * s->n_blocks + b) * s->out[0] * s->out[1] * block;
        for (int64_t row = first_row; row < end_row; row++)
            sum_row(sum, x + (size_t)((row * down + top) * (int64_t)s->in[1] + first * across + left) * block,
                    (uint64_t)across * block, dy + (size_t)(row * (int64_t)s->out[1] + first) * block, end - first, block);
    }
    float *dw = w->dw + ((b * s->kernel[0] + kh) * s->kernel[1] + kw) * block;
    for (size_t l = 0; l < block; l++)
        dw[l] = (float)sum[l];
}

ISA_INLINED void sum_all_taps(void *arg, size_t begin, size_t end)
{
    const work *w = arg;
    const uint64_t width = w->spec->kernel[1], taps = w->spec->kernel[0] * width;
    for (size_t i = begin; i < end; i++) {
        const uint64_t tap = i % taps;
        if (w->spec->block == 16)
            sum_tap(w, i / taps, tap / width, tap % width, 16);
        else
            sum_tap(w, i / taps, tap / width, tap % width, 8);
    }
}

ISA_VARIANTS(sum_taps, (void *arg, size_t begin, size_t end), sum_all_taps(arg, begin, end))

void depthwise_backward_weights(const depthwise_spec *spec, const void *x, const void *dy, float *dw)
{
    work w = {spec, x, dy, dw};
    parallel_for(spec->n_blocks * spec->kernel[0] * spec->kernel[1], 1, ISA_PICK(sum_taps), &w);
}
