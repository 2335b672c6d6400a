/* What the AVX2 units share. */
#ifndef COMET_CODEC_AVX2_H
#define COMET_CODEC_AVX2_H

#include <immintrin.h>

#include "codec/kernels/byte_shuffles.h"
#include "codec/kernels/generic.h"

/* Parts of hot loops: inlined whatever their size, so that their state stays in registers. */
#define HOT static inline __attribute__((always_inline))

HOT __m256i load32(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

HOT void store32(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

HOT __m128i load16(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

HOT __m128i load8(const void *p)
{
    return _mm_loadl_epi64((const __m128i *)p);
}

/* Two loads of 16 bytes as the halves of a register. */
HOT __m256i load_halves(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(low)), load16(high), 1);
}

HOT __m256i zigzag16(__m256i r)
{
    return _mm256_xor_si256(_mm256_add_epi16(r, r), _mm256_cmpgt_epi16(_mm256_setzero_si256(), r));
}

HOT __m256i unzigzag16(__m256i z)
{
    const __m256i one = _mm256_set1_epi16(1);
    __m256i sign = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_and_si256(z, one));
    return _mm256_xor_si256(_mm256_srli_epi16(z, 1), sign);
}

/* `dither` of 8 elements from number `index` on. h 2^-24 - 1/2 is exact, so fusing does not matter. */
HOT __m256 dither_f32(uint32_t key, uint32_t index)
{
    const __m256i ascending = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i h = _mm256_xor_si256(_mm256_add_epi32(_mm256_set1_epi32((int)index), ascending), _mm256_set1_epi32((int)key));
    h = _mm256_mullo_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 16)), _mm256_set1_epi32(0x7feb352d));
    h = _mm256_mullo_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 15)), _mm256_set1_epi32((int)0x846ca68bu));
    h = _mm256_srli_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 16)), 8);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(h), _mm256_set1_ps(0x1p-24f), _mm256_set1_ps(-0.5f));
}

/* Values of 8 codes of 32 bits, within the range of 16. */
HOT __m256 values_f32(const quantiser *q, enum quantiser_mode mode, __m256i codes, uint32_t index)
{
    if (mode == QUANTISE_SUPPORT || mode == QUANTISE_NONZERO) {
        const __m256i one = _mm256_set1_epi32(1);
        __m256i twice = _mm256_add_epi32(codes, codes);
        __m256i odd =
            mode == QUANTISE_SUPPORT ? _mm256_sub_epi32(twice, _mm256_sign_epi32(one, codes)) : _mm256_add_epi32(twice, one);
        return _mm256_mul_ps(_mm256_cvtepi32_ps(odd), _mm256_set1_ps(q->step / 2));
    }
    __m256 c = _mm256_cvtepi32_ps(codes);
    if (mode == QUANTISE_DITHER)
        c = _mm256_sub_ps(c, dither_f32(q->key, index));
    return _mm256_mul_ps(c, _mm256_set1_ps(q->step));
}

/* pack_avx2.c */
pack_fn pack_16_avx2;

/* half_avx2.c and f64_avx2.c */
quantise_fn quantise_f16_16_avx2, quantise_bf16_16_avx2, quantise_f64_16_avx2;
encode_tile_fn encode_tile_f16_avx2, encode_tile_bf16_avx2;
dequantise_fn dequantise_f16_16_avx2, dequantise_bf16_16_avx2;

/* decode_avx2.c */
dequantise_fn dequantise_f32_16_avx2;
unpack_fn unpack_16_avx2;
unpredict_fn unpredict_16_avx2;
decode_tile_fn decode_tile_f32_avx2;

/* dense_avx2.c */
gather_row_fn gather_row_16_avx2;
scatter_row_fn scatter_row_16_avx2;
model_row_fn model_row_16_avx2;
decode_row_fn decode_row_16_avx2;
entropy_encode_fn entropy_encode_avx2;

#endif
