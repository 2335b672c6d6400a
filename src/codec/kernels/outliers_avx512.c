/*
 * The outlier section of 16-bit elements with AVX-512. bf16 has many outliers where the bound is near its resolution, at random
 * places, so that branches on their number would be mispredicted in every block.
 */
#include "codec/kernels/avx512.h"

HOT bool none_of_8(const uint64_t *failed)
{
    const __m512i masks = _mm512_loadu_si512(failed);
    return _mm512_test_epi64_mask(masks, masks) == 0;
}

/* Gaps of up to 127, a byte each, except before the first outlier of a block. */
static uint8_t *write_gaps(const uint64_t *failed, size_t n_blocks, uint8_t *out)
{
    _Alignas(64) uint8_t ascending[BLOCK];
    for (unsigned i = 0; i < BLOCK; i++)
        ascending[i] = (uint8_t)i;
    const __m512i numbers = _mm512_load_si512(ascending), one = _mm512_set1_epi8(1);
    const __m512i before = _mm512_sub_epi8(numbers, one);
    size_t pending = 0; /* elements after the last outlier */
    for (size_t b = 0; b < n_blocks; b++) {
        const uint64_t mask = failed[b];
        if (mask == 0 && b + 8 <= n_blocks && none_of_8(failed + b)) {
            pending += 8 * BLOCK;
            b += 7;
            continue;
        }
        if (mask == 0) {
            pending += BLOCK;
            continue;
        }
        __m512i places = compress8(mask, numbers);
        __m512i gaps = _mm512_sub_epi8(_mm512_sub_epi8(places, _mm512_permutexvar_epi8(before, places)), one);
        uint8_t *second = write_steps(out, pending + _tzcnt_u64(mask));
        uint8_t first = second[-1];
        _mm512_storeu_si512(second - 1, gaps);
        second[-1] = first;
        out = second - 1 + __builtin_popcountll(mask);
        pending = _lzcnt_u64(mask);
    }
    return out;
}

/* Brings the elements together 32 at a time, or, where few blocks have any, skips the others. */
static uint8_t *write_elements16(const uint16_t *x, const uint64_t *failed, size_t n, bool few, uint8_t *out)
{
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        if (few && failed[i / BLOCK] == 0) {
            i += i + 8 * BLOCK <= n && none_of_8(failed + i / BLOCK) ? 7 * BLOCK : 0;
            continue;
        }
        for (unsigned half = 0; half < BLOCK; half += 32) {
            const __mmask32 mask = (__mmask32)(failed[i / BLOCK] >> half);
            _mm512_storeu_si512(out, compress16(mask, _mm512_loadu_si512(x + i + half)));
            out += 2 * __builtin_popcount(mask);
        }
    }
    for (; i < n; i++)
        if (failed[i / BLOCK] >> (i % BLOCK) & 1) {
            store_u16(out, x[i]);
            out += 2;
        }
    return out;
}

uint8_t *write_outliers_avx512(const void *x, size_t element_bytes, const uint64_t *failed, size_t n, uint8_t *out)
{
    if (element_bytes != 2)
        return write_outliers_generic(x, element_bytes, failed, n, out);
    const size_t n_blocks = (n + BLOCK - 1) / BLOCK;
    uint8_t *elements = write_gaps(failed, n_blocks, out);
    return write_elements16(x, failed, n, (size_t)(elements - out) < n_blocks / 8, elements);
}
