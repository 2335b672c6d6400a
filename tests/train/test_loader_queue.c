/* The loader's queue: how deep it is, what it holds, and leaving at any time. */
#define _XOPEN_SOURCE 700
#include "loader_data.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/threads.h"

/* Batches in hand and in the queue, and none beyond. */
static void test_queue_is_bounded(void **state)
{
    made m = {0};
    comet_dataset d = made_dataset(&m, 1000);
    comet_loader_params p = loader_params_with(5, 2);
    p.queue = 2;
    p.endless = true;
    comet_loader *l = new_loader(&d, &p);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(atomic_load(&m.n_read), 15);
    comet_batch held[3];
    for (int i = 0; i < 3; i++)
        held[i] = next_batch(l);
    comet_batch b;
    bool end;
    assert_status(comet_loader_next(l, &b, &end), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "comet_loader_release"));
    comet_loader_release(l, &held[0]);
    assert_int_equal(next_batch(l).labels[0], 15);
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
    comet_loader_params p = loader_params_with(10, 2);
    p.queue = 1;
    comet_loader *l = new_loader(&d, &p);
    comet_batch held[2];
    for (int i = 0; i < 2; i++) {
        held[i] = next_batch(l);
        for (uint32_t k = 0; k < 40; k++)
            assert_true(held[i].images[k] == (k == 0 && i == 0 ? -1 : (float)(10 * i + k / 4 + k % 4) / 10));
    }
    comet_batch b;
    bool end;
    assert_status(comet_loader_next(l, &b, &end), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "2 batches are held"));
    comet_loader_release(l, &held[0]);
    b = next_batch(l);
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
    comet_loader_params p = loader_params_with(1000, 1);
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
    comet_loader_params p = loader_params_with(10, 1);
    p.queue = queue;
    p.first_queue = first;
    comet_loader *l = new_loader(d, &p);
    assert_int_equal(stats_of(l).queue, queue > 0 ? queue : first > 0 ? first : 1);
    for (int i = 0; i < 20; i++) {
        const comet_batch b = next_batch(l);
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
        comet_loader_params p = loader_params_with(5, 1); /* the tenth image is in every second batch */
        comet_loader *l = new_loader(both[i], &p);
        double waited_early = 0;
        for (int k = 0; k < 40; k++) {
            const comet_batch b = next_batch(l);
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
    const comet_loader_params p = loader_params_with(20, 2);
    comet_loader *l = new_loader(&d, &p);
    const clock_t cpu = clock();
    const double start = comet_seconds();
    for (int i = 0; i < 10; i++) {
        const comet_batch b = next_batch(l);
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
        comet_loader_params p = loader_params_with(16, 1 + i % 4);
        p.endless = true;
        comet_loader *l = new_loader(&d, &p);
        for (uint32_t k = 0; k < i % 5; k++) {
            const comet_batch b = next_batch(l);
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
    const comet_loader_params p = loader_params_with(1000, 2);
    comet_loader *l = new_loader(&d, &p);
    const double start = comet_seconds();
    comet_loader_destroy(l);
    assert_true(comet_seconds() - start < 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_bytes_are_handed_out_as_floats),
        cmocka_unit_test(test_bytes_take_a_quarter),
        cmocka_unit_test(test_queue_grows_where_that_helps),
        cmocka_unit_test(test_jitter_makes_the_queue_grow),
        cmocka_unit_test(test_slow_loader),
        cmocka_unit_test(test_destroy_at_any_time),
        cmocka_unit_test(test_destroy_is_quick),
    };
    return cmocka_run_group_tests_name("loader_queue", tests, NULL, NULL);
}
