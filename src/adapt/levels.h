/* Which tensors are coded dense and which fast: the least memory within a budget of time. */
#ifndef COMET_ADAPT_LEVELS_H
#define COMET_ADAPT_LEVELS_H

#include <stdbool.h>
#include <stddef.h>

/* What each level costs for one tensor. */
typedef struct level_choice {
    double bytes[2], seconds[2]; /* [0] fast, [1] dense: coded size; time a step for encoding once and decoding each time */
    bool dense;                  /* the choice */
} level_choice;

/* Chooses dense for the tensors that save most bytes for each second more, as long as the seconds of all tensors stay within
 * `budget`. Returns these seconds. */
double levels_choose(level_choice *choices, size_t n, double budget);

#endif
