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
    __m512i v = compress8(map, bytes);
    v = _mm512_ternarylogic_epi64(each64(p->stay[0]), v, _mm512_srlv_epi16(v, each64(p->move[0])), SELECT);
    v = _mm512_ternarylogic_epi64(each64(p->stay[1]), v, _mm512_srlv_epi32(v, each64(p->move[1])), SELECT);
    v = _mm512_ternarylogic_epi64(each64(p->stay[2]), v, _mm512_srlv_epi64(v, each64(p->move[2])), SELECT);
    _mm512_storeu_si512(out, _mm512_permutexvar_epi8(_mm512_load_si512(together[width]), v));
}

/* The values of a block with residuals of 256 and more: the low bytes, then what is left. Sets its map. */
static __attribute__((noinline)) block_shape pack_large(__m512i z0, __m512i z1, uint64_t *all, uint8_t *out)
{
    uint64_t map = _mm512_test_epi16_mask(z0, z0) | (uint64_t)_mm512_test_epi16_mask(z1, z1) << 32;
    block_shape shape = block_shape_of(max_u16(z0, z1), (unsigned)__builtin_popcountll(map));
    *all = map;
    map = shape.bitmap ? map : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map);
    const __m512i byte = _mm512_set1_epi16(0xff), one = _mm512_set1_epi16(shape.bitmap);
    z0 = _mm512_sub_epi16(z0, one);
    z1 = _mm512_sub_epi16(z1, one);
    put_values(narrow(_mm512_and_si512(z0, byte), _mm512_and_si512(z1, byte)), map, 8, out);
    put_values(narrow(_mm512_srli_epi16(z0, 8), _mm512_srli_epi16(z1, 8)), map, shape.width - 8, out + count);
    return shape;
}

#define TILE_BLOCKS (QUANT_TILE / BLOCK)
#define LARGE_BYTES 192 /* room for the values of a block of larger ones, and 32 bytes more */

/*
 * The blocks of a tile between the two halves of packing. The first half, block by block, finds what their shapes depend on.
 * The second half finds the shapes and places of all of them at once, then writes them, so that no block waits for the one
 * before.
 */
typedef struct half_packed {
    _Alignas(64) uint8_t bytes[TILE_BLOCKS][LARGE_BYTES]; /* residuals; of a large block, the values as they are written */
    uint64_t map[TILE_BLOCKS];
    _Alignas(64) uint8_t max[TILE_BLOCKS]; /* the largest residual; 0 for large blocks */
    uint8_t count[TILE_BLOCKS];            /* how many are not 0; 0 for large blocks */
    uint16_t large_bytes[TILE_BLOCKS];     /* those of the values; 0 for other blocks */
    uint8_t large_wide[TILE_BLOCKS];       /* the wide byte of a large block; all are wide */
    uint64_t large, large_bitmap;          /* a bit for each large block, and for each that is a bitmap */
} half_packed;

static inline void pack_begin(half_packed *h)
{
    memset(h->map, 0, sizeof h->map);
    memset(h->max, 0, sizeof h->max);
    memset(h->count, 0, sizeof h->count);
    memset(h->large_bytes, 0, sizeof h->large_bytes);
    h->large = h->large_bitmap = 0;
}

static __attribute__((noinline)) void pack_large_aside(__m512i z0, __m512i z1, size_t block, half_packed *h)
{
    block_shape shape = pack_large(z0, z1, &h->map[block], h->bytes[block]);
    h->large_bytes[block] = (uint16_t)(shape.bytes - 1 - (shape.bitmap ? MAP_BYTES : 0));
    h->large_wide[block] = wide_byte(shape);
    h->large |= UINT64_C(1) << block;
    h->large_bitmap |= (uint64_t)shape.bitmap << block;
}

/* The first half; `block` is the number in the tile. */
HOT void pack_block(__m512i z0, __m512i z1, size_t block, half_packed *h)
{
    const unsigned max = max_u16(z0, z1);
    if (max > 255) {
        pack_large_aside(z0, z1, block, h);
        return;
    }
    const __m512i bytes = narrow(z0, z1);
    const uint64_t map = _mm512_test_epi8_mask(bytes, bytes);
    _mm512_store_si512(h->bytes[block], bytes);
    h->map[block] = map;
    h->max[block] = (uint8_t)max;
    h->count[block] = (uint8_t)__builtin_popcountll(map);
}

/* The same for residuals that are bytes; find_maxima does the rest. */
HOT void pack_block_of_bytes(__m512i bytes, size_t block, half_packed *h)
{
    const uint64_t map = _mm512_test_epi8_mask(bytes, bytes);
    _mm512_store_si512(h->bytes[block], bytes);
    h->map[block] = map;
    h->count[block] = (uint8_t)__builtin_popcountll(map);
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
#define FETCH_AHEAD 2048 /* elements of f32; twice as many of 16 bits */

#endif
