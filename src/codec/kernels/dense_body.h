/*
 * The context model for one code width. Included with CODE (signed), UCODE (unsigned), SUM (signed, wide enough for a sum of
 * four codes) and NAME(stem) defined.
 *
 * A cell's neighbours are W (left), N (above), NW and NE, all in the cell's own lane. Padding stands in for those outside: N
 * left and right of the row above and left of the row. The context is computed from the local gradient |W-NW| + |N-NW| + |N-NE|
 * in 6 levels and the predicted magnitude in 4. Predictor LEFT does not use the row above; its gradient is 2 |W-WW|.
 */

typedef struct NAME(outlook) {
    SUM prediction;
    unsigned context;
} NAME(outlook);

static inline SUM NAME(distance)(SUM a, SUM b)
{
    return a > b ? a - b : b - a;
}

static inline NAME(outlook) NAME(look)(enum predictor predictor, const CODE *above, const CODE *cell, size_t width)
{
    SUM W = cell[-(ptrdiff_t)width], N = above[0], NW = above[-(ptrdiff_t)width], NE = above[width];
    SUM gradient = NAME(distance)(W, NW) + NAME(distance)(N, NW) + NAME(distance)(N, NE);
    SUM prediction = 0, magnitude;
    switch (predictor) {
    case PREDICT_MEDIAN: {
        SUM low = W < N ? W : N, high = W < N ? N : W, plane = W + N - NW;
        prediction = plane < low ? low : plane > high ? high : plane;
        magnitude = prediction;
        break;
    }
    case PREDICT_LORENZO:
        prediction = W + N - NW;
        magnitude = prediction;
        break;
    case PREDICT_LEFT:
        prediction = W;
        magnitude = W;
        gradient = 2 * NAME(distance)(W, cell[-2 * (ptrdiff_t)width]);
        break;
    default: magnitude = W + N; break;
    }
    unsigned g = (unsigned)(gradient < 31 ? gradient : 31);
    SUM m = NAME(distance)(magnitude, 0);
    return (NAME(outlook)){prediction, context_of[4 * gradient_level[g] + magnitude_level[m < 4 ? m : 4]]};
}

static inline uint32_t *NAME(model_row)(enum predictor predictor, bool identity, const void *above, const void *row,
                                        size_t columns, size_t width, uint16_t *symbols, uint32_t *escapes)
{
    const CODE *n = above, *c = row;
    for (size_t i = 0; i < columns * width; i++) {
        NAME(outlook) o = NAME(look)(predictor, n + i, c + i, width);
        UCODE r = (UCODE)((UCODE)c[i] - (UCODE)o.prediction), z = identity ? r : NAME(zigzag)(r);
        unsigned symbol = symbol_of(z), raw = symbol == ESCAPE ? 0 : (unsigned)z - symbol_base[symbol];
        if (symbol == ESCAPE)
            *escapes++ = (uint32_t)z - ESCAPE_LEAST;
        symbols[i] = (uint16_t)(raw << 8 | o.context << 4 | symbol);
    }
    return escapes;
}

/* Takes one residual of the given context off a state; false if the words or escapes run out. */
static inline bool NAME(decode_residual)(entropy_reader *in, unsigned lane, unsigned context, UCODE *residual)
{
    uint32_t x = in->state[lane], slot = x & (PROB_SCALE - 1), entry = in->tables->entry[in->tables->symbol[context][slot]];
    unsigned symbol = entry >> DECODER_SYMBOL & (N_SYMBOLS - 1), shift = entry >> DECODER_SHIFT;
    uint64_t z = symbol_base[symbol] + (x >> PROB_BITS & ((1u << (shift - PROB_BITS)) - 1));
    x = (entry >> DECODER_FREQUENCY & (2 * PROB_SCALE - 1)) * (x >> shift) + slot - (entry & (PROB_SCALE - 1));
    if (x < STATE_MIN) {
        if (in->words >= in->end)
            return false;
        x = x << 16 | load_u16(in->words);
        in->words += 2;
    }
    in->state[lane] = x;
    bool ok = symbol != ESCAPE || read_escape(&in->escapes, in->escape_order, &z);
    *residual = (UCODE)z;
    return ok;
}

static inline bool NAME(decode_row)(enum predictor predictor, bool identity, const void *above, void *row, size_t columns,
                                    size_t width, entropy_reader *in)
{
    const CODE *n = above;
    CODE *c = row;
    for (size_t i = 0; i < columns * width; i++) {
        NAME(outlook) o = NAME(look)(predictor, n + i, c + i, width);
        UCODE z;
        if (!NAME(decode_residual)(in, (unsigned)(i % LANES), o.context, &z))
            return false;
        c[i] = (CODE)(UCODE)((UCODE)o.prediction + (identity ? z : NAME(unzigzag)(z)));
    }
    return true;
}

static inline void NAME(gather_row)(const lanes *g, const void *codes, size_t row, void *cells)
{
    const CODE *q = codes;
    CODE *c = cells;
    size_t line = g->columns * g->channels, spare = g->width - g->bands * g->channels;
    for (size_t x = 0; x < g->columns; x++) {
        for (size_t b = 0; b < g->bands; b++) {
            size_t first = (b * g->rows + row) * line + x * g->channels;
            for (size_t k = 0; k < g->channels; k++)
                *c++ = first + k < g->n ? q[first + k] : 0;
        }
        for (size_t k = 0; k < spare; k++)
            *c++ = 0;
    }
}

static inline void NAME(scatter_row)(const lanes *g, const void *cells, size_t row, void *codes)
{
    const CODE *c = cells;
    CODE *q = codes;
    size_t line = g->columns * g->channels, spare = g->width - g->bands * g->channels;
    for (size_t x = 0; x < g->columns; x++, c += spare) {
        for (size_t b = 0; b < g->bands; b++) {
            size_t first = (b * g->rows + row) * line + x * g->channels;
            for (size_t k = 0; k < g->channels; k++, c++)
                if (first + k < g->n)
                    q[first + k] = *c;
        }
    }
}

#undef CODE
#undef UCODE
#undef SUM
#undef NAME
