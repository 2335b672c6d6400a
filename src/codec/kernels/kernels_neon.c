/*
 * NEON kernels (any AArch64): the shape of a block of 16-bit codes is found with NEON; everything else is the generic bodies,
 * which the compiler vectorises for NEON as it does those of the reference.
 */
#include <arm_neon.h>

#include "codec/kernels/generic.h"

static inline unsigned max_of(const uint16_t *z)
{
    uint16x8_t m = vld1q_u16(z);
    for (int i = 8; i < BLOCK; i += 8)
        m = vmaxq_u16(m, vld1q_u16(z + i));
    return vmaxvq_u16(m);
}

static inline unsigned nonzeros_of(const uint16_t *z)
{
    uint16x8_t zeros = vdupq_n_u16(0);
    for (int i = 0; i < BLOCK; i += 8)
        zeros = vsubq_u16(zeros, vceqzq_u16(vld1q_u16(z + i)));
    return BLOCK - vaddvq_u16(zeros);
}

static uint8_t *pack_16_neon(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, uint8_t *out)
{
    const uint16_t *z = residuals;
    for (size_t b = first_block; b < first_block + n_blocks; b++, z += BLOCK) {
        block_shape shape = block_shape_of(max_of(z), nonzeros_of(z));
        out = pack_block_16_generic(z, shape, block_begin(shape, b, kinds, out));
    }
    return out;
}

DEFINE_TILES(f32, pack_16_neon, unpack_16_generic, unpredict_16_generic)
DEFINE_TILES(f16, pack_16_neon, unpack_16_generic, unpredict_16_generic)
DEFINE_TILES(bf16, pack_16_neon, unpack_16_generic, unpredict_16_generic)
DEFINE_TILES(f64, pack_16_neon, unpack_16_generic, unpredict_16_generic)

const codec_kernels codec_kernels_neon =
    KERNEL_TABLE(COMET_ISA_NEON, quantise_f32_16_generic, dequantise_f32_16_generic, predict_16_generic, unpredict_16_generic,
                 pack_16_neon, pack_cost_16_generic, unpack_16_generic, gather_row_16_generic, scatter_row_16_generic,
                 model_row_16_generic, decode_row_16_generic, entropy_encode_generic);
