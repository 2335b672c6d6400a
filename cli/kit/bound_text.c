/* Bound parsing; see bound_text.h. */
#include "kit/bound_text.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "kit/number.h"
#include "kit/text.h"

typedef struct unit {
    const char *suffix;
    comet_bound_mode mode;
    double min;
} unit;

/* The empty suffix ends the table: whatever has no unit is absolute. */
static const unit units[] = {
    {"rel", COMET_BOUND_RANGE, 0}, {"std", COMET_BOUND_STDDEV, 0}, {"x", COMET_BOUND_RATIO, 1}, {"", COMET_BOUND_ABSOLUTE, 0}};

bool bound_parse(const char *text, bound *b, reason *why)
{
    bound parsed = {.mode = COMET_BOUND_LOSSLESS};
    if (strlen(text) >= sizeof parsed.text)
        return reason_set(why, "bound '%.60s' is too long", text);
    snprintf(parsed.text, sizeof parsed.text, "%s", text);
    if (strcmp(text, "lossless") != 0) {
        const unit *u = units;
        while (!text_ends_with(text, strlen(text), u->suffix))
            u++;
        char number[sizeof parsed.text];
        snprintf(number, sizeof number, "%.*s", (int)(strlen(text) - strlen(u->suffix)), text);
        if (number[0] == '-' || !number_is_decimal(number))
            return reason_set(why, "'%s' is not a bound: write " BOUND_FORMS ", finite and not negative", text);
        if (u->mode != COMET_BOUND_RATIO && number_is_too_small(number))
            return reason_set(why, "%s is too small for a double; use lossless", text);
        if (!number_double(number, u->min, DBL_MAX, &parsed.value, why))
            return false;
        parsed.mode = u->mode;
    }
    *b = parsed;
    return true;
}
