/*
 * AVX2 kernels (with BMI, F16C, FMA) for 16-bit codes; everything else is the generic bodies compiled for these instructions.
 *
 * A block of 64 residuals is two registers of bytes, its map of non-zeros a 64-bit mask. Blocks are packed and unpacked without
 * a branch on their shape, which changes from block to block and would be mispredicted. Bytes are brought together and put back
 * eight at a time, by shuffles from a table. Decompression is in decode_avx2.c, level dense in dense_avx2.c.
 */
#define LINEAR_LANES 8
#include "codec/kernels/linear_lanes.h"
#include "codec/kernels/pack_avx2.h"

/* ---- quantise, f32 ---- */

typedef struct f32_sums {
    __m256 squares[2], low, high; /* the order of summation is that of SUM_LANES lanes */
    __m256i nonzero;
} f32_sums;

static inline f32_sums f32_sums_make(void)
{
    const __m256 zero = _mm256_setzero_ps();
    return (f32_sums){{zero, zero}, _mm256_set1_ps(INFINITY), _mm256_set1_ps(-INFINITY), _mm256_setzero_si256()};
}

/* Adds up 16 elements. Returns in nonzero[] all ones where an element is not 0. */
HOT void sum_up(const __m256 v[2], f32_sums *s, __m256i nonzero[2])
{
    for (int i = 0; i < 2; i++) {
        nonzero[i] = _mm256_castps_si256(_mm256_cmp_ps(v[i], _mm256_setzero_ps(), _CMP_NEQ_UQ));
        s->nonzero = _mm256_sub_epi32(s->nonzero, nonzero[i]);
        s->squares[i] = _mm256_fmadd_ps(v[i], v[i], s->squares[i]);
        s->low = _mm256_min_ps(v[i], s->low);
        s->high = _mm256_max_ps(v[i], s->high);
    }
}

HOT __m256 magnitude_f32(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

/* Codes of 8 elements `v`, given their quotients t = v / step (dithered if they are to be), in the range of codes. Support
 * rounds away from zero, nonzero down, also what is so small that t is zero. */
HOT __m256i codes_f32(enum quantiser_mode mode, __m256 v, __m256 t, __m256i nonzero)
{
    if (mode == QUANTISE_PLAIN || mode == QUANTISE_DITHER)
        return _mm256_cvtps_epi32(t);
    if (mode == QUANTISE_NONZERO) {
        __m256i c = _mm256_cvtps_epi32(_mm256_floor_ps(t));
        __m256i least = _mm256_srai_epi32(_mm256_castps_si256(v), 31); /* -1 for negative elements, -0 being none */
        return _mm256_blendv_epi8(c, _mm256_min_epi32(c, least), least);
    }
    __m256 up = _mm256_max_ps(_mm256_ceil_ps(magnitude_f32(t)), _mm256_set1_ps(1));
    return _mm256_and_si256(_mm256_sign_epi32(_mm256_cvtps_epi32(up), _mm256_castps_si256(v)), nonzero);
}

/* Quantises 64 elements that are assumed to be in range, so that they come back within the bound (quantiser.c); `s` tells
 * afterwards whether they were. */
HOT void quantise_block_f32(const quantiser *q, enum quantiser_mode mode, const float *x, int16_t *codes, f32_sums *s)
{
    const __m256 inverse = _mm256_set1_ps(q->inverse);
    for (int i = 0; i < BLOCK; i += 16) {
        __m256 v[2] = {_mm256_loadu_ps(x + i), _mm256_loadu_ps(x + i + 8)};
        __m256i nonzero[2], c[2];
        sum_up(v, s, nonzero);
        for (int k = 0; k < 2; k++)
            c[k] = codes_f32(mode, v[k], _mm256_mul_ps(v[k], inverse), nonzero[k]);
        store32(codes + i, narrow_codes(c[0], c[1]));
    }
}

/* The sum of 8 lanes. */
static inline unsigned total_u32(__m256i v)
{
    uint32_t counts[8];
    unsigned total = 0;
    store32(counts, v);
    for (int i = 0; i < 8; i++)
        total += counts[i];
    return total;
}

static inline void range_f32(const f32_sums *s, float *low, float *high)
{
    float lows[8], highs[8];
    _mm256_storeu_ps(lows, s->low);
    _mm256_storeu_ps(highs, s->high);
    *low = lows[0], *high = highs[0];
    for (int i = 1; i < 8; i++) {
        *low = lows[i] < *low ? lows[i] : *low;
        *high = highs[i] > *high ? highs[i] : *high;
    }
}

/* Were all n elements summed up within the range of codes, and far enough within that of floats for the product of a code and
 * the step? NaN and Inf show in the squares. */
static inline bool f32_sums_clean(const f32_sums *s, const quantiser *q, size_t n)
{
    if (q->mode == QUANTISE_NONZERO && total_u32(s->nonzero) < n)
        return false;
    float low, high;
    range_f32(s, &low, &high);
    bool in_range = high * q->inverse < CODE16_LIMIT && low * q->inverse > -CODE16_LIMIT;
    __m256 endless = _mm256_cmp_ps(_mm256_add_ps(s->squares[0], s->squares[1]), _mm256_set1_ps(INFINITY), _CMP_NLT_UQ);
    return in_range && high < 0x1p126f && low > -0x1p126f && _mm256_testz_ps(endless, endless);
}

static inline void f32_sums_take(const f32_sums *s, moments *m)
{
    float squares[SUM_LANES], low, high;
    _mm256_storeu_ps(squares, s->squares[0]);
    _mm256_storeu_ps(squares + 8, s->squares[1]);
    for (int i = 0; i < SUM_LANES; i++)
        m->sum_of_squares[i] += (double)squares[i];
    range_f32(s, &low, &high);
    m->n_nonzero += total_u32(s->nonzero);
    m->min = fmin(m->min, (double)low);
    m->max = fmax(m->max, (double)high);
}

/* Quantises 64 elements of any kind. Returns a bit for each that failed, which gets code 0. */
HOT uint64_t quantise_block_checked(const quantiser *q, enum quantiser_mode mode, const float *x, uint32_t first,
                                    int16_t *codes, f32_sums *s)
{
    const __m256 inverse = _mm256_set1_ps(q->inverse), eb = _mm256_set1_ps(q->eb);
    const __m256 limit = _mm256_set1_ps(CODE16_LIMIT), minus_limit = _mm256_set1_ps(-CODE16_LIMIT);
    uint64_t failed = 0;
    for (int i = 0; i < BLOCK; i += 16) {
        __m256 v[2] = {_mm256_loadu_ps(x + i), _mm256_loadu_ps(x + i + 8)};
        __m256i nonzero[2], c[2];
        sum_up(v, s, nonzero);
        for (int k = 0; k < 2; k++) {
            uint32_t index = first + (uint32_t)(i + 8 * k);
            __m256 t = _mm256_mul_ps(v[k], inverse);
            if (mode == QUANTISE_DITHER)
                t = _mm256_add_ps(t, dither_f32(q->key, index));
            t = _mm256_min_ps(_mm256_max_ps(t, minus_limit), limit); /* NaN becomes -limit */
            c[k] = codes_f32(mode, v[k], t, nonzero[k]);
            __m256 error = magnitude_f32(_mm256_sub_ps(v[k], values_f32(q, mode, c[k], index)));
            __m256 bad =
                mode == QUANTISE_DITHER ? _mm256_cmp_ps(error, eb, _CMP_NLT_UQ) : _mm256_cmp_ps(error, eb, _CMP_NLE_UQ);
            if (mode == QUANTISE_NONZERO) /* zero has no code */
                bad = _mm256_or_ps(bad, _mm256_cmp_ps(v[k], _mm256_setzero_ps(), _CMP_EQ_OQ));
            c[k] = _mm256_andnot_si256(_mm256_castps_si256(bad), c[k]);
            failed |= (uint64_t)(unsigned)_mm256_movemask_ps(bad) << (i + 8 * k);
        }
        store32(codes + i, narrow_codes(c[0], c[1]));
    }
    return failed;
}

/* Quantises whole blocks without checking single elements, and again with these checks if the tile turns out to need them;
 * dither always does. */
HOT void quantise_blocks_f32(const quantiser *given, enum quantiser_mode mode, const float *x, size_t n, uint32_t first,
                             int16_t *codes, uint64_t *failed, moments *m)
{
    const quantiser q = *given; /* a copy, which stores cannot touch */
    f32_sums s = f32_sums_make();
    for (size_t i = 0; mode != QUANTISE_DITHER && i < n; i += BLOCK)
        quantise_block_f32(&q, mode, x + i, codes + i, &s);
    if (mode != QUANTISE_DITHER && f32_sums_clean(&s, &q, n)) {
        memset(failed, 0, n / BLOCK * sizeof *failed);
    } else {
        s = f32_sums_make();
        for (size_t i = 0; i < n; i += BLOCK)
            failed[i / BLOCK] = quantise_block_checked(&q, mode, x + i, first + (uint32_t)i, codes + i, &s);
    }
    f32_sums_take(&s, m);
}

static void quantise_f32_16_avx2(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                                 moments *m)
{
    size_t whole = n / BLOCK * BLOCK;
    switch (q->mode) {
    case QUANTISE_PLAIN: quantise_blocks_f32(q, QUANTISE_PLAIN, x, whole, first, codes, failed, m); break;
    case QUANTISE_SUPPORT: quantise_blocks_f32(q, QUANTISE_SUPPORT, x, whole, first, codes, failed, m); break;
    case QUANTISE_NONZERO: quantise_blocks_f32(q, QUANTISE_NONZERO, x, whole, first, codes, failed, m); break;
    case QUANTISE_DITHER: quantise_blocks_f32(q, QUANTISE_DITHER, x, whole, first, codes, failed, m); break;
    }
    if (whole < n)
        quantise_f32_16_generic(q, (const float *)x + whole, n - whole, first + (uint32_t)whole, (int16_t *)codes + whole,
                                failed + whole / BLOCK, m);
}

/* ---- residuals ---- */

static uint64_t pack_cost_16_avx2(const void *residuals, size_t n_blocks)
{
    const uint16_t *next = residuals;
    uint64_t bits = 4 * n_blocks;
    for (size_t b = 0; b < n_blocks; b++, next += BLOCK) {
        __m256i z[4];
        load_block(next, z);
        bits += 8 * block_shape_of(max_u16(z), (unsigned)__builtin_popcountll(nonzeros_of_words(z))).bytes;
    }
    return bits;
}

/* ---- quantise, predict and pack in one loop, f32 ---- */

HOT bool encode_blocks_f32(const tile_job *j, enum quantiser_mode mode, enum predictor predictor, bool identity)
{
    const float *x = j->x;
    int16_t *codes = j->codes;
    uint64_t *failed = j->failed;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const strides distance = j->strides;
    const size_t n_blocks = j->n / BLOCK, first_block = j->first / BLOCK;
    const float *prefetch = j->prefetch ? j->prefetch : x; /* which is in the cache */
    f32_sums s = f32_sums_make();
    half_packed h[STRIP];
    block_writer w = *j->out;
    for (size_t strip = 0; strip < n_blocks; strip += STRIP) {
        const size_t end = n_blocks - strip < STRIP ? n_blocks : strip + STRIP;
        for (size_t b = strip; b < end; b++) {
            if (mode == QUANTISE_DITHER)
                failed[b] = quantise_block_checked(&q, mode, x + b * BLOCK, (uint32_t)((first_block + b) * BLOCK),
                                                   codes + b * BLOCK, &s);
            else
                quantise_block_f32(&q, mode, x + b * BLOCK, codes + b * BLOCK, &s);
        }
        for (size_t b = strip; b < end; b++) {
            for (int line = 0; line < BLOCK; line += 16)
                _mm_prefetch((const char *)(x + b * BLOCK + FETCH_AHEAD + line), _MM_HINT_T0);
            for (int line = 0; line < BLOCK; line += 16)
                _mm_prefetch((const char *)(prefetch + b * BLOCK + line), _MM_HINT_T1);
            __m256i z[4];
            for (int i = 0; i < 4; i++)
                z[i] = residuals16(predictor, identity, codes + b * BLOCK + 16 * i, distance);
            pack_bytes(z, first_block + b, w.kinds, &h[b - strip]);
        }
        for (size_t b = strip; b < end; b++)
            pack_bits(&h[b - strip], &w);
    }
    if (mode != QUANTISE_DITHER) {
        if (!f32_sums_clean(&s, &q, j->n))
            return false;
        memset(failed, 0, n_blocks * sizeof *failed);
    }
    f32_sums_take(&s, j->moments);
    *j->out = w;
    return true;
}

/* False if the tile turns out to have elements that need a closer look. */
HOT bool encode_whole_f32(const tile_job *j, enum quantiser_mode mode)
{
    switch (j->predictor) {
    case PREDICT_LEFT: return encode_blocks_f32(j, mode, PREDICT_LEFT, false);
    case PREDICT_UP: return encode_blocks_f32(j, mode, PREDICT_UP, false);
    case PREDICT_LORENZO: return encode_blocks_f32(j, mode, PREDICT_LORENZO, false);
    default: return encode_blocks_f32(j, mode, PREDICT_NONE, j->identity);
    }
}

/* A tile that is not whole, or needs a closer look, goes through the kernels one by one. */
static uint64_t encode_tile_f32(const tile_job *j)
{
    bool done = false;
    if (j->n % BLOCK == 0)
        switch (j->quantiser->mode) {
        case QUANTISE_PLAIN: done = encode_whole_f32(j, QUANTISE_PLAIN); break;
        case QUANTISE_SUPPORT: done = encode_whole_f32(j, QUANTISE_SUPPORT); break;
        case QUANTISE_NONZERO: done = encode_whole_f32(j, QUANTISE_NONZERO); break;
        case QUANTISE_DITHER: done = encode_whole_f32(j, QUANTISE_DITHER); break;
        }
    if (!done)
        return encode_tile_by(j, quantise_f32_16_avx2, predict_16_generic, pack_16_avx2);
    return j->quantiser->mode == QUANTISE_DITHER ? tile_failures(j) : 0;
}

static bool decode_tile_f32(const packed_tile *t)
{
    return decode_tile_f32_avx2(t);
}

static bool decode_tile_f16(const packed_tile *t)
{
    return decode_tile_by(t, unpack_16_avx2, unpredict_16_avx2, dequantise_f16_16_avx2);
}

static bool decode_tile_bf16(const packed_tile *t)
{
    return decode_tile_by(t, unpack_16_avx2, unpredict_16_avx2, dequantise_bf16_16_avx2);
}

DEFINE_TILES_OF(f64, quantise_f64_16_avx2, dequantise_f64_16_generic, pack_16_avx2, unpack_16_avx2, unpredict_16_avx2)

#undef OTHER_ENCODE_TILES
#define OTHER_ENCODE_TILES encode_tile_f16_avx2, encode_tile_bf16_avx2, encode_tile_f64
#undef OTHER_QUANTISERS
#define OTHER_QUANTISERS quantise_f16_16_avx2, quantise_bf16_16_avx2, quantise_f64_16_avx2
#undef OTHER_DEQUANTISERS
#define OTHER_DEQUANTISERS dequantise_f16_16_avx2, dequantise_bf16_16_avx2, dequantise_f64_16_generic

const codec_kernels codec_kernels_avx2 =
    KERNEL_TABLE(COMET_ISA_AVX2, quantise_f32_16_avx2, dequantise_f32_16_avx2, predict_16_generic, unpredict_16_avx2,
                 pack_16_avx2, pack_cost_16_avx2, unpack_16_avx2, gather_row_16_avx2, scatter_row_16_avx2, model_row_16_avx2,
                 decode_row_16_avx2, entropy_encode_avx2);
