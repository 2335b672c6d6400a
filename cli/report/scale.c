/* Round ranges and ticks; see chart.h. */
#include <math.h>
#include <stdio.h>

#include "report/chart.h"

enum { TICKS = 5 };
static const double MAX_SPAN = 60; /* of a linear axis that could be logarithmic: more would press small values flat */

/* 1, 2 or 5 times a power of ten, at least `step`. */
static double round_up(double step)
{
    const double power = pow(10, floor(log10(step)));
    const double parts[] = {1, 2, 2.5, 5, 10};
    for (int i = 0; i < 5; i++)
        if (parts[i] * power >= step * (1 - 1e-9))
            return parts[i] * power;
    return 10 * power;
}

static void name_unit(scale *s, double unit, const char *name)
{
    s->unit = unit;
    snprintf(s->unit_name, sizeof s->unit_name, "%s", name);
}

/* The largest unit that `high` has at least one of. Numbers below a thousandth count in powers of ten. */
static void set_unit(scale *s, quantity what, double high)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int at = 0;
    name_unit(s, 1, "");
    if (what == BYTES) {
        while (at < 4 && high >= pow(1024, at + 1))
            at++;
        name_unit(s, pow(1024, at), names[at]);
    } else if (what == SHARE) {
        name_unit(s, 0.01, "%");
    } else if (what == SECONDS) {
        name_unit(s, high < 1 ? 1e-3 : 1, high < 1 ? "ms" : "s");
    } else if (what == PLAIN && high > 1e-99 && high < 1e-3) {
        const int power = (int)floor(log10(high) + 1e-9);
        char text[8];
        snprintf(text, sizeof text, "1e%d", power);
        name_unit(s, pow(10, power), text);
    }
}

static scale logarithmic(quantity what, double low, double high)
{
    scale s = {.logarithmic = true, .step = 1};
    set_unit(&s, what, what == PLAIN ? 1 : high);
    s.low = pow(10, floor(log10(low) + 1e-9));
    s.high = pow(10, ceil(log10(high) - 1e-9));
    if (s.high <= s.low)
        s.high = 10 * s.low;
    s.step = fmax(1, ceil((log10(s.high) - log10(s.low)) / TICKS)); /* decades from tick to tick */
    return s;
}

scale scale_of(quantity what, double low, double high, bool from_zero, bool may_be_log)
{
    scale s = {0};
    if (!isfinite(low) || !isfinite(high))
        low = 0, high = 1;
    if (may_be_log && low > 0 && high > MAX_SPAN * low)
        return logarithmic(what, low, high);
    if (from_zero)
        low = fmin(low, 0), high = fmax(high, 0);
    if (high <= low) {
        const double wide = fmax(fabs(high) * 0.1, from_zero ? 1 : 1e-9);
        high += wide;
        low -= low == 0 || from_zero ? 0 : wide;
    }
    set_unit(&s, what, fmax(fabs(low), fabs(high)));
    s.step = round_up((high - low) / s.unit / TICKS) * s.unit;
    if (what == COUNT)
        s.step = fmax(1, ceil(s.step));
    s.low = floor(low / s.step + 1e-9) * s.step;
    s.high = ceil(high / s.step - 1e-9) * s.step;
    return s;
}
