/* Figures for people; see human.h. */
#include "report/human.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size_text.h"

enum { MINUTE = 60, HOUR = 3600 };

/* 1234567 as 1,234,567. */
static void format_count(double value, char text[HUMAN_BYTES])
{
    char digits[HUMAN_BYTES];
    snprintf(digits, sizeof digits, "%.0f", fabs(value));
    const size_t n = strlen(digits);
    size_t at = 0;
    if (value < 0 && n + n / 3 + 2 < HUMAN_BYTES)
        text[at++] = '-';
    for (size_t i = 0; i < n && at + 2 < HUMAN_BYTES; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
}

static void format_bytes(double value, char text[HUMAN_BYTES])
{
    char size[SIZE_TEXT_BYTES];
    if (value < 1024)
        snprintf(text, HUMAN_BYTES, "%.0f B", value);
    else if (value < 1024 * 1024)
        snprintf(text, HUMAN_BYTES, value < 10 * 1024 ? "%.1f KiB" : "%.0f KiB", value / 1024);
    else
        snprintf(text, HUMAN_BYTES, "%s", comet_size_text(value < 1e18 ? (uint64_t)value : (uint64_t)1e18, size));
}

static void format_seconds(double value, char text[HUMAN_BYTES])
{
    const long whole = lround(fmin(value, 1e15));
    if (value < 1e-3)
        snprintf(text, HUMAN_BYTES, "%.3g ms", value * 1e3);
    else if (value < 1)
        snprintf(text, HUMAN_BYTES, value < 0.1 ? "%.1f ms" : "%.0f ms", value * 1e3);
    else if (value < MINUTE)
        snprintf(text, HUMAN_BYTES, "%.1f s", value);
    else if (value < HOUR)
        snprintf(text, HUMAN_BYTES, "%ld min %ld s", whole / MINUTE, whole % MINUTE);
    else
        snprintf(text, HUMAN_BYTES, "%ld h %ld min", whole / HOUR, whole % HOUR / MINUTE);
}

char *human(quantity what, double value, char text[HUMAN_BYTES])
{
    if (!isfinite(value)) {
        snprintf(text, HUMAN_BYTES, "\xe2\x80\x93"); /* an en dash */
        return text;
    }
    switch (what) {
    case PLAIN: snprintf(text, HUMAN_BYTES, "%.4g", value); break;
    case COUNT: format_count(value, text); break;
    case BYTES: format_bytes(fmax(value, 0), text); break;
    case SHARE: snprintf(text, HUMAN_BYTES, "%.2f %%", 100 * value); break;
    case TIMES: snprintf(text, HUMAN_BYTES, "%.1f\xc3\x97", value); break; /* a multiplication sign */
    case SECONDS: format_seconds(fmax(value, 0), text); break;
    case SPEED:
        if (fabs(value) < 100)
            snprintf(text, HUMAN_BYTES, "%.1f", value);
        else
            format_count(value, text);
        break;
    }
    return text;
}
