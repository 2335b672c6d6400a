/*
 * A whole run: epochs of steps, evaluation, checkpoints, resuming.
 *
 *   start       trainer_start.c: settings checked, memory looked at, model made, checkpoint or weights loaded
 *   train_step  batches -> gradients -> update
 *   end_epoch   trainer_evaluate.c, best and last checkpoint
 *
 * The position of a run is (step, epoch, batch in epoch), always between two updates; it is what checkpoints hold and the only
 * thing that decides which batches come next. What an epoch leaves over after whole groups of `accumulate` batches is dropped.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/status.h"
#include "base/threads.h"
#include "train/assess/assess.h"
#include "train/assess/state.h"
#include "train/data/dataset.h"
#include "train/run/trainer_private.h"

enum { DEFAULT_EPOCHS = 10, DEFAULT_BATCH = 128 };

void comet_train_params_init(comet_train_params *params)
{
    memset(params, 0, sizeof *params);
    params->size = sizeof *params;
    comet_model_params_init(&params->model);
    params->model.batch = DEFAULT_BATCH;
    comet_schedule_init(&params->schedule, COMET_SCHEDULE_ONECYCLE, 0.1);
    params->epochs = DEFAULT_EPOCHS;
    params->weights_rule = COMET_WEIGHTS_NEW_HEAD;
}

enum { KEPT_BYTES = TEXT_BYTES / 2 };

/* What a run that fails has saved, for the end of its sentence. */
static void kept_text(const trainer *t, char text[KEPT_BYTES])
{
    text[0] = '\0';
    if (t->saved)
        snprintf(text, KEPT_BYTES, "; %.300s/last.safetensors holds step %" PRIu64, t->p->out, t->saved_step);
}

/* The loss is no longer finite: where did it begin? */
static comet_status diverged(const trainer *t, const comet_batch *batch, double loss)
{
    char kept[KEPT_BYTES];
    const char *layer = comet_model_first_bad(t->model, batch->images, t->state.step);
    kept_text(t, kept);
    return comet_fail(COMET_ERROR_DIVERGED,
                      "the loss became %f at step %" PRIu64 " (epoch %" PRIu64 ", batch %" PRIu64
                      "), first in %s%s%s%s; a lower "
                      "rate, a longer warm-up or clipping may help",
                      loss, t->state.step + 1, batch->epoch + 1, batch->batch_in_epoch + 1,
                      layer ? "layer '" : "the loss itself", layer ? layer : "", layer ? "'" : "", kept);
}

static comet_status check_position(const trainer *t, const comet_batch *batch, uint64_t offset)
{
    if (batch->epoch == t->state.epoch && batch->batch_in_epoch == t->state.batch_in_epoch + offset)
        return COMET_OK;
    return comet_fail(COMET_ERROR_CORRUPT,
                      "the loader gave batch %" PRIu64 " of epoch %" PRIu64 " instead of %" PRIu64 " of %" PRIu64,
                      batch->batch_in_epoch, batch->epoch, t->state.batch_in_epoch + offset, t->state.epoch);
}

static bool dump_is_due(const trainer *t)
{
    return t->p->dump && !t->dumped && t->state.step + 1 >= t->p->dump_step;
}

/* The disk that activations are spilled to is full or gone: the run is saved as the last update left it. */
static comet_status spill_failed(trainer *t)
{
    char why[TEXT_BYTES / 2], kept[KEPT_BYTES];
    snprintf(why, sizeof why, "%s", comet_last_error());
    if (t->ranks) /* the others are in the middle of the step */
        return comet_fail(COMET_ERROR_IO, "step %" PRIu64 ": %s; --resume goes on from the last checkpoint", t->state.step + 1,
                          why);
    const comet_status status = model_go_back(t->model);
    if (status != COMET_OK)
        return status;
    trainer_save(t);
    kept_text(t, kept);
    return comet_fail(COMET_ERROR_IO, "step %" PRIu64 ": %s%s", t->state.step + 1, why, t->saved ? kept : "; nothing is kept");
}

/* ---- traces ---- */

/* Is the next step one of those that are traced: the first, the one after bounds have settled or the last of the first epoch,
 * and the last? Each is the same step whether the run was interrupted or not. */
static bool trace_is_due(trainer *t)
{
    const uint64_t step = t->state.step + 1;
    const bool settled = !t->traced_settled && (t->n_assessments >= SETTLED_ASSESSMENTS || step == t->steps_per_epoch);
    t->traced_settled |= settled || step > t->steps_per_epoch;
    return step == 1 || settled || step == t->n_steps;
}

static comet_status trace(trainer *t)
{
    t->traced = trace_is_due(t);
    return t->traced ? comet_model_trace(t->model) : COMET_OK;
}

/* ---- one step ---- */

/* Forward and backward, with the activations written to a folder where this step is the one. */
static comet_status gradients(trainer *t, const comet_batch *batch, comet_scores *scores)
{
    const bool dump = dump_is_due(t);
    comet_status status = dump ? comet_model_dump(t->model, t->p->dump) : COMET_OK;
    if (status == COMET_OK)
        status = t->p->model.fused_update
                     ? comet_model_step(t->model, batch->images, batch->labels, t->state.step, t->rate, scores)
                     : comet_model_gradients(t->model, batch->images, batch->labels, t->state.step, scores);
    if (status == COMET_OK && dump)
        status = comet_model_dump(t->model, NULL);
    t->dumped = t->dumped || dump;
    return status == COMET_ERROR_IO && t->p->model.compression.spill_folder ? spill_failed(t) : status;
}

/* A step that writes activations, or spills what it stores, waits for the disk. */
static comet_rank_phase phase_of_step(const trainer *t)
{
    return dump_is_due(t) || t->p->model.compression.spill_folder ? COMET_RANK_FILES : COMET_RANK_STEP;
}

/* Forward and backward of the next batch, the `offset`-th since the last update; its scores are added to *sum. */
static comet_status train_batch(trainer *t, uint64_t offset, comet_scores *sum)
{
    comet_batch batch;
    comet_scores scores = {0};
    bool end = false;
    trainer_mark(t, COMET_RANK_FILES);
    comet_status status = trainer_open_loader(t);
    if (status == COMET_OK)
        status = comet_loader_next(t->loader, &batch, &end);
    if (status != COMET_OK)
        return status;
    if (end)
        return comet_fail(COMET_ERROR_CORRUPT, "the loader ended before the run");
    trainer_mark(t, phase_of_step(t));
    status = check_position(t, &batch, offset);
    if (status == COMET_OK)
        status = gradients(t, &batch, &scores);
    if (status == COMET_OK && !isfinite(scores.loss))
        status = diverged(t, &batch, scores.loss);
    comet_loader_release(t->loader, &batch);
    sum->loss += scores.loss * scores.n_valid;
    sum->n_valid += scores.n_valid;
    sum->n_top1 += scores.n_top1;
    return status;
}

static void tally(trainer *t, const comet_scores *sum)
{
    t->step_loss = sum->loss / sum->n_valid;
    t->step_top1 = (double)sum->n_top1 / sum->n_valid;
    loss_watch_add(&t->state.watch, t->state.step - 1, t->step_loss);
    t->state.loss_sum += sum->loss;
    t->state.n_images += sum->n_valid;
    t->state.n_top1 += sum->n_top1;
    t->n_images += sum->n_valid;
}

static void tell_assessment(trainer *t, const comet_compression_figures *f)
{
    if (f->n_assessments > t->n_assessments)
        trainer_tell(t, COMET_EVENT_ASSESS, NULL);
    t->n_assessments = f->n_assessments;
}

/* Once, where it goes on for several steps. */
static void tell_withdrawal(trainer *t, const comet_compression_figures *f)
{
    const bool withdrew = f->n_withdrawals > t->n_withdrawals, begins = withdrew && !t->withdrew;
    char why[TEXT_BYTES / 2];
    t->n_withdrawals = f->n_withdrawals;
    t->withdrew = withdrew;
    if (!begins)
        return;
    if (f->n_nonfinite > 0)
        snprintf(why, sizeof why, "values that are not finite were saved, %" PRIu64 " in all, the first in layer '%s'",
                 f->n_nonfinite, f->nonfinite_layer ? f->nonfinite_layer : "? (of another rank)");
    else
        snprintf(why, sizeof why, "the loss of a batch was far above that of the steps before (is the rate too high?)");
    trainer_note(t, "step %" PRIu64 ": %s; bounds are narrow until they are known again", t->state.step, why);
}

static void tell_compression(trainer *t)
{
    const comet_compression_figures f = assess_figures(t->model);
    tell_assessment(t, &f);
    tell_withdrawal(t, &f);
}

static comet_status train_step(trainer *t)
{
    const double began = comet_seconds();
    comet_scores sum = {0};
    trainer_mark_wait(t);
    comet_status status = model_keep(t->model);
    if (status == COMET_OK)
        status = trace(t);
    t->rate = comet_schedule_rate(&t->p->schedule, t->state.step, t->n_steps, t->steps_per_epoch);
    for (uint64_t i = 0; i < t->accumulate && status == COMET_OK; i++)
        status = train_batch(t, i, &sum);
    if (status == COMET_OK && !t->p->model.fused_update)
        status = comet_model_update(t->model, t->rate, t->state.step);
    if (status != COMET_OK)
        return status;
    status = trainer_agree(t);
    if (status != COMET_OK)
        return status;
    t->state.step++;
    t->state.batch_in_epoch += t->accumulate;
    tally(t, &sum);
    t->train_seconds += comet_seconds() - began;
    trainer_count_queue(t, t->loader, t->p->train_data);
    trainer_mark(t, COMET_RANK_FILES); /* the log is a file */
    tell_compression(t);
    trainer_tell(t, COMET_EVENT_STEP, NULL);
    if (t->traced)
        trainer_tell(t, COMET_EVENT_TIMELINE, NULL);
    return COMET_OK;
}

/* ---- an epoch's end ---- */

/* Nothing is left over by a loader that was closed: it begins with the next epoch. */
static comet_status drop_leftover(trainer *t)
{
    comet_status status = COMET_OK;
    for (uint64_t i = t->steps_per_epoch * t->accumulate; t->loader && i < t->batches_per_epoch && status == COMET_OK; i++) {
        comet_batch batch;
        bool end = false;
        status = comet_loader_next(t->loader, &batch, &end);
        if (status == COMET_OK && !end)
            comet_loader_release(t->loader, &batch);
    }
    return status;
}

static void close_means(trainer *t)
{
    const double n = t->state.n_images > 0 ? (double)t->state.n_images : NAN;
    t->epoch_loss = t->state.loss_sum / n;
    t->epoch_top1 = (double)t->state.n_top1 / n;
}

/* The others wait for the slowest, so it waits least. */
static void note_slow_rank(trainer *t)
{
    const double worth_telling = 0.2; /* of the time of training */
    const double least_seconds = 60;  /* short runs say little */
    double least = INFINITY, sum = 0;
    uint32_t slowest = 0;
    if (!t->ranks || t->told_slow || t->train_seconds < least_seconds)
        return;
    for (uint32_t i = 0; i < t->ranks->n_ranks; i++) {
        sum += t->rank_waited[i];
        if (t->rank_waited[i] < least) {
            least = t->rank_waited[i];
            slowest = i;
        }
    }
    const double others = (sum - least) / (t->ranks->n_ranks - 1);
    t->told_slow = others - least > worth_telling * t->train_seconds;
    if (t->told_slow)
        trainer_note(t, "rank %u is slow: it waited %.0f s for others, they waited %.0f s on average", slowest, least, others);
}

/* Saves, evaluates, and saves the scores. What is saved first has its position at the end of the epoch, and so does a run that
 * is stopped during the evaluation: the evaluation comes again after resuming. `whole` is false where max_steps ended the run
 * inside an epoch. */
static comet_status end_epoch(trainer *t, bool whole)
{
    const double best_before = t->state.best_top1;
    close_means(t);
    comet_status status = t->p->test_data ? trainer_save_unless_saved(t) : COMET_OK;
    if (status == COMET_OK)
        status = trainer_evaluate(t);
    if (status != COMET_OK || stop_asked(t))
        return status;
    t->state.tested_step = t->state.step;
    if (whole) {
        t->state.epoch++;
        t->state.batch_in_epoch = 0;
        t->state.loss_sum = 0;
        t->state.n_images = t->state.n_top1 = 0;
        status = drop_leftover(t);
    }
    if (status == COMET_OK)
        status = trainer_collect(t);
    if (status != COMET_OK)
        return status;
    trainer_tell(t, COMET_EVENT_EPOCH, NULL);
    trainer_note_skipped(t);
    note_slow_rank(t);
    if (t->state.best_top1 > best_before)
        status = trainer_save_best(t);
    if (status == COMET_OK)
        status = trainer_save(t);
    trainer_look_for_early_stop(t);
    return status;
}

/* ---- the run ---- */

static bool save_is_due(const trainer *t)
{
    return t->p->save_steps > 0 && t->state.step % t->p->save_steps == 0 && !epoch_is_complete(t);
}

static comet_status run_epochs(trainer *t)
{
    comet_status status = COMET_OK;
    while (status == COMET_OK && !is_finished(t)) {
        if (stop_asked(t)) {
            t->stopped = true;
            return trainer_save_unless_saved(t);
        }
        if (epoch_is_complete(t)) {
            status = end_epoch(t, true);
            continue;
        }
        status = train_step(t);
        if (status == COMET_OK && save_is_due(t))
            status = trainer_save(t);
    }
    return status;
}

/* The evaluation after the last step, where the run ended inside an epoch. */
static comet_status finish(trainer *t)
{
    if (t->state.tested_step == t->state.step)
        return COMET_OK;
    const comet_status status = end_epoch(t, false);
    if (status != COMET_OK || t->state.tested_step == t->state.step)
        return status;
    t->stopped = true;
    return trainer_save_unless_saved(t);
}

static comet_status keep_result(trainer *t, comet_train_result *result)
{
    TRY(trainer_collect(t));
    const bool judged = !t->stopped && t->p->schedule.rate > 0; /* with a rate of 0 nothing was to be learnt */
    const uint32_t n_classes = t->p->train_data->info.n_classes;
    comet_train_event event = trainer_event(t, COMET_EVENT_END, NULL);
    event.stopped = t->stopped;
    trainer_send(t, &event);
    event.model = NULL;
    event.rank_waited = NULL;
    event.rank_trained = NULL;
    event.rank_peaks = NULL;
    const comet_train_result ended = {.last = event,
                                      .stopped = t->stopped,
                                      .never_fell = judged && loss_watch_never_fell(&t->state.watch, t->state.step),
                                      .only_guesses =
                                          judged && loss_watch_only_guesses(&t->state.watch, t->state.step, n_classes),
                                      .unsaved = trainer_has_files(t) && !is_saved(t)};
    return GIVE(comet_train_result, result, &ended);
}

void comet_train_result_init(comet_train_result *result)
{
    *result = (comet_train_result){.size = sizeof *result};
}

comet_status comet_train_run(const comet_train_params *params, comet_train_result *result)
{
    trainer t = {.p = params, .lock = -1, .began = comet_seconds()};
    t.epoch_loss = t.epoch_top1 = t.step_loss = t.step_top1 = NAN;
    comet_status status = CHECK_SIZE(comet_train_result, result);
    if (status == COMET_OK)
        status = trainer_ranks_begin(&t);
    if (status == COMET_OK)
        status = trainer_start(&t);
    if (status != COMET_OK)
        goto done;
    status = run_epochs(&t);
    if (status == COMET_OK && !t.stopped)
        status = finish(&t);
    if (status == COMET_OK)
        status = keep_result(&t, result);
done:
    comet_loader_destroy(t.loader);
    comet_model_destroy(t.model);
    free(t.classes);
    free(t.input);
    trainer_ranks_end(&t);
    checkpoint_unlock(t.lock);
    return status;
}
