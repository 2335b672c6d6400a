/* Arrays of two bit patterns: one bit an element, exact; arrays with more patterns are left alone. */
#include <stdlib.h>

#include "native_testing.h"

static const uint32_t widths[] = {1, 2, 4, 8};
static const uint64_t lengths[] = {0, 1, 2, 63, 64, 65, 127, 1000, (1 << 17) - 1, (1 << 17) + 65, 300001};
/* -0 and a NaN with a payload, cut to the width: patterns, not values. */
static const uint64_t pairs[][2] = {
    {0, 1}, {UINT64_C(0x8000000080008080), 0}, {UINT64_C(0x7ff00000000beef1), UINT64_C(0x3ff0000000003f80)}, {UINT64_MAX, 0}};

typedef struct fixture {
    comet_native_session *session;
    uint32_t width;
    uint64_t n;
    unsigned char *array, *back;
} fixture;

static fixture fixture_of(comet_native_session *session, uint32_t width, uint64_t n)
{
    fixture f = {session, width, n, malloc(n * width + 1), malloc(n * width + 1)};
    assert_true(f.array && f.back);
    return f;
}

static void fixture_free(fixture *f)
{
    free(f->array);
    free(f->back);
}

static void set(fixture *f, uint64_t i, uint64_t bits)
{
    memcpy(f->array + i * f->width, &bits, f->width);
}

static comet_native_block *pack(fixture *f)
{
    comet_native_block *block = NULL;
    assert_int_equal(comet_native_pack_two(f->session, f->array, f->width, f->n, &block), COMET_OK);
    return block;
}

static void check_back(fixture *f, const comet_native_block *block)
{
    const size_t bytes = (size_t)(f->n * f->width);
    assert_int_equal(comet_native_raw_bytes(block), bytes);
    memset(f->back, 0x5a, bytes + 1);
    assert_int_equal(comet_native_decode(f->session, block, f->back, bytes), COMET_OK);
    assert_memory_equal(f->back, f->array, bytes);
    assert_int_equal(f->back[bytes], 0x5a);
}

static void check_pair(fixture *f, test_rng *r, const uint64_t pair[2])
{
    for (uint64_t i = 0; i < f->n; i++)
        set(f, i, pair[rng_below(r, 2)]);
    comet_native_block *block = pack(f);
    assert_non_null(block);
    assert_true(comet_native_block_bytes(block) <= f->n / 8 + 8 + 3 * 64);
    check_back(f, block);
    comet_native_free(f->session, block);
}

static void test_every_width_and_length(void **state)
{
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    test_rng r = {1};
    for (size_t w = 0; w < COUNT_OF(widths); w++)
        for (size_t l = 0; l < COUNT_OF(lengths); l++) {
            fixture f = fixture_of(s, widths[w], lengths[l]);
            for (size_t p = 0; p < COUNT_OF(pairs); p++)
                check_pair(&f, &r, pairs[p]);
            fixture_free(&f);
        }
    comet_native_destroy(s);
}

static void test_one_pattern_takes_no_room(void **state)
{
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    for (size_t w = 0; w < COUNT_OF(widths); w++) {
        fixture f = fixture_of(s, widths[w], 200003);
        for (uint64_t i = 0; i < f.n; i++)
            set(&f, i, UINT64_C(0xc0ffee1234567890));
        comet_native_block *block = pack(&f);
        assert_int_equal(comet_native_block_bytes(block), 2 * 64);
        check_back(&f, block);
        comet_native_free(s, block);
        fixture_free(&f);
    }
    comet_native_destroy(s);
}

/* The third pattern is found wherever it is: in the first group, in another part, in the tail; and one that differs from the
 * others in a single bit. */
static void test_a_third_pattern_anywhere(void **state)
{
    static const uint64_t places[] = {0, 1, 2, 63, 64, 130000, 140000, 262143, 262144, 299999, 300000};
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    for (size_t w = 0; w < COUNT_OF(widths); w++)
        for (size_t k = 0; k < COUNT_OF(places); k++) {
            fixture f = fixture_of(s, widths[w], 300001);
            const uint64_t high = UINT64_C(1) << (8 * widths[w] - 1);
            for (uint64_t i = 0; i < f.n; i++)
                set(&f, i, i % 3 ? 0x11 : 0);
            set(&f, places[k], 0x11 ^ high);
            assert_null(pack(&f));
            fixture_free(&f);
        }
    assert_int_equal(figures_of(s).n_blocks, 0); /* what was begun was given back */
    comet_native_destroy(s);
}

static void test_what_cannot_be_packed(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    _Alignas(8) unsigned char array[64] = {0};
    comet_native_block *block = (comet_native_block *)(void *)array;
    assert_int_equal(comet_native_pack_two(s, array, 3, 4, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_two(s, array, 0, 4, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_two(s, NULL, 4, 4, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_two(s, array + 1, 4, 4, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_two(NULL, array, 4, 4, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_two(s, array, 4, 4, NULL), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_two(s, array, 4, UINT64_MAX / 2, &block), COMET_ERROR_OVERFLOW);
    assert_ptr_equal(block, array);
    assert_int_equal(comet_native_pack_two(s, array, 4, 4, &block), COMET_OK);
    assert_int_equal(comet_native_decode(s, block, array, 15), COMET_ERROR_CAPACITY);
    assert_int_equal(comet_native_decode(s, block, array, 17), COMET_ERROR_CAPACITY);
    assert_int_equal(comet_native_decode(s, block, array + 1, 16), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_decode(s, block, NULL, 16), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_decode(s, NULL, array, 16), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_decode(NULL, block, array, 16), COMET_ERROR_ARGUMENT);
    comet_native_free(s, NULL);
    comet_native_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_width_and_length),
        cmocka_unit_test(test_one_pattern_takes_no_room),
        cmocka_unit_test(test_a_third_pattern_anywhere),
        cmocka_unit_test(test_what_cannot_be_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
