/* Data sets: CIFAR-10, IDX and synthetic data are read right, and everything that can be wrong with their files is refused by a
 * sentence. Arrays are in test_dataset_npy.c, pictures in folders are in test_dataset_folder.c. */
#include "data_files.h"
#include "describing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checksum.h"
#include "train/data/dataset.h"

/* ---- specs ---- */

static void test_spec_is_checked(void **state)
{
    REFUSED("cifar", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "cifar", "no known kind", "synthetic");
    REFUSED("", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "no known kind; there are");
    REFUSED("fashoin", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "no known kind; did you mean fashion? There are cifar10:DIR, ");
    REFUSED("cifar:/tmp", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "did you mean cifar10?");
    REFUSED("ImageFolder:/tmp", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "did you mean folder?");
    REFUSED("xyzzy:/tmp", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "no known kind; there are");
    REFUSED("cifar10", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "cifar10:DIR");
    REFUSED("idx:", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "idx:DIR");
    REFUSED("synthetic:x", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "should read synthetic");
    REFUSED("npy:a,b,c", COMET_SPLIT_TRAIN, COMET_ERROR_ARGUMENT, "names 3 files", "npy:X.npy,Y.npy");
    REFUSED("synthetic", (comet_split)7, COMET_ERROR_ARGUMENT, "split 7");
    comet_dataset *d = NULL;
    comet_dataset_params params = {.size = 1};
    assert_status(comet_dataset_open(&d, "synthetic", &params), COMET_ERROR_ARGUMENT);
    assert_status(comet_dataset_open(NULL, "synthetic", NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_dataset_open(&d, NULL, NULL), COMET_ERROR_ARGUMENT);
    comet_dataset_params_init(&params);
    params.image = 1000000;
    assert_status(comet_dataset_open(&d, "synthetic", &params), COMET_ERROR_ARGUMENT);
    comet_dataset_close(NULL);
}

/* ---- cifar10 ---- */

enum { CIFAR_RECORD = 3073 };

/* `n` records with labels and bytes that tell which they are. */
static void write_cifar(const char *folder, const char *name, unsigned n, unsigned first)
{
    blob b = {.data = need_malloc((size_t)n * CIFAR_RECORD), .bytes = (size_t)n * CIFAR_RECORD};
    for (unsigned i = 0; i < n; i++) {
        uint8_t *record = b.data + (size_t)i * CIFAR_RECORD;
        record[0] = (uint8_t)((first + i) % 10);
        for (unsigned k = 0; k < 3072; k++)
            record[1 + k] = (uint8_t)(first + i + k);
    }
    write_blob(folder, name, b);
}

static void write_cifar_all(const char *folder)
{
    for (unsigned i = 1; i <= 5; i++)
        write_cifar(folder, text_of("data_batch_%u.bin", i), i, i * (i - 1) / 2);
    write_cifar(folder, "test_batch.bin", 4, 100);
}

static void test_cifar10_is_read(void **state)
{
    const char *folder = *state;
    write_cifar_all(folder);
    comet_dataset *d = open_data(text_of("cifar10:%s", folder), COMET_SPLIT_TRAIN);
    const comet_dataset_info info = data_info(d);
    assert_int_equal(info.n_images, 15);
    assert_int_equal(info.n_classes, 10);
    assert_int_equal(info.channels * 10000 + info.height * 100 + info.width, 33232);
    assert_false(info.crops);
    assert_string_equal(info.kind, "cifar10");
    assert_string_equal(comet_dataset_class(d, 9), "truck");
    assert_null(comet_dataset_class(d, 10));
    for (uint64_t i = 0; i < 15; i++) {
        uint32_t label = 0;
        float *image = read_image(d, i, &label);
        assert_int_equal(label, i % 10);
        assert_near(image[5], ((double)(i + 5) / 255 - 0.4914) / 0.2470, 1e-6);
        assert_near(image[2048], ((double)((i + 2048) % 256) / 255 - 0.4465) / 0.2616, 1e-6);
        free(image);
    }
    comet_dataset_close(d);
    d = open_data(text_of("cifar10:%s", folder), COMET_SPLIT_TEST);
    assert_int_equal(data_info(d).n_images, 4);
    comet_dataset_close(d);
}

static uint64_t fingerprint_of(const char *folder, comet_split split)
{
    uint64_t hash = 0;
    comet_dataset *d = open_data(text_of("cifar10:%s", folder), split);
    assert_ok(dataset_fingerprint(d, &hash));
    comet_dataset_close(d);
    return hash;
}

/* The same by part: a label, a pixel. */
static void test_fingerprint_parts(void **state)
{
    const char *folder = *state;
    comet_dataset_print prints[3], *p = prints;
    static const size_t bytes[] = {0, 1};
    write_cifar_all(folder);
    for (size_t i = 0; i < 3; i++) {
        if (i > 0) {
            blob b = read_file(folder, "data_batch_1.bin");
            b.data[bytes[i - 1]] ^= 1;
            write_blob(folder, "data_batch_1.bin", b);
        }
        comet_dataset *d = open_data(text_of("cifar10:%s", folder), COMET_SPLIT_TRAIN);
        comet_dataset_print_init(&prints[i]);
        assert_ok(comet_dataset_fingerprint(d, &prints[i]));
        comet_dataset_close(d);
    }
    assert_true(p[0].names == p[1].names && p[0].labels != p[1].labels && p[0].images == p[1].images);
    assert_true(p[1].names == p[2].names && p[1].labels == p[2].labels && p[1].images != p[2].images);
}

/* Every label counts, and the pixels of eight of the fifteen images: the first, the last, and not the second. */
static void test_fingerprint(void **state)
{
    static const struct {
        unsigned byte;
        bool counts;
    } changes[] = {
        {0, true}, {1, true}, {3072, true}, {CIFAR_RECORD, true}, {CIFAR_RECORD + 1, false}, {3 * CIFAR_RECORD, true}};
    const char *folder = *state;
    write_cifar_all(folder);
    const uint64_t before = fingerprint_of(folder, COMET_SPLIT_TRAIN);
    assert_true(before == fingerprint_of(folder, COMET_SPLIT_TRAIN));
    assert_true(before != fingerprint_of(folder, COMET_SPLIT_TEST));
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        unsigned rest = changes[i].byte, file = 1;
        for (; rest >= file * CIFAR_RECORD; file++)
            rest -= file * CIFAR_RECORD;
        const char *name = text_of("data_batch_%u.bin", file);
        blob b = read_file(folder, name);
        b.data[rest] ^= 1;
        write_file(folder, name, b.data, b.bytes);
        assert_int_equal(before != fingerprint_of(folder, COMET_SPLIT_TRAIN), changes[i].counts);
        b.data[rest] ^= 1;
        write_blob(folder, name, b);
    }
}

/* With random numbers, an image is the padded one moved by at most 4 and perhaps mirrored; all cases occur. */
static void test_cifar10_is_shifted_and_mirrored(void **state)
{
    const char *folder = *state;
    write_cifar_all(folder);
    comet_dataset *d = open_data(text_of("cifar10:%s", folder), COMET_SPLIT_TEST);
    float *plain = read_image(d, 1, NULL), *moved = need_malloc(3072 * sizeof(float));
    bool seen[2][9][9] = {{{false}}};
    scratch memory = {.file = {NULL, 0}};
    const float black = (float)((0 - 0.4914) / 0.2470);
    for (uint32_t trial = 0; trial < 3000; trial++) {
        comet_random random = comet_random_start(1, COMET_STREAM_AUGMENT, 0, trial);
        comet_random again = random;
        assert_ok(dataset_read(d, 1, &random, &memory, moved));
        const int dx = (int)comet_random_below(&again, 9) - 4, dy = (int)comet_random_below(&again, 9) - 4;
        const bool flip = comet_random_below(&again, 2) == 1;
        seen[flip][dx + 4][dy + 4] = true;
        for (int y = 0; y < 32; y++) {
            for (int x = 0; x < 32; x++) {
                const int sx = x - dx, sy = y - dy;
                const float wanted = sx >= 0 && sx < 32 && sy >= 0 && sy < 32 ? plain[sy * 32 + sx] : black;
                assert_true(moved[y * 32 + (flip ? 31 - x : x)] == wanted);
            }
        }
    }
    for (int i = 0; i < 2 * 81; i++)
        assert_true(seen[i / 81][i % 81 / 9][i % 9]);
    scratch_free(&memory);
    free(plain);
    free(moved);
    comet_dataset_close(d);
}

static void test_cifar10_faults(void **state)
{
    const char *folder = *state, *spec = text_of("cifar10:%s", folder);
    char kept[600];
    snprintf(kept, sizeof kept, "%s", spec);
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_IO, "test_batch.bin was not found", folder);
    write_file(folder, "test_batch.bin.xz", "xz", 2);
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_IO, "unpack with: xz -dk", "/*.xz");
    write_cifar_all(folder);
    write_file(folder, "test_batch.bin", "short", 5);
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "test_batch.bin", "5 bytes", "3073", "again");
    write_file(folder, "test_batch.bin", "", 0);
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "test_batch.bin", "0 bytes");
    uint8_t record[CIFAR_RECORD] = {10};
    write_file(folder, "data_batch_3.bin", record, sizeof record);
    REFUSED(kept, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "data_batch_3.bin", "label 10 of record 0", "0 to 9");
    assert_int_equal(unlink(text_of("%s/data_batch_3.bin", folder)), 0);
    REFUSED(kept, COMET_SPLIT_TRAIN, COMET_ERROR_IO, "data_batch_3.bin was not found");
    make_folder(text_of("%s/data_batch_3.bin", folder));
    REFUSED(kept, COMET_SPLIT_TRAIN, COMET_ERROR_IO, "data_batch_3.bin: not a regular file");
}

/* ---- idx ---- */

static void write_idx(const char *folder, const char *part, bool packed, uint32_t n, uint8_t first_label)
{
    enum { SIDE = 6 };
    uint8_t *pixels = need_malloc(n * SIDE * SIDE), *labels = need_malloc(n);
    for (uint32_t i = 0; i < n * SIDE * SIDE; i++)
        pixels[i] = (uint8_t)(i * 37 % 251);
    for (uint32_t i = 0; i < n; i++)
        labels[i] = (uint8_t)((first_label + i) % 7);
    blob images = idx_bytes(0x803, 3, (const uint32_t[]){n, SIDE, SIDE}, pixels, n * SIDE * SIDE);
    blob classes = idx_bytes(0x801, 1, &n, labels, n);
    (packed ? write_gz : write_file)(folder, text_of("%s-images-idx3-ubyte%s", part, packed ? ".gz" : ""), images.data,
                                     images.bytes);
    (packed ? write_gz : write_file)(folder, text_of("%s-labels-idx1-ubyte%s", part, packed ? ".gz" : ""), classes.data,
                                     classes.bytes);
    free(pixels);
    free(labels);
    free(images.data);
    free(classes.data);
}

static void check_idx(const char *spec)
{
    comet_dataset *d = open_data(spec, COMET_SPLIT_TRAIN);
    const comet_dataset_info info = data_info(d);
    assert_int_equal(info.n_images, 20);
    assert_int_equal(info.n_classes, 7);
    assert_int_equal(info.channels * 10000 + info.height * 100 + info.width, 10606);
    assert_string_equal(info.kind, "idx");
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < 20; i++) {
        uint32_t label;
        float *image = read_image(d, i, &label);
        assert_int_equal(label, i % 7);
        for (int k = 0; k < 36; k++) {
            sum += image[k];
            squares += image[k] * image[k];
        }
        free(image);
    }
    assert_near(sum / 720, 0, 1e-6);
    assert_near(squares / 720, 1, 1e-5);
    float *train = read_image(d, 2, NULL);
    comet_dataset_close(d);
    d = open_data(spec, COMET_SPLIT_TEST);
    assert_int_equal(data_info(d).n_images, 5);
    float *test = read_image(d, 2, NULL); /* the same bytes, by the training part's mean */
    assert_memory_equal(train, test, 36 * sizeof *test);
    free(train);
    free(test);
    comet_dataset_close(d);
}

static void test_idx_is_read_plain_and_packed(void **state)
{
    const char *folder = *state;
    write_idx(folder, "train", false, 20, 0);
    write_idx(folder, "t10k", true, 5, 3);
    check_idx(text_of("idx:%s", folder));
    check_idx(text_of("fashion:%s", folder));
}

static void test_idx_faults(void **state)
{
    const char *folder = *state;
    char spec[600];
    snprintf(spec, sizeof spec, "idx:%s", folder);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_IO, "train-images-idx3-ubyte was not found", ".gz");
    write_idx(folder, "train", false, 20, 0);
    REFUSED(spec, COMET_SPLIT_TEST, COMET_ERROR_IO, "t10k-images-idx3-ubyte was not found");
    const char *images = "train-images-idx3-ubyte", *labels = "train-labels-idx1-ubyte";
    uint8_t zeros[1000] = {0};
    write_blob(folder, images, idx_bytes(0x801, 3, (const uint32_t[]){20, 6, 6}, zeros, 720));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "0x00000801", "0x00000803");
    write_blob(folder, images, idx_bytes(0x803, 3, (const uint32_t[]){20, 6, 6}, zeros, 719));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "truncated", "719 of the 720");
    write_blob(folder, images, idx_bytes(0x803, 3, (const uint32_t[]){20, 6, 6}, zeros, 721));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "longer than its header declares");
    write_blob(folder, images, idx_bytes(0x803, 1, (const uint32_t[]){20}, zeros, 0));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "truncated");
    write_blob(folder, images, idx_bytes(0x803, 3, (const uint32_t[]){UINT32_MAX, 16384, 16384}, zeros, 720));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "truncated"); /* before memory is taken */
    write_blob(folder, images, idx_bytes(0x803, 3, (const uint32_t[]){20, 0, 6}, zeros, 0));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "0 x 6");
    write_blob(folder, images, idx_bytes(0x803, 3, (const uint32_t[]){20, 70000, 6}, zeros, 0));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "70000 x 6");
    write_idx(folder, "train", false, 20, 0);
    write_blob(folder, labels, idx_bytes(0x801, 1, (const uint32_t[]){19}, zeros, 19));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, labels, "19 labels", "20 images");
    write_idx(folder, "train", false, 20, 0);
    uint8_t high[5] = {0, 0, 0, 7, 0};
    write_idx(folder, "t10k", false, 5, 0);
    write_blob(folder, "t10k-labels-idx1-ubyte", idx_bytes(0x801, 1, (const uint32_t[]){5}, high, 5));
    REFUSED(spec, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "t10k-labels", "label 7 of image 3", "0 to 6");
    write_blob(folder, "t10k-images-idx3-ubyte", idx_bytes(0x803, 3, (const uint32_t[]){5, 6, 7}, zeros, 210));
    REFUSED(spec, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "t10k-images", "6 x 7", "6 x 6");
}

static void test_idx_packed_faults(void **state)
{
    const char *folder = *state;
    char spec[600];
    snprintf(spec, sizeof spec, "idx:%s", folder);
    write_idx(folder, "train", true, 20, 0);
    blob whole = read_file(folder, "train-images-idx3-ubyte.gz");
    write_file(folder, "train-images-idx3-ubyte.gz", whole.data, whole.bytes / 2);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "train-images-idx3-ubyte.gz", "again");
    whole.data[whole.bytes / 2] ^= 0x55;
    write_blob(folder, "train-images-idx3-ubyte.gz", whole);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "train-images-idx3-ubyte.gz", "again");
}

static void test_fashion_of_debian(void **state)
{
    if (access("/usr/share/datasets/fashion-mnist", F_OK) != 0) {
        REFUSED("fashion", COMET_SPLIT_TRAIN, COMET_ERROR_IO,
                "elsewhere give fashion:DIR, a folder with Fashion-MNIST's four files");
        return;
    }
    comet_dataset *d = open_data("fashion", COMET_SPLIT_TRAIN);
    assert_int_equal(data_info(d).n_images, 60000);
    assert_int_equal(data_info(d).n_classes, 10);
    assert_string_equal(comet_dataset_class(d, 9), "Ankle boot");
    comet_dataset_close(d);
}

/* ---- pipes ---- */

/* In the place of any file, a pipe without a writer is refused at once. */
static void test_pipes_are_refused(void **state)
{
    const char *folder = *state;
    write_cifar_all(folder);
    make_pipe(folder, "data_batch_2.bin");
    REFUSED(text_of("cifar10:%s", folder), COMET_SPLIT_TRAIN, COMET_ERROR_IO, "data_batch_2.bin: not a regular file");
    write_idx(folder, "train", false, 20, 0);
    make_pipe(folder, "train-labels-idx1-ubyte");
    REFUSED(text_of("idx:%s", folder), COMET_SPLIT_TRAIN, COMET_ERROR_IO, "train-labels-idx1-ubyte: not a regular file");
    assert_int_equal(unlink(text_of("%s/train-labels-idx1-ubyte", folder)), 0);
    make_pipe(folder, "train-labels-idx1-ubyte.gz");
    REFUSED(text_of("idx:%s", folder), COMET_SPLIT_TRAIN, COMET_ERROR_IO, "train-labels-idx1-ubyte.gz: not a regular file");
    stop_waiting();
}

/* ---- synthetic ---- */

static comet_dataset *open_synthetic(uint64_t seed, comet_split split, uint32_t side, uint32_t channels, uint32_t classes)
{
    comet_dataset *d = NULL;
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    params.seed = seed;
    params.split = split;
    params.image = side;
    params.channels = channels;
    params.classes = classes;
    assert_ok(comet_dataset_open(&d, "synthetic", &params));
    return d;
}

static void test_synthetic_is_a_function_of_seed_split_and_index(void **state)
{
    comet_dataset *sets[] = {open_synthetic(1, COMET_SPLIT_TRAIN, 32, 3, 10), open_synthetic(1, COMET_SPLIT_TRAIN, 32, 3, 10),
                             open_synthetic(2, COMET_SPLIT_TRAIN, 32, 3, 10), open_synthetic(1, COMET_SPLIT_TEST, 32, 3, 10)};
    for (uint64_t i = 0; i < 20; i++) {
        float *images[4];
        uint32_t labels[4];
        for (int k = 0; k < 4; k++)
            images[k] = read_image(sets[k], i, &labels[k]);
        assert_memory_equal(images[0], images[1], 3072 * sizeof(float));
        assert_int_equal(labels[0], labels[1]);
        assert_memory_not_equal(images[0], images[2], 3072 * sizeof(float));
        assert_memory_not_equal(images[0], images[3], 3072 * sizeof(float));
        for (int k = 0; k < 4; k++)
            free(images[k]);
    }
    assert_int_equal(data_info(sets[0]).n_images, 50000);
    assert_int_equal(data_info(sets[3]).n_images, 10000);
    for (int k = 0; k < 4; k++)
        comet_dataset_close(sets[k]);
}

/* The bits of a few images, the same with every compiler: the order of the random draws is part of the data set. */
static void test_synthetic_has_the_same_bits_everywhere(void **state)
{
    static const struct {
        uint64_t seed;
        comet_split split;
        uint32_t side, channels, classes;
        uint64_t checksum;
    } cases[] = {{0, COMET_SPLIT_TRAIN, 32, 3, 10, 0x073b78accd88f07c},
                 {7, COMET_SPLIT_TEST, 16, 1, 100, 0x2055d11248d4065b},
                 {3, COMET_SPLIT_TRAIN, 24, 5, 4096, 0x907235184cfa4607}};
    enum { N_IMAGES = 6 };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        comet_dataset *d = open_synthetic(cases[i].seed, cases[i].split, cases[i].side, cases[i].channels, cases[i].classes);
        uint64_t sums[N_IMAGES];
        for (uint64_t k = 0; k < N_IMAGES; k++) {
            float *image = read_image(d, 37 * k, NULL);
            sums[k] = comet_checksum(image, dataset_image_floats(d) * sizeof *image);
            free(image);
        }
        comet_dataset_close(d);
        const uint64_t checksum = comet_checksum(sums, sizeof sums);
        if (checksum != cases[i].checksum)
            fail_because("case %zu: checksum %016llx, not %016llx", i, (unsigned long long)checksum,
                         (unsigned long long)cases[i].checksum);
    }
}

static void test_synthetic_sizes(void **state)
{
    static const uint32_t cases[][3] = {{8, 1, 2}, {32, 3, 1000}, {57, 16, 4096}, {96, 5, 17}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        comet_dataset *d = open_synthetic(3, COMET_SPLIT_TRAIN, cases[i][0], cases[i][1], cases[i][2]);
        const comet_dataset_info info = data_info(d);
        assert_int_equal(info.n_classes, cases[i][2]);
        double sum = 0, squares = 0;
        size_t n = 0;
        for (uint64_t k = 0; k < 40; k++) {
            uint32_t label;
            float *image = read_image(d, 4096 * k + k, &label);
            assert_true(label < info.n_classes);
            for (size_t e = 0; e < dataset_image_floats(d); e++, n++) {
                sum += image[e];
                squares += image[e] * image[e];
            }
            free(image);
        }
        assert_near(sum / (double)n, 0, 0.6);
        assert_true(squares / (double)n > 0.4 && squares / (double)n < 2.5);
        comet_dataset_close(d);
    }
}

static void test_synthetic_limits(void **state)
{
    static const uint32_t cases[][3] = {{4, 3, 10}, {32, 17, 10}, {32, 3, 1}, {32, 3, 4097}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        comet_dataset *d = NULL;
        comet_dataset_params params;
        comet_dataset_params_init(&params);
        params.image = cases[i][0];
        params.channels = cases[i][1];
        params.classes = cases[i][2];
        assert_status(comet_dataset_open(&d, "synthetic", &params), COMET_ERROR_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_is_checked),
        IN_FOLDER(test_cifar10_is_read),
        IN_FOLDER(test_cifar10_is_shifted_and_mirrored),
        IN_FOLDER(test_fingerprint),
        IN_FOLDER(test_fingerprint_parts),
        IN_FOLDER(test_cifar10_faults),
        IN_FOLDER(test_idx_is_read_plain_and_packed),
        IN_FOLDER(test_idx_faults),
        IN_FOLDER(test_idx_packed_faults),
        cmocka_unit_test(test_fashion_of_debian),
        IN_FOLDER(test_pipes_are_refused),
        cmocka_unit_test(test_synthetic_is_a_function_of_seed_split_and_index),
        cmocka_unit_test(test_synthetic_has_the_same_bits_everywhere),
        cmocka_unit_test(test_synthetic_sizes),
        cmocka_unit_test(test_synthetic_limits),
    };
    return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
