/* Indices of max pooling in a few bits: every shape of window, both orders in memory, and indices that are none of a window. */
#include <stdlib.h>

#include "native_testing.h"

/* Any place of each window, drawn; places outside the plane, too, since only the numbers matter. */
static int64_t *drawn(const comet_native_windows *w, test_rng *r, uint64_t *n)
{
    *n = w->n_outer * w->n_rows * w->n_columns * w->n_inner;
    int64_t *indices = malloc(*n * sizeof *indices), *next = indices;
    assert_non_null(indices);
    for (uint64_t outer = 0; outer < w->n_outer; outer++)
        for (int64_t row = 0; row < (int64_t)w->n_rows; row++)
            for (int64_t column = 0; column < (int64_t)w->n_columns; column++)
                for (uint64_t inner = 0; inner < w->n_inner; inner++) {
                    const int64_t y = row * w->stride[0] - w->padding[0] + (int64_t)rng_below(r, w->kernel[0]) * w->dilation[0];
                    const int64_t x =
                        column * w->stride[1] - w->padding[1] + (int64_t)rng_below(r, w->kernel[1]) * w->dilation[1];
                    *next++ = y * (int64_t)w->width + x;
                }
    return indices;
}

static const comet_native_windows shapes[] = {
    {sizeof(comet_native_windows), 6, 56, 56, 1, 112, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {sizeof(comet_native_windows), 2, 56, 56, 64, 112, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, /* channels last; several parts */
    {sizeof(comet_native_windows), 3, 7, 5, 1, 10, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {sizeof(comet_native_windows), 3, 7, 5, 3, 40, {2, 5}, {1, 3}, {1, 0}, {3, 2}},
    {sizeof(comet_native_windows), 1, 4, 4, 1, 4, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, /* no bits at all */
    {sizeof(comet_native_windows), 1, 9, 9, 1, 40, {16, 16}, {3, 3}, {8, 8}, {1, 1}},
    {sizeof(comet_native_windows), 1, 1, 1, 1, 1, {2, 1}, {1, 1}, {0, 0}, {1, 1}},
};

static void test_every_shape_comes_back(void **state)
{
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    test_rng r = {3};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        uint64_t n = 0;
        int64_t *indices = drawn(&shapes[i], &r, &n), *back = calloc(n + 1, sizeof *back);
        comet_native_block *block = NULL;
        unsigned bits = 0;
        while ((1u << bits) < shapes[i].kernel[0] * shapes[i].kernel[1])
            bits++;
        assert_non_null(back);
        assert_int_equal(comet_native_pack_windows(s, &shapes[i], indices, &block), COMET_OK);
        assert_non_null(block);
        assert_true(comet_native_block_bytes(block) <= (n * bits + 7) / 8 + 8 + 5 * 64);
        assert_int_equal(comet_native_raw_bytes(block), n * sizeof *indices);
        assert_int_equal(comet_native_decode(s, block, back, n * sizeof *back), COMET_OK);
        assert_memory_equal(back, indices, n * sizeof *back);
        assert_int_equal(back[n], 0);
        comet_native_free(s, block);
        free(indices);
        free(back);
    }
    comet_native_destroy(s);
}

/* One index moved to a place that its window does not have: refused, wherever it is, and nothing stays allocated. */
static void test_others_are_refused(void **state)
{
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    test_rng r = {4};
    const comet_native_windows *w = &shapes[3];
    uint64_t n = 0;
    int64_t *indices = drawn(w, &r, &n);
    for (uint64_t i = 0; i < n; i++) {
        static const int64_t moves[] = {1, -1000, 1 << 20,
                                        -((int64_t)1 << 40)}; /* 1: between two places, which dilation parts */
        const int64_t kept = indices[i];
        comet_native_block *block = NULL;
        indices[i] += moves[i % COUNT_OF(moves)];
        assert_int_equal(comet_native_pack_windows(s, w, indices, &block), COMET_OK);
        assert_null(block);
        indices[i] = kept;
    }
    assert_int_equal(figures_of(s).n_blocks, 0);
    comet_native_windows large = shapes[0];
    large.kernel[0] = 86; /* 258 places */
    comet_native_block *block = NULL;
    int64_t *others = drawn(&large, &r, &n);
    assert_int_equal(comet_native_pack_windows(s, &large, others, &block), COMET_OK);
    assert_null(block);
    free(others);
    free(indices);
    comet_native_destroy(s);
}

static void test_bad_arguments(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    int64_t indices[16] = {0};
    comet_native_block *block = (comet_native_block *)(void *)indices;
    comet_native_windows w = shapes[4];
    assert_int_equal(comet_native_pack_windows(NULL, &w, indices, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_windows(s, NULL, indices, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_windows(s, &w, NULL, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_pack_windows(s, &w, indices, NULL), COMET_ERROR_ARGUMENT);
    w.size--;
    assert_int_equal(comet_native_pack_windows(s, &w, indices, &block), COMET_ERROR_ARGUMENT);
    w = shapes[4], w.n_rows = 0;
    assert_int_equal(comet_native_pack_windows(s, &w, indices, &block), COMET_ERROR_ARGUMENT);
    w = shapes[4], w.n_outer = UINT64_MAX / 2;
    assert_int_equal(comet_native_pack_windows(s, &w, indices, &block), COMET_ERROR_ARGUMENT);
    w = shapes[4], w.width = 0;
    assert_int_equal(comet_native_pack_windows(s, &w, indices, &block), COMET_ERROR_ARGUMENT);
    w = shapes[4], w.kernel[1] = 0;
    assert_int_equal(comet_native_pack_windows(s, &w, indices, &block), COMET_ERROR_ARGUMENT);
    w = shapes[4], w.dilation[0] = 0;
    assert_int_equal(comet_native_pack_windows(s, &w, indices, &block), COMET_ERROR_ARGUMENT);
    assert_ptr_equal(block, indices);
    comet_native_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape_comes_back),
        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
