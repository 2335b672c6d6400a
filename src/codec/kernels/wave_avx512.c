/* Lanes in a wave on AVX-512, 16-bit codes: 64 lanes are two registers of cells. */
#include "codec/kernels/dense_avx512.h"
#include "codec/kernels/wave.h"

/* An outlook (kernels.h) that has each context, so that decode32 finds its tables. */
static const uint16_t outlook_of_context[32] = {0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 19, 23};

/* Contexts, or outlooks that have them, by the outlook of a wave; the idle one. */
typedef struct wave_table {
    uint16_t by_outlook[WAVE_OUTLOOKS];
    uint16_t idle;
} wave_table;

static wave_table encoder_table(enum predictor predictor)
{
    wave_table t = {.idle = WAVE_IDLE << 4};
    for (int i = 0; i < WAVE_OUTLOOKS; i++)
        t.by_outlook[i] = (uint16_t)(wave_context[predictor == PREDICT_VOLUME][i] << 4);
    return t;
}

static wave_table decoder_table(enum predictor predictor)
{
    wave_table t = {.idle = outlook_of_context[WAVE_IDLE]};
    for (int i = 0; i < WAVE_OUTLOOKS; i++)
        t.by_outlook[i] = outlook_of_context[wave_context[predictor == PREDICT_VOLUME][i]];
    return t;
}

/* What 32 lanes expect. */
typedef struct wave_view {
    __m512i prediction, entry; /* entry: of the table */
    __m512i sign;              /* -1 in lanes whose residual is coded with its sign changed, else 0 */
} wave_view;

HOT __m512i load(const int16_t *cells)
{
    return _mm512_loadu_si512(cells);
}

/* The median of a, b and a + b - c. A sum that wraps on the way comes back, since the result lies between a and b. */
HOT __m512i median32(__m512i a, __m512i b, __m512i c)
{
    __m512i low = _mm512_min_epi16(a, b), high = _mm512_max_epi16(a, b);
    __m512i middle = _mm512_min_epi16(_mm512_max_epi16(c, low), high);
    return _mm512_sub_epi16(_mm512_add_epi16(low, high), middle);
}

HOT __m512i clip32(__m512i v, short most)
{
    return _mm512_max_epi16(_mm512_min_epi16(v, _mm512_set1_epi16(most)), _mm512_set1_epi16((short)-most));
}

HOT __m512i times(__m512i v, short factor)
{
    return _mm512_mullo_epi16(v, _mm512_set1_epi16(factor));
}

/* The same place of the plane before, `by` cells on: lanes below the split come from the second part. */
HOT __m512i load_back(const int16_t *const back[2], __mmask32 second, ptrdiff_t by)
{
    return _mm512_mask_mov_epi16(load(back[0] + by), second, load(back[1] + by));
}

HOT wave_view wave_look32(enum predictor predictor, const wave_table *table, const int16_t *cell, const int16_t *const back[2],
                          __mmask32 second)
{
    const int16_t *above = cell - 2 * WAVE_PITCH - 1;
    __m512i W = load(cell - WAVE_PITCH), N = load(above), NW = load(above - WAVE_PITCH), NE = load(above + WAVE_PITCH), v;
    wave_view view = {.prediction = median32(W, N, NW)};
    if (predictor == PREDICT_VOLUME) {
        const ptrdiff_t up = -2 * WAVE_PITCH - 1;
        __m512i a = _mm512_sub_epi16(W, load_back(back, second, -WAVE_PITCH));
        __m512i b = _mm512_sub_epi16(N, load_back(back, second, up));
        __m512i c = _mm512_sub_epi16(NW, load_back(back, second, up - WAVE_PITCH));
        __m512i e = _mm512_sub_epi16(NE, load_back(back, second, up + WAVE_PITCH));
        __m512i plane = view.prediction;
        view.prediction = _mm512_add_epi16(load_back(back, second, 0), median32(a, b, c));
        __m512i high = _mm512_add_epi16(times(clip32(_mm512_sub_epi16(plane, view.prediction), 2), 27),
                                        times(clip32(_mm512_sub_epi16(a, c), 1), 9));
        v = _mm512_add_epi16(_mm512_add_epi16(high, times(clip32(_mm512_sub_epi16(b, c), 1), 3)),
                             clip32(_mm512_sub_epi16(e, b), 1));
    } else {
        v = _mm512_add_epi16(
            _mm512_add_epi16(times(clip32(_mm512_sub_epi16(W, NW), 2), 25), times(clip32(_mm512_sub_epi16(N, NW), 2), 5)),
            clip32(_mm512_sub_epi16(NE, N), 2));
    }
    __m512i outlook = _mm512_min_epi16(_mm512_abs_epi16(v), _mm512_set1_epi16(WAVE_OUTLOOKS - 1));
    view.entry =
        _mm512_permutex2var_epi16(_mm512_loadu_si512(table->by_outlook), outlook, _mm512_loadu_si512(table->by_outlook + 32));
    view.sign = _mm512_srai_epi16(v, 15);
    return view;
}

/* -v where sign is -1. */
HOT __m512i change_sign(__m512i v, __m512i sign)
{
    return _mm512_sub_epi16(_mm512_xor_si512(v, sign), sign);
}

HOT uint32_t *wave_model_steps(enum predictor predictor, const wave_shape *w, const int16_t *origin, size_t first,
                               size_t n_steps, uint16_t *symbols, uint32_t *escapes)
{
    const wave_table table = encoder_table(predictor);
    const wave_back back = wave_back_of(w);
    const __m512i idle = _mm512_set1_epi16((short)table.idle);
    const uint64_t second = (UINT64_C(1) << back.split) - 1;
    wave_clock clock = wave_clock_at(w, first);
    for (size_t t = first; t < first + n_steps; t++) {
        uint64_t active = wave_tick(&clock).active;
        for (int k = 0; k < LANES; k += 32, symbols += 32) {
            const int16_t *cell = origin + t * WAVE_PITCH + k;
            const int16_t *backs[2] = {origin + wave_back_at(&back, t, 0) + k, origin + wave_back_at(&back, t, 1) + k};
            wave_view view = wave_look32(predictor, &table, cell, backs, (__mmask32)(second >> k));
            __mmask32 coded = (__mmask32)(active >> k);
            __m512i z = zigzag32(change_sign(_mm512_sub_epi16(load(cell), view.prediction), view.sign));
            __m512i all = _mm512_or_si512(symbols_of(z), view.entry);
            _mm512_storeu_si512(symbols, _mm512_mask_mov_epi16(idle, coded, all));
            __mmask32 large = escaping(z) & coded;
            if (large)
                escapes = append_escapes(z, large, escapes);
        }
    }
    return escapes;
}

static uint32_t *wave_model_16_avx512(const wave_shape *w, enum predictor predictor, const void *cells, size_t first,
                                      size_t n_steps, uint16_t *symbols, uint32_t *escapes)
{
    return predictor == PREDICT_VOLUME ? wave_model_steps(PREDICT_VOLUME, w, cells, first, n_steps, symbols, escapes)
                                       : wave_model_steps(PREDICT_WAVE, w, cells, first, n_steps, symbols, escapes);
}

HOT bool wave_decode_steps(enum predictor predictor, const wave_shape *w, int16_t *origin, entropy_reader *in)
{
    const wave_table table = decoder_table(predictor);
    const wave_back back = wave_back_of(w);
    const __m512i idle = _mm512_set1_epi16((short)table.idle), one = _mm512_set1_epi16(1);
    const uint64_t second = (UINT64_C(1) << back.split) - 1;
    wave_clock clock = wave_clock_at(w, 0);
    const uint8_t *words = in->words, *end = in->end;
    bit_reader escapes = in->escapes;
    __m512i state[4];
    for (int k = 0; k < 2; k++)
        states_load(in->state + 32 * k, state + 2 * k);
    for (size_t t = 0; t < w->steps; t++) {
        wave_lanes at = wave_tick(&clock);
        int16_t *cells = origin + t * WAVE_PITCH;
        wave_view view[2];
        __m512i z[2];
        __mmask32 escaped[2];
        for (int k = 0; k < 2; k++) {
            const int16_t *backs[2] = {origin + wave_back_at(&back, t, 0) + 32 * k,
                                       origin + wave_back_at(&back, t, 1) + 32 * k};
            view[k] = wave_look32(predictor, &table, cells + 32 * k, backs, (__mmask32)(second >> 32 * k));
        }
        for (int k = 0; k < 2; k++) {
            __m512i entry = _mm512_mask_mov_epi16(idle, (__mmask32)(at.active >> 32 * k), view[k].entry);
            z[k] = decode32(state + 2 * k, entry, in->tables, &words, &escaped[k]);
        }
        for (int k = 0; k < 2; k++) {
            if (escaped[k] && !read_escapes(&z[k], escaped[k], &escapes, in->escape_order))
                return false;
            int16_t *cell = cells + 32 * k;
            __m512i r = _mm512_xor_si512(_mm512_srli_epi16(z[k], 1),
                                         _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z[k], one)));
            __m512i c = _mm512_add_epi16(view[k].prediction, change_sign(r, view[k].sign));
            __m512i padding =
                _mm512_mask_mov_epi16(load(cell - WAVE_PITCH), (__mmask32)(at.left >> 32 * k), load(cell - WAVE_PITCH - 1));
            _mm512_storeu_si512(cell, _mm512_mask_mov_epi16(padding, (__mmask32)(at.active >> 32 * k), c));
        }
        WAVE_CARRY(origin, w, t);
        if (words > end)
            return false;
    }
    for (int k = 0; k < 2; k++)
        states_store(state + 2 * k, in->state + 32 * k);
    in->words = words;
    in->escapes = escapes;
    return true;
}

static bool wave_decode_16_avx512(const wave_shape *w, enum predictor predictor, void *cells, entropy_reader *in)
{
    return predictor == PREDICT_VOLUME ? wave_decode_steps(PREDICT_VOLUME, w, cells, in)
                                       : wave_decode_steps(PREDICT_WAVE, w, cells, in);
}

#define CODE int16_t
#define UCODE uint16_t
#define SUM int32_t
#define NAME(stem) stem##_16_generic
#include "codec/kernels/wave_body.h"

#define CODE int32_t
#define UCODE uint32_t
#define SUM int64_t
#define NAME(stem) stem##_32_generic
#include "codec/kernels/wave_body.h"

const wave_kernels wave_kernels_avx512 = {
    .gather = {wave_gather_16_generic, wave_gather_32_generic},
    .scatter = {wave_scatter_16_generic, wave_scatter_32_generic},
    .model = {wave_model_16_avx512, wave_model_32_generic},
    .decode = {wave_decode_16_avx512, wave_decode_32_generic},
};
