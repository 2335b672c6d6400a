/*
 * The generic bodies instantiated for every type, as static functions named *_generic. A family's unit includes this once,
 * compiled with that family's flags, and puts its own functions beside them where it has better ones.
 */
#ifndef COMET_CODEC_GENERIC_H
#define COMET_CODEC_GENERIC_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/convert.h"
#include "codec/kernels/block.h"
#include "codec/kernels/dense_model.h"
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
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define TYPE_NAME(stem, width) stem##_f32_##width##_generic
#include "codec/kernels/quantise_widths.h"

#define ELEMENT uint16_t
#define REAL float
#define LOAD float_of_f16
#define STORE f16_of_float
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define TYPE_NAME(stem, width) stem##_f16_##width##_generic
#include "codec/kernels/quantise_widths.h"

#define ELEMENT uint16_t
#define REAL float
#define LOAD float_of_bf16
#define STORE bf16_of_float
#define FIELD FLOAT_FIELD
#define MATH FLOAT_MATH
#define TYPE_NAME(stem, width) stem##_bf16_##width##_generic
#include "codec/kernels/quantise_widths.h"

#define ELEMENT double
#define REAL double
#define LOAD SAME
#define STORE SAME
#define FIELD DOUBLE_FIELD
#define MATH DOUBLE_MATH
#define TYPE_NAME(stem, width) stem##_f64_##width##_generic
#include "codec/kernels/quantise_widths.h"

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

#define CODE int16_t
#define UCODE uint16_t
#define LIMIT CODE16_LIMIT
#define NAME(stem) stem##_16_generic
#include "codec/kernels/linear_body.h"

#define CODE int32_t
#define UCODE uint32_t
#define LIMIT CODE32_LIMIT
#define NAME(stem) stem##_32_generic
#include "codec/kernels/linear_body.h"

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

static inline uint8_t *entropy_encode_generic(const uint16_t *symbols, size_t n, const uint32_t entries[N_CONTEXTS * N_SYMBOLS],
                                              uint8_t *end, uint32_t state[LANES])
{
    for (size_t i = n; i-- > 0;) {
        uint32_t entry = entries[symbols[i] & 0xff], frequency = entry & 0xffff, start = entry >> 16 & 0xfff;
        uint32_t raw = symbols[i] >> 8, raw_bits = entry >> 28, x = state[i % LANES];
        if (x >> (32 - PROB_BITS - raw_bits) >= frequency) {
            end -= 2;
            store_u16(end, (uint16_t)x);
            x >>= 16;
        }
        state[i % LANES] = ((x / frequency << raw_bits | raw) << PROB_BITS) + x % frequency + start;
    }
    return end;
}

/* Steps to the outlier after `gap` elements: skips of 128 to 16384 elements, then the rest of the gap. */
static inline uint8_t *write_steps(uint8_t *out, size_t gap)
{
    while (gap >= STEP_SKIP) {
        size_t skips = gap / STEP_SKIP < STEP_SKIP ? gap / STEP_SKIP : STEP_SKIP;
        *out++ = (uint8_t)(STEP_SKIP - 1 + skips);
        gap -= skips * STEP_SKIP;
    }
    *out++ = (uint8_t)gap;
    return out;
}

/* The elements that failed. Each size has a loop of its own, so that no copy of an element is a call. */
static inline uint8_t *write_failed(const void *x, size_t element_bytes, const uint64_t *failed, size_t n, uint8_t *out)
{
    for (size_t b = 0; b * BLOCK < n; b++)
        for (uint64_t mask = failed[b]; mask; mask &= mask - 1, out += element_bytes)
            memcpy(out, (const uint8_t *)x + (b * BLOCK + (size_t)__builtin_ctzll(mask)) * element_bytes, element_bytes);
    return out;
}

static inline uint8_t *write_outliers_generic(const void *x, size_t element_bytes, const uint64_t *failed, size_t n,
                                              uint8_t *out)
{
    size_t next = 0; /* the index after the last outlier */
    for (size_t b = 0; b * BLOCK < n; b++)
        for (uint64_t mask = failed[b]; mask; mask &= mask - 1) {
            size_t i = b * BLOCK + (size_t)__builtin_ctzll(mask);
            out = write_steps(out, i - next);
            next = i + 1;
        }
    switch (element_bytes) {
    case 2: return write_failed(x, 2, failed, n, out);
    case 4: return write_failed(x, 4, failed, n, out);
    default: return write_failed(x, 8, failed, n, out);
    }
}

static inline uint64_t tile_failures(const tile_job *j)
{
    uint64_t n_failed = 0;
    for (size_t b = 0; b * BLOCK < j->n; b++)
        n_failed += (uint64_t)__builtin_popcountll(j->failed[b]);
    return n_failed;
}

/* Runs three kernels in a row, the family's own where it has them. */
static inline uint64_t encode_tile_by(const tile_job *j, quantise_fn *quantise, predict_fn *predict, pack_fn *pack)
{
    size_t n_blocks = (j->n + BLOCK - 1) / BLOCK;
    quantise(j->quantiser, j->x, j->n, j->first, j->codes, j->failed, j->moments);
    predict(j->predictor, j->identity, j->codes, n_blocks * BLOCK, j->strides, j->residuals);
    pack(j->residuals, n_blocks, j->first / BLOCK, j->out);
    return tile_failures(j);
}

static inline bool decode_tile_by(const packed_tile *t, unpack_fn *unpack, unpredict_fn *unpredict, dequantise_fn *dequantise)
{
    size_t n_blocks = (t->n + BLOCK - 1) / BLOCK;
    if (!unpack(t->first / BLOCK, n_blocks, t->identity, t->in, t->codes))
        return false;
    unpredict(t->predictor, t->codes, n_blocks * BLOCK, t->strides);
    dequantise(t->quantiser, t->codes, t->n, t->first, t->x, t->stream);
    return true;
}

/* Defines both for a type from the family's functions. */
#define DEFINE_TILES_OF(type, quantise, dequantise, pack, unpack, unpredict) \
    static uint64_t encode_tile_##type(const tile_job *job)                  \
    {                                                                        \
        return encode_tile_by(job, quantise, predict_16_generic, pack);      \
    }                                                                        \
    static bool decode_tile_##type(const packed_tile *tile)                  \
    {                                                                        \
        return decode_tile_by(tile, unpack, unpredict, dequantise);          \
    }

/* The same for a type for which the family has no quantisers of its own. */
#define DEFINE_TILES(type, pack, unpack, unpredict) \
    DEFINE_TILES_OF(type, quantise_##type##_16_generic, dequantise_##type##_16_generic, pack, unpack, unpredict)

/* For types other than f32: f16, bf16 and f64. A family with functions of its own for them defines these lists anew. */
#define OTHER_QUANTISERS quantise_f16_16_generic, quantise_bf16_16_generic, quantise_f64_16_generic
#define OTHER_DEQUANTISERS dequantise_f16_16_generic, dequantise_bf16_16_generic, dequantise_f64_16_generic
#define OTHER_ENCODE_TILES encode_tile_f16, encode_tile_bf16, encode_tile_f64
#define OTHER_DECODE_TILES decode_tile_f16, decode_tile_bf16, decode_tile_f64
#define OUTLIER_WRITER write_outliers_generic
#define LINEAR_16(stem) stem##_16_generic

/* A family's table from its own functions for f32 and 16-bit codes and the lists above; the rest is generic. Tiles go through
 * encode_tile_<type> and decode_tile_<type>. */
#define KERNEL_TABLE(family, quantise_f32, dequantise_f32, predict_16, unpredict_16, pack_16, pack_cost_16, unpack_16,       \
                     gather_row_16, scatter_row_16, model_row_16, decode_row_16, entropy_encoder)                            \
    {                                                                                                                        \
        .isa = (family),                                                                                                     \
        .quantise = {{quantise_f32, OTHER_QUANTISERS},                                                                       \
                     {quantise_f32_32_generic, quantise_f16_32_generic, quantise_bf16_32_generic, quantise_f64_32_generic}}, \
        .dequantise = {{dequantise_f32, OTHER_DEQUANTISERS},                                                                 \
                       {dequantise_f32_32_generic, dequantise_f16_32_generic, dequantise_bf16_32_generic,                    \
                        dequantise_f64_32_generic}},                                                                         \
        .predict = {predict_16, predict_32_generic, predict_64_generic},                                                     \
        .unpredict = {unpredict_16, unpredict_32_generic, unpredict_64_generic},                                             \
        .pack = {pack_16, pack_32_generic, pack_64_generic},                                                                 \
        .pack_cost = {pack_cost_16, pack_cost_32_generic, pack_cost_64_generic},                                             \
        .unpack = {unpack_16, unpack_32_generic, unpack_64_generic}, .encode_tile = {encode_tile_f32, OTHER_ENCODE_TILES},   \
        .decode_tile = {decode_tile_f32, OTHER_DECODE_TILES}, .write_outliers = OUTLIER_WRITER,                              \
        .linear_sums = {LINEAR_16(linear_sums), linear_sums_32_generic},                                                     \
        .linear_subtract = {LINEAR_16(linear_subtract), linear_subtract_32_generic},                                         \
        .linear_add = {LINEAR_16(linear_add), linear_add_32_generic}, .gather_row = {gather_row_16, gather_row_32_generic},  \
        .scatter_row = {scatter_row_16, scatter_row_32_generic}, .model_row = {model_row_16, model_row_32_generic},          \
        .decode_row = {decode_row_16, decode_row_32_generic}, .entropy_encode = (entropy_encoder),                           \
    }

#endif
