/*
 * The codec's promise checked by arithmetic of its own, not the library's: differences in long double with their rounding
 * error (Knuth's two-sum), 16-bit types taken apart by hand. Shared by the fuzz targets and the tests.
 */
#ifndef COMET_TESTS_PROMISE_H
#define COMET_TESTS_PROMISE_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "comet/codec.h"

/* What a decoded tensor is held to beside the bound. */
typedef struct promise {
    double eb;    /* 0: bit for bit */
    bool zeros;   /* zeros come back as zeros */
    bool support; /* nothing else becomes zero, and signs stay */
} promise;

static inline long double promise_half(uint16_t bits, int exponent_bits, int mantissa_bits)
{
    int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double magnitude;
    if (exponent == (1 << exponent_bits) - 1)
        magnitude = mantissa ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        magnitude = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return bits >> 15 ? -magnitude : magnitude;
}

/* The value of element i, exactly. */
static inline long double promise_value(comet_dtype dtype, const void *x, uint64_t i)
{
    uint16_t bits;
    switch (dtype) {
    case COMET_DTYPE_F32: return ((const float *)x)[i];
    case COMET_DTYPE_F64: return ((const double *)x)[i];
    case COMET_DTYPE_F16: memcpy(&bits, (const uint16_t *)x + i, sizeof bits); return promise_half(bits, 5, 10);
    case COMET_DTYPE_BF16: memcpy(&bits, (const uint16_t *)x + i, sizeof bits); return promise_half(bits, 8, 7);
    }
    return NAN;
}

/* |a - b| <= eb in real arithmetic, for finite values. */
static inline bool promise_within(long double a, long double b, double eb)
{
    long double d = a - b, t = d - a;
    long double rest = (a - (d - t)) - (b + t); /* a - b = d + rest */
    if (fabsl(d) != (long double)eb)
        return fabsl(d) < (long double)eb;
    return d > 0 ? rest <= 0 : rest >= 0;
}

static inline bool promise_kept(const promise *p, comet_dtype dtype, const void *x, const void *y, uint64_t i)
{
    size_t element = comet_dtype_bytes(dtype);
    if (memcmp((const char *)x + i * element, (const char *)y + i * element, element) == 0)
        return true;
    long double a = promise_value(dtype, x, i), b = promise_value(dtype, y, i);
    if (p->eb == 0 || !isfinite(a) || !isfinite(b) || !promise_within(a, b, p->eb))
        return false;
    if (p->zeros && a == 0 && b != 0)
        return false;
    return !p->support || ((a > 0) == (b > 0) && (a < 0) == (b < 0));
}

/* The first of n elements for which the promise is broken; n if there is none. */
static inline uint64_t promise_first_broken(const promise *p, comet_dtype dtype, uint64_t n, const void *x, const void *y)
{
    for (uint64_t i = 0; i < n; i++)
        if (!promise_kept(p, dtype, x, y, i))
            return i;
    return n;
}

/* What the frame says it keeps to. */
static inline promise promise_of(const comet_frame_info *info)
{
    return (promise){.eb = info->eb, .zeros = !info->dither, .support = info->keep_support != 0};
}

#endif
