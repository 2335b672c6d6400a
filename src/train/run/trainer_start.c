/* The start of a run: settings in their ranges, a model with the right weights, a loader at the right batch. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/status.h"
#include "train/assess/assess.h"
#include "train/backend/backend.h"
#include "train/backend/parallel.h"
#include "train/data/dataset.h"
#include "train/data/preparation.h"
#include "train/files/class_names.h"
#include "train/files/state_file.h"
#include "train/graph/conv_choices.h"
#include "train/graph/groups.h"
#include "train/math/optimiser.h"
#include "train/math/schedule.h"
#include "train/run/trainer.h"
#include "train/run/trainer_private.h"

enum { MAX_ACCUMULATE = 65536 };

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
        .batch = (uint64_t)p->model.batch * rank_count(t),
        .ranks = t->ranks ? rank_count(t) : 0,
        .sync_batch_norm = rank_count(t) > 1 && p->model.sync_batch_norm,
        .accumulate = t->accumulate,
        .seed = p->model.seed,
        .threads = parallel_threads(),
        .n_steps = t->n_steps,
        .augment = !p->no_augment,
        .convolutions = (uint64_t)p->model.convolutions,
        .recompute = !p->model.no_recompute,
        .onednn = backend_version(),
        .instructions = backend_instructions(),
        .precision = (uint64_t)comet_model_precision(t->model),
        .optimiser = (uint64_t)o->kind,
        .nesterov = o->nesterov,
        .optimiser_state = (uint64_t)o->state,
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
    const comet_dataset_info d = data->info;
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
    const uint64_t n_images = p->train_data->info.n_images;
    t->accumulate = p->model.accumulate > 1 ? p->model.accumulate : 1;
    t->batches_per_epoch = n_images / ((uint64_t)p->model.batch * rank_count(t));
    t->steps_per_epoch = t->batches_per_epoch / t->accumulate;
    if (t->steps_per_epoch == 0)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "the training data has %" PRIu64 " images, fewer than one step takes (batch %" PRIu32
                          ", accumulated %" PRIu64 "); use a smaller batch",
                          n_images, p->model.batch * rank_count(t), t->accumulate);
    t->n_steps = t->steps_per_epoch * p->epochs;
    if (p->max_steps > 0 && p->max_steps < t->n_steps)
        t->n_steps = p->max_steps;
    t->n_epochs = ceil_div_u64(t->n_steps, t->steps_per_epoch);
    return COMET_OK;
}

/* A loader's queue beside the model: that of the training data or that of the test data, never both. */
static comet_status check_memory(const comet_train_params *p)
{
    const uint64_t train = dataset_row_bytes(p->train_data), test = p->test_data ? dataset_row_bytes(p->test_data) : 0;
    return comet_model_check_memory(p->net, &p->model, max_u64(train, test) * loader_batches(p->queue));
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
    t->seconds_before = state_file_seconds(t->p->out);
    if (*found == CHECKPOINT_PREVIOUS)
        trainer_note(t, "the newest checkpoint cannot be used (%s); going on from the one before", why);
    if (t->state.step < t->n_steps)
        trainer_note(t, "going on from %s at step %" PRIu64 " of %" PRIu64, t->p->out, t->state.step, t->n_steps);
    else
        trainer_note(t, "the run in %s is finished: it has done %" PRIu64 " steps, and %" PRIu64 " were asked for", t->p->out,
                     t->state.step, t->n_steps);
    if (changed[0] != '\0')
        trainer_note(t, "not as before: %s; the results are not those of a run that was never interrupted", changed);
    return COMET_OK;
}

/* Tells what was loaded; of a file that fits in part, tensor by tensor. */
static void tell_fit(const trainer *t, const comet_weights_fit *fit)
{
    enum { MOST_LINES = 40 };
    uint64_t n = 0;
    trainer_tell(t, COMET_EVENT_NOTE, fit->summary);
    if (t->p->weights_rule != COMET_WEIGHTS_PARTIAL)
        return;
    for (const char *line = fit->list; *line != '\0' && n < MOST_LINES; line = strchr(line, '\n') + 1, n++)
        trainer_note(t, "%.*s", (int)strcspn(line, "\n"), line);
    if (fit->n_new + fit->n_left_out > MOST_LINES)
        trainer_note(t, "and %" PRIu64 " more", fit->n_new + fit->n_left_out - MOST_LINES);
}

static comet_status load_weights(trainer *t)
{
    comet_weights_fit fit = {.size = sizeof fit};
    const comet_status status = comet_weights_load_fitting(t->model, t->p->weights, t->p->weights_rule, &fit);
    if (status == COMET_OK)
        tell_fit(t, &fit);
    comet_weights_fit_free(&fit);
    return status;
}

/* What checkpoints say of the data. */
static comet_status describe_data(trainer *t)
{
    comet_status status = class_names_print(t->p->train_data, &t->classes);
    if (status == COMET_OK)
        status = preparation_print(t->p->train_data, &t->input);
    t->data = (checkpoint_data){.classes = t->classes, .input = t->input};
    return status;
}

/* Rank 0 loads for all. */
static bool loads_state(const trainer *t)
{
    return !t->ranks || t->ranks->rank == 0;
}

static comet_status load_state(trainer *t)
{
    checkpoint_found found = CHECKPOINT_NONE;
    comet_status status = t->p->resume ? resume(t, &found) : COMET_OK;
    if (status == COMET_OK && t->p->resume && found == CHECKPOINT_NONE)
        trainer_note(t, "%s holds no run yet: this is a new one", t->p->out);
    if (status == COMET_OK && found == CHECKPOINT_NONE && t->p->weights)
        status = load_weights(t);
    if (status == COMET_OK && t->p->out && !t->p->resume)
        checkpoint_clear(t->p->out); /* last: the weights may come from there */
    return status;
}

static comet_status load_start(trainer *t)
{
    t->state = (checkpoint_state){.test_loss = NAN, .test_top1 = NAN, .test_top5 = NAN, .best_top1 = -1};
    t->state.watch = loss_watch_begin();
    t->state.settings = settings_of(t);
    t->state.settings.frozen = groups_frozen_hash(t->model);
    t->state.settings.rates = groups_rates_hash(t->model);
    comet_status status = net_hash(t->p->net, &t->state.settings.net);
    if (status == COMET_OK && t->p->out)
        status = dataset_fingerprint(t->p->train_data, &t->state.settings.data);
    if (status == COMET_OK && t->p->out)
        status = describe_data(t);
    if (status == COMET_OK && loads_state(t))
        status = load_state(t);
    if (status == COMET_OK)
        status = trainer_lend_state(t);
    if (status == COMET_OK)
        status = trainer_return_state(t);
    return status == COMET_OK ? trainer_take_over(t) : status;
}

comet_status trainer_check(const comet_train_params *p)
{
    trainer t = {.p = p, .ranks = p->model.ranks};
    comet_status status = check_settings(p);
    if (status == COMET_OK)
        status = plan_steps(&t);
    return status == COMET_OK ? check_memory(p) : status;
}

static comet_status create_model(trainer *t)
{
    comet_model_params params = t->p->model;
    params.rate_base = t->p->schedule.rate;
    return comet_model_create(&t->model, t->p->net, &params);
}

comet_status trainer_start(trainer *t)
{
    comet_status status = trainer_check(t->p);
    if (status == COMET_OK && conv_choices_missing(&t->p->model))
        status =
            comet_fail(COMET_ERROR_ARGUMENT, "timed convolutions need choices: those of comet_convolutions_choose or, in a "
                                             "run that goes on, of comet_checkpoint_convolutions");
    if (status == COMET_OK)
        status = trainer_agree(t); /* all have looked at the memory that is free before anyone takes some */
    if (status == COMET_OK)
        status = plan_steps(t);
    if (status == COMET_OK && trainer_has_files(t))
        status = checkpoint_lock(t->p->out, &t->lock);
    if (status == COMET_OK)
        status = create_model(t);
    if (status == COMET_OK)
        status = load_start(t);
    if (status == COMET_OK)
        status = trainer_open_loader(t);
    if (status != COMET_OK)
        return status;
    t->n_assessments = assess_figures(t->model).n_assessments;   /* a checkpoint may bring some */
    t->traced_settled = t->n_assessments >= SETTLED_ASSESSMENTS; /* before the run was interrupted */
    trainer_look_for_early_stop(t);
    comet_train_event event = trainer_event(t, COMET_EVENT_START, NULL);
    event.finished = is_finished(t);
    trainer_send(t, &event);
    return COMET_OK;
}
