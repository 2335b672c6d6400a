/*
 * state.json of a run's folder: the state of the newest checkpoint in words, for people and for programs that show runs.
 *
 * Comet itself needs only the seconds that a run has taken so far. A file that is missing, damaged or of an older version, with
 * numbers in place of words and without seconds, costs no more than these.
 */
#ifndef COMET_TRAIN_FILES_STATE_FILE_H
#define COMET_TRAIN_FILES_STATE_FILE_H

#include <stddef.h>

#include "train/files/checkpoint.h"

/* Changes the JSON text of a state: kinds and switches become words, versions are written out, seconds and log are added. Where
 * that is not possible, for want of memory or of `bytes`, the text stays as it is. */
void state_for_people(const checkpoint_state *state, char *json, size_t bytes);

/* Seconds that the run in `folder` has taken; 0 where they are not known. */
double state_file_seconds(const char *folder);

#endif
