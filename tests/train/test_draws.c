/* Random draws of data: no epoch has the order or the augmentation of another one, crops reach every edge, half of the pictures
 * are mirrored, and a hold-out moves images and labels together. Seeds are fixed; limits are five standard deviations wide. */
#include "data_files.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "train/data/crop.h"
#include "train/data/dataset.h"
#include "train/data/picture.h"

/* Is the count of n draws, each true with a probability of p, as it should be? */
static void check_count(const char *what, double count, double n, double p)
{
    if (fabs(count - n * p) > 5 * sqrt(n * p * (1 - p)))
        fail_because("%s: %g of %g, not about %g", what, count, n, n * p);
}

/* ---- epochs ---- */

enum { N_IMAGES = 97, N_EPOCHS = 6, N_ROWS = N_IMAGES * N_EPOCHS };

/* Images of two numbers: two draws, or the index twice; the label is the index. */
static comet_status drawn_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    float *image = row;
    for (int i = 0; i < 2; i++)
        image[i] = random ? (float)comet_random_uniform(random) : (float)index;
    return COMET_OK;
}

static uint32_t drawn_label(const comet_dataset *d, uint64_t index)
{
    return (uint32_t)index;
}

static const dataset_source drawn_source = {.kind = "drawn", .read = drawn_read, .label = drawn_label};

/* Labels and images of all epochs, in the loader's order. */
static void load_epochs(uint64_t seed, uint32_t *labels, float *images)
{
    comet_dataset d = {.source = &drawn_source,
                       .info = {.n_images = N_IMAGES, .channels = 1, .height = 1, .width = 2, .n_classes = N_IMAGES}};
    comet_loader_params p;
    comet_loader *loader = NULL;
    comet_loader_params_init(&p);
    p.batch = N_IMAGES;
    p.n_threads = 1;
    p.seed = seed;
    p.shuffle = p.augment = p.endless = true;
    assert_ok(comet_loader_create(&loader, &d, &p));
    for (size_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        comet_batch b;
        bool end = true;
        assert_ok(comet_loader_next(loader, &b, &end));
        assert_false(end);
        memcpy(labels + epoch * N_IMAGES, b.labels, N_IMAGES * sizeof *labels);
        memcpy(images + epoch * N_IMAGES * 2, b.images, sizeof(float) * N_IMAGES * 2);
        comet_loader_release(loader, &b);
    }
    comet_loader_destroy(loader);
}

/* In two random orders one image is expected in the same place. Neighbours must not stay neighbours either, as they would in an
 * order that is only turned. */
static void check_orders_differ(const uint32_t *a, const uint32_t *b)
{
    unsigned n_same = 0, n_pairs = 0;
    uint32_t place[N_IMAGES];
    for (uint32_t i = 0; i < N_IMAGES; i++) {
        n_same += a[i] == b[i];
        place[b[i]] = i;
    }
    for (uint32_t i = 0; i + 1 < N_IMAGES; i++)
        n_pairs += place[a[i + 1]] == place[a[i]] + 1;
    if (n_same > 7 || n_pairs > 7)
        fail_because("%u images in the same place, %u pairs of neighbours in both orders", n_same, n_pairs);
}

static void test_every_epoch_has_its_own_order(void **state)
{
    uint32_t labels[N_ROWS], other[N_ROWS];
    float images[2 * N_ROWS];
    load_epochs(7, labels, images);
    load_epochs(8, other, images);
    for (size_t a = 0; a < N_EPOCHS; a++) {
        check_orders_differ(labels + a * N_IMAGES, other + a * N_IMAGES);
        for (size_t b = 0; b < a; b++)
            check_orders_differ(labels + a * N_IMAGES, labels + b * N_IMAGES);
    }
}

static int compare_pairs(const void *a, const void *b)
{
    return memcmp(a, b, 2 * sizeof(float));
}

/* Pairs of draws have 48 bits: among those of all rows, epochs and two seeds none comes twice. */
static void test_every_row_has_its_own_augmentation(void **state)
{
    uint32_t labels[N_ROWS];
    float images[4 * N_ROWS];
    load_epochs(7, labels, images);
    load_epochs(8, labels, images + 2 * N_ROWS);
    qsort(images, 2 * N_ROWS, 2 * sizeof(float), compare_pairs);
    for (size_t i = 1; i < 2 * N_ROWS; i++)
        assert_memory_not_equal(images + 2 * i, images + 2 * i - 2, 2 * sizeof(float));
}

/* ---- crops ---- */

/* Brightness rises to the right. */
static void draw_rise(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = rgb[1] = rgb[2] = (uint8_t)(x < 25 ? 10 * x : 250);
}

/* How often boxes begin at the first pixel and end at the last one, and how often that is expected. */
typedef struct edges {
    double n_first, n_last, expected, variance;
} edges;

static void count_edges(edges *e, double first, double side, double whole)
{
    const double p = 1 / (whole - side + 1);
    e->n_first += first == 0;
    e->n_last += first + side == whole;
    e->expected += p;
    e->variance += p * (1 - p);
}

static void check_edges(const edges *e, const char *what)
{
    if (fabs(e->n_first - e->expected) > 5 * sqrt(e->variance) || fabs(e->n_last - e->expected) > 5 * sqrt(e->variance))
        fail_because("%s: %g boxes at the first pixel and %g at the last, about %g expected", what, e->n_first, e->n_last,
                     e->expected);
}

static void test_crops_reach_every_edge_alike(void **state)
{
    static const uint32_t sizes[][2] = {{40, 30}, {30, 40}, {12, 12}};
    enum { N = 4000 };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        edges columns = {0}, rows = {0};
        for (uint32_t trial = 0; trial < N; trial++) {
            comet_random random = comet_random_start(5, COMET_STREAM_AUGMENT, i, trial);
            const crop_rule rule = {.random = &random, .side = 224};
            const box b = crop_choose(&rule, sizes[i][0], sizes[i][1]);
            count_edges(&columns, b.x, b.width, sizes[i][0]);
            count_edges(&rows, b.y, b.height, sizes[i][1]);
        }
        check_edges(&columns, "columns");
        check_edges(&rows, "rows");
    }
}

/* In a square picture every box of at most 3/4 of the area fits: such areas are uniform from 0.08 on, and the logarithm of the
 * ratio of sides is uniform about 0. */
static void test_crops_have_the_sizes_of_the_rule(void **state)
{
    enum { SIDE = 1000, N = 6000 };
    double n = 0, area = 0, ratio = 0, squares = 0;
    const double spread = log(4.0 / 3);
    for (uint32_t trial = 0; trial < N; trial++) {
        comet_random random = comet_random_start(6, COMET_STREAM_AUGMENT, 0, trial);
        const crop_rule rule = {.random = &random, .side = 224};
        const box b = crop_choose(&rule, SIDE, SIDE);
        const double share = b.width * b.height / (SIDE * SIDE);
        if (share > 0.75)
            continue;
        n++;
        area += share;
        ratio += log(b.width / b.height);
        squares += log(b.width / b.height) * log(b.width / b.height);
    }
    assert_true(n > N / 2);
    assert_near(area / n, (0.08 + 0.75) / 2, 5 * 0.67 / sqrt(12 * n));
    assert_near(ratio / n, 0, 5 * spread / sqrt(3 * n));
    assert_near(squares / n, spread * spread / 3, 0.05 * spread * spread);
}

/* A JPEG is decoded smaller only where its box still has a pixel for every pixel of the image, along both sides. */
static void test_shrunk_pictures_have_enough_pixels(void **state)
{
    enum { SIDE = 16 };
    const drawing rise = {90, 90, draw_rise};
    blob file = jpeg_bytes(&rise, JPEG_COLOUR, 90);
    comet_buffer pixels = {NULL, 0};
    unsigned n_shrunk = 0;
    for (uint32_t trial = 0; trial < 400; trial++) {
        comet_random random = comet_random_start(4, COMET_STREAM_AUGMENT, 0, trial), again = random;
        const box b = crop_choose(&(const crop_rule){.random = &again, .side = SIDE}, rise.width, rise.height);
        const picture_request request = {
            .name = "p.jpg", .file = file.data, .bytes = file.bytes, .crop = {&random, SIDE}, .pixels = &pixels};
        picture p;
        assert_ok(picture_decode(&p, &request));
        const double shrink = b.width / p.wanted.width;
        assert_near(b.height / p.wanted.height, shrink, 1e-9);
        assert_true(shrink == 1 || fmin(p.wanted.width, p.wanted.height) >= SIDE);
        assert_true(fmin(b.width, b.height) < 2 * shrink * SIDE); /* and no larger than it needs to be, up to 8 times */
        n_shrunk += shrink > 1;
    }
    assert_true(n_shrunk > 100 && n_shrunk < 400);
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_buffer_free(&allocator, &pixels);
    free(file.data);
}

/* ---- flips ---- */

/* An image whose brightness falls to the right is mirrored. */
static double count_mirrored(const comet_dataset *d, uint32_t n)
{
    const size_t width = d->info.width;
    float *image = need_malloc(dataset_image_floats(d) * sizeof *image);
    scratch memory = {.file = {NULL, 0}};
    double count = 0;
    for (uint32_t trial = 0; trial < n; trial++) {
        comet_random random = comet_random_start(9, COMET_STREAM_AUGMENT, 0, trial);
        assert_ok(dataset_read(d, 0, &random, &memory, image));
        const float left = image[width / 4], right = image[width - 1 - width / 4];
        assert_true(left != right);
        count += left > right;
    }
    scratch_free(&memory);
    free(image);
    return count;
}

static void test_half_of_the_pictures_are_mirrored(void **state)
{
    const char *folder = *state;
    const drawing rise = {24, 24, draw_rise};
    make_folder(text_of("%s/train", folder));
    make_folder(text_of("%s/train/a", folder));
    write_blob(text_of("%s/train/a", folder), "p.png", png_bytes(&rise, PNG_RGB));
    comet_dataset *d = open_data(text_of("folder:%s", folder), COMET_SPLIT_TRAIN);
    d->info.width = d->info.height = 16;
    check_count("mirrored pictures", count_mirrored(d, 2000), 2000, 0.5);
    comet_dataset_close(d);
}

/* ---- hold-out ---- */

enum { N_HELD = 40, N_CLASSES = 4, N_SEEDS = 4 };

static comet_dataset *open_part(const char *spec, uint64_t seed, int split)
{
    comet_dataset *d = NULL;
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    params.seed = seed;
    params.split = (comet_split)split;
    params.image = 8;
    assert_ok(comet_dataset_open(&d, spec, &params));
    assert_int_equal(d->info.n_images, split ? N_HELD / 10 : N_HELD - N_HELD / 10);
    return d;
}

/* All seeds hold out different images: two of C(40, 4) choices are the same with a probability of 1e-5. */
static void check_held(const uint64_t held[N_SEEDS])
{
    for (int a = 0; a < N_SEEDS; a++)
        for (int b = 0; b < a; b++)
            assert_true(held[a] != held[b]);
}

static unsigned drawn_number;

/* Red tells the class, green the number of the picture. */
static void draw_number(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = (uint8_t)(drawn_number % N_CLASSES * 60);
    rgb[1] = (uint8_t)(drawn_number * 6);
    rgb[2] = 0;
}

static void write_numbered_pictures(const char *folder)
{
    for (drawn_number = 0; drawn_number < N_HELD; drawn_number++) {
        const drawing d = {10, 10, draw_number};
        const char *class_folder = text_of("%s/%c", folder, (char)('a' + drawn_number % N_CLASSES));
        if (access(class_folder, F_OK) != 0)
            make_folder(class_folder);
        write_blob(class_folder, text_of("%02u.png", drawn_number), png_bytes(&d, PNG_RGB));
    }
}

/* The byte that a pixel was made of, by the mean and the deviation of ImageNet. */
static long byte_of(float value, double mean, double deviation)
{
    return lround((value * deviation + mean) * 255);
}

static void test_folder_holdout_moves_labels_with_pictures(void **state)
{
    uint64_t held[N_SEEDS] = {0};
    write_numbered_pictures(*state);
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        bool seen[N_HELD] = {false};
        for (int split = 0; split < 2; split++) {
            comet_dataset *d = open_part(text_of("folder:%s", (const char *)*state), seed, split);
            for (uint64_t i = 0; i < d->info.n_images; i++) {
                uint32_t label = 0;
                float *image = read_image(d, i, &label);
                const long number = byte_of(image[64], 0.456, 0.224) / 6;
                assert_int_equal(byte_of(image[0], 0.485, 0.229), label * 60);
                assert_true(number >= 0 && number < N_HELD && !seen[number]);
                seen[number] = true;
                held[seed] |= split ? (uint64_t)1 << number : 0;
                free(image);
            }
            comet_dataset_close(d);
        }
    }
    check_held(held);
}

/* Image i has the value i everywhere and the label 39 - i: values of both parts lie on one falling line over the labels. */
static void test_npy_holdout_moves_labels_with_images(void **state)
{
    const char *folder = *state;
    float x[N_HELD * 4];
    uint8_t y[N_HELD];
    uint64_t held[N_SEEDS] = {0};
    for (int i = 0; i < N_HELD * 4; i++)
        x[i] = (float)(i / 4);
    for (int i = 0; i < N_HELD; i++)
        y[i] = (uint8_t)(N_HELD - 1 - i);
    write_npy(folder, "x.npy", "<f4", 3, (const uint64_t[]){N_HELD, 2, 2}, x, sizeof x);
    write_npy(folder, "y.npy", "|u1", 1, (const uint64_t[]){N_HELD}, y, sizeof y);
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        double values[N_HELD];
        for (int i = 0; i < N_HELD; i++)
            values[i] = NAN;
        for (int split = 0; split < 2; split++) {
            comet_dataset *d = open_part(text_of("npy:%s/x.npy,%s/y.npy", folder, folder), seed, split);
            for (uint64_t i = 0; i < d->info.n_images; i++) {
                uint32_t label = 0;
                float *image = read_image(d, i, &label);
                assert_true(label < N_HELD && isnan(values[label]));
                values[label] = image[3];
                held[seed] |= split ? (uint64_t)1 << label : 0;
                free(image);
            }
            comet_dataset_close(d);
        }
        assert_true(values[0] > values[1]);
        for (int i = 2; i < N_HELD; i++)
            assert_near(values[i] - values[0], i * (values[1] - values[0]), 1e-4);
    }
    check_held(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_epoch_has_its_own_order),      cmocka_unit_test(test_every_row_has_its_own_augmentation),
        cmocka_unit_test(test_crops_reach_every_edge_alike),       cmocka_unit_test(test_crops_have_the_sizes_of_the_rule),
        cmocka_unit_test(test_shrunk_pictures_have_enough_pixels), IN_FOLDER(test_half_of_the_pictures_are_mirrored),
        IN_FOLDER(test_folder_holdout_moves_labels_with_pictures), IN_FOLDER(test_npy_holdout_moves_labels_with_images),
    };
    return cmocka_run_group_tests_name("draws", tests, NULL, NULL);
}
