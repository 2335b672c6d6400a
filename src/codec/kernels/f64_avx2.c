/* AVX2 kernels that quantise f64 to 16-bit codes. Every code is checked, as quantise_body.h does, four elements at a time. */
#include "codec/kernels/avx2.h"

typedef struct f64_sums {
    __m256d squares[4], low, high; /* the order of summation is that of SUM_LANES lanes */
    __m256i nonzero;
} f64_sums;

HOT __m256d magnitude_f64(__m256d v)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), v);
}

/* Codes of 4 elements as whole numbers, given `u`, what dither adds. */
HOT __m256d codes_f64(const quantiser *q, enum quantiser_mode mode, __m256d v, __m256d u)
{
    const __m256d limit = _mm256_set1_pd(CODE16_LIMIT), minus_limit = _mm256_set1_pd(-CODE16_LIMIT);
    const __m256d zero = _mm256_setzero_pd(), sign = _mm256_set1_pd(-0.0);
    __m256d t = _mm256_mul_pd(v, _mm256_set1_pd(q->inverse64));
    if (mode == QUANTISE_SUPPORT) { /* NaN becomes the limit */
        t = _mm256_ceil_pd(_mm256_min_pd(magnitude_f64(t), limit));
        t = _mm256_or_pd(_mm256_max_pd(t, _mm256_set1_pd(1)), _mm256_and_pd(v, sign));
        return _mm256_and_pd(t, _mm256_cmp_pd(v, zero, _CMP_NEQ_OQ));
    }
    if (mode == QUANTISE_DITHER)
        t = _mm256_add_pd(t, u);
    t = _mm256_min_pd(_mm256_max_pd(t, minus_limit), limit); /* NaN becomes -limit */
    if (mode == QUANTISE_NONZERO) {                          /* t may be -0 */
        t = _mm256_floor_pd(t);
        return _mm256_blendv_pd(t, _mm256_min_pd(t, _mm256_set1_pd(-1)), _mm256_cmp_pd(v, zero, _CMP_LT_OQ));
    }
    return _mm256_round_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Values of 4 codes. c -+ 1/2, which is exact, times the step is the same as 2c -+ 1 times half of it. */
HOT __m256d values_f64(const quantiser *q, enum quantiser_mode mode, __m256d c, __m256d u)
{
    const __m256d half = _mm256_set1_pd(0.5), sign = _mm256_set1_pd(-0.0);
    if (mode == QUANTISE_SUPPORT) {
        __m256d signed_half = _mm256_or_pd(half, _mm256_and_pd(c, sign));
        c = _mm256_sub_pd(c, _mm256_and_pd(signed_half, _mm256_cmp_pd(c, _mm256_setzero_pd(), _CMP_NEQ_OQ)));
    }
    if (mode == QUANTISE_NONZERO)
        c = _mm256_add_pd(c, half);
    if (mode == QUANTISE_DITHER)
        c = _mm256_sub_pd(c, u);
    return _mm256_mul_pd(c, _mm256_set1_pd(q->step64));
}

/* Quantises 4 elements to 32-bit integers, 0 for those that failed; *failed: a bit for each of these. `quarter`: which four of
 * 16. */
HOT __m128i quantise4_f64(const quantiser *q, enum quantiser_mode mode, __m256d v, __m256d u, int quarter, f64_sums *s,
                          unsigned *failed)
{
    const __m256d eb = _mm256_set1_pd(q->eb64), zero = _mm256_setzero_pd();
    const __m256d c = codes_f64(q, mode, v, u);
    const __m256d error = magnitude_f64(_mm256_sub_pd(v, values_f64(q, mode, c, u)));
    __m256d bad = mode == QUANTISE_DITHER ? _mm256_cmp_pd(error, eb, _CMP_NLT_UQ) : _mm256_cmp_pd(error, eb, _CMP_NLE_UQ);
    if (mode == QUANTISE_NONZERO) /* zero has no code */
        bad = _mm256_or_pd(bad, _mm256_cmp_pd(v, zero, _CMP_EQ_OQ));
    s->squares[quarter] = _mm256_fmadd_pd(v, v, s->squares[quarter]);
    s->low = _mm256_min_pd(v, s->low);
    s->high = _mm256_max_pd(v, s->high);
    s->nonzero = _mm256_sub_epi64(s->nonzero, _mm256_castpd_si256(_mm256_cmp_pd(v, zero, _CMP_NEQ_UQ)));
    *failed = (unsigned)_mm256_movemask_pd(bad);
    return _mm256_cvtpd_epi32(_mm256_andnot_pd(bad, c));
}

HOT uint64_t quantise_block_f64(const quantiser *q, enum quantiser_mode mode, const double *x, uint32_t first, int16_t *codes,
                                f64_sums *s)
{
    uint64_t failed = 0;
    for (unsigned i = 0; i < BLOCK; i += 16) {
        __m128i c[4];
        for (unsigned k = 0; k < 4; k += 2) {
            __m256d u[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
            unsigned low, high;
            if (mode == QUANTISE_DITHER) {
                __m256 d = dither_f32(q->key, first + i + 4 * k);
                u[0] = _mm256_cvtps_pd(_mm256_castps256_ps128(d));
                u[1] = _mm256_cvtps_pd(_mm256_extractf128_ps(d, 1));
            }
            c[k] = quantise4_f64(q, mode, _mm256_loadu_pd(x + i + 4 * k), u[0], (int)k, s, &low);
            c[k + 1] = quantise4_f64(q, mode, _mm256_loadu_pd(x + i + 4 * k + 4), u[1], (int)k + 1, s, &high);
            failed |= (uint64_t)(low | high << 4) << (i + 4 * k);
        }
        _mm_storeu_si128((__m128i *)(void *)(codes + i), _mm_packs_epi32(c[0], c[1]));
        _mm_storeu_si128((__m128i *)(void *)(codes + i + 8), _mm_packs_epi32(c[2], c[3]));
    }
    return failed;
}

static void f64_sums_take(const f64_sums *s, moments *m)
{
    double low[4], high[4];
    uint64_t nonzero[4];
    _mm256_storeu_pd(low, s->low);
    _mm256_storeu_pd(high, s->high);
    store32(nonzero, s->nonzero);
    for (int i = 0; i < 4; i++) {
        double squares[4];
        _mm256_storeu_pd(squares, s->squares[i]);
        for (int k = 0; k < 4; k++)
            m->sum_of_squares[4 * i + k] += squares[k];
        m->min = low[i] < m->min ? low[i] : m->min;
        m->max = high[i] > m->max ? high[i] : m->max;
        m->n_nonzero += nonzero[i];
    }
}

HOT void quantise_blocks_f64(const quantiser *given, enum quantiser_mode mode, const double *x, size_t n, uint32_t first,
                             int16_t *codes, uint64_t *failed, moments *m)
{
    const quantiser q = *given; /* a copy, which stores cannot touch */
    const __m256d zero = _mm256_setzero_pd();
    f64_sums s = {{zero, zero, zero, zero}, _mm256_set1_pd(m->min), _mm256_set1_pd(m->max), _mm256_setzero_si256()};
    for (size_t i = 0; i < n; i += BLOCK)
        failed[i / BLOCK] = quantise_block_f64(&q, mode, x + i, first + (uint32_t)i, codes + i, &s);
    f64_sums_take(&s, m);
}

void quantise_f64_16_avx2(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
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
