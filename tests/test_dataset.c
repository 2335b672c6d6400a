/* Data sets: every form of data is read right, and everything that can be wrong with its files is refused by a sentence. */
#define _DEFAULT_SOURCE /* wait4 */
#include "data/data_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checksum.h"
#include "describing.h"
#include "train/data/crop.h"
#include "train/data/dataset.h"
#include "train/data/permutation.h"
#include "train/data/resample.h"

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
    const float black = (float)((0 - 0.4914) / 0.2470);
    for (uint32_t trial = 0; trial < 3000; trial++) {
        comet_random random = comet_random_start(1, COMET_STREAM_AUGMENT, 0, trial);
        comet_random again = random;
        assert_ok(d->source->read(d, 1, &random, NULL, moved));
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
    free(plain);
    free(moved);
    comet_dataset_close(d);
}

static void test_cifar10_faults(void **state)
{
    const char *folder = *state, *spec = text_of("cifar10:%s", folder);
    char kept[600];
    snprintf(kept, sizeof kept, "%s", spec);
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_IO, "test_batch.bin is not there", folder);
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
    REFUSED(kept, COMET_SPLIT_TRAIN, COMET_ERROR_IO, "data_batch_3.bin is not there");
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
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_IO, "train-images-idx3-ubyte is not there", ".gz");
    write_idx(folder, "train", false, 20, 0);
    REFUSED(spec, COMET_SPLIT_TEST, COMET_ERROR_IO, "t10k-images-idx3-ubyte is not there");
    const char *images = "train-images-idx3-ubyte", *labels = "train-labels-idx1-ubyte";
    uint8_t zeros[1000] = {0};
    write_blob(folder, images, idx_bytes(0x801, 3, (const uint32_t[]){20, 6, 6}, zeros, 720));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "0x00000801", "0x00000803");
    write_blob(folder, images, idx_bytes(0x803, 3, (const uint32_t[]){20, 6, 6}, zeros, 719));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "truncated", "719 of the 720");
    write_blob(folder, images, idx_bytes(0x803, 3, (const uint32_t[]){20, 6, 6}, zeros, 721));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, images, "longer than its header tells");
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
        REFUSED("fashion", COMET_SPLIT_TRAIN, COMET_ERROR_IO, "apt-get install dataset-fashion-mnist");
        return;
    }
    comet_dataset *d = open_data("fashion", COMET_SPLIT_TRAIN);
    assert_int_equal(data_info(d).n_images, 60000);
    assert_int_equal(data_info(d).n_classes, 10);
    assert_string_equal(comet_dataset_class(d, 9), "Ankle boot");
    comet_dataset_close(d);
}

/* ---- npy ---- */

enum { NPY_N = 30, NPY_C = 2, NPY_SIDE = 3, NPY_ELEMENTS = NPY_N * NPY_C * NPY_SIDE * NPY_SIDE };

static const uint64_t npy_dims[4] = {NPY_N, NPY_C, NPY_SIDE, NPY_SIDE}, npy_labels_dims[2] = {NPY_N, 1};

/* Small integers, which every type can hold; the second channel is the larger. */
static double npy_value(size_t i)
{
    return (double)(i * 7 % 100) + (i / 9 % 2 ? 50 : 0);
}

static void write_images(const char *folder, const char *name, const char *descr)
{
    comet_dtype dtype = strcmp(descr, "<f2") == 0   ? COMET_DTYPE_F16
                        : strcmp(descr, "<f8") == 0 ? COMET_DTYPE_F64
                                                    : COMET_DTYPE_F32;
    uint8_t data[NPY_ELEMENTS * 8];
    const size_t width = (size_t)(descr[2] - '0');
    for (size_t i = 0; i < NPY_ELEMENTS; i++) {
        if (width == 1)
            data[i] = (uint8_t)npy_value(i);
        else
            set_element(dtype, data, i, npy_value(i));
    }
    write_npy(folder, name, descr, 4, npy_dims, data, NPY_ELEMENTS * width);
}

/* Image i has label i. */
static void write_labels(const char *folder, const char *name, const char *descr, uint32_t n_dims)
{
    uint8_t data[NPY_N * 8] = {0};
    const size_t width = (size_t)(descr[2] - '0');
    for (size_t i = 0; i < NPY_N; i++)
        data[i * width] = (uint8_t)i;
    write_npy(folder, name, descr, n_dims, npy_labels_dims, data, NPY_N * width);
}

static const char *npy_spec(const char *folder)
{
    return text_of("npy:%s/x.npy,%s/y.npy", folder, folder);
}

static void check_npy(const char *folder)
{
    comet_dataset *d = open_data(npy_spec(folder), COMET_SPLIT_TRAIN);
    const comet_dataset_info info = data_info(d);
    assert_int_equal(info.n_images, 27);
    assert_int_equal(info.n_classes, 30);
    assert_int_equal(info.channels * 100 + info.height * 10 + info.width, 233);
    double sum[2] = {0}, squares[2] = {0}, slope = 0;
    for (uint64_t i = 0; i < 27; i++) {
        uint32_t label;
        float *image = read_image(d, i, &label);
        for (size_t k = 0; k < 18; k++) {
            sum[k / 9] += image[k];
            squares[k / 9] += image[k] * image[k];
        }
        const double rise = (npy_value(label * 18 + 1) - npy_value(label * 18)) / (image[1] - image[0]);
        assert_true(i == 0 || fabs(rise - slope) < 1e-3);
        slope = rise;
        free(image);
    }
    for (int c = 0; c < 2; c++) {
        assert_near(sum[c] / 243, 0, 1e-5);
        assert_near(squares[c] / 243, 1, 1e-4);
    }
    comet_dataset_close(d);
}

static void test_npy_types(void **state)
{
    const char *folder = *state;
    static const char *const image_types[] = {"<f4", "<f8", "|u1", "<f2"};
    static const char *const label_types[] = {"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8"};
    write_labels(folder, "y.npy", "<i8", 1);
    for (size_t i = 0; i < COUNT_OF(image_types); i++) {
        write_images(folder, "x.npy", image_types[i]);
        check_npy(folder);
    }
    for (size_t i = 0; i < COUNT_OF(label_types); i++) {
        write_labels(folder, "y.npy", label_types[i], 1 + i % 2);
        check_npy(folder);
    }
}

/* The parts of a hold-out share no image and together have all; another seed holds out others. */
static void test_npy_holdout(void **state)
{
    const char *folder = *state;
    write_images(folder, "x.npy", "<f4");
    write_labels(folder, "y.npy", "<i4", 1);
    uint64_t held[4] = {0};
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    for (params.seed = 0; params.seed < 4; params.seed++) {
        bool seen[NPY_N] = {false};
        for (int split = 0; split < 2; split++) {
            comet_dataset *d = NULL;
            params.split = (comet_split)split;
            assert_ok(comet_dataset_open(&d, npy_spec(folder), &params));
            assert_int_equal(data_info(d).n_images, split == 0 ? 27 : 3);
            for (uint64_t i = 0; i < data_info(d).n_images; i++) {
                uint32_t label = 0;
                free(read_image(d, i, &label));
                assert_false(seen[label]);
                seen[label] = true;
                held[params.seed] |= split == 1 ? 1ull << label : 0;
            }
            comet_dataset_close(d);
        }
    }
    assert_true(held[0] != held[1] || held[1] != held[2] || held[2] != held[3]);
}

/* Uneven values, so that a sum in another order has other bits; image `odd` has `value` in its last place. */
static void write_uneven(const char *folder, uint64_t odd, float value)
{
    float data[NPY_ELEMENTS];
    const size_t image = NPY_C * NPY_SIDE * NPY_SIDE;
    for (size_t i = 0; i < NPY_ELEMENTS; i++)
        data[i] = (float)npy_value(i) / 7;
    data[odd * image + image - 1] = value;
    write_npy(folder, "x.npy", "<f4", 4, npy_dims, data, sizeof data);
}

/* Whichever part is opened, and whichever part the value is in. */
static void test_npy_refuses_nonfinite_values_anywhere(void **state)
{
    const char *folder = *state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    write_labels(folder, "y.npy", "<i4", 1);
    for (uint64_t i = 0; i < NPY_N; i++) {
        write_uneven(folder, i, values[i % COUNT_OF(values)]);
        for (int split = 0; split < 2; split++)
            REFUSED(npy_spec(folder), (comet_split)split, COMET_ERROR_CORRUPT, "x.npy", text_of("image %d has a NaN", (int)i));
    }
}

static uint64_t checksum_of_part(const char *folder, comet_split split)
{
    comet_dataset *d = open_data(npy_spec(folder), split);
    uint64_t sums[NPY_N] = {0};
    for (uint64_t i = 0; i < data_info(d).n_images; i++) {
        float *image = read_image(d, i, NULL);
        sums[i] = comet_checksum(image, dataset_image_floats(d) * sizeof *image);
        free(image);
    }
    comet_dataset_close(d);
    return comet_checksum(sums, sizeof sums);
}

/* Both parts are normalised by the training part alone, and always to the same bits. */
static void test_npy_normalisation_is_of_the_training_part(void **state)
{
    const char *folder = *state;
    uint32_t held = 0;
    write_labels(folder, "y.npy", "<i4", 1);
    write_uneven(folder, 0, 0);
    comet_dataset *d = open_data(npy_spec(folder), COMET_SPLIT_TEST);
    free(read_image(d, 0, &held));
    comet_dataset_close(d);
    for (int large = 0; large < 2; large++) {
        write_uneven(folder, held, large ? 1e6f : 0);
        assert_int_equal(checksum_of_part(folder, COMET_SPLIT_TRAIN), 0xbf58712fc4565ef0);
        assert_int_equal(checksum_of_part(folder, COMET_SPLIT_TEST), large ? 0xe6aa3e1136ef4553 : 0x9efe975b75d9b172);
    }
}

static void test_npy_grey_and_test_arrays(void **state)
{
    const char *folder = *state;
    const float train[8] = {1, 3, 1, 3, 1, 3, 1, 3}, test[4] = {2, 2, 5, 2}; /* mean 2, deviation 1 */
    const uint8_t classes[2] = {1, 0};
    write_npy(folder, "x.npy", "<f4", 3, (const uint64_t[]){2, 2, 2}, train, sizeof train);
    write_npy(folder, "y.npy", "|u1", 1, (const uint64_t[]){2}, classes, 2);
    write_npy(folder, "xt.npy", "<f4", 3, (const uint64_t[]){1, 2, 2}, test, sizeof test);
    write_npy(folder, "yt.npy", "|u1", 1, (const uint64_t[]){1}, classes, 1);
    const char *spec = text_of("npy:%s/x.npy,%s/y.npy,%s/xt.npy,%s/yt.npy", folder, folder, folder, folder);
    comet_dataset *d = open_data(spec, COMET_SPLIT_TEST);
    assert_int_equal(data_info(d).n_images, 1);
    assert_int_equal(data_info(d).channels, 1);
    uint32_t label;
    float *image = read_image(d, 0, &label);
    assert_int_equal(label, 1);
    assert_near(image[0], 0, 1e-6);
    assert_near(image[2], 3, 1e-6);
    free(image);
    comet_dataset_close(d);
    d = open_data(spec, COMET_SPLIT_TRAIN);
    assert_int_equal(data_info(d).n_images, 2);
    comet_dataset_close(d);
    write_npy(folder, "xt.npy", "<f4", 3, (const uint64_t[]){1, 4, 1}, test, sizeof test);
    REFUSED(spec, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "xt.npy", "1 x 4 x 1", "1 x 2 x 2");
    write_npy(folder, "xt.npy", "<f4", 3, (const uint64_t[]){1, 2, 2}, (const float[]){1, NAN, 1, 1}, sizeof test);
    REFUSED(spec, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "xt.npy", "image 0", "NaN");
    write_npy(folder, "xt.npy", "<f4", 3, (const uint64_t[]){1, 2, 2}, test, sizeof test);
    write_npy(folder, "yt.npy", "|u1", 1, (const uint64_t[]){1}, (const uint8_t[]){2}, 1);
    REFUSED(spec, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "yt.npy", "label 2 of image 0", "0 to 1");
}

static void test_npy_image_faults(void **state)
{
    const char *folder = *state;
    char spec[1200];
    snprintf(spec, sizeof spec, "%s", npy_spec(folder));
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_IO, "x.npy: No such file");
    write_labels(folder, "y.npy", "<i4", 1);
    write_file(folder, "x.npy", "hello", 5);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "x.npy: not a .npy file");
    uint8_t data[NPY_ELEMENTS * 4] = {0};
    write_npy(folder, "x.npy", "<i4", 4, npy_dims, data, sizeof data);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "x.npy: descr '<i4'", "a.astype('f4')");
    write_npy(folder, "x.npy", ">f4", 4, npy_dims, data, sizeof data);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "x.npy: descr '>f4'", "big-endian", "a.astype('<f4')");
    write_npy(folder, "x.npy", "<f4", 4, npy_dims, data, sizeof data - 1);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "x.npy: truncated", "2160", "2159");
    write_npy(folder, "x.npy", "<f4", 2, npy_dims, data, NPY_N * NPY_C * 4);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "x.npy: 2 axes", "N,C,H,W");
    write_npy(folder, "x.npy", "<f4", 4, (const uint64_t[]){NPY_N, 9, 2, 1}, data, NPY_N * 18 * 4);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "x.npy", "N,H,W,C", "moveaxis");
    write_npy(folder, "x.npy", "<f4", 4, (const uint64_t[]){0, 2, 3, 3}, data, 0);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "x.npy: 0 images");
    const uint64_t huge = (uint64_t)1 << 62;
    write_npy(folder, "x.npy", "<f4", 4, (const uint64_t[]){huge, huge, 3, 3}, data, 100);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "x.npy", "larger than any memory");
    write_npy(folder, "x.npy", "<f4", 4, npy_dims, data, sizeof data);
    blob b = read_file(folder, "x.npy");
    memcpy(strstr((char *)b.data + 10, "False"), "True ", 5);
    write_blob(folder, "x.npy", b);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "x.npy: it is in Fortran order", "ascontiguousarray");
}

static void test_npy_label_faults(void **state)
{
    const char *folder = *state;
    char spec[1200];
    snprintf(spec, sizeof spec, "%s", npy_spec(folder));
    write_images(folder, "x.npy", "<f4");
    int32_t labels[NPY_N] = {0};
    const uint64_t fewer[1] = {NPY_N - 1}, one_hot[2] = {NPY_N / 2, 2};
    write_npy(folder, "y.npy", "<i4", 1, fewer, labels, sizeof labels - 4);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "y.npy has 29 labels", "x.npy has 30 images");
    write_npy(folder, "y.npy", "<i4", 2, one_hot, labels, sizeof labels);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "y.npy", "argmax");
    write_npy(folder, "y.npy", "<f4", 1, npy_labels_dims, labels, sizeof labels);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_UNSUPPORTED, "y.npy: descr '<f4'", "a.astype('i4')");
    labels[7] = -1;
    write_npy(folder, "y.npy", "<i4", 1, npy_labels_dims, labels, sizeof labels);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "y.npy: label -1 of image 7", "from 0");
    labels[7] = 1000000;
    write_npy(folder, "y.npy", "<i4", 1, npy_labels_dims, labels, sizeof labels);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "y.npy: label 1000000 of image 7", "999999");
    const float one[4] = {0};
    write_npy(folder, "x.npy", "<f4", 3, (const uint64_t[]){1, 2, 2}, one, sizeof one);
    write_npy(folder, "y.npy", "<i4", 1, (const uint64_t[]){1}, labels, 4);
    REFUSED(spec, COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "x.npy: one image cannot be split");
}

/* ---- pipes ---- */

/* In the place of any file, a pipe without a writer is refused at once. */
static void test_pipes_are_refused(void **state)
{
    static const char *const pipes[] = {"x.npy", "y.npy", "xt.npy", "yt.npy"};
    const char *folder = *state;
    for (size_t i = 0; i < COUNT_OF(pipes); i++) {
        for (size_t k = 0; k < COUNT_OF(pipes); k += 2) {
            write_images(folder, pipes[k], "<f4");
            write_labels(folder, pipes[k + 1], "<i4", 1);
        }
        make_pipe(folder, pipes[i]);
        REFUSED(text_of("npy:%s/x.npy,%s/y.npy,%s/xt.npy,%s/yt.npy", folder, folder, folder, folder), COMET_SPLIT_TEST,
                COMET_ERROR_IO, text_of("%s: not a regular file", pipes[i]));
        assert_int_equal(unlink(text_of("%s/%s", folder, pipes[i])), 0);
    }
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

/* ---- pictures ---- */

static void draw_slope(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = (uint8_t)(x < 255 ? x : 255);
    rgb[1] = (uint8_t)(y < 255 ? y : 255);
    rgb[2] = 128;
}

static void draw_grey(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = rgb[1] = rgb[2] = (uint8_t)((x / 8 + y / 8) % 2 ? 255 : 0);
}

static void draw_flat(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = 200;
    rgb[1] = 100;
    rgb[2] = 50;
}

/* Bytes before normalisation, of channel c. */
static double byte_of(float v, int c)
{
    static const double means[3] = {0.485, 0.456, 0.406}, stds[3] = {0.229, 0.224, 0.225};
    return (v * stds[c] + means[c]) * 255;
}

/* A training part of one picture. */
static comet_dataset *open_picture(const char *folder, blob file, uint32_t side)
{
    comet_dataset *d = NULL;
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    params.image = side;
    make_folder(text_of("%s/train", folder));
    make_folder(text_of("%s/train/a", folder));
    write_blob(text_of("%s/train/a", folder), "p.png", file);
    assert_ok(comet_dataset_open(&d, text_of("folder:%s", folder), &params));
    return d;
}

static void remove_picture(const char *folder, comet_dataset *d)
{
    comet_dataset_close(d);
    assert_int_equal(unlink(text_of("%s/train/a/p.png", folder)), 0);
    assert_int_equal(rmdir(text_of("%s/train/a", folder)), 0);
    assert_int_equal(rmdir(text_of("%s/train", folder)), 0);
}

/* The middle of a slope comes out as a slope: its value tells where each pixel was taken from. */
static void check_slope(const char *folder, blob file, uint32_t width, uint32_t height, uint32_t side, double tolerance)
{
    comet_dataset *d = open_picture(folder, file, side);
    float *image = read_image(d, 0, NULL);
    const double shorter = width < height ? width : height, taken = shorter * side / floor(side * 256.0 / 224),
                 step = taken / side;
    for (uint32_t y = 2; y + 2 < side; y++) {
        for (uint32_t x = 2; x + 2 < side; x++) {
            const float *pixel = image + y * side + x;
            assert_near(byte_of(pixel[0], 0), (width - taken) / 2 + (x + 0.5) * step - 0.5, tolerance);
            assert_near(byte_of(pixel[side * side], 1), (height - taken) / 2 + (y + 0.5) * step - 0.5, tolerance);
            assert_near(byte_of(pixel[2 * side * side], 2), 128, tolerance);
        }
    }
    free(image);
    remove_picture(folder, d);
}

static void test_folder_middle_crop(void **state)
{
    const char *folder = *state;
    static const struct {
        uint32_t width, height, side;
    } cases[] = {{200, 150, 224}, {200, 150, 64}, {131, 250, 16}, {250, 250, 112}, {200, 150, 33}, {40, 40, 8}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const drawing slope = {cases[i].width, cases[i].height, draw_slope};
        check_slope(folder, png_bytes(&slope, PNG_RGB), slope.width, slope.height, cases[i].side, 0.2);
        check_slope(folder, jpeg_bytes(&slope, JPEG_COLOUR, 100), slope.width, slope.height, cases[i].side, 3.5);
        check_slope(folder, jpeg_bytes(&slope, JPEG_PROGRESSIVE, 100), slope.width, slope.height, cases[i].side, 3.5);
    }
}

static void test_folder_png_kinds(void **state)
{
    const char *folder = *state;
    static const struct {
        png_kind kind;
        double rgb[3];
    } cases[] = {{PNG_RGB, {200, 100, 50}},     {PNG_RGB16, {200, 100, 50}},      {PNG_RGBA, {200, 100, 50}},
                 {PNG_GREY, {200, 200, 200}},   {PNG_GREY_1BIT, {255, 255, 255}}, {PNG_GREY_ALPHA16, {200, 200, 200}},
                 {PNG_PALETTE, {200, 55, 100}}, {PNG_INTERLACED, {200, 100, 50}}};
    const drawing flat = {19, 27, draw_flat};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        comet_dataset *d = open_picture(folder, png_bytes(&flat, cases[i].kind), 8);
        float *image = read_image(d, 0, NULL);
        for (int k = 0; k < 3 * 64; k++)
            assert_near(byte_of(image[k], k / 64), cases[i].rgb[k / 64], 0.01);
        free(image);
        remove_picture(folder, d);
    }
    const drawing slope = {200, 150, draw_slope};
    check_slope(folder, png_bytes(&slope, PNG_INTERLACED), 200, 150, 64, 0.2);
}

static void test_folder_jpeg_kinds(void **state)
{
    const char *folder = *state;
    static const struct {
        jpeg_kind kind;
        double rgb[3];
    } cases[] = {{JPEG_COLOUR, {200, 100, 50}},
                 {JPEG_PROGRESSIVE, {200, 100, 50}},
                 {JPEG_GREY, {200, 200, 200}},
                 {JPEG_CMYK, {200, 100, 50}}};
    const drawing flat = {90, 70, draw_flat};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (uint32_t side = 8; side <= 64; side *= 8) {
            comet_dataset *d = open_picture(folder, jpeg_bytes(&flat, cases[i].kind, 100), side);
            float *image = read_image(d, 0, NULL);
            for (uint32_t k = 0; k < 3 * side * side; k += 7)
                assert_near(byte_of(image[k], (int)(k / (side * side))), cases[i].rgb[k / (side * side)], 2);
            free(image);
            remove_picture(folder, d);
        }
    }
}

/* Shrinking takes every pixel into account: a chessboard becomes grey, not black and white. */
static void test_folder_shrinks_with_a_filter(void **state)
{
    const char *folder = *state;
    const drawing board = {256, 256, draw_grey};
    comet_dataset *d = open_picture(folder, png_bytes(&board, PNG_RGB), 8);
    float *image = read_image(d, 0, NULL);
    for (int k = 0; k < 64; k++)
        assert_near(byte_of(image[k], 0), 127.5, 12);
    free(image);
    remove_picture(folder, d);
}

static void test_random_crops_lie_inside(void **state)
{
    static const uint32_t sizes[][2] = {{500, 375}, {375, 500}, {1, 1}, {1000, 10}, {10, 1000}, {3, 2}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const double w = sizes[i][0], h = sizes[i][1];
        double least = 1, most = 0;
        for (uint32_t trial = 0; trial < 2000; trial++) {
            comet_random random = comet_random_start(5, COMET_STREAM_AUGMENT, 0, trial);
            const crop_rule rule = {&random, 224};
            const box b = crop_choose(&rule, sizes[i][0], sizes[i][1]);
            assert_true(b.x >= 0 && b.y >= 0 && b.width >= 1 && b.height >= 1 && b.x + b.width <= w && b.y + b.height <= h);
            least = fmin(least, b.width * b.height / (w * h));
            most = fmax(most, b.width * b.height / (w * h));
            if (i < 2)
                assert_true(b.width / b.height > 0.74 && b.width / b.height < 1.35);
        }
        if (i < 2)
            assert_true(least > 0.078 && least < 0.1 && most > 0.9);
    }
}

/* ---- folders ---- */

static void add_picture(const char *folder, const char *part, const char *class_name, const char *name)
{
    const drawing flat = {12, 10, draw_flat};
    const char *path = text_of("%s/%s/%s", folder, part, class_name);
    if (access(path, F_OK) != 0)
        make_folder(path);
    write_blob(path, name, strstr(name, "png") ? png_bytes(&flat, PNG_RGB) : jpeg_bytes(&flat, JPEG_COLOUR, 90));
}

static void test_folder_with_parts(void **state)
{
    const char *folder = *state;
    make_folder(text_of("%s/train", folder));
    add_picture(folder, "train", "zebra", "2.jpg");
    add_picture(folder, "train", "zebra", "1.JPEG");
    add_picture(folder, "train", "ant", "x.png");
    add_picture(folder, "train", "Bee", "y.jpg");
    write_file(text_of("%s/train/ant", folder), "notes.txt", "no picture", 10);
    write_file(text_of("%s/train/ant", folder), ".hidden.jpg", "no picture", 10);
    const char *spec = text_of("folder:%s", folder);
    char kept[600];
    snprintf(kept, sizeof kept, "%s", spec);
    comet_dataset *d = open_data(kept, COMET_SPLIT_TRAIN);
    const comet_dataset_info info = data_info(d);
    assert_int_equal(info.n_images, 4);
    assert_int_equal(info.n_classes, 3);
    assert_int_equal(info.width, 224);
    assert_true(info.crops);
    static const char *const names[] = {"Bee", "ant", "zebra"};
    static const uint32_t labels[] = {0, 1, 2, 2};
    for (uint32_t i = 0; i < 3; i++)
        assert_string_equal(comet_dataset_class(d, i), names[i]);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t label;
        free(read_image(d, i, &label));
        assert_int_equal(label, labels[i]);
    }
    comet_dataset_close(d);
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_IO, "neither val nor test");
    make_folder(text_of("%s/test", folder));
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "test has no folders");
    add_picture(folder, "test", "zebra", "3.jpg");
    d = open_data(kept, COMET_SPLIT_TEST);
    uint32_t label;
    free(read_image(d, 0, &label));
    assert_int_equal(label, 2);
    assert_int_equal(data_info(d).n_classes, 3);
    comet_dataset_close(d);
    make_folder(text_of("%s/val", folder));
    add_picture(folder, "val", "wasp", "3.jpg");
    REFUSED(kept, COMET_SPLIT_TEST, COMET_ERROR_CORRUPT, "val/wasp is no class");
}

static void test_folder_holdout(void **state)
{
    const char *folder = *state;
    for (int i = 0; i < 40; i++)
        add_picture(folder, ".", i % 2 ? "odd" : "even", text_of("%d.png", i));
    comet_dataset *train = open_data(text_of("folder:%s", folder), COMET_SPLIT_TRAIN);
    comet_dataset *test = open_data(text_of("folder:%s", folder), COMET_SPLIT_TEST);
    assert_int_equal(data_info(train).n_images, 36);
    assert_int_equal(data_info(test).n_images, 4);
    comet_dataset_close(train);
    comet_dataset_close(test);
}

static void test_folder_faults(void **state)
{
    const char *folder = *state;
    REFUSED(text_of("folder:%s/nothere", folder), COMET_SPLIT_TRAIN, COMET_ERROR_IO, "nothere is not a folder");
    REFUSED(text_of("folder:%s", folder), COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "has no folders", "/CLASS/NAME.jpg");
    make_folder(text_of("%s/cat", folder));
    REFUSED(text_of("folder:%s", folder), COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "/cat has no .jpg, .jpeg or .png", "remove");
    add_picture(folder, ".", "cat", "1.jpg");
    REFUSED(text_of("folder:%s", folder), COMET_SPLIT_TRAIN, COMET_ERROR_CORRUPT, "has 1 pictures");
}

/* Whatever is cut off or changed, decoding ends with an image or with a sentence, and prints nothing. */
static void test_damaged_pictures(void **state)
{
    const drawing slope = {70, 50, draw_slope};
    blob whole[] = {jpeg_bytes(&slope, JPEG_COLOUR, 80), jpeg_bytes(&slope, JPEG_PROGRESSIVE, 80), png_bytes(&slope, PNG_RGB),
                    png_bytes(&slope, PNG_INTERLACED)};
    comet_buffer pixels = {NULL, 0}, taps = {NULL, 0};
    float *planes = need_malloc(3 * 16 * 16 * sizeof *planes);
    const resample_target target = {.side = 16, .scale = {1, 1, 1}, .planes = planes};
    test_rng r = {.state = 3};
    for (size_t i = 0; i < COUNT_OF(whole); i++) {
        for (int trial = 0; trial < 400; trial++) {
            const bool cut = trial < 200;
            blob b = {.bytes = cut ? rng_below(&r, whole[i].bytes) : whole[i].bytes};
            b.data = need_malloc(b.bytes);
            memcpy(b.data, whole[i].data, b.bytes);
            if (!cut)
                b.data[rng_below(&r, b.bytes)] ^= (uint8_t)(1u << rng_below(&r, 8));
            const picture_request request = {
                .name = "name.jpg", .file = b.data, .bytes = b.bytes, .crop = {NULL, 16}, .pixels = &pixels};
            picture p;
            const comet_status status = picture_decode(&p, &request);
            if (status == COMET_OK)
                assert_ok(resample(&p, &target, &taps));
            else
                assert_non_null(strstr(comet_last_error(), "name.jpg: "));
            assert_true(status == COMET_OK || status == COMET_ERROR_CORRUPT);
            assert_false(cut && status == COMET_OK);
            free(b.data);
        }
        free(whole[i].data);
    }
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_buffer_free(&allocator, &pixels);
    comet_buffer_free(&allocator, &taps);
    free(planes);
}

/* Scans are limited, and more so in large pictures: 40 million pixels may have 50. */
static void test_jpeg_scans_are_limited(void **state)
{
    static const struct {
        uint32_t width, height;
        int most;
    } cases[] = {{70, 50, 100}, {8000, 5000, 50}};
    comet_buffer pixels = {NULL, 0};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const drawing flat = {cases[i].width, cases[i].height, draw_flat};
        for (int more = 0; more < 2; more++) {
            blob b = jpeg_bytes_of_scans(&flat, cases[i].most + more);
            const picture_request request = {
                .name = "name.jpg", .file = b.data, .bytes = b.bytes, .crop = {NULL, 16}, .pixels = &pixels};
            picture p;
            assert_status(picture_decode(&p, &request), more ? COMET_ERROR_CORRUPT : COMET_OK);
            if (more)
                assert_string_equal(
                    comet_last_error(),
                    text_of("name.jpg: more than %d scans of %u x %u pixels, which would take too long to decode",
                            cases[i].most, cases[i].width, cases[i].height));
            else
                assert_near(p.pixels[0], 200, 2);
            free(b.data);
        }
    }
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_buffer_free(&allocator, &pixels);
}

/* Decodes in a process of its own; returns the most memory that it had, in kB. */
static long peak_of_decoding(blob b)
{
    int result = -1;
    struct rusage usage;
    const pid_t child = fork();
    if (child == 0) {
        comet_buffer pixels = {NULL, 0};
        const picture_request request = {
            .name = "name.png", .file = b.data, .bytes = b.bytes, .crop = {NULL, 16}, .pixels = &pixels};
        picture p;
        _exit(picture_decode(&p, &request) == COMET_OK ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(wait4(child, &result, 0, &usage), child);
    assert_int_equal(result, 0);
    return usage.ru_maxrss;
}

/* A few kB of packed text in a PNG, of no use here, could fill the memory. */
static void test_png_texts_are_not_unpacked(void **state)
{
    const drawing flat = {19, 27, draw_flat};
    blob plain = png_bytes(&flat, PNG_RGB), texts = png_bytes(&flat, PNG_TEXTS);
    assert_true(texts.bytes < 1000000);
    assert_true(peak_of_decoding(texts) < peak_of_decoding(plain) + 50000);
    free(plain.data);
    free(texts.data);
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
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, temp_folder_make, temp_folder_remove)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_is_checked),
        IN_FOLDER(test_cifar10_is_read),
        IN_FOLDER(test_cifar10_is_shifted_and_mirrored),
        IN_FOLDER(test_fingerprint),
        IN_FOLDER(test_cifar10_faults),
        IN_FOLDER(test_idx_is_read_plain_and_packed),
        IN_FOLDER(test_idx_faults),
        IN_FOLDER(test_idx_packed_faults),
        cmocka_unit_test(test_fashion_of_debian),
        IN_FOLDER(test_npy_types),
        IN_FOLDER(test_npy_holdout),
        IN_FOLDER(test_npy_refuses_nonfinite_values_anywhere),
        IN_FOLDER(test_npy_normalisation_is_of_the_training_part),
        IN_FOLDER(test_npy_grey_and_test_arrays),
        IN_FOLDER(test_npy_image_faults),
        IN_FOLDER(test_npy_label_faults),
        IN_FOLDER(test_pipes_are_refused),
        IN_FOLDER(test_folder_middle_crop),
        IN_FOLDER(test_folder_png_kinds),
        IN_FOLDER(test_folder_jpeg_kinds),
        IN_FOLDER(test_folder_shrinks_with_a_filter),
        cmocka_unit_test(test_random_crops_lie_inside),
        IN_FOLDER(test_folder_with_parts),
        IN_FOLDER(test_folder_holdout),
        IN_FOLDER(test_folder_faults),
        cmocka_unit_test(test_damaged_pictures),
        cmocka_unit_test(test_jpeg_scans_are_limited),
        cmocka_unit_test(test_png_texts_are_not_unpacked),
        cmocka_unit_test(test_synthetic_is_a_function_of_seed_split_and_index),
        cmocka_unit_test(test_synthetic_has_the_same_bits_everywhere),
        cmocka_unit_test(test_synthetic_sizes),
        cmocka_unit_test(test_synthetic_limits),
    };
    return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
