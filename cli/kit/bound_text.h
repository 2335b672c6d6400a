/* Bounds as people write them: 0.01, 1e-3rel, 0.1std, lossless, 12x. */
#ifndef COMET_CLI_BOUND_TEXT_H
#define COMET_CLI_BOUND_TEXT_H

#include <stdbool.h>

#include "comet/codec.h"
#include "kit/say.h"

#define BOUND_FORMS "0.01, 1e-3rel, 0.1std, lossless or 12x"

typedef struct bound {
    comet_bound_mode mode;
    double value;
    char text[48]; /* as written; empty: no bound was given */
} bound;

bool bound_parse(const char *text, bound *b, reason *why);

#endif
