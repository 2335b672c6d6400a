/*
 * Tells whether a run learns at all, from its loss at the start and the lowest that it had since.
 *
 * Single batches scatter, so the start is the mean of the first LOSS_WATCH_STEPS updates, and what follows is a fading mean of
 * as many. A run that never comes below its start has learnt nothing; one that never comes below log(classes) does no better
 * than a guess.
 */
#ifndef COMET_TRAIN_MATH_LOSS_WATCH_H
#define COMET_TRAIN_MATH_LOSS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { LOSS_WATCH_STEPS = 10, LOSS_WATCH_MIN_STEPS = 50 };

/* Part of checkpoints. NaN where nothing is known yet, or the checkpoint had none. */
typedef struct loss_watch {
    double start, mean, lowest;
} loss_watch;

loss_watch loss_watch_begin(void);

/* `step` counts updates from 0. */
void loss_watch_add(loss_watch *watch, uint64_t step, double loss);

/* Both are false where the run had fewer than LOSS_WATCH_MIN_STEPS updates, or its start is not known. */
bool loss_watch_never_fell(const loss_watch *watch, uint64_t n_steps);
bool loss_watch_only_guesses(const loss_watch *watch, uint64_t n_steps, uint32_t n_classes);

#endif
