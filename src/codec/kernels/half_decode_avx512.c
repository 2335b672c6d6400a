/* The AVX-512 kernels that decompress f16 and bf16, level fast, for 16-bit codes: see half_avx512.h. */
#include "codec/kernels/half_avx512.h"
#include "codec/kernels/unpack_avx512.h"

/* ---- dequantise ---- */

/* Values of 32 codes whose places in the table are given. */
HOT __m512i small_values_of(small_table values, __m512i codes, __m512i index)
{
    enum { A_AND_B_OR_C = 0xea };
    const __m512i sign = _mm512_set1_epi16((short)HALF_SIGN);
    return _mm512_ternarylogic_epi64(codes, sign, small_lookup(values, index), A_AND_B_OR_C);
}

HOT void store_halves(__m512i v, bool stream, uint16_t *x)
{
    if (stream)
        _mm512_stream_si512((void *)x, v);
    else
        _mm512_storeu_si512(x, v);
}

/* Stores the values of 64 codes, which do not depend on their places: not for dither. *small: no code was too large for the
 * table so far. */
HOT void store_block_half(comet_dtype type, const quantiser *q, enum quantiser_mode mode, small_table values, bool *small,
                          const __m512i codes[2], bool stream, uint16_t *x)
{
    const __m512i index[2] = {small_index(mode, codes[0]), small_index(mode, codes[1])};
    *small = *small && all_small(index[0], index[1]);
    if (*small)
        for (int i = 0; i < 2; i++)
            store_halves(small_values_of(values, codes[i], index[i]), stream, x + 32 * i);
    else
        for (int i = 0; i < 2; i++)
            store_halves(half_values(type, q, mode, codes[i], 0), stream, x + 32 * i);
}

HOT void dequantise_mode_half(comet_dtype type, const quantiser *given, enum quantiser_mode mode, const int16_t *c, size_t n,
                              uint32_t first, uint16_t *x, bool stream)
{
    const quantiser q = *given; /* a copy, which stores to x cannot touch */
    const small_table values = small_values(type, &q, mode);
    const size_t head = (64 - (uintptr_t)x % 64) % 64 / sizeof *x;
    size_t i = head < n ? head : n;
    bool small = mode != QUANTISE_DITHER;
    if (i) /* codes go on past n, up to a block */
        _mm512_mask_storeu_epi16(x, (__mmask32)((UINT64_C(1) << i) - 1),
                                 half_values(type, &q, mode, _mm512_loadu_si512(c), first));
    for (; i + BLOCK <= n; i += BLOCK) {
        const __m512i codes[2] = {_mm512_loadu_si512(c + i), _mm512_loadu_si512(c + i + 32)};
        if (mode != QUANTISE_DITHER)
            store_block_half(type, &q, mode, values, &small, codes, stream, x + i);
        else
            for (uint32_t k = 0; k < 2; k++)
                store_halves(half_values(type, &q, mode, codes[k], first + (uint32_t)i + 32 * k), stream, x + i + 32 * k);
    }
    for (; i < n; i += 32) {
        __mmask32 rest = n - i < 32 ? (__mmask32)((UINT64_C(1) << (n - i)) - 1) : ~(__mmask32)0;
        _mm512_mask_storeu_epi16(x + i, rest, half_values(type, &q, mode, _mm512_loadu_si512(c + i), first + (uint32_t)i));
    }
}

HOT void dequantise_half(comet_dtype type, const quantiser *q, const int16_t *codes, size_t n, uint32_t first, uint16_t *x,
                         bool stream)
{
    switch (q->mode) {
    case QUANTISE_PLAIN: dequantise_mode_half(type, q, QUANTISE_PLAIN, codes, n, first, x, stream); break;
    case QUANTISE_SUPPORT: dequantise_mode_half(type, q, QUANTISE_SUPPORT, codes, n, first, x, stream); break;
    case QUANTISE_NONZERO: dequantise_mode_half(type, q, QUANTISE_NONZERO, codes, n, first, x, stream); break;
    case QUANTISE_DITHER: dequantise_mode_half(type, q, QUANTISE_DITHER, codes, n, first, x, stream); break;
    }
}

void dequantise_f16_16_avx512(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    dequantise_half(COMET_DTYPE_F16, q, codes, n, first, x, stream);
}

void dequantise_bf16_16_avx512(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    dequantise_half(COMET_DTYPE_BF16, q, codes, n, first, x, stream);
}

/* ---- unpack, undo prediction and dequantise in one loop ---- */

HOT bool decode_blocks_half(comet_dtype type, const packed_tile *t, enum quantiser_mode mode, enum predictor predictor,
                            bool identity, size_t distance)
{
    const quantiser q = *t->quantiser; /* copies, which stores cannot touch */
    const bool up = predictor == PREDICT_UP || predictor == PREDICT_LORENZO, stream = t->stream;
    const bool left = predictor == PREDICT_LEFT || predictor == PREDICT_LORENZO;
    const size_t n_blocks = t->n / BLOCK, first_block = t->first / BLOCK, line = t->strides.up;
    const small_table values = small_values(type, &q, mode);
    block_reader in = *t->in;
    uint16_t *c = t->codes, *x = t->x;
    const char *prefetch = t->prefetch ? t->prefetch : (const void *)c; /* which is in the cache */
    const size_t prefetch_step = t->prefetch ? BLOCK * sizeof *x : 0;
    bool small = true;
    __m512i before = _mm512_loadu_si512(c - 32);
    if (left && up)
        before = _mm512_sub_epi16(before, _mm512_loadu_si512(c - 32 - line));
    left_sums sums = left_sums_make(distance, before);
    codes_above above = codes_above_make(line, c);
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK, x += BLOCK, prefetch += prefetch_step) {
        __m512i z[2];
        for (int i = 0; i < 2; i++)
            _mm_prefetch(prefetch + 64 * i, _MM_HINT_T1);
        if (!unpack_block(get_kind(in.kinds, b), identity, &in, c, z))
            return false;
        for (int i = 0; i < 2; i++) {
            if (left)
                z[i] = add_left_neighbours(&sums, z[i]);
            if (up)
                z[i] = add_codes_above(&above, c + 32 * i, z[i]);
            if (left || up)
                _mm512_storeu_si512(c + 32 * i, z[i]);
        }
        store_block_half(type, &q, mode, values, &small, z, stream, x);
    }
    *t->in = in;
    return true;
}

HOT bool decode_whole_half(comet_dtype type, const packed_tile *t, enum quantiser_mode mode)
{
    const bool next_door = t->strides.left == 1;
    switch (t->predictor) {
    case PREDICT_LEFT:
        return next_door ? decode_blocks_half(type, t, mode, PREDICT_LEFT, false, 1)
                         : decode_blocks_half(type, t, mode, PREDICT_LEFT, false, 16);
    case PREDICT_UP: return decode_blocks_half(type, t, mode, PREDICT_UP, false, 1);
    case PREDICT_LORENZO:
        return next_door ? decode_blocks_half(type, t, mode, PREDICT_LORENZO, false, 1)
                         : decode_blocks_half(type, t, mode, PREDICT_LORENZO, false, 16);
    default:
        return t->identity ? decode_blocks_half(type, t, mode, PREDICT_NONE, true, 1)
                           : decode_blocks_half(type, t, mode, PREDICT_NONE, false, 1);
    }
}

HOT bool decode_tile_half(comet_dtype type, dequantise_fn *dequantise, const packed_tile *t)
{
    if (!suits_one_loop(t))
        return decode_tile_by(t, unpack_16_avx512, unpredict_16_avx512, dequantise);
    switch (t->quantiser->mode) {
    case QUANTISE_SUPPORT: return decode_whole_half(type, t, QUANTISE_SUPPORT);
    case QUANTISE_NONZERO: return decode_whole_half(type, t, QUANTISE_NONZERO);
    default: return decode_whole_half(type, t, QUANTISE_PLAIN);
    }
}

bool decode_tile_f16_avx512(const packed_tile *t)
{
    return decode_tile_half(COMET_DTYPE_F16, dequantise_f16_16_avx512, t);
}

bool decode_tile_bf16_avx512(const packed_tile *t)
{
    return decode_tile_half(COMET_DTYPE_BF16, dequantise_bf16_16_avx512, t);
}
