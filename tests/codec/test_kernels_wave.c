/* Kernels of level dense with lanes in a wave against the reference, bit for bit; decoding of damaged streams. */
#include "kernels_testing.h"

#include <stdlib.h>

#include "codec/dense.h"
#include "codec/dense_tables.h"
#include "codec/kernels/dense_model.h"

/* A chunk in all its forms. */
typedef struct wave_chunk {
    wave_shape w;
    enum code_width width;
    enum predictor predictor;
    size_t n, n_symbols;
    void *codes, *memory, *cells; /* cells: step 0, in memory */
    uint16_t *symbols;
    uint32_t *escapes, *escapes_end;
    uint8_t *words_room, *words_end;
} wave_chunk;

static size_t cells_bytes(const wave_chunk *c)
{
    return wave_cells(&c->w) * code_bytes(c->width);
}

static void set_code(wave_chunk *c, size_t i, int32_t v)
{
    if (c->width == CODES16)
        ((int16_t *)c->codes)[i] = (int16_t)v;
    else
        ((int32_t *)c->codes)[i] = v;
}

/* Slopes that differ from plane to plane, noise, and here and there any code that an encoder can make. */
static void fill_wave_codes(test_rng *r, wave_chunk *c)
{
    int32_t noise = 1 + (int32_t)rng_below(r, rng_chance(r, 3) ? 200 : 4), slope = (int32_t)rng_below(r, 40);
    int32_t limit = c->width == CODES16 ? CODE16_LIMIT : CODE32_LIMIT;
    bool wild = rng_chance(r, 3);
    for (size_t i = 0; i < c->n; i++) {
        size_t row = i / c->w.columns, column = i % c->w.columns;
        int32_t v = (int32_t)(row % c->w.lines + column) * slope / 20 + (int32_t)rng_below(r, (uint64_t)noise);
        if (wild && rng_chance(r, 20))
            v = rng_chance(r, 2) ? limit : -limit;
        set_code(c, i, v < limit ? v : limit);
    }
}

static wave_chunk random_wave(test_rng *r)
{
    wave_chunk c = {.width = (enum code_width)rng_below(r, 2), .predictor = rng_chance(r, 2) ? PREDICT_WAVE : PREDICT_VOLUME};
    uint64_t lines = 1 + rng_below(r, rng_chance(r, 2) ? 20 : 200), columns = WAVE_MIN_COLUMNS + rng_below(r, 100);
    uint64_t rows = WAVE_MIN_ROWS + rng_below(r, rng_chance(r, 3) ? 300 : 100);
    geometry g = {.n_elements = rows * columns, .channels = 1, .columns = columns, .line = columns, .lines = lines};
    c.n = (size_t)g.n_elements;
    assert_true(geometry_wave(&g, c.n, &c.w));
    c.n_symbols = c.w.steps * LANES;
    c.codes = need_malloc((c.n + BLOCK) * code_bytes(c.width));
    c.memory = aligned_alloc(64, (cells_bytes(&c) + 63) / 64 * 64);
    assert_non_null(c.memory);
    memset(c.memory, 0x5a, cells_bytes(&c));
    memset(c.memory, 0, WAVE_LEAD * WAVE_PITCH * code_bytes(c.width));
    c.cells = (uint8_t *)c.memory + WAVE_LEAD * WAVE_PITCH * code_bytes(c.width);
    c.symbols = need_malloc(c.n_symbols * sizeof *c.symbols);
    c.escapes = need_malloc((c.n_symbols + 32) * sizeof *c.escapes);
    c.words_room = need_malloc(dense_words_room(c.n_symbols));
    c.words_end = c.words_room + dense_words_room(c.n_symbols);
    fill_wave_codes(r, &c);
    return c;
}

static void free_wave(wave_chunk *c)
{
    free(c->codes);
    free(c->memory);
    free(c->symbols);
    free(c->escapes);
    free(c->words_room);
}

/* Frequencies in which every symbol of every context occurs, but padding costs nothing. */
static void fill_wave_tables(uint32_t entries[N_CONTEXTS * N_SYMBOLS], symbol_tables *t)
{
    for (uint32_t k = 0; k < N_CONTEXTS; k++) {
        uint32_t start = 0;
        for (uint32_t s = 0; s < N_SYMBOLS; s++) {
            uint32_t rest = PROB_SCALE - 15 * 20, f = k == WAVE_IDLE ? (s ? 0 : PROB_SCALE) : s ? 20 : rest;
            entries[k * N_SYMBOLS + s] = coder_entry(start, f, symbol_bits[s]);
            t->start[k][s] = (uint16_t)start;
            start += f;
        }
        t->start[k][N_SYMBOLS] = (uint16_t)start;
    }
    dense_fill_tables(t);
}

/* The cells and symbols of all families are those of the reference; a range of steps gives that part of the symbols. */
static void check_model(test_rng *r, wave_chunk *c)
{
    const wave_kernels *ref = wave_kernels_of(reference);
    ref->gather[c->width](&c->w, c->codes, c->cells);
    c->escapes_end = ref->model[c->width](&c->w, c->predictor, c->cells, 0, c->w.steps, c->symbols, c->escapes);
    uint16_t *symbols = need_malloc(c->n_symbols * sizeof *symbols);
    uint32_t *escapes = need_malloc((c->n_symbols + 32) * sizeof *escapes);
    size_t n_escapes = (size_t)(c->escapes_end - c->escapes);
    FOR_EACH_FAMILY(k)
    {
        const wave_kernels *w = wave_kernels_of(k);
        const uint32_t *end = w->model[c->width](&c->w, c->predictor, c->cells, 0, c->w.steps, symbols, escapes);
        assert_int_equal(end - escapes, n_escapes);
        assert_memory_equal(symbols, c->symbols, c->n_symbols * sizeof *symbols);
        assert_memory_equal(escapes, c->escapes, n_escapes * sizeof *escapes);
        size_t first = rng_below(r, c->w.steps), count = rng_below(r, c->w.steps - first + 1);
        w->model[c->width](&c->w, c->predictor, c->cells, first, count, symbols, escapes);
        assert_memory_equal(symbols, c->symbols + first * LANES, count * LANES * sizeof *symbols);
    }
    free(symbols);
    free(escapes);
}

static uint64_t write_wave_escapes(const wave_chunk *c, uint8_t *out)
{
    bit_writer w = {.next = out};
    for (const uint32_t *e = c->escapes; e < c->escapes_end; e++) {
        uint64_t v = (uint64_t)*e + 1;
        unsigned below = bit_length_u64(v) - 1;
        bit_write(&w, 0, below);
        bit_write(&w, 1, 1);
        bit_write(&w, v & ((UINT64_C(1) << below) - 1), below);
    }
    uint64_t bits = (uint64_t)(w.next - out) * 8 + w.n_pending;
    bit_writer_end(&w);
    return (bits + 7) / 8;
}

static symbol_tables tables; /* large */

/* Every family gets the codes back from what the reference wrote, and notices a missing word. */
static void check_decode(wave_chunk *c)
{
    uint32_t entries[N_CONTEXTS * N_SYMBOLS], state[LANES];
    fill_wave_tables(entries, &tables);
    for (int i = 0; i < LANES; i++)
        state[i] = STATE_MIN;
    const uint8_t *words = reference->entropy_encode(c->symbols, c->n_symbols, entries, c->words_end, state);
    uint8_t *escapes = need_malloc(c->n_symbols * 9 + 64), *decoded = need_malloc((c->n + BLOCK) * code_bytes(c->width));
    size_t word_bytes = (size_t)(c->words_end - words), escape_bytes = (size_t)write_wave_escapes(c, escapes);
    uint8_t *stream = need_malloc(word_bytes + READ_SLACK);
    memcpy(stream, words, word_bytes);
    memset(stream + word_bytes, 0x77, READ_SLACK);
    FOR_EACH_FAMILY(k)
    {
        const wave_kernels *w = wave_kernels_of(k);
        for (size_t missing = 0; missing <= 2; missing += 2) {
            entropy_reader in = {.words = stream, .end = stream + word_bytes - missing, .tables = &tables};
            in.escapes = bit_reader_make(escapes, escape_bytes);
            memcpy(in.state, state, sizeof state);
            memset(c->cells, 0x5a, cells_bytes(c) - WAVE_LEAD * WAVE_PITCH * code_bytes(c->width));
            bool ok = w->decode[c->width](&c->w, c->predictor, c->cells, &in, decoded);
            if (ok != (missing == 0))
                fail_because("family %s says %d with %zu bytes missing (predictor %d)", comet_isa_name(k->isa), ok, missing,
                             (int)c->predictor);
            if (!ok)
                continue;
            assert_ptr_equal(in.words, in.end);
            for (int i = 0; i < LANES; i++)
                assert_true(in.state[i] == STATE_MIN);
            assert_memory_equal(decoded, c->codes, c->n * code_bytes(c->width));
        }
    }
    free(stream);
    free(escapes);
    free(decoded);
}

static void test_waves(void **state)
{
    test_rng r = {61};
    for (int i = 0; i < 60; i++) {
        wave_chunk c = random_wave(&r);
        check_model(&r, &c);
        check_decode(&c);
        free_wave(&c);
    }
}

/* Words, states and escapes that no encoder wrote: families may differ, but none leaves its buffers. */
static void test_damaged_waves(void **state)
{
    test_rng r = {62};
    for (int i = 0; i < 40; i++) {
        wave_chunk c = random_wave(&r);
        uint32_t entries[N_CONTEXTS * N_SYMBOLS];
        fill_wave_tables(entries, &tables);
        size_t bytes = 2 * rng_below(&r, c.n);
        uint8_t *stream = need_malloc(bytes + READ_SLACK);
        for (size_t k = 0; k < bytes + READ_SLACK; k++)
            stream[k] = (uint8_t)rng_next(&r);
        FOR_EACH_FAMILY(k)
        {
            entropy_reader in = {.words = stream, .end = stream + bytes, .tables = &tables};
            in.escapes = bit_reader_make(stream, bytes / 2);
            for (int lane = 0; lane < LANES; lane++)
                in.state[lane] = STATE_MIN + (uint32_t)rng_below(&r, UINT32_MAX - STATE_MIN);
            wave_kernels_of(k)->decode[c.width](&c.w, c.predictor, c.cells, &in, c.codes);
        }
        free(stream);
        free_wave(&c);
    }
}

/* Which chunks a wave suits, and how many steps it takes. */
static void test_wave_shapes(void **state)
{
    wave_shape w;
    geometry g = {.n_elements = 64 * 200, .channels = 1, .columns = 200, .line = 200, .lines = 16};
    assert_true(geometry_wave(&g, 64 * 200, &w));
    assert_true(w.rows == 64 && w.lines == 16 && w.period == 202 && w.steps == 2 * 63 + 201);
    assert_true(geometry_wave(&g, 65 * 200, &w));
    assert_true(w.steps == 202 + 201);
    assert_false(geometry_wave(&g, 64 * 200 + 1, &w));
    assert_false(geometry_wave(&g, (WAVE_MIN_ROWS - 1) * 200, &w));
    g.columns = g.line = WAVE_MIN_COLUMNS;
    assert_true(geometry_wave(&g, 100 * WAVE_MIN_COLUMNS, &w) && w.period == WAVE_MIN_COLUMNS + 2);
    g.columns = g.line = WAVE_MIN_COLUMNS - 1;
    assert_false(geometry_wave(&g, 100 * (WAVE_MIN_COLUMNS - 1), &w));
    g = (geometry){.n_elements = 64 * 200 * 8, .channels = 8, .columns = 200, .line = 1600, .lines = 64};
    assert_false(geometry_wave(&g, 64 * 1600, &w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_damaged_waves),
        cmocka_unit_test(test_wave_shapes),
    };
    return cmocka_run_group_tests_name("kernels: wave", tests, make_room, free_room);
}
