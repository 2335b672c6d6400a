/* Residuals of 16-bit codes and how a block of them is packed, for the AVX2 units that compress: see kernels_avx2.c. */
#ifndef COMET_CODEC_PACK_AVX2_H
#define COMET_CODEC_PACK_AVX2_H

#include "codec/kernels/avx2.h"

/* 16 codes of 32 bits as 16 of 16 bits. */
HOT __m256i narrow_codes(__m256i c0, __m256i c1)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(c0, c1), _MM_SHUFFLE(3, 1, 2, 0));
}

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
    uint8_t bytes[3 * BLOCK + 8]; /* values one after the other, then zeros; of a large block, the values as they are written */
    uint64_t map;
    uint16_t length; /* of the values, in bytes */
    uint8_t width, wide_byte;
    bool bitmap, wide, large;
} half_packed;

/* Residuals of 256 and more: the low bytes, then what is left. Packs the values to h->bytes at once. */
static __attribute__((noinline)) void pack_large(__m256i z0, __m256i z1, __m256i z2, __m256i z3, unsigned max, half_packed *h)
{
    const __m256i residuals[4] = {z0, z1, z2, z3};
    uint64_t map = nonzeros_of_words(residuals);
    block_shape shape = block_shape_of(max, (unsigned)__builtin_popcountll(map));
    uint8_t together[BLOCK + 8];
    h->map = map;
    map = shape.bitmap ? map : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map);
    const __m256i byte = _mm256_set1_epi16(0xff), less = _mm256_set1_epi16(shape.bitmap);
    __m256i low[4], high[4];
    for (int i = 0; i < 4; i++) {
        __m256i z = _mm256_sub_epi16(residuals[i], less);
        low[i] = _mm256_and_si256(z, byte);
        high[i] = _mm256_srli_epi16(z, 8);
    }
    bring_together((__m256i[2]){narrow(low[0], low[1]), narrow(low[2], low[3])}, map, h->bytes);
    bring_together((__m256i[2]){narrow(high[0], high[1]), narrow(high[2], high[3])}, map, together);
    put_values(together, shape.width - 8, h->bytes + count);
    h->length = (uint16_t)values_bytes(count, shape.width);
    h->wide_byte = wide_byte(shape);
    h->bitmap = shape.bitmap;
    h->wide = h->large = true;
}

/* The first half: chooses the shape of a block and brings its values together as bytes. */
HOT void pack_bytes(const __m256i z[4], size_t block, uint8_t *kinds, half_packed *h)
{
    unsigned max = max_u16(z);
    if (max > 255) {
        set_kind(kinds, block, KIND_WIDE);
        pack_large(z[0], z[1], z[2], z[3], max, h);
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
    h->wide = bitmap && width > KIND_BITMAP_MAX;
    h->width = (uint8_t)width;
    h->wide_byte = (uint8_t)(width | WIDE_BITMAP); /* small blocks are wide only as bitmaps */
    h->length = (uint16_t)(((bitmap ? count : BLOCK) * width + 7) / 8);
    h->map = map;
    set_kind(kinds, block, h->wide ? KIND_WIDE : bitmap || plain == 0 ? width : width + KIND_BITMAP_MAX);
    if (!bitmap) {
        store32(h->bytes, bytes[0]);
        store32(h->bytes + 32, bytes[1]);
        return;
    }
    for (int i = 0; i < 2; i++)
        bytes[i] = _mm256_subs_epu8(bytes[i], _mm256_set1_epi8(1));
    bring_together(bytes, map, h->bytes);
}

/* The second half: writes the block. */
HOT void pack_bits(const half_packed *h, block_writer *w)
{
    *w->wides = h->wide_byte;
    w->wides += h->wide;
    store_u64(w->maps, h->map);
    w->maps += h->bitmap ? MAP_BYTES : 0;
    if (h->large)
        for (unsigned i = 0; i < h->length; i += 32)
            store32(w->values + i, load32(h->bytes + i));
    else
        put_values(h->bytes, h->width, w->values);
    w->values += h->length;
}

#define STRIP 8 /* blocks; in this distance, what was stored has reached the cache and can be loaded in other pieces */

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

#define FETCH_AHEAD 2048 /* elements of f32; twice as many of 16 bits */

#endif
