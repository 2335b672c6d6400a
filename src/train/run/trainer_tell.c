/* What a run tells, and the checkpoints it writes. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/status.h"
#include "base/threads.h"
#include "train/data/dataset.h"
#include "train/run/trainer_private.h"

/* ---- events ---- */

comet_train_event trainer_event(const trainer *t, comet_event_kind kind, const char *text)
{
    const comet_loader_stats loader = trainer_loaded(t);
    const bool step = kind == COMET_EVENT_STEP;
    const double process_seconds = comet_seconds() - t->began;
    return (comet_train_event){
        .size = sizeof(comet_train_event),
        .kind = kind,
        .text = text,
        .model = t->model,
        .step = t->state.step,
        .n_steps = t->n_steps,
        .epoch = t->state.epoch,
        .n_epochs = max_u64(t->n_epochs, t->state.epoch), /* a run may go on with fewer steps than it has done */
        .rate = t->rate,
        .train_loss = step ? t->step_loss : t->epoch_loss,
        .train_top1 = step ? t->step_top1 : t->epoch_top1,
        .test_loss = t->state.test_loss,
        .test_top1 = t->state.test_top1,
        .test_top5 = t->state.test_top5,
        .best_top1 = t->state.best_top1 >= 0 ? t->state.best_top1 : NAN,
        .seconds = t->seconds_before + process_seconds,
        .process_seconds = process_seconds,
        .train_seconds = t->train_seconds,
        .images_per_s = t->train_seconds > 0 ? (double)t->n_images / t->train_seconds : 0,
        .wait_seconds = loader.wait_seconds,
        .eval_seconds = kind == COMET_EVENT_EPOCH ? t->eval_seconds : 0,
        .wait_share = t->train_seconds > 0 ? fmin(loader.wait_seconds / t->train_seconds, 1) : 0,
        .n_skipped = loader.n_skipped + t->n_skipped_elsewhere,
        .n_test_skipped = t->n_test_skipped,
        .start_loss = t->state.watch.start,
        .lowest_loss = t->state.watch.lowest,
        .data_bytes = t->queue_bytes + dataset_bytes_together(t->p->train_data, t->p->test_data, true),
        .peak_rss_bytes = comet_peak_rss(),
        .n_ranks = rank_count(t),
        .rank_waited = t->rank_waited,
        .rank_trained = t->rank_trained,
        .rank_peaks = t->rank_peaks,
        .exchange_sent_bytes = t->sent_bytes,
        .exchange_plain_bytes = t->plain_bytes,
    };
}

void trainer_send(const trainer *t, const comet_train_event *event)
{
    if (t->p->event)
        t->p->event(t->p->user, event);
}

void trainer_tell(const trainer *t, comet_event_kind kind, const char *text)
{
    const comet_train_event event = trainer_event(t, kind, text);
    trainer_send(t, &event);
}

void trainer_note(const trainer *t, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    trainer_tell(t, COMET_EVENT_NOTE, text);
}

void trainer_note_skipped(trainer *t)
{
    const comet_loader_stats stats = trainer_loaded(t);
    const uint64_t n = stats.n_skipped + t->n_skipped_elsewhere;
    if (n == t->n_skipped_told)
        return;
    trainer_note(t, "%" PRIu64 " broken image%s skipped so far; the first: %s", n, n == 1 ? "" : "s",
                 stats.n_skipped > 0 ? stats.first_skipped : "that of another rank");
    t->n_skipped_told = n;
}

/* ---- checkpoints ---- */

static void tell_checkpoint(const trainer *t, comet_status status, const char *name)
{
    char text[TEXT_BYTES];
    if (status == COMET_OK)
        snprintf(text, sizeof text, "%s/%s", t->p->out, name);
    else
        snprintf(text, sizeof text, "%s", comet_last_error());
    comet_train_event event = trainer_event(t, COMET_EVENT_CHECKPOINT, text);
    event.checkpoint_ok = status == COMET_OK;
    trainer_send(t, &event);
}

/* A checkpoint that cannot be written is told, and training goes on: the one before is intact. Scores of an evaluation are
 * added to the checkpoint of the same step, so that the previous file stays that of an earlier one. */
static void save(trainer *t)
{
    t->state.seconds = t->seconds_before + comet_seconds() - t->began;
    t->state.log = t->p->log;
    const comet_status status = is_saved(t) ? checkpoint_save_again(t->p->out, t->model, &t->state, &t->data)
                                            : checkpoint_save(t->p->out, t->model, &t->state, &t->data);
    if (status == COMET_OK) {
        t->saved = true;
        t->saved_step = t->state.step;
    }
    tell_checkpoint(t, status, "last.safetensors");
}

static void save_unless_saved(trainer *t)
{
    if (!is_saved(t))
        save(t);
}

static void save_best(trainer *t)
{
    tell_checkpoint(t, checkpoint_save_best(t->p->out, t->model, &t->state, &t->data), "best.safetensors");
}

/* Where this process has files it writes; else it lends others what they need for that. */
static comet_status with_state(trainer *t, void write(trainer *t))
{
    if (!t->p->out)
        return COMET_OK;
    trainer_mark(t, COMET_RANK_FILES);
    if (trainer_has_files(t))
        write(t);
    const comet_status status = trainer_lend_state(t);
    return status == COMET_OK ? trainer_return_state(t) : status;
}

comet_status trainer_save(trainer *t)
{
    return with_state(t, save);
}

comet_status trainer_save_unless_saved(trainer *t)
{
    return with_state(t, save_unless_saved);
}

comet_status trainer_save_best(trainer *t)
{
    return with_state(t, save_best);
}

void trainer_look_for_early_stop(trainer *t)
{
    if (t->p->patience == 0 || t->state.n_worse < t->p->patience)
        return;
    t->early = true;
    trainer_note(t, "early stop: no better top-1 than %.4f for %" PRIu64 " epochs", t->state.best_top1, t->state.n_worse);
}
