/*
 * Inside of a run: what trainer.c (steps and epochs), trainer_start.c (checks, checkpoint or weights, loader), trainer_tell.c
 * (events and checkpoints) and trainer_evaluate.c share.
 */
#ifndef COMET_TRAIN_RUN_TRAINER_PRIVATE_H
#define COMET_TRAIN_RUN_TRAINER_PRIVATE_H

#include "comet/ranks.h"
#include "comet/train.h"
#include "train/files/checkpoint.h"

/* Assessments after which bounds have settled: they double at each from narrow ones. */
enum { TEXT_BYTES = 768, SETTLED_ASSESSMENTS = 3 };

typedef struct trainer {
    const comet_train_params *p;
    comet_model *model;
    comet_loader *loader; /* of the training data; NULL while there is none */
    int lock;             /* of the folder of checkpoints */
    uint64_t accumulate, batches_per_epoch, steps_per_epoch, n_steps, n_epochs;
    checkpoint_state state;
    checkpoint_data data;
    char *classes, *input; /* what `data` points to */
    bool saved;            /* is there a checkpoint? */
    uint64_t saved_step;   /* of the newest */
    /* this process alone */
    double began, train_seconds;
    double seconds_before;      /* that the processes before this one took */
    comet_loader_stats earlier; /* of the training loaders before this one, and the last one's queue */
    uint64_t queue_bytes;       /* the most that a loader had, beside the data sets and the batch that the model reads */
    uint64_t n_images, n_skipped_told;
    double rate, step_loss, step_top1; /* of the last update */
    double epoch_loss, epoch_top1;     /* means of the last epoch that ended */
    uint64_t n_test_skipped;           /* broken images of the last evaluation */
    uint64_t n_assessments;            /* told so far */
    uint64_t n_withdrawals;            /* of bounds, so far */
    bool withdrew;                     /* in the last step */
    bool stopped, early, dumped;
    double eval_seconds;         /* of the last evaluation */
    bool traced_settled, traced; /* the step that is traced when bounds have settled; the step at work is traced */
    const comet_ranks *ranks;    /* NULL: it trains alone */
    bool stop_agreed, told_slow;
    double wait_mark, step_waited;    /* seconds that this rank had waited when the step began; in all steps */
    double step_began, steps_seconds; /* of this rank: when the step at work began, 0 between steps; in all steps */
    double *votes;                    /* numbers that go round: N_JOINT, and two of each rank */
    double *rank_waited;              /* with rank_trained: see comet_train_event */
    double *rank_trained;
    uint64_t *rank_peaks;
    uint64_t n_skipped_elsewhere;       /* by other ranks */
    uint64_t sent_bytes, plain_bytes;   /* of all ranks in this training, as of the last trainer_collect */
    uint64_t sent_before, plain_before; /* by this rank, in a search for a rate */
} trainer;

static inline bool stop_asked(const trainer *t)
{
    return t->ranks ? t->stop_agreed : t->p->stop && *t->p->stop;
}

/* Ranks that train together. */
static inline uint32_t rank_count(const trainer *t)
{
    return t->ranks ? t->ranks->n_ranks : 1;
}

static inline bool epoch_is_complete(const trainer *t)
{
    return t->state.batch_in_epoch >= t->steps_per_epoch * t->accumulate;
}

static inline bool is_finished(const trainer *t)
{
    return t->early || (t->state.step >= t->n_steps && !epoch_is_complete(t));
}

static inline comet_loader_stats loader_stats(const comet_loader *loader)
{
    comet_loader_stats stats;
    comet_loader_stats_init(&stats);
    comet_loader_describe(loader, &stats);
    return stats;
}

/* Is there a checkpoint of the last update? */
static inline bool is_saved(const trainer *t)
{
    return t->saved && t->saved_step == t->state.step;
}

/* ---- trainer_load.c ---- */

/* Opens the loader of the training data at the run's position, unless it is open. */
comet_status trainer_open_loader(trainer *t);
/* Closes it, so that another may have its memory. */
void trainer_close_loader(trainer *t);
/* Figures of all training loaders so far. */
comet_loader_stats trainer_loaded(const trainer *t);
/* Counts what a loader has now. */
void trainer_count_queue(trainer *t, const comet_loader *loader, const comet_dataset *data);

/* ---- trainer_tell.c ---- */

comet_train_event trainer_event(const trainer *t, comet_event_kind kind, const char *text);
void trainer_send(const trainer *t, const comet_train_event *event);
void trainer_tell(const trainer *t, comet_event_kind kind, const char *text);
void trainer_note(const trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Tells of broken images that were skipped since it was last called. */
void trainer_note_skipped(trainer *t);
/* A checkpoint that cannot be written is told, and training goes on; these fail only where other ranks cannot be reached. */
comet_status trainer_save(trainer *t);
comet_status trainer_save_unless_saved(trainer *t);
comet_status trainer_save_best(trainer *t);
void trainer_look_for_early_stop(trainer *t);

/* ---- trainer_ranks.c: does nothing for a run alone, except trainer_has_files ---- */

comet_status trainer_ranks_begin(trainer *t);
void trainer_ranks_end(trainer *t);
/* What this rank does next. Before the first update all of it is the start. */
void trainer_mark(const trainer *t, comet_rank_phase phase);
/* A step begins: what is waited for from now on counts. */
void trainer_mark_wait(trainer *t);
/* After an update or a batch of test data: is anyone asked to stop, how long has each waited? */
comet_status trainer_agree(trainer *t);
/* Before figures of an epoch or of the end are told: peaks, images skipped, bytes sent. */
comet_status trainer_collect(trainer *t);
/* Rank 0 has loaded a checkpoint, or weights: all begin from there. */
comet_status trainer_take_over(trainer *t);
/* Does this process read and write the folder of the run? */
bool trainer_has_files(const trainer *t);
/* Around all that rank 0 does with files: the others lend it their parts of the optimiser's state until it returns them. */
comet_status trainer_lend_state(const trainer *t);
comet_status trainer_return_state(const trainer *t);

/* ---- trainer_evaluate.c ---- */

/* Scores of the test data. Asked to stop, it leaves them as they were. */
comet_status trainer_evaluate(trainer *t);

/* ---- trainer_start.c ---- */

/* Checks the settings, makes the model, loads a checkpoint or weights and starts the loader. */
comet_status trainer_start(trainer *t);

#endif
