/* Residuals of 16-bit codes and how a block of them is packed, for the AVX-512 units that compress: see kernels_avx512.c. */
#ifndef COMET_CODEC_PACK_AVX512_H
#define COMET_CODEC_PACK_AVX512_H

#include "codec/kernels/avx512.h"

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

static inline uint8_t *pack_16_avx512(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, uint8_t *out)
{
    const uint16_t *z = residuals;
    for (size_t b = 0; b < n_blocks; b++, z += BLOCK)
        out = pack_block(_mm512_loadu_si512(z), _mm512_loadu_si512(z + 32), first_block + b, kinds, out);
    return out;
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

#define LAG 4 /* blocks between quantising and packing, so that the codes that packing loads have reached the cache */
#define FETCH_AHEAD 2048 /* elements */

#endif
