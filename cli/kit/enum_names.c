/* Names of enumerations; see enum_names.h. */
#include "kit/enum_names.h"

#include <string.h>

#include "base/nearest.h"

static const named dtypes[] = {
    {"f32", COMET_DTYPE_F32}, {"f16", COMET_DTYPE_F16}, {"bf16", COMET_DTYPE_BF16}, {"f64", COMET_DTYPE_F64}, {NULL, 0}};
static const named layouts[] = {{"nchw", COMET_LAYOUT_PLANAR},
                                {"nhwc", COMET_LAYOUT_CHANNELS_LAST},
                                {"nChw8c", COMET_LAYOUT_BLOCKED8},
                                {"nChw16c", COMET_LAYOUT_BLOCKED16},
                                {NULL, 0}};
static const named levels[] = {{"fast", COMET_LEVEL_FAST}, {"dense", COMET_LEVEL_DENSE}, {"auto", COMET_LEVEL_AUTO}, {NULL, 0}};
static const named profiles[] = {{"host", COMET_PROFILE_HOST}, {"device", COMET_PROFILE_DEVICE}, {NULL, 0}};

static const char *name_of(const named *table, int value)
{
    for (; table->name; table++)
        if (table->value == value)
            return table->name;
    return "unknown";
}

bool named_find(const named *table, const char *what, const char *choices, const char *text, int *value, reason *why)
{
    nearest_word nearest = nearest_to(text, strlen(text));
    for (const named *at = table; at->name; at++) {
        if (strcmp(at->name, text) == 0) {
            *value = at->value;
            return true;
        }
        nearest_offer(&nearest, at->name);
    }
    const char *best = nearest_best(&nearest);
    if (best)
        return reason_set(why, "unknown %s '%.60s'; did you mean %s?", what, text, best);
    return reason_set(why, "unknown %s '%.60s'; choose %s", what, text, choices);
}

const char *dtype_name(comet_dtype dtype)
{
    return name_of(dtypes, (int)dtype);
}
const char *layout_name(comet_layout layout)
{
    return name_of(layouts, (int)layout);
}
const char *level_name(comet_level level)
{
    return name_of(levels, (int)level);
}
const char *profile_name(comet_profile profile)
{
    return name_of(profiles, (int)profile);
}

bool dtype_parse(const char *text, comet_dtype *dtype, reason *why)
{
    int value = 0;
    const bool known = named_find(dtypes, "type", "f32, f16, bf16 or f64", text, &value, why);
    if (known)
        *dtype = (comet_dtype)value;
    return known;
}

bool layout_parse(const char *text, comet_layout *layout, reason *why)
{
    int value = 0;
    const bool known = named_find(layouts, "layout", "nchw, nhwc, nChw8c or nChw16c", text, &value, why);
    if (known)
        *layout = (comet_layout)value;
    return known;
}

bool level_parse(const char *text, comet_level *level, reason *why)
{
    int value = 0;
    const bool known = named_find(levels, "level", "fast, dense or auto", text, &value, why);
    if (known)
        *level = (comet_level)value;
    return known;
}

bool profile_parse(const char *text, comet_profile *profile, reason *why)
{
    int value = 0;
    const bool known = named_find(profiles, "profile", "host or device", text, &value, why);
    if (known)
        *profile = (comet_profile)value;
    return known;
}
