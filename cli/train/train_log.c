/* See train_log.h. */
#include "train/train_log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bytes.h"
#include "base/threads.h"
#include "kit/command_line.h"
#include "kit/cpu_report.h"
#include "kit/file_io.h"
#include "train/compression_args.h"
#include "train/figures.h"
#include "train/net_size.h"
#include "train/train_setup.h"

enum { LOG_VERSION = 2, FIRST_STEPS = 10 /* of which each is logged */ };

/* ---- the file ---- */

/* Does the last line of a log lack its end, since the process that wrote it was killed? */
static bool is_torn(const char *path)
{
    struct stat about;
    FILE *file = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "re") : NULL;
    const bool torn = file && fseek(file, -1, SEEK_END) == 0 && fgetc(file) != '\n';
    if (file)
        fclose(file);
    return torn;
}

/* New lines begin on a line of their own. */
static FILE *open_log(const char *path, bool append)
{
    const bool torn = append && is_torn(path);
    FILE *file = fopen(path, append ? "ae" : "we");
    if (file && torn)
        fputc('\n', file);
    return file;
}

cli_exit train_log_open(train_log *log, const char *path, bool append, bool force)
{
    if (!append) {
        const cli_exit code = file_check_output(path, force);
        if (code != CLI_OK)
            return code;
    }
    if ((size_t)snprintf(log->path, sizeof log->path, "%s", path) >= sizeof log->path)
        return fail(CLI_USAGE, "the name of the log has more than %d bytes", LOG_PATH_BYTES);
    log->file = open_log(path, append);
    return log->file ? CLI_OK : fail(CLI_FAILED, "%s: could not write the log: %s", path, strerror(errno));
}

cli_exit train_log_open_in(train_log *log, const char *folder)
{
    if ((size_t)snprintf(log->path, sizeof log->path, "%s/log.jsonl", folder) >= sizeof log->path)
        return fail(CLI_USAGE, "the name of the folder has more than %d bytes", LOG_PATH_BYTES);
    log->file = open_memstream(&log->kept, &log->kept_bytes);
    log->waits = log->file != NULL;
    return log->file ? CLI_OK : fail_memory(BUFSIZ);
}

static void say_failure(train_log *log)
{
    if (!log->failed)
        say("%s: could not write the log; training continues", log->path);
    log->failed = true;
}

/* The folder exists now. Lines of another run give way to those of a new one. */
static void settle(train_log *log, bool resumed)
{
    if (!log->waits)
        return;
    log->waits = false;
    fclose(log->file);
    log->file = open_log(log->path, resumed);
    if (!log->file || fwrite(log->kept, 1, log->kept_bytes, log->file) != log->kept_bytes)
        say_failure(log);
    free(log->kept);
    log->kept = NULL;
}

void train_log_close(train_log *log)
{
    if (log->file)
        fclose(log->file);
    free(log->kept);
    *log = (train_log){.file = NULL};
}

static void write_line(train_log *log, json *j)
{
    if (!log->file)
        cJSON_Delete(j->root);
    else if (json_write(j, log->file) != CLI_OK || fflush(log->file) != 0)
        say_failure(log);
}

/* ---- parts of lines ---- */

void json_add_memory(json *j, const comet_memory *m)
{
    json_add_u64(j, "weights_bytes", m->weights);
    json_add_u64(j, "saved_reference_bytes", m->saved_reference);
    json_add_u64(j, "saved_raw_bytes", m->saved_raw);
    json_add_u64(j, "saved_bytes", m->saved);
    json_add_u64(j, "transient_bytes", m->transient);
    json_add_u64(j, "gradients_bytes", m->gradients);
    json_add_u64(j, "optimiser_bytes", m->optimiser);
    json_add_u64(j, "scratch_bytes", m->scratch);
    json_add_u64(j, "assessing_bytes", m->assessing);
    json_add_u64(j, "messages_bytes", m->messages);
    json_add_u64(j, "program_bytes", comet_program_rss());
    json_add_u64(j, "planned_bytes", m->total);
}

void json_add_compression(json *j, const comet_compression_figures *c, double train_seconds)
{
    json_add_text(j, "compress", mode_name(c->mode));
    json_add_double(j, "ratio", c->ratio);
    json_add_double(j, "conv_ratio", c->conv_ratio);
    json_add_double(j, "codec_seconds", c->codec_seconds);
    json_add_double(j, "codec_share", codec_share(c, train_seconds));
    json_add_double(j, "sigma_ratio_min", c->sigma_ratio_min);
    json_add_double(j, "sigma_ratio_max", c->sigma_ratio_max);
    json_add_u64(j, "spilled_bytes", c->spilled_bytes);
    json_add_u64(j, "assessments", c->n_assessments);
    json_add_u64(j, "nonfinite_values", c->n_nonfinite);
}

double codec_share(const comet_compression_figures *c, double train_seconds)
{
    return train_seconds > 0 ? c->codec_seconds / train_seconds : NAN;
}

static json begin_line(const char *name, const comet_train_event *e)
{
    json j = json_begin();
    json_add_text(&j, "event", name);
    json_add_u64(&j, "step", e->step);
    json_add_u64(&j, "epoch", e->epoch);
    json_add_double(&j, "seconds", e->seconds);
    return j;
}

/* The memory table and the results of compression. */
static void add_model(json *j, const comet_train_event *e)
{
    const comet_memory memory = memory_of(e->model);
    const comet_compression_figures compression = compression_of(e->model);
    json_add_memory(j, &memory);
    json_add_compression(j, &compression, e->train_seconds);
}

/* ---- the start ---- */

static void add_program(json *j)
{
    char date[32];
    const time_t now = time(NULL);
    struct tm parts;
    json_add_u64(j, "log_version", LOG_VERSION);
    json_add_text(j, "comet_version", comet_version());
    json_add_text(j, "onednn", comet_dnnl_version());
    json_add_texts(j, "command", command_line());
    const bool known = gmtime_r(&now, &parts) && strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0;
    json_add_text(j, "date", known ? date : NULL);
}

static void add_machine(json *j)
{
    cpu_report cpu;
    json machine = json_begin();
    cpu_report_fill(&cpu);
    json_add_text(&machine, "cpu", cpu.model);
    json_add_text(&machine, "isa", comet_isa_name(comet_isa_active()));
    json_add_u64(&machine, "cores", comet_cores());
    json_add_u64(&machine, "memory_bytes", cpu.memory_bytes);
    json_add_object(j, "machine", &machine);
}

static void add_data(json *j, const train_log *log)
{
    const comet_train_params *p = log->params;
    const comet_dataset_info train = info_of(p->train_data);
    const uint64_t image[3] = {train.channels, train.height, train.width};
    json_add_text(j, "data", log->data);
    json_add_u64(j, "train_images", train.n_images);
    if (p->test_data)
        json_add_u64(j, "test_images", info_of(p->test_data).n_images);
    else
        json_add_null(j, "test_images");
    json_add_u64(j, "classes", train.n_classes);
    json_add_numbers(j, "image", image, 3);
    json_add_bool(j, "augment", !p->no_augment);
}

/* A float that was given in decimal reads back as that. */
static double decimal(float value)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)value);
    return strtod(text, NULL);
}

static void add_optimiser(json *j, const comet_train_params *p)
{
    const comet_optimiser *o = &p->model.optimiser;
    const bool sgd = o->kind == COMET_OPTIMISER_SGD;
    json_add_text(j, "optimiser", comet_optimiser_name(o->kind));
    json_add_text(j, "optimiser_state", comet_state_format_name(o->state));
    json_add_double(j, "momentum", sgd ? decimal(o->momentum) : NAN);
    if (sgd)
        json_add_bool(j, "nesterov", o->nesterov);
    else
        json_add_null(j, "nesterov");
    json_add_double(j, "weight_decay", decimal(o->weight_decay));
    json_add_double(j, "clip", o->clip_norm > 0 ? decimal(o->clip_norm) : NAN);
    json_add_double(j, "smoothing", decimal(p->model.label_smoothing));
}

static void add_schedule(json *j, const train_log *log, const comet_train_event *e)
{
    const comet_train_params *p = log->params;
    json_add_u64(j, "batch", batch_of_all(&p->model));
    json_add_u64(j, "accumulate", p->model.accumulate > 1 ? p->model.accumulate : 1);
    json_add_u64(j, "epochs", p->epochs);
    json_add_u64(j, "n_epochs", e->n_epochs);
    json_add_u64(j, "n_steps", e->n_steps);
    json_add_u64(j, "seed", p->model.seed);
    json_add_u64(j, "threads", p->model.n_threads > 0 ? p->model.n_threads : comet_cores());
    json_add_text(j, "precision", comet_precision_name(comet_model_precision(e->model)));
    add_optimiser(j, p);
    json_add_double(j, "rate", p->schedule.rate);
    json_add_text(j, "rate_chosen", log->rate_chosen);
    json_add_text(j, "schedule", comet_schedule_name(p->schedule.kind));
    json_add_double(j, "warmup_epochs", p->schedule.warmup_epochs);
    json_add_text(j, "freeze", p->model.freeze);
    json_add_text(j, "rates", p->model.rates);
}

static void add_how_to_hold(json *j, const train_log *log)
{
    const comet_compression *c = &log->params->model.compression;
    const bool lossy = c->mode >= COMET_COMPRESS_FAST, by_sigma = c->sigma > 0;
    json_add_text(j, "compress", mode_name(c->mode));
    json_add_double(j, "noise", lossy && !by_sigma ? c->noise : NAN);
    json_add_double(j, "sigma", lossy && by_sigma ? c->sigma : NAN);
    json_add_double(j, "overhead", c->mode == COMET_COMPRESS_AUTO ? c->overhead : NAN);
    if (log->memory_limit > 0)
        json_add_u64(j, "memory_limit_bytes", log->memory_limit);
    else
        json_add_null(j, "memory_limit_bytes");
    json_add_text(j, "convolutions", comet_convolutions_name(log->params->model.convolutions));
    json_add_text(j, "convolution_choices", log->params->model.convolution_choices);
}

/* Null for a run alone. Bytes count from `sent` and `plain` on. */
static void add_rank_figures(json *j, const comet_train_event *e, uint64_t sent, uint64_t plain)
{
    static const char *const names[] = {"rank_waited_seconds", "rank_peak_bytes", "exchange_sent_bytes",
                                        "exchange_plain_bytes"};
    if (e->n_ranks < 2 || !e->rank_waited) {
        for (size_t i = 0; i < N_ITEMS(names); i++)
            json_add_null(j, names[i]);
        return;
    }
    json_add_doubles(j, names[0], e->rank_waited, e->n_ranks);
    json_add_numbers(j, names[1], e->rank_peaks, e->n_ranks);
    json_add_u64(j, names[2], e->exchange_sent_bytes - sent);
    json_add_u64(j, names[3], e->exchange_plain_bytes - plain);
}

static void add_ranks(json *j, const train_log *log)
{
    const comet_model_params *m = &log->params->model;
    const uint32_t n = m->ranks ? m->ranks->n_ranks : 1;
    json_add_u64(j, "ranks", n);
    json_add_bool(j, "sync_bn", n > 1 && m->sync_batch_norm);
    json_add_bool(j, "shard_optimiser", n > 1 && m->shard_optimiser);
    json_add_text(j, "compress_gradients", n > 1 ? wire_name(log->ranks->wire) : NULL);
    json_add_text(j, "reduce", n > 1 ? log->ranks->reduce_with_mpi ? "mpi" : "ordered" : NULL);
}

static void log_start(train_log *log, const comet_train_event *e)
{
    const comet_memory memory = memory_of(e->model);
    const comet_net *net = comet_model_net(e->model);
    json j = begin_line("start", e);
    add_program(&j);
    json_add_bool(&j, "resumed", e->step > 0);
    add_machine(&j);
    json_add_text(&j, "net", comet_net_name(net));
    json_add_u64(&j, "parameters", whole_size(net).parameters);
    add_data(&j, log);
    add_schedule(&j, log, e);
    add_ranks(&j, log);
    json_add_text(&j, "out", log->params->out);
    add_how_to_hold(&j, log);
    json_add_memory(&j, &memory);
    write_line(log, &j);
}

/* ---- steps ---- */

/* Mean seconds a step since the line before, by part. */
static void add_time(json *j, const train_log *log, const comet_train_event *e, const comet_step_figures *now)
{
    const comet_step_figures *then = &log->last;
    const double n = (double)(e->step - log->last_step);
    json time = json_begin();
    json_add_double(&time, "wait", (e->wait_seconds - log->last_wait) / n);
    json_add_double(&time, "forward", (now->forward - then->forward) / n);
    json_add_double(&time, "backward", (now->backward - then->backward) / n);
    json_add_double(&time, "update", (now->update - then->update) / n);
    json_add_double(&time, "encode", (now->encode - then->encode) / n);
    json_add_double(&time, "decode", (now->decode - then->decode) / n);
    json_add_double(&time, "assess", (now->assess - then->assess) / n);
    json_add_object(j, "time", &time);
}

static void log_step(train_log *log, const comet_train_event *e)
{
    const comet_memory memory = memory_of(e->model);
    const comet_step_figures now = steps_of(e->model);
    const double held = (double)(now.saved + now.spilled);
    const uint64_t rss = comet_rss();
    json j = begin_line("step", e);
    json_add_double(&j, "rate", e->rate);
    json_add_double(&j, "train_loss", e->train_loss);
    json_add_double(&j, "train_top1", e->train_top1);
    json_add_double(&j, "images_per_s", e->images_per_s);
    json_add_double(&j, "ratio", held > 0 ? (double)memory.saved_reference / held : NAN);
    json_add_u64(&j, "weights_bytes", memory.weights);
    json_add_u64(&j, "gradients_bytes", memory.gradients);
    json_add_u64(&j, "optimiser_bytes", memory.optimiser);
    json_add_u64(&j, "saved_bytes", now.saved);
    json_add_u64(&j, "spilled_bytes", now.spilled);
    json_add_u64(&j, "saved_raw_bytes", memory.saved_raw);
    json_add_u64(&j, "saved_reference_bytes", memory.saved_reference);
    json_add_u64(&j, "transient_bytes", memory.transient);
    json_add_u64(&j, "data_bytes", e->data_bytes);
    json_add_u64(&j, "program_bytes", log->program_bytes);
    json_add_u64(&j, "rss_bytes", rss);
    json_add_u64(&j, "peak_rss_bytes", max_u64(e->peak_rss_bytes, rss)); /* the event is older */
    add_time(&j, log, e, &now);
    if (e->n_ranks > 1)
        json_add_doubles(&j, "rank_waited_seconds", e->rank_waited, e->n_ranks);
    else
        json_add_null(&j, "rank_waited_seconds");
    log->last = now;
    log->last_step = e->step;
    log->last_wait = e->wait_seconds;
    write_line(log, &j);
}

static void log_timeline(train_log *log, const comet_train_event *e)
{
    comet_trace_point point = {.size = sizeof point};
    json j = begin_line("timeline", e);
    cJSON *points = cJSON_CreateArray();
    for (size_t i = 0; comet_model_describe_trace(e->model, i, &point) == COMET_OK; i++) {
        const uint64_t bytes[3] = {point.saved, point.saved_raw, point.saved_reference};
        cJSON *row = cJSON_CreateArray();
        j.failed |= !cJSON_AddItemToArray(row, cJSON_CreateString(point.layer)) ||
                    !cJSON_AddItemToArray(row, cJSON_CreateString(point.backward ? "backward" : "forward"));
        for (size_t k = 0; k < 3; k++) {
            char text[24];
            snprintf(text, sizeof text, "%" PRIu64, bytes[k]);
            j.failed |= !cJSON_AddItemToArray(row, cJSON_CreateRaw(text));
        }
        j.failed |= !cJSON_AddItemToArray(points, row);
    }
    json_add_item(&j, "points", points);
    write_line(log, &j);
}

/* A line for each tensor and consumer whose bound was assessed. */
static void log_assessment(train_log *log, const comet_train_event *e)
{
    comet_assessment_line line = {.size = sizeof line};
    for (size_t i = 0; log->file && comet_model_describe_assessment(e->model, i, &line) == COMET_OK; i++) {
        json j = begin_line("assess", e);
        json_add_text(&j, "layer", line.layer);
        json_add_text(&j, "consumer", line.consumer);
        json_add_text(&j, "what", line.what);
        json_add_u64(&j, "tensor", line.tensor);
        json_add_u64(&j, "elements", line.elements);
        json_add_double(&j, "eb", line.eb);
        json_add_double(&j, "eb_cut", line.eb_cut);
        json_add_double(&j, "R", line.nonzero);
        json_add_double(&j, "sigma_target", line.sigma_target);
        json_add_double(&j, "sigma_measured", line.sigma_measured);
        if (isnan(line.sigma_measured))
            json_add_null(&j, "at_limit");
        else
            json_add_bool(&j, "at_limit", line.at_limit);
        json_add_double(&j, "sigma_ratio", line.sigma_ratio);
        json_add_text(&j, "level", line.level);
        json_add_text(&j, "predictor", line.predictor);
        json_add_double(&j, "ratio", line.bytes > 0 ? (double)line.bytes_raw / (double)line.bytes : NAN);
        json_add_u64(&j, "bytes_raw", line.bytes_raw);
        json_add_u64(&j, "bytes", line.bytes);
        write_line(log, &j);
    }
}

/* ---- epochs, the end, sentences ---- */

static void log_epoch(train_log *log, const comet_train_event *e)
{
    json j = begin_line("epoch", e);
    json_add_double(&j, "rate", e->rate);
    json_add_double(&j, "train_loss", e->train_loss);
    json_add_double(&j, "train_top1", e->train_top1);
    json_add_double(&j, "loss", e->test_loss);
    json_add_double(&j, "top1", e->test_top1);
    json_add_double(&j, "top5", e->test_top5);
    json_add_double(&j, "best_top1", e->best_top1);
    json_add_double(&j, "images_per_s", e->images_per_s);
    json_add_double(&j, "wait_share", e->wait_share);
    json_add_double(&j, "eval_seconds", e->eval_seconds);
    json_add_u64(&j, "peak_rss_bytes", e->peak_rss_bytes);
    add_model(&j, e);
    add_rank_figures(&j, e, log->last_sent, log->last_plain);
    write_line(log, &j);
    log->program_bytes = comet_program_rss();
    log->last_sent = e->exchange_sent_bytes;
    log->last_plain = e->exchange_plain_bytes;
}

json train_log_end(const comet_train_event *e)
{
    json j = json_begin();
    json_add_text(&j, "event", "end");
    json_add_double(&j, "top1", e->test_top1);
    json_add_double(&j, "top5", e->test_top5);
    json_add_double(&j, "loss", isnan(e->test_top1) ? e->train_loss : e->test_loss);
    json_add_double(&j, "images_per_s", e->images_per_s);
    json_add_u64(&j, "epochs", e->epoch);
    json_add_double(&j, "seconds", e->seconds);
    json_add_u64(&j, "peak_rss_bytes", e->peak_rss_bytes);
    add_model(&j, e);
    json_add_u64(&j, "steps", e->step);
    json_add_double(&j, "train_loss", e->train_loss);
    json_add_double(&j, "train_top1", e->train_top1);
    json_add_double(&j, "best_top1", e->best_top1);
    json_add_double(&j, "wait_share", e->wait_share);
    json_add_u64(&j, "skipped_images", e->n_skipped);
    json_add_u64(&j, "skipped_test_images", e->n_test_skipped);
    json_add_double(&j, "start_loss", e->start_loss);
    json_add_double(&j, "lowest_loss", e->lowest_loss);
    json_add_u64(&j, "data_bytes", e->data_bytes);
    json_add_u64(&j, "batch", (uint64_t)comet_model_batch(e->model) * e->n_ranks);
    json_add_u64(&j, "step", e->step);
    json_add_u64(&j, "epoch", e->epoch);
    add_rank_figures(&j, e, 0, 0);
    json_add_text(&j, "state", e->stopped ? "stopped" : "finished");
    return j;
}

static void log_end(train_log *log, const comet_train_event *e)
{
    json j = train_log_end(e);
    write_line(log, &j);
}

static void log_text(train_log *log, const char *name, const comet_train_event *e)
{
    json j = begin_line(name, e);
    if (e->kind == COMET_EVENT_CHECKPOINT)
        json_add_bool(&j, "ok", e->checkpoint_ok);
    json_add_text(&j, "text", e->text);
    write_line(log, &j);
}

/* A line that belongs to no step. */
static json begin_sentence(const char *event)
{
    json j = json_begin();
    json_add_text(&j, "event", event);
    json_add_null(&j, "step");
    json_add_null(&j, "epoch");
    json_add_null(&j, "seconds");
    return j;
}

void train_log_note(train_log *log, const char *sentence)
{
    json j = begin_sentence("note");
    json_add_text(&j, "text", sentence);
    write_line(log, &j);
}

void train_log_failure(train_log *log, comet_status status, const char *sentence)
{
    json j = begin_sentence("error");
    json_add_text(&j, "state", status == COMET_ERROR_DIVERGED ? "diverged" : "failed");
    json_add_text(&j, "text", sentence);
    write_line(log, &j);
}

/* An update of the search for a rate, which is no step of the run. */
static void log_rate(train_log *log, const comet_train_event *e)
{
    json j = json_begin();
    json_add_text(&j, "event", "rate");
    json_add_u64(&j, "step", e->step);
    json_add_null(&j, "epoch");
    json_add_null(&j, "seconds");
    json_add_double(&j, "rate", e->rate);
    json_add_double(&j, "train_loss", e->train_loss);
    write_line(log, &j);
}

/* ---- events ---- */

static void begin_run(train_log *log, const comet_train_event *e)
{
    const uint64_t steps = e->n_epochs > 0 ? e->n_steps / e->n_epochs : e->n_steps;
    settle(log, e->step > 0);
    log->every = steps > LOGGED_STEPS ? steps / LOGGED_STEPS : 1;
    log->last_step = e->step;
    log->program_bytes = comet_program_rss();
    log_start(log, e);
}

void train_log_event(train_log *log, const comet_train_event *e)
{
    if (!log->file)
        return;
    switch (e->kind) {
    case COMET_EVENT_START: begin_run(log, e); break;
    case COMET_EVENT_STEP:
        if (e->step % log->every == 0 || e->step <= FIRST_STEPS)
            log_step(log, e);
        break;
    case COMET_EVENT_EPOCH: log_epoch(log, e); break;
    case COMET_EVENT_ASSESS: log_assessment(log, e); break;
    case COMET_EVENT_TIMELINE: log_timeline(log, e); break;
    case COMET_EVENT_CHECKPOINT: log_text(log, "checkpoint", e); break;
    case COMET_EVENT_NOTE: log_text(log, "note", e); break;
    case COMET_EVENT_END: log_end(log, e); break;
    case COMET_EVENT_RATE: log_rate(log, e); break;
    case COMET_EVENT_TEST: break;
    }
}
