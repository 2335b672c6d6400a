/*
 * Pictures brought to size: the numbers of Pillow's antialiased bilinear filter, a triangle as wide as two pixels of the
 * result, for factors below and above 1 and 2, along both sides, rounded to the nearest byte.
 */
#include "testing.h"

#include <stdlib.h>

#include "train/data/resample.h"

enum { N = 6, MOST = 9 };

static const uint8_t line[N] = {0, 255, 60, 10, 200, 90};

static const struct {
    uint32_t side;
    double expected[MOST];
} sizes[] = {
    {9, {0, 127.5, 222.5, 92.5, 35, 41.666667, 168.333333, 145, 90}},
    {6, {0, 255, 60, 10, 200, 90}},
    {5, {54.642857, 185.357143, 35, 132.142857, 113.571429}},
    {4, {95.625, 119.444444, 78.888889, 131.25}},
    {3, {117.857143, 83.125, 125.714286}},
    {2, {111.875, 107.5}},
};

/* A picture that has `line` in every row, or else in every column, in green; red is 255 minus that, and blue is 7. */
static picture striped(uint8_t pixels[N * N * PICTURE_CHANNELS], bool rows)
{
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            uint8_t *rgb = pixels + (y * N + x) * PICTURE_CHANNELS;
            rgb[1] = line[rows ? x : y];
            rgb[0] = (uint8_t)(255 - rgb[1]);
            rgb[2] = 7;
        }
    return (picture){
        .pixels = pixels, .stride = N * PICTURE_CHANNELS, .width = N, .height = N, .wanted = {.width = N, .height = N}};
}

static void check_size(size_t size, bool rows, bool flip)
{
    uint8_t pixels[N * N * PICTURE_CHANNELS];
    uint8_t planes[PICTURE_CHANNELS * MOST * MOST];
    comet_buffer memory = {NULL, 0};
    const uint32_t side = sizes[size].side, plane = side * side;
    const picture p = striped(pixels, rows);
    const resample_target target = {.side = side, .flip = flip, .planes = planes};
    assert_ok(resample(&p, &target, &memory));
    for (uint32_t i = 0; i < plane; i++) {
        const uint32_t y = i / side, x = flip ? side - 1 - i % side : i % side;
        const double expected = sizes[size].expected[rows ? x : y];
        assert_near(planes[i], 255 - expected, 0.501);
        assert_near(planes[plane + i], expected, 0.501);
        assert_int_equal(planes[2 * plane + i], 7);
    }
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_buffer_free(&allocator, &memory);
}

static void test_sizes(void **state)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int rows = 0; rows < 2; rows++)
            for (int flip = 0; flip < 2; flip++)
                check_size(i, rows, flip);
}

/* A box is brought to size as if the rest of the picture were not there. */
static void test_pixels_outside_of_the_box_are_not_used(void **state)
{
    uint8_t pixels[N * N * PICTURE_CHANNELS];
    uint8_t planes[PICTURE_CHANNELS * 2 * 2];
    comet_buffer memory = {NULL, 0};
    picture p = striped(pixels, true);
    p.wanted = (box){.x = 2, .y = 0, .width = 3, .height = 3}; /* 60, 10, 200 */
    const resample_target target = {.side = 2, .planes = planes};
    assert_ok(resample(&p, &target, &memory));
    for (int y = 0; y < 2; y++) {
        assert_near(planes[4 + 2 * y], 0.625 * 60 + 0.375 * 10, 0.501);
        assert_near(planes[4 + 2 * y + 1], 0.375 * 10 + 0.625 * 200, 0.501);
    }
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_buffer_free(&allocator, &memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_pixels_outside_of_the_box_are_not_used),
    };
    return cmocka_run_group_tests_name("resample", tests, NULL, NULL);
}
