/*
 * Separable: for each row of the result the rows of the picture below it are summed with their weights into one row of floats,
 * and its pixels along x into the result. Rows come first, since that loop runs over adjacent bytes. Sums go in one order, so
 * the result is the same bits with every compiler.
 */
#include "train/data/resample.h"

#include <math.h>
#include <string.h>

/* Which pixels of an axis make one pixel of the result. */
typedef struct tap {
    uint32_t first, n;
} tap;

typedef struct axis {
    uint32_t low, high; /* pixels that may be used */
    double begin, step; /* pixels of the picture per pixel of the result */
    double reach;
    size_t max_taps;
    tap *taps;
    float *weights; /* max_taps for each */
} axis;

static axis axis_of(double begin, double length, uint32_t limit, uint32_t side)
{
    axis a = {.begin = begin, .step = length / side};
    const double end = ceil(begin + length - 1e-6);
    a.low = begin > 0 ? (uint32_t)(begin + 1e-6) : 0;
    a.high = end < limit ? (uint32_t)end : limit;
    if (a.low >= limit)
        a.low = limit - 1;
    if (a.high <= a.low)
        a.high = a.low + 1;
    a.reach = a.step > 1 ? a.step : 1;
    a.max_taps = (size_t)(2 * a.reach) + 3;
    return a;
}

static uint32_t clamp(double v, uint32_t low, uint32_t high)
{
    return v <= low ? low : v >= high ? high : (uint32_t)v;
}

static void fill_taps(axis *a, uint32_t side)
{
    for (uint32_t i = 0; i < side; i++) {
        const double centre = a->begin + (i + 0.5) * a->step;
        uint32_t first = clamp(centre - a->reach + 0.5, a->low, a->high - 1);
        uint32_t end = clamp(centre + a->reach + 0.5, first + 1, a->high);
        if (end - first > a->max_taps)
            end = first + (uint32_t)a->max_taps;
        float *weights = a->weights + i * a->max_taps;
        double sum = 0;
        for (uint32_t k = first; k < end; k++)
            sum += fmax(0, 1 - fabs(k + 0.5 - centre) / a->reach);
        for (uint32_t k = first; k < end; k++)
            weights[k - first] = (float)(sum > 0 ? fmax(0, 1 - fabs(k + 0.5 - centre) / a->reach) / sum : 1.0 / (end - first));
        a->taps[i] = (tap){first, end - first};
    }
}

/* One row: the weighted sum of the tap's rows, columns [low, high) of it. */
static void sum_rows(const picture *p, tap t, const float *weights, const axis *x, float *restrict row)
{
    const size_t begin = (size_t)x->low * PICTURE_CHANNELS, n = (size_t)(x->high - x->low) * PICTURE_CHANNELS;
    const uint8_t *restrict from = p->pixels + t.first * p->stride + begin;
    for (size_t i = 0; i < n; i++)
        row[i] = weights[0] * (float)from[i];
    for (uint32_t k = 1; k < t.n; k++) {
        from += p->stride;
        for (size_t i = 0; i < n; i++)
            row[i] += weights[k] * (float)from[i];
    }
}

/* Weights add up to 1 but for rounding. Unlike lround, this becomes vector code; it differs for 0.49999997 alone. */
static uint8_t nearest_byte(float v)
{
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)(v + 0.5f); /* NOLINT(bugprone-incorrect-roundings) */
}

static void write_row(const float *row, const axis *x, const resample_target *target, uint32_t y)
{
    const uint32_t side = target->side;
    const size_t plane = (size_t)side * side;
    uint8_t *out = target->planes + (size_t)y * side;
    for (uint32_t i = 0; i < side; i++) {
        const tap t = x->taps[i];
        const float *from = row + (size_t)(t.first - x->low) * PICTURE_CHANNELS, *weights = x->weights + i * x->max_taps;
        float r = 0, g = 0, b = 0;
        for (uint32_t k = 0; k < t.n; k++, from += PICTURE_CHANNELS) {
            r += weights[k] * from[0];
            g += weights[k] * from[1];
            b += weights[k] * from[2];
        }
        uint8_t *to = out + (target->flip ? side - 1 - i : i);
        to[0] = nearest_byte(r);
        to[plane] = nearest_byte(g);
        to[2 * plane] = nearest_byte(b);
    }
}

/* Cuts the pieces out of one buffer. */
static comet_status take_memory(axis axes[2], uint32_t side, comet_buffer *memory, float **row)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    const size_t row_floats = (size_t)(axes[0].high - axes[0].low) * PICTURE_CHANNELS;
    const size_t n_weights = (axes[0].max_taps + axes[1].max_taps) * side;
    const comet_status status =
        comet_buffer_reserve(&allocator, memory, (row_floats + n_weights) * sizeof(float) + 2 * (size_t)side * sizeof(tap));
    if (status != COMET_OK)
        return status;
    axes[0].taps = memory->data;
    axes[1].taps = axes[0].taps + side;
    axes[0].weights = (float *)(axes[1].taps + side);
    axes[1].weights = axes[0].weights + axes[0].max_taps * side;
    *row = axes[1].weights + axes[1].max_taps * side;
    return COMET_OK;
}

comet_status resample(const picture *p, const resample_target *target, comet_buffer *memory)
{
    const uint32_t side = target->side;
    float *row = NULL;
    axis axes[2] = {axis_of(p->wanted.x, p->wanted.width, p->width, side),
                    axis_of(p->wanted.y, p->wanted.height, p->height, side)};
    const comet_status status = take_memory(axes, side, memory, &row);
    if (status != COMET_OK)
        return status;
    fill_taps(&axes[0], side);
    fill_taps(&axes[1], side);
    for (uint32_t y = 0; y < side; y++) {
        sum_rows(p, axes[1].taps[y], axes[1].weights + y * axes[1].max_taps, &axes[0], row);
        write_row(row, &axes[0], target, y);
    }
    return COMET_OK;
}
