/*
 * AVX-512 kernels (F, BW, DQ, VL, VBMI, VBMI2, GFNI) for 16-bit codes; everything else is the generic bodies compiled for these
 * instructions.
 *
 * A block of 64 residuals is one register of bytes, its map of non-zeros a 64-bit mask. A tile is packed in two halves
 * (pack_avx512.h), so that no block waits for the shape of the one before. Decompression is in decode_avx512.c, level dense in
 * dense_avx512.c.
 */
#define LINEAR_LANES 16
#include "codec/kernels/linear_lanes.h"
#include "codec/kernels/pack_end_avx512.h"

/* ---- quantise and dequantise, f32 ---- */

typedef struct f32_sums {
    __m512 squares, low, high;
    __m512i nonzero;
} f32_sums;

static inline f32_sums f32_sums_make(void)
{
    return (f32_sums){_mm512_setzero_ps(), _mm512_set1_ps(INFINITY), _mm512_set1_ps(-INFINITY), _mm512_setzero_si512()};
}

HOT void sum_up(__m512 v, f32_sums *s)
{
    __mmask16 nonzero = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    s->nonzero = _mm512_mask_add_epi32(s->nonzero, nonzero, s->nonzero, _mm512_set1_epi32(1));
    s->squares = _mm512_fmadd_ps(v, v, s->squares);
    s->low = _mm512_min_ps(v, s->low);
    s->high = _mm512_max_ps(v, s->high);
}

/* Codes of 16 elements `v`, given their quotients t = v / step (dithered if they are to be), in the range of codes. Support
 * rounds away from zero, nonzero down, also what is so small that t is zero. */
HOT __m512i codes_f32(enum quantiser_mode mode, __m512 v, __m512 t)
{
    if (mode == QUANTISE_PLAIN || mode == QUANTISE_DITHER)
        return _mm512_cvtps_epi32(t);
    t = _mm512_range_ps(t, _mm512_set1_ps(0x1p-100f), RANGE_GREATER);
    if (mode == QUANTISE_NONZERO)
        return _mm512_cvt_roundps_epi32(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __mmask16 above = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ);
    __mmask16 below = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
    __m512i c = _mm512_maskz_cvt_roundps_epi32(above, t, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    return _mm512_mask_cvt_roundps_epi32(c, below, t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* Quantises 64 elements that are assumed to be in range, so that they come back within the bound (quantiser.c); `s` tells
 * afterwards whether they were. */
HOT void quantise_block_f32(const quantiser *q, enum quantiser_mode mode, const float *x, int16_t *codes, f32_sums *s)
{
    const __m512 inverse = _mm512_set1_ps(q->inverse);
    __m512i c[4];
    for (int i = 0; i < 4; i++) {
        __m512 v = _mm512_loadu_ps(x + 16 * i);
        c[i] = codes_f32(mode, v, _mm512_mul_ps(v, inverse));
        sum_up(v, s);
    }
    const __m512i even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24, 22,
                                          20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    _mm512_storeu_si512(codes, _mm512_permutex2var_epi16(c[0], even, c[1]));
    _mm512_storeu_si512(codes + 32, _mm512_permutex2var_epi16(c[2], even, c[3]));
}

/* Were all n elements summed up within the range of codes, and far enough within that of floats for the product of a code and
 * the step? NaN and Inf show in the squares. */
static inline bool f32_sums_clean(const f32_sums *s, const quantiser *q, size_t n)
{
    if (q->mode == QUANTISE_NONZERO && (size_t)_mm512_reduce_add_epi32(s->nonzero) < n)
        return false;
    float low = _mm512_reduce_min_ps(s->low), high = _mm512_reduce_max_ps(s->high);
    bool in_range = high * q->inverse < CODE16_LIMIT && low * q->inverse > -CODE16_LIMIT;
    return in_range && high < 0x1p126f && low > -0x1p126f && isfinite(_mm512_reduce_add_ps(s->squares));
}

static inline void f32_sums_take(const f32_sums *s, moments *m)
{
    float squares[SUM_LANES];
    _mm512_storeu_ps(squares, s->squares);
    for (int i = 0; i < SUM_LANES; i++)
        m->sum_of_squares[i] += (double)squares[i];
    m->n_nonzero += (uint64_t)_mm512_reduce_add_epi32(s->nonzero);
    m->min = fmin(m->min, (double)_mm512_reduce_min_ps(s->low));
    m->max = fmax(m->max, (double)_mm512_reduce_max_ps(s->high));
}

/* Quantises 64 elements of any kind. Returns a bit for each that failed, which gets code 0. */
HOT uint64_t quantise_block_checked(const quantiser *q, enum quantiser_mode mode, const float *x, uint32_t first,
                                    int16_t *codes, f32_sums *s)
{
    const __m512 inverse = _mm512_set1_ps(q->inverse), eb = _mm512_set1_ps(q->eb);
    const __m512 limit = _mm512_set1_ps(CODE16_LIMIT), minus_limit = _mm512_set1_ps(-CODE16_LIMIT);
    uint64_t failed = 0;
    for (uint32_t i = 0; i < 4; i++) {
        __m512 v = _mm512_loadu_ps(x + 16 * i), t = _mm512_mul_ps(v, inverse);
        if (mode == QUANTISE_DITHER)
            t = _mm512_add_ps(t, dither_f32(q->key, first + 16 * i));
        t = _mm512_min_ps(_mm512_max_ps(t, minus_limit), limit); /* NaN becomes -limit */
        __m512i c = codes_f32(mode, v, t);
        __m512 error = _mm512_abs_ps(_mm512_sub_ps(v, values_f32(q, mode, c, first + 16 * i)));
        __mmask16 bad =
            mode == QUANTISE_DITHER ? _mm512_cmp_ps_mask(error, eb, _CMP_NLT_UQ) : _mm512_cmp_ps_mask(error, eb, _CMP_NLE_UQ);
        if (mode == QUANTISE_NONZERO)
            bad |= _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ);
        _mm256_storeu_si256((__m256i *)(codes + 16 * i), _mm512_maskz_cvtepi32_epi16((__mmask16)~bad, c));
        failed |= (uint64_t)bad << (16 * i);
        sum_up(v, s);
    }
    return failed;
}

/* Quantises whole blocks without checking single elements, and again with these checks if the tile turns out to need them;
 * dither always does. */
HOT void quantise_blocks_f32(const quantiser *q, enum quantiser_mode mode, const float *x, size_t n, uint32_t first,
                             int16_t *codes, uint64_t *failed, moments *m)
{
    f32_sums s = f32_sums_make();
    for (size_t i = 0; mode != QUANTISE_DITHER && i < n; i += BLOCK)
        quantise_block_f32(q, mode, x + i, codes + i, &s);
    if (mode != QUANTISE_DITHER && f32_sums_clean(&s, q, n)) {
        memset(failed, 0, n / BLOCK * sizeof *failed);
    } else {
        s = f32_sums_make();
        for (size_t i = 0; i < n; i += BLOCK)
            failed[i / BLOCK] = quantise_block_checked(q, mode, x + i, first + (uint32_t)i, codes + i, &s);
    }
    f32_sums_take(&s, m);
}

static void quantise_f32_16_avx512(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
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

static uint64_t pack_cost_16_avx512(const void *residuals, size_t n_blocks)
{
    const uint16_t *z = residuals;
    uint64_t bits = 4 * n_blocks;
    for (size_t b = 0; b < n_blocks; b++, z += BLOCK) {
        __m512i z0 = _mm512_loadu_si512(z), z1 = _mm512_loadu_si512(z + 32);
        unsigned nonzero = (unsigned)__builtin_popcountll((uint64_t)_mm512_test_epi16_mask(z0, z0) |
                                                          (uint64_t)_mm512_test_epi16_mask(z1, z1) << 32);
        bits += 8 * block_shape_of(max_u16(z0, z1), nonzero).bytes;
    }
    return bits;
}

/* ---- quantise, predict and pack in one loop, f32 ---- */

HOT bool encode_blocks_f32(const tile_job *j, enum quantiser_mode mode, enum predictor predictor, bool identity, bool next_door)
{
    const float *x = j->x;
    int16_t *codes = j->codes;
    uint64_t *failed = j->failed;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const strides distance = j->strides;
    const size_t n_blocks = j->n / BLOCK, first_block = j->first / BLOCK;
    const float *prefetch = j->prefetch ? j->prefetch : x; /* which is in the cache */
    f32_sums s = f32_sums_make();
    half_packed h;
    pack_begin(&h);
    __m512i before = _mm512_loadu_si512(codes - 32);
    if (predictor == PREDICT_LORENZO)
        before = _mm512_sub_epi16(before, _mm512_loadu_si512(codes - 32 - j->strides.up));
    for (size_t b = 0; b < n_blocks + LAG; b++) {
        if (b < n_blocks) {
            for (int line = 0; line < 4; line++)
                _mm_prefetch((const char *)(x + b * BLOCK + FETCH_AHEAD + 16 * line), _MM_HINT_T0);
            for (int line = 0; line < 4; line++)
                _mm_prefetch((const char *)(prefetch + b * BLOCK + 16 * line), _MM_HINT_T1);
            if (mode == QUANTISE_DITHER)
                failed[b] = quantise_block_checked(&q, mode, x + b * BLOCK, (uint32_t)((first_block + b) * BLOCK),
                                                   codes + b * BLOCK, &s);
            else
                quantise_block_f32(&q, mode, x + b * BLOCK, codes + b * BLOCK, &s);
        }
        if (b >= LAG) {
            const int16_t *c = codes + (b - LAG) * BLOCK;
            __m512i z0 = residuals32(predictor, identity, c, distance, next_door, &before);
            __m512i z1 = residuals32(predictor, identity, c + 32, distance, next_door, &before);
            pack_block(z0, z1, b - LAG, &h);
        }
    }
    if (mode != QUANTISE_DITHER) {
        if (!f32_sums_clean(&s, &q, j->n))
            return false;
        memset(failed, 0, n_blocks * sizeof *failed);
    }
    f32_sums_take(&s, j->moments);
    pack_end(&h, n_blocks, first_block, j->out);
    return true;
}

/* False if the tile turns out to have elements that need a closer look. */
HOT bool encode_whole_f32(const tile_job *j, enum quantiser_mode mode)
{
    bool next_door = j->strides.left == 1;
    switch (j->predictor) {
    case PREDICT_LEFT:
        return next_door ? encode_blocks_f32(j, mode, PREDICT_LEFT, false, true)
                         : encode_blocks_f32(j, mode, PREDICT_LEFT, false, false);
    case PREDICT_UP: return encode_blocks_f32(j, mode, PREDICT_UP, false, false);
    case PREDICT_LORENZO:
        return next_door ? encode_blocks_f32(j, mode, PREDICT_LORENZO, false, true)
                         : encode_blocks_f32(j, mode, PREDICT_LORENZO, false, false);
    default: return encode_blocks_f32(j, mode, PREDICT_NONE, j->identity, false);
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
        return encode_tile_by(j, quantise_f32_16_avx512, predict_16_generic, pack_16_avx512);
    return j->quantiser->mode == QUANTISE_DITHER ? tile_failures(j) : 0;
}

static bool decode_tile_f32(const packed_tile *t)
{
    return decode_tile_f32_avx512(t);
}

DEFINE_TILES_OF(f64, quantise_f64_16_avx512, dequantise_f64_16_generic, pack_16_avx512, unpack_16_avx512, unpredict_16_avx512)

#undef OUTLIER_WRITER
#define OUTLIER_WRITER write_outliers_avx512
#undef OTHER_QUANTISERS
#define OTHER_QUANTISERS quantise_f16_16_avx512, quantise_bf16_16_avx512, quantise_f64_16_avx512
#undef OTHER_DEQUANTISERS
#define OTHER_DEQUANTISERS dequantise_f16_16_avx512, dequantise_bf16_16_avx512, dequantise_f64_16_generic
#undef OTHER_ENCODE_TILES
#define OTHER_ENCODE_TILES encode_tile_f16_avx512, encode_tile_bf16_avx512, encode_tile_f64
#undef OTHER_DECODE_TILES
#define OTHER_DECODE_TILES decode_tile_f16_avx512, decode_tile_bf16_avx512, decode_tile_f64

const codec_kernels codec_kernels_avx512 =
    KERNEL_TABLE(COMET_ISA_AVX512, quantise_f32_16_avx512, dequantise_f32_16_avx512, predict_16_generic, unpredict_16_avx512,
                 pack_16_avx512, pack_cost_16_avx512, unpack_16_avx512, gather_row_16_avx512, scatter_row_16_avx512,
                 model_row_16_avx512, decode_row_16_avx512, entropy_encode_avx512);
