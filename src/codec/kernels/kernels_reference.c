/* The plain C family: the generic bodies as they are. The other families must equal it bit for bit. */
#include "codec/kernels/generic.h"

DEFINE_ENCODE_TILE(f32, quantise_f32_16_generic, predict_16_generic, pack_16_generic)
DEFINE_ENCODE_TILE(f16, quantise_f16_16_generic, predict_16_generic, pack_16_generic)
DEFINE_ENCODE_TILE(bf16, quantise_bf16_16_generic, predict_16_generic, pack_16_generic)
DEFINE_ENCODE_TILE(f64, quantise_f64_16_generic, predict_16_generic, pack_16_generic)

const codec_kernels codec_kernels_reference = {
    .isa = COMET_ISA_REFERENCE,
    .quantise = {{quantise_f32_16_generic, quantise_f16_16_generic, quantise_bf16_16_generic, quantise_f64_16_generic},
                 {quantise_f32_32_generic, quantise_f16_32_generic, quantise_bf16_32_generic, quantise_f64_32_generic}},
    .dequantise = {{dequantise_f32_16_generic, dequantise_f16_16_generic, dequantise_bf16_16_generic, dequantise_f64_16_generic},
                   {dequantise_f32_32_generic, dequantise_f16_32_generic, dequantise_bf16_32_generic, dequantise_f64_32_generic}},
    .predict = {predict_16_generic, predict_32_generic, predict_64_generic},
    .unpredict = {unpredict_16_generic, unpredict_32_generic, unpredict_64_generic},
    .pack = {pack_16_generic, pack_32_generic, pack_64_generic},
    .pack_cost = {pack_cost_16_generic, pack_cost_32_generic, pack_cost_64_generic},
    .unpack = {unpack_16_generic, unpack_32_generic, unpack_64_generic},
    .encode_tile = {encode_tile_f32, encode_tile_f16, encode_tile_bf16, encode_tile_f64},
    .gather_row = {gather_row_16_generic, gather_row_32_generic},
    .scatter_row = {scatter_row_16_generic, scatter_row_32_generic},
    .model_row = {model_row_16_generic, model_row_32_generic},
    .decode_row = {decode_row_16_generic, decode_row_32_generic},
    .entropy_encode = entropy_encode_generic,
};
