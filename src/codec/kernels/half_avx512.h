/*
 * What the AVX-512 units for f16 and bf16 share: elements between 16 bits and floats.
 *
 * The encoder checks every element against what the decoder will make of its code, which is rounded to 16 bits. Codes up to
 * SMALL_CODES - 1 are so common that both sides look them up: the decoder their values, the encoder the elements that they
 * stand for. Both tables are a few instructions to make, so that every tile makes its own.
 */
#ifndef COMET_CODEC_HALF_AVX512_H
#define COMET_CODEC_HALF_AVX512_H

#include "codec/kernels/avx512.h"

#define SMALL_CODES 64 /* numbers of 16 bits in the two registers of a table */
#define HALF_MAGNITUDE 0x7fff
#define HALF_SIGN 0x8000

/* Words 0, 2, 4, ... (or 1, 3, 5, ...) of two registers. */
static inline __m512i even_words(void)
{
    return _mm512_add_epi16(lane_numbers(), lane_numbers());
}

static inline __m512i odd_words(void)
{
    return _mm512_add_epi16(even_words(), _mm512_set1_epi16(1));
}

HOT __m512 widen_half(comet_dtype type, __m256i bits)
{
    if (type == COMET_DTYPE_F16)
        return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* 32 elements as floats. bf16 goes into the high halves of zeros. */
HOT void widen_halves(comet_dtype type, __m512i bits, __m512 v[2])
{
    if (type == COMET_DTYPE_F16) {
        v[0] = widen_half(type, _mm512_castsi512_si256(bits));
        v[1] = widen_half(type, _mm512_extracti64x4_epi64(bits, 1));
        return;
    }
    enum { HIGH_HALVES = (int)0xaaaaaaaa };
    const __m512i twice = _mm512_srli_epi16(lane_numbers(), 1);
    const __m512i later = _mm512_add_epi16(twice, _mm512_set1_epi16(16));
    v[0] = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16((__mmask32)HIGH_HALVES, twice, bits));
    v[1] = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16((__mmask32)HIGH_HALVES, later, bits));
}

/* Rounds 32 floats, none of them NaN, to nearest even. bf16 rounds up if the low half is above 1/2, or 1/2 and the high half
 * odd. */
HOT __m512i narrow_halves(comet_dtype type, __m512 a, __m512 b)
{
    if (type == COMET_DTYPE_F16) {
        __m256i low = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        __m256i high = _mm512_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    __m512i high = _mm512_permutex2var_epi16(_mm512_castps_si512(a), odd_words(), _mm512_castps_si512(b));
    __m512i low = _mm512_permutex2var_epi16(_mm512_castps_si512(a), even_words(), _mm512_castps_si512(b));
    low = _mm512_adds_epu16(low, _mm512_and_si512(high, _mm512_set1_epi16(1)));
    __mmask32 up = _mm512_cmpgt_epu16_mask(low, _mm512_set1_epi16((short)0x8000));
    return _mm512_mask_sub_epi16(high, up, high, _mm512_set1_epi16(-1));
}

/* Values of 32 codes, as the decoder gives them. */
HOT __m512i half_values(comet_dtype type, const quantiser *q, enum quantiser_mode mode, __m512i codes, uint32_t index)
{
    __m512 low = values_f32(q, mode, _mm512_cvtepi16_epi32(_mm512_castsi512_si256(codes)), index);
    __m512 high = values_f32(q, mode, _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(codes, 1)), index + 16);
    return narrow_halves(type, low, high);
}

/* Where codes stand in tables: values of opposite signs share a place. */
HOT __m512i small_index(enum quantiser_mode mode, __m512i codes)
{
    return mode == QUANTISE_NONZERO ? _mm512_xor_si512(codes, _mm512_srai_epi16(codes, 15)) : _mm512_abs_epi16(codes);
}

HOT bool all_small(__m512i index0, __m512i index1)
{
    const __m512i beyond = _mm512_set1_epi16((short)~(SMALL_CODES - 1));
    return _mm512_test_epi16_mask(_mm512_or_si512(index0, index1), beyond) == 0;
}

/* SMALL_CODES numbers. */
typedef struct small_table {
    __m512i low, high;
} small_table;

HOT small_table small_values(comet_dtype type, const quantiser *q, enum quantiser_mode mode)
{
    const __m512i later = _mm512_add_epi16(lane_numbers(), _mm512_set1_epi16(32));
    return (small_table){half_values(type, q, mode, lane_numbers(), 0), half_values(type, q, mode, later, 0)};
}

HOT __m512i small_lookup(small_table t, __m512i index)
{
    return _mm512_permutex2var_epi16(t.low, index, t.high);
}

#endif
