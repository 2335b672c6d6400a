/*
 * AVX-512 kernels that compress f16 and bf16, for 16-bit codes: see half_avx512.h.
 *
 * An element fails if its code comes back, rounded to 16 bits, further away than eb. For codes below SMALL_CODES the magnitudes
 * that come back within eb are an interval whose ends are looked up. The ends are exact: eb in [2^k, 2^(k+1)) and the value of
 * the code, less than 2^(k+8), are multiples of 2^(k-10) (or of 2^-24, the least f16), so that floats hold their sum and
 * difference. Other codes are checked in floats, as quantise_body.h does.
 *
 * The extremes of a tile are found first: they tell how large its codes can be. Where no code and no neighbour is above
 * TINY_CODES - 1, a register of a table is enough, and residuals are bytes.
 */
#include "codec/kernels/half_avx512.h"
#include "codec/kernels/pack_end_avx512.h"

/* ---- figures of elements ---- */

typedef struct half_sums {
    __m512 squares;
    __m512i nonzero;
} half_sums;

static inline half_sums half_sums_make(void)
{
    return (half_sums){_mm512_setzero_ps(), _mm512_setzero_si512()};
}

/* 32 elements: their magnitudes, and their values with or without the sign. */
HOT void sum_up_halves(__m512i magnitude, const __m512 v[2], half_sums *s)
{
    s->squares = _mm512_fmadd_ps(v[0], v[0], s->squares);
    s->squares = _mm512_fmadd_ps(v[1], v[1], s->squares);
    s->nonzero = _mm512_add_epi16(s->nonzero, _mm512_min_epu16(magnitude, _mm512_set1_epi16(1)));
}

/* The extremes of a tile as bit patterns; NaN and Inf are the largest magnitudes. */
typedef struct half_range {
    uint16_t low, high;
} half_range;

/* The extremes of n elements, a multiple of BLOCK, as far as their greatest patterns tell, signed and unsigned: the lowest
 * negative element and the highest that is not. Negative ones have the greater patterns, and the greater the lower they are.
 * Without negative elements low is a greatest one, and without others high is negative. */
HOT half_range half_range_of(const uint16_t *x, size_t n)
{
    const __m512i sign = _mm512_set1_epi16((short)HALF_SIGN);
    __m512i highest[2] = {sign, sign}, most[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (size_t i = 0; i < n; i += BLOCK)
        for (int k = 0; k < 2; k++) {
            const __m512i bits = _mm512_loadu_si512(x + i + 32 * k);
            highest[k] = _mm512_max_epi16(highest[k], bits);
            most[k] = _mm512_max_epu16(most[k], bits);
        }
    return (half_range){
        (uint16_t)max_u16(most[0], most[1]),
        (uint16_t)(max_u16(_mm512_xor_si512(highest[0], sign), _mm512_xor_si512(highest[1], sign)) ^ HALF_SIGN)};
}

static inline float half_value(comet_dtype type, uint16_t h)
{
    return type == COMET_DTYPE_F16 ? float_of_f16(h) : float_of_bf16(h);
}

static inline uint64_t half_sums_nonzero(const half_sums *s)
{
    __m512i pairs = _mm512_madd_epi16(s->nonzero, _mm512_set1_epi16(1));
    return (uint64_t)_mm512_reduce_add_epi32(pairs);
}

/* The largest quotient of elements and step, +Inf if an element is not finite: codes are not larger, but for rounding. */
static inline float largest_quotient(comet_dtype type, half_range r, const quantiser *q)
{
    const unsigned infinite = type == COMET_DTYPE_F16 ? 0x7c00 : 0x7f80;
    if ((r.low & HALF_MAGNITUDE) >= infinite || (r.high & HALF_MAGNITUDE) >= infinite)
        return INFINITY;
    return fmaxf(fabsf(half_value(type, r.low) * q->inverse), fabsf(half_value(type, r.high) * q->inverse));
}

/* The least bit pattern of n elements, a multiple of BLOCK. */
static uint16_t least_pattern(const uint16_t *x, size_t n)
{
    __m512i least = _mm512_set1_epi16(-1);
    for (size_t i = 0; i < n; i += 32)
        least = _mm512_min_epu16(least, _mm512_loadu_si512(x + i));
    uint16_t patterns[32];
    _mm512_storeu_si512(patterns, least);
    for (int i = 1; i < 32; i++)
        patterns[0] = patterns[i] < patterns[0] ? patterns[i] : patterns[0];
    return patterns[0];
}

/* Where all of the n elements have one sign, the extreme next to zero takes another look, unless it is zero. */
static inline void half_sums_take(comet_dtype type, const half_sums *s, half_range r, const uint16_t *x, size_t n, moments *m)
{
    float squares[SUM_LANES];
    uint64_t nonzero = half_sums_nonzero(s);
    if (r.low < HALF_SIGN)
        r.low = nonzero < n ? 0 : least_pattern(x, n);
    else if (r.high >= HALF_SIGN)
        r.high = nonzero < n ? 0 : least_pattern(x, n);
    _mm512_storeu_ps(squares, s->squares);
    for (int i = 0; i < SUM_LANES; i++)
        m->sum_of_squares[i] += (double)squares[i];
    m->n_nonzero += nonzero;
    m->min = fmin(m->min, (double)half_value(type, r.low));
    m->max = fmax(m->max, (double)half_value(type, r.high));
}

/* ---- quantise ---- */

/* The least and the greatest magnitude that small codes stand for. */
typedef struct intervals {
    small_table least, most;
} intervals;

#define TINY_CODES 32 /* numbers of 16 bits in a register */

/* 32 floats >= 0, rounded down or up. */
HOT __m512i narrow_directed(comet_dtype type, bool up, __m512 a, __m512 b)
{
    if (type == COMET_DTYPE_F16) {
        enum { UP = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC, DOWN = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC };
        __m256i low = up ? _mm512_cvtps_ph(a, UP) : _mm512_cvtps_ph(a, DOWN);
        __m256i high = up ? _mm512_cvtps_ph(b, UP) : _mm512_cvtps_ph(b, DOWN);
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    const __m512i rest = _mm512_set1_epi32(up ? 0xffff : 0);
    __m512i low = _mm512_add_epi32(_mm512_castps_si512(a), rest), high = _mm512_add_epi32(_mm512_castps_si512(b), rest);
    return _mm512_permutex2var_epi16(low, odd_words(), high);
}

HOT void interval_ends(comet_dtype type, enum quantiser_mode mode, float bound, __m512i values, __m512i *least, __m512i *most)
{
    const __m512 eb = _mm512_set1_ps(bound), zero = _mm512_setzero_ps();
    __m512 a = widen_half(type, _mm512_castsi512_si256(values)), b = widen_half(type, _mm512_extracti64x4_epi64(values, 1));
    *least = narrow_directed(type, true, _mm512_max_ps(_mm512_sub_ps(a, eb), zero), _mm512_max_ps(_mm512_sub_ps(b, eb), zero));
    *most = narrow_directed(type, false, _mm512_add_ps(a, eb), _mm512_add_ps(b, eb));
    if (mode == QUANTISE_NONZERO)
        *least = _mm512_max_epu16(*least, _mm512_set1_epi16(1));
}

HOT intervals intervals_make(comet_dtype type, const quantiser *q, enum quantiser_mode mode)
{
    small_table values = small_values(type, q, mode);
    intervals in;
    interval_ends(type, mode, q->eb, values.low, &in.least.low, &in.most.low);
    interval_ends(type, mode, q->eb, values.high, &in.least.high, &in.most.high);
    return in;
}

/* 32 elements and their codes. */
typedef struct halves {
    __m512i x, magnitude, codes, index;
    __m512 v[2]; /* support: of the magnitudes */
} halves;

/* Codes of 32 elements that are assumed to be in range. */
HOT halves quantise_halves(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x)
{
    const __m512 inverse = _mm512_set1_ps(q->inverse);
    halves h = {.x = _mm512_loadu_si512(x)};
    __m512i c[2];
    h.magnitude = _mm512_and_si512(h.x, _mm512_set1_epi16(HALF_MAGNITUDE));
    __m512i from = mode == QUANTISE_SUPPORT ? h.magnitude : h.x;
    widen_halves(type, from, h.v);
    for (int i = 0; i < 2; i++) {
        __m512 t = _mm512_mul_ps(h.v[i], inverse);
        if (mode == QUANTISE_NONZERO)
            t = _mm512_range_ps(t, _mm512_set1_ps(0x1p-100f), RANGE_GREATER);
        c[i] = mode == QUANTISE_PLAIN     ? _mm512_cvtps_epi32(t)
               : mode == QUANTISE_SUPPORT ? _mm512_cvt_roundps_epi32(t, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)
                                          : _mm512_cvt_roundps_epi32(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    }
    h.codes = _mm512_permutex2var_epi16(c[0], even_words(), c[1]);
    if (mode == QUANTISE_SUPPORT) { /* what is so small that t is zero gets code 1, too */
        h.index = _mm512_max_epu16(h.codes, _mm512_min_epu16(h.magnitude, _mm512_set1_epi16(1)));
        h.codes = _mm512_mask_sub_epi16(h.index, _mm512_movepi16_mask(h.x), _mm512_setzero_si512(), h.index);
    } else {
        h.index = small_index(mode, h.codes);
    }
    return h;
}

HOT __m512i tiny_lookup(bool tiny, small_table t, __m512i index)
{
    return tiny ? _mm512_permutexvar_epi16(index, t.low) : small_lookup(t, index);
}

HOT __mmask32 inside_of(const intervals *in, bool tiny, const halves *h)
{
    const __mmask32 inside = _mm512_cmple_epu16_mask(tiny_lookup(tiny, in->least, h->index), h->magnitude);
    return _mm512_mask_cmple_epu16_mask(inside, h->magnitude, tiny_lookup(tiny, in->most, h->index));
}

/* A bit for each of 16 elements whose code does not come back within the bound. */
HOT __mmask16 too_far(const quantiser *q, enum quantiser_mode mode, __m512 v, __m512 back)
{
    const __m512 eb = _mm512_set1_ps(q->eb);
    __m512 error = _mm512_abs_ps(_mm512_sub_ps(v, back));
    __mmask16 bad =
        mode == QUANTISE_DITHER ? _mm512_cmp_ps_mask(error, eb, _CMP_NLT_UQ) : _mm512_cmp_ps_mask(error, eb, _CMP_NLE_UQ);
    return mode == QUANTISE_NONZERO ? bad | _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ) : bad;
}

HOT __mmask32 too_far_halves(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const halves *h)
{
    __m512i back = half_values(type, q, mode, mode == QUANTISE_SUPPORT ? h->index : h->codes, 0);
    __mmask16 low = too_far(q, mode, h->v[0], widen_half(type, _mm512_castsi512_si256(back)));
    __mmask16 high = too_far(q, mode, h->v[1], widen_half(type, _mm512_extracti64x4_epi64(back, 1)));
    return (__mmask32)((uint32_t)low | (uint32_t)high << 16);
}

/* Quantises 64 elements, whose codes are all below SMALL_CODES, or TINY_CODES. Returns a bit for each that failed, which gets
 * code 0. */
HOT uint64_t quantise_block_small(comet_dtype type, const quantiser *q, enum quantiser_mode mode, bool tiny,
                                  const intervals *in, const uint16_t *x, int16_t *codes, half_sums *s)
{
    __mmask32 inside[2];
    for (int i = 0; i < 2; i++) {
        const halves h = quantise_halves(type, q, mode, x + 32 * i);
        inside[i] = inside_of(in, tiny, &h);
        sum_up_halves(h.magnitude, h.v, s);
        _mm512_storeu_si512(codes + 32 * i, _mm512_maskz_mov_epi16(inside[i], h.codes));
    }
    return ~(inside[0] | (uint64_t)inside[1] << 32);
}

/* The same for codes of any size that are in range. */
HOT uint64_t quantise_block_half(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x,
                                 int16_t *codes, half_sums *s)
{
    __mmask32 bad[2];
    for (int i = 0; i < 2; i++) {
        halves h = quantise_halves(type, q, mode, x + 32 * i);
        bad[i] = too_far_halves(type, q, mode, &h);
        sum_up_halves(h.magnitude, h.v, s);
        _mm512_storeu_si512(codes + 32 * i, _mm512_maskz_mov_epi16(~bad[i], h.codes));
    }
    return bad[0] | (uint64_t)bad[1] << 32;
}

/* Codes of 16 elements of any kind, dithered if they are to be. */
HOT __m512i checked_codes(const quantiser *q, enum quantiser_mode mode, __m512 v, uint32_t index)
{
    const __m512 limit = _mm512_set1_ps(CODE16_LIMIT), minus_limit = _mm512_set1_ps(-CODE16_LIMIT), zero = _mm512_setzero_ps();
    __m512 t = _mm512_mul_ps(v, _mm512_set1_ps(q->inverse));
    if (mode == QUANTISE_DITHER)
        t = _mm512_add_ps(t, dither_f32(q->key, index));
    t = _mm512_min_ps(_mm512_max_ps(t, minus_limit), limit); /* NaN becomes -limit */
    if (mode == QUANTISE_PLAIN || mode == QUANTISE_DITHER)
        return _mm512_cvtps_epi32(t);
    t = _mm512_range_ps(t, _mm512_set1_ps(0x1p-100f), RANGE_GREATER);
    if (mode == QUANTISE_NONZERO)
        return _mm512_cvt_roundps_epi32(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __mmask16 above = _mm512_cmp_ps_mask(v, zero, _CMP_GT_OQ), below = _mm512_cmp_ps_mask(v, zero, _CMP_LT_OQ);
    __m512i c = _mm512_maskz_cvt_roundps_epi32(above, t, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    return _mm512_mask_cvt_roundps_epi32(c, below, t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* Quantises 64 elements of any kind. Returns a bit for each that failed, which gets code 0. */
HOT uint64_t quantise_block_half_checked(comet_dtype type, const quantiser *q, enum quantiser_mode mode, const uint16_t *x,
                                         uint32_t first, int16_t *codes, half_sums *s)
{
    uint64_t failed = 0;
    for (uint32_t i = 0; i < BLOCK; i += 32) {
        __m512i bits = _mm512_loadu_si512(x + i), c[2];
        const __m512 v[2] = {widen_half(type, _mm512_castsi512_si256(bits)),
                             widen_half(type, _mm512_extracti64x4_epi64(bits, 1))};
        sum_up_halves(_mm512_and_si512(bits, _mm512_set1_epi16(HALF_MAGNITUDE)), v, s);
        for (uint32_t k = 0; k < 2; k++)
            c[k] = checked_codes(q, mode, v[k], first + i + 16 * k);
        __m512i both = _mm512_permutex2var_epi16(c[0], even_words(), c[1]);
        __m512i back = half_values(type, q, mode, both, first + i);
        uint32_t bad = too_far(q, mode, v[0], widen_half(type, _mm512_castsi512_si256(back)));
        bad |= (uint32_t)too_far(q, mode, v[1], widen_half(type, _mm512_extracti64x4_epi64(back, 1))) << 16;
        _mm512_storeu_si512(codes + i, _mm512_maskz_mov_epi16(~bad, both));
        failed |= (uint64_t)bad << i;
    }
    return failed;
}

#define WORTH_TABLES (8 * BLOCK) /* elements from which on it pays to make tables */

HOT void quantise_small(comet_dtype type, const quantiser *q, enum quantiser_mode mode, bool tiny, const uint16_t *x, size_t n,
                        int16_t *codes, uint64_t *failed, half_sums *s)
{
    const intervals in = intervals_make(type, q, mode);
    for (size_t i = 0; i < n; i += BLOCK)
        failed[i / BLOCK] = quantise_block_small(type, q, mode, tiny, &in, x + i, codes + i, s);
}

/* Quantises whole blocks, those that are not in range or dithered with a closer look. */
HOT void quantise_blocks_half(comet_dtype type, const quantiser *given, enum quantiser_mode mode, const uint16_t *x, size_t n,
                              uint32_t first, int16_t *codes, uint64_t *failed, moments *m)
{
    const quantiser q = *given; /* a copy, which stores cannot touch */
    const half_range range = half_range_of(x, n);
    const float quotient = largest_quotient(type, range, &q);
    half_sums s = half_sums_make();
    if (mode == QUANTISE_DITHER || quotient >= CODE16_LIMIT)
        for (size_t i = 0; i < n; i += BLOCK)
            failed[i / BLOCK] = quantise_block_half_checked(type, &q, mode, x + i, first + (uint32_t)i, codes + i, &s);
    else if (quotient > SMALL_CODES - 1 || n < WORTH_TABLES)
        for (size_t i = 0; i < n; i += BLOCK)
            failed[i / BLOCK] = quantise_block_half(type, &q, mode, x + i, codes + i, &s);
    else if (quotient > TINY_CODES - 1)
        quantise_small(type, &q, mode, false, x, n, codes, failed, &s);
    else
        quantise_small(type, &q, mode, true, x, n, codes, failed, &s);
    half_sums_take(type, &s, range, x, n, m);
}

HOT void quantise_half(comet_dtype type, quantise_fn *rest, const quantiser *q, const uint16_t *x, size_t n, uint32_t first,
                       int16_t *codes, uint64_t *failed, moments *m)
{
    size_t whole = n / BLOCK * BLOCK;
    if (whole)
        switch (q->mode) {
        case QUANTISE_PLAIN: quantise_blocks_half(type, q, QUANTISE_PLAIN, x, whole, first, codes, failed, m); break;
        case QUANTISE_SUPPORT: quantise_blocks_half(type, q, QUANTISE_SUPPORT, x, whole, first, codes, failed, m); break;
        case QUANTISE_NONZERO: quantise_blocks_half(type, q, QUANTISE_NONZERO, x, whole, first, codes, failed, m); break;
        case QUANTISE_DITHER: quantise_blocks_half(type, q, QUANTISE_DITHER, x, whole, first, codes, failed, m); break;
        }
    if (whole < n)
        rest(q, x + whole, n - whole, first + (uint32_t)whole, codes + whole, failed + whole / BLOCK, m);
}

void quantise_f16_16_avx512(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                            moments *m)
{
    quantise_half(COMET_DTYPE_F16, quantise_f16_16_generic, q, x, n, first, codes, failed, m);
}

void quantise_bf16_16_avx512(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                             moments *m)
{
    quantise_half(COMET_DTYPE_BF16, quantise_bf16_16_generic, q, x, n, first, codes, failed, m);
}

/* ---- quantise, predict and pack in one loop ---- */

/* What packing loads of the codes before a block: all of them and their neighbours must be below TINY_CODES. */
HOT bool all_tiny(const int16_t *from, const int16_t *to)
{
    __m512i most = _mm512_setzero_si512();
    for (const int16_t *c = from; c < to; c += 32) {
        const __mmask32 rest = to - c < 32 ? (__mmask32)((UINT64_C(1) << (to - c)) - 1) : ~(__mmask32)0;
        most = _mm512_max_epu16(most, _mm512_abs_epi16(_mm512_maskz_loadu_epi16(rest, c)));
    }
    return max_u16(most, most) < TINY_CODES;
}

/* Do a tile's residuals fit bytes, if its codes are tiny? Left neighbours lie in the last 16 bytes, neighbours before the tile
 * are tiny, and codes that are taken as they are, without a sign, have none. */
static inline bool residuals_fit_bytes(const tile_job *j, half_range range)
{
    const int16_t *codes = j->codes;
    if (j->identity && range.low >= HALF_SIGN)
        return false;
    const bool up = j->predictor == PREDICT_UP || j->predictor == PREDICT_LORENZO;
    const size_t left = j->predictor == PREDICT_LEFT || j->predictor == PREDICT_LORENZO ? j->strides.left : 0,
                 above = up ? j->strides.up : 0;
    if (left != 0 && left != 1 && left != 16)
        return false;
    return all_tiny(codes - left, codes) &&
           (!up || all_tiny(codes - above - left, above < j->n ? codes : codes - above + j->n));
}

/* Differences of 64 codes to those above, as bytes in their order. */
HOT __m512i differences_above(bool up, const int16_t *c, size_t distance)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i d[2];
    for (int i = 0; i < 2; i++) {
        d[i] = _mm512_loadu_si512(c + 32 * i);
        if (up)
            d[i] = _mm512_sub_epi16(d[i], _mm512_loadu_si512(c + 32 * i - distance));
    }
    return _mm512_permutexvar_epi64(order, _mm512_packs_epi16(d[0], d[1]));
}

/* The bytes 1 or 16 places to the left of `v`, the first of them from the end of `before`. */
HOT __m512i bytes_left(size_t distance, __m512i before, __m512i v)
{
    const __m512i last = _mm512_alignr_epi64(v, before, 6); /* the 16 bytes before each 16 */
    return distance == 1 ? _mm512_alignr_epi8(v, last, 15) : last;
}

/* The residuals of tiny codes fit bytes: four times TINY_CODES - 1, doubled, is 248. */
HOT void encode_blocks_tiny(comet_dtype type, const tile_job *j, enum quantiser_mode mode, const intervals *given,
                            half_packed *h, half_sums *sums)
{
    const uint16_t *x = j->x;
    int16_t *codes = j->codes;
    uint64_t *failed = j->failed;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const intervals in = *given;
    const bool up = j->predictor == PREDICT_UP || j->predictor == PREDICT_LORENZO, identity = j->identity;
    const bool left = j->predictor == PREDICT_LEFT || j->predictor == PREDICT_LORENZO;
    const size_t n_blocks = j->n / BLOCK, distance = j->strides.left, above = j->strides.up;
    const uint16_t *prefetch = j->prefetch ? j->prefetch : x; /* which is in the cache */
    half_sums s = *sums;
    __m512i before = left ? differences_above(up, codes - BLOCK, above) : _mm512_setzero_si512();
    for (size_t b = 0; b < n_blocks + LAG; b++) {
        if (b < n_blocks) {
            for (int line = 0; line < 2; line++) {
                _mm_prefetch((const char *)(x + b * BLOCK + 2 * FETCH_AHEAD + 32 * line), _MM_HINT_T0);
                _mm_prefetch((const char *)(prefetch + b * BLOCK + 32 * line), _MM_HINT_T1);
            }
            failed[b] = quantise_block_small(type, &q, mode, true, &in, x + b * BLOCK, codes + b * BLOCK, &s);
        }
        if (b >= LAG) {
            const __m512i v = differences_above(up, codes + (b - LAG) * BLOCK, above);
            const __m512i r = left ? _mm512_sub_epi8(v, bytes_left(distance, before, v)) : v;
            before = v;
            pack_block_of_bytes(identity ? r : zigzag_bytes(r), b - LAG, h);
        }
    }
    *sums = s;
}

HOT void encode_blocks_small(comet_dtype type, const tile_job *j, enum quantiser_mode mode, const intervals *given,
                             enum predictor predictor, bool identity, bool next_door, half_packed *h, half_sums *sums)
{
    const uint16_t *x = j->x;
    int16_t *codes = j->codes;
    uint64_t *failed = j->failed;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const intervals in = *given;
    const strides distance = j->strides;
    const size_t n_blocks = j->n / BLOCK;
    const uint16_t *prefetch = j->prefetch ? j->prefetch : x; /* which is in the cache */
    half_sums s = *sums;
    __m512i before = _mm512_loadu_si512(codes - 32);
    if (predictor == PREDICT_LORENZO)
        before = _mm512_sub_epi16(before, _mm512_loadu_si512(codes - 32 - j->strides.up));
    for (size_t b = 0; b < n_blocks + LAG; b++) {
        if (b < n_blocks) {
            for (int line = 0; line < 2; line++) {
                _mm_prefetch((const char *)(x + b * BLOCK + 2 * FETCH_AHEAD + 32 * line), _MM_HINT_T0);
                _mm_prefetch((const char *)(prefetch + b * BLOCK + 32 * line), _MM_HINT_T1);
            }
            failed[b] = quantise_block_small(type, &q, mode, false, &in, x + b * BLOCK, codes + b * BLOCK, &s);
        }
        if (b >= LAG) {
            const int16_t *c = codes + (b - LAG) * BLOCK;
            __m512i z0 = residuals32(predictor, identity, c, distance, next_door, &before);
            __m512i z1 = residuals32(predictor, identity, c + 32, distance, next_door, &before);
            pack_block(z0, z1, b - LAG, h);
        }
    }
    *sums = s;
}

HOT void encode_predicted_small(comet_dtype type, const tile_job *j, enum quantiser_mode mode, const intervals *in,
                                half_packed *h, half_sums *s)
{
    bool next_door = j->strides.left == 1;
    switch (j->predictor) {
    case PREDICT_LEFT:
        if (next_door)
            encode_blocks_small(type, j, mode, in, PREDICT_LEFT, false, true, h, s);
        else
            encode_blocks_small(type, j, mode, in, PREDICT_LEFT, false, false, h, s);
        break;
    case PREDICT_UP: encode_blocks_small(type, j, mode, in, PREDICT_UP, false, false, h, s); break;
    case PREDICT_LORENZO:
        if (next_door)
            encode_blocks_small(type, j, mode, in, PREDICT_LORENZO, false, true, h, s);
        else
            encode_blocks_small(type, j, mode, in, PREDICT_LORENZO, false, false, h, s);
        break;
    default: encode_blocks_small(type, j, mode, in, PREDICT_NONE, j->identity, false, h, s); break;
    }
}

/* False if the tile has elements that need a closer look, or codes too large for the tables. */
HOT bool encode_whole_half(comet_dtype type, const tile_job *j, enum quantiser_mode mode)
{
    const half_range range = half_range_of(j->x, j->n);
    const float quotient = largest_quotient(type, range, j->quantiser);
    if (quotient > SMALL_CODES - 1)
        return false;
    const intervals in = intervals_make(type, j->quantiser, mode);
    half_sums s = half_sums_make();
    half_packed h;
    pack_begin(&h);
    if (quotient <= TINY_CODES - 1 && residuals_fit_bytes(j, range)) {
        encode_blocks_tiny(type, j, mode, &in, &h, &s);
        find_maxima(j->n / BLOCK, &h);
    } else {
        encode_predicted_small(type, j, mode, &in, &h, &s);
    }
    half_sums_take(type, &s, range, j->x, j->n, j->moments);
    pack_end(&h, j->n / BLOCK, j->first / BLOCK, j->out);
    return true;
}

/* A tile that is not whole, is dithered, has larger codes or needs a closer look goes through the kernels one by one. */
HOT uint64_t encode_tile_half(comet_dtype type, quantise_fn *quantise, const tile_job *j)
{
    bool done = false;
    if (j->n && j->n % BLOCK == 0)
        switch (j->quantiser->mode) {
        case QUANTISE_PLAIN: done = encode_whole_half(type, j, QUANTISE_PLAIN); break;
        case QUANTISE_SUPPORT: done = encode_whole_half(type, j, QUANTISE_SUPPORT); break;
        case QUANTISE_NONZERO: done = encode_whole_half(type, j, QUANTISE_NONZERO); break;
        case QUANTISE_DITHER: break;
        }
    return done ? tile_failures(j) : encode_tile_by(j, quantise, predict_16_generic, pack_16_avx512);
}

uint64_t encode_tile_f16_avx512(const tile_job *j)
{
    return encode_tile_half(COMET_DTYPE_F16, quantise_f16_16_avx512, j);
}

uint64_t encode_tile_bf16_avx512(const tile_job *j)
{
    return encode_tile_half(COMET_DTYPE_BF16, quantise_bf16_16_avx512, j);
}
