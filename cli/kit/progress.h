/*
 * Progress on stderr. A bar is drawn only where that is a terminal and the work has lasted more than a second.
 * Only for the main thread. A bar begun while another is running is not drawn: the outer one stays.
 */
#ifndef COMET_CLI_PROGRESS_H
#define COMET_CLI_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/* Begins a bar of `total` units; a total of 0 means unknown. The label is kept, not copied. */
void progress_begin(const char *label, uint64_t total);
void progress_update(uint64_t done);

/* Columns for a line that must not wrap: at most 79, fewer where the terminal is narrower; many where stderr is no terminal. */
size_t progress_width(void);

/* A line of text in the bar's place, cut to progress_width, at most ten times a second; where stderr is no terminal, a line of
 * its own every ten seconds, and ever more rarely. Needs no progress_begin. */
void progress_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Nothing is shown from now on. */
void progress_disable(void);

/* Removes the bar from the screen until the next update, so that a line can be printed. */
void progress_hide(void);
void progress_end(void);

#endif
