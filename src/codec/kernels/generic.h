/*
 * The generic bodies instantiated for every type, as static functions named *_generic. A family's unit includes this once,
 * compiled with that family's flags, and puts its own functions beside them where it has better ones.
 */
#ifndef COMET_CODEC_GENERIC_H
#define COMET_CODEC_GENERIC_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "codec/kernels/block.h"
#include "codec/kernels/convert.h"
#include "codec/kernels/kernels.h"

/* Uniform in [-1/2, 1/2), a multiple of 2^-24: a 32-bit mixer of the element's index under the chunk's key. */
static inline float dither(uint32_t key, uint32_t index)
{
    uint32_t h = index ^ key;
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    h ^= h >> 16;
    return (float)((int32_t)(h >> 8) - (1 << 23)) * 0x1p-24f;
}

#define SAME(v) (v)
#define FLOAT_MATH(function) function##f
#define DOUBLE_MATH(function) function
#define FLOAT_FIELD(name) name
#define DOUBLE_FIELD(name) name##64

#define ELEMENT float
#define REAL float
#define LOAD SAME
#define STORE SAME
#define CODE int16_t
#define LIMIT CODE16_LIMIT
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define NAME(stem) stem##_f32_16_generic
#include "codec/kernels/quantise_body.h"

#define ELEMENT float
#define REAL float
#define LOAD SAME
#define STORE SAME
#define CODE int32_t
#define LIMIT CODE32_LIMIT
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define NAME(stem) stem##_f32_32_generic
#include "codec/kernels/quantise_body.h"

#define ELEMENT uint16_t
#define REAL float
#define LOAD float_of_f16
#define STORE f16_of_float
#define CODE int16_t
#define LIMIT CODE16_LIMIT
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define NAME(stem) stem##_f16_16_generic
#include "codec/kernels/quantise_body.h"

#define ELEMENT uint16_t
#define REAL float
#define LOAD float_of_f16
#define STORE f16_of_float
#define CODE int32_t
#define LIMIT CODE32_LIMIT
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define NAME(stem) stem##_f16_32_generic
#include "codec/kernels/quantise_body.h"

#define ELEMENT uint16_t
#define REAL float
#define LOAD float_of_bf16
#define STORE bf16_of_float
#define CODE int16_t
#define LIMIT CODE16_LIMIT
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define NAME(stem) stem##_bf16_16_generic
#include "codec/kernels/quantise_body.h"

#define ELEMENT uint16_t
#define REAL float
#define LOAD float_of_bf16
#define STORE bf16_of_float
#define CODE int32_t
#define LIMIT CODE32_LIMIT
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define NAME(stem) stem##_bf16_32_generic
#include "codec/kernels/quantise_body.h"

#define ELEMENT double
#define REAL double
#define LOAD SAME
#define STORE SAME
#define CODE int16_t
#define LIMIT CODE16_LIMIT
#define FIELD DOUBLE_FIELD
#define MATH DOUBLE_MATH
#define NAME(stem) stem##_f64_16_generic
#include "codec/kernels/quantise_body.h"

#define ELEMENT double
#define REAL double
#define LOAD SAME
#define STORE SAME
#define CODE int32_t
#define LIMIT CODE32_LIMIT
#define FIELD DOUBLE_FIELD
#define MATH DOUBLE_MATH
#define NAME(stem) stem##_f64_32_generic
#include "codec/kernels/quantise_body.h"

#define CODE int16_t
#define UCODE uint16_t
#define WIDTH 16
#define NAME(stem) stem##_16_generic
#include "codec/kernels/residual_body.h"

#define CODE int32_t
#define UCODE uint32_t
#define WIDTH 32
#define NAME(stem) stem##_32_generic
#include "codec/kernels/residual_body.h"

#define CODE int64_t
#define UCODE uint64_t
#define WIDTH 64
#define NAME(stem) stem##_64_generic
#include "codec/kernels/residual_body.h"

/* Levels of the context: thresholds 1, 3, 6, 12, 24 for the gradient and 1, 2, 4 for the magnitude. */
static const uint8_t gradient_level[32] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4,
                                           4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5};
static const uint8_t magnitude_level[5] = {0, 1, 2, 2, 3};

#define CODE int16_t
#define UCODE uint16_t
#define SUM int32_t
#define NAME(stem) stem##_16_generic
#include "codec/kernels/dense_body.h"

#define CODE int32_t
#define UCODE uint32_t
#define SUM int64_t
#define NAME(stem) stem##_32_generic
#include "codec/kernels/dense_body.h"

static inline uint8_t *entropy_encode_generic(const uint16_t *symbols, size_t n, const uint32_t *start_frequency, uint8_t *end,
                                              uint32_t state[LANES])
{
    for (size_t i = n; i-- > 0;) {
        uint32_t entry = start_frequency[symbols[i]], frequency = entry & 0xffff, start = entry >> 16;
        uint32_t x = state[i % LANES];
        if (x >> (32 - PROB_BITS) >= frequency) {
            end -= 2;
            store_u16(end, (uint16_t)x);
            x >>= 16;
        }
        state[i % LANES] = (x / frequency << PROB_BITS) + x % frequency + start;
    }
    return end;
}

/* Three kernels in a row; the family's own where it has them. */
static inline void encode_tile_by(const tile_job *j, quantise_fn *quantise, predict_fn *predict, pack_fn *pack)
{
    size_t n_blocks = (j->n + BLOCK - 1) / BLOCK;
    quantise(j->quantiser, j->x, j->n, j->first, j->codes, j->failed, j->moments);
    predict(j->predictor, j->identity, j->codes, n_blocks * BLOCK, j->strides, j->residuals);
    pack(j->residuals, n_blocks, j->first / BLOCK, j->kinds, j->out);
}

#define DEFINE_ENCODE_TILE(type, quantise, predict, pack)           \
    static void encode_tile_##type(const tile_job *job)             \
    {                                                               \
        encode_tile_by(job, quantise, predict, pack);               \
    }

#endif
