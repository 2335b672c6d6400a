/* Sums run in eight interleaved partial sums, so that they are quick and always in the same order. */
#include "codec/elements.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#define INLINED static inline __attribute__((always_inline))

enum { PARTS = 8 };

double comet_element_value(comet_dtype dtype, const void *array, uint64_t index)
{
    return element_value(dtype, array, index);
}

/* ---- the loops; dtype is a constant wherever they are inlined ---- */

typedef struct partial {
    double sum[PARTS], squares[PARTS], min[PARTS], max[PARTS];
    uint64_t n_nonzero[PARTS], n_nonfinite[PARTS];
} partial;

INLINED void add_value(partial *p, int k, double v)
{
    const bool finite = fabs(v) <= DBL_MAX;
    const double w = finite ? v : 0;
    p->n_nonzero[k] += v != 0;
    p->n_nonfinite[k] += !finite;
    p->sum[k] += w;
    p->squares[k] += w * w;
    p->min[k] = finite && v < p->min[k] ? v : p->min[k];
    p->max[k] = finite && v > p->max[k] ? v : p->max[k];
}

INLINED void add_all(comet_dtype dtype, const void *x, uint64_t n, partial *out)
{
    partial p = *out;
    uint64_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int k = 0; k < PARTS; k++)
            add_value(&p, k, element_value(dtype, x, i + (uint64_t)k));
    for (int k = 0; i < n; i++, k++)
        add_value(&p, k, element_value(dtype, x, i));
    *out = p;
}

INLINED void add_square(double squares[PARTS], int k, double v, double mean)
{
    const double d = fabs(v) <= DBL_MAX ? v - mean : 0;
    squares[k] += d * d;
}

INLINED void add_squares(comet_dtype dtype, const void *x, uint64_t n, double mean, double out[PARTS])
{
    double squares[PARTS] = {0};
    uint64_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int k = 0; k < PARTS; k++)
            add_square(squares, k, element_value(dtype, x, i + (uint64_t)k), mean);
    for (int k = 0; i < n; i++, k++)
        add_square(squares, k, element_value(dtype, x, i), mean);
    for (int k = 0; k < PARTS; k++)
        out[k] = squares[k];
}

/* call(dtype) with a constant. Baseline code is as fast as code for AVX2 or AVX-512 here. */
#define FOR_TYPE(dtype, call)                             \
    switch (dtype) {                                      \
    case COMET_DTYPE_F32: call(COMET_DTYPE_F32); break;   \
    case COMET_DTYPE_F16: call(COMET_DTYPE_F16); break;   \
    case COMET_DTYPE_BF16: call(COMET_DTYPE_BF16); break; \
    case COMET_DTYPE_F64: call(COMET_DTYPE_F64); break;   \
    }
#define ADD_ALL(type) add_all(type, x, n, &p)
#define ADD_SQUARES(type) add_squares(type, x, n, mean, squares)

/* ---- what is asked for ---- */

summary elements_summary(comet_dtype dtype, const void *x, uint64_t n)
{
    partial p = {.n_nonzero = {0}};
    summary s = {.min = INFINITY, .max = -INFINITY};
    for (int k = 0; k < PARTS; k++) {
        p.min[k] = INFINITY;
        p.max[k] = -INFINITY;
    }
    FOR_TYPE(dtype, ADD_ALL)
    for (int k = 0; k < PARTS; k++) {
        s.sum += p.sum[k];
        s.sum_of_squares += p.squares[k];
        s.min = p.min[k] < s.min ? p.min[k] : s.min;
        s.max = p.max[k] > s.max ? p.max[k] : s.max;
        s.n_nonzero += p.n_nonzero[k];
        s.n_nonfinite += p.n_nonfinite[k];
    }
    return s;
}

double elements_stddev(comet_dtype dtype, const void *x, uint64_t n)
{
    const summary s = elements_summary(dtype, x, n);
    const uint64_t finite = n - s.n_nonfinite;
    if (finite == 0)
        return 0;
    const double mean = s.sum / (double)finite;
    double squares[PARTS], total = 0;
    FOR_TYPE(dtype, ADD_SQUARES)
    for (int k = 0; k < PARTS; k++)
        total += squares[k];
    return sqrt(total / (double)finite);
}
