/* The activation store with f16 and bf16 tensors: every policy, whole and by tiles, accounts in bytes of the real type. */
#include "store_testing.h"

static const comet_dtype types[] = {COMET_DTYPE_F16, COMET_DTYPE_BF16};
static const enum data_class classes[] = {DATA_RELU, DATA_SMOOTH, DATA_SPARSE};

static void put_tiles(comet_store *s, comet_slot slot, const uint8_t *x, size_t element)
{
    uint64_t n_tiles, tile_elements;
    assert_ok(comet_store_tiling(s, slot, &n_tiles, &tile_elements));
    assert_true(n_tiles > 1);
    assert_ok(comet_store_put_begin(s, slot));
    for (uint64_t k = n_tiles; k-- > 0;) {
        comet_store_prefetch(s, 0, x);
        assert_ok(comet_store_put_tile(s, slot, k, 0, x + k * tile_elements * element));
    }
    assert_ok(comet_store_put_end(s, slot));
}

static void check_tiles(comet_store *s, comet_slot slot, const uint8_t *y, size_t bytes, size_t element)
{
    uint64_t n_tiles, tile_elements;
    assert_ok(comet_store_tiling(s, slot, &n_tiles, &tile_elements));
    size_t tile_bytes = (size_t)tile_elements * element;
    void *room = need_malloc(tile_bytes);
    for (uint64_t k = 0; k < n_tiles; k++) {
        const void *tile = NULL;
        size_t at = (size_t)k * tile_bytes, n = bytes - at < tile_bytes ? bytes - at : tile_bytes;
        assert_ok(comet_store_take_tile_any(s, slot, k, 0, room, &tile));
        assert_memory_equal(tile, y + at, n);
    }
    free(room);
}

static void check_halves(const comet_tensor *t, const comet_slot_policy *p, comet_exactness exactness, const void *x,
                         const void *y)
{
    comet_comparison c;
    comet_comparison_init(&c);
    bool exact = p->policy != COMET_POLICY_BOUNDED;
    if (exact)
        assert_memory_equal(x, y, bytes_of(t));
    assert_ok(comet_compare(t->dtype, elements_of(t), x, y, exact ? 0 : p->eb, &c));
    assert_int_equal(c.n_violations, 0);
    if (!p->dither)
        assert_int_equal(c.n_zeros_kept, c.n_zeros);
    if (exactness == COMET_SUPPORT)
        assert_int_equal(c.n_support_lost, 0);
}

static void check_report(const comet_slot_report *r, const comet_tensor *t, const void *x)
{
    summary s = elements_summary(t->dtype, x, elements_of(t));
    assert_int_equal(r->n_elements, elements_of(t));
    assert_int_equal(r->bytes_raw, elements_of(t) * 2);
    assert_true(r->bytes_held < r->bytes_raw);
    assert_int_equal(r->n_nonzero, s.n_nonzero);
    assert_near(r->sum_of_squares, s.sum_of_squares, 1e-5 * s.sum_of_squares);
    assert_true(r->min == s.min && r->max == s.max);
}

/* Puts as a whole and by tiles, takes either by tiles and as a whole. */
static void check_way(const comet_tensor *t, comet_exactness exactness, comet_slot_policy p, void *x)
{
    comet_store *s = store_with(NULL, 2, "/tmp");
    comet_slot whole = declare_with(s, t, exactness, p), tiles = declare_with(s, t, exactness, p);
    assert_ok(comet_store_put(s, whole, x));
    put_tiles(s, tiles, x, 2);
    comet_slot_report r = report_of(s, whole);
    check_report(&r, t, x);
    assert_int_equal(r.bytes_held, report_of(s, tiles).bytes_held);
    if (!p.spill)
        assert_same_tiles(s, whole, s, tiles);
    assert_int_equal(p.spill ? totals_of(s).spilled : totals_of(s).held, 2 * r.bytes_held);
    uint8_t *y = take_copy(s, tiles);
    check_halves(t, &p, exactness, x, y);
    check_tiles(s, whole, y, bytes_of(t), 2);
    free(y);
    comet_store_destroy(s);
}

static void test_every_policy(void **state)
{
    const uint64_t dims[] = {3, 32, 61, 57};
    for (size_t type = 0; type < COUNT_OF(types); type++)
        for (size_t data = 0; data < COUNT_OF(classes); data++) {
            comet_tensor t = tensor_of(types[type], COMET_LAYOUT_PLANAR, 4, dims);
            void *x = make_data(60 + data, classes[data], &t);
            for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_DENSE; level++)
                for (int spilled = 0; spilled < 2; spilled++) {
                    comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, (comet_level)level, 0.05);
                    p.spill = spilled;
                    check_way(&t, COMET_LOSSY, p, x);
                    check_way(&t, COMET_SUPPORT, p, x);
                    p.policy = COMET_POLICY_LOSSLESS;
                    check_way(&t, COMET_EXACT, p, x);
                }
            comet_slot_policy dithered = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, 0.05);
            dithered.dither = true;
            check_way(&t, COMET_LOSSY, dithered, x);
            free(x);
        }
}

static void test_bound_of_deviation_and_signs(void **state)
{
    const uint64_t dims[] = {2, 16, 40, 30};
    for (size_t type = 0; type < COUNT_OF(types); type++) {
        comet_tensor t = tensor_of(types[type], COMET_LAYOUT_PLANAR, 4, dims);
        void *x = make_data(70, DATA_SMOOTH, &t);
        comet_store *s = store_with(NULL, 2, NULL);
        comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, 0.1);
        p.of_deviation = true;
        comet_slot slot = declare_with(s, &t, COMET_LOSSY, p);
        assert_ok(comet_store_put(s, slot, x));
        double eb = 0.1 * elements_stddev(t.dtype, x, elements_of(&t));
        assert_near(report_of(s, slot).eb, eb, 1e-6 * eb);
        p.eb = report_of(s, slot).eb;
        void *y = take_copy(s, slot);
        check_halves(&t, &p, COMET_LOSSY, x, y);
        free(y);
        comet_slot signs = declare_with(s, &t, COMET_SUPPORT, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, INFINITY));
        assert_ok(comet_store_put(s, signs, x));
        y = take_copy(s, signs);
        for (uint64_t i = 0; i < elements_of(&t); i++) {
            double a = element_value(t.dtype, x, i), b = element_value(t.dtype, y, i);
            assert_true((a > 0) == (b > 0) && (a < 0) == (b < 0));
        }
        free(y);
        free(x);
        comet_store_destroy(s);
    }
}

/* Raw slots, bytes that end within an element, and what is refused. */
static void test_raw_bytes_and_refusals(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_BF16, 1000);
    uint16_t *x = make_data(80, DATA_SMOOTH, &t), room[1000];
    const void *tile = NULL;
    const float *floats = NULL;
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot_spec spec = spec_of(&t, COMET_EXACT);
    comet_slot raw = declare(s, &spec);
    assert_ok(comet_store_put(s, raw, x));
    assert_int_equal(totals_of(s).held, 2000);
    assert_ok(comet_store_take_tile_any(s, raw, 0, 0, NULL, &tile));
    assert_ptr_equal(tile, x);
    assert_status(comet_store_take_tile(s, raw, 0, 0, NULL, &floats), COMET_ERROR_ARGUMENT);
    spec.bytes = 1999;
    comet_slot odd = declare(s, &spec);
    comet_slot_policy p = policy_of(COMET_POLICY_LOSSLESS, COMET_LEVEL_FAST, 0);
    assert_ok(comet_store_set_policy(s, odd, &p));
    assert_ok(comet_store_put(s, odd, x));
    uint8_t *y = take_copy(s, odd);
    assert_memory_equal(y, x, 1999);
    free(y);
    spec.bytes = 4000;
    assert_status(comet_store_declare(s, &spec, &odd), COMET_ERROR_ARGUMENT);
    comet_slot aligned = declare_with(s, &t, COMET_EXACT, p);
    assert_status(comet_store_put(s, aligned, (uint8_t *)x + 1), COMET_ERROR_ARGUMENT);
    assert_ok(comet_store_put(s, aligned, x + 0));
    assert_ok(comet_store_take_tile_any(s, aligned, 0, 0, room, &tile));
    assert_memory_equal(room, x, 2000);
    comet_tensor doubles = tensor_1d(COMET_DTYPE_F64, 10);
    spec = spec_of(&doubles, COMET_EXACT);
    assert_status(comet_store_declare(s, &spec, &odd), COMET_ERROR_ARGUMENT);
    free(x);
    comet_store_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy),
        cmocka_unit_test(test_bound_of_deviation_and_signs),
        cmocka_unit_test(test_raw_bytes_and_refusals),
    };
    return cmocka_run_group_tests_name("store halves", tests, NULL, NULL);
}
