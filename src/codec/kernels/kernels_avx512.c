/*
 * AVX-512 kernels (F, BW, DQ, VL, VBMI, VBMI2, GFNI) for 16-bit codes; everything else is the generic bodies compiled for these
 * instructions.
 *
 * A block of 64 residuals is one register of bytes, its map of non-zeros a 64-bit mask. Blocks are packed and unpacked without
 * a branch on their shape, which changes from block to block and would be mispredicted. Level dense is in dense_avx512.c.
 */
#include "codec/kernels/avx512.h"

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

/* Of two floats the one of lesser or greater magnitude, with the sign of the first. */
enum { RANGE_LESSER = 2, RANGE_GREATER = 3 };

/* `dither` of 16 elements from number `index` on. h 2^-24 - 1/2 is exact, so fusing does not matter. */
HOT __m512 dither_f32(uint32_t key, uint32_t index)
{
    const __m512i ascending = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i h = _mm512_xor_si512(_mm512_add_epi32(_mm512_set1_epi32((int)index), ascending), _mm512_set1_epi32((int)key));
    h = _mm512_mullo_epi32(_mm512_xor_si512(h, _mm512_srli_epi32(h, 16)), _mm512_set1_epi32(0x7feb352d));
    h = _mm512_mullo_epi32(_mm512_xor_si512(h, _mm512_srli_epi32(h, 15)), _mm512_set1_epi32((int)0x846ca68bu));
    h = _mm512_srli_epi32(_mm512_xor_si512(h, _mm512_srli_epi32(h, 16)), 8);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(h), _mm512_set1_ps(0x1p-24f), _mm512_set1_ps(-0.5f));
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

/* Values of 16 codes. c -+ 1/2, which is exact, times the step is the same as 2c -+ 1 times half of it. */
HOT __m512 values_f32(const quantiser *q, enum quantiser_mode mode, __m512i codes, uint32_t index)
{
    __m512 c = _mm512_cvtepi32_ps(codes);
    if (mode == QUANTISE_SUPPORT)
        c = _mm512_sub_ps(c, _mm512_range_ps(c, _mm512_set1_ps(0.5f), RANGE_LESSER));
    if (mode == QUANTISE_NONZERO)
        c = _mm512_add_ps(c, _mm512_set1_ps(0.5f));
    if (mode == QUANTISE_DITHER)
        c = _mm512_sub_ps(c, dither_f32(q->key, index));
    return _mm512_mul_ps(c, _mm512_set1_ps(q->step));
}

/* 64 elements that are taken to be in range, and then come back within the bound (quantiser.c); `s` tells afterwards whether
 * they were. */
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

/* Whether all n elements summed up were within the range of codes, and far enough from that of floats for the product of a code
 * and the step. NaN and Inf show in the squares. */
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

/* 64 elements of any kind: those that fail are told, and get code 0. */
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

/* Whole blocks. Runs without the checks of single elements, which dither needs, and again with them if the tile turns out to
 * need them. */
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

HOT __m512 load_values_f32(const quantiser *q, enum quantiser_mode mode, const int16_t *codes, uint32_t index)
{
    return values_f32(q, mode, _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)codes)), index);
}

HOT void dequantise_blocks_f32(const quantiser *given, enum quantiser_mode mode, const int16_t *c, size_t n, uint32_t first,
                               float *out, bool stream)
{
    const quantiser q = *given; /* a copy, which stores to `out` cannot touch */
    size_t head = (64 - (uintptr_t)out % 64) % 64 / sizeof *out, i = head < n ? head : n;
    /* codes go on past n, up to a block */
    _mm512_mask_storeu_ps(out, (__mmask16)((1u << i) - 1), load_values_f32(&q, mode, c, first));
    if (stream)
        for (; i + 16 <= n; i += 16)
            _mm512_stream_ps(out + i, load_values_f32(&q, mode, c + i, first + (uint32_t)i));
    else
        for (; i + 16 <= n; i += 16)
            _mm512_storeu_ps(out + i, load_values_f32(&q, mode, c + i, first + (uint32_t)i));
    if (i < n)
        _mm512_mask_storeu_ps(out + i, (__mmask16)((1u << (n - i)) - 1), load_values_f32(&q, mode, c + i, first + (uint32_t)i));
}

static void dequantise_f32_16_avx512(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    switch (q->mode) {
    case QUANTISE_PLAIN: dequantise_blocks_f32(q, QUANTISE_PLAIN, codes, n, first, x, stream); break;
    case QUANTISE_SUPPORT: dequantise_blocks_f32(q, QUANTISE_SUPPORT, codes, n, first, x, stream); break;
    case QUANTISE_NONZERO: dequantise_blocks_f32(q, QUANTISE_NONZERO, codes, n, first, x, stream); break;
    case QUANTISE_DITHER: dequantise_blocks_f32(q, QUANTISE_DITHER, codes, n, first, x, stream); break;
    }
}

/* ---- residuals ---- */

static inline __m512i lane_numbers(void)
{
    return _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6,
                            5, 4, 3, 2, 1, 0);
}

HOT unsigned max_u16(__m512i z0, __m512i z1)
{
    __m512i m = _mm512_max_epu16(z0, z1);
    __m256i h = _mm256_max_epu16(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
    __m128i q = _mm_max_epu16(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    __m128i min = _mm_minpos_epu16(_mm_xor_si128(q, _mm_set1_epi16(-1))); /* the smallest complement */
    return ~(unsigned)_mm_cvtsi128_si32(min) & 0xffff;
}

/* 64 residuals below 256 as bytes. */
HOT __m512i narrow(__m512i z0, __m512i z1)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, _mm512_packus_epi16(z0, z1));
}

/* Bits of the largest of 64 bytes: which bits occur at all. The 8 x 8 bits of each 8 bytes are transposed, then byte p of all
 * is brought together. */
HOT unsigned width_of(__m512i bytes)
{
    const __m512i unit = _mm512_set1_epi64((long long)0x8040201008040201);
    const __m512i columns = _mm512_set_epi8(63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29,
                                            21, 13, 5, 60, 52, 44, 36, 28, 20, 12, 4, 59, 51, 43, 35, 27, 19, 11, 3, 58, 50, 42,
                                            34, 26, 18, 10, 2, 57, 49, 41, 33, 25, 17, 9, 1, 56, 48, 40, 32, 24, 16, 8, 0);
    __m512i planes = _mm512_permutexvar_epi8(columns, _mm512_gf2p8affine_epi64_epi8(unit, bytes, 0));
    return 32 - (unsigned)_lzcnt_u32(_mm512_test_epi64_mask(planes, planes));
}

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

/*
 * How values of w bits come together: 8 bytes become 8 w bits in three steps, of pairs of bytes, of 16-bit and of 32-bit
 * numbers. In each the lower half stays (`stay` selects it) and the upper one moves down to it (by `move`). To take them apart
 * again, `from` is the first bit of each value and `low` has the low w bits of each byte set.
 */
typedef struct packing {
    uint64_t low, stay[3], move[3], from;
} packing;

#define LOW(bits) ((UINT64_C(1) << (bits)) - 1)
#define EACH_8 UINT64_C(0x0101010101010101)
#define EACH_16 UINT64_C(0x0001000100010001)
#define EACH_32 UINT64_C(0x0000000100000001)
#define PACKING(w)                                                                                            \
    {                                                                                                         \
        LOW(w) * EACH_8, {LOW(w) * EACH_16, LOW(2 * (w)) * EACH_32, LOW(4 * (w))},                            \
            {(8 - (w)) * EACH_16, (16 - 2 * (w)) * EACH_32, 32 - 4 * (w)}, UINT64_C(0x0706050403020100) * (w) \
    }
static const packing packings[9] = {PACKING(0), PACKING(1), PACKING(2), PACKING(3), PACKING(4),
                                    PACKING(5), PACKING(6), PACKING(7), PACKING(8)};

/* Bytes to take when the first w of each eight are brought together, and when they are put back. Tables, because the expand and
 * compress instructions are slow. */
#define FIRST_1(i) (i)
#define FIRST_2(i) FIRST_1(i), (i) + 1
#define FIRST_3(i) FIRST_2(i), (i) + 2
#define FIRST_4(i) FIRST_3(i), (i) + 3
#define FIRST_5(i) FIRST_4(i), (i) + 4
#define FIRST_6(i) FIRST_5(i), (i) + 5
#define FIRST_7(i) FIRST_6(i), (i) + 6
#define FIRST_8(i) FIRST_7(i), (i) + 7
#define EIGHT_TIMES(first, by)                                                                                    \
    {                                                                                                             \
        first(0), first(by), first(2 * (by)), first(3 * (by)), first(4 * (by)), first(5 * (by)), first(6 * (by)), \
            first(7 * (by))                                                                                       \
    }
static const _Alignas(64) uint8_t together[9][64] = {
    {0},
    EIGHT_TIMES(FIRST_1, 8),
    EIGHT_TIMES(FIRST_2, 8),
    EIGHT_TIMES(FIRST_3, 8),
    EIGHT_TIMES(FIRST_4, 8),
    EIGHT_TIMES(FIRST_5, 8),
    EIGHT_TIMES(FIRST_6, 8),
    EIGHT_TIMES(FIRST_7, 8),
    EIGHT_TIMES(FIRST_8, 8),
};
static const _Alignas(64) uint8_t apart[9][64] = {
    EIGHT_TIMES(FIRST_8, 0), EIGHT_TIMES(FIRST_8, 1), EIGHT_TIMES(FIRST_8, 2), EIGHT_TIMES(FIRST_8, 3), EIGHT_TIMES(FIRST_8, 4),
    EIGHT_TIMES(FIRST_8, 5), EIGHT_TIMES(FIRST_8, 6), EIGHT_TIMES(FIRST_8, 7), EIGHT_TIMES(FIRST_8, 8),
};

HOT __m512i each64(uint64_t v)
{
    return _mm512_set1_epi64((long long)v);
}

/* The bytes under the map, `width` bits of each; the bits above are 0. Writes 64 bytes. */
HOT void put_values(__m512i bytes, uint64_t map, unsigned width, uint8_t *out)
{
    enum { SELECT = 0xca }; /* a ? b : c */
    const packing *p = &packings[width];
    __m512i v = _mm512_maskz_compress_epi8(map, bytes);
    v = _mm512_ternarylogic_epi64(each64(p->stay[0]), v, _mm512_srlv_epi16(v, each64(p->move[0])), SELECT);
    v = _mm512_ternarylogic_epi64(each64(p->stay[1]), v, _mm512_srlv_epi32(v, each64(p->move[1])), SELECT);
    v = _mm512_ternarylogic_epi64(each64(p->stay[2]), v, _mm512_srlv_epi64(v, each64(p->move[2])), SELECT);
    _mm512_storeu_si512(out, _mm512_permutexvar_epi8(_mm512_load_si512(together[width]), v));
}

/* The inverse of put_values; reads 64 bytes. */
HOT __m512i get_values(const uint8_t *in, uint64_t map, unsigned width)
{
    const packing *p = &packings[width];
    __m512i v = _mm512_permutexvar_epi8(_mm512_load_si512(apart[width]), _mm512_loadu_si512(in));
    v = _mm512_and_si512(_mm512_multishift_epi64_epi8(each64(p->from), v), each64(p->low));
    return _mm512_maskz_expand_epi8(map, v);
}

/* Residuals of 256 and more: the low bytes, then what is left. */
static __attribute__((noinline)) uint8_t *pack_large(__m512i z0, __m512i z1, size_t block, uint8_t *kinds, uint8_t *out)
{
    uint64_t map = _mm512_test_epi16_mask(z0, z0) | (uint64_t)_mm512_test_epi16_mask(z1, z1) << 32;
    block_shape shape = block_shape_of(max_u16(z0, z1), (unsigned)__builtin_popcountll(map));
    out = block_begin(shape, block, kinds, out);
    store_u64(out, map);
    out += shape.bitmap ? 8 : 0;
    map = shape.bitmap ? map : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map);
    const __m512i byte = _mm512_set1_epi16(0xff), one = _mm512_set1_epi16(shape.bitmap);
    z0 = _mm512_sub_epi16(z0, one);
    z1 = _mm512_sub_epi16(z1, one);
    put_values(narrow(_mm512_and_si512(z0, byte), _mm512_and_si512(z1, byte)), map, 8, out);
    put_values(narrow(_mm512_srli_epi16(z0, 8), _mm512_srli_epi16(z1, 8)), map, shape.width - 8, out + count);
    return out + values_bytes(count, shape.width);
}

HOT uint8_t *pack_block(__m512i z0, __m512i z1, size_t block, uint8_t *kinds, uint8_t *out)
{
    if (_mm512_test_epi16_mask(_mm512_or_si512(z0, z1), _mm512_set1_epi16((short)0xff00)))
        return pack_large(z0, z1, block, kinds, out);
    __m512i bytes = narrow(z0, z1);
    uint64_t map = _mm512_test_epi8_mask(bytes, bytes);
    __m512i less = _mm512_maskz_sub_epi8(map, bytes, _mm512_set1_epi8(1));
    unsigned plain = width_of(bytes), mapped = width_of(less), count = (unsigned)__builtin_popcountll(map);
    bool bitmap = BLOCK + count * mapped < BLOCK * plain; /* as block_shape_of says */
    unsigned width = bitmap ? mapped : plain;
    bool other = bitmap && width > KIND_BITMAP_MAX;
    set_kind(kinds, block, other ? KIND_OTHER : bitmap || plain == 0 ? width : width + KIND_BITMAP_MAX);
    *out = (uint8_t)(width | 128);
    out += other;
    store_u64(out, map);
    out += bitmap ? 8 : 0;
    put_values(bitmap ? less : bytes, bitmap ? map : ~UINT64_C(0), width, out);
    return out + ((bitmap ? count : BLOCK) * width + 7) / 8;
}

static uint8_t *pack_16_avx512(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, uint8_t *out)
{
    const uint16_t *z = residuals;
    for (size_t b = 0; b < n_blocks; b++, z += BLOCK)
        out = pack_block(_mm512_loadu_si512(z), _mm512_loadu_si512(z + 32), first_block + b, kinds, out);
    return out;
}

/* Values that do not fit bytes: the low bytes, then what is left. Works on a copy, so that the caller's reader stays in
 * registers. */
static __attribute__((noinline)) block_reader unpack_large(block_shape shape, bool identity, block_reader in, uint16_t *c)
{
    uint64_t map = shape.bitmap ? load_u64(in.next) : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map);
    in.next += shape.bitmap ? 8 : 0;
    __m512i low = get_values(in.next, map, 8), high = get_values(in.next + count, map, shape.width - 8);
    in.next += values_bytes(count, shape.width);
    for (int k = 0; k < 2; k++) {
        __m256i low_half = k ? _mm512_extracti64x4_epi64(low, 1) : _mm512_castsi512_si256(low);
        __m256i high_half = k ? _mm512_extracti64x4_epi64(high, 1) : _mm512_castsi512_si256(high);
        __m512i z = _mm512_or_si512(_mm512_cvtepu8_epi16(low_half), _mm512_slli_epi16(_mm512_cvtepu8_epi16(high_half), 8));
        __mmask32 present = shape.bitmap ? (__mmask32)(map >> (32 * k)) : 0;
        z = _mm512_mask_add_epi16(z, present, z, _mm512_set1_epi16(1));
        __m512i sign = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z, _mm512_set1_epi16(1)));
        _mm512_storeu_si512(c + 32 * k, identity ? z : _mm512_xor_si512(_mm512_srli_epi16(z, 1), sign));
    }
    return in;
}

static bool unpack_16_avx512(const uint8_t *kinds, size_t first_block, size_t n_blocks, bool identity, block_reader *reader,
                             void *codes)
{
    uint16_t *c = codes;
    block_reader in = *reader;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK) {
        block_shape shape = block_shape_read(get_kind(kinds, b), &in);
        if (shape.width + shape.bitmap > 8) { /* more than a byte can hold */
            if (shape.width > 16)
                return false;
            in = unpack_large(shape, identity, in, c);
            if (in.next > in.end)
                return false;
            continue;
        }
        uint64_t map = shape.bitmap ? load_u64(in.next) : ~UINT64_C(0);
        in.next += shape.bitmap ? 8 : 0;
        __m512i z = get_values(in.next, map, shape.width);
        z = _mm512_mask_add_epi8(z, map, z, _mm512_set1_epi8(shape.bitmap)); /* non-zeros were stored less one */
        in.next += ((unsigned)__builtin_popcountll(map) * shape.width + 7) / 8;
        if (in.next > in.end)
            return false;
        if (!identity) {
            __mmask64 odd = _mm512_test_epi8_mask(z, _mm512_set1_epi8(1));
            __m512i half = _mm512_and_si512(_mm512_srli_epi16(z, 1), _mm512_set1_epi8(0x7f));
            z = _mm512_mask_sub_epi8(half, odd, _mm512_set1_epi8(-1), half);
        }
        __m256i low = _mm512_castsi512_si256(z), high = _mm512_extracti64x4_epi64(z, 1);
        _mm512_storeu_si512(c, identity ? _mm512_cvtepu8_epi16(low) : _mm512_cvtepi8_epi16(low));
        _mm512_storeu_si512(c + 32, identity ? _mm512_cvtepu8_epi16(high) : _mm512_cvtepi8_epi16(high));
    }
    *reader = in;
    return true;
}

/* Mapped residuals of 32 codes. A left neighbour one element away is taken from the differences before, in *before, because a
 * load that reaches over two cache lines costs twice. */
HOT __m512i residuals32(enum predictor predictor, bool identity, const int16_t *c, strides s, bool next_door, __m512i *before)
{
    const __m512i shifted = _mm512_add_epi16(lane_numbers(), _mm512_set1_epi16(31));
    bool up = predictor == PREDICT_UP || predictor == PREDICT_LORENZO;
    bool left = predictor == PREDICT_LEFT || predictor == PREDICT_LORENZO;
    __m512i v = _mm512_loadu_si512(c), r;
    if (up)
        v = _mm512_sub_epi16(v, _mm512_loadu_si512(c - s.up));
    if (left && next_door) {
        r = _mm512_sub_epi16(v, _mm512_permutex2var_epi16(*before, shifted, v));
        *before = v;
    } else {
        r = left ? _mm512_sub_epi16(v, _mm512_loadu_si512(c - s.left)) : v;
        if (left && up)
            r = _mm512_add_epi16(r, _mm512_loadu_si512(c - s.up - s.left));
    }
    return identity ? r : zigzag32(r);
}

/* ---- quantise, predict and pack in one loop, f32 ---- */

#define LAG 4 /* blocks that packing stays behind, so that the codes it loads are no longer on their way to the cache */
#define FETCH_AHEAD 2048 /* elements */

HOT bool encode_blocks_f32(const tile_job *j, enum quantiser_mode mode, enum predictor predictor, bool identity, bool next_door)
{
    const float *x = j->x;
    int16_t *codes = j->codes;
    uint64_t *failed = j->failed;
    uint8_t *kinds = j->kinds;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const strides distance = j->strides;
    const size_t n_blocks = j->n / BLOCK, first_block = j->first / BLOCK;
    f32_sums s = f32_sums_make();
    uint8_t *out = *j->out;
    __m512i before = _mm512_loadu_si512(codes - 32);
    if (predictor == PREDICT_LORENZO)
        before = _mm512_sub_epi16(before, _mm512_loadu_si512(codes - 32 - j->strides.up));
    for (size_t b = 0; b < n_blocks + LAG; b++) {
        if (b < n_blocks) {
            for (int line = 0; line < 4; line++)
                _mm_prefetch((const char *)(x + b * BLOCK + FETCH_AHEAD + 16 * line), _MM_HINT_T0);
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
            out = pack_block(z0, z1, first_block + b - LAG, kinds, out);
        }
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

DEFINE_ENCODE_TILE(f16, quantise_f16_16_generic, pack_16_avx512)
DEFINE_ENCODE_TILE(bf16, quantise_bf16_16_generic, pack_16_avx512)
DEFINE_ENCODE_TILE(f64, quantise_f64_16_generic, pack_16_avx512)

/*
 * Undoing prediction is a running sum with a stride. Loads that straddle stores just made are slow, so sums travel in registers
 * (strides below 32) or in a row of aligned slots that is loaded exactly as it was stored.
 */

/* Running sums with stride `distance` inside a register, by doubling: step s adds what lies distance << s lanes before. */
typedef struct lane_sums {
    int steps;
    __m512i shift[5];
    __mmask32 keep[5];
} lane_sums;

static inline lane_sums lane_sums_make(unsigned distance)
{
    lane_sums l = {0};
    for (unsigned d = distance; d < 32; d *= 2, l.steps++) {
        l.shift[l.steps] = _mm512_sub_epi16(lane_numbers(), _mm512_set1_epi16((short)d));
        l.keep[l.steps] = ~UINT32_C(0) << d;
    }
    return l;
}

HOT __m512i lane_sums_of(const lane_sums *l, __m512i v)
{
    for (int s = 0; s < l->steps; s++)
        v = _mm512_add_epi16(v, _mm512_maskz_permutexvar_epi16(l->keep[s], l->shift[s], v));
    return v;
}

/* Running sums with stride 1: inside 128 bits by shifts, then the totals of the quarters before. */
HOT __m512i running_sums(__m512i v)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i last_word = _mm512_set1_epi16(0x0f0e);
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 2));
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 4));
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 8));
    __m512i total = _mm512_shuffle_epi8(v, last_word);
    __m512i one = _mm512_alignr_epi64(total, zero, 6);
    __m512i two = _mm512_alignr_epi64(_mm512_add_epi16(total, one), zero, 4);
    return _mm512_add_epi16(v, _mm512_add_epi16(one, two));
}

/* c[i] += c[i - 1]. */
static inline void add_left(uint16_t *c, size_t n, uint16_t before)
{
    const __m512i top = _mm512_set1_epi16(31);
    __m512i left = _mm512_set1_epi16((short)before);
    for (size_t i = 0; i < n; i += 32) {
        __m512i v = _mm512_add_epi16(running_sums(_mm512_loadu_si512(c + i)), left);
        left = _mm512_permutexvar_epi16(top, v);
        _mm512_storeu_si512(c + i, v);
    }
}

/* c[i] += c[i - distance] for distance < 32, n a multiple of 32. `before` holds the 32 sums that precede c; of each register
 * the last `distance` lanes, repeated, are carried into the next. */
HOT void add_near(uint16_t *c, size_t n, unsigned distance, __m512i before)
{
    uint16_t repeat[32];
    for (unsigned j = 0; j < 32; j++)
        repeat[j] = (uint16_t)(32 - distance + j % distance);
    const __m512i carry = _mm512_loadu_si512(repeat);
    const lane_sums l = lane_sums_make(distance);
    for (size_t i = 0; i < n; i += 32) {
        before = _mm512_add_epi16(lane_sums_of(&l, _mm512_loadu_si512(c + i)), _mm512_permutexvar_epi16(carry, before));
        _mm512_storeu_si512(c + i, before);
    }
}

#define MAX_SLOTS 16

/*
 * c[i] += c[i - distance] for 32 <= distance <= 32 * MAX_SLOTS, in rows of `distance` elements; the sums of the row before lie
 * in slots. With sum_left, the running sum along the elements is taken first (2-D Lorenzo with stride 1); `left` holds the one
 * that precedes c in every lane. The last register of a row reaches into the next row, whose first register is therefore
 * loaded beforehand and stored again later; behind the last row, what it spoils is not in use yet.
 */
HOT void add_slots(uint16_t *c, size_t n, size_t distance, bool sum_left, __m512i left)
{
    __m512i slot[MAX_SLOTS];
    const size_t n_slots = (distance + 31) / 32;
    const __m512i last = _mm512_set1_epi16((short)((distance - 1) % 32)), top = _mm512_set1_epi16(31);
    for (size_t k = 0; k < n_slots; k++)
        slot[k] = _mm512_loadu_si512(c - distance + 32 * k);
    __m512i first = _mm512_loadu_si512(c);
    for (size_t row = 0; row < n; row += distance) {
        __m512i v = first;
        if (row + distance < n)
            first = _mm512_loadu_si512(c + row + distance);
        for (size_t k = 0; k < n_slots && row + 32 * k < n; k++) {
            if (k > 0)
                v = _mm512_loadu_si512(c + row + 32 * k);
            if (sum_left) {
                v = _mm512_add_epi16(running_sums(v), left);
                left = _mm512_permutexvar_epi16(k + 1 == n_slots ? last : top, v);
            }
            slot[k] = _mm512_add_epi16(v, slot[k]);
            _mm512_storeu_si512(c + row + 32 * k, slot[k]);
        }
    }
}

static void add_far(uint16_t *c, size_t n, size_t distance)
{
    for (size_t i = 0; i < n; i += 32)
        _mm512_storeu_si512(c + i, _mm512_add_epi16(_mm512_loadu_si512(c + i), _mm512_loadu_si512(c + i - distance)));
}

static void add_behind_16(uint16_t *c, size_t n, size_t distance)
{
    if (distance == 1)
        add_left(c, n, c[-1]);
    else if (distance < 32)
        add_near(c, n, (unsigned)distance, _mm512_loadu_si512(c - 32));
    else if (distance <= 32 * MAX_SLOTS)
        add_slots(c, n, distance, false, _mm512_setzero_si512());
    else
        add_far(c, n, distance);
}

static void add_lorenzo_16(uint16_t *c, size_t n, strides s)
{
    uint16_t difference = (uint16_t)(c[-1] - (c - s.up)[-1]);
    if (s.left == 1 && s.up >= 32 && s.up <= 32 * MAX_SLOTS) {
        add_slots(c, n, s.up, true, _mm512_set1_epi16((short)difference));
    } else if (s.left == 1) {
        add_left(c, n, difference);
        add_behind_16(c, n, s.up);
    } else if (s.left < 32) { /* first the differences to the line above, then the line above */
        add_near(c, n, (unsigned)s.left, _mm512_sub_epi16(_mm512_loadu_si512(c - 32), _mm512_loadu_si512(c - 32 - s.up)));
        add_behind_16(c, n, s.up);
    } else {
        for (size_t i = 0; i < n; i += 32) {
            __m512i left = _mm512_loadu_si512(c + i - s.left), up = _mm512_loadu_si512(c + i - s.up);
            __m512i corner = _mm512_loadu_si512(c + i - s.up - s.left);
            __m512i v = _mm512_add_epi16(_mm512_loadu_si512(c + i), _mm512_sub_epi16(_mm512_add_epi16(left, up), corner));
            _mm512_storeu_si512(c + i, v);
        }
    }
}

static void unpredict_16_avx512(enum predictor predictor, void *codes, size_t n, strides s)
{
    switch (predictor) {
    case PREDICT_LEFT: add_behind_16(codes, n, s.left); break;
    case PREDICT_UP: add_behind_16(codes, n, s.up); break;
    case PREDICT_LORENZO: add_lorenzo_16(codes, n, s); break;
    default: break;
    }
}

const codec_kernels codec_kernels_avx512 =
    KERNEL_TABLE(COMET_ISA_AVX512, quantise_f32_16_avx512, dequantise_f32_16_avx512, predict_16_generic, unpredict_16_avx512,
                 pack_16_avx512, pack_cost_16_avx512, unpack_16_avx512, gather_row_16_avx512, scatter_row_16_avx512,
                 model_row_16_avx512, decode_row_16_avx512, entropy_encode_avx512);
