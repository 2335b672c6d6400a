/* Kernels of the dense level (model, entropy coder) against the reference, bit for bit; decoding of damaged streams. */
#include "kernels_testing.h"

#include <stdlib.h>

#include "codec/dense_tables.h"
#include "codec/kernels/dense_model.h"

/* ---- the dense model and coder ---- */

static const enum predictor dense_predictors[] = {PREDICT_NONE, PREDICT_LEFT, PREDICT_LORENZO, PREDICT_MEDIAN, PREDICT_LINEAR};

/* Two rows of cells with two positions of padding on either side. */
typedef struct cell_rows {
    enum code_width width;
    size_t columns, lanes;  /* positions, lanes a position */
    size_t position, bytes; /* in bytes; of a row with its padding */
    uint8_t *above, *row;   /* the first cell */
    uint8_t *memory;
} cell_rows;

static cell_rows random_rows(test_rng *r)
{
    cell_rows c = {
        .width = (enum code_width)rng_below(r, 2), .columns = 1 + rng_below(r, 12), .lanes = LANES * (1 + rng_below(r, 3))};
    c.position = c.lanes * code_bytes(c.width);
    c.bytes = (c.columns + 4) * c.position;
    c.memory = aligned_alloc(64, 2 * c.bytes);
    assert_non_null(c.memory);
    c.above = c.memory + 2 * c.position;
    c.row = c.above + c.bytes;
    fill_codes(r, c.width, (size_t)(2 * c.bytes / code_bytes(c.width)), c.memory);
    return c;
}

/* As fill_codes, but within what an encoder makes, and mostly small. */
static void calm_rows(test_rng *r, cell_rows *c)
{
    size_t n = 2 * c->bytes / code_bytes(c->width);
    unsigned range = 1 + (unsigned)rng_below(r, rng_chance(r, 4) ? CODE16_LIMIT : 40);
    for (size_t i = 0; i < n; i++) {
        int32_t v = (int32_t)rng_below(r, 2 * range + 1) - (int32_t)range;
        v = rng_chance(r, 3) ? v : v / 8;
        if (c->width == CODES16)
            ((int16_t *)(void *)c->memory)[i] = (int16_t)v;
        else
            ((int32_t *)(void *)c->memory)[i] = rng_chance(r, 50) ? v * 20000 : v;
    }
}

typedef struct modelled {
    uint16_t symbols[12 * 3 * LANES];
    uint32_t escapes[12 * 3 * LANES + 32];
    size_t n_escapes;
} modelled;

static void model_with(const codec_kernels *k, enum predictor p, bool identity, const cell_rows *c, modelled *m)
{
    memset(m, 0, sizeof *m);
    uint32_t *end = k->model_row[c->width](p, identity, c->above, c->row, c->columns, c->lanes, m->symbols, m->escapes);
    m->n_escapes = (size_t)(end - m->escapes);
}

/* Escapes as a frame has them; returns the number of bits. */
static uint64_t write_escapes(const modelled *m, unsigned order, uint8_t *out)
{
    bit_writer w = {.next = out};
    for (size_t i = 0; i < m->n_escapes; i++) {
        uint64_t v = m->escapes[i] + (UINT64_C(1) << order);
        unsigned bits = bit_length_u64(v) - 1;
        bit_write(&w, 0, bits - order);
        bit_write(&w, 1, 1);
        bit_write(&w, v & ((UINT64_C(1) << bits) - 1), bits);
    }
    uint64_t bits = (uint64_t)(w.next - out) * 8 + w.n_pending;
    bit_writer_end(&w);
    return bits;
}

static void test_model_row(void **state)
{
    static modelled m, ref;
    test_rng r = {51};
    for (int i = 0; i < 1500; i++) {
        cell_rows c = random_rows(&r);
        calm_rows(&r, &c);
        enum predictor p = dense_predictors[rng_below(&r, COUNT_OF(dense_predictors))];
        bool identity = p == PREDICT_NONE && rng_chance(&r, 2);
        model_with(reference, p, identity, &c, &ref);
        FOR_EACH_FAMILY(k)
        {
            model_with(k, p, identity, &c, &m);
            assert_true(m.n_escapes == ref.n_escapes);
            assert_memory_equal(m.symbols, ref.symbols, c.columns * c.lanes * sizeof *m.symbols);
            assert_memory_equal(m.escapes, ref.escapes, ref.n_escapes * sizeof *ref.escapes);
        }
        free(c.memory);
    }
}

typedef struct coder_tables {
    uint32_t entries[N_CONTEXTS * N_SYMBOLS];
    symbol_tables symbols;
} coder_tables;

/* Frequencies in which every symbol occurs, those counted more often. */
static void fill_tables(const uint16_t *symbols, size_t n, coder_tables *t)
{
    uint32_t counts[N_CONTEXTS * N_SYMBOLS] = {0};
    for (size_t i = 0; i < n; i++)
        counts[symbols[i] & 0xff]++;
    for (uint32_t c = 0; c < N_CONTEXTS; c++) {
        uint32_t total = 1, sum = 0, start = 0, frequency[N_SYMBOLS];
        for (uint32_t s = 0; s < N_SYMBOLS; s++)
            total += counts[c * N_SYMBOLS + s];
        for (uint32_t s = 0; s < N_SYMBOLS; s++)
            sum += frequency[s] = 1 + counts[c * N_SYMBOLS + s] * (PROB_SCALE - N_SYMBOLS) / total;
        frequency[c % N_SYMBOLS] += PROB_SCALE - sum;
        for (uint32_t s = 0; s < N_SYMBOLS; s++) {
            t->entries[c * N_SYMBOLS + s] = coder_entry(start, frequency[s], symbol_bits[s]);
            t->symbols.start[c][s] = (uint16_t)start;
            start += frequency[s];
        }
        t->symbols.start[c][N_SYMBOLS] = (uint16_t)start;
    }
    dense_fill_tables(&t->symbols);
}

typedef struct coded {
    const uint8_t *words; /* end at the output's guard */
    size_t bytes;
    uint32_t state[LANES];
} coded;

static coded encode_with(const codec_kernels *k, const uint16_t *symbols, size_t n, const coder_tables *t, uint8_t *end)
{
    coded c;
    for (int i = 0; i < LANES; i++)
        c.state[i] = STATE_MIN;
    c.words = k->entropy_encode(symbols, n, t->entries, end, c.state);
    c.bytes = (size_t)(end - c.words);
    return c;
}

static coder_tables tables; /* large */

/* One of the first `range` symbols of all contexts, with raw bits. */
static uint16_t random_symbol(test_rng *r, unsigned range)
{
    unsigned symbol = (unsigned)rng_below(r, range);
    return (uint16_t)(rng_below(r, 1u << symbol_bits[symbol % N_SYMBOLS]) << 8 | symbol);
}

static void test_entropy_encode(void **state)
{
    test_rng r = {52};
    for (int i = 0; i < 300; i++) {
        size_t n = LANES * (1 + rng_below(&r, 40));
        uint16_t *symbols = (uint16_t *)(void *)guarded_tail(&input, n * sizeof *symbols);
        unsigned range = 1 + (unsigned)rng_below(&r, N_CONTEXTS * N_SYMBOLS);
        for (size_t k = 0; k < n; k++)
            symbols[k] = random_symbol(&r, rng_chance(&r, 2) ? range : 1 + range / 100);
        fill_tables(symbols, n, &tables);
        coded ref = encode_with(reference, symbols, n, &tables, expected.end);
        FOR_EACH_FAMILY(k)
        {
            coded c = encode_with(k, symbols, n, &tables, output.end);
            assert_int_equal(c.bytes, ref.bytes);
            assert_memory_equal(c.words, ref.words, ref.bytes);
            assert_memory_equal(c.state, ref.state, sizeof ref.state);
        }
    }
}

/* A reader over escapes and the words after them, as in a frame, with READ_SLACK bytes after both. */
static entropy_reader reader_of(test_rng *r, unsigned order, const uint8_t *escapes, size_t escape_bytes, const uint8_t *words,
                                size_t word_bytes, const uint32_t state[LANES])
{
    uint8_t *at = guarded_tail(&input, escape_bytes + word_bytes + READ_SLACK);
    memcpy(at, escapes, escape_bytes);
    memcpy(at + escape_bytes, words, word_bytes);
    for (size_t i = 0; i < READ_SLACK; i++)
        input.end[-1 - (ptrdiff_t)i] = (uint8_t)rng_next(r);
    entropy_reader in = {.words = at + escape_bytes, .end = at + escape_bytes + word_bytes, .tables = &tables.symbols};
    in.escapes = bit_reader_make(at, escape_bytes);
    in.escape_order = order;
    memcpy(in.state, state, sizeof in.state);
    return in;
}

/* Whether every cell of the row is a code that an encoder can make. Families need not agree on others. */
static bool codes_in_range(const cell_rows *c)
{
    for (size_t i = 0; i < c->columns * c->lanes; i++) {
        int32_t v =
            c->width == CODES16 ? ((const int16_t *)(const void *)c->row)[i] : ((const int32_t *)(const void *)c->row)[i];
        int32_t limit = c->width == CODES16 ? CODE16_LIMIT : CODE32_LIMIT;
        if (v < -limit || v > limit)
            return false;
    }
    return true;
}

/* Decodes one row with every family from the same reader; the verdict, and where it is good everything else, must agree.
 * Returns the verdict; the reference's row stays in *c. */
static bool check_decode_row(enum predictor p, bool identity, cell_rows *c, const entropy_reader *start)
{
    size_t row_bytes = c->columns * c->position;
    uint8_t *saved = need_malloc(c->bytes);
    memcpy(saved, c->row - 2 * c->position, c->bytes);
    entropy_reader ref = *start;
    bool ok_ref = reference->decode_row[c->width](p, identity, c->above, c->row, c->columns, c->lanes, &ref);
    uint8_t *row_ref = need_malloc(row_bytes);
    memcpy(row_ref, c->row, row_bytes);
    bool binding = codes_in_range(c);
    FOR_EACH_FAMILY(k)
    {
        memcpy(c->row - 2 * c->position, saved, c->bytes);
        entropy_reader in = *start;
        bool ok = k->decode_row[c->width](p, identity, c->above, c->row, c->columns, c->lanes, &in);
        if (!binding)
            continue;
        if (ok != ok_ref)
            fail_because("decode_row of family %s says %d where the reference says %d (predictor %d, width %d)",
                         comet_isa_name(k->isa), ok, ok_ref, (int)p, (int)c->width);
        if (!ok)
            continue;
        assert_ptr_equal(in.words, ref.words);
        assert_true(in.escapes.position == ref.escapes.position);
        assert_memory_equal(in.state, ref.state, sizeof ref.state);
        if (memcmp(c->row, row_ref, row_bytes) != 0)
            fail_because("decode_row of family %s differs (predictor %d, width %d)", comet_isa_name(k->isa), (int)p,
                         (int)c->width);
    }
    memcpy(c->row, row_ref, row_bytes);
    free(saved);
    free(row_ref);
    return ok_ref;
}

static void test_decode_row_inverts_the_encoder(void **state)
{
    static modelled m;
    static uint8_t escapes[COUNT_OF(m.escapes) * 9 + 8]; /* 32 zeros, a one and 32 bits at most */
    test_rng r = {53};
    for (int i = 0; i < 600; i++) {
        cell_rows c = random_rows(&r);
        calm_rows(&r, &c);
        enum predictor p = dense_predictors[rng_below(&r, COUNT_OF(dense_predictors))];
        size_t n = c.columns * c.lanes, row_bytes = c.columns * c.position;
        bool identity = p == PREDICT_NONE && rng_chance(&r, 2);
        unsigned order = (unsigned)rng_below(&r, rng_chance(&r, 8) ? 32 : 12);
        model_with(reference, p, identity, &c, &m);
        size_t escape_bits = write_escapes(&m, order, escapes), escape_bytes = (escape_bits + 7) / 8;
        fill_tables(m.symbols, n, &tables);
        coded words = encode_with(reference, m.symbols, n, &tables, output.end);
        uint8_t *original = need_malloc(row_bytes);
        memcpy(original, c.row, row_bytes);
        memset(c.row, 0x3c, row_bytes);
        entropy_reader in = reader_of(&r, order, escapes, escape_bytes, words.words, words.bytes, words.state);
        assert_true(check_decode_row(p, identity, &c, &in));
        assert_memory_equal(c.row, original, row_bytes);
        if (words.bytes) { /* one word fewer: the verdict must be no */
            in = reader_of(&r, order, escapes, escape_bytes, words.words, words.bytes - 2, words.state);
            assert_false(check_decode_row(p, identity, &c, &in));
        }
        if (escape_bytes) {
            in = reader_of(&r, order, escapes, escape_bytes - 1, words.words, words.bytes, words.state);
            assert_false(check_decode_row(p, identity, &c, &in));
        }
        free(original);
        free(c.memory);
    }
}

/* Words, states and escapes that no encoder wrote. */
static void test_decode_row_of_damaged_streams(void **state)
{
    static uint8_t escapes[4096], words[8192];
    test_rng r = {54};
    for (int i = 0; i < 1500; i++) {
        cell_rows c = random_rows(&r);
        calm_rows(&r, &c);
        memset(c.row, 0, c.columns * c.position); /* what a stream that ends early leaves */
        uint16_t symbols[256];
        uint32_t states[LANES];
        unsigned range = 1 + (unsigned)rng_below(&r, rng_chance(&r, 2) ? N_CONTEXTS * N_SYMBOLS : 20);
        for (size_t k = 0; k < COUNT_OF(symbols); k++)
            symbols[k] = (uint16_t)(rng_below(&r, range) + rng_below(&r, N_CONTEXTS) * N_SYMBOLS);
        fill_tables(symbols, COUNT_OF(symbols), &tables);
        for (int k = 0; k < LANES; k++)
            states[k] = STATE_MIN + (uint32_t)rng_below(&r, UINT32_MAX - STATE_MIN);
        size_t escape_bytes = rng_below(&r, sizeof escapes), word_bytes = rng_below(&r, sizeof words / 2) * 2;
        for (size_t k = 0; k < escape_bytes; k++)
            escapes[k] = (uint8_t)rng_next(&r);
        for (size_t k = 0; k < word_bytes; k++)
            words[k] = (uint8_t)rng_next(&r);
        unsigned order = (unsigned)rng_below(&r, 32);
        entropy_reader in = reader_of(&r, order, escapes, escape_bytes, words, word_bytes, states);
        enum predictor p = dense_predictors[rng_below(&r, COUNT_OF(dense_predictors))];
        check_decode_row(p, p == PREDICT_NONE && rng_chance(&r, 2), &c, &in);
        free(c.memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_row),
        cmocka_unit_test(test_entropy_encode),
        cmocka_unit_test(test_decode_row_inverts_the_encoder),
        cmocka_unit_test(test_decode_row_of_damaged_streams),
    };
    return cmocka_run_group_tests_name("kernels: dense", tests, make_room, free_room);
}
