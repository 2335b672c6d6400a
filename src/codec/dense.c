/* Passes rows of cells through model and entropy coder; makes frequency tables. */
#include "codec/dense.h"

#include <string.h>

#include "codec/kernels/dense_model.h"

/* ---- frequencies ---- */

/* Scales counts to a sum of PROB_SCALE, at least 1 for each symbol that occurs. All zero if nothing occurs. */
static void normalise(const uint32_t counts[N_SYMBOLS], uint32_t frequency[N_SYMBOLS])
{
    uint64_t total = 0;
    for (int s = 0; s < N_SYMBOLS; s++)
        total += counts[s];
    uint32_t sum = 0, largest = 0;
    for (uint32_t s = 0; s < N_SYMBOLS; s++) {
        uint32_t f = total ? (uint32_t)((counts[s] * (uint64_t)PROB_SCALE + total / 2) / total) : 0;
        frequency[s] = counts[s] && f == 0 ? 1 : f;
        sum += frequency[s];
        if (frequency[s] > frequency[largest])
            largest = s;
    }
    /* The most frequent symbol takes what rounding left over; an excess is taken from the most frequent symbols. */
    if (total && sum < PROB_SCALE)
        frequency[largest] += PROB_SCALE - sum;
    while (sum > PROB_SCALE) {
        for (uint32_t s = 0; s < N_SYMBOLS; s++)
            largest = frequency[s] > frequency[largest] ? s : largest;
        frequency[largest]--;
        sum--;
    }
}

/* Elias gamma: as many zeros as v has bits below its top one, a one, those bits. v >= 1. */
static void write_gamma(bit_writer *w, uint32_t v)
{
    unsigned below = bit_length_u64(v) - 1;
    bit_write(w, UINT64_C(1) << below, below + 1);
    bit_write(w, v & ((1u << below) - 1), below);
}

static uint32_t read_gamma(bit_reader *r)
{
    uint64_t next = bit_peek(r);
    unsigned below = next ? (unsigned)__builtin_ctzll(next) : 64; /* more zeros than any frequency has: damage */
    if (below > PROB_BITS + 1)
        return 0;
    r->position += below + 1;
    return (1u << below) | (uint32_t)bit_read(r, below);
}

/* Writes the order of the escapes; for each context one bit that says whether it occurs, then 4 bits for its last symbol and
 * frequency + 1 of each symbol up to that. */
static uint8_t *write_tables(unsigned escape_order, uint32_t frequency[N_CONTEXTS][N_SYMBOLS], uint8_t *out)
{
    bit_writer w = {.next = out};
    bit_write(&w, escape_order, 5);
    for (int c = 0; c < N_CONTEXTS; c++) {
        int last = N_SYMBOLS - 1;
        while (last >= 0 && frequency[c][last] == 0)
            last--;
        bit_write(&w, last >= 0, 1);
        if (last >= 0)
            bit_write(&w, (uint64_t)last, 4);
        for (int s = 0; s <= last; s++)
            write_gamma(&w, frequency[c][s] + 1);
    }
    return bit_writer_end(&w);
}

/* A context that does not occur gets symbol 0 everywhere, so that decoding a damaged frame stays within the tables. */
static bool read_context(bit_reader *r, uint16_t start[N_SYMBOLS + 1])
{
    bool occurs = bit_read(r, 1);
    unsigned last = occurs ? (unsigned)bit_read(r, 4) : 0;
    uint32_t sum = occurs ? 0 : PROB_SCALE;
    start[0] = 0;
    for (unsigned s = 0; s < N_SYMBOLS; s++) {
        if (occurs && s <= last) {
            uint32_t v = read_gamma(r);
            if (v == 0 || !bit_reader_ok(r) || v - 1 > PROB_SCALE - sum)
                return false;
            sum += v - 1;
        }
        start[s + 1] = (uint16_t)sum;
    }
    return sum == PROB_SCALE;
}

void dense_fill_tables(symbol_tables *t)
{
    for (unsigned c = 0; c < N_CONTEXTS; c++)
        for (unsigned s = 0; s < N_SYMBOLS; s++) {
            uint32_t start = t->start[c][s], frequency = t->start[c][s + 1] - start, place = c * N_SYMBOLS + s;
            memset(t->symbol[c] + start, (int)place, frequency);
            t->entry[place] = frequency ? decoder_entry(start, s, frequency, symbol_bits[s]) : 0;
        }
    memset(t->quarter, 0, sizeof t->quarter);
    for (unsigned j = 0; j < 3; j++) {
        for (unsigned o = 0; o < N_OUTLOOKS; o++)
            t->quarter[j][o] = (uint16_t)(t->start[context_of[o]][4 * j + 4] << 4 | (4 * j + 4));
        for (unsigned i = 0; i < 64; i++) {
            unsigned context = i >> 4 << 2 | (i & 3), symbol = 4 * (3 - (i >> 2 & 3)) + 1 + j;
            t->within[j][i] = (uint16_t)(t->start[context][symbol] << 4 | symbol);
        }
    }
}

static bool read_tables(const uint8_t *in, size_t bytes, symbol_tables *t, unsigned *escape_order)
{
    bit_reader r = bit_reader_make(in, bytes);
    *escape_order = (unsigned)bit_read(&r, 5);
    for (int c = 0; c < N_CONTEXTS; c++)
        if (!read_context(&r, t->start[c]))
            return false;
    if (!bit_reader_ok(&r))
        return false;
    dense_fill_tables(t);
    return true;
}

/* ---- escapes ---- */

/* Exp-Golomb numbers: v + 2^order, with a zero in front for every bit that this is longer than 2^order. */
static uint8_t *write_escapes(const uint32_t *escapes, size_t n, unsigned order, uint8_t *out)
{
    bit_writer w = {.next = out};
    for (size_t i = 0; i < n; i++) {
        uint64_t v = escapes[i] + (UINT64_C(1) << order);
        unsigned bits = bit_length_u64(v) - 1;
        bit_write(&w, UINT64_C(1) << (bits - order), bits - order + 1);
        bit_write(&w, v - (UINT64_C(1) << bits), bits);
    }
    return bit_writer_end(&w);
}

static uint64_t escape_bits(const uint32_t *escapes, size_t n, unsigned order)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits += 2 * (bit_length_u64(escapes[i] + (UINT64_C(1) << order)) - 1) - order + 1;
    return bits;
}

/* The best order near the mean length. */
static unsigned choose_order(const uint32_t *escapes, size_t n)
{
    uint64_t lengths = 0, least = UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        lengths += bit_length_u64(escapes[i]);
    unsigned mean = n ? (unsigned)(lengths / n) : 0, best = 0;
    for (unsigned order = mean < 2 ? 0 : mean - 2; order <= mean && order < 32; order++) {
        uint64_t bits = escape_bits(escapes, n, order);
        best = bits < least ? order : best;
        least = bits < least ? bits : least;
    }
    return best;
}

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

/* Frequencies that suit the symbols, and what the coder needs of them. */
static void make_frequencies(const uint16_t *symbols, size_t n, uint32_t frequency[N_CONTEXTS][N_SYMBOLS],
                             uint32_t entries[N_CONTEXTS * N_SYMBOLS])
{
    uint32_t counts[N_CONTEXTS * N_SYMBOLS];
    count_symbols(symbols, n, counts);
    for (int c = 0; c < N_CONTEXTS; c++) {
        uint32_t start = 0;
        normalise(counts + c * N_SYMBOLS, frequency[c]);
        for (int s = 0; s < N_SYMBOLS; s++) {
            entries[c * N_SYMBOLS + s] = coder_entry(start, frequency[c][s], symbol_bits[s]);
            start += frequency[c][s];
        }
    }
}

/* Writes n symbols and the escapes, which begin at the end of ws->words. Returns the end, or NULL if it does not pay. */
static uint8_t *write_symbols(const codec_kernels *k, workspace *ws, size_t n, size_t n_escapes, uint8_t *out, size_t most)
{
    const uint16_t *symbols = ws->symbols.data;
    uint8_t *words_end = (uint8_t *)ws->words.data + dense_words_room(n);
    const uint32_t *escapes = escapes_of(ws, n);
    unsigned order = choose_order(escapes, n_escapes);
    size_t escape_bytes = (size_t)(escape_bits(escapes, n_escapes, order) + 7) / 8;

    uint32_t frequency[N_CONTEXTS][N_SYMBOLS], entries[N_CONTEXTS * N_SYMBOLS], state[LANES];
    make_frequencies(symbols, n, frequency, entries);
    for (int i = 0; i < LANES; i++)
        state[i] = STATE_MIN;
    const uint8_t *words = k->entropy_encode(symbols, n, entries, words_end, state);
    size_t word_bytes = (size_t)(words_end - words);
    uint8_t *tables = out + 8, *end = write_tables(order, frequency, tables);
    if ((size_t)(end - out) + escape_bytes + sizeof state + word_bytes >= most)
        return NULL;
    store_u32(out, (uint32_t)(end - tables));
    store_u32(out + 4, (uint32_t)escape_bytes);
    end = write_escapes(escapes, n_escapes, order, end);
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
    return read_tables(p + 8, table_bytes, ws->table.data, &in->escape_order);
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
