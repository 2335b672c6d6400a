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

/* The median of a, b and a + b - c. A sum may wrap: the result lies between a and b, so it is right again. */
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

/* The neighbours of 32 cells. */
typedef struct wave_around {
    __m512i W, N, NW, NE;
} wave_around;

HOT wave_view wave_look32(enum predictor predictor, const wave_table *table, wave_around at, const int16_t *const back[2],
                          __mmask32 second)
{
    __m512i W = at.W, N = at.N, NW = at.NW, NE = at.NE, v;
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
            const int16_t *above = cell - 2 * WAVE_PITCH - 1;
            wave_around around = {load(cell - WAVE_PITCH), load(above), load(above - WAVE_PITCH), load(above + WAVE_PITCH)};
            wave_view view = wave_look32(predictor, &table, around, backs, (__mmask32)(second >> k));
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

/* ---- between codes and cells ---- */

/* Where a lane is: at place `place` of line `row`; below 0 before its first line. */
typedef struct wave_place {
    ptrdiff_t place;
    size_t row;
} wave_place;

/* At most a period further. */
HOT wave_place place_after(wave_place p, size_t steps, size_t period)
{
    p.place += (ptrdiff_t)steps;
    bool wraps = p.place >= (ptrdiff_t)period;
    p.place -= wraps ? (ptrdiff_t)period : 0;
    p.row += wraps ? LANES : 0;
    return p;
}

static void places_begin(wave_place places[LANES])
{
    for (int k = 0; k < LANES; k++)
        places[k] = (wave_place){-2 * k, (size_t)k};
}

/* Eight cells of a lane that are not all codes of one line. */
static __m128i edge_cells(const wave_shape *w, const int16_t *codes, wave_place p)
{
    int16_t cells[8];
    const ptrdiff_t columns = (ptrdiff_t)w->columns;
    for (int j = 0; j < 8; j++) {
        const int16_t *line = codes + p.row * w->columns;
        bool none = p.place < 0 || p.row >= w->rows || (p.place == 0 && p.row == 0);
        ptrdiff_t column = p.place == 0 ? -columns : (p.place < columns ? p.place : columns) - 1;
        cells[j] = none ? 0 : line[column];
        p = place_after(p, 1, w->period);
    }
    return _mm_loadu_si128((const __m128i *)cells);
}

/* The codes among eight cells of such a lane. */
static void edge_codes(const wave_shape *w, int16_t *codes, wave_place p, __m128i v)
{
    int16_t cells[8];
    _mm_storeu_si128((__m128i *)cells, v);
    for (int j = 0; j < 8; j++) {
        if (p.place >= 1 && p.place <= (ptrdiff_t)w->columns && p.row < w->rows)
            codes[p.row * w->columns + (size_t)p.place - 1] = cells[j];
        p = place_after(p, 1, w->period);
    }
}

HOT bool inside_line(const wave_shape *w, wave_place p)
{
    return p.row < w->rows && p.place >= 1 && p.place + 7 <= (ptrdiff_t)w->columns;
}

enum { WAVE_SPAN = 64 }; /* steps that are moved before the next eight lanes: a lane's codes are then whole cache lines */

static void wave_gather_16_avx512(const wave_shape *w, const void *codes, void *cells)
{
    const int16_t *q = codes;
    int16_t *origin = cells;
    wave_place places[LANES];
    places_begin(places);
    for (size_t first = 0; first < w->steps; first += WAVE_SPAN) {
        size_t end = first + WAVE_SPAN < w->steps ? first + WAVE_SPAN : w->steps;
        for (int lane = 0; lane < LANES; lane += 8)
            for (size_t t = first; t < end; t += 8) {
                __m128i r[8];
                for (int k = 0; k < 8; k++) {
                    wave_place *p = &places[lane + k];
                    r[k] = inside_line(w, *p)
                               ? _mm_loadu_si128((const __m128i *)(q + p->row * w->columns + (size_t)p->place - 1))
                               : edge_cells(w, q, *p);
                    *p = place_after(*p, 8, w->period);
                }
                transpose8(r);
                for (size_t k = 0; k < 8; k++)
                    _mm_storeu_si128((__m128i *)(origin + (t + k) * WAVE_PITCH + lane), r[k]);
            }
        for (size_t t = first; t < end; t++)
            WAVE_CARRY(origin, w, t);
    }
}

/* Moves WAVE_SPAN steps from `first` on, of which those from `end` on are not there. */
static void scatter_span(const wave_shape *w, const int16_t *origin, size_t first, size_t end, wave_place places[LANES],
                         int16_t *codes)
{
    for (int lane = 0; lane < LANES; lane += 8)
        for (size_t t = first; t < first + WAVE_SPAN && t < end; t += 8) {
            __m128i r[8];
            for (size_t k = 0; k < 8; k++)
                r[k] = _mm_loadu_si128((const __m128i *)(origin + (t + k) * WAVE_PITCH + lane));
            transpose8(r);
            for (int k = 0; k < 8; k++) {
                wave_place *p = &places[lane + k];
                if (inside_line(w, *p))
                    _mm_storeu_si128((__m128i *)(codes + p->row * w->columns + (size_t)p->place - 1), r[k]);
                else
                    edge_codes(w, codes, *p, r[k]);
                *p = place_after(*p, 8, w->period);
            }
        }
}

/* ---- decoding ---- */

/*
 * The neighbours of the next step, given the cells of this one and the value left of lane 0: what was above at the right is now
 * above, and so on. They stay in registers, since a load of what two stores have just written would have to wait for both.
 */
HOT void wave_advance(wave_around at[2], const __m512i cells[2], int16_t left_of_lane_0)
{
    const __m512i before = _mm512_sub_epi16(lane_numbers(), _mm512_set1_epi16(1)); /* 63 for lane 0: the last of the second */
    for (int k = 0; k < 2; k++) {
        at[k].NW = at[k].N;
        at[k].N = at[k].NE;
        at[k].W = cells[k];
        at[k].NE = _mm512_permutex2var_epi16(cells[k], before, k ? cells[0] : _mm512_set1_epi16(left_of_lane_0));
    }
}

HOT bool wave_decode_steps(enum predictor predictor, const wave_shape *w, int16_t *origin, entropy_reader *in, int16_t *codes)
{
    const wave_table table = decoder_table(predictor);
    const wave_back back = wave_back_of(w);
    const __m512i idle = _mm512_set1_epi16((short)table.idle), one = _mm512_set1_epi16(1), zero = _mm512_setzero_si512();
    const uint64_t second = (UINT64_C(1) << back.split) - 1;
    wave_clock clock = wave_clock_at(w, 0);
    const uint8_t *words = in->words, *end = in->end;
    bit_reader escapes = in->escapes;
    __m512i state[4];
    wave_place places[LANES];
    places_begin(places);
    wave_around around[2] = {{zero, zero, zero, zero}, {zero, zero, zero, zero}};
    for (int k = 0; k < 2; k++)
        states_load(in->state + 32 * k, state + 2 * k);
    for (size_t t = 0; t < w->steps; t++) {
        wave_lanes at = wave_tick(&clock);
        wave_view view[2];
        __m512i z[2], cells[2];
        __mmask32 escaped[2];
        for (int k = 0; k < 2; k++) {
            const int16_t *backs[2] = {origin + wave_back_at(&back, t, 0) + 32 * k,
                                       origin + wave_back_at(&back, t, 1) + 32 * k};
            view[k] = wave_look32(predictor, &table, around[k], backs, (__mmask32)(second >> 32 * k));
        }
        for (int k = 0; k < 2; k++) {
            __m512i entry = _mm512_mask_mov_epi16(idle, (__mmask32)(at.active >> 32 * k), view[k].entry);
            z[k] = decode32(state + 2 * k, entry, in->tables, &words, &escaped[k]);
        }
        for (int k = 0; k < 2; k++) {
            if (escaped[k] && !read_escapes(&z[k], escaped[k], &escapes, in->escape_order))
                return false;
            __m512i r = _mm512_xor_si512(_mm512_srli_epi16(z[k], 1), _mm512_sub_epi16(zero, _mm512_and_si512(z[k], one)));
            __m512i c = _mm512_add_epi16(view[k].prediction, change_sign(r, view[k].sign));
            __m512i padding = _mm512_mask_mov_epi16(around[k].W, (__mmask32)(at.left >> 32 * k), around[k].NE);
            cells[k] = _mm512_mask_mov_epi16(padding, (__mmask32)(at.active >> 32 * k), c);
            _mm512_storeu_si512(origin + t * WAVE_PITCH + 32 * k, cells[k]);
        }
        wave_advance(around, cells, WAVE_CARRY(origin, w, t));
        if (t % WAVE_SPAN == WAVE_SPAN - 1) /* while they are in the first-level cache */
            scatter_span(w, origin, t + 1 - WAVE_SPAN, t + 1, places, codes);
        if (words > end)
            return false;
    }
    scatter_span(w, origin, w->steps / WAVE_SPAN * WAVE_SPAN, w->steps, places, codes);
    for (int k = 0; k < 2; k++)
        states_store(state + 2 * k, in->state + 32 * k);
    in->words = words;
    in->escapes = escapes;
    return true;
}

static bool wave_decode_16_avx512(const wave_shape *w, enum predictor predictor, void *cells, entropy_reader *in, void *codes)
{
    return predictor == PREDICT_VOLUME ? wave_decode_steps(PREDICT_VOLUME, w, cells, in, codes)
                                       : wave_decode_steps(PREDICT_WAVE, w, cells, in, codes);
}

#define CODE int32_t
#define UCODE uint32_t
#define SUM int64_t
#define NAME(stem) stem##_32_generic
#include "codec/kernels/wave_body.h"

const wave_kernels wave_kernels_avx512 = {
    .gather = {wave_gather_16_avx512, wave_gather_32_generic},
    .model = {wave_model_16_avx512, wave_model_32_generic},
    .decode = {wave_decode_16_avx512, wave_decode_32_generic},
};
