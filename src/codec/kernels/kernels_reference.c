/* The plain C family: the generic bodies as they are. The other families must equal it bit for bit. */
#include "codec/kernels/generic.h"

DEFINE_TILES(f32, pack_16_generic, unpack_16_generic, unpredict_16_generic)
DEFINE_TILES(f16, pack_16_generic, unpack_16_generic, unpredict_16_generic)
DEFINE_TILES(bf16, pack_16_generic, unpack_16_generic, unpredict_16_generic)
DEFINE_TILES(f64, pack_16_generic, unpack_16_generic, unpredict_16_generic)

const codec_kernels codec_kernels_reference =
    KERNEL_TABLE(COMET_ISA_REFERENCE, quantise_f32_16_generic, dequantise_f32_16_generic, predict_16_generic,
                 unpredict_16_generic, pack_16_generic, pack_cost_16_generic, unpack_16_generic, gather_row_16_generic,
                 scatter_row_16_generic, model_row_16_generic, decode_row_16_generic, entropy_encode_generic);
