/* Lines, channels and planes of a tensor, as docs/format.md, "Geometry", has them. Encoder and decoder share the code, so that
 * a round trip cannot tell whether it is right. */
#include "codec_testing.h"

#include "codec/geometry.h"

static void assert_geometry(comet_layout layout, uint64_t channels, uint64_t height, uint64_t width, geometry expected)
{
    const uint64_t dims[] = {1, channels, height, width};
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, layout, 4, dims);
    geometry g;
    assert_ok(geometry_make(&t, &g));
    assert_int_equal(g.channels, expected.channels);
    assert_int_equal(g.columns, expected.columns);
    assert_int_equal(g.lines, expected.lines);
    assert_int_equal(g.line, expected.channels * expected.columns);
}

static void test_lines_of_layouts(void **state)
{
    assert_geometry(COMET_LAYOUT_PLANAR, 5, 7, 9, (geometry){.channels = 1, .columns = 9, .lines = 7});
    assert_geometry(COMET_LAYOUT_CHANNELS_LAST, 5, 7, 9, (geometry){.channels = 5, .columns = 9, .lines = 7});
    assert_geometry(COMET_LAYOUT_BLOCKED8, 5, 7, 9, (geometry){.channels = 8, .columns = 9, .lines = 7});
    assert_geometry(COMET_LAYOUT_BLOCKED16, 40, 7, 9, (geometry){.channels = 16, .columns = 9, .lines = 7});
}

/* A line has at most 2^18 elements, its channels counted, and at most 16384 channels; else the tensor is a flat sequence. */
static void test_long_lines_are_flat(void **state)
{
    const geometry flat = {.channels = 1, .columns = 4096, .lines = 1};
    assert_geometry(COMET_LAYOUT_PLANAR, 1, 2, 262144, (geometry){.channels = 1, .columns = 262144, .lines = 2});
    assert_geometry(COMET_LAYOUT_PLANAR, 1, 2, 262145, flat);
    assert_geometry(COMET_LAYOUT_CHANNELS_LAST, 64, 2, 4096, (geometry){.channels = 64, .columns = 4096, .lines = 2});
    assert_geometry(COMET_LAYOUT_CHANNELS_LAST, 64, 2, 4097, flat);
    assert_geometry(COMET_LAYOUT_BLOCKED16, 16, 2, 16384, (geometry){.channels = 16, .columns = 16384, .lines = 2});
    assert_geometry(COMET_LAYOUT_BLOCKED16, 16, 2, 16385, flat);
    assert_geometry(COMET_LAYOUT_CHANNELS_LAST, 16384, 2, 3, (geometry){.channels = 16384, .columns = 3, .lines = 2});
    assert_geometry(COMET_LAYOUT_CHANNELS_LAST, 16385, 2, 3, flat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_layouts),
        cmocka_unit_test(test_long_lines_are_flat),
    };
    return cmocka_run_group_tests_name("geometry", tests, NULL, NULL);
}
