/* What the activation store gives back: every policy, layout and way of putting, the same on any number of workers. */
#include <fenv.h>
#include <pthread.h>

#include "store/packed.h"
#include "store_testing.h"

enum { SEED = 11 };

/* A few tiles in every layout, the last one shorter. */
static comet_tensor some_tensor(comet_layout layout)
{
    const uint64_t dims[] = {3, 24, 80, 75};
    return tensor_of(COMET_DTYPE_F32, layout, 4, dims);
}

/* ---- by tiles, from threads of the test's own ---- */

typedef struct tiles_job {
    comet_store *store;
    comet_slot slots[2];
    size_t n_slots, worker, n_workers;
    float *x; /* put from, or taken into */
    bool put;
    comet_status status;
} tiles_job;

static comet_status one_tile(const tiles_job *j, comet_slot slot, uint64_t k, uint64_t tile_elements)
{
    float *x = j->x + k * tile_elements;
    const float *got = NULL;
    if (k % 2) /* which changes nothing */
        comet_store_prefetch(j->store, j->worker, x + tile_elements);
    if (j->put)
        return comet_store_put_tile(j->store, slot, k, j->worker, x);
    comet_status status = comet_store_take_tile(j->store, slot, k, j->worker, x, &got);
    return status == COMET_OK && got != x ? COMET_ERROR_ARGUMENT : status;
}

/* Asserts nothing: cmocka does so on the test's own thread only. */
static void *tile_thread(void *arg)
{
    tiles_job *j = arg;
    uint64_t n_tiles = 0, tile_elements = 0;
    j->status = comet_store_tiling(j->store, j->slots[0], &n_tiles, &tile_elements);
    for (uint64_t k = j->worker; k < n_tiles; k += j->n_workers)
        for (size_t i = 0; i < j->n_slots && j->status == COMET_OK; i++)
            j->status = one_tile(j, j->slots[i], n_tiles - 1 - k, tile_elements);
    return NULL;
}

static void run_tile_threads(tiles_job job, size_t n_workers)
{
    pthread_t threads[3];
    tiles_job jobs[3];
    for (size_t w = 0; w < n_workers; w++) {
        jobs[w] = job;
        jobs[w].worker = w;
        jobs[w].n_workers = n_workers;
        assert_int_equal(pthread_create(&threads[w], NULL, tile_thread, &jobs[w]), 0);
    }
    for (size_t w = 0; w < n_workers; w++)
        pthread_join(threads[w], NULL);
    for (size_t w = 0; w < n_workers; w++)
        assert_int_equal(jobs[w].status, COMET_OK);
}

static void put_by_tiles(comet_store *s, comet_slot slot, float *x, size_t n_workers)
{
    assert_ok(comet_store_put_begin(s, slot));
    run_tile_threads((tiles_job){.store = s, .slots = {slot}, .n_slots = 1, .x = x, .put = true}, n_workers);
    assert_ok(comet_store_put_end(s, slot));
}

static float *take_by_tiles(comet_store *s, comet_slot slot, size_t n_workers)
{
    float *y = need_malloc((size_t)comet_store_slot_spec(s, slot)->bytes);
    run_tile_threads((tiles_job){.store = s, .slots = {slot}, .n_slots = 1, .x = y}, n_workers);
    return y;
}

/* ---- the same whatever the way ---- */

static void assert_same_report(comet_slot_report a, comet_slot_report b)
{
    a.seconds_put = a.seconds_take = b.seconds_put = b.seconds_take = 0;
    a.n_puts = a.n_takes = b.n_puts = b.n_takes = 0;
    assert_memory_equal(&a, &b, sizeof a);
}

/* Whole with one worker is the reference for two and three, and for tiles. */
static void check_way(const comet_tensor *t, comet_exactness exactness, comet_slot_policy p, float *x)
{
    comet_store *first = store_with(NULL, 1, NULL);
    comet_slot in_first = declare_with(first, t, exactness, p);
    assert_ok(comet_store_put(first, in_first, x));
    float *y = take_copy(first, in_first);
    check_values(t, &p, exactness, x, y);
    comet_slot_report r = report_of(first, in_first);
    check_figures(&r, t, x, 1e-6); /* for the order */
    for (size_t n_workers = 2; n_workers <= 3; n_workers++) {
        comet_store *s = store_with(NULL, n_workers, NULL);
        comet_slot whole = declare_with(s, t, exactness, p), tiles = declare_with(s, t, exactness, p);
        assert_ok(comet_store_put(s, whole, x));
        put_by_tiles(s, tiles, x, n_workers);
        assert_same_tiles(first, in_first, s, whole);
        assert_same_tiles(first, in_first, s, tiles);
        assert_same_report(r, report_of(s, whole));
        assert_same_report(r, report_of(s, tiles));
        float *from_tiles = take_by_tiles(s, whole, n_workers), *from_whole = take_copy(s, tiles);
        assert_memory_equal(from_tiles, y, bytes_of(t));
        assert_memory_equal(from_whole, y, bytes_of(t));
        free(from_tiles);
        free(from_whole);
        comet_store_destroy(s);
    }
    free(y);
    comet_store_destroy(first);
}

static void check_layout(comet_layout layout, enum data_class data)
{
    comet_tensor t = some_tensor(layout);
    float *x = make_data(SEED, data, &t);
    for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_DENSE; level++) {
        comet_slot_policy p = policy_of(COMET_POLICY_LOSSLESS, (comet_level)level, 0);
        check_way(&t, COMET_EXACT, p, x);
        p = policy_of(COMET_POLICY_BOUNDED, (comet_level)level, 0.05);
        check_way(&t, COMET_LOSSY, p, x);
        check_way(&t, COMET_SUPPORT, p, x);
        p.dither = true;
        p.dither_seed = 99;
        check_way(&t, COMET_LOSSY, p, x);
    }
    free(x);
}

static void test_planar(void **state)
{
    check_layout(COMET_LAYOUT_PLANAR, DATA_RELU);
}

static void test_channels_last(void **state)
{
    check_layout(COMET_LAYOUT_CHANNELS_LAST, DATA_SMOOTH);
}

static void test_blocked8(void **state)
{
    check_layout(COMET_LAYOUT_BLOCKED8, DATA_RELU);
}

/* NaN and Inf come back bit for bit: comet_compare counts others as violations. */
static void test_blocked16_nonfinite(void **state)
{
    check_layout(COMET_LAYOUT_BLOCKED16, DATA_NONFINITE);
}

/* The codec's frames hold the same chunks: a tile is a chunk, dither and all. */
static void test_tiles_are_chunks(void **state)
{
    comet_tensor t = some_tensor(COMET_LAYOUT_BLOCKED16);
    float *x = make_data(SEED, DATA_SMOOTH, &t);
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_DENSE, 0.02);
    p.dither = true;
    p.dither_seed = 5;
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, p);
    assert_ok(comet_store_put(s, slot, x));
    comet_params params = params_of(COMET_LEVEL_DENSE, 0.02);
    params.dither = 1;
    params.dither_seed = 5;
    params.chunk_elements = s->slots[slot]->tile_elements;
    blob frame = encode(NULL, &t, &params, x, NULL);
    const uint8_t *chunk = frame.data + info_of(frame).header_bytes;
    for (uint64_t k = 0; k < s->slots[slot]->n_tiles; k++) {
        const store_tile *tile = &s->slots[slot]->tiles[k];
        assert_memory_equal(tile->place, chunk, tile->bytes);
        chunk += tile->bytes;
    }
    assert_ptr_equal(chunk, frame.data + frame.bytes);
    free(frame.data);
    free(x);
    comet_store_destroy(s);
}

/* ---- signs alone ---- */

static double bits_of_signs(enum data_class data, comet_exactness exactness, comet_level level)
{
    comet_tensor t = some_tensor(COMET_LAYOUT_BLOCKED16);
    float *x = make_data(SEED, data, &t);
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot slot = declare_with(s, &t, exactness, policy_of(COMET_POLICY_BOUNDED, level, INFINITY));
    assert_ok(comet_store_put(s, slot, x));
    float *y = take_copy(s, slot);
    for (uint64_t i = 0; i < elements_of(&t); i++) {
        assert_true((x[i] > 0) == (y[i] > 0) && (x[i] < 0) == (y[i] < 0));
        if (!isfinite(x[i]))
            assert_memory_equal(&x[i], &y[i], sizeof *x);
    }
    comet_slot_report r = report_of(s, slot);
    assert_true(isinf(r.eb));
    free(x);
    free(y);
    comet_store_destroy(s);
    return 8 * (double)r.bytes_held / (double)r.n_elements;
}

static void test_signs(void **state)
{
    for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_DENSE; level++) {
        double relu = bits_of_signs(DATA_RELU, COMET_SUPPORT, (comet_level)level);
        double noise = bits_of_signs(DATA_NOISE, COMET_SUPPORT, (comet_level)level);
        print_message("signs at level %d: %.3f bits of ReLU's output, %.3f of noise\n", level, relu, noise);
        assert_true(relu < 1.1);
        assert_true(noise < 1.1);
        bits_of_signs(DATA_HUGE, COMET_SUPPORT, (comet_level)level);
        bits_of_signs(DATA_TINY, COMET_SUPPORT, (comet_level)level);
        bits_of_signs(DATA_NONFINITE, COMET_LOSSY, (comet_level)level);
    }
}

/* ---- a bound relative to the deviation ---- */

static double deviation_bound(size_t n_workers, const comet_tensor *t, float *x, double multiple)
{
    comet_store *s = store_with(NULL, n_workers, NULL);
    comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, multiple);
    p.of_deviation = true;
    comet_slot slot = declare_with(s, t, COMET_LOSSY, p);
    assert_ok(comet_store_put(s, slot, x));
    double eb = report_of(s, slot).eb;
    float *y = take_copy(s, slot);
    p.eb = eb;
    check_values(t, &p, COMET_LOSSY, x, y);
    free(y);
    assert_ok(comet_store_drop(s, slot));
    assert_status(comet_store_put_begin(s, slot), COMET_ERROR_ARGUMENT);
    comet_store_destroy(s);
    return eb;
}

static void test_deviation(void **state)
{
    static const enum data_class classes[] = {DATA_SMOOTH, DATA_NONFINITE, DATA_CONSTANT};
    comet_tensor t = some_tensor(COMET_LAYOUT_PLANAR);
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        float *x = make_data(SEED, classes[i], &t);
        double expected = 0.1 * elements_stddev(COMET_DTYPE_F32, x, elements_of(&t)), eb = deviation_bound(1, &t, x, 0.1);
        assert_near(eb, expected, 1e-6 * (expected + 1));
        for (size_t n_workers = 2; n_workers <= 3; n_workers++)
            assert_true(deviation_bound(n_workers, &t, x, 0.1) == eb);
        free(x);
    }
}

/* ---- bounds that are none ---- */

static void test_vanishing_bounds_are_lossless(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 1000);
    float *x = make_data(SEED, DATA_NOISE, &t);
    static const double bounds[] = {0, 1e-45, 1e-300};
    comet_store *s = store_with(NULL, 1, NULL);
    for (size_t i = 0; i < COUNT_OF(bounds); i++) {
        comet_slot slot = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, bounds[i]));
        assert_ok(comet_store_put(s, slot, x));
        float *y = take_copy(s, slot);
        assert_memory_equal(x, y, bytes_of(&t));
        assert_true(report_of(s, slot).eb == 0);
        free(y);
    }
    comet_store_destroy(s);
    free(x);
}

/* ---- raw ---- */

static void test_raw(void **state)
{
    comet_tensor t = some_tensor(COMET_LAYOUT_PLANAR);
    float *x = make_data(SEED, DATA_RELU, &t);
    const float *tile = NULL;
    void *data = NULL;
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot_spec spec = spec_of(&t, COMET_EXACT);
    comet_slot slot = declare(s, &spec);
    assert_ok(comet_store_put(s, slot, x));
    assert_ok(comet_store_take(s, slot, NULL, &data));
    assert_ptr_equal(data, x);
    for (uint64_t k = 0; k < s->slots[slot]->n_tiles; k++) {
        assert_ok(comet_store_take_tile(s, slot, k, 0, NULL, &tile));
        assert_ptr_equal(tile, x + k * s->slots[slot]->tile_elements);
    }
    comet_slot_report r = report_of(s, slot);
    assert_int_equal(r.bytes_held, bytes_of(&t));
    assert_int_equal(r.n_takes, 2);
    assert_int_equal(totals_of(s).held, bytes_of(&t));
    assert_int_equal(totals_of(s).own_bytes, 0);
    assert_ok(comet_store_drop(s, slot));
    assert_int_equal(totals_of(s).held, 0);
    comet_store_destroy(s);
    free(x);
}

/* ---- bytes ---- */

/* n bytes, a float's worth of room beyond the last whole float not to be touched. */
static comet_slot_spec bytes_spec(uint64_t n, uint32_t index_bits)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, (n + 3) / 4);
    comet_slot_spec spec = spec_of(&t, COMET_EXACT);
    spec.class_ = index_bits ? COMET_SLOT_INDEX : COMET_SLOT_OTHER;
    spec.bytes = n;
    spec.index_bits = index_bits;
    return spec;
}

static void check_bytes(comet_store *s, uint64_t n, uint32_t bits, comet_policy policy)
{
    comet_slot_spec spec = bytes_spec(n, bits);
    comet_slot slot = declare(s, &spec);
    comet_slot_policy p = policy_of(policy, COMET_LEVEL_FAST, 0);
    assert_ok(comet_store_set_policy(s, slot, &p));
    guarded in = guarded_make((size_t)n + 64), out = guarded_make((size_t)n + 64);
    size_t room = policy == COMET_POLICY_PACKED ? (size_t)n : (size_t)(n + 3) / 4 * 4; /* floats are aligned */
    uint8_t *x = guarded_tail(&in, room), *y = guarded_tail(&out, room);
    test_rng rng = {n};
    for (uint64_t i = 0; i < n; i++)
        x[i] = (uint8_t)rng_below(&rng, bits ? UINT64_C(1) << bits : 256);
    void *data = NULL;
    memset(y, 0xee, room);
    assert_ok(comet_store_put(s, slot, x));
    assert_ok(comet_store_take(s, slot, y, &data));
    assert_memory_equal(x, y, (size_t)n);
    for (size_t i = (size_t)n; i < room; i++)
        assert_int_equal(y[i], 0xee);
    if (policy == COMET_POLICY_PACKED)
        assert_true(report_of(s, slot).bytes_held <= packed_bytes((size_t)n, bits) + s->slots[slot]->n_tiles);
    assert_ok(comet_store_drop(s, slot));
    guarded_free(&in);
    guarded_free(&out);
}

static void test_packed(void **state)
{
    static const uint64_t lengths[] = {1, 2, 7, 8, 9, 63, 64, 1000, 4096, 4099, 3000001};
    comet_store *s = store_with(NULL, 2, NULL);
    for (uint32_t bits = 1; bits <= 7; bits++)
        for (size_t i = 0; i < COUNT_OF(lengths); i++)
            check_bytes(s, lengths[i], bits, COMET_POLICY_PACKED);
    comet_store_destroy(s);
}

static void test_bytes_without_loss(void **state)
{
    static const uint64_t lengths[] = {1, 3, 4, 5, 1001, 3000001, 3000002};
    comet_store *s = store_with(NULL, 2, NULL);
    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        check_bytes(s, lengths[i], 0, COMET_POLICY_LOSSLESS);
    comet_store_destroy(s);
}

static void test_index_out_of_range(void **state)
{
    enum { N = 2000003 }; /* no whole number of groups */
    uint8_t *x = need_malloc(N);
    comet_store *s = store_with(NULL, 2, NULL);
    static const size_t places[] = {0, 4095, 1234567, N - 1};
    for (uint32_t bits = 1; bits <= 7; bits++) {
        comet_slot_spec spec = bytes_spec(N, bits);
        comet_slot slot = declare(s, &spec);
        comet_slot_policy p = policy_of(COMET_POLICY_PACKED, COMET_LEVEL_FAST, 0);
        assert_ok(comet_store_set_policy(s, slot, &p));
        for (size_t i = 0; i < COUNT_OF(places); i++) {
            memset(x, 0, N);
            x[places[i]] = (uint8_t)(1 << bits);
            assert_status(comet_store_put(s, slot, x), COMET_ERROR_ARGUMENT);
            assert_non_null(strstr(comet_last_error(), "layer7"));
            assert_int_equal(totals_of(s).held, 0);
        }
    }
    comet_store_destroy(s);
    free(x);
}

/* ---- small things ---- */

static void test_empty_and_one(void **state)
{
    comet_store *s = store_with(NULL, 2, NULL);
    for (uint64_t n = 0; n < 2; n++) {
        comet_tensor t = tensor_1d(COMET_DTYPE_F32, n);
        comet_slot slot = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_DENSE, 0.1));
        float x = -3.25f, y = 0;
        void *data = NULL;
        assert_ok(comet_store_put(s, slot, &x));
        assert_ok(comet_store_take(s, slot, &y, &data));
        assert_true(n == 0 ? y == 0 : fabsf(x - y) <= 0.1f);
        assert_int_equal(report_of(s, slot).n_takes, 1);
        assert_ok(comet_store_drop(s, slot));
    }
    comet_store_destroy(s);
}

/* Two slots that are put tile by tile at the same time do not mix. */
/* A hint is gone with its tile, also where that is held raw or cannot be had. */
static void test_hints_are_forgotten(void **state)
{
    (void)state;
    comet_tensor t = some_tensor(COMET_LAYOUT_PLANAR);
    float *x = make_data(SEED, DATA_RELU, &t), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 1, NULL);
    const workspace *ws = s->context.workers;
    const float *tile;
    comet_slot coded = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, 0.05));
    comet_slot raw = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_RAW, COMET_LEVEL_FAST, 0));
    assert_ok(comet_store_put(s, raw, x));
    comet_store_prefetch(s, 0, x);
    assert_true(ws->prefetch == x);
    assert_status(comet_store_take_tile(s, coded, 0, 0, room, &tile), COMET_ERROR_ARGUMENT);
    assert_null(ws->prefetch);
    comet_store_prefetch(s, 0, x);
    assert_ok(comet_store_take_tile(s, raw, 0, 0, room, &tile));
    assert_null(ws->prefetch);
    put_by_tiles(s, coded, x, 1); /* with hints at every other tile */
    comet_store_prefetch(s, 0, x);
    assert_ok(comet_store_take_tile(s, coded, 0, 0, room, &tile));
    assert_null(ws->prefetch);
    comet_store_destroy(s);
    free(x);
    free(room);
}

static void test_interleaved_puts(void **state)
{
    comet_tensor t = some_tensor(COMET_LAYOUT_BLOCKED16);
    float *x = make_data(SEED, DATA_RELU, &t);
    comet_store *s = store_with(NULL, 3, NULL);
    comet_slot fast = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, 0.1));
    comet_slot dense = declare_with(s, &t, COMET_SUPPORT, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_DENSE, 0.2));
    assert_ok(comet_store_put_begin(s, fast));
    assert_ok(comet_store_put_begin(s, dense));
    run_tile_threads((tiles_job){.store = s, .slots = {fast, dense}, .n_slots = 2, .x = x, .put = true}, 3);
    assert_ok(comet_store_put_end(s, dense));
    assert_ok(comet_store_put_end(s, fast));
    comet_store *apart = store_with(NULL, 1, NULL);
    for (int i = 0; i < 2; i++) {
        comet_slot slot = i ? dense : fast;
        comet_slot other =
            declare_with(apart, &t, comet_store_slot_spec(s, slot)->exactness, *comet_store_slot_policy(s, slot));
        assert_ok(comet_store_put(apart, other, x));
        assert_same_tiles(s, slot, apart, other);
    }
    comet_store_destroy(apart);
    comet_store_destroy(s);
    free(x);
}

/* A host's parallel-for and rounding mode change nothing. */
static void test_host(void **state)
{
    comet_tensor t = some_tensor(COMET_LAYOUT_PLANAR);
    float *x = make_data(SEED, DATA_RELU, &t);
    comet_hooks hooks = hooks_with(NULL);
    hooks.parallel = parallel_reversed();
    comet_store *own = store_with(NULL, 1, NULL), *lent = store_with(&hooks, 3, NULL);
    comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_DENSE, 0.1);
    p.of_deviation = true;
    comet_slot a = declare_with(own, &t, COMET_SUPPORT, p), b = declare_with(lent, &t, COMET_SUPPORT, p);
    assert_ok(comet_store_put(own, a, x));
    assert_int_equal(fesetround(FE_UPWARD), 0);
    comet_status status = comet_store_put(lent, b, x);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_ok(status);
    assert_same_tiles(own, a, lent, b);
    assert_same_report(report_of(own, a), report_of(lent, b));
    comet_store_destroy(own);
    comet_store_destroy(lent);
    free(x);
}

/* Tiles never depend on the policy, hold at most 2^17 elements or a line, and are whole planes where planes are small. */
static void test_tiling(void **state)
{
    static const uint64_t shapes[][4] = {{32, 64, 112, 112}, {32, 64, 56, 56},  {32, 512, 7, 7},
                                         {1, 3, 224, 224},   {2, 16, 600, 800}, {8, 24, 75, 80},
                                         {256, 2048, 1, 1},  {1, 1, 3, 100000}, {1, 1, 3, 200000}};
    comet_store *s = store_with(NULL, 1, NULL);
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (int layout = COMET_LAYOUT_PLANAR; layout <= COMET_LAYOUT_BLOCKED16; layout++) {
            comet_tensor t = tensor_of(COMET_DTYPE_F32, (comet_layout)layout, 4, shapes[i]);
            comet_slot_spec spec = spec_of(&t, COMET_LOSSY);
            comet_slot slot = declare(s, &spec);
            const geometry *shape = &s->slots[slot]->shape;
            uint64_t n_tiles = 0, elements = 0, plane = shape->line * shape->lines;
            assert_ok(comet_store_tiling(s, slot, &n_tiles, &elements));
            uint64_t same_tiles, same_elements;
            assert_ok(comet_store_spec_tiling(comet_store_slot_spec(s, slot), &same_tiles, &same_elements));
            assert_true(same_tiles == n_tiles && same_elements == elements);
            assert_true(elements > 0 && (elements <= (1 << 17) || elements == shape->line));
            assert_int_equal(n_tiles, (elements_of(&t) + elements - 1) / elements);
            assert_true(plane > elements || elements % plane == 0 || n_tiles == 1);
            assert_true(n_tiles == 1 || elements >= (1 << 15));
        }
    comet_store_destroy(s);
}

/* ---- damage ---- */

static void flip(store_tile *tile, uint64_t bit)
{
    tile->place[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static void check_bit_flips(comet_level level, float *x, const comet_tensor *t)
{
    float *room = need_malloc(bytes_of(t));
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot slot = declare_with(s, t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, level, 0.1));
    assert_ok(comet_store_put(s, slot, x));
    test_rng rng = {SEED};
    for (int i = 0; i < 40; i++) {
        uint64_t k = rng_below(&rng, s->slots[slot]->n_tiles), bit = rng_below(&rng, 8 * s->slots[slot]->tiles[k].bytes);
        void *data = x;
        const float *tile = x;
        flip(&s->slots[slot]->tiles[k], bit);
        assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_CORRUPT);
        assert_non_null(strstr(comet_last_error(), "layer7"));
        assert_ptr_equal(data, x);
        assert_status(comet_store_take_tile(s, slot, k, 1, room, &tile), COMET_ERROR_CORRUPT);
        assert_ptr_equal(tile, x);
        flip(&s->slots[slot]->tiles[k], bit);
    }
    free(room);
    free(take_copy(s, slot));
    comet_store_destroy(s);
}

/* At level fast hardly any flip would be seen without checksums. */
static void test_bit_flips_are_found(void **state)
{
    comet_tensor t = some_tensor(COMET_LAYOUT_BLOCKED8);
    float *x = make_data(SEED, DATA_RELU, &t);
    check_bit_flips(COMET_LEVEL_FAST, x, &t);
    check_bit_flips(COMET_LEVEL_DENSE, x, &t);
    free(x);
}

/* Lines as long as these could be coded in a wave, for which tiles have no memory: a header that says so is damaged. */
static void test_tiles_have_no_waves(void **state)
{
    const uint64_t dims[] = {1, 1, 64, 256};
    comet_tensor t;
    comet_tensor_init(&t, COMET_DTYPE_F32, 4, dims);
    float *x = make_data(SEED, DATA_RELU, &t), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 1, NULL);
    s->checksums = false;
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_DENSE, 0.01));
    assert_ok(comet_store_put(s, slot, x));
    uint8_t *header = s->slots[slot]->tiles[0].place;
    assert_int_equal(header[0], CHUNK_DENSE);
    for (uint8_t predictor = PREDICT_WAVE; predictor < N_PREDICTORS; predictor++) {
        const uint8_t before = header[2];
        void *data = NULL;
        header[2] = predictor;
        assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_CORRUPT);
        assert_non_null(strstr(comet_last_error(), "without a wave"));
        header[2] = before;
    }
    comet_store_destroy(s);
    free(x);
    free(room);
}

/* Without checksums damage may go unseen, but nothing is touched that should not be: for sanitizers. */
static void test_bit_flips_without_checksums(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 5000);
    float *x = make_data(SEED, DATA_RELU, &t), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 1, NULL);
    s->checksums = false;
    for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_DENSE; level++) {
        comet_slot slot = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, (comet_level)level, 0.01));
        assert_ok(comet_store_put(s, slot, x));
        store_tile *tile = &s->slots[slot]->tiles[0];
        test_rng rng = {SEED};
        if (level == COMET_LEVEL_FAST) { /* what dense tiles need was not reserved yet */
            void *data = NULL;
            tile->place[0] ^= CHUNK_FAST ^ CHUNK_DENSE;
            assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_CORRUPT);
            tile->place[0] ^= CHUNK_FAST ^ CHUNK_DENSE;
        }
        for (uint64_t i = 0; i < 3000; i++) {
            uint64_t bit = i < 96 ? i : rng_below(&rng, 8 * tile->bytes);
            void *data = NULL;
            flip(tile, bit);
            comet_status status = comet_store_take(s, slot, room, &data);
            assert_true(status == COMET_OK || status == COMET_ERROR_CORRUPT);
            flip(tile, bit);
        }
    }
    comet_store_destroy(s);
    free(x);
    free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planar),
        cmocka_unit_test(test_channels_last),
        cmocka_unit_test(test_blocked8),
        cmocka_unit_test(test_blocked16_nonfinite),
        cmocka_unit_test(test_tiles_are_chunks),
        cmocka_unit_test(test_signs),
        cmocka_unit_test(test_deviation),
        cmocka_unit_test(test_vanishing_bounds_are_lossless),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_bytes_without_loss),
        cmocka_unit_test(test_index_out_of_range),
        cmocka_unit_test(test_empty_and_one),
        cmocka_unit_test(test_hints_are_forgotten),
        cmocka_unit_test(test_interleaved_puts),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_tiling),
        cmocka_unit_test(test_bit_flips_are_found),
        cmocka_unit_test(test_tiles_have_no_waves),
        cmocka_unit_test(test_bit_flips_without_checksums),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
