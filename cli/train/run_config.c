/* The options of a run in its folder; see run_config.h. */
#include "train/run_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/threads.h"
#include "kit/config.h"
#include "kit/file_io.h"
#include "kit/number.h"
#include "train/train_setup.h"

enum { NUMBER_BYTES = 40, CONFIG_BYTES = 1 << 20 };

/* Not options of the run, or written from its parameters. */
static const char *const left_out[] = {"config",       "out",
                                       "log",          "resume",
                                       "force",        "json",
                                       "quiet",        "dump-activations",
                                       "dump-step",    "batch",
                                       "accumulate",   "seed",
                                       "epochs",       "optimiser",
                                       "rate",         "schedule",
                                       "warmup",       "momentum",
                                       "weight-decay", "clip",
                                       "smoothing",    "threads",
                                       "convolutions", "freeze",
                                       "rate-of",      "optimiser-state",
                                       "precision",    NULL};

static void add_u64(json *j, const char *name, uint64_t value)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    config_add(j, name, text);
}

static void add_double(json *j, const char *name, double value)
{
    char text[NUMBER_BYTES];
    number_format(value, text, sizeof text);
    config_add(j, name, text);
}

/* The shortest text that reads back as the same float. */
static void add_float(json *j, const char *name, float value)
{
    char text[NUMBER_BYTES];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (!((float)strtod(text, NULL) != value))
            break;
    }
    config_add(j, name, text);
}

static void add_params(json *j, const comet_train_params *p)
{
    const comet_model_params *m = &p->model;
    const comet_optimiser *o = &m->optimiser;
    add_u64(j, "batch", batch_of_all(m));
    add_u64(j, "accumulate", m->accumulate > 0 ? m->accumulate : 1);
    add_u64(j, "epochs", p->epochs);
    add_u64(j, "seed", m->seed);
    config_add(j, "optimiser", comet_optimiser_name(o->kind));
    config_add(j, "optimiser-state", comet_state_format_name(o->state));
    add_double(j, "rate", p->schedule.rate);
    config_add(j, "schedule", comet_schedule_name(p->schedule.kind));
    if (p->schedule.kind != COMET_SCHEDULE_ONECYCLE)
        add_double(j, "warmup", p->schedule.warmup_epochs);
    if (o->kind == COMET_OPTIMISER_SGD)
        add_float(j, "momentum", o->momentum);
    add_float(j, "weight-decay", o->weight_decay);
    if (o->clip_norm > 0)
        add_float(j, "clip", o->clip_norm);
    add_float(j, "smoothing", m->label_smoothing);
    add_u64(j, "threads", m->n_threads > 0 ? m->n_threads : comet_cores());
    config_add(j, "convolutions", comet_convolutions_name(m->convolutions));
    config_add(j, "precision", m->force_precision ? "bf16-forced" : comet_precision_name(m->precision));
    if (m->freeze)
        config_add(j, "freeze", m->freeze);
    if (m->rates)
        config_add(j, "rate-of", m->rates);
}

/* What the run began with stays in the file when it is resumed without saying so again. */
static void keep_first_weights(json *j, const char *path)
{
    static const char *const keys[] = {"weights", "weights-partial"};
    blob contents;
    struct stat about;
    if (j->failed || cJSON_HasObjectItem(j->root, keys[0]) || stat(path, &about) != 0 ||
        file_read_small(path, CONFIG_BYTES, &contents) != CLI_OK)
        return;
    cJSON *before = cJSON_ParseWithLength((const char *)contents.data, contents.bytes);
    blob_free(&contents);
    for (size_t i = 0; i < 2; i++) {
        cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(before, keys[i]);
        if (item)
            json_add_item(j, keys[i], item);
    }
    cJSON_Delete(before);
}

/* A failure is told, and the run goes on: it needs the file no more than state.json. */
static void write_config(const comet_train_params *p, bool resumed)
{
    char path[4096];
    const bool fits = (size_t)snprintf(path, sizeof path, "%s/config.json", p->out) < sizeof path;
    json j = json_begin();
    json_add_text(&j, "comet", comet_version());
    json_add_text(&j, "verb", "train");
    config_add_settings(&j, left_out);
    add_params(&j, p);
    if (resumed && fits)
        keep_first_weights(&j, path);
    char *text = j.failed ? NULL : cJSON_Print(j.root);
    cJSON_Delete(j.root);
    if (!text || !fits) {
        say("config.json was not written");
    } else {
        const piece pieces[] = {{text, strlen(text)}, {"\n", 1}};
        file_write(path, true, pieces, 2);
    }
    cJSON_free(text);
}

void run_config_event(void *user, const comet_train_event *e)
{
    const run_config *c = user;
    if (e->kind == COMET_EVENT_START && !e->finished && c->params->out)
        write_config(c->params, e->step > 0);
    train_report_event(c->report, e);
}
