/* Where the activation store keeps what it holds, what it counts, and what happens when there is no more room. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/status.h"
#include "store_testing.h"

enum { SEED = 12, CANARY = 0xc5 };

static comet_tensor some_tensor(void)
{
    const uint64_t dims[] = {2, 32, 80, 75};
    return tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_BLOCKED16, 4, dims);
}

static comet_slot_policy bounded(double eb)
{
    return policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, eb);
}

/* Puts and checks that the right tensor comes back. */
static void put_and_check(comet_store *s, comet_slot slot, float *x)
{
    assert_ok(comet_store_put(s, slot, x));
    float *y = take_copy(s, slot);
    double eb = report_of(s, slot).eb;
    comet_comparison c;
    comet_comparison_init(&c);
    assert_ok(comet_compare(COMET_DTYPE_F32, report_of(s, slot).n_elements, x, y, eb, &c));
    assert_int_equal(c.n_violations, 0);
    free(y);
}

/* ---- lent memory ---- */

static uint64_t bytes_between(const comet_store *s, comet_slot slot, const uint8_t *begin, const uint8_t *end)
{
    uint64_t bytes = 0;
    for (uint64_t k = 0; k < s->slots[slot]->n_tiles; k++) {
        const store_tile *t = &s->slots[slot]->tiles[k];
        if (t->place >= begin && t->place + t->bytes <= end)
            bytes += t->bytes;
    }
    return bytes;
}

static void assert_canary(const uint8_t *begin, const uint8_t *end)
{
    for (; begin < end; begin++)
        assert_int_equal(*begin, CANARY);
}

static void test_lent_memory_first(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t);
    size_t bytes = 2 * bytes_of(&t);
    uint8_t *memory = need_malloc(bytes);
    memset(memory, CANARY, bytes);
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot a = declare_with(s, &t, COMET_LOSSY, bounded(0.1)), b = declare_with(s, &t, COMET_LOSSY, bounded(0.01));
    assert_ok(comet_store_lend(s, memory, bytes));
    for (int step = 0; step < 2; step++) {
        assert_ok(comet_store_set_place(s, a, 0, bytes));
        assert_ok(comet_store_set_place(s, b, 0, bytes));
        put_and_check(s, a, x);
        put_and_check(s, b, x);
        uint64_t held = report_of(s, a).bytes_held + report_of(s, b).bytes_held;
        assert_int_equal(bytes_between(s, a, memory, memory + bytes) + bytes_between(s, b, memory, memory + bytes), held);
        assert_true(bytes_between(s, a, memory, memory + 1) == 0 && memory[0] != CANARY); /* from the first byte on */
        assert_canary(memory + held + 1024, memory + bytes);
        assert_int_equal(totals_of(s).own_bytes, 0);
        assert_status(comet_store_lend(s, NULL, 0), COMET_ERROR_ARGUMENT);
        assert_ok(comet_store_drop(s, b));
        assert_ok(comet_store_drop(s, a));
    }
    assert_ok(comet_store_lend(s, NULL, 0));
    memset(memory, CANARY, bytes);
    put_and_check(s, a, x);
    assert_canary(memory, memory + bytes);
    comet_store_destroy(s);
    free(memory);
    free(x);
}

/* Nothing of a slot goes beyond its ceiling, wherever that is; not even a byte. */
static void test_ceilings(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t);
    size_t bytes = bytes_of(&t);
    guarded g = guarded_make(bytes);
    comet_store *s = store_with(NULL, 3, NULL);
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, bounded(0.05)),
               free_slot = declare_with(s, &t, COMET_LOSSY, bounded(0.3));
    assert_ok(comet_store_lend(s, guarded_tail(&g, bytes), bytes));
    assert_ok(comet_store_put(s, slot, x)); /* without a ceiling, so none of it */
    uint64_t held = report_of(s, slot).bytes_held;
    assert_int_equal(bytes_between(s, slot, g.end - bytes, g.end), 0);
    assert_ok(comet_store_drop(s, slot));
    const uint64_t ceilings[] = {0, 1, READ_SLACK, 1000, held / 2, held - 1, held, held + 4096, bytes, 2 * bytes};
    for (size_t i = 0; i < COUNT_OF(ceilings); i++) {
        uint8_t *memory = guarded_tail(&g, bytes);
        memset(memory, CANARY, bytes);
        assert_ok(comet_store_set_place(s, slot, 0, ceilings[i]));
        put_and_check(s, slot, x);
        if (ceilings[i] < bytes)
            assert_canary(memory + ceilings[i], g.end);
        if (ceilings[i] >= held + 4096)
            assert_int_equal(bytes_between(s, slot, memory, g.end), held);
        assert_int_equal(report_of(s, slot).bytes_held, held);
        put_and_check(s, free_slot, x);
        assert_ok(comet_store_drop(s, free_slot));
        assert_ok(comet_store_drop(s, slot));
    }
    comet_store_destroy(s);
    guarded_free(&g);
    free(x);
}

/* Two slots around a place that is not theirs, as samples have it: nothing is written there. */
static void test_floors(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t);
    const size_t bytes = bytes_of(&t), first = bytes / 2, end = bytes / 2 + 10001;
    uint8_t *memory = need_malloc(2 * bytes);
    memset(memory, CANARY, 2 * bytes);
    comet_store *s = store_with(NULL, 3, NULL);
    const comet_slot below = declare_with(s, &t, COMET_LOSSY, bounded(0.05)),
                     above = declare_with(s, &t, COMET_LOSSY, bounded(0.05));
    assert_ok(comet_store_lend(s, memory, 2 * bytes));
    assert_ok(comet_store_set_place(s, below, 0, first));
    assert_ok(comet_store_set_place(s, above, end, 2 * bytes));
    for (int round = 0; round < 2; round++) {
        put_and_check(s, below, x);
        put_and_check(s, above, x);
        assert_canary(memory + first, memory + end);
        const uint64_t held = report_of(s, above).bytes_held;
        assert_int_equal(bytes_between(s, above, memory + end, memory + 2 * bytes), held);
        assert_true(bytes_between(s, below, memory, memory + first) > held / 2);
        assert_ok(comet_store_drop(s, above));
        assert_ok(comet_store_drop(s, below));
    }
    comet_store_destroy(s);
    free(memory);
    free(x);
}

/* The bytes after a tile that decoding may read lie in lent memory too, or the tile does not. */
static void test_lent_memory_is_not_read_beyond(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 6000);
    float *x = make_data(SEED, DATA_RELU, &t);
    for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_DENSE; level++) {
        comet_store *s = store_with(NULL, 1, NULL);
        comet_slot slot = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, (comet_level)level, 0.05));
        put_and_check(s, slot, x);
        uint64_t held = report_of(s, slot).bytes_held;
        guarded g = guarded_make(held + 2 * READ_SLACK);
        for (uint64_t spare = 0; spare < 2 * READ_SLACK; spare += 3) {
            assert_ok(comet_store_drop(s, slot));
            assert_ok(comet_store_set_place(s, slot, 0, UINT64_MAX));
            assert_ok(comet_store_lend(s, guarded_tail(&g, held + spare), held + spare));
            put_and_check(s, slot, x);
            bool inside = bytes_between(s, slot, g.end - held - spare, g.end) == held;
            assert_int_equal(inside, spare >= READ_SLACK);
        }
        comet_store_destroy(s);
        guarded_free(&g);
    }
    free(x);
}

/* ---- the store's own ---- */

/* The second step finds all its memory there; drops in any order free what lies on top. */
static void test_memory_is_used_again(void **state)
{
    enum { N = 12 };
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_NOISE, &t);
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot slots[N];
    for (int i = 0; i < N; i++)
        slots[i] = declare_with(s, &t, COMET_EXACT, policy_of(COMET_POLICY_LOSSLESS, COMET_LEVEL_FAST, 0));
    uint64_t own = 0;
    test_rng rng = {SEED};
    for (int step = 0; step < 6; step++) {
        for (int i = 0; i < N; i++)
            assert_ok(comet_store_put(s, slots[i], x));
        if (step == 0)
            own = totals_of(s).own_bytes;
        assert_int_equal(totals_of(s).own_bytes, own);
        for (int i = N - 1; i >= 0; i--)
            assert_ok(comet_store_drop(s, slots[step % 2 ? i : N - 1 - i]));
        assert_int_equal(s->heap.used.own, 0);
        comet_slot half = slots[rng_below(&rng, N)];
        put_and_check(s, half, x);
        assert_ok(comet_store_drop(s, half));
    }
    assert_true(own >= totals_of(s).peak);
    assert_true(own <= totals_of(s).peak + totals_of(s).peak / 4 + ((uint64_t)8 << 20));
    comet_store_destroy(s);
    free(x);
}

/* Taking and putting in turn at the top of the stack does not eat memory. */
static void test_popping(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t);
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot below = declare_with(s, &t, COMET_LOSSY, bounded(0.1)), top = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
    assert_ok(comet_store_put(s, below, x));
    uint64_t used = s->heap.used.own;
    for (int i = 0; i < 50; i++) {
        assert_ok(comet_store_put(s, top, x));
        assert_ok(comet_store_drop(s, top));
        assert_int_equal(s->heap.used.own, used);
    }
    float *y = take_copy(s, below);
    free(y);
    comet_store_destroy(s);
    free(x);
}

/* Under a limit on address space: an error, nothing held, and the store goes on once there is room. */
static void test_no_more_address_space(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    skip();
#endif
#endif
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_NOISE, &t);
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot slot = declare_with(s, &t, COMET_EXACT, policy_of(COMET_POLICY_LOSSLESS, COMET_LEVEL_FAST, 0));
    comet_slot small = declare_with(s, &t, COMET_LOSSY, bounded(10));
    put_and_check(s, small, x); /* its workspace is there, and a segment that the other slot does not fit */
    assert_ok(comet_store_drop(s, small));
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){1 << 20, before.rlim_max};
    heap_segment *segments = s->heap.first;
    s->heap.first = s->heap.last = s->heap.current = NULL; /* as if it had none */
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    comet_status status = comet_store_put(s, slot, x);
    setrlimit(RLIMIT_AS, &before);
    s->heap.first = s->heap.last = s->heap.current = segments;
    assert_status(status, COMET_ERROR_MEMORY);
    assert_int_equal(totals_of(s).held, 0);
    put_and_check(s, slot, x);
    comet_store_destroy(s);
    free(x);
}

/* ---- the spill file ---- */

static comet_slot_policy spilled(comet_slot_policy p)
{
    p.spill = true;
    return p;
}

static void test_spill(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_NONFINITE, &t);
    for (size_t n_workers = 1; n_workers <= 3; n_workers++) {
        comet_store *s = store_with(NULL, n_workers, "/tmp");
        comet_slot in_memory = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
        comet_slot a = declare_with(s, &t, COMET_LOSSY, spilled(bounded(0.1)));
        comet_slot b = declare_with(s, &t, COMET_EXACT, spilled(policy_of(COMET_POLICY_LOSSLESS, COMET_LEVEL_DENSE, 0)));
        put_and_check(s, in_memory, x);
        for (int step = 0; step < 2; step++) {
            put_and_check(s, a, x);
            put_and_check(s, b, x);
            comet_slot_report r = report_of(s, a);
            assert_true(r.spilled);
            assert_int_equal(r.bytes_held, report_of(s, in_memory).bytes_held);
            assert_int_equal(totals_of(s).held, r.bytes_held);
            assert_int_equal(totals_of(s).spilled, r.bytes_held + report_of(s, b).bytes_held);
            assert_int_equal(s->spill.used, totals_of(s).spilled);
            assert_ok(comet_store_drop(s, b));
            assert_ok(comet_store_drop(s, a));
            assert_int_equal(totals_of(s).spilled, 0);
            assert_int_equal(s->spill.used, 0);
        }
        comet_slot_policy p = bounded(0.1); /* a slot that spills no more holds nothing of the file */
        assert_ok(comet_store_set_policy(s, a, &p));
        put_and_check(s, a, x);
        put_and_check(s, b, x);
        assert_ok(comet_store_drop(s, b));
        assert_int_equal(s->spill.used, 0);
        assert_int_equal(totals_of(s).spilled_peak, report_of(s, a).bytes_held + report_of(s, b).bytes_held);
        comet_store_destroy(s);
    }
    free(x);
}

static void test_spill_folder(void **state)
{
    comet_store_params p;
    comet_store_params_init(&p);
    p.spill_folder = "/tmp/there/is/no/such-folder";
    comet_store *s = NULL;
    assert_status(comet_store_create(&s, &p), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), p.spill_folder));
    assert_null(s);
    comet_tensor t = some_tensor();
    s = store_with(NULL, 1, NULL);
    comet_slot_spec spec = spec_of(&t, COMET_LOSSY);
    comet_slot slot = declare(s, &spec);
    comet_slot_policy policy = spilled(bounded(0.1));
    assert_status(comet_store_set_policy(s, slot, &policy), COMET_ERROR_ARGUMENT);
    comet_store_destroy(s);
}

/* What a full or lost disk does: the put fails with a sentence, nothing is held, and the store goes on. */
static void check_failed_spill(comet_store *s, comet_slot slot, float *x)
{
    assert_status(comet_store_put(s, slot, x), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), "/tmp"));
    assert_non_null(strstr(comet_last_error(), "layer7"));
    assert_int_equal(totals_of(s).spilled, 0);
    assert_int_equal(s->spill.used, 0);
    void *data;
    assert_status(comet_store_take(s, slot, x, &data), COMET_ERROR_ARGUMENT);
}

static void test_full_disk(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_NOISE, &t);
    comet_store *s = store_with(NULL, 2, "/tmp");
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, spilled(bounded(1e-3)));
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){4096, before.rlim_max};
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    check_failed_spill(s, slot, x);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, old);
    put_and_check(s, slot, x);
    assert_ok(comet_store_drop(s, slot));
    int full = open("/dev/full", O_RDWR), kept = dup(s->spill.fd);
    assert_true(full >= 0 && kept >= 0);
    assert_true(dup2(full, s->spill.fd) >= 0);
    check_failed_spill(s, slot, x);
    assert_true(dup2(kept, s->spill.fd) >= 0);
    close(full);
    close(kept);
    put_and_check(s, slot, x);
    comet_store_destroy(s);
    free(x);
}

static void test_spill_cut_short(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_NOISE, &t), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 2, "/tmp");
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, spilled(bounded(1e-3)));
    put_and_check(s, slot, x);
    void *data = NULL;
    const float *tile;
    assert_int_equal(ftruncate(s->spill.fd, 10000), 0);
    assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), "/tmp"));
    assert_null(data);
    assert_status(comet_store_take_tile(s, slot, 0, 1, room, &tile), COMET_ERROR_IO);
    uint8_t zero[64] = {0};
    put_and_check(s, declare_with(s, &t, COMET_LOSSY, bounded(0.1)), x);
    assert_ok(comet_store_drop(s, slot));
    put_and_check(s, slot, x);
    assert_int_equal(pwrite(s->spill.fd, zero, sizeof zero, 5000), sizeof zero);
    assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_CORRUPT);
    comet_store_destroy(s);
    free(x);
    free(room);
}

/* By tiles, the failure is in put_end too, where the host's own thread reads it. */
static void test_failed_tile(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_NOISE, &t);
    comet_store *s = store_with(NULL, 2, "/tmp");
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, spilled(bounded(1e-3)));
    int full = open("/dev/full", O_RDWR);
    assert_true(full >= 0 && dup2(full, s->spill.fd) >= 0);
    close(full);
    assert_ok(comet_store_put_begin(s, slot));
    assert_status(comet_store_put_tile(s, slot, 1, 0, x), COMET_ERROR_IO);
    assert_status(comet_store_lend(s, NULL, 0), COMET_ERROR_ARGUMENT); /* another sentence in between */
    assert_status(comet_store_put_end(s, slot), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), "/tmp"));
    assert_non_null(strstr(comet_last_error(), "layer7"));
    assert_int_equal(s->slots[slot]->state, SLOT_EMPTY);
    comet_store_destroy(s);
    free(x);
}

/* ---- accounting ---- */

static void test_peaks(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t);
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot_spec spec = spec_of(&t, COMET_LOSSY);
    comet_slot_policy p = bounded(0.1);
    spec.class_ = COMET_SLOT_NORM_INPUT;
    comet_slot coded = declare(s, &spec);
    assert_ok(comet_store_set_policy(s, coded, &p));
    spec.class_ = COMET_SLOT_ACTIVATION;
    comet_slot raw = declare(s, &spec), late = declare(s, &spec);
    assert_ok(comet_store_put(s, coded, x));
    assert_ok(comet_store_put(s, raw, x));
    uint64_t bytes = bytes_of(&t), small = report_of(s, coded).bytes_held;
    assert_int_equal(totals_of(s).held, bytes + small);
    assert_ok(comet_store_drop(s, coded));
    assert_ok(comet_store_drop(s, raw));
    assert_ok(comet_store_put(s, late, x)); /* less than the peak */
    comet_store_totals totals = totals_of(s);
    assert_int_equal(totals.held, bytes);
    assert_int_equal(totals.peak, bytes + small);
    assert_int_equal(totals.peak_by_class[COMET_SLOT_NORM_INPUT], small);
    assert_int_equal(totals.peak_by_class[COMET_SLOT_ACTIVATION], bytes);
    assert_int_equal(totals.raw_by_class[COMET_SLOT_NORM_INPUT], bytes);
    assert_int_equal(totals.raw_by_class[COMET_SLOT_ACTIVATION], bytes);
    assert_int_equal(totals.peak_by_class[COMET_SLOT_CONV_INPUT], 0);
    assert_true(totals.seconds_put > 0 && totals.seconds_put == report_of(s, coded).seconds_put);
    assert_true(totals.seconds_take == 0);
    comet_store_clear(s);
    assert_int_equal(totals_of(s).held, 0);
    comet_store_destroy(s);
    free(x);
}

/* ---- misuse ---- */

static void test_misuse(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 5000);
    float *x = make_data(SEED, DATA_RELU, &t), *room = need_malloc(bytes_of(&t) + 1);
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
    comet_slot_policy p = bounded(0.2);
    void *data = x;
    const float *tile = x;
    assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_take_tile(s, slot, 0, 0, room, &tile), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_drop(s, slot), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put(s, slot + 1, x), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put(s, COMET_NO_SLOT, x), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put(s, slot, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put(s, slot, (uint8_t *)x + 1), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put(NULL, slot, x), COMET_ERROR_ARGUMENT);
    comet_store_prefetch(NULL, 0, x);
    comet_store_prefetch(s, 99, x); /* no such worker: a hint that nobody takes */
    assert_ok(comet_store_put(s, slot, x));
    assert_status(comet_store_put(s, slot, x), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put_begin(s, slot), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_set_policy(s, slot, &p), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_set_place(s, slot, 0, 5), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_take(s, slot, NULL, &data), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_take(s, slot, (uint8_t *)room + 1, &data), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_take(s, slot, room, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_take_tile(s, slot, 1, 0, room, &tile), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_take_tile(s, slot, 0, 2, room, &tile), COMET_ERROR_ARGUMENT);
    assert_true(data == x && tile == x);
    assert_null(comet_store_slot_spec(s, 7));
    assert_null(comet_store_slot_policy(s, 7));
    comet_store_destroy(s);
    comet_store_destroy(NULL);
    free(x);
    free(room);
}

static void test_misuse_of_tiles(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
    uint64_t n_tiles = 0, elements = 0;
    void *data;
    assert_ok(comet_store_tiling(s, slot, &n_tiles, &elements));
    assert_true(n_tiles > 1);
    assert_status(comet_store_put_tile(s, slot, 0, 0, x), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put_end(s, slot), COMET_ERROR_ARGUMENT);
    assert_ok(comet_store_put_begin(s, slot)); /* one tile is missing */
    assert_ok(comet_store_put_tile(s, slot, 0, 0, x));
    assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put_end(s, slot), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "tile 1"));
    assert_ok(comet_store_put_begin(s, slot)); /* one is put twice */
    for (uint64_t k = 0; k < n_tiles; k++)
        assert_ok(comet_store_put_tile(s, slot, k, 1, x + k * elements));
    assert_status(comet_store_put_tile(s, slot, 0, 1, x), COMET_ERROR_ARGUMENT);
    assert_status(comet_store_put_end(s, slot), COMET_ERROR_ARGUMENT);
    assert_ok(comet_store_put_begin(s, slot)); /* given up */
    assert_ok(comet_store_put_tile(s, slot, 0, 0, x));
    comet_store_clear(s);
    assert_int_equal(s->heap.used.own, 0);
    comet_slot_policy raw = policy_of(COMET_POLICY_RAW, COMET_LEVEL_FAST, 0);
    assert_ok(comet_store_set_policy(s, slot, &raw));
    assert_status(comet_store_put_begin(s, slot), COMET_ERROR_ARGUMENT);
    comet_store_destroy(s);
    free(x);
    free(room);
}

static void refuse(comet_store *s, comet_slot slot, comet_slot_policy p)
{
    comet_slot_policy before = *comet_store_slot_policy(s, slot);
    assert_status(comet_store_set_policy(s, slot, &p), COMET_ERROR_ARGUMENT);
    assert_memory_equal(comet_store_slot_policy(s, slot), &before, sizeof before);
}

static void test_policies_that_do_not_fit(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 100);
    comet_store *s = store_with(NULL, 1, "/tmp");
    comet_slot_spec spec = spec_of(&t, COMET_EXACT);
    comet_slot exact = declare(s, &spec);
    comet_slot support = declare_with(s, &t, COMET_SUPPORT, bounded(0.1));
    comet_slot lossy = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
    comet_slot_policy dithered = bounded(0.1), odd = bounded(0.1);
    dithered.dither = true;
    refuse(s, exact, bounded(0.1));
    refuse(s, exact, policy_of(COMET_POLICY_PACKED, COMET_LEVEL_FAST, 0));
    refuse(s, exact, spilled(policy_of(COMET_POLICY_RAW, COMET_LEVEL_FAST, 0)));
    refuse(s, support, dithered);
    dithered.eb = INFINITY;
    refuse(s, lossy, dithered);
    refuse(s, lossy, bounded(-1));
    refuse(s, lossy, bounded(NAN));
    refuse(s, lossy, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_AUTO, 0.1));
    odd.size = 3;
    refuse(s, lossy, odd);
    comet_store_destroy(s);
}

static void refuse_spec(comet_store *s, comet_slot_spec spec)
{
    comet_slot slot = 4242;
    assert_status(comet_store_declare(s, &spec, &slot), COMET_ERROR_ARGUMENT);
    assert_int_equal(slot, 4242);
    assert_int_equal(comet_store_n_slots(s), 0);
}

static void test_specs_that_make_no_sense(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 100), half = tensor_1d(COMET_DTYPE_F64, 100);
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot_spec good = spec_of(&t, COMET_LOSSY), spec = good;
    spec.bytes = 401;
    refuse_spec(s, spec);
    spec.bytes = 396;
    refuse_spec(s, spec);
    spec.bytes = 399; /* no whole floats, so exact only */
    refuse_spec(s, spec);
    spec = good;
    spec.index_bits = 2;
    refuse_spec(s, spec);
    spec.exactness = COMET_EXACT;
    spec.index_bits = 8;
    refuse_spec(s, spec);
    refuse_spec(s, spec_of(&half, COMET_LOSSY));
    spec = good;
    spec.class_ = COMET_N_SLOT_CLASSES;
    refuse_spec(s, spec);
    spec = good;
    spec.size = 0;
    refuse_spec(s, spec);
    comet_store_destroy(s);
}

/* ---- an allocator that fails at the k-th call ---- */

typedef struct attempt {
    comet_tensor small, large;
    float *x, *expected;
} attempt;

/* Everything that allocates. Returns the first failure. */
static comet_status try_everything(const attempt *a, test_allocator *memory, comet_store **store)
{
    comet_hooks hooks = hooks_with(memory);
    comet_store_params params;
    comet_store_params_init(&params);
    params.hooks = &hooks;
    params.n_workers = 2;
    params.spill_folder = "/tmp";
    TRY(comet_store_create(store, &params));
    comet_slot slots[2];
    comet_slot_spec spec = spec_of(&a->small, COMET_LOSSY);
    comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_DENSE, 0.05);
    p.of_deviation = true;
    TRY(comet_store_declare(*store, &spec, &slots[0]));
    TRY(comet_store_set_policy(*store, slots[0], &p));
    TRY(comet_store_put(*store, slots[0], a->x));
    spec = spec_of(&a->large, COMET_EXACT);
    spec.bytes -= 3;
    p = spilled(policy_of(COMET_POLICY_LOSSLESS, COMET_LEVEL_DENSE, 0));
    TRY(comet_store_declare(*store, &spec, &slots[1]));
    TRY(comet_store_set_policy(*store, slots[1], &p));
    return comet_store_put(*store, slots[1], a->x);
}

/* What was put before the failure can still be taken, at once or after memory is back. */
static void check_survivors(const attempt *a, comet_store *s, test_allocator *memory)
{
    if (comet_store_n_slots(s) == 0 || s->slots[0]->state != SLOT_HELD)
        return;
    float *room = need_malloc(bytes_of(&a->large));
    const float *tile = NULL;
    void *data = NULL;
    comet_status status = comet_store_take_tile(s, 0, 0, 1, room, &tile);
    assert_true(status == COMET_OK || status == COMET_ERROR_MEMORY);
    memory->fail_from = 0;
    assert_ok(comet_store_take(s, 0, room, &data));
    assert_memory_equal(room, a->expected, bytes_of(&a->small));
    assert_ok(comet_store_take_tile(s, 0, 0, 1, room, &tile));
    free(room);
}

static void check_allocator(const attempt *a, bool once)
{
    for (size_t k = 1;; k++) {
        test_allocator memory = {.fail_from = k, .once = once, .garbage = 0xbd};
        comet_store *s = NULL;
        comet_status status = try_everything(a, &memory, &s);
        if (status != COMET_OK)
            assert_status(status, COMET_ERROR_MEMORY);
        if (s)
            check_survivors(a, s, &memory);
        comet_store_destroy(s);
        assert_int_equal(memory.n_live, 0);
        assert_false(memory.misused);
        if (status == COMET_OK) {
            assert_true(k > 20);
            return;
        }
        assert_true(k < 200);
    }
}

static void test_failing_allocator(void **state)
{
    attempt a = {.small = tensor_1d(COMET_DTYPE_F32, 3000), .large = tensor_1d(COMET_DTYPE_F32, 20000)};
    a.x = make_data(SEED, DATA_RELU, &a.large);
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_DENSE, 0.05);
    p.of_deviation = true;
    comet_slot slot = declare_with(s, &a.small, COMET_LOSSY, p);
    assert_ok(comet_store_put(s, slot, a.x));
    a.expected = take_copy(s, slot);
    comet_store_destroy(s);
    check_allocator(&a, true);
    check_allocator(&a, false);
    free(a.x);
    free(a.expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lent_memory_first),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_floors),
        cmocka_unit_test(test_lent_memory_is_not_read_beyond),
        cmocka_unit_test(test_memory_is_used_again),
        cmocka_unit_test(test_popping),
        cmocka_unit_test(test_no_more_address_space),
        cmocka_unit_test(test_spill),
        cmocka_unit_test(test_spill_folder),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_spill_cut_short),
        cmocka_unit_test(test_failed_tile),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_misuse_of_tiles),
        cmocka_unit_test(test_policies_that_do_not_fit),
        cmocka_unit_test(test_specs_that_make_no_sense),
        cmocka_unit_test(test_failing_allocator),
    };
    return cmocka_run_group_tests_name("store memory", tests, NULL, NULL);
}
