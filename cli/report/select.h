/* Which of many lines a chart shows: few enough to draw at once, and none of the extremes missing. */
#ifndef COMET_CLI_SELECT_H
#define COMET_CLI_SELECT_H

#include <stdbool.h>
#include <stddef.h>

/* Divides n lines into `n_parts` parts of equal length and keeps, of each part, its last line and those with the smallest and
 * the largest value of each key; keys[k] holds n values, NaN where there is none. All are kept where they are few. The first
 * line is kept. */
void select_lines(size_t n, const double *const *keys, size_t n_keys, size_t n_parts, bool *kept);

#endif
