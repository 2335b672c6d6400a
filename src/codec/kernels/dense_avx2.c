/*
 * Level dense on AVX2, 16-bit codes: rows of cells, contexts, entropy coder. 64 lanes are 4 registers of cells and 8 of states.
 * Contexts and symbols are looked up 32 at a time, as bytes, by shuffles. Entries of the coder's tables are loaded one by one:
 * gathers took longer.
 */
#include "codec/kernels/avx2.h"
#include "codec/kernels/cell_rows.h"

void gather_row_16_avx2(const lanes *g, const void *codes, size_t row, void *cells)
{
    gather_row_16_moved(g, codes, row, cells);
}

void scatter_row_16_avx2(const lanes *g, const void *cells, size_t row, void *codes)
{
    scatter_row_16_moved(g, cells, row, codes);
}

/* ---- contexts ---- */

/* A table of 16 bytes for shuffles. */
HOT __m256i table16(const uint8_t bytes[16])
{
    return _mm256_broadcastsi128_si256(load16(bytes));
}

HOT __m256i distance16(__m256i a, __m256i b)
{
    return _mm256_abs_epi16(_mm256_sub_epi16(a, b));
}

/* Predictions of 16 cells; *gradient and *magnitude are cut off at 31 and 15. Codes are small enough for every sum to fit. */
HOT __m256i look16(enum predictor predictor, const int16_t *above, const int16_t *cell, size_t width, __m256i *gradient,
                   __m256i *magnitude)
{
    __m256i W = load32(cell - width), N = load32(above), NW = load32(above - width), NE = load32(above + width);
    __m256i prediction = _mm256_setzero_si256(), m, g;
    __m256i plane = _mm256_sub_epi16(_mm256_add_epi16(W, N), NW);
    switch (predictor) {
    case PREDICT_MEDIAN:
        m = prediction = _mm256_min_epi16(_mm256_max_epi16(plane, _mm256_min_epi16(W, N)), _mm256_max_epi16(W, N));
        break;
    case PREDICT_LORENZO: m = prediction = plane; break;
    case PREDICT_LEFT: m = prediction = W; break;
    default: m = _mm256_add_epi16(W, N); break;
    }
    if (predictor == PREDICT_LEFT)
        g = _mm256_slli_epi16(distance16(W, load32(cell - 2 * width)), 1);
    else
        g = _mm256_add_epi16(_mm256_add_epi16(distance16(W, NW), distance16(N, NW)), distance16(N, NE));
    *gradient = _mm256_min_epu16(g, _mm256_set1_epi16(31));
    *magnitude = _mm256_min_epu16(_mm256_abs_epi16(m), _mm256_set1_epi16(15));
    return prediction;
}

/* The outlook (dense_model.h) is the sum of both: four times the level of a gradient up to 23, and the level of a magnitude. */
static const uint8_t gradient_outlook[16] = {0, 4, 4, 8, 8, 8, 12, 12, 12, 12, 12, 12, 16, 16, 16, 16};
static const uint8_t magnitude_outlook[16] = {0, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
/* Contexts by outlook, in two tables. */
static const uint8_t context_low[16] = {0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 7, 11, 12, 13};
static const uint8_t context_high[16] = {7, 11, 12, 14, 7, 11, 12, 15};

/* Contexts of 32 cells as bytes, in the order that packus gives. */
HOT __m256i contexts32(const __m256i gradient[2], const __m256i magnitude[2])
{
    __m256i g = _mm256_packus_epi16(gradient[0], gradient[1]), m = _mm256_packus_epi16(magnitude[0], magnitude[1]);
    __m256i steep = _mm256_and_si256(_mm256_cmpgt_epi8(g, _mm256_set1_epi8(23)), _mm256_set1_epi8(4));
    __m256i level = _mm256_shuffle_epi8(table16(gradient_outlook), _mm256_min_epu8(g, _mm256_set1_epi8(15)));
    __m256i outlook = _mm256_add_epi8(_mm256_add_epi8(level, steep), _mm256_shuffle_epi8(table16(magnitude_outlook), m));
    /* An index with its highest bit set gives 0: of the two tables, only the one that the outlook lies in gives a context. */
    __m256i low = _mm256_shuffle_epi8(table16(context_low), _mm256_adds_epu8(outlook, _mm256_set1_epi8(0x70)));
    __m256i high = _mm256_shuffle_epi8(table16(context_high), _mm256_sub_epi8(outlook, _mm256_set1_epi8(16)));
    return _mm256_or_si256(low, high);
}

/* Symbols of residuals below 16, and of larger ones by an eighth of the residual (0 below 16). */
static const uint8_t symbol_small[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9};
static const uint8_t symbol_large[16] = {0, 0, 10, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14};

/* Symbols of 32 residuals, which are ESCAPE_LEAST at most. */
HOT __m256i symbols32(__m256i z)
{
    const __m256i fifteen = _mm256_set1_epi8(15);
    __m256i small = _mm256_shuffle_epi8(table16(symbol_small), _mm256_min_epu8(z, fifteen));
    __m256i eighth = _mm256_and_si256(_mm256_srli_epi16(z, 3), _mm256_set1_epi8(31));
    __m256i large = _mm256_shuffle_epi8(table16(symbol_large), _mm256_min_epu8(eighth, fifteen));
    __m256i escaped = _mm256_cmpeq_epi8(z, _mm256_set1_epi8((char)ESCAPE_LEAST));
    return _mm256_sub_epi8(_mm256_max_epu8(small, large), escaped);
}

/* Appends those of 32 residuals that are escapes. */
static __attribute__((noinline)) uint32_t *append_escapes(const __m256i z[2], uint32_t *escapes)
{
    uint16_t all[32];
    store32(all, z[0]);
    store32(all + 16, z[1]);
    for (int i = 0; i < 32; i++) {
        *escapes = (uint32_t)all[i] - ESCAPE_LEAST;
        escapes += all[i] >= ESCAPE_LEAST;
    }
    return escapes;
}

HOT uint32_t *model_cells(enum predictor predictor, bool identity, const int16_t *n, const int16_t *c, size_t columns,
                          size_t width, uint16_t *symbols, uint32_t *escapes)
{
    const __m256i least = _mm256_set1_epi16(ESCAPE_LEAST), base = table16(symbol_base);
    for (size_t i = 0; i < columns * width; i += 32) {
        __m256i gradient[2], magnitude[2], z[2];
        for (int k = 0; k < 2; k++) {
            __m256i prediction = look16(predictor, n + i + 16 * k, c + i + 16 * k, width, &gradient[k], &magnitude[k]);
            __m256i r = _mm256_sub_epi16(load32(c + i + 16 * k), prediction);
            z[k] = identity ? r : zigzag16(r);
        }
        __m256i bytes = _mm256_packus_epi16(_mm256_min_epu16(z[0], least), _mm256_min_epu16(z[1], least));
        __m256i symbol = symbols32(bytes), raw = _mm256_sub_epi8(bytes, _mm256_shuffle_epi8(base, symbol));
        __m256i context = _mm256_slli_epi16(contexts32(gradient, magnitude), 4);
        __m256i both = _mm256_or_si256(symbol, context);
        store32(symbols + i, _mm256_unpacklo_epi8(both, raw));
        store32(symbols + i + 16, _mm256_unpackhi_epi8(both, raw));
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8((char)ESCAPE_LEAST))))
            escapes = append_escapes(z, escapes);
    }
    return escapes;
}

uint32_t *model_row_16_avx2(enum predictor predictor, bool identity, const void *above, const void *row, size_t columns,
                            size_t width, uint16_t *symbols, uint32_t *escapes)
{
    switch (predictor) {
    case PREDICT_MEDIAN: return model_cells(PREDICT_MEDIAN, false, above, row, columns, width, symbols, escapes);
    case PREDICT_LORENZO: return model_cells(PREDICT_LORENZO, false, above, row, columns, width, symbols, escapes);
    case PREDICT_LEFT: return model_cells(PREDICT_LEFT, false, above, row, columns, width, symbols, escapes);
    default: return model_cells(PREDICT_NONE, identity, above, row, columns, width, symbols, escapes);
    }
}

/* ---- entropy coder ---- */

/* x / f of 8 lanes for f <= PROB_SCALE and a quotient below 2^22, and the remainder. Division of floats is off by one at most:
 * x is off by less than 2^-23.4 of itself (it is converted as a signed number, then 2^32 is added to negative ones), the
 * quotient by another 2^-24. The remainder corrects it. */
HOT __m256i divide(__m256i x, __m256i f, __m256i *remainder)
{
    __m256 wrapped = _mm256_blendv_ps(_mm256_setzero_ps(), _mm256_set1_ps(0x1p32f), _mm256_castsi256_ps(x));
    __m256 value = _mm256_add_ps(_mm256_cvtepi32_ps(x), wrapped);
    __m256i q = _mm256_cvttps_epi32(_mm256_div_ps(value, _mm256_cvtepi32_ps(f)));
    __m256i r = _mm256_sub_epi32(x, _mm256_mullo_epi32(q, f));
    __m256i above = _mm256_srai_epi32(r, 31); /* all ones where q is too large */
    q = _mm256_add_epi32(q, above);
    r = _mm256_add_epi32(r, _mm256_and_si256(above, f));
    __m256i within = _mm256_cmpgt_epi32(f, r);
    q = _mm256_add_epi32(q, _mm256_andnot_si256(within, _mm256_set1_epi32(1)));
    *remainder = _mm256_sub_epi32(r, _mm256_andnot_si256(within, f));
    return q;
}

/* 8 lanes, one symbol each, backwards. */
HOT __m256i encode8(__m256i x, const uint16_t *symbols, const uint32_t *entries, uint8_t **end)
{
    __m256i s = _mm256_cvtepu16_epi32(load16(symbols));
#define ENTRY(i) (int)entries[symbols[i] & 0xff]
    __m256i entry = _mm256_setr_epi32(ENTRY(0), ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4), ENTRY(5), ENTRY(6), ENTRY(7));
#undef ENTRY
    __m256i f = _mm256_and_si256(entry, _mm256_set1_epi32(0xffff)), raw_bits = _mm256_srli_epi32(entry, 28);
    __m256i start = _mm256_and_si256(_mm256_srli_epi32(entry, 16), _mm256_set1_epi32(0xfff));
    __m256i most = _mm256_srlv_epi32(x, _mm256_sub_epi32(_mm256_set1_epi32(32 - PROB_BITS), raw_bits));
    __m256i room = _mm256_cmpgt_epi32(f, most); /* both are below 2^23 */
    unsigned full = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(room)) & 255;
    /* The words of the full lanes, moved up against *end; what lies below them is overwritten later. */
    __m256i words = _mm256_permutevar8x32_epi32(x, _mm256_cvtepu8_epi32(load8(&shuffle_up[full])));
    words = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    _mm_storeu_si128((__m128i *)(*end - 16),
                     _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    *end -= 2 * (unsigned)__builtin_popcount(full);
    x = _mm256_srlv_epi32(x, _mm256_andnot_si256(room, _mm256_set1_epi32(16)));
    __m256i r, q = divide(x, f, &r);
    q = _mm256_or_si256(_mm256_sllv_epi32(q, raw_bits), _mm256_srli_epi32(s, 8));
    return _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(q, PROB_BITS), r), start);
}

uint8_t *entropy_encode_avx2(const uint16_t *symbols, size_t n, const uint32_t entries[N_CONTEXTS * N_SYMBOLS], uint8_t *end,
                             uint32_t state[LANES])
{
    __m256i x[8];
    for (int k = 0; k < 8; k++)
        x[k] = load32(state + 8 * k);
    for (size_t i = n; i > 0; i -= LANES)
        for (int k = 7; k >= 0; k--)
            x[k] = encode8(x[k], symbols + i - LANES + 8 * k, entries, &end);
    for (int k = 0; k < 8; k++)
        store32(state + 8 * k, x[k]);
    return end;
}

static const uint8_t raw_mask[16] = {0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 7, 15, 31, 31, 63, 0}; /* by symbol */

/* Residuals of 8 lanes, by `context` << PROB_BITS, as doublewords. */
HOT __m256i decode8(__m256i *state, __m256i context, const symbol_tables *t, const uint8_t **words)
{
    __m256i x = *state;
    __m256i slot = _mm256_and_si256(x, _mm256_set1_epi32(PROB_SCALE - 1));
    _Alignas(32) uint32_t place[8];
    _mm256_store_si256((__m256i *)place, _mm256_or_si256(context, slot));
    const uint8_t *symbol_in = t->symbol[0]; /* all contexts */
#define ENTRY(i) (int)t->entry[symbol_in[place[i]]]
    __m256i entry = _mm256_setr_epi32(ENTRY(0), ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4), ENTRY(5), ENTRY(6), ENTRY(7));
#undef ENTRY
    __m256i symbol = _mm256_and_si256(_mm256_srli_epi32(entry, DECODER_SYMBOL), _mm256_set1_epi32(15));
    __m256i raw = _mm256_and_si256(_mm256_srli_epi32(x, PROB_BITS), _mm256_shuffle_epi8(table16(raw_mask), symbol));
    __m256i z = _mm256_add_epi32(raw, _mm256_shuffle_epi8(table16(symbol_base), symbol));
    __m256i frequency = _mm256_and_si256(_mm256_srli_epi32(entry, DECODER_FREQUENCY), _mm256_set1_epi32(2 * PROB_SCALE - 1));
    __m256i offset = _mm256_sub_epi32(slot, _mm256_and_si256(entry, _mm256_set1_epi32(PROB_SCALE - 1)));
    x = _mm256_srlv_epi32(x, _mm256_srli_epi32(entry, DECODER_SHIFT));
    x = _mm256_add_epi32(_mm256_mullo_epi32(x, frequency), offset);
    __m256i low = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
    unsigned refill = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(low));
    __m256i next =
        _mm256_permutevar8x32_epi32(_mm256_cvtepu16_epi32(load16(*words)), _mm256_cvtepu8_epi32(load8(&shuffle_apart[refill])));
    *words += 2 * (unsigned)__builtin_popcount(refill);
    x = _mm256_sllv_epi32(x, _mm256_and_si256(low, _mm256_set1_epi32(16)));
    *state = _mm256_or_si256(x, _mm256_and_si256(next, low));
    return z;
}

/* Reads those of 32 residuals that are stored as escapes; false if there are too few. */
static __attribute__((noinline)) bool read_escapes(uint16_t z[32], bit_reader *r, unsigned order)
{
    for (int i = 0; i < 32; i++)
        if (z[i] == ESCAPE_LEAST) {
            uint64_t v;
            if (!read_escape(r, order, &v))
                return false;
            z[i] = (uint16_t)v;
        }
    return true;
}

/* Replaces the escapes among 32 residuals; false if there are too few. */
HOT bool complete(__m256i z[2], bit_reader *escapes, unsigned order)
{
    const __m256i least = _mm256_set1_epi16(ESCAPE_LEAST); /* of the residuals decoded so far, only escapes have this value */
    __m256i any = _mm256_or_si256(_mm256_cmpeq_epi16(z[0], least), _mm256_cmpeq_epi16(z[1], least));
    if (_mm256_testz_si256(any, any))
        return true;
    uint16_t all[32];
    store32(all, z[0]);
    store32(all + 16, z[1]);
    if (!read_escapes(all, escapes, order))
        return false;
    z[0] = load32(all);
    z[1] = load32(all + 16);
    return true;
}

/* 16 cells by context << PROB_BITS, as words. */
HOT __m256i decode16(__m256i state[2], __m256i context, const symbol_tables *t, const uint8_t **words)
{
    __m256i low = decode8(&state[0], _mm256_cvtepu16_epi32(_mm256_castsi256_si128(context)), t, words);
    __m256i high = decode8(&state[1], _mm256_cvtepu16_epi32(_mm256_extracti128_si256(context, 1)), t, words);
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0));
}

/* Goes by halves of the lanes: the neighbours of one half are known long before the other half is done. */
HOT bool decode_cells(enum predictor predictor, bool identity, const int16_t *n, int16_t *c, size_t columns, size_t width,
                      entropy_reader *in)
{
    const __m256i zero = _mm256_setzero_si256();
    const symbol_tables *tables = in->tables;
    const uint8_t *words = in->words, *end = in->end;
    bit_reader escapes = in->escapes;
    __m256i state[8];
    for (int k = 0; k < 8; k++)
        state[k] = load32(in->state + 8 * k);
    for (size_t i = 0; i < columns * width; i += 32) {
        __m256i prediction[2], gradient[2], magnitude[2], z[2], *x = state + i / 8 % 8;
        for (int k = 0; k < 2; k++)
            prediction[k] = look16(predictor, n + i + 16 * k, c + i + 16 * k, width, &gradient[k], &magnitude[k]);
        /* contexts times 4 as the upper bytes of words are contexts << PROB_BITS */
        __m256i contexts = _mm256_slli_epi16(contexts32(gradient, magnitude), PROB_BITS - 8);
        z[0] = decode16(x, _mm256_unpacklo_epi8(zero, contexts), tables, &words);
        z[1] = decode16(x + 2, _mm256_unpackhi_epi8(zero, contexts), tables, &words);
        if (!complete(z, &escapes, in->escape_order))
            return false;
        for (int k = 0; k < 2; k++)
            store32(c + i + 16 * k, _mm256_add_epi16(prediction[k], identity ? z[k] : unzigzag16(z[k])));
        if (words > end)
            return false;
    }
    for (int k = 0; k < 8; k++)
        store32(in->state + 8 * k, state[k]);
    in->words = words;
    in->escapes = escapes;
    return true;
}

bool decode_row_16_avx2(enum predictor predictor, bool identity, const void *above, void *row, size_t columns, size_t width,
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
