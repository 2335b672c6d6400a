/* The loader and images that cannot be read: replaced and counted, or named. */
#include "loader_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_broken_images_are_replaced(void **state)
{
    bool broken[30] = {false};
    broken[3] = broken[4] = broken[11] = broken[29] = true;
    made m = {.broken = broken};
    comet_dataset d = made_dataset(&m, 30);
    for (uint32_t n_threads = 1; n_threads <= 4; n_threads *= 2) {
        const comet_loader_params p = loader_params_with(10, n_threads);
        comet_loader *l = new_loader(&d, &p);
        for (uint32_t i = 0; i < 3; i++) {
            const comet_batch b = next_batch(l);
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
        const comet_loader_params p = loader_params_with(10, n_threads);
        comet_loader *l = new_loader(&d, &p);
        comet_batch b = next_batch(l);
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
    const comet_loader_params p = loader_params_with(10, 2);
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
        const comet_loader_params p = loader_params_with(20, n_threads);
        comet_loader *l = new_loader(d, &p);
        const comet_batch b = next_batch(l);
        for (int i = 0; i < 20; i++)
            assert_int_equal(b.labels[i], i / 10);
        const comet_loader_stats stats = stats_of(l);
        assert_int_equal(stats.n_skipped, 5); /* each once, also 6, which is tried again in the place of 5 */
        assert_non_null(strstr(stats.first_skipped, "a/01.jpg: a truncated JPEG"));
        comet_loader_destroy(l);
    }
    comet_dataset_close(d);
    d = open_pictures(folder, true);
    const comet_loader_params p = loader_params_with(1, 1);
    comet_loader *l = new_loader(d, &p);
    comet_batch b = next_batch(l);
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
        const comet_loader_params p = loader_params_with(20, 2);
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
        cmocka_unit_test(test_broken_images_are_replaced),
        cmocka_unit_test(test_strict_names_the_broken_image),
        cmocka_unit_test(test_nothing_readable),
        IN_FOLDER(test_broken_files),
        IN_FOLDER(test_pipe_among_pictures),
    };
    return cmocka_run_group_tests_name("loader_broken", tests, NULL, NULL);
}
