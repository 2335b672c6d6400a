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

/* The maxima of four blocks, of each in a lane of 16 bytes that have yet to be compared. */
HOT __m512i lane_maxima(const half_packed *h, size_t block)
{
    enum { EVEN = 0x88, ODD = 0xdd };
    __m512i pair[2];
    for (int i = 0; i < 2; i++) {
        const __m512i a = _mm512_load_si512(h->bytes[block + 2 * i]), b = _mm512_load_si512(h->bytes[block + 2 * i + 1]);
        pair[i] = _mm512_max_epu8(_mm512_shuffle_i64x2(a, b, EVEN), _mm512_shuffle_i64x2(a, b, ODD));
    }
    return _mm512_max_epu8(_mm512_shuffle_i64x2(pair[0], pair[1], EVEN), _mm512_shuffle_i64x2(pair[0], pair[1], ODD));
}

/* Of 16 blocks: rows of 16 bytes of four registers become columns. Byte 4 i + k is of block 4 k + i. */
HOT __m128i maxima_of_16(const half_packed *h, size_t first)
{
    __m512i v[4];
    for (int i = 0; i < 4; i++)
        v[i] = lane_maxima(h, first + 4 * i);
    for (int i = 0; i < 2; i++)
        v[i] = _mm512_max_epu8(_mm512_unpacklo_epi32(v[i], v[i + 2]), _mm512_unpackhi_epi32(v[i], v[i + 2]));
    __m512i all = _mm512_max_epu8(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    all = _mm512_max_epu8(all, _mm512_srli_epi32(all, 16));
    all = _mm512_max_epu8(all, _mm512_srli_epi16(all, 8));
    return _mm512_cvtepi32_epi8(all);
}

/* The largest residuals of blocks of bytes. */
static inline void find_maxima(size_t n_blocks, half_packed *h)
{
    const __m512i by_block = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i max = _mm512_castsi128_si512(maxima_of_16(h, 0));
    max = _mm512_inserti64x2(max, maxima_of_16(h, 16), 1);
    max = _mm512_inserti64x2(max, maxima_of_16(h, 32), 2);
    max = _mm512_inserti64x2(max, maxima_of_16(h, 48), 3);
    const __mmask64 present = n_blocks < TILE_BLOCKS ? (UINT64_C(1) << n_blocks) - 1 : ~UINT64_C(0);
    _mm512_store_si512(h->max, _mm512_maskz_mov_epi8(present, _mm512_shuffle_epi8(max, by_block)));
}

/* The number of bits of 64 bytes. */
HOT __m512i bit_lengths(__m512i bytes)
{
    const __m512i below_64 = _mm512_set_epi64(0x0606060606060606, 0x0606060606060606, 0x0606060606060606, 0x0606060606060606,
                                              0x0505050505050505, 0x0505050505050505, 0x0404040404040404, 0x0303030302020100);
    __m512i lengths = _mm512_permutex2var_epi8(below_64, bytes, _mm512_set1_epi8(7));
    return _mm512_mask_mov_epi8(lengths, _mm512_movepi8_mask(bytes), _mm512_set1_epi8(8));
}

/* Where the values of a tile's blocks begin after the first one's, and their shapes. */
typedef struct places {
    _Alignas(64) uint16_t begin[TILE_BLOCKS];
    _Alignas(64) uint8_t width[TILE_BLOCKS], kind[TILE_BLOCKS];
    uint64_t bitmap; /* a bit for each block */
    size_t bytes;
} places;

/* Those of 32 blocks, as block_shape_of says; *end is where they begin, in every lane, then where the next ones do. */
HOT void place_half(const half_packed *h, unsigned first, __m256i plain8, __m256i mapped8, __m512i *end, places *p)
{
    const __m512i sixteen_kinds =
        _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 15, 15, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 14, 13, 12, 11, 10, 9, 8, 7, 0);
    const __m512i count = _mm512_cvtepu8_epi16(_mm256_load_si256((const __m256i *)(const void *)(h->count + first)));
    const __m512i plain = _mm512_cvtepu8_epi16(plain8), mapped = _mm512_cvtepu8_epi16(mapped8), all = _mm512_set1_epi16(BLOCK);
    const __m512i mapped_bits = _mm512_add_epi16(all, _mm512_mullo_epi16(count, mapped));
    const __mmask32 bitmap = _mm512_cmplt_epu16_mask(mapped_bits, _mm512_slli_epi16(plain, 6));
    const __m512i width = _mm512_mask_mov_epi16(plain, bitmap, mapped), n = _mm512_mask_mov_epi16(all, bitmap, count);
    __m512i bytes = _mm512_srli_epi16(_mm512_add_epi16(_mm512_mullo_epi16(n, width), _mm512_set1_epi16(7)), 3);
    bytes = _mm512_add_epi16(bytes, _mm512_load_si512(h->large_bytes + first));
    const __m512i ends = _mm512_add_epi16(running_sums(bytes), *end), begin = _mm512_sub_epi16(ends, bytes);
    __m512i kind = _mm512_permutexvar_epi16(_mm512_add_epi16(width, _mm512_maskz_set1_epi16(bitmap, 16)), sixteen_kinds);
    kind = _mm512_mask_mov_epi16(kind, (__mmask32)(h->large >> first), _mm512_set1_epi16(KIND_WIDE));
    _mm512_store_si512(p->begin + first, begin);
    _mm256_store_si256((__m256i *)(void *)(p->width + first), _mm512_cvtepi16_epi8(width));
    _mm256_store_si256((__m256i *)(void *)(p->kind + first), _mm512_cvtepi16_epi8(kind));
    p->bitmap |= (uint64_t)bitmap << first;
    *end = _mm512_permutexvar_epi16(_mm512_set1_epi16(31), ends);
}

static inline places places_of(const half_packed *h)
{
    const __m512i max = _mm512_load_si512(h->max), less = _mm512_subs_epu8(max, _mm512_set1_epi8(1));
    const __m512i plain = bit_lengths(max), mapped = bit_lengths(less);
    __m512i end = _mm512_setzero_si512();
    places p;
    p.bitmap = h->large_bitmap;
    place_half(h, 0, _mm512_castsi512_si256(plain), _mm512_castsi512_si256(mapped), &end, &p);
    place_half(h, 32, _mm512_extracti64x4_epi64(plain, 1), _mm512_extracti64x4_epi64(mapped, 1), &end, &p);
    p.bytes = (uint16_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(end));
    return p;
}

static inline void put_kinds(const places *p, size_t n_blocks, size_t first_block, uint8_t *kinds)
{
    if (first_block % 2 || n_blocks % 2) {
        for (size_t b = 0; b < n_blocks; b++)
            set_kind(kinds, first_block + b, p->kind[b]);
        return;
    }
    uint8_t pairs[TILE_BLOCKS / 2];
    __m512i v = _mm512_load_si512(p->kind);
    v = _mm512_or_si512(v, _mm512_srli_epi16(v, 4));
    _mm256_storeu_si256((__m256i *)(void *)pairs, _mm512_cvtepi16_epi8(v));
    memcpy(kinds + first_block / 2, pairs, n_blocks / 2);
}

/* The maps of bitmaps, eight at a time. */
static inline uint8_t *put_maps(const half_packed *h, uint64_t bitmaps, uint8_t *out)
{
    for (const uint64_t *map = h->map; bitmaps; map += 8, bitmaps >>= 8) {
        const __mmask8 eight = (__mmask8)bitmaps;
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(eight, _mm512_loadu_si512(map)));
        out += MAP_BYTES * (unsigned)__builtin_popcount(eight);
    }
    return out;
}

/* The wide bytes, which few tiles have. */
static inline uint8_t *put_wides(const half_packed *h, const places *p, uint8_t *out)
{
    const __m512i kinds = _mm512_load_si512(p->kind), small = _mm512_load_si512(p->width);
    const uint64_t wide = _mm512_cmpeq_epi8_mask(kinds, _mm512_set1_epi8(KIND_WIDE));
    if (wide == 0)
        return out;
    __m512i bytes = _mm512_or_si512(small, _mm512_set1_epi8((char)WIDE_BITMAP)); /* small blocks are wide only as bitmaps */
    bytes = _mm512_mask_mov_epi8(bytes, h->large, _mm512_loadu_si512(h->large_wide));
    _mm512_storeu_si512(out, compress8(wide, bytes));
    return out + __builtin_popcountll(wide);
}

/* The second half, of a tile of n_blocks. */
static inline void pack_end(const half_packed *h, size_t n_blocks, size_t first_block, block_writer *w)
{
    const __m512i one = _mm512_set1_epi8(1);
    const places p = places_of(h);
    uint8_t *values = w->values;
    uint64_t bitmaps = p.bitmap;
    put_kinds(&p, n_blocks, first_block, w->kinds);
    for (size_t b = 0; b < n_blocks; b++, bitmaps >>= 1) {
        if (h->large >> b & 1) {
            for (size_t i = 0; i < h->large_bytes[b]; i += 64)
                _mm512_storeu_si512(values + p.begin[b] + i, _mm512_load_si512(h->bytes[b] + i));
            continue;
        }
        const uint64_t map = h->map[b], bitmap = 0 - (bitmaps & 1); /* all ones or 0 */
        const __m512i bytes = _mm512_load_si512(h->bytes[b]);
        put_values(_mm512_mask_sub_epi8(bytes, map & bitmap, bytes, one), map | ~bitmap, p.width[b], values + p.begin[b]);
    }
    w->values = values + p.bytes;
    w->maps = put_maps(h, p.bitmap, w->maps);
    w->wides = put_wides(h, &p, w->wides);
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
