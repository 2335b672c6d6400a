/* The loader: the same batches whatever the threads; order and epochs. */
#include "loader_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/data/permutation.h"

/* ---- the same bits ---- */

static uint64_t hash_bytes(uint64_t h, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Takes n batches; hashes[i] tells all of batch i. */
static void take_hashes(comet_dataset *d, const comet_loader_params *p, size_t n, uint64_t *hashes)
{
    comet_loader *l = new_loader(d, p);
    for (size_t i = 0; i < n; i++) {
        const comet_batch b = next_batch(l);
        uint64_t h = hash_bytes(14695981039346656037u, b.images, p->batch * dataset_image_floats(d) * sizeof(float));
        h = hash_bytes(h, b.labels, p->batch * sizeof *b.labels);
        hashes[i] = hash_bytes(h, (const uint64_t[]){b.n_valid, b.epoch, b.batch_in_epoch}, 24);
        comet_loader_release(l, &b);
    }
    comet_loader_destroy(l);
}

static void check_same_bits(comet_dataset *d, uint32_t batch)
{
    enum { N = 11 };
    uint64_t first[N], again[N];
    comet_loader_params p = loader_params_with(batch, 1);
    p.shuffle = p.augment = p.endless = true;
    take_hashes(d, &p, N, first);
    for (uint32_t n_threads = 1; n_threads <= 4; n_threads *= 2) {
        p.n_threads = n_threads;
        p.queue = n_threads;
        take_hashes(d, &p, N, again);
        assert_memory_equal(first, again, sizeof first);
    }
    comet_loader *l = new_loader(d, &p);
    const uint64_t n_batches = comet_loader_batches(l);
    comet_loader_destroy(l);
    for (uint64_t start = 1; start < N; start += 3) { /* from the middle on */
        p.epoch = start / n_batches;
        p.batch_in_epoch = start % n_batches;
        take_hashes(d, &p, N - start, again);
        assert_memory_equal(first + start, again, (N - start) * sizeof *again);
    }
    p = loader_params_with(batch, 2);
    p.shuffle = p.augment = p.endless = true;
    p.seed++;
    take_hashes(d, &p, N, again);
    for (int i = 0; i < N; i++)
        assert_true(first[i] != again[i]);
}

static void test_same_bits_for_any_threads_and_start(void **state)
{
    comet_dataset *d = open_data("synthetic", COMET_SPLIT_TRAIN);
    d->info.n_images = 70;
    check_same_bits(d, 16);
    comet_dataset_close(d);
    make_pictures(*state, 10);
    d = open_pictures(*state, false);
    check_same_bits(d, 7);
    comet_dataset_close(d);
}

/* ---- order ---- */

static void test_permutation(void **state)
{
    static const uint64_t sizes[] = {1, 2, 3, 5, 16, 17, 100, 1000, 4097};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint64_t n = sizes[i];
        uint64_t n_kept = 0;
        bool *seen = need_malloc(n);
        memset(seen, 0, n);
        const permutation a = permutation_of(1, COMET_STREAM_ORDER, 0, n), b = permutation_of(1, COMET_STREAM_ORDER, 1, n);
        for (uint64_t k = 0; k < n; k++) {
            const uint64_t v = permutation_at(&a, k);
            assert_true(v < n && !seen[v]);
            seen[v] = true;
            n_kept += v == permutation_at(&b, k);
        }
        assert_true(n < 100 || n_kept < 10); /* one is to be expected */
        free(seen);
    }
}

/* Every small order of four comes up about as often as any other. */
static void test_permutation_is_fair(void **state)
{
    unsigned counts[256] = {0}, n_orders = 0;
    for (uint64_t part = 0; part < 24000; part++) {
        const permutation p = permutation_of(3, COMET_STREAM_ORDER, part, 4);
        unsigned code = 0;
        for (uint64_t k = 0; k < 4; k++)
            code = code * 4 + (unsigned)permutation_at(&p, k);
        counts[code]++;
    }
    for (int i = 0; i < 256; i++) {
        n_orders += counts[i] > 0;
        assert_true(counts[i] == 0 || (counts[i] > 800 && counts[i] < 1200));
    }
    assert_int_equal(n_orders, 24);
}

static void test_shuffled_epochs(void **state)
{
    made m = {0};
    comet_dataset d = made_dataset(&m, 103);
    comet_loader_params p = loader_params_with(10, 3);
    p.shuffle = p.endless = true;
    comet_loader *l = new_loader(&d, &p);
    assert_int_equal(comet_loader_batches(l), 10);
    uint32_t orders[3][100];
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool seen[103] = {false};
        for (uint64_t i = 0; i < 10; i++) {
            const comet_batch b = next_batch(l);
            assert_int_equal(b.epoch, epoch);
            assert_int_equal(b.batch_in_epoch, i);
            assert_int_equal(b.n_valid, 10);
            for (int k = 0; k < 10; k++) {
                assert_false(seen[b.labels[k]]);
                seen[b.labels[k]] = true;
                orders[epoch][i * 10 + k] = b.labels[k];
                assert_true(b.images[4 * k] == (float)b.labels[k]);
            }
            comet_loader_release(l, &b);
        }
    }
    assert_memory_not_equal(orders[0], orders[1], sizeof orders[0]);
    assert_memory_not_equal(orders[1], orders[2], sizeof orders[0]);
    comet_loader_destroy(l);
}

static void test_one_epoch_in_order(void **state)
{
    made m = {0};
    comet_dataset d = made_dataset(&m, 23);
    const comet_loader_params p = loader_params_with(10, 2);
    comet_loader *l = new_loader(&d, &p);
    assert_int_equal(comet_loader_batches(l), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const comet_batch b = next_batch(l);
        assert_int_equal(b.n_valid, i < 2 ? 10 : 3);
        for (uint32_t k = 0; k < 10; k++) {
            const uint32_t wanted = k < b.n_valid ? 10 * i + k : 0;
            assert_int_equal(b.labels[k], wanted);
            assert_true(b.images[4 * k + 3] == (float)wanted);
        }
        comet_loader_release(l, &b);
    }
    for (int i = 0; i < 2; i++) {
        comet_batch b;
        bool end = false;
        assert_ok(comet_loader_next(l, &b, &end));
        assert_true(end);
    }
    assert_int_equal(stats_of(l).n_batches, 3);
    comet_loader_destroy(l);
}

static void test_epochs_of_one_batch(void **state)
{
    made m = {0};
    comet_dataset d = made_dataset(&m, 4);
    comet_loader_params p = loader_params_with(4, 2);
    p.shuffle = p.endless = p.augment = true;
    comet_loader *l = new_loader(&d, &p);
    for (uint64_t i = 0; i < 20; i++) {
        const comet_batch b = next_batch(l);
        assert_int_equal(b.epoch, i);
        assert_int_equal(b.labels[0] + b.labels[1] + b.labels[2] + b.labels[3], 6);
        comet_loader_release(l, &b);
    }
    comet_loader_destroy(l);
}

static void test_start_at_the_end_of_an_epoch(void **state)
{
    made m = {0};
    comet_dataset d = made_dataset(&m, 8);
    comet_loader_params p = loader_params_with(4, 1);
    p.batch_in_epoch = 2;
    comet_batch b;
    bool end = false;
    comet_loader *l = new_loader(&d, &p);
    assert_ok(comet_loader_next(l, &b, &end));
    assert_true(end);
    comet_loader_destroy(l);
    p.endless = true;
    l = new_loader(&d, &p);
    b = next_batch(l);
    assert_int_equal(b.epoch, 1);
    assert_int_equal(b.batch_in_epoch, 0);
    comet_loader_destroy(l);
}

/* ---- arguments ---- */

static void test_arguments(void **state)
{
    made m = {0};
    comet_dataset d = made_dataset(&m, 8);
    comet_loader *l = NULL;
    comet_loader_params p = loader_params_with(9, 1);
    p.shuffle = true;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "8 images, fewer than one batch of 9"));
    p = loader_params_with(4, 1);
    p.batch_in_epoch = 3;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = loader_params_with(0, 1);
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = loader_params_with(4, 100000);
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = loader_params_with(4, 1);
    p.epoch = UINT64_MAX;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = loader_params_with(4, 1);
    p.size = 0;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = loader_params_with(UINT32_MAX, 1);
    d.info.height = d.info.width = 1u << 31;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_OVERFLOW);
    assert_status(comet_loader_create(&l, NULL, &p), COMET_ERROR_ARGUMENT);
    comet_loader_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_same_bits_for_any_threads_and_start), cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_permutation_is_fair),          cmocka_unit_test(test_shuffled_epochs),
        cmocka_unit_test(test_one_epoch_in_order),           cmocka_unit_test(test_epochs_of_one_batch),
        cmocka_unit_test(test_start_at_the_end_of_an_epoch), cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
