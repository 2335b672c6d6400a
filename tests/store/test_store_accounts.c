/* What the activation store counts and marks: where the tiles of each slot end, peaks, times, figures; and damage on disk. */
#include <unistd.h>

#include "base/threads.h"
#include "store_testing.h"

enum { SEED = 13 };

static comet_tensor some_tensor(void)
{
    const uint64_t dims[] = {2, 32, 80, 75};
    return tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_BLOCKED16, 4, dims);
}

static comet_slot_policy bounded(double eb)
{
    return policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, eb);
}

static comet_slot_policy spilled(double eb)
{
    comet_slot_policy p = bounded(eb);
    p.spill = true;
    return p;
}

/* ---- where tiles end ---- */

/* The bytes of memory, or of the spill file, that lie below the end of the slot's last tile. */
static uint64_t end_in_file(const comet_store *s, comet_slot slot)
{
    uint64_t end = 0;
    for (uint64_t k = 0; k < s->slots[slot]->n_tiles; k++) {
        const store_tile *t = &s->slots[slot]->tiles[k];
        end = t->offset + t->bytes > end ? t->offset + t->bytes : end;
    }
    return end;
}

static void assert_comes_back(comet_store *s, comet_slot slot, const float *x)
{
    float *y = take_copy(s, slot);
    comet_comparison c;
    comet_comparison_init(&c);
    assert_ok(comet_compare(COMET_DTYPE_F32, report_of(s, slot).n_elements, x, y, report_of(s, slot).eb, &c));
    assert_int_equal(c.n_violations, 0);
    free(y);
}

/* The file is used up to the end of the last slot that is held, whatever was dropped, and what is held is not written over. */
static void test_spill_marks(void **state)
{
    enum { N = 4 };
    comet_tensor t = some_tensor();
    float *x[N];
    comet_slot slots[N];
    for (size_t n_workers = 1; n_workers <= 2; n_workers++)
        for (int dropped = 0; dropped < N; dropped++) {
            comet_store *s = store_with(NULL, n_workers, "/tmp");
            for (int i = 0; i < N; i++) {
                x[i] = make_data((uint64_t)(SEED + i), DATA_RELU, &t);
                slots[i] = declare_with(s, &t, COMET_LOSSY, spilled(0.1));
            }
            for (int i = N - 1; i >= 0; i--) /* the slot declared first ends last */
                assert_ok(comet_store_put(s, slots[i], x[i]));
            assert_ok(comet_store_drop(s, slots[dropped]));
            const int last = dropped == 0 ? 1 : 0;
            assert_int_equal(s->spill.used, end_in_file(s, slots[last]));
            assert_ok(comet_store_put(s, slots[dropped], x[dropped]));
            assert_int_equal(s->spill.used, end_in_file(s, slots[dropped]));
            for (int i = 0; i < N; i++)
                assert_comes_back(s, slots[i], x[i]);
            for (int i = 0; i < N; i++)
                free(x[i]);
            comet_store_destroy(s);
        }
}

/* The same in memory: our own and lent. */
static void test_memory_marks(void **state)
{
    enum { N = 4 };
    comet_tensor t = some_tensor();
    float *x[N];
    comet_slot slots[N];
    uint8_t *lent = need_malloc(N * bytes_of(&t));
    for (int i = 0; i < N; i++)
        x[i] = make_data((uint64_t)(SEED + i), DATA_RELU, &t);
    for (int in_lent = 0; in_lent < 2; in_lent++)
        for (int dropped = 0; dropped < N; dropped++) {
            comet_store *s = store_with(NULL, 2, NULL);
            assert_ok(comet_store_lend(s, lent, N * bytes_of(&t)));
            for (int i = 0; i < N; i++) {
                slots[i] = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
                assert_ok(comet_store_set_place(s, slots[i], 0, in_lent ? UINT64_MAX : 0));
            }
            for (int i = N - 1; i >= 0; i--)
                assert_ok(comet_store_put(s, slots[i], x[i]));
            assert_ok(comet_store_drop(s, slots[dropped]));
            const heap_marks last = s->slots[slots[dropped == 0 ? 1 : 0]]->marks;
            assert_true(s->heap.used.lent == last.lent && s->heap.used.own == last.own);
            assert_true(in_lent ? last.own == 0 && last.lent > 0 : last.lent == 0 && last.own > 0);
            assert_ok(comet_store_put(s, slots[dropped], x[dropped]));
            for (int i = 0; i < N; i++)
                assert_comes_back(s, slots[i], x[i]);
            comet_store_destroy(s);
        }
    for (int i = 0; i < N; i++)
        free(x[i]);
    free(lent);
}

/* A slot that moves to other memory holds nothing of what it had before. */
static void test_marks_are_forgotten(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t);
    uint8_t *lent = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 1, "/tmp");
    comet_slot moves = declare_with(s, &t, COMET_LOSSY, bounded(0.1)), other = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
    assert_ok(comet_store_lend(s, lent, bytes_of(&t)));
    assert_ok(comet_store_put(s, moves, x)); /* its ceiling is 0: memory of our own */
    assert_ok(comet_store_drop(s, moves));
    assert_ok(comet_store_set_place(s, moves, 0, UINT64_MAX));
    assert_ok(comet_store_put(s, moves, x));
    assert_ok(comet_store_put(s, other, x));
    assert_ok(comet_store_drop(s, other));
    assert_true(s->heap.used.own == 0 && s->heap.used.lent == s->slots[moves]->marks.lent);
    assert_ok(comet_store_drop(s, moves));
    const comet_slot_policy to_file = spilled(0.1);
    assert_ok(comet_store_set_policy(s, moves, &to_file));
    assert_ok(comet_store_put(s, moves, x));
    assert_ok(comet_store_put(s, other, x));
    assert_ok(comet_store_drop(s, other));
    assert_true(s->heap.used.own == 0 && s->heap.used.lent == 0 && s->spill.used > 0);
    comet_store_destroy(s);
    free(lent);
    free(x);
}

/* ---- the end of a segment ---- */

enum { SEGMENT = 8 << 20, SMALL = 64 << 10 };

/* A tile may lie so near the end of its segment that the bytes that decoding reads after it are the last; one byte more, and it
 * lies in the next segment. */
static void test_slack_at_segment_end(void **state)
{
    for (size_t more = 0; more < 2; more++) {
        heap h;
        heap_marks marks = {0, 0};
        heap_open(&h);
        const uint8_t *first = heap_claim(&h, 1, &(heap_range){.ceiling = 0}, &marks);
        assert_non_null(first);
        assert_int_equal(h.own_bytes, SEGMENT);
        const uint8_t *end = first - COMET_ALIGNMENT + SEGMENT; /* after the header */
        const size_t room = (size_t)(end - first) - COMET_ALIGNMENT - READ_SLACK;
        uint8_t *last = heap_claim(&h, room + more, &(heap_range){.ceiling = 0}, &marks);
        assert_non_null(last);
        assert_int_equal(last + room + READ_SLACK == end, more == 0);
        assert_int_equal(h.own_bytes, more ? 2 * SEGMENT : SEGMENT);
        assert_int_equal(marks.own, more ? SEGMENT + COMET_ALIGNMENT + room + 1 : SEGMENT - READ_SLACK);
        heap_rewind(&h, (heap_marks){0, 0});
        assert_ptr_equal(heap_claim(&h, 1, &(heap_range){.ceiling = 0}, &marks), first);
        heap_close(&h);
    }
}

/* Tiles begin at cache lines of their own, in lent memory counted from its first byte. */
static void test_tiles_share_no_line(void **state)
{
    uint8_t *lent = need_malloc(4096);
    for (int in_lent = 0; in_lent < 2; in_lent++) {
        heap h;
        heap_marks marks = {0, 0};
        heap_open(&h);
        heap_lend(&h, lent + 1, 4095);
        const uint8_t *first = heap_claim(&h, 1, &(heap_range){.ceiling = in_lent ? 4095 : 0}, &marks);
        assert_true(in_lent ? first == lent + 1 : (uintptr_t)first % COMET_ALIGNMENT == 0);
        assert_ptr_equal(heap_claim(&h, 65, &(heap_range){.ceiling = in_lent ? 4095 : 0}, &marks), first + 64);
        assert_ptr_equal(heap_claim(&h, 64, &(heap_range){.ceiling = in_lent ? 4095 : 0}, &marks), first + 192);
        assert_ptr_equal(heap_claim(&h, 1, &(heap_range){.ceiling = in_lent ? 4095 : 0}, &marks), first + 256);
        assert_true(in_lent ? marks.lent == 257 && marks.own == 0 : marks.lent == 0 && marks.own == COMET_ALIGNMENT + 257);
        heap_close(&h);
    }
    free(lent);
}

/* A tile larger than a segment has a segment of its own, with room for header and slack. */
static void test_large_tiles(void **state)
{
    static const struct {
        size_t bytes, mapped;
    } cases[] = {{SEGMENT - COMET_ALIGNMENT - READ_SLACK, SEGMENT},
                 {SEGMENT - COMET_ALIGNMENT - READ_SLACK + 1, SEGMENT + SMALL},
                 {SEGMENT - COMET_ALIGNMENT, SEGMENT + SMALL},
                 {2 * SEGMENT - COMET_ALIGNMENT, 2 * SEGMENT + SMALL},
                 {2 * SEGMENT, 2 * SEGMENT + SMALL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        heap h;
        heap_marks marks = {0, 0};
        heap_open(&h);
        uint8_t *place = heap_claim(&h, cases[i].bytes, &(heap_range){.ceiling = 0}, &marks);
        assert_non_null(place);
        assert_int_equal(h.own_bytes, cases[i].mapped);
        assert_int_equal(marks.own, COMET_ALIGNMENT + cases[i].bytes);
        memset(place, 1, cases[i].bytes + READ_SLACK);
        heap_close(&h);
    }
}

/* ---- damage on disk ---- */

static void flip_in_file(const comet_store *s, uint64_t bit)
{
    uint8_t byte;
    assert_int_equal(pread(s->spill.fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(pwrite(s->spill.fd, &byte, 1, (off_t)(bit / 8)), 1);
}

/* Any bit of the file: the checksum tells, also where decoding would not notice. */
static void test_spilled_damage(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 1, "/tmp");
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, spilled(0.1));
    assert_ok(comet_store_put(s, slot, x));
    test_rng rng = {SEED};
    for (int i = 0; i < 30; i++) {
        const uint64_t bit = rng_below(&rng, 8 * s->spill.used);
        void *data = NULL;
        flip_in_file(s, bit);
        assert_status(comet_store_take(s, slot, room, &data), COMET_ERROR_CORRUPT);
        assert_non_null(strstr(comet_last_error(), "checksum"));
        flip_in_file(s, bit);
    }
    assert_comes_back(s, slot, x);
    comet_store_destroy(s);
    free(room);
    free(x);
}

/* ---- policies ---- */

/* Neither an absolute bound nor one relative to the deviation, nor signs alone, is for an exact slot. */
static void test_exact_slots_take_no_bound(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 100);
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot_spec spec = spec_of(&t, COMET_EXACT);
    comet_slot slot = declare(s, &spec);
    static const double bounds[] = {0, 0.1, INFINITY};
    for (size_t i = 0; i < COUNT_OF(bounds); i++)
        for (int relative = 0; relative < 2; relative++) {
            comet_slot_policy p = bounded(bounds[i]);
            p.of_deviation = relative != 0;
            assert_status(comet_store_set_policy(s, slot, &p), COMET_ERROR_ARGUMENT);
            assert_int_equal(comet_store_slot_policy(s, slot)->policy, COMET_POLICY_RAW);
        }
    comet_store_destroy(s);
}

/* An infinite multiple of the deviation is signs alone, also where the deviation is 0. */
static void test_infinite_multiple(void **state)
{
    static const enum data_class classes[] = {DATA_NOISE, DATA_CONSTANT};
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 3000);
    comet_store *s = store_with(NULL, 1, NULL);
    for (size_t k = 0; k < COUNT_OF(classes); k++) {
        float *x = make_data(SEED, classes[k], &t);
        comet_slot_policy p = bounded(INFINITY);
        p.of_deviation = true;
        comet_slot slot = declare_with(s, &t, COMET_SUPPORT, p);
        assert_ok(comet_store_put(s, slot, x));
        float *y = take_copy(s, slot);
        for (uint64_t i = 0; i < elements_of(&t); i++)
            assert_true((x[i] > 0) == (y[i] > 0) && (x[i] < 0) == (y[i] < 0));
        assert_true(isinf(report_of(s, slot).eb));
        assert_true(report_of(s, slot).bytes_held < bytes_of(&t) / 20);
        free(y);
        free(x);
    }
    comet_store_destroy(s);
}

/* The deviation is that of the finite elements, wherever the others lie. */
static void test_deviation_of_finite_elements(void **state)
{
    enum { N = 37 };
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, N);
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot_policy p = bounded(0.5);
    p.of_deviation = true;
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, p);
    for (int at = 0; at < N; at++) {
        float x[N];
        for (int i = 0; i < N; i++)
            x[i] = (i - (i > at)) % 2 ? 4 : 2;
        x[at] = at % 2 ? NAN : INFINITY; /* 18 of either value are left */
        assert_ok(comet_store_put(s, slot, x));
        assert_near(report_of(s, slot).eb, 0.5, 1e-12);
        assert_ok(comet_store_drop(s, slot));
    }
    comet_store_destroy(s);
}

/* Elements within a 32nd of the bound belong to a plateau and come back as its value; others do not. */
static void test_reach_of_plateaus(void **state)
{
    const uint64_t dims[4] = {1, 1, 32, 32};
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
    const float eb = 0.3f;
    float *x = need_malloc(bytes_of(&t));
    for (uint64_t i = 0; i < elements_of(&t); i++)
        x[i] = i % 97 == 5    ? 1 + eb / 40
               : i % 97 == 31 ? 1 - eb / 40
               : i % 97 == 60 ? 1 + eb / 25
               : i % 97 == 80 ? 1 - eb / 25
                              : 1;
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, bounded((double)eb));
    assert_ok(comet_store_put(s, slot, x));
    float *y = take_copy(s, slot);
    for (uint64_t i = 0; i < elements_of(&t); i++)
        assert_int_equal(y[i] == 1, fabsf(x[i] - 1) < eb / 32);
    comet_store_destroy(s);
    free(y);
    free(x);
}

/* ---- figures ---- */

static comet_slot declare_class(comet_store *s, const comet_tensor *t, comet_slot_class class_, comet_slot_policy p)
{
    comet_slot_spec spec = spec_of(t, COMET_LOSSY);
    spec.class_ = class_;
    comet_slot slot = declare(s, &spec);
    assert_ok(comet_store_set_policy(s, slot, &p));
    return slot;
}

/* The classes are those of the highest peak, without what was dropped before; the file's peak is its own. */
static void test_second_peak(void **state)
{
    comet_tensor t = some_tensor(), small = tensor_1d(COMET_DTYPE_F32, 1000);
    float *x = make_data(SEED, DATA_RELU, &t);
    const comet_slot_policy raw = policy_of(COMET_POLICY_RAW, COMET_LEVEL_FAST, 0);
    comet_store *s = store_with(NULL, 1, "/tmp");
    comet_slot first = declare_class(s, &t, COMET_SLOT_NORM_INPUT, raw),
               second = declare_class(s, &t, COMET_SLOT_ACTIVATION, raw);
    comet_slot more = declare_class(s, &small, COMET_SLOT_CONV_INPUT, raw);
    comet_slot file = declare_class(s, &t, COMET_SLOT_NORM_INPUT, spilled(0.1));
    assert_ok(comet_store_put(s, first, x));
    assert_ok(comet_store_drop(s, first));
    assert_ok(comet_store_put(s, second, x));
    assert_ok(comet_store_put(s, more, x));
    assert_ok(comet_store_drop(s, more));
    assert_ok(comet_store_put(s, file, x)); /* below the peak of memory */
    const comet_store_totals totals = totals_of(s);
    assert_int_equal(totals.peak, bytes_of(&t) + bytes_of(&small));
    assert_int_equal(totals.peak_by_class[COMET_SLOT_NORM_INPUT], 0);
    assert_int_equal(totals.raw_by_class[COMET_SLOT_NORM_INPUT], 0);
    assert_int_equal(totals.peak_by_class[COMET_SLOT_ACTIVATION], bytes_of(&t));
    assert_int_equal(totals.raw_by_class[COMET_SLOT_CONV_INPUT], bytes_of(&small));
    assert_true(totals.spilled > 0 && totals.spilled == report_of(s, file).bytes_held);
    assert_int_equal(totals.spilled_peak, totals.spilled);
    comet_store_destroy(s);
    free(x);
}

/* Seconds are seconds: no more than passed, and most of them, since one worker does little else. */
static void test_seconds(void **state)
{
    comet_tensor t = some_tensor();
    float *x = make_data(SEED, DATA_RELU, &t), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot slot = declare_with(s, &t, COMET_LOSSY, bounded(0.1));
    double put = 0, take = 0;
    for (int i = 0; i < 5; i++) {
        void *data;
        const double before = comet_seconds();
        assert_ok(comet_store_put(s, slot, x));
        const double between = comet_seconds();
        assert_ok(comet_store_take(s, slot, room, &data));
        put += between - before;
        take += comet_seconds() - between;
        assert_ok(comet_store_drop(s, slot));
    }
    const comet_slot_report r = report_of(s, slot);
    assert_within(r.seconds_put, 0.05 * put, put);
    assert_within(r.seconds_take, 0.05 * take, take);
    assert_true(totals_of(s).seconds_put == r.seconds_put && totals_of(s).seconds_take == r.seconds_take);
    assert_true(r.n_puts == 5 && r.n_takes == 5);
    comet_store_destroy(s);
    free(room);
    free(x);
}

/* Which predictor, and how many tiles are coded in which way; a tile that cannot be coded has none. */
static void test_coding_is_reported(void **state)
{
    static const struct {
        enum data_class data;
        comet_level level;
        uint32_t predictor;
    } cases[] = {{DATA_WALK_RIGHT, COMET_LEVEL_FAST, PREDICT_LEFT},
                 {DATA_WALK_DOWN, COMET_LEVEL_FAST, PREDICT_UP},
                 {DATA_SEPARABLE, COMET_LEVEL_FAST, PREDICT_LORENZO},
                 {DATA_WALK_RIGHT, COMET_LEVEL_DENSE, PREDICT_LEFT}};
    const uint64_t dims[] = {1, 8, 200, 200};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
    comet_store *s = store_with(NULL, 1, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        float *x = make_data(SEED, cases[i].data, &t);
        comet_slot slot = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, cases[i].level, 1e-3));
        assert_ok(comet_store_put(s, slot, x));
        const comet_slot_report r = report_of(s, slot);
        const bool dense = cases[i].level == COMET_LEVEL_DENSE;
        assert_int_equal(r.predictor, cases[i].predictor);
        assert_int_equal(r.n_chunks_fast, dense ? 0 : s->slots[slot]->n_tiles);
        assert_int_equal(r.n_chunks_dense, dense ? s->slots[slot]->n_tiles : 0);
        assert_int_equal(r.n_chunks_raw, 0);
        free(x);
    }
    float *x = make_data(SEED, DATA_BITS, &t), *walk = make_data(SEED, DATA_WALK_RIGHT, &t);
    comet_slot slot = declare_with(s, &t, COMET_EXACT, policy_of(COMET_POLICY_LOSSLESS, COMET_LEVEL_FAST, 0));
    assert_ok(comet_store_put(s, slot, x));
    comet_slot_report r = report_of(s, slot);
    assert_int_equal(r.n_chunks_raw, s->slots[slot]->n_tiles);
    assert_true(r.predictor == PREDICT_NONE && r.n_chunks_fast == 0 && r.n_chunks_dense == 0);
    assert_ok(comet_store_drop(s, slot));
    memcpy(x, walk, s->slots[slot]->tile_elements * sizeof *x); /* the only tile that is predicted */
    assert_ok(comet_store_put(s, slot, x));
    r = report_of(s, slot);
    assert_true(r.n_chunks_raw > 1 && r.n_chunks_fast == 1);
    assert_int_equal(r.predictor, PREDICT_LEFT);
    free(walk);
    free(x);
    comet_store_destroy(s);
}

/* More slots than are allocated at first: each keeps its own tensor, and memory cannot be lent while one of them is put. */
static void test_many_slots(void **state)
{
    enum { N = 300 };
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 2000);
    float *x = make_data(SEED, DATA_NOISE, &t);
    comet_store *s = store_with(NULL, 1, NULL);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(declare_with(s, &t, COMET_EXACT, policy_of(COMET_POLICY_LOSSLESS, COMET_LEVEL_FAST, 0)), i);
        x[0] = (float)i;
        assert_ok(comet_store_put(s, i, x));
    }
    for (uint32_t i = 0; i < N; i++) {
        float *y = take_copy(s, i);
        assert_true(y[0] == (float)i);
        assert_memory_equal(y + 1, x + 1, bytes_of(&t) - sizeof *x);
        free(y);
    }
    comet_store_clear(s);
    assert_ok(comet_store_put_begin(s, N - 1));
    assert_status(comet_store_lend(s, x, 100), COMET_ERROR_ARGUMENT);
    comet_store_clear(s);
    assert_ok(comet_store_lend(s, x, 100));
    comet_store_destroy(s);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spill_marks),
        cmocka_unit_test(test_memory_marks),
        cmocka_unit_test(test_marks_are_forgotten),
        cmocka_unit_test(test_slack_at_segment_end),
        cmocka_unit_test(test_large_tiles),
        cmocka_unit_test(test_tiles_share_no_line),
        cmocka_unit_test(test_spilled_damage),
        cmocka_unit_test(test_exact_slots_take_no_bound),
        cmocka_unit_test(test_infinite_multiple),
        cmocka_unit_test(test_deviation_of_finite_elements),
        cmocka_unit_test(test_reach_of_plateaus),
        cmocka_unit_test(test_second_peak),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_coding_is_reported),
        cmocka_unit_test(test_many_slots),
    };
    return cmocka_run_group_tests_name("store accounts", tests, NULL, NULL);
}
