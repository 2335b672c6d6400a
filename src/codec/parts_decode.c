/* Codes in parts, decoded: see parts.h. Every length is checked before it is used. */
#include "codec/dense_tables.h"
#include "codec/kernels/dense_model.h"
#include "codec/parts.h"

/* What all parts of a chunk have in common. */
typedef struct decoding {
    enum code_width width;
    enum predictor predictor;
    bool identity;
    const symbol_tables *tables;
    unsigned escape_order;
} decoding;

/* A code whose residual is z. */
static void put_code(const decoding *d, void *codes, part_cell cell, part_outlook o, uint64_t z)
{
    uint64_t r = d->identity ? z : z >> 1 ^ (0 - (z & 1));
    uint64_t code = (uint64_t)o.prediction + (o.turned ? 0 - r : r);
    if (d->width == CODES16)
        ((uint16_t *)codes)[cell.element] = (uint16_t)code;
    else
        ((uint32_t *)codes)[cell.element] = (uint32_t)code;
}

/* Takes a symbol of a context off a state, with its raw bits. */
static unsigned take_symbol(const symbol_tables *t, unsigned context, uint16_t *state, bit_reader *in, uint64_t *z)
{
    uint32_t slot = *state % PROB_SCALE;
    unsigned symbol = t->symbol[context][slot] % N_SYMBOLS;
    uint32_t start = t->start[context][symbol], frequency = t->start[context][symbol + 1] - start;
    uint32_t x = frequency * (*state / PROB_SCALE) + slot - start;
    unsigned k = PART_STATE_BITS + 1 - bit_length_u64(x);
    uint64_t bits = bit_read(in, k + symbol_bits[symbol]);
    *state = (uint16_t)(x << k | (bits & ((1u << k) - 1)));
    *z = symbol_base[symbol] + (bits >> k);
    return symbol;
}

/* Escapes of the step that has just been read. */
static bool read_escapes(const decoding *d, const part_map *map, const uint16_t *escaped, size_t n_escaped, bit_reader *in,
                         void *codes)
{
    for (size_t i = 0; i < n_escaped; i++) {
        part_cell cell = map->cells[escaped[i]];
        uint64_t z;
        if (!read_escape(in, d->escape_order, &z))
            return false;
        put_code(d, codes, cell, part_look(map, cell, d->width, d->predictor, codes), z);
    }
    return true;
}

static bool decode_cells(const decoding *d, const part_map *map, uint16_t state[PART_LANES], bit_reader *in, void *codes)
{
    uint16_t escaped[PART_LANES];
    size_t n_escaped = 0;
    for (size_t i = 0; i < map->n; i++) {
        part_cell cell = map->cells[i];
        part_outlook o = part_look(map, cell, d->width, d->predictor, codes);
        uint64_t z;
        if (take_symbol(d->tables, o.context, &state[cell.lane], in, &z) == ESCAPE)
            escaped[n_escaped++] = (uint16_t)i;
        else
            put_code(d, codes, cell, o, z);
        if (!(cell.edges & EDGE_STEP_END))
            continue;
        if (!bit_reader_ok(in) || !read_escapes(d, map, escaped, n_escaped, in, codes))
            return false;
        n_escaped = 0;
    }
    return true;
}

/* The encoder began with these states, and filled the last byte with zeros: what is left over shows damage. */
static bool finished(const uint16_t state[PART_LANES], const bit_reader *in)
{
    unsigned left = (unsigned)(in->limit - in->position);
    bool ok = left < 8 && (bit_peek(in) & ((1u << left) - 1)) == 0;
    for (int i = 0; i < PART_LANES; i++)
        ok = ok && state[i] == PART_STATE_MIN;
    return ok;
}

static bool decode_part(const decoding *d, const part_map *map, const uint8_t *part, size_t bytes, void *codes)
{
    bit_reader in = bit_reader_make(part, bytes);
    uint16_t state[PART_LANES];
    if (bytes < PART_LANES * PART_STATE_BITS / 8)
        return false;
    for (int i = 0; i < PART_LANES; i++)
        state[i] = (uint16_t)(PART_STATE_MIN + bit_read(&in, PART_STATE_BITS));
    return decode_cells(d, map, state, &in, codes) && finished(state, &in);
}

bool parts_decode(const workspace *ws, const geometry *g, enum code_width width, enum predictor predictor, bool identity,
                  const uint8_t *in, size_t bytes, void *codes, size_t n)
{
    if (bytes < 8)
        return false;
    size_t part_elements = load_u32(in), table_bytes = load_u32(in + 4), room = bytes - 8;
    if (part_elements < 1 || part_elements > PART_MOST || table_bytes > room)
        return false;
    decoding d = {.width = width, .predictor = predictor, .identity = identity, .tables = ws->table.data};
    size_t n_parts = (n + part_elements - 1) / part_elements;
    const uint8_t *sizes = in + 8 + table_bytes, *end = in + bytes;
    if (2 * n_parts > room - table_bytes || !dense_read_tables(in + 8, table_bytes, ws->table.data, &d.escape_order))
        return false;
    const uint8_t *part = sizes + 2 * n_parts;
    part_maps maps = part_maps_make(g, part_elements, n, ws->words.data);
    for (size_t k = 0; k < n_parts; k++) {
        size_t part_bytes = load_u16(sizes + 2 * k);
        uint8_t *first = (uint8_t *)codes + k * part_elements * code_bytes(width);
        if (part_bytes > (size_t)(end - part) || !decode_part(&d, part_map_of(&maps, k), part, part_bytes, first))
            return false;
        part += part_bytes;
    }
    return part == end;
}
