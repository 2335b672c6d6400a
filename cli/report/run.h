/*
 * A run as its folder and its log tell it: --out DIR with log.jsonl and state.json, or a log alone. docs/log.md describes the
 * log; logs without log_version lack most figures of a step. A figure that is not known is NaN, a text NULL.
 */
#ifndef COMET_CLI_RUN_H
#define COMET_CLI_RUN_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "kit/say.h"

/* The figures of a line `step`; their keys are in run_log.c. */
typedef enum step_field {
    S_RATE,
    S_LOSS,
    S_TOP1,
    S_SPEED,
    S_RATIO,
    S_WEIGHTS,
    S_GRADIENTS,
    S_OPTIMISER,
    S_SAVED,
    S_SAVED_RAW,
    S_SAVED_REFERENCE,
    S_TRANSIENT,
    S_DATA,
    S_PROGRAM,
    S_RSS,
    S_PEAK_RSS,
    S_WAIT,
    S_FORWARD,
    S_BACKWARD,
    S_UPDATE,
    S_ENCODE,
    S_DECODE,
    S_ASSESS,
    N_STEP_FIELDS
} step_field;

/* Those of a line `epoch`. */
typedef enum epoch_field {
    E_RATE,
    E_TRAIN_LOSS,
    E_TRAIN_TOP1,
    E_LOSS,
    E_TOP1,
    E_TOP5,
    E_BEST_TOP1,
    E_SPEED,
    E_WAIT_SHARE,
    E_PEAK_RSS,
    E_RATIO,
    E_EVAL_SECONDS,
    N_EPOCH_FIELDS
} epoch_field;

/* Those of a line `assess`. */
typedef enum assess_field {
    A_EB,
    A_NONZERO,
    A_TARGET,
    A_MEASURED,
    A_SIGMA_RATIO,
    A_RATIO,
    A_STORED,
    A_RAW,
    A_ELEMENTS,
    N_ASSESS_FIELDS
} assess_field;

enum { MAX_FIELDS = N_STEP_FIELDS };

/* A line of the log with figures: a step or an epoch. */
typedef struct run_line {
    double step, epoch, seconds;
    double field[MAX_FIELDS];
} run_line;

typedef struct run_lines {
    run_line *items;
    size_t n, room;
} run_lines;

/* A layer that reads a stored tensor, as it was last assessed. */
typedef struct run_consumer {
    char *layer, *what, *level, *predictor;
    double tensor; /* the same for all consumers of a tensor */
    double step;
    bool at_limit;
    double field[N_ASSESS_FIELDS];
} run_consumer;

/* One assessment of one consumer. */
typedef struct run_assessment {
    size_t consumer;
    double step, seconds, eb, ratio, sigma_ratio;
} run_assessment;

typedef struct run_point {
    char *layer;
    bool backward;
    double stored, raw, reference;
} run_point;

/* Memory within one step. */
typedef struct run_timeline {
    double step;
    run_point *points;
    size_t n;
} run_timeline;

typedef struct run_message {
    const char *kind; /* "note", "error", "checkpoint" */
    double step;
    char *text;
} run_message;

typedef enum run_state {
    RUN_NO_LOG,   /* a folder without a log */
    RUN_NOTHING,  /* a log without one line of a run */
    RUN_BEGUN,    /* goes on, or was killed: the log does not say how it ended */
    RUN_FINISHED, /* all its steps are done */
    RUN_STOPPED,  /* by a signal */
    RUN_DIVERGED,
    RUN_FAILED,
} run_state;

typedef struct run {
    char *path; /* as on the command line */
    char *name; /* short, unique among the runs of a page */
    char *log;  /* the log's path, NULL where there is none */
    bool is_folder;
    run_state state;
    double version;                   /* log_version; 1 where the log has none */
    double modified;                  /* when the log was last written, in seconds since 1970 */
    size_t n_lines, n_bad, first_bad; /* lines, those that are not ours, the number of the first of these */
    bool torn;                        /* the last line is cut short */
    size_t n_processes;
    cJSON *start, *first_start; /* of the last process and of the first */
    cJSON *end, *error;         /* NULL where there is none */
    cJSON *saved_state;         /* state.json */
    run_lines steps, epochs;
    run_consumer *consumers;
    run_assessment *assessments;
    run_timeline *timelines;
    run_message *messages;
    size_t n_consumers, consumers_room, n_assessments, assessments_room, n_timelines, timelines_room, n_messages, messages_room;
    size_t next_consumer; /* where the next line of an assessment is expected */
    bool no_memory;
} run;

/* Reads what there is. CLI_BAD_INPUT for a path that cannot be read and for a file that is no log; a folder without a log is
 * fine. A log may be empty where `may_be_empty`. Release with run_free after a failure too. */
cli_exit run_read(run *r, const char *path, bool may_be_empty);
void run_free(run *r);

/* The log's lines, for run_read: fills the run from the text of a log. */
void run_log_parse(run *r, const char *text, size_t bytes);

/* Figures and texts of `start`, NaN or NULL where it has none; `key` may be inside an object: "machine.cpu". */
double run_number(const cJSON *event, const char *key);
const char *run_text(const cJSON *event, const char *key);
bool run_flag(const cJSON *event, const char *key);

/* Updates in an epoch; NaN where the log does not tell. */
double run_steps_per_epoch(const run *r);

/* The last line with a step, or an epoch; NULL where there is none. */
const run_line *run_last(const run_lines *lines);

/* The largest value of a field; NaN where no line has one. */
double run_largest(const run_lines *lines, size_t field);

/* Is the run over? */
bool run_is_over(const run *r);

/* When the run began, in seconds since 1970: the first start's date, or the log's time less what the run took. */
double run_began(const run *r);

/* Reads an ISO 8601 date in UTC, such as 2024-05-01T12:00:00Z; NaN for anything else. */
double run_date(const char *text);

#endif
