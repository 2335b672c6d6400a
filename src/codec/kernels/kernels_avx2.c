/*
 * AVX2 kernels (with BMI, F16C, FMA) for 16-bit codes; everything else is the generic bodies compiled for these instructions.
 *
 * A block of 64 residuals is two registers of bytes, its map of non-zeros a 64-bit mask. Blocks are packed and unpacked without
 * a branch on their shape, which changes from block to block and would be mispredicted. Bytes are brought together and put back
 * eight at a time, by shuffles from a table. Decompression is in decode_avx2.c, level dense in dense_avx2.c.
 */
#include "codec/kernels/avx2.h"

#include "codec/kernels/half_avx2.h"

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

/* 16 codes of 32 bits as 16 of 16 bits. */
HOT __m256i narrow_codes(__m256i c0, __m256i c1)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(c0, c1), _MM_SHUFFLE(3, 1, 2, 0));
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

/* The largest of 64 residuals. */
HOT unsigned max_u16(const __m256i z[4])
{
    __m256i m = _mm256_max_epu16(_mm256_max_epu16(z[0], z[1]), _mm256_max_epu16(z[2], z[3]));
    __m128i h = _mm_max_epu16(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    __m128i least = _mm_minpos_epu16(_mm_xor_si128(h, _mm_set1_epi16(-1))); /* the smallest complement */
    return ~(unsigned)_mm_cvtsi128_si32(least) & 0xffff;
}

/* 32 numbers of 16 bits as bytes; those above 255 become 255 (or 0 above 32767). */
HOT __m256i narrow(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), _MM_SHUFFLE(3, 1, 2, 0));
}

HOT uint64_t nonzeros_of(const __m256i bytes[2])
{
    const __m256i zero = _mm256_setzero_si256();
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes[0], zero));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes[1], zero));
    return ~(low | (uint64_t)high << 32);
}

HOT uint64_t nonzeros_of_words(const __m256i z[4])
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i same[4], bytes[2];
    for (int i = 0; i < 4; i++)
        same[i] = _mm256_cmpeq_epi16(z[i], zero);
    for (int i = 0; i < 2; i++)
        bytes[i] = _mm256_permute4x64_epi64(_mm256_packs_epi16(same[2 * i], same[2 * i + 1]), _MM_SHUFFLE(3, 1, 2, 0));
    uint32_t low = (uint32_t)_mm256_movemask_epi8(bytes[0]), high = (uint32_t)_mm256_movemask_epi8(bytes[1]);
    return ~(low | (uint64_t)high << 32);
}

HOT void load_block(const uint16_t *residuals, __m256i z[4])
{
    for (int i = 0; i < 4; i++)
        z[i] = load32(residuals + 16 * i);
}

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

/* The bytes under the map, one after the other, then 8 zeros; writes up to 72 bytes. */
HOT void bring_together(const __m256i bytes[2], uint64_t map, uint8_t *out)
{
    for (int i = 0; i < 4; i++) {
        unsigned low = map >> (16 * i) & 255, high = map >> (16 * i + 8) & 255;
        __m128i v = i % 2 ? _mm256_extracti128_si256(bytes[i / 2], 1) : _mm256_castsi256_si128(bytes[i / 2]);
        __m128i order =
            _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(load8(&shuffle_down[low])), (const __m64 *)&shuffle_down[high]));
        v = _mm_shuffle_epi8(v, _mm_or_si128(order, _mm_set_epi64x(0x0808080808080808, 0)));
        _mm_storel_epi64((__m128i *)out, v);
        out += __builtin_popcount(low);
        _mm_storeh_pi((__m64 *)out, _mm_castsi128_ps(v));
        out += __builtin_popcount(high);
    }
    _mm_storel_epi64((__m128i *)out, _mm_setzero_si128());
}

/*
 * How values of w < 8 bits are packed: 8 bytes become w bytes in three steps, on pairs of bytes, of 16-bit and of 32-bit
 * numbers. In the first two the upper one of a pair is multiplied and added to the lower one, in the third it is shifted. Then
 * `first` brings the first w of each eight bytes together.
 */
typedef struct packing {
    uint32_t times8, times16;
    uint8_t first[16];
} packing;

#define TIMES_8(w) ((1u << (w) << 8 | 1u) * 0x10001u)
#define TIMES_16(w) (1u << 2 * (w) << 16 | 1u)
static const packing packings[8] = {
    {TIMES_8(0), TIMES_16(0), {0}},
    {TIMES_8(1), TIMES_16(1), {0, 8}},
    {TIMES_8(2), TIMES_16(2), {0, 1, 8, 9}},
    {TIMES_8(3), TIMES_16(3), {0, 1, 2, 8, 9, 10}},
    {TIMES_8(4), TIMES_16(4), {0, 1, 2, 3, 8, 9, 10, 11}},
    {TIMES_8(5), TIMES_16(5), {0, 1, 2, 3, 4, 8, 9, 10, 11, 12}},
    {TIMES_8(6), TIMES_16(6), {0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13}},
    {TIMES_8(7), TIMES_16(7), {0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14}},
};

/* 64 bytes, `width` bits of each; the bits above are 0. Writes up to 64 bytes. */
HOT void put_values(const uint8_t *bytes, unsigned width, uint8_t *out)
{
    if (width == 8) {
        memcpy(out, bytes, BLOCK);
        return;
    }
    const packing *p = &packings[width];
    const __m256i times8 = _mm256_set1_epi32((int)p->times8), times16 = _mm256_set1_epi32((int)p->times16);
    const __m256i first = _mm256_broadcastsi128_si256(load16(p->first)),
                  upper = _mm256_set1_epi64x((long long)0xffffffff00000000);
    const __m128i move = _mm_cvtsi32_si128((int)(32 - 4 * width));
    for (int i = 0; i < 2; i++) {
        __m256i v = _mm256_madd_epi16(_mm256_maddubs_epi16(times8, load32(bytes + 32 * i)), times16);
        v = _mm256_or_si256(_mm256_andnot_si256(upper, v), _mm256_srl_epi64(_mm256_and_si256(v, upper), move));
        v = _mm256_shuffle_epi8(v, first);
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(v));
        _mm_storeu_si128((__m128i *)(out + 2 * width), _mm256_extracti128_si256(v, 1));
        out += 4 * width;
    }
}

/* What is known of a block between the two halves of packing. */
typedef struct half_packed {
    uint8_t bytes[3 * BLOCK + 8]; /* values one after the other, then zeros; of a block of larger values, the whole of it */
    uint64_t map;
    uint16_t length; /* in bytes, without the map and the byte of kind 15 */
    uint8_t width;
    bool bitmap, other, large;
} half_packed;

/* Residuals of 256 and more: the low bytes, then what is left. Packs the block to h->bytes at once. */
static __attribute__((noinline)) void pack_large(const __m256i residuals[4], unsigned max, size_t block, uint8_t *kinds,
                                                 half_packed *h)
{
    uint64_t map = nonzeros_of_words(residuals);
    block_shape shape = block_shape_of(max, (unsigned)__builtin_popcountll(map));
    uint8_t *out = block_begin(shape, block, kinds, h->bytes), together[BLOCK + 8];
    store_u64(out, map);
    out += shape.bitmap ? 8 : 0;
    map = shape.bitmap ? map : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map);
    const __m256i byte = _mm256_set1_epi16(0xff), less = _mm256_set1_epi16(shape.bitmap);
    __m256i low[4], high[4];
    for (int i = 0; i < 4; i++) {
        __m256i z = _mm256_sub_epi16(residuals[i], less);
        low[i] = _mm256_and_si256(z, byte);
        high[i] = _mm256_srli_epi16(z, 8);
    }
    bring_together((__m256i[2]){narrow(low[0], low[1]), narrow(low[2], low[3])}, map, out);
    bring_together((__m256i[2]){narrow(high[0], high[1]), narrow(high[2], high[3])}, map, together);
    put_values(together, shape.width - 8, out + count);
    h->length = (uint16_t)shape.bytes;
    h->large = true;
}

/* The first half: chooses the shape of a block and brings its values together as bytes. */
HOT void pack_bytes(const __m256i z[4], size_t block, uint8_t *kinds, half_packed *h)
{
    unsigned max = max_u16(z);
    if (max > 255) {
        pack_large(z, max, block, kinds, h);
        return;
    }
    __m256i bytes[2] = {narrow(z[0], z[1]), narrow(z[2], z[3])};
    uint64_t map = nonzeros_of(bytes);
    unsigned plain = 32 - _lzcnt_u32(max), mapped = 32 - _lzcnt_u32(max - (max > 0));
    unsigned count = (unsigned)__builtin_popcountll(map);
    bool bitmap = BLOCK + count * mapped < BLOCK * plain; /* as block_shape_of says */
    unsigned width = bitmap ? mapped : plain;
    h->large = false;
    h->bitmap = bitmap;
    h->other = bitmap && width > KIND_BITMAP_MAX;
    h->width = (uint8_t)width;
    h->length = (uint16_t)(((bitmap ? count : BLOCK) * width + 7) / 8);
    h->map = map;
    set_kind(kinds, block, h->other ? KIND_OTHER : bitmap || plain == 0 ? width : width + KIND_BITMAP_MAX);
    const __m256i less = _mm256_set1_epi8(bitmap);
    for (int i = 0; i < 2; i++)
        bytes[i] = _mm256_subs_epu8(bytes[i], less);
    bring_together(bytes, bitmap ? map : ~UINT64_C(0), h->bytes);
}

/* The second half: writes the block; returns its end. */
HOT uint8_t *pack_bits(const half_packed *h, uint8_t *out)
{
    if (h->large) {
        for (unsigned i = 0; i < h->length; i += 32)
            store32(out + i, load32(h->bytes + i));
        return out + h->length;
    }
    *out = (uint8_t)(h->width | 128);
    out += h->other;
    store_u64(out, h->map);
    out += h->bitmap ? 8 : 0;
    put_values(h->bytes, h->width, out);
    return out + h->length;
}

#define STRIP 8 /* blocks; in this distance, what was stored has reached the cache and can be loaded in other pieces */

uint8_t *pack_16_avx2(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, uint8_t *out)
{
    const uint16_t *next = residuals;
    half_packed h[STRIP];
    for (size_t b = 0; b < n_blocks; b += STRIP) {
        size_t n = n_blocks - b < STRIP ? n_blocks - b : STRIP;
        for (size_t i = 0; i < n; i++, next += BLOCK) {
            __m256i z[4];
            load_block(next, z);
            pack_bytes(z, first_block + b + i, kinds, &h[i]);
        }
        for (size_t i = 0; i < n; i++)
            out = pack_bits(&h[i], out);
    }
    return out;
}

/* Mapped residuals of 16 codes. */
HOT __m256i residuals16(enum predictor predictor, bool identity, const int16_t *c, strides s)
{
    __m256i v = load32(c);
    switch (predictor) {
    case PREDICT_LEFT: v = _mm256_sub_epi16(v, load32(c - s.left)); break;
    case PREDICT_UP: v = _mm256_sub_epi16(v, load32(c - s.up)); break;
    case PREDICT_LORENZO:
        v = _mm256_sub_epi16(_mm256_sub_epi16(v, load32(c - s.up)),
                             _mm256_sub_epi16(load32(c - s.left), load32(c - s.up - s.left)));
        break;
    default: break;
    }
    return identity ? v : zigzag16(v);
}

/* ---- quantise, predict and pack in one loop, f32 ---- */

#define FETCH_AHEAD 2048 /* elements */

HOT bool encode_blocks_f32(const tile_job *j, enum quantiser_mode mode, enum predictor predictor, bool identity)
{
    const float *x = j->x;
    int16_t *codes = j->codes;
    uint64_t *failed = j->failed;
    uint8_t *kinds = j->kinds;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const strides distance = j->strides;
    const size_t n_blocks = j->n / BLOCK, first_block = j->first / BLOCK;
    const float *prefetch = j->prefetch ? j->prefetch : x; /* which is in the cache */
    f32_sums s = f32_sums_make();
    half_packed h[STRIP];
    uint8_t *out = *j->out;
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
            pack_bytes(z, first_block + b, kinds, &h[b - strip]);
        }
        for (size_t b = strip; b < end; b++)
            out = pack_bits(&h[b - strip], out);
    }
    if (mode != QUANTISE_DITHER) {
        if (!f32_sums_clean(&s, &q, j->n))
            return false;
        memset(failed, 0, n_blocks * sizeof *failed);
    }
    f32_sums_take(&s, j->moments);
    *j->out = out;
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

DEFINE_TILES_OF(f16, quantise_f16_16_avx2, dequantise_f16_16_avx2, pack_16_avx2, unpack_16_avx2, unpredict_16_avx2)
DEFINE_TILES_OF(bf16, quantise_bf16_16_avx2, dequantise_bf16_16_avx2, pack_16_avx2, unpack_16_avx2, unpredict_16_avx2)
DEFINE_TILES(f64, pack_16_avx2, unpack_16_avx2, unpredict_16_avx2)

#undef OTHER_QUANTISERS
#define OTHER_QUANTISERS quantise_f16_16_avx2, quantise_bf16_16_avx2, quantise_f64_16_generic
#undef OTHER_DEQUANTISERS
#define OTHER_DEQUANTISERS dequantise_f16_16_avx2, dequantise_bf16_16_avx2, dequantise_f64_16_generic

const codec_kernels codec_kernels_avx2 =
    KERNEL_TABLE(COMET_ISA_AVX2, quantise_f32_16_avx2, dequantise_f32_16_avx2, predict_16_generic, unpredict_16_avx2,
                 pack_16_avx2, pack_cost_16_avx2, unpack_16_avx2, gather_row_16_avx2, scatter_row_16_avx2, model_row_16_avx2,
                 decode_row_16_avx2, entropy_encode_avx2);
