/*
 * AVX2 kernels (with F16C and FMA) between f16 or bf16 and 16-bit codes. Every code is checked in floats, as quantise_body.h
 * does, eight elements at a time. Elements that are not finite or beyond the range of codes fail by the same arithmetic:
 * quotients are cut off at the limit.
 */
#include "codec/kernels/half_avx2.h"

#include <immintrin.h>

#include "codec/kernels/generic.h"

/* Parts of hot loops: inlined whatever their size, so that types and modes are constants in them. */
#define HOT static inline __attribute__((always_inline))

HOT __m256 widen_half(comet_dtype type, __m128i bits)
{
    if (type == COMET_DTYPE_F16)
        return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/* Rounds to bf16 (nearest even), in the high halves; the low halves are arbitrary. v is not NaN. */
HOT __m256i round_bf16(__m256 v)
{
    const __m256i b = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0x7fff)), odd);
}

/* A float rounded to the type. */
HOT __m256 round_half(comet_dtype type, __m256 v)
{
    if (type == COMET_DTYPE_F16)
        return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return _mm256_castsi256_ps(_mm256_and_si256(round_bf16(v), _mm256_set1_epi32((int)0xffff0000)));
}

HOT __m128i narrow_half(comet_dtype type, __m256 v)
{
    if (type == COMET_DTYPE_F16)
        return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i h = _mm256_srli_epi32(round_bf16(v), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

/* `dither` of 8 elements from number `index` on. h 2^-24 - 1/2 is exact, so fusing does not matter. */
HOT __m256 dither8(uint32_t key, uint32_t index)
{
    const __m256i ascending = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i h = _mm256_xor_si256(_mm256_add_epi32(_mm256_set1_epi32((int)index), ascending), _mm256_set1_epi32((int)key));
    h = _mm256_mullo_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 16)), _mm256_set1_epi32(0x7feb352d));
    h = _mm256_mullo_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 15)), _mm256_set1_epi32((int)0x846ca68bu));
    h = _mm256_srli_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 16)), 8);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(h), _mm256_set1_ps(0x1p-24f), _mm256_set1_ps(-0.5f));
}

/* Values of 8 codes in floats. c -+ 1/2, which is exact, times the step is the same as 2c -+ 1 times half of it. */
HOT __m256 values8(const quantiser *q, enum quantiser_mode mode, __m256 c, uint32_t index)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), half = _mm256_set1_ps(0.5f), zero = _mm256_setzero_ps();
    if (mode == QUANTISE_SUPPORT) {
        __m256 signed_half = _mm256_or_ps(half, _mm256_and_ps(c, sign));
        c = _mm256_sub_ps(c, _mm256_and_ps(signed_half, _mm256_cmp_ps(c, zero, _CMP_NEQ_OQ)));
    }
    if (mode == QUANTISE_NONZERO)
        c = _mm256_add_ps(c, half);
    if (mode == QUANTISE_DITHER)
        c = _mm256_sub_ps(c, dither8(q->key, index));
    return _mm256_mul_ps(c, _mm256_set1_ps(q->step));
}

/* Codes of 8 elements as whole floats. */
HOT __m256 codes8(const quantiser *q, enum quantiser_mode mode, __m256 v, uint32_t index)
{
    const __m256 limit = _mm256_set1_ps(CODE16_LIMIT), minus_limit = _mm256_set1_ps(-CODE16_LIMIT), zero = _mm256_setzero_ps();
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1);
    if (mode == QUANTISE_SUPPORT) {
        __m256 t = _mm256_mul_ps(_mm256_andnot_ps(sign, v), _mm256_set1_ps(q->inverse));
        t = _mm256_max_ps(_mm256_ceil_ps(_mm256_min_ps(t, limit)), one); /* NaN becomes the limit */
        t = _mm256_or_ps(t, _mm256_and_ps(v, sign));
        return _mm256_and_ps(t, _mm256_cmp_ps(v, zero, _CMP_NEQ_OQ));
    }
    __m256 t = _mm256_mul_ps(v, _mm256_set1_ps(q->inverse));
    if (mode == QUANTISE_DITHER)
        t = _mm256_add_ps(t, dither8(q->key, index));
    t = _mm256_min_ps(_mm256_max_ps(t, minus_limit), limit); /* NaN becomes -limit */
    if (mode == QUANTISE_NONZERO) {                          /* t may be -0 */
        __m256 c = _mm256_floor_ps(t);
        __m256 lost = _mm256_and_ps(_mm256_cmp_ps(v, zero, _CMP_LT_OQ), _mm256_cmp_ps(c, zero, _CMP_EQ_OQ));
        return _mm256_sub_ps(c, _mm256_and_ps(lost, one));
    }
    return _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

typedef struct half_sums {
    __m256 squares[2], low[2], high[2];
    __m256i zeros; /* less their number */
} half_sums;

/* Quantises 8 elements to 32-bit integers, 0 for those that failed. *bad: all ones for these. `half`: which eight of 16. */
HOT __m256i quantise8(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x, uint32_t index,
                      int half, half_sums *s, __m256i *bad)
{
    const __m256 eb = _mm256_set1_ps(q->eb), zero = _mm256_setzero_ps(), sign = _mm256_set1_ps(-0.0f);
    const __m256 v = widen_half(type, _mm_loadu_si128((const __m128i *)(const void *)x));
    const __m256 c = codes8(q, mode, v, index);
    const __m256 back = round_half(type, values8(q, mode, c, index));
    const __m256 error = _mm256_andnot_ps(sign, _mm256_sub_ps(v, back));
    __m256 fails = mode == QUANTISE_DITHER ? _mm256_cmp_ps(error, eb, _CMP_NLT_UQ) : _mm256_cmp_ps(error, eb, _CMP_NLE_UQ);
    const __m256 is_zero = _mm256_cmp_ps(v, zero, _CMP_EQ_OQ);
    if (mode == QUANTISE_NONZERO)
        fails = _mm256_or_ps(fails, is_zero);
    s->squares[half] = _mm256_fmadd_ps(v, v, s->squares[half]);
    s->low[half] = _mm256_min_ps(v, s->low[half]);
    s->high[half] = _mm256_max_ps(v, s->high[half]);
    s->zeros = _mm256_add_epi32(s->zeros, _mm256_castps_si256(is_zero));
    *bad = _mm256_castps_si256(fails);
    return _mm256_cvtps_epi32(_mm256_andnot_ps(fails, c));
}

/* 16 numbers of 32 bits to 16 bits, in order. */
HOT __m256i narrow_codes(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
}

HOT uint64_t quantise_block(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x, uint32_t first,
                            int16_t *codes, half_sums *s)
{
    uint64_t failed = 0;
    for (unsigned i = 0; i < BLOCK; i += 32) {
        __m256i bad[4], c[4];
        for (int k = 0; k < 4; k++)
            c[k] = quantise8(type, q, mode, x + i + 8 * k, first + i + 8 * (uint32_t)k, k % 2, s, &bad[k]);
        _mm256_storeu_si256((__m256i *)(void *)(codes + i), narrow_codes(c[0], c[1]));
        _mm256_storeu_si256((__m256i *)(void *)(codes + i + 16), narrow_codes(c[2], c[3]));
        __m256i both = _mm256_packs_epi16(narrow_codes(bad[0], bad[1]), narrow_codes(bad[2], bad[3]));
        both = _mm256_permute4x64_epi64(both, _MM_SHUFFLE(3, 1, 2, 0));
        failed |= (uint64_t)(uint32_t)_mm256_movemask_epi8(both) << i;
    }
    return failed;
}

static void half_sums_take(const half_sums *s, size_t n, moments *m)
{
    for (int half = 0; half < 2; half++) {
        float squares[8], low[8], high[8];
        _mm256_storeu_ps(squares, s->squares[half]);
        _mm256_storeu_ps(low, s->low[half]);
        _mm256_storeu_ps(high, s->high[half]);
        for (int i = 0; i < 8; i++) {
            m->sum_of_squares[8 * half + i] += (double)squares[i];
            m->min = (double)low[i] < m->min ? (double)low[i] : m->min;
            m->max = (double)high[i] > m->max ? (double)high[i] : m->max;
        }
    }
    int32_t zeros[8], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)zeros, s->zeros);
    for (int i = 0; i < 8; i++)
        sum += zeros[i];
    m->n_nonzero += (uint64_t)((int64_t)n + sum);
}

HOT void quantise_blocks(comet_dtype type, const quantiser *given, enum quantiser_mode mode, const uint16_t *x, size_t n,
                         uint32_t first, int16_t *codes, uint64_t *failed, moments *m)
{
    const quantiser q = *given; /* a copy, which stores cannot touch */
    const __m256 zero = _mm256_setzero_ps(), low = _mm256_set1_ps(INFINITY), high = _mm256_set1_ps(-INFINITY);
    half_sums s = {{zero, zero}, {low, low}, {high, high}, _mm256_setzero_si256()};
    for (size_t i = 0; i < n; i += BLOCK)
        failed[i / BLOCK] = quantise_block(type, &q, mode, x + i, first + (uint32_t)i, codes + i, &s);
    half_sums_take(&s, n, m);
}

HOT void quantise_half(comet_dtype type, quantise_fn *rest, const quantiser *q, const uint16_t *x, size_t n, uint32_t first,
                       int16_t *codes, uint64_t *failed, moments *m)
{
    size_t whole = n / BLOCK * BLOCK;
    switch (q->mode) {
    case QUANTISE_PLAIN: quantise_blocks(type, q, QUANTISE_PLAIN, x, whole, first, codes, failed, m); break;
    case QUANTISE_SUPPORT: quantise_blocks(type, q, QUANTISE_SUPPORT, x, whole, first, codes, failed, m); break;
    case QUANTISE_NONZERO: quantise_blocks(type, q, QUANTISE_NONZERO, x, whole, first, codes, failed, m); break;
    case QUANTISE_DITHER: quantise_blocks(type, q, QUANTISE_DITHER, x, whole, first, codes, failed, m); break;
    }
    if (whole < n)
        rest(q, x + whole, n - whole, first + (uint32_t)whole, codes + whole, failed + whole / BLOCK, m);
}

void quantise_f16_16_avx2(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                          moments *m)
{
    quantise_half(COMET_DTYPE_F16, quantise_f16_16_generic, q, x, n, first, codes, failed, m);
}

void quantise_bf16_16_avx2(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                           moments *m)
{
    quantise_half(COMET_DTYPE_BF16, quantise_bf16_16_generic, q, x, n, first, codes, failed, m);
}

/* ---- dequantise ---- */

HOT void dequantise_mode(comet_dtype type, const quantiser *given, enum quantiser_mode mode, const int16_t *c, size_t n,
                         uint32_t first, uint16_t *x)
{
    const quantiser q = *given;         /* a copy, which stores to x cannot touch */
    for (size_t i = 0; i < n; i += 8) { /* codes go on past n, up to a block */
        __m256i codes = _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(c + i)));
        __m128i v = narrow_half(type, values8(&q, mode, _mm256_cvtepi32_ps(codes), first + (uint32_t)i));
        uint16_t last[8];
        _mm_storeu_si128((__m128i *)(void *)(n - i < 8 ? last : x + i), v);
        if (n - i < 8)
            memcpy(x + i, last, (n - i) * sizeof *x);
    }
}

HOT void dequantise_half(comet_dtype type, const quantiser *q, const int16_t *codes, size_t n, uint32_t first, uint16_t *x)
{
    switch (q->mode) {
    case QUANTISE_PLAIN: dequantise_mode(type, q, QUANTISE_PLAIN, codes, n, first, x); break;
    case QUANTISE_SUPPORT: dequantise_mode(type, q, QUANTISE_SUPPORT, codes, n, first, x); break;
    case QUANTISE_NONZERO: dequantise_mode(type, q, QUANTISE_NONZERO, codes, n, first, x); break;
    case QUANTISE_DITHER: dequantise_mode(type, q, QUANTISE_DITHER, codes, n, first, x); break;
    }
}

void dequantise_f16_16_avx2(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    (void)stream;
    dequantise_half(COMET_DTYPE_F16, q, codes, n, first, x);
}

void dequantise_bf16_16_avx2(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    (void)stream;
    dequantise_half(COMET_DTYPE_BF16, q, codes, n, first, x);
}
