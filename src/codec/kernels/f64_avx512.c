/* AVX-512 kernels that quantise f64 to 16-bit codes. Every code is checked, as quantise_body.h does, eight elements at a time.
 */
#include "codec/kernels/avx512.h"

typedef struct f64_sums {
    __m512d squares[2], low, high; /* the order of summation is that of SUM_LANES lanes */
    __m512i nonzero;
} f64_sums;

/* Codes of 8 elements as whole numbers, given `u`, what dither adds. */
HOT __m512d codes_f64(const quantiser *q, enum quantiser_mode mode, __m512d v, __m512d u)
{
    enum { DOWN = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC, UP = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC };
    const __m512d limit = _mm512_set1_pd(CODE16_LIMIT), minus_limit = _mm512_set1_pd(-CODE16_LIMIT);
    const __m512d zero = _mm512_setzero_pd(), one = _mm512_set1_pd(1);
    __m512d t = _mm512_mul_pd(v, _mm512_set1_pd(q->inverse64));
    if (mode == QUANTISE_SUPPORT) { /* NaN becomes the limit */
        t = _mm512_roundscale_pd(_mm512_min_pd(_mm512_abs_pd(t), limit), UP);
        t = _mm512_max_pd(t, one);
        t = _mm512_mask_sub_pd(t, _mm512_cmp_pd_mask(v, zero, _CMP_LT_OQ), zero, t);
        return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(v, zero, _CMP_NEQ_OQ), t);
    }
    if (mode == QUANTISE_DITHER)
        t = _mm512_add_pd(t, u);
    t = _mm512_min_pd(_mm512_max_pd(t, minus_limit), limit); /* NaN becomes -limit */
    if (mode == QUANTISE_NONZERO) {                          /* t may be -0 */
        t = _mm512_roundscale_pd(t, DOWN);
        return _mm512_mask_min_pd(t, _mm512_cmp_pd_mask(v, zero, _CMP_LT_OQ), t, _mm512_set1_pd(-1));
    }
    return _mm512_roundscale_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Values of 8 codes. c -+ 1/2, which is exact, times the step is the same as 2c -+ 1 times half of it. */
HOT __m512d values_f64(const quantiser *q, enum quantiser_mode mode, __m512d c, __m512d u)
{
    const __m512d half = _mm512_set1_pd(0.5);
    if (mode == QUANTISE_SUPPORT)
        c = _mm512_sub_pd(c, _mm512_range_pd(c, half, RANGE_LESSER));
    if (mode == QUANTISE_NONZERO)
        c = _mm512_add_pd(c, half);
    if (mode == QUANTISE_DITHER)
        c = _mm512_sub_pd(c, u);
    return _mm512_mul_pd(c, _mm512_set1_pd(q->step64));
}

/* Quantises 8 elements to whole numbers. *bad: a bit for each whose code does not come back within the bound. `half`: which
 * eight of 16. */
HOT __m256i quantise8_f64(const quantiser *q, enum quantiser_mode mode, __m512d v, __m512d u, int half, f64_sums *s,
                          __mmask8 *bad)
{
    const __m512d eb = _mm512_set1_pd(q->eb64), zero = _mm512_setzero_pd();
    const __m512d c = codes_f64(q, mode, v, u);
    const __m512d error = _mm512_abs_pd(_mm512_sub_pd(v, values_f64(q, mode, c, u)));
    const __mmask8 nonzero = _mm512_cmp_pd_mask(v, zero, _CMP_NEQ_UQ);
    *bad = mode == QUANTISE_DITHER ? _mm512_cmp_pd_mask(error, eb, _CMP_NLT_UQ) : _mm512_cmp_pd_mask(error, eb, _CMP_NLE_UQ);
    if (mode == QUANTISE_NONZERO) /* zero has no code */
        *bad = (__mmask8)(*bad | ~nonzero);
    s->squares[half] = _mm512_fmadd_pd(v, v, s->squares[half]);
    s->low = _mm512_min_pd(v, s->low);
    s->high = _mm512_max_pd(v, s->high);
    s->nonzero = _mm512_mask_add_epi64(s->nonzero, nonzero, s->nonzero, _mm512_set1_epi64(1));
    return _mm512_cvtpd_epi32(c);
}

/* Quantises 64 elements. Returns a bit for each that failed, which gets code 0. */
HOT uint64_t quantise_block_f64(const quantiser *q, enum quantiser_mode mode, const double *x, uint32_t first, int16_t *codes,
                                f64_sums *s)
{
    uint64_t failed = 0;
    for (uint32_t i = 0; i < BLOCK; i += 16) {
        __m512d u[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
        __mmask8 bad[2];
        if (mode == QUANTISE_DITHER) {
            __m512 d = dither_f32(q->key, first + i);
            u[0] = _mm512_cvtps_pd(_mm512_castps512_ps256(d));
            u[1] = _mm512_cvtps_pd(_mm512_extractf32x8_ps(d, 1));
        }
        __m256i low = quantise8_f64(q, mode, _mm512_loadu_pd(x + i), u[0], 0, s, &bad[0]);
        __m256i high = quantise8_f64(q, mode, _mm512_loadu_pd(x + i + 8), u[1], 1, s, &bad[1]);
        __mmask16 both = (__mmask16)(bad[0] | bad[1] << 8);
        __m512i c = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        _mm256_storeu_si256((__m256i *)(void *)(codes + i), _mm512_maskz_cvtepi32_epi16((__mmask16)~both, c));
        failed |= (uint64_t)both << i;
    }
    return failed;
}

HOT void quantise_blocks_f64(const quantiser *given, enum quantiser_mode mode, const double *x, size_t n, uint32_t first,
                             int16_t *codes, uint64_t *failed, moments *m)
{
    const quantiser q = *given; /* a copy, which stores cannot touch */
    const __m512d zero = _mm512_setzero_pd();
    f64_sums s = {{zero, zero}, _mm512_set1_pd(m->min), _mm512_set1_pd(m->max), _mm512_setzero_si512()};
    for (size_t i = 0; i < n; i += BLOCK)
        failed[i / BLOCK] = quantise_block_f64(&q, mode, x + i, first + (uint32_t)i, codes + i, &s);
    double squares[SUM_LANES];
    _mm512_storeu_pd(squares, s.squares[0]);
    _mm512_storeu_pd(squares + 8, s.squares[1]);
    for (int i = 0; i < SUM_LANES; i++)
        m->sum_of_squares[i] += squares[i];
    m->min = _mm512_reduce_min_pd(s.low);
    m->max = _mm512_reduce_max_pd(s.high);
    m->n_nonzero += (uint64_t)_mm512_reduce_add_epi64(s.nonzero);
}

void quantise_f64_16_avx512(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                            moments *m)
{
    size_t whole = n / BLOCK * BLOCK;
    switch (q->mode) {
    case QUANTISE_PLAIN: quantise_blocks_f64(q, QUANTISE_PLAIN, x, whole, first, codes, failed, m); break;
    case QUANTISE_SUPPORT: quantise_blocks_f64(q, QUANTISE_SUPPORT, x, whole, first, codes, failed, m); break;
    case QUANTISE_NONZERO: quantise_blocks_f64(q, QUANTISE_NONZERO, x, whole, first, codes, failed, m); break;
    case QUANTISE_DITHER: quantise_blocks_f64(q, QUANTISE_DITHER, x, whole, first, codes, failed, m); break;
    }
    if (whole < n)
        quantise_f64_16_generic(q, (const double *)x + whole, n - whole, first + (uint32_t)whole, (int16_t *)codes + whole,
                                failed + whole / BLOCK, m);
}
