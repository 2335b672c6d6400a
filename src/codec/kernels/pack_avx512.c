/* Packs residuals of 16-bit codes with AVX-512, on their own: see pack_avx512.h. */
#include "codec/kernels/pack_end_avx512.h"

void pack_16_avx512(const void *residuals, size_t n_blocks, size_t first_block, block_writer *out)
{
    const uint16_t *z = residuals;
    half_packed h;
    for (size_t b = 0; b < n_blocks; b += TILE_BLOCKS) {
        const size_t n = n_blocks - b < TILE_BLOCKS ? n_blocks - b : TILE_BLOCKS;
        pack_begin(&h);
        for (size_t i = 0; i < n; i++, z += BLOCK)
            pack_block(_mm512_loadu_si512(z), _mm512_loadu_si512(z + 32), i, &h);
        pack_end(&h, n, first_block + b, out);
    }
}
