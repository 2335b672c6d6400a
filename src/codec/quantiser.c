/* Steps and inverses, rounded so that the strictness argument of quantise_body.h holds. */
#include "codec/quantiser.h"

#include <math.h>

#include "base/convert.h"

/*
 * A step a little below 2 eb, in units of eb, with which every finite f32 whose code is within CODE16_LIMIT comes back within
 * eb, so that kernels need not look. Let S be the step and I its inverse, at most 2^-23 of it too small. Then t = x I in floats
 * is within 8191 (2^-23 + 2^-24) < 1.5 2^-10 of x / S, the code c within 1/2 of t, and c S in floats within 8191 2^-24 S
 * < 2^-11 S of c S. So the error is at most S (1/2 + 2^-9) = S / 2 (1 + 2^-8), and with S <= 2 eb (1 - 2^-8) (1 + 2^-24) less
 * than eb. With keep support |x| / S is likewise within 1/2 + 1.5 2^-10 of c - 1/2, and 2c - 1 is exact, so the same holds;
 * what is so small that t is 0 gets code 1, value S / 2, and an error below that. For chunks without zeros t is within 1/2 of c
 * + 1/2, which comes to the same.
 */
#define PROVEN_STEP 0x1.fep0f

/* The largest finite value of f32 that is at most v, v >= 0. */
static float float_below(double v)
{
    float f = (float)v;
    return (double)f > v ? nextafterf(f, 0) : f;
}

/* The largest value of the element type that is at most v, v >= 0. In the two 16-bit types the next lower bit pattern is the
 * next lower value. */
static float round_down(comet_dtype dtype, float v)
{
    if (dtype == COMET_DTYPE_F16) {
        uint16_t h = f16_of_float(v);
        return float_of_f16((uint16_t)(float_of_f16(h) > v ? h - 1 : h));
    }
    if (dtype == COMET_DTYPE_BF16) {
        uint16_t h = bf16_of_float(v);
        return float_of_bf16((uint16_t)(float_of_bf16(h) > v ? h - 1 : h));
    }
    return v;
}

static bool make_double(double eb, quantiser *q)
{
    q->eb64 = fmin(eb, 0x1p1000);
    if (q->eb64 < 0x1p-1000)
        return false;
    q->step64 = 2 * q->eb64;
    q->inverse64 = 1 / q->step64;
    if (fma(q->inverse64, q->step64, -1) > 0)
        q->inverse64 = nextafter(q->inverse64, 0);
    return true;
}

bool quantiser_make(comet_dtype dtype, double eb, enum quantiser_mode mode, quantiser *q)
{
    *q = (quantiser){.mode = mode};
    if (dtype == COMET_DTYPE_F64)
        return make_double(eb, q);
    double largest = dtype == COMET_DTYPE_F16 ? 32768.0 : 0x1p120;
    q->eb = round_down(dtype, float_below(fmin(eb, largest)));
    if (q->eb < 0x1p-120f)
        return false;
    q->step = dtype == COMET_DTYPE_F32 && mode != QUANTISE_DITHER ? PROVEN_STEP * q->eb : 2 * q->eb;
    q->inverse = 1 / q->step;
    if ((double)q->inverse * (double)q->step > 1)
        q->inverse = nextafterf(q->inverse, 0);
    return true;
}

uint32_t quantiser_key(uint64_t seed, uint64_t chunk)
{
    uint64_t h = seed + (chunk + 1) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
    h = (h ^ h >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)(h >> 32);
}
