/* The quantiser that kernels are given; codec/quantiser.h makes it. Part of kernels.h. */
#ifndef COMET_CODEC_QUANTISER_TYPE_H
#define COMET_CODEC_QUANTISER_TYPE_H

#include <stdint.h>

/* QUANTISE_NONZERO is QUANTISE_SUPPORT for chunks with hardly any zeros: zero has no code in it. */
enum quantiser_mode { QUANTISE_PLAIN, QUANTISE_SUPPORT, QUANTISE_NONZERO, QUANTISE_DITHER };

/* The map between values and codes. f32, f16 and bf16 are computed in float, f64 in double. */
typedef struct quantiser {
    enum quantiser_mode mode;
    float eb, step, inverse;
    double eb64, step64, inverse64;
    uint32_t key; /* of the dither, different for every chunk */
} quantiser;

#endif
