/*
 * Checkpoints of a run: everything that going on with the same bits needs, in one file whose rename is the commit.
 *
 *   DIR/last.safetensors       the newest: weights, statistics, optimiser; the state below as JSON in the metadata key "comet",
 *                              the net's text in "net", names of classes in "classes" (class_names.h), how images are
 *                              prepared in "input" (data/preparation.h), adaptive bounds in "bounds" (assess/state.h) as
 *                              numbers in text, what is frozen and rates of layers in "freeze" and "rates" as the run was
 *                              given them
 *   DIR/previous.safetensors   the one before, used where the newest is damaged
 *   DIR/best.safetensors       weights and statistics with the best top-1
 *   DIR/damaged.safetensors    a newest file that could not be read, set aside when the previous one was used
 *   DIR/state.json             the state again, for people, in words; files/state_file.h reads the seconds of the run from it
 *
 * Order of images, augmentation and dropout are functions of (seed, epoch, position) and (seed, step), so the position is the
 * whole state of data order and random numbers. Checkpoints are written after an update only: unfinished gradients are never
 * part of them.
 */
#ifndef COMET_TRAIN_FILES_CHECKPOINT_H
#define COMET_TRAIN_FILES_CHECKPOINT_H

#include "comet/train.h"
#include "train/math/loss_watch.h"

/* What a run is. Fields are u64 or double alone; checkpoint.c lists them. */
typedef struct checkpoint_settings {
    uint64_t batch, accumulate, data;         /* must be the same; `data` is dataset_fingerprint's */
    uint64_t net;                             /* must be the same: hash of the net's text */
    uint64_t seed, threads, n_steps, augment; /* other ones change the bits, and the user is told */
    uint64_t frozen, rates;                   /* graph/groups.h; `frozen` must be the same, the user is told of other rates */
    uint64_t convolutions, recompute;         /* other ones change the bits, and the user is told */
    uint64_t ranks, sync_batch_norm;          /* `batch` is that of all ranks; the user is told of other numbers of them */
    uint64_t onednn, instructions;            /* backend_version, backend_instructions; the user is told of others, too */
    uint64_t precision;                       /* comet_model_precision; the user is told of another one */
    uint64_t optimiser, nesterov;             /* optimiser must be the same */
    uint64_t optimiser_state; /* comet_state_format; in another one the state is rounded, and the user is told */
    double momentum, weight_decay, beta1, beta2, eps, clip_norm, label_smoothing;
    uint64_t schedule;
    double rate, warmup_epochs, factor, every, final_share;
    uint64_t compress, window; /* is anything held within bounds? The level does not change the bits, so it is not in here */
    double noise, sigma;       /* the rule that is in force; the other is 0, and all are where nothing is within bounds */
} checkpoint_settings;

typedef struct checkpoint_state {
    uint64_t step, epoch, batch_in_epoch;   /* updates done; the next batch */
    double loss_sum;                        /* over the epoch so far */
    uint64_t n_images, n_top1;              /* over the epoch so far */
    double test_loss, test_top1, test_top5; /* of the last evaluation; NaN before the first */
    double best_top1;                       /* negative before the first */
    uint64_t n_worse;                       /* epochs since the best */
    uint64_t tested_step;                   /* updates done at the last evaluation; 0: none yet */
    loss_watch watch;
    checkpoint_settings settings;
    /* in state.json alone, so that checkpoints of the same run have the same bytes */
    double seconds;  /* that the run has taken */
    const char *log; /* path of its log, or NULL */
} checkpoint_state;

/* What a checkpoint says of the data, for programs that use its weights: JSON texts, or NULL. The
 * functions take NULL for one without any. */
typedef struct checkpoint_data {
    const char *classes; /* files/class_names.h */
    const char *input;   /* data/preparation.h */
} checkpoint_data;

/* Writes `last` and state.json, or fails and leaves what was there. Weights that are not finite are not written. */
comet_status checkpoint_save(const char *folder, const comet_model *model, const checkpoint_state *state,
                             const checkpoint_data *data);
/* Once more for the same step: replaces `last` and leaves `previous`. */
comet_status checkpoint_save_again(const char *folder, const comet_model *model, const checkpoint_state *state,
                                   const checkpoint_data *data);
comet_status checkpoint_save_best(const char *folder, const comet_model *model, const checkpoint_state *state,
                                  const checkpoint_data *data);

typedef enum checkpoint_found {
    CHECKPOINT_NONE, /* the folder has none: nothing was loaded */
    CHECKPOINT_LAST,
    CHECKPOINT_PREVIOUS, /* the newest is damaged: comet_last_error says how */
} checkpoint_found;

/* Loads the newest good checkpoint. `expected` are the settings of the run that resumes. A setting that must be the same and is
 * not is a failure that names it; `changed` receives the names of others that differ, separated by commas, or "". "bounds" is
 * among them where the file has none for this model, which then begins with new ones. */
#define CHECKPOINT_CHANGED_BYTES 256
comet_status checkpoint_load(const char *folder, comet_model *model, const checkpoint_settings *expected,
                             checkpoint_state *state, checkpoint_found *found, char changed[CHECKPOINT_CHANGED_BYTES]);

/* One run writes to a folder at a time: makes the folder (and those above), locks it, and removes temporary files of
 * runs that were killed. *lock is for checkpoint_unlock. */
comet_status checkpoint_lock(const char *folder, int *lock);
void checkpoint_unlock(int lock);

/* Removes the checkpoints of an earlier run. */
void checkpoint_clear(const char *folder);

#endif
