/* What the AVX-512 units of level dense share: residuals to symbols, and symbols off the states. */
#ifndef COMET_CODEC_DENSE_AVX512_H
#define COMET_CODEC_DENSE_AVX512_H

#include "codec/kernels/avx512.h"
#include "codec/kernels/cell_rows.h"

/* ---- residuals to symbols ---- */

/* The tables of dense_model.h as 16-bit words, for lookups by permutations. */
static const uint16_t model_symbol[64] = {
    0,  0,  8,  9,  10, 10, 11, 11, 11, 11, 12, 12, 12, 12, 12, 12, 12, 12, 13, 13, 13, 13,
    13, 13, 13, 13, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 15}; /* by a quarter of the residual */
static const uint16_t model_base[32] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 40, 72, 104, 168}; /* by symbol */
static const uint16_t model_raw_mask[32] = {0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 7, 15, 31, 31, 63, 0};  /* by symbol */

/* Symbols of 32 residuals, with their raw bits from bit 8 on. */
HOT __m512i symbols_of(__m512i z)
{
    const __m512i eight = _mm512_set1_epi16(8), least = _mm512_set1_epi16(ESCAPE_LEAST);
    __m512i quarter = _mm512_srli_epi16(_mm512_min_epu16(z, least), 2);
    __m512i symbol =
        _mm512_permutex2var_epi16(_mm512_loadu_si512(model_symbol), quarter, _mm512_loadu_si512(model_symbol + 32));
    symbol = _mm512_mask_mov_epi16(symbol, _mm512_cmplt_epu16_mask(z, eight), z);
    __m512i raw = _mm512_and_si512(_mm512_sub_epi16(z, _mm512_permutexvar_epi16(symbol, _mm512_loadu_si512(model_base))),
                                   _mm512_permutexvar_epi16(symbol, _mm512_loadu_si512(model_raw_mask)));
    return _mm512_or_si512(symbol, _mm512_slli_epi16(raw, 8));
}

/* Those whose symbol is ESCAPE. */
HOT __mmask32 escaping(__m512i z)
{
    return _mm512_cmpge_epu16_mask(z, _mm512_set1_epi16(ESCAPE_LEAST));
}

HOT uint32_t *append_escapes(__m512i z, __mmask32 mask, uint32_t *escapes)
{
    __m512i v = compress16(mask, _mm512_sub_epi16(z, _mm512_set1_epi16(ESCAPE_LEAST)));
    _mm512_storeu_si512(escapes, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(v)));
    _mm512_storeu_si512(escapes + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v, 1)));
    return escapes + __builtin_popcount(mask);
}

/* ---- symbols off the states ---- */

/*
 * While a row is decoded, 32 states lie in two registers, those of even lanes and those of odd ones: words become doublewords
 * by a mask and a shift, and doublewords words by a shift and a blend.
 */
#define ODD_WORDS 0xaaaaaaaau

HOT void states_load(const uint32_t state[32], __m512i x[2])
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i low = _mm512_loadu_si512(state), high = _mm512_loadu_si512(state + 16);
    x[0] = _mm512_permutex2var_epi32(low, even, high);
    x[1] = _mm512_permutex2var_epi32(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
}

HOT void states_store(const __m512i x[2], uint32_t state[32])
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    _mm512_storeu_si512(state, _mm512_permutex2var_epi32(x[0], low, x[1]));
    _mm512_storeu_si512(state + 16, _mm512_permutex2var_epi32(x[0], _mm512_add_epi32(low, _mm512_set1_epi32(8)), x[1]));
}

HOT __m512i even_words(__m512i v)
{
    return _mm512_and_si512(v, _mm512_set1_epi32(0xffff));
}

HOT __m512i odd_words(__m512i v)
{
    return _mm512_srli_epi32(v, 16);
}

/* The place of the context in symbol_tables.within, by outlook. */
static const uint16_t decode_place[32] = {0,  1,  1,  2,  3,  16, 17, 18, 19, 32, 33, 34,
                                          19, 35, 48, 49, 19, 35, 48, 50, 19, 35, 48, 51};
/* The next three tables are indexed by 15 - symbol and have each entry twice, since a stray bit lies above the index. They hold
 * the first residual, the mask of the raw bits, and the bits that a symbol takes off the state. */
static const uint16_t decode_base[32] = {168, 104, 72, 40, 24, 16, 12, 8, 7, 6, 5, 4, 3, 2, 1, 0,
                                         168, 104, 72, 40, 24, 16, 12, 8, 7, 6, 5, 4, 3, 2, 1, 0};
static const uint16_t decode_raw_mask[32] = {0, 63, 31, 31, 15, 7, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0,
                                             0, 63, 31, 31, 15, 7, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0};
static const uint16_t decode_shift[32] = {10, 16, 15, 15, 14, 13, 12, 12, 10, 10, 10, 10, 10, 10, 10, 10,
                                          10, 16, 15, 15, 14, 13, 12, 12, 10, 10, 10, 10, 10, 10, 10, 10};

/*
 * Symbols of 32 slots. A start is looked up as start << 4 | symbol and taken from slot << 4 | 15: the least difference, as
 * unsigned numbers, belongs to the last start that is not above the slot, the greatest to the first one that is. So the least
 * holds the slot's distance from the symbol's start and 15 - symbol.
 */
typedef struct found {
    __m512i least, frequency;
} found;

HOT found find_symbols(__m512i slot, __m512i outlook, const symbol_tables *t)
{
    __m512i least = slot, greatest = _mm512_sub_epi16(slot, _mm512_set1_epi16((short)(PROB_SCALE << 4)));
    __m512i d[3];
    for (int j = 0; j < 3; j++)
        d[j] = _mm512_sub_epi16(slot, _mm512_permutexvar_epi16(outlook, _mm512_loadu_si512(t->quarter[j])));
    least = _mm512_min_epu16(_mm512_min_epu16(least, d[0]), _mm512_min_epu16(d[1], d[2]));
    greatest = _mm512_max_epu16(_mm512_max_epu16(greatest, d[0]), _mm512_max_epu16(d[1], d[2]));
    __m512i place = _mm512_permutexvar_epi16(outlook, _mm512_loadu_si512(decode_place));
    place = _mm512_ternarylogic_epi32(place, least, _mm512_set1_epi16(12), 0xf8); /* place | (least & 12) */
    for (int j = 0; j < 3; j++)
        d[j] = _mm512_sub_epi16(
            slot, _mm512_permutex2var_epi16(_mm512_loadu_si512(t->within[j]), place, _mm512_loadu_si512(t->within[j] + 32)));
    least = _mm512_min_epu16(_mm512_min_epu16(least, d[0]), _mm512_min_epu16(d[1], d[2]));
    greatest = _mm512_max_epu16(_mm512_max_epu16(greatest, d[0]), _mm512_max_epu16(d[1], d[2]));
    return (found){least, _mm512_sub_epi16(_mm512_srli_epi16(least, 4), _mm512_srai_epi16(greatest, 4))};
}

/* Residuals of 32 lanes; *escaped gets those that are yet to be read. */
HOT __m512i decode32(__m512i x[2], __m512i outlook, const symbol_tables *t, const uint8_t **words, __mmask32 *escaped)
{
    const __m512i fifteen = _mm512_set1_epi16(15), least_state = _mm512_set1_epi32((int)STATE_MIN);
    __m512i low = _mm512_mask_blend_epi16(ODD_WORDS, x[0], _mm512_slli_epi32(x[1], 16));
    __m512i slot = _mm512_ternarylogic_epi32(_mm512_slli_epi16(low, 4), _mm512_set1_epi16((PROB_SCALE - 1) << 4), fifteen,
                                             0xea); /* (low << 4 & mask) | 15 */
    found s = find_symbols(slot, outlook, t);
    *escaped = _mm512_testn_epi16_mask(s.least, fifteen);
    __m512i raw = _mm512_and_si512(_mm512_srli_epi16(low, PROB_BITS),
                                   _mm512_permutexvar_epi16(s.least, _mm512_loadu_si512(decode_raw_mask)));
    __m512i z = _mm512_add_epi16(raw, _mm512_permutexvar_epi16(s.least, _mm512_loadu_si512(decode_base)));

    __m512i shift = _mm512_permutexvar_epi16(s.least, _mm512_loadu_si512(decode_shift));
    __m512i offset = _mm512_srli_epi16(s.least, 4);
    x[0] = _mm512_add_epi32(_mm512_mullo_epi32(even_words(s.frequency), _mm512_srlv_epi32(x[0], even_words(shift))),
                            even_words(offset));
    x[1] = _mm512_add_epi32(_mm512_mullo_epi32(odd_words(s.frequency), _mm512_srlv_epi32(x[1], odd_words(shift))),
                            odd_words(offset));
    __mmask16 low0 = _mm512_cmplt_epu32_mask(x[0], least_state), low1 = _mm512_cmplt_epu32_mask(x[1], least_state);
    uint32_t refill = _pdep_u32(low0, ~ODD_WORDS) | _pdep_u32(low1, ODD_WORDS); /* in the order of lanes, as words come */
    __m512i next = expand16(refill, _mm512_loadu_si512(*words));
    x[0] = _mm512_mask_or_epi32(x[0], low0, _mm512_slli_epi32(x[0], 16), even_words(next));
    x[1] = _mm512_mask_or_epi32(x[1], low1, _mm512_slli_epi32(x[1], 16), odd_words(next));
    *words += 2 * (unsigned)__builtin_popcount(refill);
    return z;
}

/* Reads the residuals that are stored as escapes; false if there are too few. */
static inline bool read_escapes(__m512i *residuals, __mmask32 escaped, bit_reader *r, unsigned order)
{
    uint16_t z[32];
    _mm512_storeu_si512(z, *residuals);
    for (uint32_t mask = escaped; mask; mask &= mask - 1) {
        uint64_t v;
        if (!read_escape(r, order, &v))
            return false;
        z[__builtin_ctz(mask)] = (uint16_t)v;
    }
    *residuals = _mm512_loadu_si512(z);
    return true;
}

#endif
