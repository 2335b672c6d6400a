/* Codes in parts, encoded: see parts.h. */
#include <string.h>

#include "codec/dense_tables.h"
#include "codec/entropy.h"
#include "codec/kernels/dense_model.h"
#include "codec/parts.h"

/* A cell's bits wait here until those before them are known: the bits, and their number from PENDING_COUNT on. */
enum { PENDING_COUNT = 24 };

/* What is known of a chunk while it is coded. */
typedef struct coding {
    enum code_width width;
    enum predictor predictor;
    bool identity;
    const uint8_t *codes;
    part_maps maps;
    uint16_t *symbols;           /* raw bits << 8 | context << 4 | symbol, in the order of coding, part after part */
    uint32_t *pending, *escapes; /* of a part; of the chunk, in the order of coding */
    uint32_t counts[N_CONTEXTS * N_SYMBOLS];
    uint32_t entries[N_CONTEXTS * N_SYMBOLS];
    unsigned escape_order;
} coding;

static coding coding_make(const workspace *ws, const geometry *g, enum code_width width, const void *codes, size_t n)
{
    size_t part = geometry_part_elements(g);
    uint8_t *words = ws->words.data;
    coding c = {.width = width, .codes = codes, .symbols = ws->symbols.data};
    c.pending = (uint32_t *)(void *)(words + parts_cells_room());
    c.escapes = c.pending + PART_MOST;
    c.maps = part_maps_make(g, part < n ? part : n, n, ws->words.data);
    return c;
}

/* ---- symbols ---- */

static uint32_t residual_of(const coding *c, int64_t code, part_outlook o)
{
    uint64_t r = (uint64_t)code - (uint64_t)o.prediction;
    r = o.turned ? 0 - r : r;
    int64_t narrow = c->width == CODES16 ? (int16_t)r : (int32_t)r;
    uint64_t z = c->identity ? r : (uint64_t)narrow << 1 ^ (uint64_t)(narrow >> 63);
    return c->width == CODES16 ? (uint16_t)z : (uint32_t)z;
}

/* Adds a part's symbols to the counts; stores them at `symbols`. Returns the end of its escapes. */
static uint32_t *model_part(coding *c, size_t part, uint16_t *symbols, uint32_t *escapes)
{
    const part_map *map = part_map_of(&c->maps, part);
    const uint8_t *codes = c->codes + part * c->maps.part_elements * code_bytes(c->width);
    for (size_t i = 0; i < map->n; i++) {
        part_outlook o = part_look(map, map->cells[i], c->width, c->predictor, codes);
        uint32_t z = residual_of(c, code_at(c->width, codes, map->cells[i].element), o);
        unsigned symbol = symbol_of(z), raw = symbol == ESCAPE ? 0 : z - symbol_base[symbol];
        if (symbol == ESCAPE)
            *escapes++ = z - ESCAPE_LEAST;
        symbols[i] = (uint16_t)(raw << 8 | o.context << 4 | symbol);
        c->counts[symbols[i] & 0xff]++;
    }
    return escapes;
}

/* ---- choice ---- */

enum { SAMPLED = 5 }; /* one part in so many */

static bool sample_non_negative(const coding *c)
{
    for (size_t part = 0; part < c->maps.n_parts; part += SAMPLED)
        for (size_t i = 0; i < part_map_of(&c->maps, part)->n; i++)
            if (code_at(c->width, c->codes, (ptrdiff_t)(part * c->maps.part_elements + i)) < 0)
                return false;
    return true;
}

static uint64_t sample_bits(coding *c)
{
    uint64_t bits = 0;
    memset(c->counts, 0, sizeof c->counts);
    for (size_t part = 0; part < c->maps.n_parts; part += SAMPLED) {
        const uint32_t *end = model_part(c, part, c->symbols, c->escapes);
        for (const uint32_t *e = c->escapes; e < end; e++)
            bits += 2 + bit_length_u64(*e);
    }
    for (unsigned s = 0; s < N_CONTEXTS * N_SYMBOLS; s++)
        bits += (uint64_t)c->counts[s] * symbol_bits[s % N_SYMBOLS];
    for (unsigned k = 0; k < N_CONTEXTS; k++)
        bits += entropy_of_counts(c->counts + k * N_SYMBOLS, N_SYMBOLS) / ENTROPY_UNIT;
    return bits;
}

enum predictor parts_choose(const workspace *ws, const geometry *g, enum code_width width, const void *codes, size_t n,
                            bool *identity)
{
    static const enum predictor all[] = {PREDICT_MEDIAN, PREDICT_WAVE, PREDICT_LORENZO, PREDICT_LEFT, PREDICT_NONE};
    coding c = coding_make(ws, g, width, codes, n);
    enum predictor best = PREDICT_MEDIAN;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        c.predictor = all[i];
        c.identity = all[i] == PREDICT_NONE && sample_non_negative(&c);
        uint64_t bits = sample_bits(&c);
        if (bits < least) {
            least = bits;
            best = all[i];
            *identity = c.identity;
        }
    }
    return best;
}

/* ---- coding ---- */

/* Takes a part's symbols backwards: fills c->pending and the states that decoding begins with. Returns the number of bits. */
static uint64_t code_symbols(const coding *c, const part_map *map, const uint16_t *symbols, uint32_t state[PART_LANES])
{
    uint64_t all = 0;
    for (int i = 0; i < PART_LANES; i++)
        state[i] = PART_STATE_MIN;
    for (size_t i = map->n; i-- > 0;) {
        uint32_t entry = c->entries[symbols[i] & 0xff], frequency = entry & 0xffff, start = entry >> 16 & 0xfff;
        uint32_t raw = symbols[i] >> 8, raw_bits = entry >> 28, x = state[map->cells[i].lane];
        unsigned k = 0;
        while (x >> k >= 2 * (PART_STATE_MIN / PROB_SCALE) * frequency)
            k++;
        c->pending[i] = (k + raw_bits) << PENDING_COUNT | raw << k | (x & ((1u << k) - 1));
        all += k + raw_bits;
        x >>= k;
        state[map->cells[i].lane] = x / frequency * PROB_SCALE + x % frequency + start;
    }
    return all;
}

/* Writes states, pending bits and the escapes of each step. */
static uint8_t *write_bits(const coding *c, const part_map *map, const uint16_t *symbols, const uint32_t *escapes,
                           const uint32_t state[PART_LANES], uint8_t *out)
{
    bit_writer w = {.next = out};
    size_t n_escaped = 0;
    for (int i = 0; i < PART_LANES; i++)
        bit_write(&w, state[i] - PART_STATE_MIN, PART_STATE_BITS);
    for (size_t i = 0; i < map->n; i++) {
        bit_write(&w, c->pending[i] & ((1u << PENDING_COUNT) - 1), c->pending[i] >> PENDING_COUNT);
        n_escaped += (symbols[i] & 15) == ESCAPE;
        if (!(map->cells[i].edges & EDGE_STEP_END))
            continue;
        for (; n_escaped > 0; n_escaped--)
            dense_write_escape(&w, *escapes++, c->escape_order);
    }
    return bit_writer_end(&w);
}

static size_t count_escapes(const uint16_t *symbols, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += (symbols[i] & 15) == ESCAPE;
    return count;
}

/* Writes all parts and their sizes. Returns the end, or NULL if `end` would be reached or a part is too long. */
static uint8_t *write_parts(const coding *c, uint8_t *sizes, const uint8_t *end)
{
    const uint16_t *symbols = c->symbols;
    const uint32_t *escapes = c->escapes;
    uint8_t *out = sizes + 2 * c->maps.n_parts;
    for (size_t part = 0; part < c->maps.n_parts; part++) {
        const part_map *map = part_map_of(&c->maps, part);
        uint32_t state[PART_LANES];
        size_t n_escapes = count_escapes(symbols, map->n);
        uint64_t bits = PART_LANES * PART_STATE_BITS + code_symbols(c, map, symbols, state);
        bits += dense_escape_bits(escapes, n_escapes, c->escape_order);
        if (bits > 8 * (uint64_t)UINT16_MAX || out >= end || (bits + 7) / 8 >= (size_t)(end - out))
            return NULL;
        out = write_bits(c, map, symbols, escapes, state, out);
        store_u16(sizes + 2 * part, (uint16_t)((bits + 7) / 8));
        symbols += map->n;
        escapes += n_escapes;
    }
    return out;
}

uint8_t *parts_encode(const workspace *ws, const geometry *g, enum code_width width, enum predictor predictor, bool identity,
                      const void *codes, size_t n, uint8_t *out, size_t most)
{
    coding c = coding_make(ws, g, width, codes, n);
    uint32_t *escapes_end = c.escapes, frequency[N_CONTEXTS][N_SYMBOLS];
    uint16_t *symbols = c.symbols;
    c.predictor = predictor;
    c.identity = identity;
    for (size_t part = 0; part < c.maps.n_parts; symbols += part_map_of(&c.maps, part++)->n)
        escapes_end = model_part(&c, part, symbols, escapes_end);
    dense_frequencies(c.counts, frequency, c.entries);
    c.escape_order = dense_escape_order(c.escapes, (size_t)(escapes_end - c.escapes));
    uint8_t *tables = out + 8, *sizes = dense_write_tables(c.escape_order, frequency, tables);
    if ((size_t)(sizes - out) + 2 * c.maps.n_parts >= most)
        return NULL;
    store_u32(out, (uint32_t)c.maps.part_elements);
    store_u32(out + 4, (uint32_t)(sizes - tables));
    return write_parts(&c, sizes, out + most);
}
