/*
 * The log of a run: a JSON object a line, each flushed. docs/log.md lists the events and their fields.
 *
 * A log that --log names is opened before the run. That of --out is opened as the run begins, when its folder exists and is
 * locked; lines before that are kept.
 */
#ifndef COMET_CLI_TRAIN_LOG_H
#define COMET_CLI_TRAIN_LOG_H

#include <stdio.h>

#include "comet/train.h"
#include "kit/json_out.h"
#include "train/train_ranks.h"

enum { LOGGED_STEPS = 50, LOG_PATH_BYTES = 4096 };

typedef struct train_log {
    FILE *file;  /* or NULL */
    bool failed; /* a failure was reported; it is reported once */
    bool waits;  /* `file` is in memory until the run begins */
    char *kept;  /* its lines */
    size_t kept_bytes;
    char path[LOG_PATH_BYTES];
    /* the run, set before it begins */
    const comet_train_params *params;
    const char *data;        /* spec */
    const char *rate_chosen; /* "given", "default", "found", "resumed" */
    uint64_t memory_limit;   /* 0: none */
    const ranks_args *ranks; /* how gradients travel */
    /* while it goes on */
    uint64_t every, last_step;
    double last_wait;
    comet_step_figures last;
    uint64_t program_bytes;         /* as of the last epoch: finding out takes milliseconds */
    uint64_t last_sent, last_plain; /* of the epoch before */
} train_log;

/* Opens the file, to write on at its end where `append` is true. */
cli_exit train_log_open(train_log *log, const char *path, bool append, bool force);
/* Opens FOLDER/log.jsonl when the run begins; a run that goes on writes on at its end. */
cli_exit train_log_open_in(train_log *log, const char *folder);
void train_log_close(train_log *log);

/* Writes what the event has for the log. */
void train_log_event(train_log *log, const comet_train_event *event);
/* A sentence before the run. */
void train_log_note(train_log *log, const char *sentence);
/* The last line of a run that failed. */
void train_log_failure(train_log *log, comet_status status, const char *sentence);

/* The line of the end. */
json train_log_end(const comet_train_event *event);

void json_add_memory(json *j, const comet_memory *m);
void json_add_compression(json *j, const comet_compression_figures *c, double train_seconds);

/* Share of training time spent coding and decoding; NaN before the first step. */
double codec_share(const comet_compression_figures *c, double train_seconds);

#endif
