/* Names of dtypes, layouts, levels and profiles, and tables of names in general. */
#ifndef COMET_CLI_ENUM_NAMES_H
#define COMET_CLI_ENUM_NAMES_H

#include <stdbool.h>

#include "comet/codec.h"
#include "kit/say.h"

typedef struct named {
    const char *name;
    int value;
} named;

/* Finds `text` in a table that ends with a NULL name; else the reason names the nearest, or the choices. */
bool named_find(const named *table, const char *what, const char *choices, const char *text, int *value, reason *why);

const char *dtype_name(comet_dtype dtype);
const char *layout_name(comet_layout layout);
const char *level_name(comet_level level);
const char *profile_name(comet_profile profile);

bool dtype_parse(const char *text, comet_dtype *dtype, reason *why);
bool layout_parse(const char *text, comet_layout *layout, reason *why);
bool level_parse(const char *text, comet_level *level, reason *why);
bool profile_parse(const char *text, comet_profile *profile, reason *why);

#endif
