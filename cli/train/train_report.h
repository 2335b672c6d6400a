/*
 * What a run prints: the memory table before step 1, a line for each epoch and a summary on stdout; a progress line on a
 * terminal; JSON lines in a log, which train_log.h writes.
 */
#ifndef COMET_CLI_TRAIN_REPORT_H
#define COMET_CLI_TRAIN_REPORT_H

#include <stdio.h>

#include "comet/train.h"
#include "train/train_log.h"

typedef struct train_report {
    train_log log;
    bool json; /* print nothing but the result, as JSON, on stdout */
    uint64_t first_step;
    uint64_t n_epochs_shown;
    double loss, top1; /* running means over about 50 steps, for the progress line */
    uint64_t n_shown;
} train_report;

/* The event function of comet_train_params; `user` is a train_report. */
void train_report_event(void *user, const comet_train_event *event);

/* A sentence before the run, for the user and in the log. */
void train_report_note(train_report *r, const char *sentence);

/* The table of what a model holds, on `out`; saved activations of the largest few layers. */
void memory_table_print(FILE *out, const comet_model *model);

#endif
