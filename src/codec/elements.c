/* Sums run in eight interleaved partial sums, so that they are quick and always in the same order. */
#include "codec/elements.h"

#include <math.h>
#include <stdbool.h>

enum { PARTS = 8 };

double comet_element_value(comet_dtype dtype, const void *array, uint64_t index)
{
    return element_value(dtype, array, index);
}

summary elements_summary(comet_dtype dtype, const void *x, uint64_t n)
{
    double sum[PARTS] = {0}, squares[PARTS] = {0};
    summary s = {.min = INFINITY, .max = -INFINITY};
    for (uint64_t i = 0; i < n; i++) {
        double v = element_value(dtype, x, i);
        bool finite = isfinite(v);
        s.n_nonzero += v != 0;
        s.n_nonfinite += !finite;
        double w = finite ? v : 0;
        sum[i % PARTS] += w;
        squares[i % PARTS] += w * w;
        s.min = finite && v < s.min ? v : s.min;
        s.max = finite && v > s.max ? v : s.max;
    }
    for (int i = 0; i < PARTS; i++) {
        s.sum += sum[i];
        s.sum_of_squares += squares[i];
    }
    return s;
}

double elements_stddev(comet_dtype dtype, const void *x, uint64_t n)
{
    summary s = elements_summary(dtype, x, n);
    uint64_t finite = n - s.n_nonfinite;
    if (finite == 0)
        return 0;
    double mean = s.sum / (double)finite, squares[PARTS] = {0}, total = 0;
    for (uint64_t i = 0; i < n; i++) {
        double v = element_value(dtype, x, i);
        double d = isfinite(v) ? v - mean : 0;
        squares[i % PARTS] += d * d;
    }
    for (int i = 0; i < PARTS; i++)
        total += squares[i];
    return sqrt(total / (double)finite);
}
