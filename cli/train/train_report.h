/*
 * What a run prints: the memory table before step 1, a line for each epoch and a summary on stdout; a progress line on a
 * terminal; JSON lines in a log.
 */
#ifndef COMET_CLI_TRAIN_REPORT_H
#define COMET_CLI_TRAIN_REPORT_H

#include <stdio.h>

#include "comet/train.h"
#include "kit/json_out.h"

typedef struct train_report {
    FILE *log; /* or NULL */
    const char *log_path;
    const char *data; /* parameters of the run, for the log's first line */
    uint64_t seed, n_threads;
    double rate;
    comet_convolutions convolutions;
    const char *convolution_choices; /* or NULL */
    bool json;                       /* print nothing but the result, as JSON, on stdout */
    bool log_failed;                 /* a failure of the log was reported; it is reported once */
    uint64_t first_step, log_every;
    uint64_t n_epochs_shown;
    double loss, top1; /* running means over about 50 steps, for the progress line */
    uint64_t n_shown;
} train_report;

/* The event function of comet_train_params; `user` is a train_report. */
void train_report_event(void *user, const comet_train_event *event);

/* A sentence before the run, for the user and in the log. */
void train_report_note(train_report *r, const char *sentence);

/* A last line in the log for a run that failed. */
void train_report_failure(train_report *r, const char *sentence);

/* The table of what a model holds, on `out`; saved activations of the largest few layers. */
void memory_table_print(FILE *out, const comet_model *model);

void json_add_memory(json *j, const comet_memory *m);
void json_add_compression(json *j, const comet_compression_figures *c, double train_seconds);

/* Share of training time spent coding and decoding; NaN before the first step. */
double codec_share(const comet_compression_figures *c, double train_seconds);

#endif
