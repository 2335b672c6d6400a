/* comet train: a whole run, with checkpoints and a log. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/threads.h"
#include "kit/file_io.h"
#include "kit/number.h"
#include "train/compression_args.h"
#include "train/convolutions.h"
#include "train/figures.h"
#include "train/optimiser_args.h"
#include "train/precision_args.h"
#include "train/rate_args.h"
#include "train/run_config.h"
#include "train/stop_signal.h"
#include "train/train_budget.h"
#include "train/train_ranks.h"
#include "train/train_report.h"
#include "train/train_setup.h"
#include "train/train_threads.h"
#include "verbs.h"

#define WARMUP_SHARE 0.05 /* of a run */
enum { SMALL_IMAGE = 64, SMALL_BATCH = 32, USUAL_BATCH = 128 };

typedef struct train_args {
    net_args net;
    data_args data;
    compression_args compression;
    convolutions_arg convolutions;
    precision_args precision;
    budget_args budget;
    groups_args groups;
    ranks_args ranks;
    uint64_t epochs, accumulate, seed, max_steps, save_steps, patience, n_threads, loader_threads, queue;
    optimiser_args optimiser;
    comet_schedule_kind schedule;
    rate_arg rate;
    double warmup, smoothing; /* negative: not given */
    bool resume, force, no_augment, no_recompute, weights_partial, json;
    const char *log, *out, *weights, *dump;
    uint64_t dump_step; /* 0: not given */
} train_args;

#define AT(field) offsetof(train_args, field)
static const option options[] = {
    OPTION_MODEL(train_args),
    OPTION_NET(train_args),
    OPTION_CLASSES(train_args),
    OPTION_DATA(train_args),
    OPTION_IMAGE(train_args),
    OPTION_IMAGES(train_args),
    OPTION_STRICT(train_args),
    {0, "no-augment", NULL, set_flag, AT(no_augment), "train without random crops, shifts and flips"},
    {0, "epochs", "N", set_count, AT(epochs), "passes over the data (default 10)"},
    {0, "max-steps", "N", set_count, AT(max_steps), "end after N updates; schedules are scaled to it (default: no limit)"},
    {0, "batch", "N|auto", set_batch, AT(budget.batch),
     "images in a step (default 128; 32 for images over 64 px); auto: as many as fit, 8 to 1024"},
    {0, "accumulate", "N", set_count, AT(accumulate), "average the gradients of N batches for each update (default 1)"},
    {0, "seed", "N", set_u64, AT(seed), "seed of weights, order and augmentation (default 0)"},
    OPTION_OPTIMISER(train_args),
    OPTION_STATE(train_args),
    {0, "rate", "R|find", set_rate, AT(rate),
     "largest learning rate (default: computed from the batch); find: a range test of 100 steps"},
    {0, "schedule", "NAME", set_schedule, AT(schedule), "constant, step (x 0.1 twice), cosine or onecycle (default onecycle)"},
    {0, "warmup", "EPOCHS", set_positive, AT(warmup),
     "epochs of linear warm-up; not for onecycle (default 5 % of the run, 0 with --rate R)"},
    {0, "momentum", "M", set_share, AT(optimiser.momentum), "momentum of sgd (default 0.9)"},
    {0, "nesterov", NULL, set_flag, AT(optimiser.nesterov), "Nesterov's momentum"},
    {0, "weight-decay", "W", set_positive, AT(optimiser.weight_decay),
     "weight decay as in PyTorch (default sgd 5e-4, adamw 0.01)"},
    {0, "clip", "NORM", set_positive, AT(optimiser.clip), "largest norm of the whole gradient (default: no limit)"},
    {0, "smoothing", "S", set_share, AT(smoothing), "label smoothing (default 0)"},
    {0, "patience", "N", set_any_count, AT(patience), "stop after N epochs without a better top-1 (default 0: never)"},
    {0, "weights", "FILE", set_text, AT(weights),
     "safetensors or run folder to begin from, also with other classes (default: random)"},
    {0, "weights-partial", NULL, set_flag, AT(weights_partial), "take of --weights what fits the net, and list the rest"},
    OPTION_FREEZE(train_args),
    {0, "rate-of", "PATTERN=R", set_joined, AT(groups.rates),
     "rates of their own: fc=10x (times the run's), fc=0.01 ...; again for more"},
    {0, "out", "DIR", set_text, AT(out), "folder for checkpoints, made if missing (default: none are written)"},
    {0, "resume", NULL, set_flag, AT(resume), "continue from the checkpoint in --out, if there is one"},
    {0, "save-steps", "N", set_count, AT(save_steps),
     "write a checkpoint also every N updates (default: after each epoch only)"},
    {0, "log", "FILE", set_text, AT(log), "JSON lines: start, step, assess, epoch, end ... (default: log.jsonl in --out)"},
    OPTION_JSON(train_args, "print the result as a JSON object, and no tables"),
    {'f', "force", NULL, set_flag, AT(force), "replace the run in --out, the file of --log and files in --dump-activations"},
    OPTION_THREADS(train_args, "threads that compute; 0: one per core (default: fewer where other programs are busy)"),
    {0, "loader-threads", "N", set_threads, AT(loader_threads),
     "threads that decode images (default 0: one per core, at most 4)"},
    OPTION_QUEUE(train_args),
    {0, "compress", "HOW", set_mode, AT(compression.mode),
     "compress saved activations: off, lossless, fast, dense or auto (default auto)"},
    OPTION_NOISE(train_args),
    OPTION_SIGMA(train_args),
    OPTION_OVERHEAD(train_args),
    {0, "memory", "SIZE", set_bytes, AT(budget.memory),
     "stay below 4G, 512MiB ...: compress more, spill, or say what is needed (default: no limit)"},
    {0, "spill", "DIR", set_text, AT(compression.spill),
     "folder for a file with activations that do not fit memory (default: none)"},
    OPTION_CHECKSUMS(train_args),
    {0, "dump-activations", "DIR", set_text, AT(dump),
     "write the saved activations of one step as .npy files to DIR, made if missing"},
    {0, "dump-step", "N", set_count, AT(dump_step), "the step to write, or the first of this run if it is past (default 1)"},
    {0, "convolutions", "HOW", set_convolutions, AT(convolutions),
     "3 x 3 ones: rule (Winograd by shape), timed (a trial chooses) or direct (default rule)"},
    OPTION_PRECISION(train_args),
    OPTION_SYNC_BN(train_args),
    OPTION_SHARD(train_args),
    OPTION_WIRE(train_args),
    OPTION_REDUCE(train_args),
    {0, "no-recompute", NULL, set_flag, AT(no_recompute),
     "keep tensors that backward could compute again: faster without compression, more memory"},
};

typedef struct session {
    comet_net *net;
    comet_dataset *train, *test;
    train_ranks ranks;
} session;

/* ---- settings ---- */

static uint32_t usual_batch(const comet_net *net)
{
    return comet_net_shape(net, 0).height > SMALL_IMAGE ? SMALL_BATCH : USUAL_BATCH;
}

/* NULL where it is empty. */
static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static void fill_model(const train_args *args, comet_model_params *model)
{
    model->seed = args->seed;
    model->label_smoothing = (float)args->smoothing;
    model->convolutions = args->convolutions.value;
    precision_fill(&args->precision, model);
    model->no_recompute = args->no_recompute;
    model->accumulate = (uint32_t)args->accumulate;
    model->freeze = text_or_null(args->groups.freeze);
    model->rates = text_or_null(args->groups.rates);
    optimiser_fill(&args->optimiser, &model->optimiser);
    compression_fill(&args->compression, args->compression.mode.value, &model->compression);
    /* A step that may fail half way, on a full disk, must leave the weights unchanged. */
    model->fused_update = model->accumulate <= 1 && !(model->optimiser.clip_norm > 0);
    model->sync_batch_norm = args->ranks.sync_batch_norm;
    model->shard_optimiser = args->ranks.shard_optimiser;
}

static void fill_params(const train_args *args, const session *s, comet_train_params *p)
{
    comet_train_params_init(p);
    p->net = s->net;
    p->train_data = s->train;
    p->test_data = s->test;
    fill_model(args, &p->model);
    comet_schedule_init(&p->schedule, args->schedule, 0); /* its rate needs the batch: settle_schedule */
    p->epochs = (uint32_t)args->epochs;
    p->max_steps = args->max_steps;
    p->weights_rule = args->weights_partial ? COMET_WEIGHTS_PARTIAL : COMET_WEIGHTS_NEW_HEAD;
    p->no_augment = args->no_augment;
    p->loader_threads = (uint32_t)args->loader_threads;
    p->queue = (uint32_t)args->queue;
    p->out = args->out;
    p->resume = args->resume;
    p->save_steps = args->save_steps;
    p->patience = (uint32_t)args->patience;
    p->model.ranks = s->ranks.together ? &s->ranks.table : NULL;
    p->dump = ranks_is_first(&s->ranks) ? args->dump : NULL;
    p->dump_step = args->dump_step;
    p->event = train_report_event;
    p->stop = &stop_signal_flag;
}

static cli_exit check_args(const train_args *args)
{
    if (args->resume && !args->out)
        return fail(CLI_USAGE, "--resume needs --out DIR, the folder of the run to continue");
    if (args->save_steps > 0 && !args->out)
        return fail(CLI_USAGE, "--save-steps needs --out DIR");
    if (args->warmup > 0 && args->schedule == COMET_SCHEDULE_ONECYCLE)
        return fail(CLI_USAGE, "--warmup has no effect with onecycle, which has its own warm-up; use --schedule cosine");
    if (args->weights_partial && !args->weights)
        return fail(CLI_USAGE, "--weights-partial needs --weights FILE");
    if (args->dump_step > 0 && !args->dump)
        return fail(CLI_USAGE, "--dump-step needs --dump-activations DIR");
    const cli_exit code = optimiser_check_args(&args->optimiser);
    return code == CLI_OK ? compression_check(&args->compression) : code;
}

/* The batch of all ranks together: what is asked for, that of the run that goes on, or what suits the images. */
static cli_exit share_batch(const train_args *args, const session *s, uint64_t earlier, uint32_t *share)
{
    const uint64_t asked = args->budget.batch.value > 0 ? args->budget.batch.value : earlier;
    return ranks_share_batch(&s->ranks, asked > 0 ? asked : usual_batch(s->net), asked > 0, share);
}

/* Makes the folder; files of another step are not mixed with this one's. */
static cli_exit check_dump(const train_args *args)
{
    if (!args->dump)
        return CLI_OK;
    if (args->max_steps > 0 && args->dump_step > args->max_steps)
        return fail(CLI_USAGE, "--dump-step %" PRIu64 " is after --max-steps %" PRIu64, args->dump_step, args->max_steps);
    if (mkdir(args->dump, 0777) == 0)
        return CLI_OK;
    if (errno != EEXIST)
        return fail_errno(CLI_BAD_INPUT, errno, args->dump);
    if (!args->force && rmdir(args->dump) != 0)
        return errno == ENOTDIR ? fail_errno(CLI_BAD_INPUT, errno, args->dump)
                                : fail(CLI_FAILED, "%s is not empty; -f adds files to it", args->dump);
    return args->force || mkdir(args->dump, 0777) == 0 ? CLI_OK : fail_errno(CLI_FAILED, errno, args->dump);
}

/* An earlier run in the folder must neither mix with this one nor be lost by accident. */
static cli_exit check_out(const train_args *args)
{
    static const char *const names[] = {"last.safetensors", "previous.safetensors", "best.safetensors"};
    if (!args->out || args->resume || args->force)
        return CLI_OK;
    for (size_t i = 0; i < N_ITEMS(names); i++) {
        char path[4096];
        if ((size_t)snprintf(path, sizeof path, "%s/%s", args->out, names[i]) < sizeof path && access(path, F_OK) == 0)
            return fail(CLI_FAILED, "%s already holds a run; --resume continues it, -f replaces it", args->out);
    }
    return CLI_OK;
}

/* The run's folder has the log where --log does not name another file. */
static cli_exit open_log(const train_args *args, train_log *log)
{
    if (args->log)
        return train_log_open(log, args->log, args->resume, args->force);
    return args->out ? train_log_open_in(log, args->out) : CLI_OK;
}

/* ---- the budget ---- */

/* What a resumed run keeps unless the command line says otherwise. */
typedef struct run_settings {
    uint64_t batch; /* 0: there is no run, or it is unreadable */
    uint64_t n_threads;
    double rate, warmup; /* negative where there is none */
    comet_convolutions convolutions;
    comet_precision precision;
} run_settings;

/* Without a checkpoint a new run begins; comet_train_run reports a damaged one. */
static run_settings settings_of_run(const train_args *args)
{
    run_settings s = {.rate = -1, .warmup = -1};
    comet_checkpoint_info info = {.size = sizeof info};
    if (args->resume && args->out && comet_checkpoint_describe(args->out, &info) == COMET_OK)
        s = (run_settings){info.batch, info.n_threads, info.rate, info.warmup_epochs, info.convolutions, info.precision};
    return s;
}

/* Chooses batch and compression by the memory, each rank by its own, and all take the least. A resumed run keeps its batch,
 * whatever memory there is now. */
static cli_exit settle_budget(const train_args *args, uint64_t earlier, session *s, comet_train_params *p, train_report *report)
{
    budget_args budget = args->budget;
    char text[COMET_BUDGET_TEXT_BYTES];
    if (!budget_is_asked(&budget, &args->compression))
        return CLI_OK;
    if (earlier > 0 && budget.batch.value == 0)
        budget.batch.automatic = false;
    budget.batch_is_kept = earlier > 0 && p->model.batch == earlier / ranks_count(&s->ranks);
    const char *spill = p->model.compression.spill_folder;
    const cli_exit code = budget_settle(&budget, p, text);
    if (code != CLI_OK)
        return code;
    uint32_t chosen_by = 0;
    const cli_exit agreed = ranks_least_batch(&s->ranks, &p->model, spill, &chosen_by);
    if (chosen_by > 0)
        snprintf(text, sizeof text,
                 "batch %" PRIu32 " for each rank, the choice of rank %" PRIu32 ", which has the least memory", p->model.batch,
                 chosen_by);
    train_report_note(report, text);
    return agreed;
}

/* ---- the rate ---- */

/* Epochs of the run; not a whole number where --max-steps ends it inside one. */
static double epochs_of(const train_args *args, const comet_train_params *p)
{
    const uint64_t n_images = info_of(p->train_data).n_images;
    const uint64_t accumulate = args->accumulate > 0 ? args->accumulate : 1;
    const uint64_t steps = n_images / batch_of_all(&p->model) / accumulate; /* an epoch; 0 is refused later */
    const double all = (double)args->epochs;
    return args->max_steps > 0 && steps > 0 ? fmin(all, (double)args->max_steps / (double)steps) : all;
}

/* A default rate and a found one get a short warm-up; a rate from the command line holds from the first step on. */
static double warmup_of(const train_args *args, const run_settings *earlier, const comet_train_params *p)
{
    if (args->warmup >= 0 || args->rate.value >= 0)
        return fmax(args->warmup, 0);
    if (args->schedule == COMET_SCHEDULE_ONECYCLE)
        return 0;
    return earlier->warmup >= 0 ? earlier->warmup : WARMUP_SHARE * epochs_of(args, p);
}

static uint64_t images_per_update(const comet_train_params *p)
{
    return batch_of_all(&p->model) * (p->model.accumulate > 1 ? p->model.accumulate : 1);
}

static void note_default_rate(const comet_train_params *p, uint64_t n_steps, train_report *report)
{
    char text[160];
    snprintf(text, sizeof text, "rate %.6g, the default for %" PRIu64 " update%s of %" PRIu64 " images; --rate sets another",
             p->schedule.rate, n_steps, n_steps == 1 ? "" : "s", images_per_update(p));
    train_report_note(report, text);
}

/* Rate and warm-up; they need the batch. Schedule `step` decays after each third of the run. */
static void settle_schedule(const train_args *args, const run_settings *earlier, comet_train_params *p, train_report *report)
{
    p->schedule.warmup_epochs = warmup_of(args, earlier, p);
    if (args->schedule == COMET_SCHEDULE_STEP)
        p->schedule.every = epochs_of(args, p) / 3;
    p->schedule.rate = args->rate.value >= 0 ? args->rate.value : earlier->rate;
    report->log.rate_chosen = args->rate.value >= 0 ? "given" : earlier->rate >= 0 ? "resumed" : "default";
    if (args->rate.find && earlier->rate >= 0)
        train_report_note(report, "the resumed run keeps its rate; --rate find is for new runs");
    if (p->schedule.rate >= 0)
        return;
    const uint64_t n_images = info_of(p->train_data).n_images;
    const uint64_t updates = n_images / images_per_update(p); /* an epoch's */
    const uint64_t n_steps = (uint64_t)llround(epochs_of(args, p) * (double)updates);
    p->schedule.rate = comet_default_rate(p->net, args->optimiser.kind, images_per_update(p), n_steps);
    if (!args->rate.find)
        note_default_rate(p, n_steps, report);
}

static cli_exit find_rate(const train_args *args, comet_train_params *p, train_report *report, bool *stopped)
{
    comet_rate_search found = {.size = sizeof found};
    char text[320];
    const comet_status status = comet_rate_find(p, &found);
    if (status != COMET_OK)
        return fail_weights(status, p->weights, &args->net, p->net);
    *stopped = found.stopped;
    p->schedule.rate = found.rate;
    report->log.rate_chosen = found.found ? "found" : "default";
    if (found.found)
        snprintf(text, sizeof text,
                 "rate %g, found in %" PRIu32 " steps: the loss fell from %.4g to %.4g, lowest at a rate of %.4g", found.rate,
                 found.n_steps, found.start_loss, found.lowest_loss, found.rate_at_lowest);
    else
        snprintf(text, sizeof text,
                 "rate %.4g, the default: the loss did not clearly fall in the %" PRIu32 " steps of the test", found.rate,
                 found.n_steps);
    if (!found.stopped)
        train_report_note(report, text);
    return CLI_OK;
}

/* ---- the run ---- */

/* Data of any size takes the image size of the net; a built-in net then takes channels and classes of the data. The test part
 * is opened first: some sources read all training images for it, which should not be in memory twice. */
static cli_exit open_session(const train_args *args, session *s)
{
    comet_net *own = NULL;
    cli_exit code = net_open(&args->net, 0, (uint32_t)args->data.image, &own);
    if (code == CLI_OK)
        code = data_open(&args->data, own, args->net.classes, COMET_SPLIT_TEST, &s->test);
    if (code == CLI_OK)
        code = data_open(&args->data, own, args->net.classes, COMET_SPLIT_TRAIN, &s->train);
    if (code == CLI_OK && args->net.model) {
        const comet_dataset_info info = info_of(s->train);
        net_args net = args->net;
        net.classes = net.classes > 0 ? net.classes : info.n_classes;
        code = net_open(&net, info.channels, info.height, &s->net);
        comet_net_destroy(own);
    } else {
        s->net = own;
    }
    return code;
}

static void close_session(session *s)
{
    comet_dataset_close(s->test);
    comet_dataset_close(s->train);
    comet_net_destroy(s->net);
}

/* A run that learnt nothing fails, even though it ended as planned. */
static cli_exit learnt_nothing(const train_args *args, const comet_train_params *p, const comet_train_result *result)
{
    char kept[4200] = "";
    if (args->out)
        snprintf(kept, sizeof kept, "; its checkpoint is in %.4000s", args->out);
    return fail(CLI_FAILED,
                "the training loss never fell below its start: %.4g in the first 10 steps, %.4g at its lowest since; try a "
                "lower rate (--rate %.2g), --rate find, and check labels and images%s",
                result->last.start_loss, result->last.lowest_loss, p->schedule.rate / 10, kept);
}

static cli_exit stopped_early(void)
{
    say("stopped by a signal during the search for a rate; nothing was saved");
    return stop_signal_exit();
}

/* `path` in `absolute`, for programs that run in another folder; `path` itself, which may be NULL, where that is not possible.
 */
static const char *absolute_path(const char *path, char absolute[LOG_PATH_BYTES])
{
    char here[LOG_PATH_BYTES];
    if (!path || path[0] == '/' || !getcwd(here, sizeof here) ||
        (size_t)snprintf(absolute, LOG_PATH_BYTES, "%s/%s", here, path) >= LOG_PATH_BYTES)
        return path;
    return absolute;
}

static cli_exit train(const train_args *args, bool finds_rate, const comet_train_params *params, train_report *report)
{
    const bool reports = !params->model.ranks || params->model.ranks->rank == 0;
    comet_train_params own = *params, *p = &own;
    comet_train_result result = {.size = sizeof result};
    char weights[4096], log_path[LOG_PATH_BYTES];
    p->log = absolute_path(args->log, log_path);
    if (args->weights) {
        const cli_exit code = weights_path(args->weights, false, weights, sizeof weights);
        if (code != CLI_OK)
            return code;
        p->weights = weights;
    }
    run_config config = {.params = p, .report = report};
    p->event = reports ? run_config_event : NULL;
    p->user = &config;
    stop_signal_catch();
    if (finds_rate) {
        bool stopped = false;
        const cli_exit code = find_rate(args, p, report, &stopped);
        if (code != CLI_OK || stopped)
            return code != CLI_OK ? code : stopped_early();
    }
    report->log.params = p;
    report->log.data = args->data.spec;
    report->log.memory_limit = args->budget.memory;
    report->log.ranks = &args->ranks;
    const comet_status status = comet_train_run(p, &result);
    if (status != COMET_OK) {
        train_log_failure(&report->log, status, comet_last_error());
        return fail_weights(status, p->weights, &args->net, p->net);
    }
    if (args->dump && args->dump_step > result.last.step)
        say("there was no step %" PRIu64 ": nothing was written to %s", args->dump_step, args->dump);
    if (!result.stopped && result.unsaved)
        return fail(CLI_FAILED, "the checkpoint of the last step was not written to %s", args->out);
    if (!result.stopped && result.never_fell)
        return learnt_nothing(args, p, &result);
    if (result.only_guesses)
        say("the training loss never fell below that of guessing: its lowest value was %.4g; train longer, or try a lower rate "
            "or --rate find",
            result.last.lowest_loss);
    if (!result.stopped)
        return CLI_OK;
    say("stopped by a signal after step %llu; %s", (unsigned long long)result.last.step,
        !args->out       ? "nothing was saved: --out was not given"
        : result.unsaved ? "its checkpoint was not written"
                         : "--resume continues from there");
    return stop_signal_exit();
}

/* Texts that a run has from its checkpoint; for comet_text_free. */
typedef struct kept_texts {
    char *choices, *freeze, *rates;
} kept_texts;

static void free_kept(kept_texts *kept)
{
    comet_text_free(kept->choices);
    comet_text_free(kept->freeze);
    comet_text_free(kept->rates);
}

/* The texts of the run that goes on, which rank 0 reads. */
static cli_exit read_kept(const train_args *args, const run_settings *earlier, session *s, const comet_train_params *p,
                          kept_texts *kept)
{
    const bool reads = earlier->batch > 0 && ranks_is_first(&s->ranks);
    comet_status status = reads ? comet_checkpoint_groups(args->out, &kept->freeze, &kept->rates) : COMET_OK;
    if (status == COMET_OK && reads && p->model.convolutions == COMET_CONVOLUTIONS_TIMED)
        status = comet_checkpoint_convolutions(args->out, p->net, &kept->choices);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    cli_exit code = ranks_take_first_text(&s->ranks, &kept->freeze);
    if (code == CLI_OK)
        code = ranks_take_first_text(&s->ranks, &kept->rates);
    return code == CLI_OK ? ranks_take_first_text(&s->ranks, &kept->choices) : code;
}

/* What the run had, unless the command line says otherwise; timed convolutions with its choices. */
static cli_exit keep_settings(const train_args *args, const run_settings *earlier, session *s, comet_train_params *p,
                              kept_texts *kept)
{
    if (earlier->batch > 0 && !args->convolutions.given)
        p->model.convolutions = earlier->convolutions;
    if (earlier->batch > 0)
        precision_keep(&args->precision, earlier->precision, &p->model);
    cli_exit code = read_kept(args, earlier, s, p, kept);
    if (code == CLI_OK)
        code = share_batch(args, s, earlier->batch, &p->model.batch);
    p->model.freeze = p->model.freeze ? p->model.freeze : kept->freeze;
    p->model.rates = p->model.rates ? p->model.rates : kept->rates;
    p->model.convolution_choices = kept->choices;
    p->model.n_threads = threads_before(args->n_threads, earlier->n_threads);
    return code;
}

/* Layers that are frozen before they have learnt anything are seldom meant. */
static void note_random(const train_args *args, const run_settings *earlier, const comet_train_params *p, train_report *report)
{
    if (p->model.freeze && !args->weights && earlier->batch == 0)
        train_report_note(report, "what is frozen keeps random weights: --weights FILE begins with trained ones");
}

/* Ranks of one machine share its cores out, and are busy themselves: there is nothing to try. */
static void settle_threads(const train_args *args, const run_settings *earlier, const session *s, comet_train_params *p,
                           train_report *report)
{
    if (!s->ranks.together)
        threads_settle(args->n_threads, earlier->n_threads, p, report);
    else if (args->n_threads == THREADS_AUTO)
        p->model.n_threads = ranks_threads(&s->ranks);
}

static cli_exit settle_convolutions(session *s, comet_train_params *p, char **choices, train_report *report)
{
    char text[CONVOLUTIONS_TEXT_BYTES] = "";
    cli_exit code = ranks_is_first(&s->ranks) ? convolutions_settle(p->net, &p->model, choices, text) : CLI_OK;
    if (text[0] != '\0')
        train_report_note(report, text);
    if (code == CLI_OK)
        code = ranks_take_first_text(&s->ranks, choices);
    p->model.convolution_choices = *choices;
    return code;
}

/* All that takes time to find out. */
static cli_exit settle(const train_args *args, const run_settings *earlier, session *s, comet_train_params *p, char **choices,
                       train_report *report)
{
    const cli_exit code = settle_budget(args, earlier->batch, s, p, report);
    if (code != CLI_OK)
        return code;
    settle_schedule(args, earlier, p, report);
    settle_threads(args, earlier, s, p, report);
    return settle_convolutions(s, p, choices, report);
}

/* Joins the other ranks and opens net and data. Rank 0 alone reads and writes files of the run. */
static cli_exit begin(const train_args *args, session *s, train_log *log, run_settings *earlier)
{
    cli_exit code = check_args(args);
    if (code == CLI_OK)
        code = ranks_join(&s->ranks, &args->ranks);
    const bool first = ranks_is_first(&s->ranks);
    if (first)
        *earlier = settings_of_run(args);
    if (code == CLI_OK && first)
        code = check_out(args);
    if (code == CLI_OK && first)
        code = check_dump(args);
    if (code == CLI_OK)
        code = open_session(args, s);
    if (code == CLI_OK)
        code = ranks_check_alike(&s->ranks, s->train, s->test);
    if (code == CLI_OK && first)
        code = open_log(args, log);
    return code == CLI_OK ? ranks_take_first(&s->ranks, earlier, sizeof *earlier) : code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const train_args *args = given;
    kept_texts kept = {0};
    train_report report = {.json = args->json};
    session s = {0};
    run_settings earlier = {0};
    comet_train_params params;
    (void)operands, (void)n_operands;
    cli_exit code = begin(args, &s, &report.log, &earlier);
    if (code == CLI_OK) {
        fill_params(args, &s, &params);
        code = keep_settings(args, &earlier, &s, &params, &kept);
    }
    if (code == CLI_OK) {
        note_random(args, &earlier, &params, &report);
        code = settle(args, &earlier, &s, &params, &kept.choices, &report);
    }
    if (code == CLI_OK)
        code = train(args, args->rate.find && earlier.rate < 0, &params, &report);
    train_log_close(&report.log);
    code = ranks_leave(&s.ranks, code);
    free_kept(&kept);
    close_session(&s);
    return code;
}

const verb verb_train = {
    .name = "train",
    .summary = "Train a network",
    .computes = true,
    .usage = "--model NAME | --net FILE --data SPEC [options]",
    .details =
        "Same seed, data and threads (-j): the same bits, also when killed and resumed. Ctrl-C finishes the step, saves\n"
        "and leaves with exit code 130 (SIGTERM: 143). Saved activations are compressed, within bounds that add little\n"
        "to the noise that gradients have anyway; forward is exact. 'comet help training' says more of all options.\n",
    .examples = "  comet train --model resnet20 --data cifar10:DIR --epochs 5 --seed 1 --out runs/a --resume\n"
                "  comet train --model resnet50 --data folder:DIR --memory 4GiB --batch auto\n"
                "  comet train --model resnet18 --data folder:DIR --weights runs/a --freeze '*,!fc'\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const train_args){.epochs = 10,
                                    .optimiser = OPTIMISER_DEFAULTS,
                                    .schedule = COMET_SCHEDULE_ONECYCLE,
                                    .rate = {.value = -1},
                                    .n_threads = THREADS_AUTO,
                                    .warmup = -1,
                                    .compression = COMPRESSION_DEFAULTS},
    .args_bytes = sizeof(train_args),
    .run = run,
};
