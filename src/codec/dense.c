/* Rows of cells through model and entropy coder; frequency tables. */
#include "codec/dense.h"

#include <string.h>

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
    /* The most frequent symbol takes what rounding left over; what it put on top is taken from the most frequent ones. */
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

/* For each context one bit, whether it occurs; then 6 bits for its last symbol and frequency + 1 of each up to that. */
static uint8_t *write_tables(uint32_t frequency[N_CONTEXTS][N_SYMBOLS], uint8_t *out)
{
    bit_writer w = {.next = out};
    for (int c = 0; c < N_CONTEXTS; c++) {
        int last = N_SYMBOLS - 1;
        while (last >= 0 && frequency[c][last] == 0)
            last--;
        bit_write(&w, last >= 0, 1);
        if (last >= 0)
            bit_write(&w, (uint64_t)last, 6);
        for (int s = 0; s <= last; s++)
            write_gamma(&w, frequency[c][s] + 1);
    }
    return bit_writer_end(&w);
}

/* Slots of one context. A context that does not occur gets symbol 0 everywhere, so that a damaged frame cannot lead astray. */
static void fill_slots(const uint32_t frequency[N_SYMBOLS], uint32_t *slots)
{
    uint32_t start = 0;
    for (uint32_t s = 0; s < N_SYMBOLS; s++) {
        for (uint32_t i = 0; i < frequency[s]; i++)
            slots[start + i] = s << 23 | i << 12 | frequency[s];
        start += frequency[s];
    }
    for (uint32_t i = start; i < PROB_SCALE; i++)
        slots[i] = i << 12 | PROB_SCALE;
}

static bool read_tables(const uint8_t *in, size_t bytes, uint32_t *table)
{
    bit_reader r = bit_reader_make(in, bytes);
    for (int c = 0; c < N_CONTEXTS; c++) {
        uint32_t frequency[N_SYMBOLS] = {0}, sum = 0;
        bool occurs = bit_read(&r, 1);
        unsigned last = occurs ? (unsigned)bit_read(&r, 6) : 0;
        if (last >= N_SYMBOLS)
            return false;
        for (unsigned s = 0; occurs && s <= last && bit_reader_ok(&r); s++) {
            uint32_t v = read_gamma(&r);
            if (v == 0 || v - 1 > PROB_SCALE)
                return false;
            frequency[s] = v - 1;
            sum += v - 1;
        }
        if (!bit_reader_ok(&r) || sum != (occurs ? PROB_SCALE : 0))
            return false;
        fill_slots(frequency, table + (size_t)c * PROB_SCALE);
    }
    return true;
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

/* ---- encoding ---- */

static void count_symbols(const uint16_t *symbols, size_t n, uint32_t counts[N_CONTEXTS * N_SYMBOLS])
{
    enum { SPLIT = 4 }; /* equal symbols often follow each other: several tables keep the increments apart */
    uint32_t split[SPLIT][N_CONTEXTS * N_SYMBOLS] = {{0}};
    for (size_t i = 0; i < n; i += SPLIT)
        for (int j = 0; j < SPLIT; j++)
            split[j][symbols[i + (size_t)j]]++;
    for (int s = 0; s < N_CONTEXTS * N_SYMBOLS; s++)
        counts[s] = split[0][s] + split[1][s] + split[2][s] + split[3][s];
}

uint8_t *dense_encode(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, const lanes *l,
                      const void *codes, uint8_t *out, size_t most)
{
    size_t row_cells = l->columns * l->width, n = l->rows * row_cells;
    uint16_t *symbols = ws->symbols.data;
    uint8_t *words_end = (uint8_t *)ws->words.data + dense_words_room(n);
    bit_writer extra = {.next = words_end};
    rows r = rows_make(ws, l, width);
    for (size_t row = 0; row < l->rows; row++) {
        rows_advance(&r, row % l->period == 0);
        k->gather_row[width](l, codes, row, r.current);
        k->model_row[width](predictor, r.above, r.current, l->columns, l->width, symbols + row * row_cells, &extra);
    }
    size_t extra_bytes = (size_t)(bit_writer_end(&extra) - words_end);

    uint32_t counts[N_CONTEXTS * N_SYMBOLS], frequency[N_CONTEXTS][N_SYMBOLS], start_frequency[N_CONTEXTS * N_SYMBOLS];
    count_symbols(symbols, n, counts);
    for (int c = 0; c < N_CONTEXTS; c++) {
        uint32_t start = 0;
        normalise(counts + c * N_SYMBOLS, frequency[c]);
        for (int s = 0; s < N_SYMBOLS; s++) {
            start_frequency[c * N_SYMBOLS + s] = start << 16 | frequency[c][s];
            start += frequency[c][s];
        }
    }
    uint32_t state[LANES];
    for (int i = 0; i < LANES; i++)
        state[i] = STATE_MIN;
    const uint8_t *words = k->entropy_encode(symbols, n, start_frequency, words_end, state);
    size_t word_bytes = (size_t)(words_end - words);
    uint8_t *tables = out + 8, *end = write_tables(frequency, tables);
    if ((size_t)(end - out) + extra_bytes + sizeof state + word_bytes >= most)
        return NULL;
    store_u32(out, (uint32_t)(end - tables));
    store_u32(out + 4, (uint32_t)extra_bytes);
    memcpy(end, words_end, extra_bytes);
    end += extra_bytes;
    for (int i = 0; i < LANES; i++)
        store_u32(end + 4 * i, state[i]);
    memcpy(end + sizeof state, words, word_bytes);
    return end + sizeof state + word_bytes;
}

/* ---- decoding ---- */

static bool decode_rows(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, const lanes *l,
                        entropy_reader *in, void *codes)
{
    rows r = rows_make(ws, l, width);
    for (size_t row = 0; row < l->rows; row++) {
        rows_advance(&r, row % l->period == 0);
        if (!k->decode_row[width](predictor, r.above, r.current, l->columns, l->width, in))
            return false;
        k->scatter_row[width](l, r.current, row, codes);
    }
    return true;
}

bool dense_decode(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, const lanes *l,
                  const uint8_t *p, size_t bytes, void *codes)
{
    if (bytes < 8 + LANES * 4)
        return false;
    size_t table_bytes = load_u32(p), extra_bytes = load_u32(p + 4), room = bytes - 8 - LANES * 4;
    if (table_bytes > room || extra_bytes > room - table_bytes || (room - table_bytes - extra_bytes) % 2)
        return false;
    if (!read_tables(p + 8, table_bytes, ws->table.data))
        return false;
    const uint8_t *extra = p + 8 + table_bytes, *states = extra + extra_bytes;
    entropy_reader in = {.words = states + LANES * 4, .end = p + bytes, .table = ws->table.data};
    in.extra = bit_reader_make(extra, extra_bytes);
    for (int i = 0; i < LANES; i++) {
        in.state[i] = load_u32(states + 4 * i);
        if (in.state[i] < STATE_MIN)
            return false;
    }
    if (!decode_rows(k, ws, width, predictor, l, &in, codes))
        return false;
    /* The encoder began with these states and used every word: what is left over shows damage. */
    bool ok = in.words == in.end && in.extra.position + 8 > in.extra.limit;
    for (int i = 0; i < LANES; i++)
        ok = ok && in.state[i] == STATE_MIN;
    return ok;
}
