/*
 * Level dense on AVX-512, 16-bit codes: rows of cells, contexts, entropy coder. 64 lanes are 2 registers of cells and 4 of
 * states. Decoding looks symbols up by permutations of tables that fit one or two registers: gathers take 18 cycles each.
 */
#include "codec/kernels/dense_avx512.h"

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

static const uint16_t model_context[32] = {0,   16,  16,  32,  48,  64,  80,  96,  112, 128, 144, 160,
                                           112, 176, 192, 208, 112, 176, 192, 224, 112, 176, 192, 240}; /* << 4, by outlook */
HOT uint32_t *model_cells(enum predictor predictor, bool identity, const int16_t *n, const int16_t *c, size_t columns,
                          size_t width, uint16_t *symbols, uint32_t *escapes)
{
    const __m512i contexts = _mm512_loadu_si512(model_context);
    for (size_t i = 0; i < columns * width; i += 32) {
        __m512i outlook, prediction = look32(predictor, n + i, c + i, width, &outlook);
        __m512i r = _mm512_sub_epi16(_mm512_loadu_si512(c + i), prediction);
        __m512i z = identity ? r : zigzag32(r);
        __m512i context = _mm512_permutexvar_epi16(outlook, contexts);
        _mm512_storeu_si512(symbols + i, _mm512_or_si512(symbols_of(z), context));
        __mmask32 large = escaping(z);
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
