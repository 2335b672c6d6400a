/*
 * LOOP_LANES elements as a vector of floats, for loops that element_variants.h compiles: f32, or with LOOP_BF16 bf16, which is
 * rounded to nearest even as bf16_of_float does it, in integers. (The processor's own conversion makes zeros of subnormals.)
 */
/* No include guard: once for each variant. */

#include <stdbool.h>
#include <string.h>

#include "base/convert.h"

#define INLINE static inline __attribute__((LOOP_TARGET always_inline))

typedef float LOOP(vec) __attribute__((vector_size(4 * LOOP_LANES)));
typedef uint32_t LOOP(words) __attribute__((vector_size(4 * LOOP_LANES)));

/* yes where a > b, else no, also where either is NaN. */
INLINE LOOP(vec) LOOP(where_greater)(LOOP(vec) a, LOOP(vec) b, LOOP(vec) yes, LOOP(vec) no)
{
#ifdef LOOP_MASKS
    return (LOOP(vec))_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ), (__m512)no, (__m512)yes);
#else
    const LOOP(words) greater = (LOOP(words))(a > b);
    return (LOOP(vec))(((LOOP(words))yes & greater) | ((LOOP(words))no & ~greater));
#endif
}

/* Bit k says whether lane k is positive. */
INLINE unsigned LOOP(positive)(LOOP(vec) v)
{
#if defined LOOP_MASKS
    return _mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_GT_OQ);
#elif defined LOOP_AVX2
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_setzero_ps(), _CMP_GT_OQ));
#else
    unsigned bits = 0;
    for (unsigned k = 0; k < LOOP_LANES; k++)
        bits |= (unsigned)(v[k] > 0) << k;
    return bits;
#endif
}

/* v in the lanes whose bit is set, else 0. */
INLINE LOOP(vec) LOOP(where_set)(unsigned bits, LOOP(vec) v)
{
#ifdef LOOP_MASKS
    return (LOOP(vec))_mm512_maskz_mov_ps((__mmask16)bits, (__m512)v);
#else
    LOOP(words) lane;
    for (unsigned k = 0; k < LOOP_LANES; k++)
        lane[k] = 1u << k;
    return (LOOP(vec))((LOOP(words))v & (LOOP(words))((lane & bits) != 0));
#endif
}

/* Coefficients. */
INLINE LOOP(vec) LOOP(load_floats)(const float *from)
{
    LOOP(vec) v;
    memcpy(&v, from, sizeof v);
    return v;
}

#ifdef LOOP_BF16
#define ELEMENT uint16_t

typedef uint16_t LOOP(halves) __attribute__((vector_size(2 * LOOP_LANES)));

INLINE float LOOP(get)(ELEMENT x)
{
    return float_of_bf16(x);
}

INLINE ELEMENT LOOP(put)(float v)
{
    return bf16_of_float(v);
}

INLINE LOOP(vec) LOOP(load)(const ELEMENT *from)
{
    LOOP(halves) h;
    memcpy(&h, from, sizeof h);
#ifdef LOOP_MASKS /* compilers take four instructions to widen so many */
    const LOOP(words) wide = (LOOP(words))_mm512_cvtepu16_epi32((__m256i)h);
#else
    const LOOP(words) wide = __builtin_convertvector(h, LOOP(words));
#endif
    return (LOOP(vec))(wide << 16);
}

INLINE LOOP(words) LOOP(rounded)(LOOP(vec) v)
{
    const LOOP(words) bits = (LOOP(words))v, nearest = bits + 0x7fff + (bits >> 16 & 1);
#ifdef LOOP_MASKS
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    return (LOOP(words))_mm512_mask_or_epi32((__m512i)nearest, nan, (__m512i)bits, _mm512_set1_epi32(0x400000));
#else
    const LOOP(words) nan = (LOOP(words))(v != v); /* NOLINT(misc-redundant-expression): NaN */
    return ((bits | 0x400000) & nan) | (nearest & ~nan);
#endif
}

INLINE void LOOP(save)(LOOP(vec) v, ELEMENT *to)
{
    const LOOP(halves) h = __builtin_convertvector(LOOP(rounded)(v) >> 16, LOOP(halves));
    memcpy(to, &h, sizeof h);
}
#else
#define ELEMENT float

INLINE float LOOP(get)(ELEMENT x)
{
    return x;
}

INLINE ELEMENT LOOP(put)(float v)
{
    return v;
}

INLINE LOOP(vec) LOOP(load)(const ELEMENT *from)
{
    return LOOP(load_floats)(from);
}

INLINE void LOOP(save)(LOOP(vec) v, ELEMENT *to)
{
    memcpy(to, &v, sizeof v);
}
#endif
