/*
 * A whole run: epochs of steps, evaluation, checkpoints, resuming.
 *
 *   start       settings checked, memory looked at, model made, checkpoint or weights loaded, loader started
 *   train_step  batches -> gradients -> update
 *   end_epoch   evaluation, best and last checkpoint
 *
 * The position of a run is (step, epoch, batch in epoch), always between two updates; it is what checkpoints hold and the only
 * thing that decides which batches come next. What an epoch leaves over after whole groups of `accumulate` batches is dropped.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/status.h"
#include "base/threads.h"
#include "comet/train.h"
#include "train/assess/state.h"
#include "train/backend/parallel.h"
#include "train/checkpoint.h"
#include "train/data/dataset.h"
#include "train/math/optimiser.h"
#include "train/math/schedule.h"
#include "train/run/trainer.h"

enum { DEFAULT_EPOCHS = 10, DEFAULT_BATCH = 128, QUEUE = 3, TEXT_BYTES = 768, MAX_ACCUMULATE = 65536 };

typedef struct trainer {
    const comet_train_params *p;
    comet_model *model;
    comet_loader *loader;
    int lock; /* of the folder of checkpoints */
    uint64_t accumulate, batches_per_epoch, steps_per_epoch, n_steps, n_epochs;
    checkpoint_state state;
    bool saved;          /* is there a checkpoint? */
    uint64_t saved_step; /* of the newest */
    /* this process alone */
    double began, train_seconds;
    uint64_t n_images, n_skipped_told, test_bytes;
    double rate, step_loss, step_top1; /* of the last update */
    double epoch_loss, epoch_top1;     /* means of the last epoch that ended */
    uint64_t n_test_skipped;           /* broken images of the last evaluation */
    uint64_t n_assessments;            /* told so far */
    uint64_t n_withdrawals;            /* of bounds, so far */
    bool withdrew;                     /* in the last step */
    bool stopped, early, dumped;
} trainer;

void comet_train_params_init(comet_train_params *params)
{
    memset(params, 0, sizeof *params);
    params->size = sizeof *params;
    comet_model_params_init(&params->model);
    params->model.batch = DEFAULT_BATCH;
    comet_schedule_init(&params->schedule, COMET_SCHEDULE_ONECYCLE, 0.1);
    params->epochs = DEFAULT_EPOCHS;
}

/* ---- events ---- */

static comet_train_event event_of(const trainer *t, comet_event_kind kind, const char *text)
{
    const comet_loader_stats loader = t->loader ? comet_loader_stats_get(t->loader) : (comet_loader_stats){0};
    const bool step = kind == COMET_EVENT_STEP;
    return (comet_train_event){
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
        .seconds = comet_now() - t->began,
        .train_seconds = t->train_seconds,
        .images_per_s = t->train_seconds > 0 ? (double)t->n_images / t->train_seconds : 0,
        .wait_share = t->train_seconds > 0 ? fmin(loader.wait_seconds / t->train_seconds, 1) : 0,
        .n_skipped = loader.n_skipped,
        .n_test_skipped = t->n_test_skipped,
        .start_loss = t->state.watch.start,
        .lowest_loss = t->state.watch.lowest,
        .data_bytes = loader.bytes + t->test_bytes,
        .peak_rss_bytes = comet_peak_rss(),
    };
}

static void send(const trainer *t, const comet_train_event *event)
{
    if (t->p->event)
        t->p->event(t->p->user, event);
}

static void tell(const trainer *t, comet_event_kind kind, const char *text)
{
    const comet_train_event event = event_of(t, kind, text);
    send(t, &event);
}

static void note(const trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const trainer *t, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tell(t, COMET_EVENT_NOTE, text);
}

static void note_skipped(trainer *t)
{
    const comet_loader_stats stats = comet_loader_stats_get(t->loader);
    if (stats.n_skipped == t->n_skipped_told)
        return;
    note(t, "%" PRIu64 " broken image%s skipped so far; the first: %s", stats.n_skipped, stats.n_skipped == 1 ? "" : "s",
         stats.first_skipped);
    t->n_skipped_told = stats.n_skipped;
}

/* Told once: every evaluation reads the same images. */
static void note_test_skipped(trainer *t, const comet_loader_stats *stats)
{
    if (stats->n_skipped > t->n_test_skipped)
        note(t, "%" PRIu64 " broken test image%s skipped, the next readable one was scored instead; the first: %s",
             stats->n_skipped, stats->n_skipped == 1 ? "" : "s", stats->first_skipped);
    t->n_test_skipped = stats->n_skipped;
}

/* ---- checkpoints ---- */

static void tell_checkpoint(const trainer *t, comet_status status, const char *name)
{
    char text[TEXT_BYTES];
    if (status == COMET_OK)
        snprintf(text, sizeof text, "%s/%s", t->p->out, name);
    else
        snprintf(text, sizeof text, "%s", comet_last_error());
    comet_train_event event = event_of(t, COMET_EVENT_CHECKPOINT, text);
    event.checkpoint_ok = status == COMET_OK;
    send(t, &event);
}

/* Is there a checkpoint of the last update? */
static bool is_saved(const trainer *t)
{
    return t->saved && t->saved_step == t->state.step;
}

/* A checkpoint that cannot be written is told, and training goes on: the one before is intact. Scores of an evaluation are
 * added to the checkpoint of the same step, so that the previous file stays that of an earlier one. */
static void save(trainer *t)
{
    if (!t->p->out)
        return;
    const comet_status status =
        is_saved(t) ? checkpoint_save_again(t->p->out, t->model, &t->state) : checkpoint_save(t->p->out, t->model, &t->state);
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

static void save_best(const trainer *t)
{
    if (t->p->out)
        tell_checkpoint(t, checkpoint_save_best(t->p->out, t->model, &t->state), "best.safetensors");
}

/* ---- one step ---- */

static bool stop_asked(const trainer *t)
{
    return t->p->stop && *t->p->stop;
}

enum { KEPT_BYTES = TEXT_BYTES / 2 };

/* What a run that fails leaves behind, for the end of its sentence. */
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
    const comet_status status = model_go_back(t->model);
    if (status != COMET_OK)
        return status;
    save(t);
    kept_text(t, kept);
    return comet_fail(COMET_ERROR_IO, "step %" PRIu64 ": %s%s", t->state.step + 1, why, t->saved ? kept : "; nothing is kept");
}

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

/* Forward and backward of the next batch, the `offset`-th since the last update; its scores are added to *sum. */
static comet_status train_batch(trainer *t, uint64_t offset, comet_scores *sum)
{
    comet_batch batch;
    comet_scores scores = {0};
    bool end = false;
    comet_status status = comet_loader_next(t->loader, &batch, &end);
    if (status != COMET_OK)
        return status;
    if (end)
        return comet_fail(COMET_ERROR_CORRUPT, "the loader ended before the run");
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
        tell(t, COMET_EVENT_ASSESS, NULL);
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
                 f->n_nonfinite, f->nonfinite_layer);
    else
        snprintf(why, sizeof why, "the loss of a batch was far above that of the steps before (is the rate too high?)");
    note(t, "step %" PRIu64 ": %s; until bounds are known again tensors are near-lossless", t->state.step, why);
}

static void tell_compression(trainer *t)
{
    const comet_compression_figures f = comet_model_compression(t->model);
    tell_assessment(t, &f);
    tell_withdrawal(t, &f);
}

static comet_status train_step(trainer *t)
{
    const double began = comet_now();
    comet_scores sum = {0};
    comet_status status = model_keep(t->model);
    t->rate = comet_schedule_rate(&t->p->schedule, t->state.step, t->n_steps, t->steps_per_epoch);
    for (uint64_t i = 0; i < t->accumulate && status == COMET_OK; i++)
        status = train_batch(t, i, &sum);
    if (status == COMET_OK && !t->p->model.fused_update)
        status = comet_model_update(t->model, t->rate, t->state.step);
    if (status != COMET_OK)
        return status;
    t->state.step++;
    t->state.batch_in_epoch += t->accumulate;
    tally(t, &sum);
    t->train_seconds += comet_now() - began;
    tell_compression(t);
    tell(t, COMET_EVENT_STEP, NULL);
    return COMET_OK;
}

/* ---- evaluation ---- */

typedef struct test_sums {
    double loss;
    uint64_t n, n_top1, n_top5;
} test_sums;

static comet_status test_batches(trainer *t, comet_loader *loader, test_sums *sums)
{
    while (!stop_asked(t)) {
        comet_batch batch;
        comet_scores scores;
        bool end = false;
        comet_status status = comet_loader_next(loader, &batch, &end);
        if (status != COMET_OK || end)
            return status;
        status = comet_model_evaluate(t->model, batch.images, batch.labels, batch.n_valid, &scores);
        comet_loader_release(loader, &batch);
        if (status != COMET_OK)
            return status;
        sums->loss += scores.loss * scores.n_valid;
        sums->n += scores.n_valid;
        sums->n_top1 += scores.n_top1;
        sums->n_top5 += scores.n_top5;
    }
    return COMET_OK;
}

static void keep_test(trainer *t, const test_sums *sums)
{
    const double n = (double)sums->n;
    t->state.test_loss = sums->loss / n;
    t->state.test_top1 = (double)sums->n_top1 / n;
    t->state.test_top5 = (double)sums->n_top5 / n;
    if (isfinite(t->state.test_loss) && t->state.test_top1 > t->state.best_top1) {
        t->state.best_top1 = t->state.test_top1;
        t->state.n_worse = 0;
    } else {
        t->state.n_worse++;
    }
}

/* Scores of the test data. Asked to stop, it leaves them as they were. */
static comet_status evaluate(trainer *t)
{
    comet_loader_params params;
    comet_loader *loader = NULL;
    test_sums sums = {0};
    if (!t->p->test_data)
        return COMET_OK;
    comet_loader_params_init(&params);
    params.batch = t->p->model.batch;
    params.n_threads = t->p->loader_threads;
    params.seed = t->p->model.seed;
    comet_status status = comet_loader_create(&loader, t->p->test_data, &params);
    if (status == COMET_OK)
        status = test_batches(t, loader, &sums);
    if (loader) {
        const comet_loader_stats stats = comet_loader_stats_get(loader);
        t->test_bytes = stats.bytes;
        if (status == COMET_OK && !stop_asked(t))
            note_test_skipped(t, &stats);
    }
    comet_loader_destroy(loader);
    if (status == COMET_OK && sums.n > 0 && !stop_asked(t))
        keep_test(t, &sums);
    return status;
}

/* ---- an epoch's end ---- */

static bool epoch_is_complete(const trainer *t)
{
    return t->state.batch_in_epoch >= t->steps_per_epoch * t->accumulate;
}

static comet_status drop_leftover(trainer *t)
{
    comet_status status = COMET_OK;
    for (uint64_t i = t->steps_per_epoch * t->accumulate; i < t->batches_per_epoch && status == COMET_OK; i++) {
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

static void look_for_early_stop(trainer *t)
{
    if (t->p->patience == 0 || t->state.n_worse < t->p->patience)
        return;
    t->early = true;
    note(t, "early stop: no better top-1 than %.4f for %" PRIu64 " epochs", t->state.best_top1, t->state.n_worse);
}

/* Saves, evaluates, and saves the scores. What is saved first has its position at the end of the epoch, and so does a run that
 * is stopped during the evaluation: the evaluation comes again after resuming. `whole` is false where max_steps ended the run
 * inside an epoch. */
static comet_status end_epoch(trainer *t, bool whole)
{
    const double best_before = t->state.best_top1;
    close_means(t);
    if (t->p->test_data)
        save_unless_saved(t);
    comet_status status = evaluate(t);
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
    tell(t, COMET_EVENT_EPOCH, NULL);
    note_skipped(t);
    if (t->state.best_top1 > best_before)
        save_best(t);
    save(t);
    look_for_early_stop(t);
    return status;
}

/* ---- the start ---- */

static comet_status net_hash(const comet_net *net, uint64_t *hash)
{
    char *text = NULL;
    const comet_status status = comet_net_write(net, &text);
    if (status == COMET_OK)
        *hash = comet_checksum(text, strlen(text));
    comet_text_free(text);
    return status;
}

/* Without the hashes. */
static checkpoint_settings settings_of(const trainer *t)
{
    const comet_train_params *p = t->p;
    const comet_optimiser *o = &p->model.optimiser;
    const comet_compression *c = &p->model.compression;
    const bool lossy = c->mode >= COMET_COMPRESS_FAST;
    return (checkpoint_settings){
        .batch = p->model.batch,
        .accumulate = t->accumulate,
        .seed = p->model.seed,
        .threads = parallel_threads(),
        .n_steps = t->n_steps,
        .augment = !p->no_augment,
        .winograd = !p->model.no_winograd,
        .recompute = !p->model.no_recompute,
        .optimiser = (uint64_t)o->kind,
        .nesterov = o->nesterov,
        .momentum = (double)o->momentum,
        .weight_decay = (double)o->weight_decay,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = o->eps,
        .clip_norm = (double)o->clip_norm,
        .label_smoothing = (double)p->model.label_smoothing,
        .schedule = (uint64_t)p->schedule.kind,
        .rate = p->schedule.rate,
        .warmup_epochs = p->schedule.warmup_epochs,
        .factor = p->schedule.factor,
        .every = p->schedule.every,
        .final_share = p->schedule.final_share,
        .compress = lossy,
        .noise = lossy && !(c->sigma > 0) ? c->noise : 0,
        .sigma = lossy && c->sigma > 0 ? c->sigma : 0,
        .window = lossy ? c->window : 0,
    };
}

comet_status comet_model_check_data(const comet_net *net, const comet_dataset *data, const char *what)
{
    const comet_dataset_info d = comet_dataset_describe(data);
    const comet_shape in = comet_net_shape(net, 0), out = comet_net_shape(net, comet_net_n_values(net) - 1);
    if (in.channels != d.channels || in.height != d.height || in.width != d.width)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "net %s takes images of %" PRIu32 " x %" PRIu32 " x %" PRIu32 ", the %s data has %" PRIu32
                          " x %" PRIu32 " x %" PRIu32,
                          comet_net_name(net), in.channels, in.height, in.width, what, d.channels, d.height, d.width);
    if (out.channels < d.n_classes || out.height != 1 || out.width != 1)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "net %s gives %" PRIu32 " x %" PRIu32 " x %" PRIu32 " scores, the %s data has %" PRIu32 " classes",
                          comet_net_name(net), out.channels, out.height, out.width, what, d.n_classes);
    return COMET_OK;
}

static comet_status check_params(const comet_train_params *p)
{
    if (p->size != sizeof *p)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_train_params was not set by comet_train_params_init");
    if (!p->net || !p->train_data)
        return comet_fail(COMET_ERROR_ARGUMENT, "a run needs a net and data");
    if (p->model.batch == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "the batch is 0; it must be 1 or more");
    if (p->model.accumulate > MAX_ACCUMULATE)
        return comet_fail(COMET_ERROR_ARGUMENT, "accumulate is %" PRIu32 "; it must be 1 to %d", p->model.accumulate,
                          MAX_ACCUMULATE);
    if (p->epochs == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "epochs is 0; it must be 1 or more");
    if (p->resume && !p->out)
        return comet_fail(COMET_ERROR_ARGUMENT, "resuming needs the folder of the checkpoints");
    if (p->patience > 0 && !p->test_data)
        return comet_fail(COMET_ERROR_ARGUMENT, "early stop needs test data");
    return COMET_OK;
}

static comet_status check_settings(const comet_train_params *p)
{
    comet_status status = check_params(p);
    if (status == COMET_OK)
        status = optimiser_check(&p->model.optimiser);
    if (status == COMET_OK)
        status = schedule_check(&p->schedule);
    if (status == COMET_OK)
        status = comet_model_check_data(p->net, p->train_data, "training");
    if (status == COMET_OK && p->test_data)
        status = comet_model_check_data(p->net, p->test_data, "test");
    return status;
}

static comet_status plan_steps(trainer *t)
{
    const comet_train_params *p = t->p;
    const uint64_t n_images = comet_dataset_describe(p->train_data).n_images;
    t->accumulate = p->model.accumulate > 1 ? p->model.accumulate : 1;
    t->batches_per_epoch = n_images / p->model.batch;
    t->steps_per_epoch = t->batches_per_epoch / t->accumulate;
    if (t->steps_per_epoch == 0)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "the training data has %" PRIu64 " images, fewer than one step takes (batch %" PRIu32
                          ", accumulated %" PRIu64 "); use a smaller batch",
                          n_images, p->model.batch, t->accumulate);
    t->n_steps = t->steps_per_epoch * p->epochs;
    if (p->max_steps > 0 && p->max_steps < t->n_steps)
        t->n_steps = p->max_steps;
    t->n_epochs = ceil_div_u64(t->n_steps, t->steps_per_epoch);
    return COMET_OK;
}

/* The loader's queue beside the model, one for training and one for evaluation. */
static comet_status check_memory(const comet_train_params *p)
{
    const comet_dataset_info d = comet_dataset_describe(p->train_data);
    const uint64_t image = (uint64_t)d.channels * d.height * d.width * sizeof(float);
    return comet_model_check_memory(p->net, &p->model, image * (p->test_data ? 2 : 1) * (QUEUE + 1));
}

static comet_status resume(trainer *t, checkpoint_found *found)
{
    char changed[CHECKPOINT_CHANGED_BYTES], why[TEXT_BYTES / 2];
    const checkpoint_settings expected = t->state.settings;
    const comet_status status = checkpoint_load(t->p->out, t->model, &expected, &t->state, found, changed);
    if (status != COMET_OK || *found == CHECKPOINT_NONE)
        return status;
    snprintf(why, sizeof why, "%s", comet_last_error());
    t->saved = true;
    t->saved_step = t->state.step;
    if (*found == CHECKPOINT_PREVIOUS)
        note(t, "the newest checkpoint cannot be used (%s); going on from the one before", why);
    if (t->state.step < t->n_steps)
        note(t, "going on from %s at step %" PRIu64 " of %" PRIu64, t->p->out, t->state.step, t->n_steps);
    else
        note(t, "the run in %s is finished: it has done %" PRIu64 " steps, and %" PRIu64 " were asked for", t->p->out,
             t->state.step, t->n_steps);
    if (changed[0] != '\0')
        note(t, "not as before: %s; the results are not those of a run that was never interrupted", changed);
    return COMET_OK;
}

static comet_status load_start(trainer *t)
{
    checkpoint_found found = CHECKPOINT_NONE;
    t->state = (checkpoint_state){.test_loss = NAN, .test_top1 = NAN, .test_top5 = NAN, .best_top1 = -1};
    t->state.watch = loss_watch_begin();
    t->state.settings = settings_of(t);
    comet_status status = net_hash(t->p->net, &t->state.settings.net);
    if (status == COMET_OK && t->p->out)
        status = dataset_fingerprint(t->p->train_data, &t->state.settings.data);
    if (status == COMET_OK && t->p->resume)
        status = resume(t, &found);
    if (status == COMET_OK && t->p->resume && found == CHECKPOINT_NONE)
        note(t, "%s holds no run yet: this is a new one", t->p->out);
    if (status == COMET_OK && found == CHECKPOINT_NONE && t->p->weights)
        status = comet_weights_load(t->model, t->p->weights);
    if (status == COMET_OK && t->p->out && !t->p->resume)
        checkpoint_clear(t->p->out); /* last: the weights may come from there */
    return status;
}

static comet_status open_loader(trainer *t)
{
    comet_loader_params params;
    const bool past_end = t->state.batch_in_epoch >= t->batches_per_epoch;
    comet_loader_params_init(&params);
    params.batch = t->p->model.batch;
    params.n_threads = t->p->loader_threads;
    params.queue = QUEUE;
    params.seed = t->p->model.seed;
    params.shuffle = true;
    params.augment = !t->p->no_augment;
    params.endless = true;
    params.epoch = t->state.epoch + past_end;
    params.batch_in_epoch = past_end ? 0 : t->state.batch_in_epoch;
    return comet_loader_create(&t->loader, t->p->train_data, &params);
}

static bool is_finished(const trainer *t)
{
    return t->early || (t->state.step >= t->n_steps && !epoch_is_complete(t));
}

comet_status trainer_check(const comet_train_params *p)
{
    trainer t = {.p = p};
    comet_status status = check_settings(p);
    if (status == COMET_OK)
        status = plan_steps(&t);
    return status == COMET_OK ? check_memory(p) : status;
}

static comet_status start(trainer *t)
{
    comet_status status = trainer_check(t->p);
    if (status == COMET_OK)
        status = plan_steps(t);
    if (status == COMET_OK && t->p->out)
        status = checkpoint_lock(t->p->out, &t->lock);
    if (status == COMET_OK)
        status = comet_model_create(&t->model, t->p->net, &t->p->model);
    if (status == COMET_OK)
        status = load_start(t);
    if (status == COMET_OK)
        status = open_loader(t);
    if (status != COMET_OK)
        return status;
    t->n_assessments = comet_model_compression(t->model).n_assessments; /* a checkpoint may bring some */
    look_for_early_stop(t);
    comet_train_event event = event_of(t, COMET_EVENT_START, NULL);
    event.finished = is_finished(t);
    send(t, &event);
    return COMET_OK;
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
            save_unless_saved(t);
            return COMET_OK;
        }
        if (epoch_is_complete(t)) {
            status = end_epoch(t, true);
            continue;
        }
        status = train_step(t);
        if (status == COMET_OK && save_is_due(t))
            save(t);
    }
    return status;
}

/* The evaluation after the last step, where the run ended inside an epoch. */
static comet_status finish(trainer *t)
{
    if (t->state.tested_step == t->state.step)
        return COMET_OK;
    const comet_status status = end_epoch(t, false);
    if (status == COMET_OK && t->state.tested_step != t->state.step) {
        t->stopped = true;
        save_unless_saved(t);
    }
    return status;
}

static void keep_result(const trainer *t, comet_train_result *result)
{
    const bool judged = !t->stopped && t->p->schedule.rate > 0; /* with a rate of 0 nothing was to be learnt */
    const uint32_t n_classes = comet_dataset_describe(t->p->train_data).n_classes;
    comet_train_event event = event_of(t, COMET_EVENT_END, NULL);
    send(t, &event);
    event.model = NULL;
    *result = (comet_train_result){.last = event,
                                   .memory = comet_model_memory(t->model),
                                   .stopped = t->stopped,
                                   .never_fell = judged && loss_watch_never_fell(&t->state.watch, t->state.step),
                                   .only_guesses = judged && loss_watch_only_guesses(&t->state.watch, t->state.step, n_classes),
                                   .unsaved = t->p->out && !is_saved(t)};
}

comet_status comet_train_run(const comet_train_params *params, comet_train_result *result)
{
    trainer t = {.p = params, .lock = -1, .began = comet_now()};
    t.epoch_loss = t.epoch_top1 = t.step_loss = t.step_top1 = NAN;
    comet_status status = start(&t);
    if (status != COMET_OK)
        goto done;
    status = run_epochs(&t);
    if (status == COMET_OK && !t.stopped)
        status = finish(&t);
    if (status == COMET_OK)
        keep_result(&t, result);
done:
    comet_loader_destroy(t.loader);
    comet_model_destroy(t.model);
    checkpoint_unlock(t.lock);
    return status;
}
