/*
 * Level dense on AVX-512, 16-bit codes: rows of cells, contexts, entropy coder. 64 lanes are 2 registers of cells and 4 of
 * states. Decoding looks symbols up by permutations of tables that fit one or two registers: gathers take 18 cycles each.
 */
#include "codec/kernels/avx512.h"
#include "codec/kernels/cell_rows.h"

/* ---- dense: rows of cells ---- */

void gather_row_16_avx512(const lanes *g, const void *codes, size_t row, void *cells)
{
    gather_row_16_moved(g, codes, row, cells);
}

void scatter_row_16_avx512(const lanes *g, const void *cells, size_t row, void *codes)
{
    scatter_row_16_moved(g, cells, row, codes);
}

/* ---- dense: contexts ---- */

/* The outlook is the sum of both: four times the level of a gradient, and the level of a magnitude. Values above 31 have the
 * last entry. */
static const uint16_t gradient_outlook[32] = {0,  4,  4,  8,  8,  8,  12, 12, 12, 12, 12, 12, 16, 16, 16, 16,
                                              16, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20, 20, 20, 20, 20};
static const uint16_t magnitude_outlook[32] = {0, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
                                               3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3};

static inline __m512i distance16(__m512i a, __m512i b)
{
    return _mm512_abs_epi16(_mm512_sub_epi16(a, b));
}

/* Predictions of 32 cells; *outlook gets the numbers that contexts are made of. Codes are small enough for every sum to fit. */
HOT __m512i look32(enum predictor predictor, const int16_t *above, const int16_t *cell, size_t width, __m512i *outlook)
{
    __m512i W = _mm512_loadu_si512(cell - width), N = _mm512_loadu_si512(above);
    __m512i NW = _mm512_loadu_si512(above - width), NE = _mm512_loadu_si512(above + width);
    __m512i prediction = _mm512_setzero_si512(), magnitude, gradient;
    __m512i plane = _mm512_sub_epi16(_mm512_add_epi16(W, N), NW);
    switch (predictor) {
    case PREDICT_MEDIAN:
        prediction = _mm512_min_epi16(_mm512_max_epi16(plane, _mm512_min_epi16(W, N)), _mm512_max_epi16(W, N));
        magnitude = prediction;
        break;
    case PREDICT_LORENZO: magnitude = prediction = plane; break;
    case PREDICT_LEFT: magnitude = prediction = W; break;
    default: magnitude = _mm512_add_epi16(W, N); break;
    }
    if (predictor == PREDICT_LEFT)
        gradient = _mm512_slli_epi16(distance16(W, _mm512_loadu_si512(cell - 2 * width)), 1);
    else
        gradient = _mm512_add_epi16(_mm512_add_epi16(distance16(W, NW), distance16(N, NW)), distance16(N, NE));
    const __m512i most = _mm512_set1_epi16(31);
    __m512i g = _mm512_permutexvar_epi16(_mm512_min_epu16(gradient, most), _mm512_loadu_si512(gradient_outlook));
    __m512i m =
        _mm512_permutexvar_epi16(_mm512_min_epu16(_mm512_abs_epi16(magnitude), most), _mm512_loadu_si512(magnitude_outlook));
    *outlook = _mm512_add_epi16(g, m);
    return prediction;
}

/* The tables of dense_model.h as 16-bit words, for lookups by permutations. */
static const uint16_t model_context[32] = {0,   16,  16,  32,  48,  64,  80,  96,  112, 128, 144, 160,
                                           112, 176, 192, 208, 112, 176, 192, 224, 112, 176, 192, 240}; /* << 4, by outlook */
static const uint16_t model_symbol[64] = {
    0,  0,  8,  9,  10, 10, 11, 11, 11, 11, 12, 12, 12, 12, 12, 12, 12, 12, 13, 13, 13, 13,
    13, 13, 13, 13, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 15}; /* by a quarter of the residual */
static const uint16_t model_base[32] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 40, 72, 104, 168}; /* by symbol */
static const uint16_t model_raw_mask[32] = {0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 7, 15, 31, 31, 63, 0};  /* by symbol */

HOT uint32_t *append_escapes(__m512i z, __mmask32 mask, uint32_t *escapes)
{
    __m512i v = _mm512_maskz_compress_epi16(mask, _mm512_sub_epi16(z, _mm512_set1_epi16(ESCAPE_LEAST)));
    _mm512_storeu_si512(escapes, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(v)));
    _mm512_storeu_si512(escapes + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v, 1)));
    return escapes + __builtin_popcount(mask);
}

HOT uint32_t *model_cells(enum predictor predictor, bool identity, const int16_t *n, const int16_t *c, size_t columns,
                          size_t width, uint16_t *symbols, uint32_t *escapes)
{
    const __m512i contexts = _mm512_loadu_si512(model_context), bases = _mm512_loadu_si512(model_base);
    const __m512i small = _mm512_loadu_si512(model_symbol), larger = _mm512_loadu_si512(model_symbol + 32);
    const __m512i raw_masks = _mm512_loadu_si512(model_raw_mask);
    const __m512i eight = _mm512_set1_epi16(8), least = _mm512_set1_epi16(ESCAPE_LEAST);
    for (size_t i = 0; i < columns * width; i += 32) {
        __m512i outlook, prediction = look32(predictor, n + i, c + i, width, &outlook);
        __m512i r = _mm512_sub_epi16(_mm512_loadu_si512(c + i), prediction);
        __m512i z = identity ? r : zigzag32(r);
        __m512i quarter = _mm512_srli_epi16(_mm512_min_epu16(z, least), 2);
        __m512i symbol = _mm512_permutex2var_epi16(small, quarter, larger);
        symbol = _mm512_mask_mov_epi16(symbol, _mm512_cmplt_epu16_mask(z, eight), z);
        __m512i raw = _mm512_and_si512(_mm512_sub_epi16(z, _mm512_permutexvar_epi16(symbol, bases)),
                                       _mm512_permutexvar_epi16(symbol, raw_masks));
        __m512i context = _mm512_permutexvar_epi16(outlook, contexts);
        __m512i all = _mm512_or_si512(_mm512_or_si512(symbol, context), _mm512_slli_epi16(raw, 8));
        _mm512_storeu_si512(symbols + i, all);
        __mmask32 large = _mm512_cmpge_epu16_mask(z, least);
        if (large)
            escapes = append_escapes(z, large, escapes);
    }
    return escapes;
}

uint32_t *model_row_16_avx512(enum predictor predictor, bool identity, const void *above, const void *row, size_t columns,
                              size_t width, uint16_t *symbols, uint32_t *escapes)
{
    switch (predictor) {
    case PREDICT_MEDIAN: return model_cells(PREDICT_MEDIAN, false, above, row, columns, width, symbols, escapes);
    case PREDICT_LORENZO: return model_cells(PREDICT_LORENZO, false, above, row, columns, width, symbols, escapes);
    case PREDICT_LEFT: return model_cells(PREDICT_LEFT, false, above, row, columns, width, symbols, escapes);
    default: return model_cells(PREDICT_NONE, identity, above, row, columns, width, symbols, escapes);
    }
}

/* ---- dense: entropy coder ---- */

/* 16 lanes, one symbol each, backwards. */
HOT __m512i encode16(__m512i x, const uint16_t *symbols, const uint32_t *entries, uint8_t **end)
{
    __m512i s = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)symbols));
    __m512i entry = _mm512_i32gather_epi32(_mm512_and_si512(s, _mm512_set1_epi32(0xff)), entries, 4);
    __m512i f = _mm512_and_si512(entry, _mm512_set1_epi32(0xffff)), raw_bits = _mm512_srli_epi32(entry, 28);
    __m512i start = _mm512_and_si512(_mm512_srli_epi32(entry, 16), _mm512_set1_epi32(0xfff));
    __m512i most = _mm512_srlv_epi32(x, _mm512_sub_epi32(_mm512_set1_epi32(32 - PROB_BITS), raw_bits));
    __mmask16 full = _mm512_cmpge_epu32_mask(most, f);
    unsigned count = (unsigned)__builtin_popcount(full);
    /* The words of the full lanes, moved up against *end; what lies below them is overwritten later. */
    const __m256i lane = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m256i words = _mm256_maskz_compress_epi16(full, _mm512_cvtepi32_epi16(x));
    words = _mm256_permutexvar_epi16(_mm256_add_epi16(lane, _mm256_set1_epi16((short)count)), words);
    _mm256_storeu_si256((__m256i *)(*end - 32), words);
    *end -= 2 * count;
    x = _mm512_mask_srli_epi32(x, full, x, 16);
    /* x / f by float division, off by one at most, corrected with the remainder. */
    __m512i q = _mm512_cvttps_epi32(_mm512_div_ps(_mm512_cvtepu32_ps(x), _mm512_cvtepi32_ps(f)));
    __m512i r = _mm512_sub_epi32(x, _mm512_mullo_epi32(q, f));
    __mmask16 above = _mm512_cmplt_epi32_mask(r, _mm512_setzero_si512());
    q = _mm512_mask_sub_epi32(q, above, q, _mm512_set1_epi32(1));
    r = _mm512_mask_add_epi32(r, above, r, f);
    __mmask16 below = _mm512_cmpge_epi32_mask(r, f);
    q = _mm512_mask_add_epi32(q, below, q, _mm512_set1_epi32(1));
    r = _mm512_mask_sub_epi32(r, below, r, f);
    q = _mm512_or_si512(_mm512_sllv_epi32(q, raw_bits), _mm512_srli_epi32(s, 8));
    return _mm512_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(q, PROB_BITS), r), start);
}

uint8_t *entropy_encode_avx512(const uint16_t *symbols, size_t n, const uint32_t entries[N_CONTEXTS * N_SYMBOLS], uint8_t *end,
                               uint32_t state[LANES])
{
    __m512i x[4];
    for (int k = 0; k < 4; k++)
        x[k] = _mm512_loadu_si512(state + 16 * k);
    for (size_t i = n; i > 0; i -= LANES)
        for (int k = 3; k >= 0; k--)
            x[k] = encode16(x[k], symbols + i - LANES + 16 * k, entries, &end);
    for (int k = 0; k < 4; k++)
        _mm512_storeu_si512(state + 16 * k, x[k]);
    return end;
}

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
    __m512i next = _mm512_maskz_expand_epi16(refill, _mm512_loadu_si512(*words));
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

HOT bool decode_cells(enum predictor predictor, bool identity, const int16_t *n, int16_t *c, size_t columns, size_t width,
                      entropy_reader *in)
{
    const __m512i one = _mm512_set1_epi16(1);
    const uint8_t *words = in->words, *end = in->end;
    bit_reader escapes = in->escapes;
    __m512i state[4];
    for (int k = 0; k < 2; k++)
        states_load(in->state + 32 * k, state + 2 * k);
    for (size_t i = 0; i < columns * width; i += LANES) {
        __m512i outlook[2], prediction[2], z[2];
        __mmask32 escaped[2];
        for (int k = 0; k < 2; k++)
            prediction[k] = look32(predictor, n + i + 32 * k, c + i + 32 * k, width, &outlook[k]);
        for (int k = 0; k < 2; k++)
            z[k] = decode32(state + 2 * k, outlook[k], in->tables, &words, &escaped[k]);
        for (int k = 0; k < 2; k++) {
            if (escaped[k] && !read_escapes(&z[k], escaped[k], &escapes, in->escape_order))
                return false;
            __m512i sign = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z[k], one));
            __m512i r = identity ? z[k] : _mm512_xor_si512(_mm512_srli_epi16(z[k], 1), sign);
            _mm512_storeu_si512(c + i + 32 * k, _mm512_add_epi16(prediction[k], r));
        }
        if (words > end)
            return false;
    }
    for (int k = 0; k < 2; k++)
        states_store(state + 2 * k, in->state + 32 * k);
    in->words = words;
    in->escapes = escapes;
    return true;
}

bool decode_row_16_avx512(enum predictor predictor, bool identity, const void *above, void *row, size_t columns, size_t width,
                          entropy_reader *in)
{
    switch (predictor) {
    case PREDICT_MEDIAN: return decode_cells(PREDICT_MEDIAN, false, above, row, columns, width, in);
    case PREDICT_LORENZO: return decode_cells(PREDICT_LORENZO, false, above, row, columns, width, in);
    case PREDICT_LEFT: return decode_cells(PREDICT_LEFT, false, above, row, columns, width, in);
    default:
        return identity ? decode_cells(PREDICT_NONE, true, above, row, columns, width, in)
                        : decode_cells(PREDICT_NONE, false, above, row, columns, width, in);
    }
}
