/* Passes rows of cells, or waves, through model and entropy coder. */
#include "codec/dense.h"

#include <string.h>

#include "codec/dense_tables.h"

/* ---- rows ---- */

typedef struct rows {
    uint8_t *above, *current;      /* the first cell of each */
    size_t cell, position, length; /* bytes of a cell, of a position, of a row without padding */
} rows;

static rows rows_make(workspace *ws, const lanes *l, enum code_width width)
{
    rows r = {.cell = code_bytes(width)};
    r.position = l->width * r.cell;
    r.length = l->columns * r.position;
    r.above = (uint8_t *)ws->cells.data + 2 * r.position;
    r.current = r.above + r.length + 4 * r.position;
    return r;
}

/* Makes the row just done the one above; at the top of a plane that one is zero. */
static void rows_advance(rows *r, bool top)
{
    uint8_t *done = r->current;
    r->current = r->above;
    r->above = done;
    if (top)
        memset(r->above, 0, r->length);
    memcpy(r->above - r->position, r->above, r->position);
    memcpy(r->above + r->length, r->above + r->length - r->position, r->position);
    memcpy(r->current - r->position, r->above, r->position);
    memcpy(r->current - 2 * r->position, r->above, r->position);
}

/* ---- waves ---- */

void *dense_wave_cells(const workspace *ws, enum code_width width)
{
    return (uint8_t *)ws->cells.data + WAVE_LEAD * WAVE_PITCH * code_bytes(width);
}

void dense_wave_begin(workspace *ws, enum code_width width)
{
    memset(ws->cells.data, 0, WAVE_LEAD * WAVE_PITCH * code_bytes(width));
}

/* ---- encoding ---- */

/* The escapes of n cells are kept after the room for their words. */
static uint32_t *escapes_of(const workspace *ws, size_t n)
{
    return (uint32_t *)(void *)((uint8_t *)ws->words.data + dense_words_room(n));
}

static void count_symbols(const uint16_t *symbols, size_t n, uint32_t counts[N_CONTEXTS * N_SYMBOLS])
{
    enum { SPLIT = 4 }; /* equal symbols often follow each other: several tables keep the increments apart */
    uint32_t split[SPLIT][N_CONTEXTS * N_SYMBOLS] = {{0}};
    for (size_t i = 0; i < n; i += SPLIT)
        for (int j = 0; j < SPLIT; j++)
            split[j][symbols[i + (size_t)j] & 0xff]++;
    for (int s = 0; s < N_CONTEXTS * N_SYMBOLS; s++)
        counts[s] = split[0][s] + split[1][s] + split[2][s] + split[3][s];
}

/* Writes n symbols and the escapes, which begin at the end of ws->words. Returns the end, or NULL if it does not pay. */
static uint8_t *write_symbols(const codec_kernels *k, workspace *ws, size_t n, size_t n_escapes, uint8_t *out, size_t most)
{
    const uint16_t *symbols = ws->symbols.data;
    uint8_t *words_end = (uint8_t *)ws->words.data + dense_words_room(n);
    const uint32_t *escapes = escapes_of(ws, n);
    unsigned order = dense_escape_order(escapes, n_escapes);
    size_t escape_bytes = (size_t)(dense_escape_bits(escapes, n_escapes, order) + 7) / 8;

    uint32_t counts[N_CONTEXTS * N_SYMBOLS], frequency[N_CONTEXTS][N_SYMBOLS], entries[N_CONTEXTS * N_SYMBOLS], state[LANES];
    count_symbols(symbols, n, counts);
    dense_frequencies(counts, frequency, entries);
    for (int i = 0; i < LANES; i++)
        state[i] = STATE_MIN;
    const uint8_t *words = k->entropy_encode(symbols, n, entries, words_end, state);
    size_t word_bytes = (size_t)(words_end - words);
    uint8_t *tables = out + 8, *end = dense_write_tables(order, frequency, tables);
    if ((size_t)(end - out) + escape_bytes + sizeof state + word_bytes >= most)
        return NULL;
    store_u32(out, (uint32_t)(end - tables));
    store_u32(out + 4, (uint32_t)escape_bytes);
    bit_writer w = {.next = end};
    for (size_t i = 0; i < n_escapes; i++)
        dense_write_escape(&w, escapes[i], order);
    end = bit_writer_end(&w);
    for (int i = 0; i < LANES; i++)
        store_u32(end + 4 * i, state[i]);
    memcpy(end + sizeof state, words, word_bytes);
    return end + sizeof state + word_bytes;
}

uint8_t *dense_encode(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, bool identity,
                      const lanes *l, const void *codes, uint8_t *out, size_t most)
{
    size_t row_cells = l->columns * l->width, n = l->rows * row_cells;
    uint16_t *symbols = ws->symbols.data;
    uint32_t *escapes = escapes_of(ws, n), *escapes_end = escapes;
    rows r = rows_make(ws, l, width);
    for (size_t row = 0; row < l->rows; row++) {
        rows_advance(&r, row % l->period == 0);
        k->gather_row[width](l, codes, row, r.current);
        escapes_end = k->model_row[width](predictor, identity, r.above, r.current, l->columns, l->width,
                                          symbols + row * row_cells, escapes_end);
    }
    return write_symbols(k, ws, n, (size_t)(escapes_end - escapes), out, most);
}

uint8_t *dense_encode_wave(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor,
                           const wave_shape *w, uint8_t *out, size_t most)
{
    size_t n = w->steps * LANES;
    uint32_t *escapes = escapes_of(ws, n);
    const uint32_t *end =
        wave_kernels_of(k)->model[width](w, predictor, dense_wave_cells(ws, width), 0, w->steps, ws->symbols.data, escapes);
    return write_symbols(k, ws, n, (size_t)(end - escapes), out, most);
}

/* ---- decoding ---- */

static bool decode_rows(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, bool identity,
                        const lanes *l, entropy_reader *in, void *codes)
{
    rows r = rows_make(ws, l, width);
    for (size_t row = 0; row < l->rows; row++) {
        rows_advance(&r, row % l->period == 0);
        if (!k->decode_row[width](predictor, identity, r.above, r.current, l->columns, l->width, in))
            return false;
        k->scatter_row[width](l, r.current, row, codes);
    }
    return true;
}

static bool decode_wave(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor,
                        const wave_shape *w, entropy_reader *in, void *codes)
{
    dense_wave_begin(ws, width);
    return wave_kernels_of(k)->decode[width](w, predictor, dense_wave_cells(ws, width), in, codes);
}

/* Reads lengths, tables and states, and finds escapes and words. */
static bool reader_begin(workspace *ws, const uint8_t *p, size_t bytes, entropy_reader *in)
{
    if (bytes < 8 + LANES * 4)
        return false;
    size_t table_bytes = load_u32(p), escape_bytes = load_u32(p + 4), room = bytes - 8 - LANES * 4;
    if (table_bytes > room || escape_bytes > room - table_bytes || (room - table_bytes - escape_bytes) % 2)
        return false;
    const uint8_t *escapes = p + 8 + table_bytes, *states = escapes + escape_bytes;
    *in = (entropy_reader){.words = states + LANES * 4, .end = p + bytes, .tables = ws->table.data};
    in->escapes = bit_reader_make(escapes, escape_bytes);
    for (int i = 0; i < LANES; i++) {
        in->state[i] = load_u32(states + 4 * i);
        if (in->state[i] < STATE_MIN)
            return false;
    }
    return dense_read_tables(p + 8, table_bytes, ws->table.data, &in->escape_order);
}

/* The encoder began with these states and used every word: what is left over shows damage. */
static bool reader_finished(const entropy_reader *in)
{
    bool ok = in->words == in->end && in->escapes.position + 8 > in->escapes.limit;
    for (int i = 0; i < LANES; i++)
        ok = ok && in->state[i] == STATE_MIN;
    return ok;
}

bool dense_decode(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, bool identity,
                  const lanes *l, const uint8_t *p, size_t bytes, void *codes)
{
    entropy_reader in;
    return reader_begin(ws, p, bytes, &in) && decode_rows(k, ws, width, predictor, identity, l, &in, codes) &&
           reader_finished(&in);
}

/* Decoders may take a symbol for padding as well: its context must leave the state as it is. */
static bool padding_is_free(const symbol_tables *t)
{
    return t->start[WAVE_IDLE][1] == PROB_SCALE;
}

bool dense_decode_wave(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor,
                       const wave_shape *w, const uint8_t *p, size_t bytes, void *codes)
{
    entropy_reader in;
    return reader_begin(ws, p, bytes, &in) && padding_is_free(in.tables) &&
           decode_wave(k, ws, width, predictor, w, &in, codes) && reader_finished(&in);
}
