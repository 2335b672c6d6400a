/* What the two AVX-512 units share. */
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

/* dense_avx512.c */
gather_row_fn gather_row_16_avx512;
scatter_row_fn scatter_row_16_avx512;
model_row_fn model_row_16_avx512;
decode_row_fn decode_row_16_avx512;
entropy_encode_fn entropy_encode_avx512;

#endif
