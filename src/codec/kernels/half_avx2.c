/*
 * AVX2 kernels (with F16C and FMA) between f16 or bf16 and 16-bit codes. Every code is checked in floats, as quantise_body.h
 * does. Tiles are quantised sixteen elements at a time, assuming that they are finite and in the range of codes. Those that
 * turn out not to be, and dithered ones, are quantised again eight at a time: quotients are cut off at the limit, so that
 * elements that are not finite or beyond it fail by the same arithmetic.
 */
#include "codec/kernels/pack_avx2.h"

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

/* The high halves of 16 numbers. */
HOT __m256i high_words(__m256i a, __m256i b)
{
    const __m256i low = _mm256_srli_epi32(a, 16), high = _mm256_srli_epi32(b, 16);
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0));
}

/* 16 floats, rounded. */
HOT __m256i narrow_halves(comet_dtype type, __m256 a, __m256 b)
{
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    if (type == COMET_DTYPE_F16)
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm256_cvtps_ph(a, NEAREST)), _mm256_cvtps_ph(b, NEAREST), 1);
    return high_words(round_bf16(a), round_bf16(b));
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
        t = _mm256_add_ps(t, dither_f32(q->key, index));
    t = _mm256_min_ps(_mm256_max_ps(t, minus_limit), limit); /* NaN becomes -limit */
    if (mode == QUANTISE_NONZERO) {                          /* t may be -0 */
        __m256 c = _mm256_floor_ps(t);
        __m256 lost = _mm256_and_ps(_mm256_cmp_ps(v, zero, _CMP_LT_OQ), _mm256_cmp_ps(c, zero, _CMP_EQ_OQ));
        return _mm256_sub_ps(c, _mm256_and_ps(lost, one));
    }
    return _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

typedef struct checked_sums {
    __m256 squares[2], low[2], high[2];
    __m256i zeros; /* less their number */
} checked_sums;

/* Quantises 8 elements to 32-bit integers, 0 for those that failed. *bad: all ones for these. `half`: which eight of 16. */
HOT __m256i quantise8(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x, uint32_t index,
                      int half, checked_sums *s, __m256i *bad)
{
    const __m256 eb = _mm256_set1_ps(q->eb), zero = _mm256_setzero_ps(), sign = _mm256_set1_ps(-0.0f);
    const __m256 v = widen_half(type, _mm_loadu_si128((const __m128i *)(const void *)x));
    const __m256i c = _mm256_cvtps_epi32(codes8(q, mode, v, index));
    const __m256 back = round_half(type, values_f32(q, mode, c, index));
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
    return _mm256_andnot_si256(*bad, c);
}

HOT uint64_t quantise_block(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x, uint32_t first,
                            int16_t *codes, checked_sums *s)
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

static void checked_sums_take(const checked_sums *s, size_t n, moments *m)
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

/* ---- quantise elements in range ---- */

/* Extremes are of bit patterns, signed and unsigned; NaN and Inf are the largest magnitudes. */
typedef struct half_sums {
    __m256 squares[2]; /* of the even elements and of the odd ones */
    __m256i highest, most, nonzero;
} half_sums;

static inline half_sums half_sums_make(void)
{
    const __m256 zero = _mm256_setzero_ps();
    return (half_sums){{zero, zero}, _mm256_set1_epi16(INT16_MIN), _mm256_setzero_si256(), _mm256_setzero_si256()};
}

HOT __m256i magnitudes_of(__m256i bits)
{
    return _mm256_and_si256(bits, _mm256_set1_epi16(0x7fff));
}

/* The even and the odd ones of 16 elements as floats. */
HOT void widen_halves(comet_dtype type, bool magnitudes, __m256i bits, __m256 v[2])
{
    const __m256i even = _mm256_slli_epi32(bits, 16), odd = _mm256_blend_epi16(_mm256_setzero_si256(), bits, 0xaa);
    if (type == COMET_DTYPE_BF16) {
        v[0] = _mm256_castsi256_ps(even);
        v[1] = _mm256_castsi256_ps(odd);
        return;
    }
    const __m256 scale = _mm256_set1_ps(0x1p112f); /* from the exponent's bias of f16 to that of f32 */
    const __m256i keep = _mm256_set1_epi32((int)0x8fffffff);
    for (int i = 0; i < 2; i++) {
        const __m256i moved = magnitudes ? _mm256_madd_epi16(bits, _mm256_set1_epi32(i ? 1 << 29 : 1 << 13))
                                         : _mm256_and_si256(_mm256_srai_epi32(i ? odd : even, 3), keep);
        v[i] = _mm256_mul_ps(_mm256_castsi256_ps(moved), scale);
    }
}

/*
 * What to add to a float, which is then rounded to the type: a power of two whose last bit has the value of the type's last bit
 * next to the float; for f16, where this is the same everywhere below 2^-14, half as much again, so that it may have the other
 * sign. Taken off again, it leaves the rounded float. The float is 0 or normal, and below half_largest.
 */
HOT __m256 rounding_term(comet_dtype type, __m256 v)
{
    const bool f16 = type == COMET_DTYPE_F16;
    __m256i power = _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(f16 ? 0x7f800000 : (int)0xff800000));
    if (f16)
        power = _mm256_max_epi32(power, _mm256_castps_si256(_mm256_set1_ps(0x1p-14f)));
    return _mm256_castsi256_ps(_mm256_add_epi32(power, _mm256_set1_epi32(f16 ? 13 << 23 | 1 << 22 : 16 << 23)));
}

/* Up to this, rounding_term holds, and a float that it rounds is finite in the type. */
static inline float half_largest(comet_dtype type)
{
    return type == COMET_DTYPE_F16 ? 65504.0f : 0x1p100f;
}

/*
 * All ones for each of 16 elements that comes back further away than eb, given the differences of the even and the odd ones.
 * For bf16 the high halves of the differences tell. They might not where a difference has bits below the last one of eb, 2^k.
 * But one above eb has none: element and value are multiples of 2^k, because both are at least the power of two below eb, or
 * the value is 0 and the difference a bf16. (An element of lesser magnitude has value 0, eb or -eb.)
 */
HOT __m256i too_far(comet_dtype type, const quantiser *q, const __m256 difference[2])
{
    const __m256 eb = _mm256_set1_ps(q->eb), sign = _mm256_set1_ps(-0.0f);
    if (type == COMET_DTYPE_BF16) {
        const __m256i even = _mm256_srli_epi32(_mm256_castps_si256(difference[0]), 16);
        const __m256i high = _mm256_blend_epi16(even, _mm256_castps_si256(difference[1]), 0xaa);
        const __m256i bound = _mm256_castps_si256(eb), bounds = _mm256_or_si256(bound, _mm256_srli_epi32(bound, 16));
        return _mm256_cmpgt_epi16(magnitudes_of(high), bounds);
    }
    __m256i bad[2];
    for (int i = 0; i < 2; i++)
        bad[i] = _mm256_castps_si256(_mm256_cmp_ps(_mm256_andnot_ps(sign, difference[i]), eb, _CMP_NLE_UQ));
    return _mm256_blend_epi16(bad[0], bad[1], 0xaa);
}

#define ONES 0x1.8p23f /* added to this, a float is rounded to an integer, which the low bits then hold */

/* The codes of 8 elements as the low bits of floats, and their values before rounding to the type. */
HOT void place_codes(const quantiser *q, enum quantiser_mode mode, __m256 v, __m256 *code, __m256 *value)
{
    const __m256 step = _mm256_set1_ps(q->step), half_step = _mm256_set1_ps(q->step / 2), ones = _mm256_set1_ps(ONES);
    __m256 t = _mm256_mul_ps(v, _mm256_set1_ps(q->inverse));
    if (mode == QUANTISE_PLAIN) { /* code times step is exact */
        *code = _mm256_add_ps(t, ones);
        *value = _mm256_fmsub_ps(*code, step, _mm256_set1_ps(ONES * q->step));
        return;
    }
    if (mode == QUANTISE_SUPPORT) {
        t = _mm256_max_ps(_mm256_ceil_ps(t), _mm256_set1_ps(1));
        *value = _mm256_fmsub_ps(t, step, half_step);
    } else { /* t may be -0 */
        t = _mm256_floor_ps(t);
        t = _mm256_blendv_ps(t, _mm256_min_ps(t, _mm256_set1_ps(-1)), v);
        *value = _mm256_fmadd_ps(t, step, half_step);
    }
    *code = _mm256_add_ps(t, ones);
}

/* Quantises 32 elements, 0 for those that failed. bad[]: all ones for these. Steps are taken for all of them together, so that
 * none waits for the one before. */
HOT void quantise32(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x, int16_t *codes,
                    half_sums *s, __m256i bad[2])
{
    const __m256i zero = _mm256_setzero_si256();
    const bool magnitudes = mode == QUANTISE_SUPPORT || (mode == QUANTISE_PLAIN && type == COMET_DTYPE_F16);
    __m256i nonzero[2];
    __m256 v[4], code[4], value[4], term[4];
    for (int i = 0; i < 2; i++) {
        const __m256i bits = load32(x + 16 * i), magnitude = magnitudes_of(bits);
        s->highest = _mm256_max_epi16(s->highest, bits);
        s->most = _mm256_max_epu16(s->most, bits);
        nonzero[i] = _mm256_min_epu16(magnitude, _mm256_set1_epi16(1));
        s->nonzero = _mm256_add_epi16(s->nonzero, nonzero[i]);
        widen_halves(type, magnitudes, magnitudes ? magnitude : bits, v + 2 * i);
    }
    for (int i = 0; i < 4; i++) {
        place_codes(q, mode, v[i], &code[i], &value[i]);
        s->squares[i % 2] = _mm256_fmadd_ps(v[i], v[i], s->squares[i % 2]);
    }
    for (int i = 0; i < 4; i++)
        term[i] = rounding_term(type, value[i]);
    for (int i = 0; i < 4; i++)
        value[i] = _mm256_sub_ps(_mm256_add_ps(value[i], term[i]), term[i]);
    for (int i = 0; i < 4; i++)
        value[i] = _mm256_sub_ps(v[i], value[i]);
    for (int i = 0; i < 2; i++) {
        const __m256i bits = load32(x + 16 * i), odd = _mm256_slli_epi32(_mm256_castps_si256(code[2 * i + 1]), 16);
        __m256i c = _mm256_blend_epi16(_mm256_castps_si256(code[2 * i]), odd, 0xaa);
        bad[i] = too_far(type, q, value + 2 * i);
        if (mode == QUANTISE_NONZERO) /* zero has no code */
            bad[i] = _mm256_or_si256(bad[i], _mm256_cmpeq_epi16(nonzero[i], zero));
        if (mode == QUANTISE_SUPPORT) /* zero has code 0 */
            c = _mm256_mullo_epi16(c, nonzero[i]);
        if (magnitudes)
            c = _mm256_sign_epi16(c, _mm256_or_si256(bits, _mm256_set1_epi16(1)));
        store32(codes + 16 * i, _mm256_andnot_si256(bad[i], c));
    }
}

/* Quantises 64 elements that are assumed to be finite and in range; `s` tells afterwards whether they were. Returns a bit for
 * each that failed, which gets code 0. */
HOT uint64_t quantise_block_half(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x,
                                 int16_t *codes, half_sums *s)
{
    uint64_t failed = 0;
    for (unsigned i = 0; i < BLOCK; i += 32) {
        __m256i bad[2];
        quantise32(type, q, mode, x + i, codes + i, s, bad);
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(bad[0], bad[1]), _MM_SHUFFLE(3, 1, 2, 0));
        failed |= (uint64_t)(uint32_t)_mm256_movemask_epi8(both) << i;
    }
    return failed;
}

HOT uint16_t max_of_words(__m256i v)
{
    const __m256i z[4] = {v, v, v, v};
    return (uint16_t)max_u16(z);
}

typedef struct half_range {
    uint16_t low, high;
} half_range;

/* The extremes, as far as the sums tell: the lowest negative element and the highest that is not. Negative ones have the
 * greater patterns, and the greater the lower they are. Without negative elements low is a greatest one, and without others
 * high is negative. */
static inline half_range half_sums_range(const half_sums *s)
{
    const __m256i flip = _mm256_set1_epi16(INT16_MIN);
    return (half_range){max_of_words(s->most), (uint16_t)(max_of_words(_mm256_xor_si256(s->highest, flip)) ^ 0x8000)};
}

static inline float half_value(comet_dtype type, uint16_t h)
{
    return type == COMET_DTYPE_F16 ? float_of_f16(h) : float_of_bf16(h);
}

/* Are all elements finite and within the range of codes, and their values within that of rounding_term? */
static inline bool half_sums_clean(comet_dtype type, const half_sums *s, const quantiser *q)
{
    half_range r = half_sums_range(s);
    float low = half_value(type, r.low) * q->inverse, high = half_value(type, r.high) * q->inverse;
    const float largest = half_largest(type) - 2 * q->eb; /* not so for NaN and Inf */
    bool finite = fabsf(half_value(type, r.low)) <= largest && fabsf(half_value(type, r.high)) <= largest;
    return finite && low > -CODE16_LIMIT && high < CODE16_LIMIT;
}

/* The least bit pattern of n elements, a multiple of BLOCK. */
static uint16_t least_pattern(const uint16_t *x, size_t n)
{
    __m256i least = _mm256_set1_epi16(-1);
    for (size_t i = 0; i < n; i += 16)
        least = _mm256_min_epu16(least, load32(x + i));
    return (uint16_t)~max_of_words(_mm256_xor_si256(least, _mm256_set1_epi16(-1)));
}

/* Where all of the n elements summed up have one sign, the extreme next to zero takes another look, unless it is zero. */
static inline void half_sums_take(comet_dtype type, const half_sums *s, const uint16_t *x, size_t n, moments *m)
{
    float squares[2][8];
    uint16_t words[16];
    half_range r = half_sums_range(s);
    uint64_t nonzero = 0;
    store32(words, s->nonzero);
    for (int i = 0; i < 16; i++)
        nonzero += words[i];
    if (r.low < 0x8000)
        r.low = nonzero < n ? 0 : least_pattern(x, n);
    else if (r.high >= 0x8000)
        r.high = nonzero < n ? 0 : least_pattern(x, n);
    _mm256_storeu_ps(squares[0], s->squares[0]);
    _mm256_storeu_ps(squares[1], s->squares[1]);
    for (int i = 0; i < SUM_LANES; i++)
        m->sum_of_squares[i] += (double)squares[i % 2][i / 2];
    const double low = (double)half_value(type, r.low), high = (double)half_value(type, r.high);
    m->n_nonzero += nonzero;
    m->min = low < m->min ? low : m->min;
    m->max = high > m->max ? high : m->max;
}

HOT void quantise_blocks(comet_dtype type, const quantiser *given, enum quantiser_mode mode, const uint16_t *x, size_t n,
                         uint32_t first, int16_t *codes, uint64_t *failed, moments *m)
{
    const quantiser q = *given; /* a copy, which stores cannot touch */
    if (mode != QUANTISE_DITHER) {
        half_sums s = half_sums_make();
        for (size_t i = 0; i < n; i += BLOCK)
            failed[i / BLOCK] = quantise_block_half(type, &q, mode, x + i, codes + i, &s);
        if (half_sums_clean(type, &s, &q)) {
            half_sums_take(type, &s, x, n, m);
            return;
        }
    }
    const __m256 zero = _mm256_setzero_ps(), low = _mm256_set1_ps(INFINITY), high = _mm256_set1_ps(-INFINITY);
    checked_sums s = {{zero, zero}, {low, low}, {high, high}, _mm256_setzero_si256()};
    for (size_t i = 0; i < n; i += BLOCK)
        failed[i / BLOCK] = quantise_block(type, &q, mode, x + i, first + (uint32_t)i, codes + i, &s);
    checked_sums_take(&s, n, m);
}

HOT void quantise_half(comet_dtype type, quantise_fn *rest, const quantiser *q, const uint16_t *x, size_t n, uint32_t first,
                       int16_t *codes, uint64_t *failed, moments *m)
{
    size_t whole = n / BLOCK * BLOCK;
    if (whole)
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

/* ---- quantise, predict and pack in one loop ---- */

HOT bool encode_blocks_half(comet_dtype type, const tile_job *j, enum quantiser_mode mode, enum predictor predictor,
                            bool identity, uint64_t *n_failed)
{
    const uint16_t *x = j->x;
    int16_t *codes = j->codes;
    uint64_t *failed = j->failed, count = 0;
    block_writer w = *j->out;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const strides distance = j->strides;
    const size_t n_blocks = j->n / BLOCK, first_block = j->first / BLOCK;
    const uint16_t *prefetch = j->prefetch ? j->prefetch : x; /* which is in the cache */
    half_sums s = half_sums_make();
    half_packed h[STRIP];
    for (size_t strip = 0; strip < n_blocks; strip += STRIP) {
        const size_t end = n_blocks - strip < STRIP ? n_blocks : strip + STRIP;
        for (size_t b = strip; b < end; b++) {
            failed[b] = quantise_block_half(type, &q, mode, x + b * BLOCK, codes + b * BLOCK, &s);
            count += (uint64_t)__builtin_popcountll(failed[b]);
        }
        for (size_t b = strip; b < end; b++) {
            for (int line = 0; line < BLOCK; line += 32) {
                _mm_prefetch((const char *)(x + b * BLOCK + 2 * FETCH_AHEAD + line), _MM_HINT_T0);
                _mm_prefetch((const char *)(prefetch + b * BLOCK + line), _MM_HINT_T1);
            }
            __m256i z[4];
            for (int i = 0; i < 4; i++)
                z[i] = residuals16(predictor, identity, codes + b * BLOCK + 16 * i, distance);
            pack_bytes(z, first_block + b, w.kinds, &h[b - strip]);
        }
        for (size_t b = strip; b < end; b++)
            pack_bits(&h[b - strip], &w);
    }
    if (!half_sums_clean(type, &s, &q))
        return false;
    half_sums_take(type, &s, x, j->n, j->moments);
    *j->out = w;
    *n_failed = count;
    return true;
}

/* False if the tile turns out to have elements that need a closer look. */
HOT bool encode_whole_half(comet_dtype type, const tile_job *j, enum quantiser_mode mode, uint64_t *n_failed)
{
    switch (j->predictor) {
    case PREDICT_LEFT: return encode_blocks_half(type, j, mode, PREDICT_LEFT, false, n_failed);
    case PREDICT_UP: return encode_blocks_half(type, j, mode, PREDICT_UP, false, n_failed);
    case PREDICT_LORENZO: return encode_blocks_half(type, j, mode, PREDICT_LORENZO, false, n_failed);
    default: return encode_blocks_half(type, j, mode, PREDICT_NONE, j->identity, n_failed);
    }
}

/* A tile that is not whole, is dithered or needs a closer look goes through the kernels one by one. */
HOT uint64_t encode_tile_half(comet_dtype type, quantise_fn *quantise, const tile_job *j)
{
    uint64_t n_failed = 0;
    bool done = false;
    if (j->n && j->n % BLOCK == 0)
        switch (j->quantiser->mode) {
        case QUANTISE_PLAIN: done = encode_whole_half(type, j, QUANTISE_PLAIN, &n_failed); break;
        case QUANTISE_SUPPORT: done = encode_whole_half(type, j, QUANTISE_SUPPORT, &n_failed); break;
        case QUANTISE_NONZERO: done = encode_whole_half(type, j, QUANTISE_NONZERO, &n_failed); break;
        case QUANTISE_DITHER: break;
        }
    return done ? n_failed : encode_tile_by(j, quantise, predict_16_generic, pack_16_avx2);
}

uint64_t encode_tile_f16_avx2(const tile_job *j)
{
    return encode_tile_half(COMET_DTYPE_F16, quantise_f16_16_avx2, j);
}

uint64_t encode_tile_bf16_avx2(const tile_job *j)
{
    return encode_tile_half(COMET_DTYPE_BF16, quantise_bf16_16_avx2, j);
}

/* ---- dequantise ---- */

/* Values of 16 codes, as the decoder gives them. */
HOT __m256i half_values(comet_dtype type, const quantiser *q, enum quantiser_mode mode, __m256i codes, uint32_t index)
{
    const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(codes));
    const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(codes, 1));
    return narrow_halves(type, values_f32(q, mode, low, index), values_f32(q, mode, high, index + 8));
}

#define SMALL_CODES 32

/* SMALL_CODES numbers of 16 bits: their low bytes and their high ones, 16 to a register and twice in it. */
typedef struct small_table {
    __m256i low[2], high[2];
} small_table;

HOT small_table small_table_make(const __m256i numbers[2])
{
    const __m128i byte = _mm_set1_epi16(0xff);
    small_table t;
    for (int i = 0; i < 2; i++) {
        const __m128i a = _mm256_castsi256_si128(numbers[i]), b = _mm256_extracti128_si256(numbers[i], 1);
        t.low[i] = _mm256_broadcastsi128_si256(_mm_packus_epi16(_mm_and_si128(a, byte), _mm_and_si128(b, byte)));
        t.high[i] = _mm256_broadcastsi128_si256(_mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)));
    }
    return t;
}

/* The numbers at 32 places below SMALL_CODES. Shuffles give 0 where the highest bit is set. */
HOT void small_lookup(const small_table *t, const __m256i places[2], __m256i numbers[2])
{
    const __m256i place = _mm256_packs_epi16(places[0], places[1]);
    const __m256i from_low = _mm256_add_epi8(place, _mm256_set1_epi8(0x70));
    const __m256i from_high = _mm256_sub_epi8(place, _mm256_set1_epi8(16));
    const __m256i low = _mm256_or_si256(_mm256_shuffle_epi8(t->low[0], from_low), _mm256_shuffle_epi8(t->low[1], from_high));
    const __m256i high = _mm256_or_si256(_mm256_shuffle_epi8(t->high[0], from_low), _mm256_shuffle_epi8(t->high[1], from_high));
    numbers[0] = _mm256_unpacklo_epi8(low, high);
    numbers[1] = _mm256_unpackhi_epi8(low, high);
}

/* Where codes stand in tables: values of opposite signs share a place. */
HOT __m256i small_index(enum quantiser_mode mode, __m256i codes)
{
    return mode == QUANTISE_NONZERO ? _mm256_xor_si256(codes, _mm256_srai_epi16(codes, 15)) : _mm256_abs_epi16(codes);
}

HOT bool all_small(__m256i index0, __m256i index1)
{
    return _mm256_testz_si256(_mm256_or_si256(index0, index1), _mm256_set1_epi16((short)~(SMALL_CODES - 1)));
}

/* Those of codes 0 to SMALL_CODES - 1. */
HOT void small_values(comet_dtype type, const quantiser *q, enum quantiser_mode mode, __m256i values[2])
{
    const __m256i codes = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    values[0] = half_values(type, q, mode, codes, 0);
    values[1] = half_values(type, q, mode, _mm256_add_epi16(codes, _mm256_set1_epi16(16)), 0);
}

#define WORTH_TABLE (8 * BLOCK) /* elements from which on it pays to make a table */

/* Dequantises 32 codes at a time, up to the first that is too large for the table. Returns where it ends. */
HOT size_t dequantise_small(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const int16_t *c, size_t n,
                            uint16_t *x)
{
    const __m256i sign = _mm256_set1_epi16(INT16_MIN);
    __m256i v[2];
    small_values(type, q, mode, v);
    const small_table values = small_table_make(v);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256i codes[2] = {load32(c + i), load32(c + i + 16)};
        const __m256i places[2] = {small_index(mode, codes[0]), small_index(mode, codes[1])};
        if (!all_small(places[0], places[1]))
            break;
        small_lookup(&values, places, v);
        store32(x + i, _mm256_or_si256(v[0], _mm256_and_si256(codes[0], sign)));
        store32(x + i + 16, _mm256_or_si256(v[1], _mm256_and_si256(codes[1], sign)));
    }
    return i;
}

HOT void dequantise_mode(comet_dtype type, const quantiser *given, enum quantiser_mode mode, const int16_t *c, size_t n,
                         uint32_t first, uint16_t *x)
{
    const quantiser q = *given; /* a copy, which stores to x cannot touch */
    size_t i = mode == QUANTISE_DITHER || n < WORTH_TABLE ? 0 : dequantise_small(type, &q, mode, c, n, x);
    for (; i + 16 <= n; i += 16)
        store32(x + i, half_values(type, &q, mode, load32(c + i), first + (uint32_t)i));
    if (i < n) { /* codes go on past n, up to a block */
        uint16_t last[16];
        store32(last, half_values(type, &q, mode, load32(c + i), first + (uint32_t)i));
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
    (void)stream; /* stores around the caches were slower */
    dequantise_half(COMET_DTYPE_F16, q, codes, n, first, x);
}

void dequantise_bf16_16_avx2(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    (void)stream; /* stores around the caches were slower */
    dequantise_half(COMET_DTYPE_BF16, q, codes, n, first, x);
}
