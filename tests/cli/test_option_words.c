/* Words of the command line and what they stand for: bounds with every unit, names of types, layouts and levels, sizes as they
 * are printed, and the exit code of every status. */
#include "base/size_text.h"
#include "kit/bound_text.h"
#include "kit/enum_names.h"
#include "testing.h"

/* ---- bounds ---- */

static const struct {
    const char *text;
    comet_bound_mode mode;
    double value;
} bounds[] = {
    {"0", COMET_BOUND_ABSOLUTE, 0},        {"0.01", COMET_BOUND_ABSOLUTE, 0.01},  {"1e-3", COMET_BOUND_ABSOLUTE, 0.001},
    {"+2.5", COMET_BOUND_ABSOLUTE, 2.5},   {"1e-3rel", COMET_BOUND_RANGE, 0.001}, {"0rel", COMET_BOUND_RANGE, 0},
    {"2rel", COMET_BOUND_RANGE, 2},        {"0.1std", COMET_BOUND_STDDEV, 0.1},   {"3std", COMET_BOUND_STDDEV, 3},
    {"12x", COMET_BOUND_RATIO, 12},        {"1x", COMET_BOUND_RATIO, 1},          {"1.5x", COMET_BOUND_RATIO, 1.5},
    {"lossless", COMET_BOUND_LOSSLESS, 0},
};

static void bounds_have_units(void **state)
{
    for (size_t i = 0; i < COUNT_OF(bounds); i++) {
        reason why = {""};
        bound b = {.value = 77};
        if (!bound_parse(bounds[i].text, &b, &why) || b.mode != bounds[i].mode || b.value != bounds[i].value)
            fail_msg("%s: mode %d, value %g, %s", bounds[i].text, (int)b.mode, b.value, why.text);
        assert_string_equal(b.text, bounds[i].text);
    }
}

static void other_bounds_are_refused(void **state)
{
    static const char *const texts[] = {"",    "rel",   "x",     "0.99x", "-1",   "-0std", "1 rel", "1e-320", "1e999",
                                        "nan", "1relx", "1xstd", "0.1st", "1STD", "loss",  "1%",    "0x1p1",  "1,5"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        reason why = {""};
        bound b = {.mode = COMET_BOUND_RATIO, .value = 77};
        if (bound_parse(texts[i], &b, &why))
            fail_msg("'%s' is accepted", texts[i]);
        assert_true(why.text[0] != '\0' && b.mode == COMET_BOUND_RATIO && b.value == 77);
    }
}

/* ---- names ---- */

static void names_stand_for_values(void **state)
{
    static const struct {
        const char *name;
        comet_dtype value;
    } dtypes[] = {{"f32", COMET_DTYPE_F32}, {"f16", COMET_DTYPE_F16}, {"bf16", COMET_DTYPE_BF16}, {"f64", COMET_DTYPE_F64}};
    static const struct {
        const char *name;
        comet_layout value;
    } layouts[] = {{"nchw", COMET_LAYOUT_PLANAR},
                   {"nhwc", COMET_LAYOUT_CHANNELS_LAST},
                   {"nChw8c", COMET_LAYOUT_BLOCKED8},
                   {"nChw16c", COMET_LAYOUT_BLOCKED16}};
    static const struct {
        const char *name;
        comet_level value;
    } levels[] = {{"fast", COMET_LEVEL_FAST}, {"dense", COMET_LEVEL_DENSE}, {"auto", COMET_LEVEL_AUTO}};
    reason why;
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        comet_dtype value = (comet_dtype)99;
        assert_true(dtype_parse(dtypes[i].name, &value, &why) && value == dtypes[i].value);
        assert_string_equal(dtype_name(value), dtypes[i].name);
    }
    for (size_t i = 0; i < COUNT_OF(layouts); i++) {
        comet_layout value = (comet_layout)99;
        assert_true(layout_parse(layouts[i].name, &value, &why) && value == layouts[i].value);
        assert_string_equal(layout_name(value), layouts[i].name);
    }
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        comet_level value = (comet_level)99;
        assert_true(level_parse(levels[i].name, &value, &why) && value == levels[i].value);
        assert_string_equal(level_name(value), levels[i].name);
    }
}

/* ---- sizes as they are printed ---- */

static void sizes_are_printed_in_units_of_1024(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0.00 MiB"},         {1 << 20, "1.00 MiB"}, {3 << 19, "1.50 MiB"},           {10 << 20, "10 MiB"},
                 {999u << 20, "999 MiB"}, {1 << 30, "1.00 GiB"}, {UINT64_C(5) << 29, "2.50 GiB"}, {1000u << 20, "0.98 GiB"}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char text[SIZE_TEXT_BYTES];
        assert_string_equal(comet_size_text(sizes[i].bytes, text), sizes[i].text);
    }
}

/* ---- exit codes ---- */

static void every_status_has_its_exit_code(void **state)
{
    static const struct {
        comet_status status;
        int code;
    } codes[] = {
        {COMET_OK, 0},
        {COMET_ERROR_UNREACHABLE, 1},
        {COMET_ERROR_DIVERGED, 1},
        {COMET_ERROR_CAPACITY, 1},
        {COMET_ERROR_ARGUMENT, 2},
        {COMET_ERROR_CORRUPT, 3},
        {COMET_ERROR_UNSUPPORTED, 3},
        {COMET_ERROR_OVERFLOW, 3},
        {COMET_ERROR_IO, 3},
        {COMET_ERROR_MEMORY, 5},
    };
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        assert_int_equal(exit_of_status(codes[i].status), codes[i].code);
    assert_int_equal(CLI_BOUND_BROKEN, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_have_units),
        cmocka_unit_test(other_bounds_are_refused),
        cmocka_unit_test(names_stand_for_values),
        cmocka_unit_test(sizes_are_printed_in_units_of_1024),
        cmocka_unit_test(every_status_has_its_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
