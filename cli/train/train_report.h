/*
 * What a run prints: what it is and its memory before step 1, a line for each epoch and a summary on stdout; a progress line on
 * a terminal; JSON lines in a log, which train_log.h writes.
 */
#ifndef COMET_CLI_TRAIN_REPORT_H
#define COMET_CLI_TRAIN_REPORT_H

#include <stdio.h>

#include "comet/train.h"
#include "train/train_line.h"
#include "train/train_log.h"

typedef struct train_report {
    train_log log;
    bool json; /* print nothing but the result, as JSON, on stdout */
    uint64_t n_epochs_shown;
    train_line line;
} train_report;

/* The event function of comet_train_params; `user` is a train_report. */
void train_report_event(void *user, const comet_train_event *event);

/* A sentence before the run, for the user and in the log. */
void train_report_note(train_report *r, const char *sentence);

#endif
