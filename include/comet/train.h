/*
 * Training as a whole: learning rates, epochs, evaluation, checkpoints, resuming.
 *
 *   comet_schedule_rate            learning rate of a step
 *   comet_default_rate             the largest rate of a run that was given none
 *   comet_rate_find                a search for that rate on the run's own data
 *   comet_threads_choose           how many threads are fastest now, while other programs run
 *   comet_convolutions_choose      which implementation of each convolution is the fastest
 *   comet_train_run                the run; events tell how it goes
 *   comet_dnnl_*                   the version of oneDNN, which computes
 *
 * model.h has the models that a run creates, figures.h their figures, weights.h their files, budget.h what fits into memory. A
 * run or search belongs to the thread that calls it; events come on that thread.
 */
#ifndef COMET_TRAIN_H
#define COMET_TRAIN_H

#include <signal.h>
#include <stdbool.h>

#include "comet/budget.h"
#include "comet/data.h"
#include "comet/figures.h"
#include "comet/model.h"
#include "comet/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the library that computes ---- */

/* The version of oneDNN that this process has loaded, such as "3.2.0", and that which Comet was built with. Any thread. */
COMET_API const char *comet_dnnl_version(void);
COMET_API const char *comet_dnnl_version_built(void);
/* COMET_ERROR_UNSUPPORTED where their major versions differ, as LD_LIBRARY_PATH or LD_PRELOAD can bring about. No model can
 * then be planned or created. Any thread. */
COMET_API comet_status comet_dnnl_check(void);

/* ---- learning rates ---- */

typedef enum comet_schedule_kind {
    COMET_SCHEDULE_CONSTANT = 0,
    COMET_SCHEDULE_STEP,     /* times `factor` every `every` epochs */
    COMET_SCHEDULE_COSINE,   /* to final_share of the rate at the end */
    COMET_SCHEDULE_ONECYCLE, /* torch's OneCycleLR: up from 1/25 in the first 30 %, down to 1/250000, cosine both ways;
                              * momentum is not cycled */
} comet_schedule_kind;

typedef struct comet_schedule {
    size_t size;
    comet_schedule_kind kind;
    double rate;          /* the largest */
    double warmup_epochs; /* linear: the n-th step of w has n / w of the rate; not for onecycle */
    double factor, every; /* step: 0 to 1, 0.1 at first; more than 0, 30 at first */
    double final_share;   /* cosine: 0 to 1, 0 at first */
} comet_schedule;

/* "constant", "step", "cosine" or "onecycle"; "unknown" for any other value. */
COMET_API const char *comet_schedule_name(comet_schedule_kind kind);
COMET_API void comet_schedule_init(comet_schedule *schedule, comet_schedule_kind kind, double rate);
/* Rate of `step` (from 0) out of n_steps, with steps_per_epoch. */
COMET_API double comet_schedule_rate(const comet_schedule *schedule, uint64_t step, uint64_t n_steps, uint64_t steps_per_epoch);

/* The largest rate of a run that was given none: SGD 0.1 x images / 256, at most 0.4, or 0.05 for nets without batch norm;
 * AdamW 0.004 x sqrt(images / 256), at most 0.004, or for nets without batch norm a quarter of that, at most 0.002. Nets with
 * depthwise convolutions have a third of SGD's; runs of n_steps below 100 have n_steps / 100 of all that. */
COMET_API double comet_default_rate(const comet_net *net, comet_optimiser_kind optimiser, uint64_t images_per_update,
                                    uint64_t n_steps);

/* ---- a whole run ---- */

typedef enum comet_event_kind {
    COMET_EVENT_START,      /* memory is known, nothing computed */
    COMET_EVENT_STEP,       /* after each update */
    COMET_EVENT_EPOCH,      /* after evaluation */
    COMET_EVENT_CHECKPOINT, /* written; or not, then `text` says why */
    COMET_EVENT_ASSESS,     /* bounds were assessed in this step: see comet_model_describe_assessment */
    COMET_EVENT_NOTE,       /* `text` is a sentence for the user: images skipped, an older checkpoint used, early stop ... */
    COMET_EVENT_END,
    COMET_EVENT_RATE,     /* an update of comet_rate_find: its step, rate and train_loss; the fields of a run are not set */
    COMET_EVENT_TEST,     /* an evaluation goes on: see n_tested. After its first batch, then at most 20 times a second */
    COMET_EVENT_TIMELINE, /* this step was traced: see comet_model_describe_trace. The first step, the one after bounds have
                           * settled or the last of the first epoch, and the last */
} comet_event_kind;

/* What is happening. The library sets size; a later one may know more fields. Pointers are valid during the call. */
typedef struct comet_train_event {
    size_t size;
    comet_event_kind kind;
    const char *text; /* or NULL */
    const comet_model *model;
    uint64_t step, n_steps;                            /* updates done, and in the whole run */
    uint64_t epoch, n_epochs;                          /* epochs done, and begun by the end of the run */
    double rate;                                       /* of the last update */
    double train_loss, train_top1;                     /* step: of that step; epoch: means over the epoch. Shares from 0 to 1 */
    double test_loss, test_top1, test_top5, best_top1; /* epoch and end */
    double seconds;                                    /* since the run began, without the time between its processes */
    double train_seconds;                              /* of them, training alone: evaluation and saving do not count */
    double images_per_s;                               /* in train_seconds */
    double wait_share;                                 /* of training time spent waiting for the loader */
    uint64_t n_skipped;                                /* broken images of the training part */
    uint64_t n_test_skipped;                           /* broken images of the last evaluation */
    double start_loss;                                 /* training loss of the first 10 updates, a mean; NaN: not known yet */
    double lowest_loss;                                /* lowest fading mean over 10 updates since then; NaN: not known yet */
    uint64_t data_bytes; /* data sets, and the most of the loaders' queues so far, beside the batch that the model reads */
    uint64_t peak_rss_bytes;
    bool checkpoint_ok;
    bool finished;          /* start: nothing is left to do */
    bool stopped;           /* end: by the stop flag, before the last step */
    double process_seconds; /* since this process began or resumed the run */
    double wait_seconds;    /* of train_seconds, spent waiting for the loader */
    double eval_seconds;    /* epoch: of its evaluation; 0: there is no test data */
    uint64_t n_tested;      /* test: images scored so far, of n_to_test */
    uint64_t n_to_test;
    uint32_t n_ranks;              /* that train together; 1: this process alone. Of the arrays below, which are NULL then */
    const double *rank_waited;     /* seconds that each rank has waited for others, as of the last update */
    const uint64_t *rank_peaks;    /* peak_rss_bytes of each rank, as of the last epoch, or the end */
    uint64_t exchange_sent_bytes;  /* by all ranks in this process's steps, for gradients and what is exchanged with them, */
    uint64_t exchange_plain_bytes; /* and what they would be as floats; as of the last epoch, or the end */
    const double *rank_trained;    /* seconds that each rank has spent in updates; rank_waited is part of them */
} comet_train_event;

typedef struct comet_train_params {
    size_t size;
    const comet_net *net;
    comet_dataset *train_data, *test_data; /* test_data may be NULL */
    comet_model_params model;
    comet_schedule schedule;
    uint32_t epochs;
    uint64_t max_steps; /* stop after so many updates; 0: epochs decide */
    bool no_augment;
    uint32_t loader_threads;
    uint32_t queue;      /* batches that are prepared ahead; 0: as many as spare waits, at most COMET_LOADER_QUEUE */
    const char *out;     /* folder for checkpoints, created if missing; NULL: none are written */
    bool resume;         /* go on from the newest good checkpoint in `out`, if there is one */
    const char *weights; /* safetensors to begin from, or NULL; what was loaded is told in a note */
    comet_weights_rule weights_rule; /* what may differ between that file and the net */
    uint64_t save_steps;             /* a checkpoint every so many updates, besides one each epoch; 0: none */
    uint32_t patience;               /* early stop after so many epochs without a better top-1; 0: never */
    const char *log;    /* path of a log that the caller keeps, noted in `out`; NULL: none. Nothing is written to it */
    const char *dump;   /* folder for the saved activations of one step, see comet_model_dump; NULL: none */
    uint64_t dump_step; /* which, from 1; the first of this run where that one is over already */
    void (*event)(void *user, const comet_train_event *event); /* may be NULL */
    void *user;
    const volatile sig_atomic_t *stop; /* set by a signal handler: finish the step, save, leave. May be NULL */
} comet_train_params;

/* SGD, one-cycle at rate 0.1, 10 epochs, batch 128; weights may be for another number of classes. comet_default_rate tells a
 * rate that suits net and batch. */
COMET_API void comet_train_params_init(comet_train_params *params);

typedef struct comet_train_result {
    size_t size;
    bool stopped; /* by the stop flag, before the last step */
    bool unsaved; /* checkpoints were asked for, and that of the last step could not be written */
    /* True only of runs that ended after 50 updates or more: */
    bool never_fell;        /* lowest_loss is not below start_loss */
    bool only_guesses;      /* lowest_loss is not below log(classes), the loss of a guess */
    comet_train_event last; /* as given to the end event; its model and text are NULL. Stays the last field: events may grow */
} comet_train_result;

COMET_API void comet_train_result_init(comet_train_result *result);

/* Runs to the end, or until stopped. With params->model.ranks every rank calls it with the same parameters, each with its own
 * share of the batch in params->model.batch; rank 0 reads and writes `out`, figures of events are of all ranks, and stop flags
 * count on any of them. A checkpoint (docs/checkpoints.md) holds weights, statistics, optimiser, step and position
 * in the data; going on from it gives the same bits as never having stopped. COMET_ERROR_DIVERGED where the loss is no longer
 * finite: the sentence says at which step and layer it began, and the last good checkpoint stays. *result is then unchanged. */
COMET_API comet_status comet_train_run(const comet_train_params *params, comet_train_result *result);

typedef struct comet_rate_search {
    size_t size;
    double rate;           /* that was chosen; the default where none was found */
    bool found;            /* false: the loss did not fall with any rate, or the stop flag ended the test */
    bool stopped;          /* by the stop flag of any rank */
    uint32_t n_steps;      /* that were tried, at most 100 */
    double rate_at_lowest; /* where the loss was lowest */
    double start_loss, lowest_loss;
} comet_rate_search;

COMET_API void comet_rate_search_init(comet_rate_search *result);

/* A range test for params->schedule.rate, which is not read: up to 100 updates of a model of its own, from the same weights and
 * data as the run would begin with, whose rate grows until the loss rises. Sends COMET_EVENT_RATE after each. Needs the memory
 * of a run, and frees it. */
COMET_API comet_status comet_rate_find(const comet_train_params *params, comet_rate_search *result);

typedef struct comet_thread_choice {
    size_t size;
    uint32_t n_threads;          /* that were chosen, for params->model.n_threads */
    bool timed;                  /* other programs were busy, and steps were timed; else there is one thread per core */
    double seconds, seconds_all; /* of a timed step with that number, and with one per core */
} comet_thread_choice;

COMET_API void comet_thread_choice_init(comet_thread_choice *choice);

/* Chooses a number of threads for the run; params->model.n_threads is not read. On an idle machine, and for runs of fewer than
 * 64 updates, that is one per core, found in 40 ms. Where other programs are busy, a few steps of models of their own are
 * timed: with one thread per core, with fewer, and so on as long as fewer are faster. Needs the memory of a run without
 * compression, or, where that is not free, of a run, and frees it. The number changes rounding: keep it for the whole run, and
 * give the number itself where results must be repeated. */
COMET_API comet_status comet_threads_choose(const comet_train_params *params, comet_thread_choice *choice);

typedef struct comet_convolution_choice {
    size_t size;
    char *choices;          /* comet_model_params.convolution_choices; the caller frees it with comet_text_free */
    uint32_t n_passes;      /* forward and backward passes of layers that had a choice */
    uint32_t n_winograd;    /* of them, computed by Winograd from now on */
    uint32_t n_unlike_rule; /* of them, computed otherwise than COMET_CONVOLUTIONS_RULE does */
    double seconds;         /* that the trial took */
} comet_convolution_choice;

COMET_API void comet_convolution_choice_init(comet_convolution_choice *choice);

/* Times Winograd and direct convolution on made-up numbers, with the batch and threads of `params`, for every pass of a 3 x 3
 * convolution that both can compute. What the rule says stands unless the other is faster by 3 %. Takes about 3 seconds, more
 * for large images. Allocates the tensors of one layer at a time, and frees them. Choices change rounding, and differ from
 * trial to trial: keep them for the whole run. */
COMET_API comet_status comet_convolutions_choose(const comet_net *net, const comet_model_params *params,
                                                 comet_convolution_choice *choice);

/* COMET_ERROR_ARGUMENT, with both shapes, unless images of `data` are what `net` takes and the net gives one score to each of
 * its classes, or more. `what` goes into the sentence: "training", "test". */
COMET_API comet_status comet_model_check_data(const comet_net *net, const comet_dataset *data, const char *what);

#ifdef __cplusplus
}
#endif

#endif
