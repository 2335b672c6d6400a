/* See dense_tables.h. */
#include "codec/dense_tables.h"

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

void dense_frequencies(const uint32_t counts[N_CONTEXTS * N_SYMBOLS], uint32_t frequency[N_CONTEXTS][N_SYMBOLS],
                       uint32_t entries[N_CONTEXTS * N_SYMBOLS])
{
    for (int c = 0; c < N_CONTEXTS; c++) {
        uint32_t start = 0;
        normalise(counts + c * N_SYMBOLS, frequency[c]);
        for (int s = 0; s < N_SYMBOLS; s++) {
            entries[c * N_SYMBOLS + s] = coder_entry(start, frequency[c][s], symbol_bits[s]);
            start += frequency[c][s];
        }
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

uint8_t *dense_write_tables(unsigned escape_order, uint32_t frequency[N_CONTEXTS][N_SYMBOLS], uint8_t *out)
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

bool dense_read_tables(const uint8_t *in, size_t bytes, symbol_tables *t, unsigned *escape_order)
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

void dense_write_escape(bit_writer *w, uint32_t escape, unsigned order)
{
    uint64_t v = escape + (UINT64_C(1) << order);
    unsigned bits = bit_length_u64(v) - 1;
    bit_write(w, UINT64_C(1) << (bits - order), bits - order + 1);
    bit_write(w, v - (UINT64_C(1) << bits), bits);
}

uint64_t dense_escape_bits(const uint32_t *escapes, size_t n, unsigned order)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits += 2 * (bit_length_u64(escapes[i] + (UINT64_C(1) << order)) - 1) - order + 1;
    return bits;
}

unsigned dense_escape_order(const uint32_t *escapes, size_t n)
{
    uint64_t lengths = 0, least = UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        lengths += bit_length_u64(escapes[i]);
    unsigned mean = n ? (unsigned)(lengths / n) : 0, best = 0;
    for (unsigned order = mean < 2 ? 0 : mean - 2; order <= mean && order < 32; order++) {
        uint64_t bits = dense_escape_bits(escapes, n, order);
        best = bits < least ? order : best;
        least = bits < least ? bits : least;
    }
    return best;
}
