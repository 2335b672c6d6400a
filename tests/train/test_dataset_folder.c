/* Data sets of pictures in folders: decoding, crops, parts, and pictures that are damaged or made to harm. */
#define _DEFAULT_SOURCE /* wait4 */
#include "data_files.h"
#include "describing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/data/crop.h"
#include "train/data/dataset.h"
#include "train/data/resample.h"

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

#define ROUNDED 0.5 /* images are bytes */

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
        check_slope(folder, png_bytes(&slope, PNG_RGB), slope.width, slope.height, cases[i].side, ROUNDED + 0.2);
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
    check_slope(folder, png_bytes(&slope, PNG_INTERLACED), 200, 150, 64, ROUNDED + 0.2);
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
            const crop_rule rule = {.random = &random, .side = 224};
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

static uint64_t fingerprint_of(const char *folder)
{
    uint64_t hash = 0;
    comet_dataset *d = open_data(text_of("folder:%s", folder), COMET_SPLIT_TRAIN);
    assert_ok(dataset_fingerprint(d, &hash));
    comet_dataset_close(d);
    return hash;
}

/* The same pictures with another name for a class are other data: a run must not go on with them. */
static void test_folder_fingerprint_has_the_names_of_classes(void **state)
{
    const char *folder = *state;
    make_folder(text_of("%s/train", folder));
    add_picture(folder, "train", "ant", "1.png");
    add_picture(folder, "train", "bee", "1.png");
    const uint64_t before = fingerprint_of(folder);
    assert_true(before == fingerprint_of(folder));
    assert_int_equal(rename(text_of("%s/train/bee", folder), text_of("%s/train/cow", folder)), 0);
    assert_true(before != fingerprint_of(folder));
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
    uint8_t *planes = need_malloc(3 * 16 * 16);
    const resample_target target = {.side = 16, .planes = planes};
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
                .name = "name.jpg", .file = b.data, .bytes = b.bytes, .crop = {.side = 16}, .pixels = &pixels};
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
                .name = "name.jpg", .file = b.data, .bytes = b.bytes, .crop = {.side = 16}, .pixels = &pixels};
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
            .name = "name.png", .file = b.data, .bytes = b.bytes, .crop = {.side = 16}, .pixels = &pixels};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_folder_middle_crop),
        IN_FOLDER(test_folder_png_kinds),
        IN_FOLDER(test_folder_jpeg_kinds),
        IN_FOLDER(test_folder_shrinks_with_a_filter),
        cmocka_unit_test(test_random_crops_lie_inside),
        IN_FOLDER(test_folder_with_parts),
        IN_FOLDER(test_folder_holdout),
        IN_FOLDER(test_folder_fingerprint_has_the_names_of_classes),
        IN_FOLDER(test_folder_faults),
        cmocka_unit_test(test_damaged_pictures),
        cmocka_unit_test(test_jpeg_scans_are_limited),
        cmocka_unit_test(test_png_texts_are_not_unpacked),
    };
    return cmocka_run_group_tests_name("dataset: folder", tests, NULL, NULL);
}
