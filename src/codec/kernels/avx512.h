/* What the AVX-512 units share. */
#ifndef COMET_CODEC_AVX512_H
#define COMET_CODEC_AVX512_H

#include <immintrin.h>

#include "codec/kernels/generic.h"

/* Parts of hot loops: inlined whatever their size, so that their state stays in registers. */
#define HOT static inline __attribute__((always_inline))

HOT __m512i zigzag32(__m512i r)
{
    return _mm512_xor_si512(_mm512_slli_epi16(r, 1), _mm512_srai_epi16(r, 15));
}

/*
 * The same and its inverse for bytes: both are linear in the bits. Row i of a matrix, from the last byte on, has the bits of
 * the argument whose sum modulo 2 is bit i. Bit i of a mapped residual is bit i - 1 plus the sign, and bit 0 the sign; bit i of
 * a residual is bit i + 1 of the mapped one plus bit 0.
 */
HOT __m512i zigzag_bytes(__m512i r)
{
    return _mm512_gf2p8affine_epi64_epi8(r, _mm512_set1_epi64((long long)0x808182848890a0c0), 0);
}

HOT __m512i unzigzag_bytes(__m512i z)
{
    return _mm512_gf2p8affine_epi64_epi8(z, _mm512_set1_epi64((long long)0x0305091121418101), 0);
}

/*
 * The compress and expand instructions, on AMD's processors also those that zero what they do not write, wait for the register
 * that they write to, where the end of the loop's last round may be. A zero from nowhere spares them that.
 */
HOT __m512i zero_from_nowhere(void)
{
    __m512i zero = _mm512_setzero_si512();
    __asm__("" : "+v"(zero)); /* else compilers know that it is zero, and choose the form that zeroes */
    return zero;
}

/* The bytes under the map one after the other, then zeros. */
HOT __m512i compress8(uint64_t map, __m512i v)
{
    return _mm512_mask_compress_epi8(zero_from_nowhere(), map, v);
}

HOT __m512i compress16(__mmask32 map, __m512i v)
{
    return _mm512_mask_compress_epi16(zero_from_nowhere(), map, v);
}

/* The inverse: the next byte for each bit that is set, elsewhere zeros. */
HOT __m512i expand8(uint64_t map, __m512i v)
{
    return _mm512_mask_expand_epi8(zero_from_nowhere(), map, v);
}

HOT __m512i expand16(__mmask32 map, __m512i v)
{
    return _mm512_mask_expand_epi16(zero_from_nowhere(), map, v);
}

static inline __m512i lane_numbers(void)
{
    return _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6,
                            5, 4, 3, 2, 1, 0);
}

/* For _mm512_range_ps: choose the float of lesser or of greater magnitude, with the sign of the first. */
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

/*
 * How values of w bits are packed: 8 bytes become 8 w bits in three steps, on pairs of bytes, of 16-bit and of 32-bit numbers.
 * In each step the lower half stays (`stay` selects it) and the upper one moves down to it (by `move`). To unpack them again,
 * `from` is the first bit of each value and `low` has the low w bits of each byte set.
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

/* Tables say which bytes to take when the first w of each eight are brought together, and when they are put back, because the
 * expand and compress instructions are slow. */
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

HOT __m512i each64(uint64_t v)
{
    return _mm512_set1_epi64((long long)v);
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

/* decode_avx512.c */
dequantise_fn dequantise_f32_16_avx512;
unpack_fn unpack_16_avx512;
unpredict_fn unpredict_16_avx512;
decode_tile_fn decode_tile_f32_avx512;

/* pack_avx512.c */
pack_fn pack_16_avx512;

/* f64_avx512.c */
quantise_fn quantise_f64_16_avx512;

/* outliers_avx512.c */
write_outliers_fn write_outliers_avx512;

/* half_avx512.c and half_decode_avx512.c */
quantise_fn quantise_f16_16_avx512, quantise_bf16_16_avx512;
encode_tile_fn encode_tile_f16_avx512, encode_tile_bf16_avx512;
dequantise_fn dequantise_f16_16_avx512, dequantise_bf16_16_avx512;
decode_tile_fn decode_tile_f16_avx512, decode_tile_bf16_avx512;

/* dense_avx512.c */
gather_row_fn gather_row_16_avx512;
scatter_row_fn scatter_row_16_avx512;
model_row_fn model_row_16_avx512;
decode_row_fn decode_row_16_avx512;
entropy_encode_fn entropy_encode_avx512;

#endif
