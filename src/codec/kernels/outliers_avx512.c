/*
 * The outlier section of 16-bit elements with AVX-512. bf16 has many outliers where the bound is near its resolution, at random
 * places, so that branches on their number would be mispredicted in every block: loops run over the bits of a mask of 64
 * blocks.
 */
#include "codec/kernels/avx512.h"

/* A bit for each of at most 64 blocks that have outliers. */
HOT uint64_t blocks_with_outliers(const uint64_t *failed, size_t n_blocks)
{
    uint64_t bits = 0;
    for (size_t b = 0; b < n_blocks; b += 8) {
        const __mmask8 left = n_blocks - b < 8 ? (__mmask8)((1u << (n_blocks - b)) - 1) : 0xff;
        const __m512i masks = _mm512_maskz_loadu_epi64(left, failed + b);
        bits |= (uint64_t)_mm512_test_epi64_mask(masks, masks) << b;
    }
    return bits;
}

static inline size_t group_of(size_t n_blocks, size_t first)
{
    return n_blocks - first < 64 ? n_blocks - first : 64;
}

/* As write_steps, without a branch where at most one skip is needed. */
HOT uint8_t *write_first_steps(uint8_t *out, size_t gap)
{
    const size_t skips = gap / STEP_SKIP;
    if (__builtin_expect(skips > STEP_SKIP, 0))
        return write_steps(out, gap);
    *out = (uint8_t)(STEP_SKIP - 1 + skips);
    out += skips > 0;
    *out = (uint8_t)(gap % STEP_SKIP);
    return out + 1;
}

/* Gaps of up to 127, a byte each, except before the first outlier of a block. */
static uint8_t *write_gaps(const uint64_t *failed, size_t n_blocks, uint8_t *out)
{
    _Alignas(64) uint8_t ascending[BLOCK];
    for (unsigned i = 0; i < BLOCK; i++)
        ascending[i] = (uint8_t)i;
    const __m512i numbers = _mm512_load_si512(ascending), one = _mm512_set1_epi8(1);
    const __m512i before = _mm512_sub_epi8(numbers, one);
    size_t next = 0; /* the element after the last outlier */
    for (size_t first = 0; first < n_blocks; first += 64)
        for (uint64_t bits = blocks_with_outliers(failed + first, group_of(n_blocks, first)); bits; bits &= bits - 1) {
            const size_t b = first + _tzcnt_u64(bits);
            const uint64_t mask = failed[b];
            const __m512i places = compress8(mask, numbers);
            const __m512i gaps = _mm512_sub_epi8(_mm512_sub_epi8(places, _mm512_permutexvar_epi8(before, places)), one);
            uint8_t *second = write_first_steps(out, b * BLOCK + _tzcnt_u64(mask) - next);
            const uint8_t step = second[-1];
            _mm512_storeu_si512(second - 1, gaps);
            second[-1] = step;
            out = second - 1 + __builtin_popcountll(mask);
            next = (b + 1) * BLOCK - _lzcnt_u64(mask);
        }
    return out;
}

/* Brings the elements of a block together, 32 at a time; n: the elements of x from the block's first on. */
HOT uint8_t *write_block16(const uint16_t *x, size_t n, uint64_t failed, uint8_t *out)
{
    for (size_t half = 0; half < BLOCK; half += 32) {
        const __mmask32 mask = (__mmask32)(failed >> half);
        const __mmask32 inside = n >= half + 32 ? ~(__mmask32)0 : n > half ? (__mmask32)((UINT64_C(1) << (n - half)) - 1) : 0;
        _mm512_storeu_si512(out, compress16(mask, _mm512_maskz_loadu_epi16(inside, x + half)));
        out += 2 * __builtin_popcount(mask);
    }
    return out;
}

static uint8_t *write_elements16(const uint16_t *x, const uint64_t *failed, size_t n, uint8_t *out)
{
    const size_t n_blocks = (n + BLOCK - 1) / BLOCK;
    for (size_t first = 0; first < n_blocks; first += 64)
        for (uint64_t bits = blocks_with_outliers(failed + first, group_of(n_blocks, first)); bits; bits &= bits - 1) {
            const size_t b = first + _tzcnt_u64(bits);
            out = write_block16(x + b * BLOCK, n - b * BLOCK, failed[b], out);
        }
    return out;
}

uint8_t *write_outliers_avx512(const void *x, size_t element_bytes, const uint64_t *failed, size_t n, uint8_t *out)
{
    if (element_bytes != 2)
        return write_outliers_generic(x, element_bytes, failed, n, out);
    return write_elements16(x, failed, n, write_gaps(failed, (n + BLOCK - 1) / BLOCK, out));
}
