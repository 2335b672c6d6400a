/* Packs residuals of 16-bit codes with AVX2, on their own: see pack_avx2.h. */
#include "codec/kernels/pack_avx2.h"

void pack_16_avx2(const void *residuals, size_t n_blocks, size_t first_block, block_writer *out)
{
    const uint16_t *next = residuals;
    half_packed h[STRIP];
    block_writer w = *out; /* a copy, which stores to bytes cannot touch */
    for (size_t b = 0; b < n_blocks; b += STRIP) {
        size_t n = n_blocks - b < STRIP ? n_blocks - b : STRIP;
        for (size_t i = 0; i < n; i++, next += BLOCK) {
            __m256i z[4];
            load_block(next, z);
            pack_bytes(z, first_block + b + i, w.kinds, &h[i]);
        }
        for (size_t i = 0; i < n; i++)
            pack_bits(&h[i], &w);
    }
    *out = w;
}
