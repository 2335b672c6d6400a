/* The second half of packing a tile, for the AVX-512 units that compress: see half_packed in pack_avx512.h. */
#ifndef COMET_CODEC_PACK_END_AVX512_H
#define COMET_CODEC_PACK_END_AVX512_H

#include "codec/kernels/pack_avx512.h"

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

/* The maxima of 16 blocks: rows of 16 bytes of four registers become columns. Byte 4 i + k is of block 4 k + i. */
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

#endif
