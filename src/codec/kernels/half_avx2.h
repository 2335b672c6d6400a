/* Kernels between f16 or bf16 and 16-bit codes with AVX2, for the family's table. */
#ifndef COMET_CODEC_HALF_AVX2_H
#define COMET_CODEC_HALF_AVX2_H

#include "codec/kernels/kernels.h"

quantise_fn quantise_f16_16_avx2, quantise_bf16_16_avx2;
dequantise_fn dequantise_f16_16_avx2, dequantise_bf16_16_avx2;

#endif
