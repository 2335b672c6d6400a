/* Integers in as many bits as their range needs: every width, sign and number of bits. */
#include <stdlib.h>

#include "native_testing.h"

static const uint32_t widths[] = {1, 2, 4, 8};

typedef struct kind {
    uint32_t width;
    int is_signed;
} kind;

/* An array of n integers of which the least and the largest offset are as given, checked both ways. bits: 0 to 8 * width. */
static void check(comet_native_session *s, test_rng *r, kind k, unsigned bits, uint64_t least, uint64_t n)
{
    const uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    unsigned char *array = malloc(n * k.width + 1), *back = malloc(n * k.width + 1);
    comet_native_block *block = NULL;
    assert_true(array && back);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t offset = i == 0 ? most : i == n - 1 ? 0 : rng_next(r) & most;
        const uint64_t value = least + offset;
        memcpy(array + i * k.width, &value, k.width);
    }
    assert_int_equal(comet_native_pack_integers(s, array, k.width, k.is_signed, n, &block), COMET_OK);
    if (bits >= 8 * k.width && n > 1) {
        assert_null(block);
    } else {
        assert_non_null(block);
        assert_int_equal(comet_native_raw_bytes(block), n * k.width);
        assert_true(comet_native_block_bytes(block) <= (n * bits + 7) / 8 + 8 + 3 * 64);
        memset(back, 0x5a, n * k.width + 1);
        assert_int_equal(comet_native_decode(s, block, back, n * k.width), COMET_OK);
        assert_memory_equal(back, array, n * k.width);
        assert_int_equal(back[n * k.width], 0x5a);
    }
    comet_native_free(s, block);
    free(array);
    free(back);
}

/* The least value of which offsets of `bits` bits stay in the type's range: at its lower end, about zero, at its upper end. */
static uint64_t least_of(kind k, unsigned bits, unsigned where)
{
    const unsigned all = 8 * k.width;
    const uint64_t span = bits == 0 ? 0 : bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    const uint64_t lowest = k.is_signed ? 0 - (UINT64_C(1) << (all - 1)) : 0;
    const uint64_t highest = k.is_signed ? (UINT64_C(1) << (all - 1)) - 1 : all == 64 ? UINT64_MAX : (UINT64_C(1) << all) - 1;
    const uint64_t middle = k.is_signed ? 0 - span / 2 - (span > 0) : lowest + (highest - span - lowest) / 2;
    return where == 0 ? lowest : where == 1 ? middle : highest - span;
}

static void test_every_number_of_bits(void **state)
{
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    test_rng r = {1};
    for (size_t w = 0; w < COUNT_OF(widths); w++)
        for (int is_signed = 0; is_signed < 2; is_signed++)
            for (unsigned bits = 0; bits <= 8 * widths[w]; bits++)
                for (unsigned where = 0; where < 3; where++) {
                    const kind k = {widths[w], is_signed};
                    check(s, &r, k, bits, least_of(k, bits, where), 1000 + bits);
                }
    comet_native_destroy(s);
}

static void test_every_length(void **state)
{
    static const uint64_t lengths[] = {1, 2, 63, 64, 65, 128, 129, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 300001};
    static const unsigned some_bits[] = {0, 1, 5, 7};
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    test_rng r = {2};
    for (size_t l = 0; l < COUNT_OF(lengths); l++)
        for (size_t b = 0; b < COUNT_OF(some_bits); b++)
            for (size_t w = 0; w < COUNT_OF(widths); w++)
                if (lengths[l] > 1 || some_bits[b] == 0)
                    check(s, &r, (kind){widths[w], 1}, some_bits[b], (uint64_t)-3, lengths[l]);
    comet_native_destroy(s);
}

/* Pool indices: 64-bit numbers below 12544, of which 14 bits are left. */
static void test_indices_take_what_their_range_needs(void **state)
{
    enum { N = 100000 };
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    int64_t *array = malloc(N * sizeof *array);
    comet_native_block *block = NULL;
    assert_non_null(array);
    for (size_t i = 0; i < N; i++)
        array[i] = (int64_t)(i * 7919 % 12544);
    assert_int_equal(comet_native_pack_integers(s, array, 8, 1, N, &block), COMET_OK);
    assert_in_range(comet_native_block_bytes(block), N * 14 / 8, N * 14 / 8 + 3 * 64);
    comet_native_free(s, block);
    free(array);
    comet_native_destroy(s);
}

static void test_no_integers_at_all(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    comet_native_block *block = NULL;
    assert_int_equal(comet_native_pack_integers(s, NULL, 8, 1, 0, &block), COMET_OK);
    assert_non_null(block);
    assert_int_equal(comet_native_raw_bytes(block), 0);
    assert_int_equal(comet_native_decode(s, block, NULL, 0), COMET_OK);
    comet_native_destroy(s);
}

static void test_what_cannot_be_packed(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    int32_t array[8] = {0};
    comet_native_block *block = (comet_native_block *)(void *)array;
    assert_int_equal(comet_native_pack_integers(s, array, 16, 1, 2, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_integers(s, NULL, 4, 1, 2, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_integers(s, (char *)array + 2, 4, 1, 2, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_integers(NULL, array, 4, 1, 2, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_integers(s, array, 4, 1, 2, NULL), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_integers(s, array, 4, 1, UINT64_MAX, &block), COMET_ERROR_OVERFLOW);
    assert_ptr_equal(block, array);
    comet_native_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_of_bits),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_indices_take_what_their_range_needs),
        cmocka_unit_test(test_no_integers_at_all),
        cmocka_unit_test(test_what_cannot_be_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
