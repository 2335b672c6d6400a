/* Loaders that share out batches among ranks: together they give the bits of one loader, whatever their number. */
#define _XOPEN_SOURCE 700
#include "data_files.h"

#include <stdlib.h>

#include "train/data/dataset.h"

enum { GLOBAL_BATCH = 12, N_IMAGES = 41, N_BATCHES = 9 }; /* three epochs of 3 batches, or of 4, the last with 5 rows */

static void draw_checks(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = (uint8_t)(x * 7);
    rgb[1] = (uint8_t)(y * 5);
    rgb[2] = (uint8_t)(x * y);
}

/* Rows of bytes: the kind of batch that is normalised when it is handed out. */
static comet_dataset *open_pictures(const char *folder)
{
    make_folder(text_of("%s/train", folder));
    for (uint32_t c = 0; c < 2; c++) {
        make_folder(text_of("%s/train/%c", folder, 'a' + (int)c));
        for (uint32_t i = 0; i <= N_IMAGES / 2; i++) {
            const drawing d = {20 + i, 41 - i + c, draw_checks};
            write_blob(text_of("%s/train/%c", folder, 'a' + (int)c), text_of("%02u.png", i), png_bytes(&d, PNG_RGB));
        }
    }
    comet_dataset *d = NULL;
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    params.image = 16;
    assert_ok(comet_dataset_open(&d, text_of("folder:%s", folder), &params));
    assert_non_null(d->tables);
    return d;
}

static comet_loader_params params_for(uint32_t n_ranks, uint32_t rank, bool shuffle, bool augment)
{
    comet_loader_params p;
    comet_loader_params_init(&p);
    p.batch = GLOBAL_BATCH / n_ranks;
    p.n_threads = 2;
    p.seed = 11;
    p.shuffle = shuffle;
    p.augment = augment;
    p.endless = true;
    p.n_ranks = n_ranks;
    p.rank = rank;
    return p;
}

/* Batches of all ranks: images one after another in the order of the whole batch, labels, and where each batch belongs. */
typedef struct taken {
    float *images;
    uint32_t labels[N_BATCHES * GLOBAL_BATCH], n_valid[N_BATCHES];
    uint64_t epoch[N_BATCHES], batch_in_epoch[N_BATCHES];
} taken;

static void take_of_rank(comet_dataset *d, const comet_loader_params *p, size_t n, taken *t)
{
    comet_loader *l = NULL;
    assert_ok(comet_loader_create(&l, d, p));
    for (size_t i = 0; i < n; i++) {
        comet_batch b;
        bool end = true;
        assert_ok(comet_loader_next(l, &b, &end));
        assert_false(end);
        const size_t first = i * GLOBAL_BATCH + p->rank * p->batch, floats = dataset_image_floats(d);
        memcpy(t->images + first * floats, b.images, p->batch * floats * sizeof(float));
        memcpy(t->labels + first, b.labels, p->batch * sizeof *b.labels);
        assert_true(p->rank == 0 || (t->epoch[i] == b.epoch && t->batch_in_epoch[i] == b.batch_in_epoch));
        assert_true(b.n_valid == p->batch || !p->shuffle);
        t->n_valid[i] += b.n_valid;
        t->epoch[i] = b.epoch;
        t->batch_in_epoch[i] = b.batch_in_epoch;
        comet_loader_release(l, &b);
    }
    comet_loader_destroy(l);
}

/* The first n batches from batch `start` on. */
static taken take(comet_dataset *d, uint32_t n_ranks, bool shuffle, bool augment, uint64_t start, size_t n)
{
    const size_t n_floats = n * GLOBAL_BATCH * dataset_image_floats(d);
    const uint64_t per_epoch = shuffle ? N_IMAGES / GLOBAL_BATCH : N_IMAGES / GLOBAL_BATCH + 1;
    taken t = {.images = need_malloc(n_floats * sizeof(float))};
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        comet_loader_params p = params_for(n_ranks, rank, shuffle, augment);
        p.epoch = start / per_epoch;
        p.batch_in_epoch = start % per_epoch;
        take_of_rank(d, &p, n, &t);
    }
    return t;
}

/* Batches of `some` are those of `all` from `start` on. */
static void check_equal(const taken *all, size_t start, const taken *some, size_t n, size_t image_floats)
{
    const size_t first = start * GLOBAL_BATCH, rows = n * GLOBAL_BATCH;
    assert_memory_equal(all->images + first * image_floats, some->images, rows * image_floats * sizeof(float));
    assert_memory_equal(all->labels + first, some->labels, rows * sizeof *some->labels);
    assert_memory_equal(all->n_valid + start, some->n_valid, n * sizeof *some->n_valid);
    assert_memory_equal(all->epoch + start, some->epoch, n * sizeof *some->epoch);
    assert_memory_equal(all->batch_in_epoch + start, some->batch_in_epoch, n * sizeof *some->batch_in_epoch);
}

static void check_shares(comet_dataset *d)
{
    for (int kind = 0; kind < 4; kind++) {
        const bool shuffle = kind & 1, augment = kind & 2;
        taken all = take(d, 1, shuffle, augment, 0, N_BATCHES);
        for (uint32_t n_ranks = 1; n_ranks <= 4; n_ranks++)
            for (size_t start = 0; start <= 5; start += 5) {
                taken some = take(d, n_ranks, shuffle, augment, start, N_BATCHES - start);
                check_equal(&all, start, &some, N_BATCHES - start, dataset_image_floats(d));
                free(some.images);
            }
        free(all.images);
    }
}

static void ranks_give_the_bits_of_one_loader(void **state)
{
    comet_dataset *d = open_data("synthetic", COMET_SPLIT_TRAIN);
    d->info.n_images = N_IMAGES;
    check_shares(d);
    comet_dataset_close(d);
    d = open_pictures(*state);
    d->info.n_images = N_IMAGES;
    check_shares(d);
    comet_dataset_close(d);
}

/* The last batch of 5 images: of 4 ranks with 3 rows, one has 3, one 2 and two none. */
static void the_last_ranks_may_have_no_row(void **state)
{
    static const uint32_t expected[] = {3, 2, 0, 0};
    comet_dataset *d = open_data("synthetic", COMET_SPLIT_TEST);
    d->info.n_images = N_IMAGES;
    for (uint32_t rank = 0; rank < 4; rank++) {
        comet_loader_params p = params_for(4, rank, false, false);
        comet_loader *l = NULL;
        comet_batch b;
        bool end = false;
        p.endless = false;
        p.batch_in_epoch = 3;
        assert_ok(comet_loader_create(&l, d, &p));
        assert_int_equal(comet_loader_batches(l), 4);
        assert_ok(comet_loader_next(l, &b, &end));
        assert_false(end);
        assert_int_equal(b.n_valid, expected[rank]);
        for (size_t i = b.n_valid * dataset_image_floats(d); i < p.batch * dataset_image_floats(d); i++)
            assert_true(b.images[i] == 0);
        for (uint32_t i = b.n_valid; i < p.batch; i++)
            assert_int_equal(b.labels[i], 0);
        comet_loader_release(l, &b);
        assert_ok(comet_loader_next(l, &b, &end));
        assert_true(end);
        comet_loader_destroy(l);
    }
    comet_dataset_close(d);
}

static void assert_refused_with(comet_dataset *d, const comet_loader_params *p, const char *sentence)
{
    comet_loader *l = NULL;
    assert_status(comet_loader_create(&l, d, p), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), sentence));
    assert_null(l);
}

static void wrong_ranks_are_refused(void **state)
{
    comet_dataset *d = open_data("synthetic", COMET_SPLIT_TRAIN);
    d->info.n_images = N_IMAGES;
    comet_loader_params p = params_for(4, 4, true, false);
    assert_refused_with(d, &p, "rank 4 of 4");
    p = params_for(1, 1, true, false);
    p.n_ranks = 0;
    assert_refused_with(d, &p, "rank 1 of 1");
    p = params_for(4, 0, true, false);
    p.batch = 11;
    assert_refused_with(d, &p, "41 images, fewer than one batch of 44");
    p.n_ranks = UINT32_MAX;
    p.batch = UINT32_MAX;
    assert_refused_with(d, &p, "18446744065119617025");
    comet_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(ranks_give_the_bits_of_one_loader),
        cmocka_unit_test(the_last_ranks_may_have_no_row),
        cmocka_unit_test(wrong_ranks_are_refused),
    };
    return cmocka_run_group_tests_name("loader ranks", tests, NULL, NULL);
}
