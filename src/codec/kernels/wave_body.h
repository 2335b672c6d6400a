/*
 * Lanes in a wave, for one code width. Included with CODE (signed), UCODE (unsigned), SUM (signed, wide enough for a sum of six
 * codes) and NAME(stem) defined, after dense_body.h for the same width.
 */

typedef struct NAME(wave_outlook) {
    SUM prediction;
    unsigned context;
    bool flip; /* the residual is coded with its sign changed */
} NAME(wave_outlook);

static inline SUM NAME(clip)(SUM v, SUM most)
{
    return v < -most ? -most : v > most ? most : v;
}

/* The median of a, b and a + b - c. */
static inline SUM NAME(median)(SUM a, SUM b, SUM c)
{
    SUM low = a < b ? a : b, high = a < b ? b : a;
    return low + high - (c < low ? low : c > high ? high : c);
}

/* `back` is the same place in the plane before, for predictor VOLUME. */
static inline NAME(wave_outlook) NAME(wave_look)(enum predictor predictor, const CODE *cell, const CODE *back)
{
    const CODE *above = cell - 2 * WAVE_PITCH - 1;
    SUM W = cell[-WAVE_PITCH], N = above[0], NW = above[-WAVE_PITCH], NE = above[WAVE_PITCH];
    SUM prediction = NAME(median)(W, N, NW), v;
    if (predictor == PREDICT_VOLUME) {
        const CODE *back_above = back - 2 * WAVE_PITCH - 1;
        SUM a = W - back[-WAVE_PITCH], b = N - back_above[0];
        SUM c = NW - back_above[-WAVE_PITCH], e = NE - back_above[WAVE_PITCH];
        SUM plane = prediction;
        prediction = back[0] + NAME(median)(a, b, c);
        v = 27 * NAME(clip)(plane - prediction, 2) + 9 * NAME(clip)(a - c, 1) + 3 * NAME(clip)(b - c, 1) + NAME(clip)(e - b, 1);
    } else {
        v = 25 * NAME(clip)(W - NW, 2) + 5 * NAME(clip)(N - NW, 2) + NAME(clip)(NE - N, 2);
    }
    SUM outlook = v < 0 ? -v : v;
    outlook = outlook < WAVE_OUTLOOKS ? outlook : WAVE_OUTLOOKS - 1;
    return (NAME(wave_outlook)){prediction, wave_context[predictor == PREDICT_VOLUME][outlook], v < 0};
}

static inline uint32_t *NAME(wave_model)(const wave_shape *w, enum predictor predictor, const void *cells, size_t first,
                                         size_t n_steps, uint16_t *symbols, uint32_t *escapes)
{
    const CODE *origin = cells;
    wave_back back = wave_back_of(w);
    wave_clock clock = wave_clock_at(w, first);
    for (size_t t = first; t < first + n_steps; t++) {
        wave_lanes at = wave_tick(&clock);
        const CODE *backs[2] = {origin + wave_back_at(&back, t, 0), origin + wave_back_at(&back, t, 1)};
        for (unsigned k = 0; k < LANES; k++, symbols++) {
            const CODE *cell = origin + t * WAVE_PITCH + k;
            *symbols = WAVE_IDLE << 4;
            if (!(at.active >> k & 1))
                continue;
            NAME(wave_outlook) o = NAME(wave_look)(predictor, cell, backs[k < back.split] + k);
            UCODE r = (UCODE)((UCODE)*cell - (UCODE)o.prediction);
            UCODE z = NAME(zigzag)(o.flip ? (UCODE)(0 - r) : r);
            unsigned symbol = symbol_of(z), raw = symbol == ESCAPE ? 0 : (unsigned)z - symbol_base[symbol];
            if (symbol == ESCAPE)
                *escapes++ = (uint32_t)z - ESCAPE_LEAST;
            *symbols = (uint16_t)(raw << 8 | o.context << 4 | symbol);
        }
    }
    return escapes;
}

/* Cells in tiles that stay in the first-level cache. */
enum { NAME(WAVE_TILE) = 32 };

static inline void NAME(wave_gather)(const wave_shape *w, const void *codes, void *cells)
{
    const CODE *q = codes;
    CODE *origin = cells;
    size_t strips = (w->rows + LANES - 1) / LANES, tile = NAME(WAVE_TILE);
    for (unsigned k = 0; k < LANES; k++) /* before a lane's first line */
        for (size_t t = 0; t < 2 * k && t < w->steps; t++)
            origin[t * WAVE_PITCH + k] = 0;
    for (size_t s = 0; s < strips; s++)
        for (size_t begin = 0; begin < w->period; begin += tile)
            for (size_t k = 0; k < LANES; k++) {
                size_t row = s * LANES + k, start = s * w->period + 2 * k;
                const CODE *line = q + (row < w->rows ? row : 0) * w->columns;
                for (size_t place = begin; place < begin + tile && place < w->period && start + place < w->steps; place++) {
                    CODE c = 0;
                    if (row < w->rows)
                        c = place - 1 < w->columns ? line[place - 1]
                            : place                ? line[w->columns - 1]
                            : row                  ? line[-(ptrdiff_t)w->columns]
                                                   : 0;
                    origin[(start + place) * WAVE_PITCH + k] = c;
                }
            }
    for (size_t t = 0; t < w->steps; t++)
        WAVE_CARRY(origin, w, t);
}

static inline void NAME(wave_scatter)(const wave_shape *w, const void *cells, void *codes)
{
    const CODE *origin = cells;
    CODE *q = codes;
    size_t tile = NAME(WAVE_TILE);
    for (size_t first = 0; first < w->rows; first += LANES)
        for (size_t begin = 0; begin < w->columns; begin += tile) {
            size_t end = begin + tile < w->columns ? begin + tile : w->columns;
            for (size_t k = 0; k < LANES && first + k < w->rows; k++) {
                const CODE *from = origin + (first / LANES * w->period + 2 * k + 1) * WAVE_PITCH + k;
                CODE *line = q + (first + k) * w->columns;
                for (size_t x = begin; x < end; x++)
                    line[x] = from[x * WAVE_PITCH];
            }
        }
}

static inline bool NAME(wave_decode)(const wave_shape *w, enum predictor predictor, void *cells, entropy_reader *in,
                                     void *codes)
{
    CODE *origin = cells;
    wave_back back = wave_back_of(w);
    wave_clock clock = wave_clock_at(w, 0);
    for (size_t t = 0; t < w->steps; t++) {
        wave_lanes at = wave_tick(&clock);
        const CODE *backs[2] = {origin + wave_back_at(&back, t, 0), origin + wave_back_at(&back, t, 1)};
        for (unsigned k = 0; k < LANES; k++) {
            CODE *cell = origin + t * WAVE_PITCH + k;
            if (at.active >> k & 1) {
                NAME(wave_outlook) o = NAME(wave_look)(predictor, cell, backs[k < back.split] + k);
                UCODE z;
                if (!NAME(decode_residual)(in, k, o.context, &z))
                    return false;
                UCODE r = NAME(unzigzag)(z);
                *cell = (CODE)(UCODE)((UCODE)o.prediction + (o.flip ? (UCODE)(0 - r) : r));
            } else {
                *cell = at.left >> k & 1 ? cell[-WAVE_PITCH - 1] : cell[-WAVE_PITCH];
            }
        }
        WAVE_CARRY(origin, w, t);
    }
    NAME(wave_scatter)(w, cells, codes);
    return true;
}

#undef CODE
#undef UCODE
#undef SUM
#undef NAME
