/* Data sets of arrays (npy:): types, hold-out, normalisation, and everything that can be wrong with the files. */
#include "data_files.h"
#include "describing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checksum.h"
#include "train/data/dataset.h"

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

/* Both parts of arrays that are split lie in the same pages, which count once; the last to be closed unmaps them. A file that
 * was written anew is another one. */
static void test_npy_arrays_are_mapped_once(void **state)
{
    const char *folder = *state;
    write_images(folder, "x.npy", "|u1");
    write_labels(folder, "y.npy", "<i4", 1);
    comet_dataset *train = open_data(npy_spec(folder), COMET_SPLIT_TRAIN),
                  *test = open_data(npy_spec(folder), COMET_SPLIT_TEST);
    assert_true(train->shared[0].data == test->shared[0].data && train->shared[1].data == test->shared[1].data);
    assert_true(train->mapped > NPY_ELEMENTS && test->mapped == train->mapped);
    assert_int_equal(dataset_bytes_together(train, test, true), train->bytes + test->bytes - test->mapped);
    assert_int_equal(dataset_bytes_together(train, test, false), train->bytes + test->bytes - 2 * test->mapped);
    assert_int_equal(dataset_bytes_together(train, NULL, true), train->bytes);
    assert_int_equal(dataset_bytes_together(NULL, NULL, true), 0);
    comet_dataset_close(train);
    free(read_image(test, 0, NULL)); /* its pages are still there */
    write_images(folder, "other.npy", "|u1");
    assert_int_equal(rename(text_of("%s/other.npy", folder), text_of("%s/x.npy", folder)), 0);
    train = open_data(npy_spec(folder), COMET_SPLIT_TRAIN);
    assert_true(train->shared[0].data != test->shared[0].data && train->shared[1].data == test->shared[1].data);
    assert_int_equal(dataset_bytes_together(train, test, true), train->bytes + test->bytes - test->shared[1].bytes);
    comet_dataset_close(test);
    comet_dataset_close(train);
}

/* Bytes stay bytes until they are used, and give the floats that they gave before: (v - mean) / deviation, in doubles. */
static void test_npy_bytes_are_rows_of_bytes(void **state)
{
    const char *folder = *state;
    write_labels(folder, "y.npy", "<i4", 1);
    write_images(folder, "x.npy", "<f4");
    comet_dataset *floats = open_data(npy_spec(folder), COMET_SPLIT_TRAIN);
    assert_null(floats->tables);
    assert_int_equal(dataset_row_bytes(floats), dataset_image_floats(floats) * sizeof(float));
    write_images(folder, "x.npy", "|u1"); /* the same values */
    comet_dataset *bytes = open_data(npy_spec(folder), COMET_SPLIT_TRAIN);
    assert_non_null(bytes->tables);
    assert_int_equal(dataset_row_bytes(bytes), dataset_image_floats(floats));
    comet_dataset_close(floats);
    write_images(folder, "x4.npy", "<f4");
    floats = open_data(text_of("npy:%s/x4.npy,%s/y.npy", folder, folder), COMET_SPLIT_TRAIN);
    for (uint64_t i = 0; i < 27; i++) {
        float *a = read_image(floats, i, NULL), *b = read_image(bytes, i, NULL);
        assert_memory_equal(a, b, dataset_image_floats(floats) * sizeof *a);
        free(a);
        free(b);
    }
    comet_dataset_close(floats);
    comet_dataset_close(bytes);
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
static void test_npy_pipes_are_refused(void **state)
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
    stop_waiting();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_npy_types),
        IN_FOLDER(test_npy_holdout),
        IN_FOLDER(test_npy_arrays_are_mapped_once),
        IN_FOLDER(test_npy_bytes_are_rows_of_bytes),
        IN_FOLDER(test_npy_refuses_nonfinite_values_anywhere),
        IN_FOLDER(test_npy_normalisation_is_of_the_training_part),
        IN_FOLDER(test_npy_grey_and_test_arrays),
        IN_FOLDER(test_npy_image_faults),
        IN_FOLDER(test_npy_label_faults),
        IN_FOLDER(test_npy_pipes_are_refused),
    };
    return cmocka_run_group_tests_name("dataset: npy", tests, NULL, NULL);
}
