/* Strict number parsing; see number.h. The C locale is never changed, so strtod's point is a point. */
#include "kit/number.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kit/text.h"

bool number_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value, reason *why)
{
    const size_t n_digits = strspn(text, "0123456789");
    if (n_digits == 0 || text[n_digits] != '\0')
        return reason_set(why, "'%.60s' is not a whole number", text);
    errno = 0;
    const unsigned long long parsed = strtoull(text, NULL, 10);
    if (errno == ERANGE || parsed < min || parsed > max)
        return reason_set(why, "%.60s is out of range: %" PRIu64 " to %" PRIu64, text, min, max);
    *value = parsed;
    return true;
}

bool number_is_decimal(const char *text)
{
    char *end = NULL;
    if (text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    strtod(text, &end);
    return end != text && *end == '\0';
}

bool number_is_too_small(const char *text)
{
    const size_t n_mantissa = strcspn(text, "eE");
    const size_t first_digit = strcspn(text, "123456789");
    return first_digit < n_mantissa && fabs(strtod(text, NULL)) < DBL_MIN;
}

bool number_double(const char *text, double min, double max, double *value, reason *why)
{
    if (!number_is_decimal(text))
        return reason_set(why, "'%.60s' is not a finite number", text);
    if (number_is_too_small(text))
        return reason_set(why, "%.60s is too small for a double", text);
    errno = 0;
    const double parsed = strtod(text, NULL);
    if (errno == ERANGE || !isfinite(parsed) || !(parsed >= min && parsed <= max))
        return reason_set(why, "%.60s is out of range: %g to %g", text, min, max);
    *value = parsed;
    return true;
}

/* Bytes in a unit; 0: there is no such unit. */
static double unit_bytes(const char *name)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"B", 1},        {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
                 {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},
                 {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(name, units[i].name) == 0)
            return units[i].bytes;
    return 0;
}

bool number_bytes(const char *text, uint64_t *bytes, reason *why)
{
    char digits[32];
    const size_t length = strspn(text, "0123456789.");
    const double unit = unit_bytes(text + length);
    double value = 0;
    if (length > 0 && length < sizeof digits && text[length] == '\0')
        return reason_set(why, "'%s' has no unit; write %sM or %sMiB, or %sB for bytes", text, text, text, text);
    if (!(unit > 0) || length == 0 || length >= sizeof digits)
        return reason_set(why, "'%.60s' is not a size such as 4G, 512MiB or 4GB", text);
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!number_double(digits, 0, 0x1p62 / unit, &value, why))
        return false;
    if (value * unit < 1)
        return reason_set(why, "'%.60s' is less than one byte", text);
    *bytes = (uint64_t)(value * unit);
    return true;
}

/* ---- rates and times ---- */

typedef struct unit {
    const char *name;
    double factor;
} unit;

/* A number above 0 up to 1e15 with one of n units; `like` says what is expected. */
static bool number_in_units(const char *text, const unit *units, size_t n, const char *like, double *value, reason *why)
{
    char digits[32];
    const size_t length = strspn(text, "0123456789.");
    for (size_t i = 0; i < n && length > 0 && length < sizeof digits; i++)
        if (strcmp(text + length, units[i].name) == 0) {
            double number = 0;
            memcpy(digits, text, length);
            digits[length] = '\0';
            if (!number_double(digits, 0, 1e15 / units[i].factor, &number, why))
                return false;
            *value = number * units[i].factor;
            return true;
        }
    return reason_set(why, "'%.60s' is not %s", text, like);
}

bool number_rate(const char *text, double *bytes_per_s, reason *why)
{
    static const unit units[] = {{"Mbit", 0.125e6},   {"Gbit", 0.125e9},    {"Tbit", 0.125e12}, {"Mbit/s", 0.125e6},
                                 {"Gbit/s", 0.125e9}, {"Tbit/s", 0.125e12}, {"MB", 1e6},        {"GB", 1e9},
                                 {"TB", 1e12},        {"MB/s", 1e6},        {"GB/s", 1e9},      {"TB/s", 1e12}};
    double value = 0;
    if (!number_in_units(text, units, sizeof units / sizeof *units, "a rate such as 100Gbit, 1Gbit/s or 20GB/s", &value, why))
        return false;
    if (!(value > 0))
        return reason_set(why, "'%.60s' is no bytes at all", text);
    *bytes_per_s = value;
    return true;
}

bool number_seconds(const char *text, double *seconds, reason *why)
{
    static const unit units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
    return number_in_units(text, units, sizeof units / sizeof *units, "a time such as 5us, 0.2ms or 1.5s", seconds, why);
}

bool number_list(const char *text, uint64_t *items, uint32_t max_items, uint32_t *n_items, reason *why)
{
    uint32_t n = 0;
    for (const char *at = text; at; n++) {
        char one[24];
        if (n == max_items)
            return reason_set(why, "'%.60s' holds more than %" PRIu32 " numbers", text, max_items);
        if (!text_take_item(&at, one, sizeof one))
            return reason_set(why, "'%.60s' holds a number that is too long", text);
        if (!number_u64(one, 0, UINT64_MAX, &items[n], why))
            return false;
    }
    *n_items = n;
    return true;
}

void number_format(double value, char *text, size_t text_bytes)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, text_bytes, "%.*g", digits, value);
        if (!(strtod(text, NULL) != value))
            return;
    }
}
