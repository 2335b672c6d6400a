/* The loader: the same batches whatever the threads, order and epochs, broken images, and leaving at any time. */
#define _XOPEN_SOURCE 700
#include "data_files.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/status.h"
#include "base/threads.h"
#include "describing.h"
#include "train/data/dataset.h"
#include "train/data/permutation.h"

/* ---- data made by the test ---- */

/* Images of 2 x 2 whose numbers are the index, whatever the epoch, and the label is the index; reading may take time or fail.
 */
typedef struct made {
    double seconds;          /* each image takes */
    double seconds_of_tenth; /* every tenth image takes instead, if that is more */
    const bool *broken;      /* which images are */
    atomic_uint_fast64_t n_read;
} made;

static comet_status made_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    made *m = d->state;
    float *image = row;
    atomic_fetch_add(&m->n_read, 1);
    const double seconds = index % 10 == 9 ? fmax(m->seconds, m->seconds_of_tenth) : m->seconds;
    if (seconds > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
    if (m->broken && m->broken[index])
        return comet_fail(COMET_ERROR_CORRUPT, "image-%u: broken by the test", (unsigned)index);
    for (int i = 0; i < 4; i++)
        image[i] = random ? (float)comet_random_uniform(random) : (float)index;
    return COMET_OK;
}

/* The same images as bytes. */
static comet_status made_read_bytes(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    float image[4];
    const comet_status status = made_read(d, index, NULL, s, image);
    for (int i = 0; i < 4; i++)
        ((uint8_t *)row)[i] = (uint8_t)(index + (uint64_t)i);
    return status;
}

static uint32_t made_label(const comet_dataset *d, uint64_t index)
{
    return (uint32_t)index;
}

static void made_close(comet_dataset *d)
{
}

static const dataset_source made_source = {"made", NULL, made_read, made_label, made_close};
static const dataset_source made_bytes_source = {"made", NULL, made_read_bytes, made_label, made_close};

static comet_dataset made_dataset(made *m, uint64_t n_images)
{
    return (comet_dataset){.source = &made_source,
                           .info = {.n_images = n_images, .channels = 1, .height = 2, .width = 2, .n_classes = 1000},
                           .state = m};
}

/* Bytes, each of which becomes a tenth of itself. */
static comet_dataset made_bytes_dataset(made *m, uint64_t n_images)
{
    static byte_table tenth;
    comet_dataset d = made_dataset(m, n_images);
    for (int v = 0; v < 256; v++)
        tenth.of[v] = (float)v / 10;
    d.source = &made_bytes_source;
    d.tables = &tenth;
    return d;
}

static comet_loader_params params_with(uint32_t batch, uint32_t n_threads)
{
    comet_loader_params p;
    comet_loader_params_init(&p);
    p.batch = batch;
    p.n_threads = n_threads;
    p.seed = 7;
    return p;
}

static comet_loader *new_loader(comet_dataset *d, const comet_loader_params *p)
{
    comet_loader *l = NULL;
    assert_ok(comet_loader_create(&l, d, p));
    return l;
}

/* The next batch, which must be there. */
static comet_batch next(comet_loader *l)
{
    comet_batch b;
    bool end = true;
    assert_ok(comet_loader_next(l, &b, &end));
    assert_false(end);
    return b;
}

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
        const comet_batch b = next(l);
        uint64_t h = hash_bytes(14695981039346656037u, b.images, p->batch * dataset_image_floats(d) * sizeof(float));
        h = hash_bytes(h, b.labels, p->batch * sizeof *b.labels);
        hashes[i] = hash_bytes(h, (const uint64_t[]){b.n_valid, b.epoch, b.batch_in_epoch}, 24);
        comet_loader_release(l, &b);
    }
    comet_loader_destroy(l);
}

/* ---- the same bits ---- */

static void check_same_bits(comet_dataset *d, uint32_t batch)
{
    enum { N = 11 };
    uint64_t first[N], again[N];
    comet_loader_params p = params_with(batch, 1);
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
    p = params_with(batch, 2);
    p.shuffle = p.augment = p.endless = true;
    p.seed++;
    take_hashes(d, &p, N, again);
    for (int i = 0; i < N; i++)
        assert_true(first[i] != again[i]);
}

static void draw_stripes(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = (uint8_t)(x * 5);
    rgb[1] = (uint8_t)(y * 3);
    rgb[2] = (uint8_t)(x * y);
}

/* Two classes of n pictures each in FOLDER/train. */
static void make_pictures(const char *folder, int n)
{
    const drawing d = {61, 47, draw_stripes};
    make_folder(text_of("%s/train", folder));
    for (int c = 0; c < 2; c++) {
        make_folder(text_of("%s/train/%c", folder, 'a' + c));
        for (int i = 0; i < n; i++)
            write_blob(text_of("%s/train/%c", folder, 'a' + c), text_of("%02d.%s", i, i % 3 ? "jpg" : "png"),
                       i % 3 ? jpeg_bytes(&d, JPEG_COLOUR, 60 + 3 * i) : png_bytes(&d, PNG_RGB));
    }
}

static comet_dataset *open_pictures(const char *folder, bool strict)
{
    comet_dataset *d = NULL;
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    params.image = 24;
    params.strict = strict;
    assert_ok(comet_dataset_open(&d, text_of("folder:%s", folder), &params));
    return d;
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
    comet_loader_params p = params_with(10, 3);
    p.shuffle = p.endless = true;
    comet_loader *l = new_loader(&d, &p);
    assert_int_equal(comet_loader_batches(l), 10);
    uint32_t orders[3][100];
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool seen[103] = {false};
        for (uint64_t i = 0; i < 10; i++) {
            const comet_batch b = next(l);
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
    const comet_loader_params p = params_with(10, 2);
    comet_loader *l = new_loader(&d, &p);
    assert_int_equal(comet_loader_batches(l), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const comet_batch b = next(l);
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
    comet_loader_params p = params_with(4, 2);
    p.shuffle = p.endless = p.augment = true;
    comet_loader *l = new_loader(&d, &p);
    for (uint64_t i = 0; i < 20; i++) {
        const comet_batch b = next(l);
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
    comet_loader_params p = params_with(4, 1);
    p.batch_in_epoch = 2;
    comet_batch b;
    bool end = false;
    comet_loader *l = new_loader(&d, &p);
    assert_ok(comet_loader_next(l, &b, &end));
    assert_true(end);
    comet_loader_destroy(l);
    p.endless = true;
    l = new_loader(&d, &p);
    b = next(l);
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
    comet_loader_params p = params_with(9, 1);
    p.shuffle = true;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "8 images, fewer than one batch of 9"));
    p = params_with(4, 1);
    p.batch_in_epoch = 3;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = params_with(0, 1);
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = params_with(4, 100000);
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = params_with(4, 1);
    p.epoch = UINT64_MAX;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = params_with(4, 1);
    p.size = 0;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_ARGUMENT);
    p = params_with(UINT32_MAX, 1);
    d.info.height = d.info.width = 1u << 31;
    assert_status(comet_loader_create(&l, &d, &p), COMET_ERROR_OVERFLOW);
    assert_status(comet_loader_create(&l, NULL, &p), COMET_ERROR_ARGUMENT);
    comet_loader_destroy(NULL);
}

/* ---- time ---- */

/* Batches in hand and in the queue, and none beyond. */
static void test_queue_is_bounded(void **state)
{
    made m = {0};
    comet_dataset d = made_dataset(&m, 1000);
    comet_loader_params p = params_with(5, 2);
    p.queue = 2;
    p.endless = true;
    comet_loader *l = new_loader(&d, &p);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(atomic_load(&m.n_read), 15);
    comet_batch held[3];
    for (int i = 0; i < 3; i++)
        held[i] = next(l);
    comet_batch b;
    bool end;
    assert_status(comet_loader_next(l, &b, &end), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "comet_loader_release"));
    comet_loader_release(l, &held[0]);
    assert_int_equal(next(l).labels[0], 15);
    comet_loader_stats stats = stats_of(l);
    assert_true(stats.wait_seconds < 0.04);
    assert_true(stats.bytes > 3 * 5 * 4 * 4);
    comet_loader_destroy(l);
}

static void sleep_for(double seconds)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

/* Bytes are normalised as they are handed out; rows beyond the data are zero, not the float of byte 0; and their slot is free
 * again while the batch is held. */
static void test_bytes_are_handed_out_as_floats(void **state)
{
    made m = {0};
    comet_dataset d = made_bytes_dataset(&m, 25);
    ((byte_table *)(uintptr_t)d.tables)->of[0] = -1;
    comet_loader_params p = params_with(10, 2);
    p.queue = 1;
    comet_loader *l = new_loader(&d, &p);
    comet_batch held[2];
    for (int i = 0; i < 2; i++) {
        held[i] = next(l);
        for (uint32_t k = 0; k < 40; k++)
            assert_true(held[i].images[k] == (k == 0 && i == 0 ? -1 : (float)(10 * i + k / 4 + k % 4) / 10));
    }
    comet_batch b;
    bool end;
    assert_status(comet_loader_next(l, &b, &end), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "2 batches are held"));
    comet_loader_release(l, &held[0]);
    b = next(l);
    assert_true(b.images == held[0].images);
    assert_int_equal(b.n_valid, 5);
    for (uint32_t k = 20; k < 40; k++)
        assert_true(b.images[k] == 0 && b.labels[k / 4] == 0);
    assert_true(held[1].images[0] == 1); /* still there */
    comet_loader_destroy(l);
}

/* A queue of bytes takes a quarter of a queue of floats; and there is one batch of floats. */
static void test_bytes_take_a_quarter(void **state)
{
    made m = {0};
    comet_dataset floats = made_dataset(&m, 4000), bytes = made_bytes_dataset(&m, 4000);
    comet_loader_params p = params_with(1000, 1);
    p.queue = 4;
    comet_loader *l = new_loader(&floats, &p), *lb = new_loader(&bytes, &p);
    const uint64_t image = 4 * sizeof(float), labels = sizeof(uint32_t);
    const uint64_t of_floats = stats_of(l).bytes, of_bytes = stats_of(lb).bytes;
    assert_true(of_floats > 5000 * (image + labels) && of_floats < 5000 * (image + labels) + 20000);
    assert_true(of_bytes > 4000 * (image / 4 + labels) + 1000 * (image + labels));
    assert_true(of_bytes < 4000 * (image / 4 + labels) + 1000 * (image + labels) + 20000);
    comet_loader_destroy(l);
    comet_loader_destroy(lb);
}

/* Takes 20 batches, and works on each for so long. Returns the depth that the queue came to. */
static uint32_t depth_after(comet_dataset *d, uint32_t queue, uint32_t first, double work)
{
    comet_loader_params p = params_with(10, 1);
    p.queue = queue;
    p.first_queue = first;
    comet_loader *l = new_loader(d, &p);
    assert_int_equal(stats_of(l).queue, queue > 0 ? queue : first > 0 ? first : 1);
    for (int i = 0; i < 20; i++) {
        const comet_batch b = next(l);
        sleep_for(work);
        comet_loader_release(l, &b);
    }
    const uint32_t depth = stats_of(l).queue;
    comet_loader_destroy(l);
    return depth;
}

/* One batch is enough for a loader that is always ready in time, and for one that never is. */
static void test_queue_grows_where_that_helps(void **state)
{
    made quick = {0}, slow = {.seconds = 0.001};
    comet_dataset of_quick = made_bytes_dataset(&quick, 1000), of_slow = made_bytes_dataset(&slow, 1000);
    assert_int_equal(depth_after(&of_quick, 0, 0, 0.01), 1);
    assert_true(depth_after(&of_slow, 0, 0, 0) <= 2);         /* 10 ms a batch; full once, while the first was handed out */
    assert_int_equal(depth_after(&of_quick, 2, 0, 0.001), 2); /* as it was told */
    assert_int_equal(depth_after(&of_quick, 0, 3, 0.001), 3); /* as it was */
}

/* Every second batch takes long; the mean is less than the caller takes. */
static void test_jitter_makes_the_queue_grow(void **state)
{
    made m = {.seconds_of_tenth = 0.03};
    comet_dataset d = made_bytes_dataset(&m, 400), floats = made_dataset(&m, 400);
    comet_dataset *both[] = {&d, &floats};
    for (int i = 0; i < 2; i++) {
        comet_loader_params p = params_with(5, 1); /* the tenth image is in every second batch */
        comet_loader *l = new_loader(both[i], &p);
        double waited_early = 0;
        for (int k = 0; k < 40; k++) {
            const comet_batch b = next(l);
            sleep_for(0.02);
            comet_loader_release(l, &b);
            if (k == 9)
                waited_early = stats_of(l).wait_seconds;
        }
        const comet_loader_stats stats = stats_of(l);
        assert_true(stats.queue >= 2 && stats.queue <= COMET_LOADER_QUEUE);
        assert_true(waited_early > 0.005);
        comet_loader_destroy(l);
    }
}

/* Waiting for a slow loader is measured, and takes no processor time. */
static void test_slow_loader(void **state)
{
    made m = {.seconds = 0.002};
    comet_dataset d = made_dataset(&m, 1000);
    const comet_loader_params p = params_with(20, 2);
    comet_loader *l = new_loader(&d, &p);
    const clock_t cpu = clock();
    const double start = comet_seconds();
    for (int i = 0; i < 10; i++) {
        const comet_batch b = next(l);
        comet_loader_release(l, &b);
    }
    const double wall = comet_seconds() - start, busy = (double)(clock() - cpu) / CLOCKS_PER_SEC;
    const comet_loader_stats stats = stats_of(l);
    assert_true(wall > 0.15);
    assert_true(stats.wait_seconds > 0.8 * wall && stats.wait_seconds < 1.01 * wall);
    assert_true(stats.decode_seconds > 1.2 * wall); /* of two threads */
    assert_true(busy < 0.5 * wall);
    comet_loader_destroy(l);
}

static void test_destroy_at_any_time(void **state)
{
    made m = {.seconds = 0.0002};
    comet_dataset d = made_dataset(&m, 1000);
    for (uint32_t i = 0; i < 60; i++) {
        comet_loader_params p = params_with(16, 1 + i % 4);
        p.endless = true;
        comet_loader *l = new_loader(&d, &p);
        for (uint32_t k = 0; k < i % 5; k++) {
            const comet_batch b = next(l);
            if (k % 2 == 0)
                comet_loader_release(l, &b);
        }
        comet_loader_destroy(l);
    }
}

/* The rest of a batch is not waited for. */
static void test_destroy_is_quick(void **state)
{
    made m = {.seconds = 0.01};
    comet_dataset d = made_dataset(&m, 1000);
    const comet_loader_params p = params_with(1000, 2);
    comet_loader *l = new_loader(&d, &p);
    const double start = comet_seconds();
    comet_loader_destroy(l);
    assert_true(comet_seconds() - start < 0.5);
}

/* ---- broken images ---- */

static void test_broken_images_are_replaced(void **state)
{
    bool broken[30] = {false};
    broken[3] = broken[4] = broken[11] = broken[29] = true;
    made m = {.broken = broken};
    comet_dataset d = made_dataset(&m, 30);
    for (uint32_t n_threads = 1; n_threads <= 4; n_threads *= 2) {
        const comet_loader_params p = params_with(10, n_threads);
        comet_loader *l = new_loader(&d, &p);
        for (uint32_t i = 0; i < 3; i++) {
            const comet_batch b = next(l);
            for (uint32_t k = 0; k < 10; k++) {
                uint32_t wanted = 10 * i + k;
                while (broken[wanted])
                    wanted = (wanted + 1) % 30;
                assert_int_equal(b.labels[k], wanted);
            }
            comet_loader_release(l, &b);
            const comet_loader_stats stats = stats_of(l);
            assert_int_equal(stats.n_skipped, i == 0 ? 2 : i == 1 ? 3 : 4); /* 3, 4, 11, 29: each once */
            assert_string_equal(stats.first_skipped, "image-3: broken by the test");
        }
        comet_loader_destroy(l);
    }
}

static void test_strict_names_the_broken_image(void **state)
{
    bool broken[30] = {false};
    broken[14] = broken[17] = true;
    made m = {.broken = broken};
    comet_dataset d = made_dataset(&m, 30);
    d.params.strict = true;
    for (uint32_t n_threads = 1; n_threads <= 4; n_threads *= 2) {
        const comet_loader_params p = params_with(10, n_threads);
        comet_loader *l = new_loader(&d, &p);
        comet_batch b = next(l);
        comet_loader_release(l, &b);
        for (int again = 0; again < 2; again++) {
            bool end = false;
            assert_status(comet_loader_next(l, &b, &end), COMET_ERROR_CORRUPT);
            assert_string_equal(comet_last_error(), "image-14: broken by the test");
        }
        comet_loader_destroy(l);
    }
}

static void test_nothing_readable(void **state)
{
    bool broken[20];
    memset(broken, true, sizeof broken);
    made m = {.broken = broken};
    comet_dataset d = made_dataset(&m, 20);
    const comet_loader_params p = params_with(10, 2);
    comet_loader *l = new_loader(&d, &p);
    comet_batch b;
    bool end;
    assert_status(comet_loader_next(l, &b, &end), COMET_ERROR_CORRUPT);
    comet_loader_destroy(l);
}

/* With files: truncated, emptied, of another kind, gone. */
static void damage_pictures(const char *folder)
{
    const char *path = text_of("%s/train/a", folder);
    blob b = read_file(path, "01.jpg");
    write_file(path, "01.jpg", b.data, b.bytes * 2 / 3);
    free(b.data);
    b = read_file(path, "03.png");
    write_file(path, "03.png", b.data, b.bytes - 20);
    free(b.data);
    write_file(path, "05.jpg", "GIF89a", 6);
    write_file(path, "06.png", "", 0);
    assert_int_equal(remove(text_of("%s/08.jpg", path)), 0);
}

static void test_broken_files(void **state)
{
    const char *folder = *state;
    make_pictures(folder, 10);
    comet_dataset *d = open_pictures(folder, false);
    damage_pictures(folder);
    for (uint32_t n_threads = 1; n_threads <= 2; n_threads++) {
        const comet_loader_params p = params_with(20, n_threads);
        comet_loader *l = new_loader(d, &p);
        const comet_batch b = next(l);
        for (int i = 0; i < 20; i++)
            assert_int_equal(b.labels[i], i / 10);
        const comet_loader_stats stats = stats_of(l);
        assert_int_equal(stats.n_skipped, 5); /* each once, also 6, which is tried again in the place of 5 */
        assert_non_null(strstr(stats.first_skipped, "a/01.jpg: a truncated JPEG"));
        comet_loader_destroy(l);
    }
    comet_dataset_close(d);
    d = open_pictures(folder, true);
    const comet_loader_params p = params_with(1, 1);
    comet_loader *l = new_loader(d, &p);
    comet_batch b = next(l);
    comet_loader_release(l, &b);
    bool end;
    assert_status(comet_loader_next(l, &b, &end), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "a/01.jpg"));
    comet_loader_destroy(l);
    comet_dataset_close(d);
}

/* A pipe named like a picture is a broken one, and nobody waits for what may be written to it. */
static void test_pipe_among_pictures(void **state)
{
    const char *folder = *state;
    make_pictures(folder, 10);
    make_pipe(text_of("%s/train/a", folder), "01.jpg");
    for (int strict = 0; strict < 2; strict++) {
        comet_dataset *d = open_pictures(folder, strict);
        const comet_loader_params p = params_with(20, 2);
        comet_loader *l = new_loader(d, &p);
        comet_batch b;
        bool end;
        assert_status(comet_loader_next(l, &b, &end), strict ? COMET_ERROR_IO : COMET_OK);
        const comet_loader_stats stats = stats_of(l);
        assert_int_equal(stats.n_skipped, strict ? 0 : 1);
        assert_non_null(strstr(strict ? comet_last_error() : stats.first_skipped, "a/01.jpg: not a regular file"));
        comet_loader_destroy(l);
        comet_dataset_close(d);
    }
    stop_waiting();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_same_bits_for_any_threads_and_start),
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_permutation_is_fair),
        cmocka_unit_test(test_shuffled_epochs),
        cmocka_unit_test(test_one_epoch_in_order),
        cmocka_unit_test(test_epochs_of_one_batch),
        cmocka_unit_test(test_start_at_the_end_of_an_epoch),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_bytes_are_handed_out_as_floats),
        cmocka_unit_test(test_bytes_take_a_quarter),
        cmocka_unit_test(test_queue_grows_where_that_helps),
        cmocka_unit_test(test_jitter_makes_the_queue_grow),
        cmocka_unit_test(test_slow_loader),
        cmocka_unit_test(test_destroy_at_any_time),
        cmocka_unit_test(test_destroy_is_quick),
        cmocka_unit_test(test_broken_images_are_replaced),
        cmocka_unit_test(test_strict_names_the_broken_image),
        cmocka_unit_test(test_nothing_readable),
        IN_FOLDER(test_broken_files),
        IN_FOLDER(test_pipe_among_pictures),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
