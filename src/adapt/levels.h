/*
 * Which tensors are coded dense and which fast, so that coding takes least memory within a budget of time.
 */
#ifndef COMET_ADAPT_LEVELS_H
#define COMET_ADAPT_LEVELS_H

#include <stdbool.h>
#include <stddef.h>

/* One tensor's two ways. */
typedef struct level_choice {
    double bytes[2], seconds[2]; /* by comet_level FAST, DENSE: coded size; compressing and all decompressing of a step */
    bool dense;                  /* result */
} level_choice;

/* Chooses dense for those that save most bytes a second, as long as the seconds of all stay within `budget`. Returns the
 * seconds. */
double levels_choose(level_choice *choices, size_t n, double budget);

#endif
