/* The nearest of several words, and NumPy's headers. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/nearest.h"
#include "comet/npy.h"

/* ---- the nearest word ---- */

static const char *nearest_of(const char *text, const char *const *words, size_t n)
{
    nearest_word w = nearest_to(text, strlen(text));
    for (size_t i = 0; i < n; i++)
        nearest_offer(&w, words[i]);
    return nearest_best(&w);
}

/* One edit of each kind; a swap of neighbours is one edit, not two. */
static void test_edits(void **state)
{
    static const char *const words[] = {"epochs", "batch", "seed"};
    static const struct {
        const char *text, *best;
    } cases[] = {{"epoch", "epochs"},  {"eepochs", "epochs"}, {"epocks", "epochs"}, {"batch", "batch"}, {"bacth", "batch"},
                 {"abtch", "batch"},   {"sede", "seed"},      {"seeds", "seed"},    {"esde", NULL},     {"epchso", "epochs"},
                 {"ephcos", "epochs"}, {"hcope", NULL},       {"bth", NULL},        {"s", NULL},        {"", NULL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *best = nearest_of(cases[i].text, words, COUNT_OF(words));
        if (best != cases[i].best && (!best || !cases[i].best || strcmp(best, cases[i].best) != 0))
            fail_because("\"%s\" gives %s", cases[i].text, best ? best : "nothing");
    }
}

/* A word of n characters may have max(1, n / 3) edits: 2 of 8 are near, 3 are not; of 9 they are. */
static void test_how_near(void **state)
{
    static const char *const words[] = {"abcdefgh", "abcdefghi"};
    assert_string_equal(nearest_of("xxcdefgh", words, 1), "abcdefgh");
    assert_null(nearest_of("xxxdefgh", words, 1));
    assert_string_equal(nearest_of("xxxdefghi", words + 1, 1), "abcdefghi");
    assert_null(nearest_of("xxxxefghi", words + 1, 1));
    assert_string_equal(nearest_of("abcdefg", words, 2), "abcdefgh"); /* the nearer of two */
    static const char *const equal[] = {"aab", "aac"};
    assert_string_equal(nearest_of("aad", equal, 2), "aab"); /* the first of equals */
    char longer[60];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    const char *const itself[] = {longer};
    assert_null(nearest_of(longer, itself, 1)); /* too long to be near to anything */
}

static const char *meant(const char *text)
{
    nearest_word w = nearest_to(text, strlen(text));
    nearest_offer_for(&w, "conv", " conv2d  convolution ");
    nearest_offer_for(&w, "batch_norm", "batchnorm2d bn");
    return nearest_best(&w);
}

static void test_synonyms(void **state)
{
    assert_string_equal(meant("Conv2d"), "conv");
    assert_string_equal(meant("CONVOLUTION"), "conv");
    assert_string_equal(meant("Batch_Norm2d"), "batch_norm");
    assert_string_equal(meant("batch-norm-2d"), "batch_norm");
    assert_string_equal(meant("bn"), "batch_norm");
    assert_string_equal(meant("batchnorm"), "batch_norm");
    assert_null(meant("bnn2x"));
    assert_null(meant("convolutions2d"));
}

/* ---- headers ---- */

static void test_written_headers_are_read(void **state)
{
    static const uint64_t dims[COMET_NPY_MAX_DIMS] = {3, 0, 1, UINT64_MAX, 10, 1, 1, 1, 18446744073709551610u};
    for (uint32_t n_dims = 1; n_dims <= COMET_NPY_MAX_DIMS; n_dims++) {
        char text[COMET_NPY_HEADER_BYTES];
        const size_t bytes = comet_npy_format("<f4", n_dims, dims, text);
        assert_true(bytes % 64 == 0 && bytes <= sizeof text && text[bytes - 1] == '\n');
        comet_npy_header h;
        assert_ok(comet_npy_parse(&h, text, bytes));
        assert_string_equal(h.descr, "<f4");
        assert_int_equal(h.data_offset, bytes);
        assert_int_equal(h.n_dims, n_dims);
        for (uint32_t i = 0; i < n_dims; i++)
            assert_true(h.dims[i] == dims[i]);
        comet_npy_header untouched = {.n_dims = 77};
        assert_status(comet_npy_parse(&untouched, text, bytes - 1), COMET_ERROR_CORRUPT);
        assert_int_equal(untouched.n_dims, 77);
    }
}

/* The bytes that NumPy itself writes. */
static void test_bytes_of_a_header(void **state)
{
    static const uint64_t dims[] = {2, 3};
    char text[COMET_NPY_HEADER_BYTES], expected[COMET_NPY_HEADER_BYTES];
    const size_t bytes = comet_npy_format("<f4", 2, dims, text);
    snprintf(expected, sizeof expected, "%-117s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    assert_int_equal(bytes, 128);
    assert_memory_equal(text, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal(text + 10, expected, 118);
}

/* Parses a dictionary as version 1 or, with more than 64 KiB of blanks before it, 2. */
static comet_status parse(const char *dictionary, size_t n_blanks, comet_npy_header *h)
{
    const size_t length = strlen(dictionary) + n_blanks, prefix = n_blanks ? 12 : 10;
    char *file = need_malloc(prefix + length);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = n_blanks ? 2 : 1;
    file[7] = 0;
    for (size_t i = 8; i < prefix; i++)
        file[i] = (char)(length >> 8 * (i - 8));
    memset(file + prefix, ' ', n_blanks);
    memcpy(file + prefix + n_blanks, dictionary, strlen(dictionary));
    const comet_status status = comet_npy_parse(h, file, prefix + length);
    free(file);
    return status;
}

static void test_other_headers(void **state)
{
    comet_npy_header h;
    assert_ok(parse("{\"shape\": (4L, 5), 'fortran_order':False,\n'descr': '|u1'}", 0, &h));
    assert_true(h.n_dims == 2 && h.dims[0] == 4 && h.dims[1] == 5 && strcmp(h.descr, "|u1") == 0);
    assert_ok(parse("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 70000, &h));
    assert_true(h.n_dims == 1 && h.dims[0] == 1 && h.data_offset == 12 + 70000 + 53);
    assert_status(parse("{'descr': '<f8', 'fortran_order': True, 'shape': (1,)}", 0, &h), COMET_ERROR_UNSUPPORTED);
    assert_status(parse("{'descr': '<f8', 'fortran_order': False}", 0, &h), COMET_ERROR_CORRUPT);
    assert_status(parse("{'descr': '<f8', 'descr': '<f8', 'shape': (1,)}", 0, &h), COMET_ERROR_CORRUPT);
    assert_status(parse("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} x", 0, &h), COMET_ERROR_CORRUPT);
    assert_status(parse("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", 0, &h), COMET_ERROR_UNSUPPORTED);
    /* 2^64 - 1 is a number, 2^64 is none. */
    assert_ok(parse("{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615,)}", 0, &h));
    assert_true(h.dims[0] == UINT64_MAX);
    assert_status(parse("{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551616,)}", 0, &h),
                  COMET_ERROR_CORRUPT);
    assert_status(parse("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1, 1)}", 0, &h),
                  COMET_ERROR_UNSUPPORTED);
}

/* All four bytes of the length of version 2 count, each at its own place: the last makes it longer than a long file. */
static void test_length_beyond_the_file(void **state)
{
    static const char text[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}";
    enum { LENGTH = sizeof text - 1, LONG = 1 << 18 };
    char *file = need_malloc(LONG);
    for (int byte = 8; byte < 12; byte++) {
        const size_t bytes = byte < 11 ? 12 + LENGTH : LONG;
        comet_npy_header h;
        memset(file, ' ', LONG);
        memcpy(file, "\x93NUMPY\x02\x00\x00\x00\x00\x00", 12);
        memcpy(file + 12, text, LENGTH);
        file[8] = (char)LENGTH;
        assert_ok(comet_npy_parse(&h, file, bytes));
        file[byte] = (char)(file[byte] + 1);
        assert_status(comet_npy_parse(&h, file, bytes), COMET_ERROR_CORRUPT);
    }
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_how_near),
        cmocka_unit_test(test_synonyms),
        cmocka_unit_test(test_written_headers_are_read),
        cmocka_unit_test(test_bytes_of_a_header),
        cmocka_unit_test(test_other_headers),
        cmocka_unit_test(test_length_beyond_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
