/* Numbers of the command line: sizes with their units, and numbers as text. */
#include "kit/number.h"
#include "testing.h"

#include <stdlib.h>

static const struct {
    const char *text;
    uint64_t bytes;
} sizes[] = {
    {"400B", 400},
    {"1073741824b", 1073741824},
    {"512K", 524288},
    {"400M", 419430400},
    {"4G", 4294967296},
    {"4g", 4294967296},
    {"2T", 2199023255552},
    {"1KiB", 1024},
    {"3MiB", 3145728},
    {"3mib", 3145728},
    {"4GiB", 4294967296},
    {"1TiB", 1099511627776},
    {"1KB", 1000},
    {"7kb", 7000},
    {"3MB", 3000000},
    {"4GB", 4000000000},
    {"2TB", 2000000000000},
    {"1.5G", 1610612736},
    {".5k", 512},
    {"0.5KB", 500},
    {"1.9B", 1},
    {"1B", 1},
    {"4194304T", UINT64_C(1) << 62},
    {"4611686018427387904B", UINT64_C(1) << 62},
};

static void sizes_have_units(void **state)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        reason why = {""};
        uint64_t bytes = 0;
        if (!number_bytes(sizes[i].text, &bytes, &why) || bytes != sizes[i].bytes)
            fail_msg("%s is %llu, not %llu: %s", sizes[i].text, (unsigned long long)bytes, (unsigned long long)sizes[i].bytes,
                     why.text);
    }
}

static const struct {
    const char *text, *why;
} refused[] = {
    {"400", "'400' has no unit; write 400M or 400MiB, or 400B for bytes"},
    {"1.5", "'1.5' has no unit"},
    {"0", "'0' has no unit"},
    {"", "'' is not a size such as"},
    {"M", "'M' is not a size such as"},
    {"GiB", "'GiB' is not a size such as"},
    {"4X", "'4X' is not a size such as"},
    {"4XB", "'4XB' is not a size such as"},
    {"4MM", "'4MM' is not a size such as"},
    {"4Mi", "'4Mi' is not a size such as"},
    {"4 M", "'4 M' is not a size such as"},
    {"4M ", "'4M ' is not a size such as"},
    {" 4M", "' 4M' is not a size such as"},
    {"1e3M", "'1e3M' is not a size such as"},
    {"-1M", "'-1M' is not a size such as"},
    {"+1M", "'+1M' is not a size such as"},
    {"0x10M", "'0x10M' is not a size such as"},
    {"infM", "'infM' is not a size such as"},
    {"1..5M", "'1..5' is not a finite number"},
    {".M", "'.' is not a finite number"},
    {"0M", "'0M' is less than one byte"},
    {"0.5B", "'0.5B' is less than one byte"},
    {"4194305T", "4194305 is out of range"},
    {"99999999999GiB", "99999999999 is out of range"},
    {"1234567890123456789012345678901234567890M", "is not a size such as"},
};

static void other_texts_are_refused(void **state)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        reason why = {""};
        uint64_t bytes = 77;
        assert_false(number_bytes(refused[i].text, &bytes, &why));
        assert_int_equal(bytes, 77);
        if (!strstr(why.text, refused[i].why))
            fail_msg("%s: \"%s\" lacks \"%s\"", refused[i].text, why.text, refused[i].why);
    }
}

/* As few digits as tell the number apart from all others, six at least: it reads back as the same bits. */
static void formatted_numbers_read_back(void **state)
{
    static const struct {
        double value;
        const char *text;
    } formatted[] = {{0, "0"},
                     {1, "1"},
                     {0.1, "0.1"},
                     {-2.5e-7, "-2.5e-07"},
                     {1.0 / 3, "0.3333333333333333"},
                     {0.1 + 0.2, "0.30000000000000004"},
                     {1e15 + 0.125, "1000000000000000.1"},
                     {0x1.fffffffffffffp-1, "0.9999999999999999"},
                     {5e-324, "4.94066e-324"}};
    for (size_t i = 0; i < sizeof formatted / sizeof *formatted; i++) {
        char text[40];
        number_format(formatted[i].value, text, sizeof text);
        assert_string_equal(text, formatted[i].text);
        assert_true(strtod(text, NULL) == formatted[i].value);
    }
}

static const struct {
    const char *text;
    double bytes_per_s;
} rates[] = {{"1Gbit", 0.125e9}, {"100Gbit/s", 12.5e9}, {"0.4Tbit", 50e9}, {"200MB", 200e6}, {"20GB/s", 20e9}, {"1TB", 1e12}};

static const struct {
    const char *text;
    double seconds;
} times[] = {{"5us", 5e-6}, {"0.2ms", 0.2e-3}, {"1.5s", 1.5}, {"250ns", 250e-9}, {"0us", 0}};

static void rates_and_times_have_units(void **state)
{
    static const char *const no_rates[] = {"100", "0Gbit", "Gbit", "1Gb", "1Gbit/h", "-1Gbit", "1 Gbit", "1..2Gbit"};
    static const char *const no_times[] = {"5", "us", "5h", "-5us", "5 us", "1e3s"};
    double value = -1;
    reason why = {""};
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        assert_true(number_rate(rates[i].text, &value, &why));
        assert_near(value, rates[i].bytes_per_s, 1e-6 * rates[i].bytes_per_s);
    }
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        assert_true(number_seconds(times[i].text, &value, &why));
        assert_near(value, times[i].seconds, 1e-12);
    }
    for (size_t i = 0; i < COUNT_OF(no_rates); i++)
        assert_false(number_rate(no_rates[i], &value, &why));
    for (size_t i = 0; i < COUNT_OF(no_times); i++)
        assert_false(number_seconds(no_times[i], &value, &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(formatted_numbers_read_back),
        cmocka_unit_test(rates_and_times_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
