/* Checkpoints; see checkpoint.h. */
#include "train/files/checkpoint.h"

#include <cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/describe.h"
#include "base/status.h"
#include "train/assess/state.h"
#include "train/files/bounds_text.h"
#include "train/files/checkpoint_folder.h"
#include "train/files/state_file.h"
#include "train/files/weights.h"
#include "train/graph/conv_choices.h"
#include "train/graph/saving.h"

enum { FORMAT = 2, STATE_BYTES = 4096 };

/* ---- the state as JSON ---- */

typedef enum field_type { FIELD_U64, FIELD_DOUBLE } field_type;
typedef enum field_rule {
    RULE_STATE,       /* restored */
    RULE_STATE_ADDED, /* restored; NaN where an older file has none */
    RULE_SAME,        /* must be what the run has */
    RULE_SAME_ADDED,  /* as RULE_SAME; 0 where an older file has none */
    RULE_TOLD,        /* the user is told where it is not what the run has */
    RULE_ADDED,       /* as RULE_TOLD; 0 where an older file has none */
} field_rule;

typedef struct field {
    const char *name;
    field_type type;
    field_rule rule;
    size_t offset;
} field;

#define STATE(name, type)                                         \
    {                                                             \
#name, type, RULE_STATE, offsetof(checkpoint_state, name) \
    }
#define SETTING(name, type, rule)                                    \
    {                                                                \
#name, type, rule, offsetof(checkpoint_state, settings.name) \
    }
#define WATCHED(name, member)                                                          \
    {                                                                                  \
        name, FIELD_DOUBLE, RULE_STATE_ADDED, offsetof(checkpoint_state, watch.member) \
    }
static const field fields[] = {
    STATE(step, FIELD_U64),
    STATE(epoch, FIELD_U64),
    STATE(batch_in_epoch, FIELD_U64),
    STATE(loss_sum, FIELD_DOUBLE),
    STATE(n_images, FIELD_U64),
    STATE(n_top1, FIELD_U64),
    STATE(test_loss, FIELD_DOUBLE),
    STATE(test_top1, FIELD_DOUBLE),
    STATE(test_top5, FIELD_DOUBLE),
    STATE(best_top1, FIELD_DOUBLE),
    STATE(n_worse, FIELD_U64),
    STATE(tested_step, FIELD_U64),
    WATCHED("start_loss", start),
    WATCHED("mean_loss", mean),
    WATCHED("lowest_loss", lowest),
    SETTING(net, FIELD_U64, RULE_SAME),
    SETTING(data, FIELD_U64, RULE_SAME),
    SETTING(batch, FIELD_U64, RULE_SAME),
    SETTING(accumulate, FIELD_U64, RULE_SAME),
    SETTING(optimiser, FIELD_U64, RULE_SAME),
    SETTING(frozen, FIELD_U64, RULE_SAME_ADDED),
    SETTING(rates, FIELD_U64, RULE_ADDED),
    SETTING(seed, FIELD_U64, RULE_TOLD),
    SETTING(threads, FIELD_U64, RULE_TOLD),
    SETTING(n_steps, FIELD_U64, RULE_TOLD),
    SETTING(augment, FIELD_U64, RULE_TOLD),
    SETTING(convolutions, FIELD_U64, RULE_ADDED),
    SETTING(recompute, FIELD_U64, RULE_TOLD),
    SETTING(ranks, FIELD_U64, RULE_ADDED),
    SETTING(sync_batch_norm, FIELD_U64, RULE_ADDED),
    SETTING(onednn, FIELD_U64, RULE_ADDED),
    SETTING(instructions, FIELD_U64, RULE_ADDED),
    SETTING(precision, FIELD_U64, RULE_ADDED),
    SETTING(optimiser_state, FIELD_U64, RULE_ADDED),
    SETTING(nesterov, FIELD_U64, RULE_TOLD),
    SETTING(momentum, FIELD_DOUBLE, RULE_TOLD),
    SETTING(weight_decay, FIELD_DOUBLE, RULE_TOLD),
    SETTING(beta1, FIELD_DOUBLE, RULE_TOLD),
    SETTING(beta2, FIELD_DOUBLE, RULE_TOLD),
    SETTING(eps, FIELD_DOUBLE, RULE_TOLD),
    SETTING(clip_norm, FIELD_DOUBLE, RULE_TOLD),
    SETTING(label_smoothing, FIELD_DOUBLE, RULE_TOLD),
    SETTING(schedule, FIELD_U64, RULE_TOLD),
    SETTING(rate, FIELD_DOUBLE, RULE_TOLD),
    SETTING(warmup_epochs, FIELD_DOUBLE, RULE_TOLD),
    SETTING(factor, FIELD_DOUBLE, RULE_TOLD),
    SETTING(every, FIELD_DOUBLE, RULE_TOLD),
    SETTING(final_share, FIELD_DOUBLE, RULE_TOLD),
    SETTING(compress, FIELD_U64, RULE_ADDED),
    SETTING(noise, FIELD_DOUBLE, RULE_ADDED),
    SETTING(sigma, FIELD_DOUBLE, RULE_ADDED),
    SETTING(window, FIELD_U64, RULE_ADDED),
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static uint64_t *u64_in(void *state, const field *f)
{
    return (uint64_t *)(void *)((char *)state + f->offset);
}

static double *double_in(void *state, const field *f)
{
    return (double *)(void *)((char *)state + f->offset);
}

/* Integers are text, since JSON's numbers hold 53 bits; doubles have 17 digits and read back exactly; NaN is null. */
static void state_print(const checkpoint_state *state, char text[STATE_BYTES])
{
    checkpoint_state copy = *state;
    size_t at = (size_t)snprintf(text, STATE_BYTES, "{\"format\":%d,\"comet\":\"%s\"", FORMAT, comet_version());
    for (size_t i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        at += (size_t)snprintf(text + at, STATE_BYTES - at, ",\"%s\":", f->name);
        if (f->type == FIELD_U64)
            at += (size_t)snprintf(text + at, STATE_BYTES - at, "\"%" PRIu64 "\"", *u64_in(&copy, f));
        else if (isfinite(*double_in(&copy, f)))
            at += (size_t)snprintf(text + at, STATE_BYTES - at, "%.17g", *double_in(&copy, f));
        else
            at += (size_t)snprintf(text + at, STATE_BYTES - at, "null");
    }
    snprintf(text + at, STATE_BYTES - at, "}");
}

static bool take_u64(const cJSON *item, uint64_t *value)
{
    const char *text = cJSON_GetStringValue(item);
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

static bool take_double(const cJSON *item, double *value)
{
    if (cJSON_IsNull(item))
        *value = NAN;
    else if (item && cJSON_IsNumber(item))
        *value = item->valuedouble;
    else
        return false;
    return true;
}

static comet_status state_parse(const char *path, const char *text, checkpoint_state *state)
{
    comet_status status = COMET_OK;
    cJSON *root = text ? cJSON_Parse(text) : NULL;
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
    if (!cJSON_IsNumber(format))
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: it is not a checkpoint: its metadata has no state", path);
    else if (format->valuedouble != FORMAT)
        status = comet_fail(COMET_ERROR_UNSUPPORTED, "%s: a checkpoint of format %g; this version reads format %d", path,
                            format->valuedouble, FORMAT);
    for (size_t i = 0; i < N_FIELDS && status == COMET_OK; i++) {
        const field *f = &fields[i];
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, f->name);
        if (!item && f->rule == RULE_STATE_ADDED)
            *double_in(state, f) = NAN;
        if (!item && (f->rule == RULE_ADDED || f->rule == RULE_SAME_ADDED || f->rule == RULE_STATE_ADDED))
            continue;
        if (!(f->type == FIELD_U64 ? take_u64(item, u64_in(state, f)) : take_double(item, double_in(state, f))))
            status = comet_fail(COMET_ERROR_CORRUPT, "%s: its state has no valid '%s'", path, f->name);
    }
    if (status == COMET_OK && state->settings.convolutions > COMET_CONVOLUTIONS_DIRECT) /* a resumed run takes it over */
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: its state has no valid 'convolutions'", path);
    if (status == COMET_OK && state->settings.precision > COMET_PRECISION_BF16)
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: its state has no valid 'precision'", path);
    cJSON_Delete(root);
    return status;
}

/* ---- saving ---- */

static const char *classes_of(const checkpoint_data *data)
{
    return data ? data->classes : NULL;
}

static const char *input_of(const checkpoint_data *data)
{
    return data ? data->input : NULL;
}

/* Adds a pair unless it has no text. */
static void add_pair(safetensors_pair *pairs, size_t *n, const char *key, const char *text)
{
    if (text)
        pairs[(*n)++] = (safetensors_pair){key, text};
}

static comet_status save_model(const char *path, const char *keep, const comet_model *model, const checkpoint_state *state,
                               const checkpoint_data *data, bool optimiser)
{
    weights_list list = {0};
    const char *choices = conv_choices_of(model);
    char *net = NULL, *bounds = NULL, json[STATE_BYTES];
    comet_status status = weights_list_make(&list, model, optimiser);
    if (status == COMET_OK && optimiser)
        status = bounds_print(model, &bounds);
    if (status == COMET_OK)
        status = comet_net_write(comet_model_net(model), &net);
    if (status == COMET_OK) {
        state_print(state, json);
        safetensors_pair metadata[9] = {{"format", "pt"}, {"comet", json}, {"net", net}};
        size_t n_metadata = 3;
        add_pair(metadata, &n_metadata, "classes", classes_of(data));
        add_pair(metadata, &n_metadata, "input", input_of(data));
        add_pair(metadata, &n_metadata, "freeze", model_freeze_text(model));
        add_pair(metadata, &n_metadata, "rates", model_rates_text(model));
        add_pair(metadata, &n_metadata, "bounds", bounds);
        add_pair(metadata, &n_metadata, "convolutions", choices);
        list.finite_only = true;
        status = weights_list_save(&list, path, keep, metadata, n_metadata);
    }
    free(bounds);
    comet_text_free(net);
    weights_list_free(&list);
    return status;
}

/* Writes the file for people; a failure here is not a failure of the checkpoint. */
static void save_readable(const char *folder, const comet_model *model, const checkpoint_state *state,
                          const checkpoint_data *data)
{
    char *path = NULL, json[2 * STATE_BYTES];
    const char *choices = conv_choices_of(model), *classes = classes_of(data), *input = input_of(data);
    const char *parts[] = {json,
                           classes ? ",\"classes\":" : "",
                           classes ? classes : "",
                           input ? ",\"input\":" : "",
                           input ? input : "",
                           choices ? ",\"convolution_choices\":\"" : "",
                           choices ? choices : "",
                           choices ? "\"}\n" : "}\n"};
    atomic_file file;
    if (checkpoint_path_in(folder, "state.json", &path) == COMET_OK && atomic_file_begin(&file, path) == COMET_OK) {
        comet_status status = COMET_OK;
        state_print(state, json);
        state_for_people(state, json, sizeof json);
        json[strlen(json) - 1] = '\0'; /* its last brace */
        for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == COMET_OK; i++)
            status = atomic_file_write(&file, parts[i], strlen(parts[i]));
        if (status == COMET_OK)
            atomic_file_commit(&file, NULL);
        atomic_file_abandon(&file);
    }
    free(path);
}

static comet_status save_last(const char *folder, const char *keep, const comet_model *model, const checkpoint_state *state,
                              const checkpoint_data *data)
{
    char *last = NULL;
    comet_status status = checkpoint_path_in(folder, "last.safetensors", &last);
    if (status == COMET_OK)
        status = save_model(last, keep, model, state, data, true);
    if (status == COMET_OK)
        save_readable(folder, model, state, data);
    free(last);
    return status;
}

comet_status checkpoint_save(const char *folder, const comet_model *model, const checkpoint_state *state,
                             const checkpoint_data *data)
{
    char *previous = NULL;
    comet_status status = checkpoint_path_in(folder, "previous.safetensors", &previous);
    if (status == COMET_OK)
        status = save_last(folder, previous, model, state, data);
    free(previous);
    return status;
}

comet_status checkpoint_save_again(const char *folder, const comet_model *model, const checkpoint_state *state,
                                   const checkpoint_data *data)
{
    return save_last(folder, NULL, model, state, data);
}

comet_status checkpoint_save_best(const char *folder, const comet_model *model, const checkpoint_state *state,
                                  const checkpoint_data *data)
{
    char *best = NULL;
    comet_status status = checkpoint_path_in(folder, "best.safetensors", &best);
    if (status == COMET_OK)
        status = save_model(best, NULL, model, state, data, false);
    free(best);
    return status;
}

/* ---- loading ---- */

static bool fields_equal(const field *f, checkpoint_state *a, checkpoint_state *b)
{
    if (f->type == FIELD_U64)
        return *u64_in(a, f) == *u64_in(b, f);
    return *double_in(a, f) == *double_in(b, f);
}

static const char *optimiser_called(const checkpoint_state *s)
{
    return comet_optimiser_name((comet_optimiser_kind)s->settings.optimiser);
}

static comet_status must_be_same(const char *path, const field *f, checkpoint_state *theirs, checkpoint_state *ours)
{
    const bool hash =
        f->offset == offsetof(checkpoint_state, settings.net) || f->offset == offsetof(checkpoint_state, settings.data);
    if (hash)
        return comet_fail(COMET_ERROR_CORRUPT,
                          "%s: the run has %s than this checkpoint; give the same, or start a new run from its weights", path,
                          f->offset == offsetof(checkpoint_state, settings.net) ? "another net" : "other data");
    if (f->offset == offsetof(checkpoint_state, settings.optimiser))
        return comet_fail(
            COMET_ERROR_CORRUPT,
            "%s: the run has the optimiser %s, this checkpoint %s; give the same, or start a new run from its weights", path,
            optimiser_called(ours), optimiser_called(theirs));
    return comet_fail(COMET_ERROR_CORRUPT,
                      "%s: %s was %" PRIu64 " and is now %" PRIu64 "; give the same, or start a new run from "
                      "its weights",
                      path, f->name, *u64_in(theirs, f), *u64_in(ours, f));
}

/* The name of a setting for people. */
static const char *told_as(const field *f)
{
    switch (f->offset) {
    case offsetof(checkpoint_state, settings.n_steps): return "number of steps";
    case offsetof(checkpoint_state, settings.rates): return "rates of layers";
    case offsetof(checkpoint_state, settings.ranks): return "number of ranks";
    case offsetof(checkpoint_state, settings.sync_batch_norm): return "batch norm over all ranks";
    case offsetof(checkpoint_state, settings.onednn): return "version of oneDNN";
    case offsetof(checkpoint_state, settings.instructions): return "instruction set";
    case offsetof(checkpoint_state, settings.optimiser_state): return "format of the optimiser's state";
    default: return f->name;
    }
}

static void add_changed(char changed[CHECKPOINT_CHANGED_BYTES], const char *name)
{
    const size_t at = strlen(changed), bytes = strlen(name) + (at > 0 ? 2 : 0);
    if (at + bytes < CHECKPOINT_CHANGED_BYTES)
        snprintf(changed + at, CHECKPOINT_CHANGED_BYTES - at, "%s%s", at > 0 ? ", " : "", name);
}

/* Compares the settings in the file with those of the run. */
static comet_status compare_settings(const char *path, const checkpoint_settings *expected, checkpoint_state *state,
                                     char changed[CHECKPOINT_CHANGED_BYTES])
{
    checkpoint_state ours = {.settings = *expected};
    changed[0] = '\0';
    for (size_t i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        if (f->rule == RULE_STATE || f->rule == RULE_STATE_ADDED || fields_equal(f, state, &ours))
            continue;
        if (f->rule == RULE_SAME || f->rule == RULE_SAME_ADDED)
            return must_be_same(path, f, state, &ours);
        add_changed(changed, told_as(f));
    }
    state->settings = *expected;
    return COMET_OK;
}

/* Before the tensors: those of the optimiser depend on it. */
static comet_status compare_frozen(const char *path, const checkpoint_settings *theirs, const checkpoint_settings *ours)
{
    if (theirs->frozen == ours->frozen)
        return COMET_OK;
    return comet_fail(COMET_ERROR_CORRUPT,
                      "%s: the run has %s frozen than this checkpoint; give the same, or start a new run from its weights",
                      path, theirs->frozen == 0 ? "more layers" : "other layers");
}

/* Convolutions may have other choices than in the file, or such as cannot be followed here. Where they are not even chosen in
 * the same way, that is told as a setting. */
static void compare_choices(const comet_model *model, const char *theirs, char changed[CHECKPOINT_CHANGED_BYTES])
{
    const char *ours = conv_choices_of(model);
    if ((ours && theirs && strcmp(ours, theirs) != 0) || !conv_choices_followed(model))
        add_changed(changed, "choices of convolutions");
}

/* Loads the bounds of the file, or begins with new ones where they are not of this model and its rule. */
static comet_status load_bounds(comet_model *model, const double *numbers, size_t n, char changed[CHECKPOINT_CHANGED_BYTES])
{
    if (model_state_n(model) == 0 || (numbers && model_state_import(model, numbers, n) == COMET_OK))
        return COMET_OK;
    add_changed(changed, "bounds");
    return model_state_restart(model);
}

/* Tensors first: their names say more than a hash of the net's text. */
static comet_status load_file(safetensors_file *file, const char *path, comet_model *model, const checkpoint_settings *expected,
                              checkpoint_state *state, char changed[CHECKPOINT_CHANGED_BYTES])
{
    weights_list list = {0};
    checkpoint_state loaded = {0};
    double *numbers = NULL;
    size_t n_numbers = 0;
    comet_status status = state_parse(path, safetensors_metadata(file, "comet"), &loaded);
    if (status == COMET_OK)
        status = bounds_parse(path, safetensors_metadata(file, "bounds"), &numbers, &n_numbers);
    if (status == COMET_OK)
        status = compare_frozen(path, &loaded.settings, expected);
    if (status == COMET_OK)
        status = weights_list_make(&list, model, true);
    if (status == COMET_OK && loaded.settings.optimiser == expected->optimiser)
        status = weights_list_match(&list, file, path);
    if (status == COMET_OK)
        status = compare_settings(path, expected, &loaded, changed);
    if (status == COMET_OK)
        compare_choices(model, safetensors_metadata(file, "convolutions"), changed);
    if (status == COMET_OK)
        status = weights_list_load(&list, model, file);
    if (status == COMET_OK)
        status = load_bounds(model, numbers, n_numbers, changed);
    if (status == COMET_OK)
        *state = loaded;
    free(numbers);
    weights_list_free(&list);
    return status;
}

/* Opens a file and reads all of it once. A missing file gives COMET_OK and NULL. */
static comet_status open_good(const char *path, safetensors_file **file)
{
    *file = NULL;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return COMET_OK;
    comet_status status = safetensors_open(file, path);
    if (status != COMET_OK)
        return status;
    status = safetensors_verify(*file);
    if (status == COMET_OK && !safetensors_metadata(*file, "comet_checksum"))
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: damaged, or not a checkpoint: it has no checksum", path);
    if (status != COMET_OK) {
        safetensors_close(*file);
        *file = NULL;
    }
    return status;
}

/* Opens the newest checkpoint that is whole; where it is not the last one, *found says so and comet_last_error why. */
static comet_status open_newest(const char *last, const char *previous, safetensors_file **file, checkpoint_found *found)
{
    char why[512] = "";
    comet_status status = open_good(last, file);
    *found = *file ? CHECKPOINT_LAST : CHECKPOINT_NONE;
    if (*file || status == COMET_ERROR_MEMORY)
        return status;
    if (status != COMET_OK)
        snprintf(why, sizeof why, "%s", comet_last_error());
    const comet_status second = open_good(previous, file);
    if (second != COMET_OK)
        return second;
    if (!*file)
        return status;
    *found = CHECKPOINT_PREVIOUS;
    comet_fail(COMET_ERROR_CORRUPT, "%s", why[0] != '\0' ? why : "there is no last.safetensors");
    return COMET_OK;
}

comet_status comet_checkpoint_newest(const char *folder, char **path, bool *previous)
{
    char *last = NULL, *before = NULL;
    safetensors_file *file = NULL;
    checkpoint_found found = CHECKPOINT_NONE;
    comet_status status = checkpoint_path_in(folder, "last.safetensors", &last);
    if (status == COMET_OK)
        status = checkpoint_path_in(folder, "previous.safetensors", &before);
    if (status == COMET_OK)
        status = open_newest(last, before, &file, &found);
    safetensors_close(file);
    if (status == COMET_OK && found == CHECKPOINT_NONE)
        status = comet_fail(COMET_ERROR_IO, "%s: no checkpoint is in this folder", folder);
    if (status == COMET_OK) {
        *previous = found == CHECKPOINT_PREVIOUS;
        *path = *previous ? before : last;
    }
    free(status == COMET_OK && *previous ? last : before);
    if (status != COMET_OK)
        free(last);
    return status;
}

void comet_checkpoint_info_init(comet_checkpoint_info *info)
{
    *info = (comet_checkpoint_info){.size = sizeof *info};
}

static comet_checkpoint_info info_of(const checkpoint_state *s)
{
    const checkpoint_settings *run = &s->settings;
    return (comet_checkpoint_info){.step = s->step,
                                   .epoch = s->epoch,
                                   .batch_in_epoch = s->batch_in_epoch,
                                   .n_steps = run->n_steps,
                                   .batch = run->batch,
                                   .accumulate = run->accumulate,
                                   .seed = run->seed,
                                   .n_threads = run->threads,
                                   .optimiser = (comet_optimiser_kind)run->optimiser,
                                   .rate = run->rate,
                                   .warmup_epochs = run->warmup_epochs,
                                   .lossy = run->compress != 0,
                                   .noise = run->noise,
                                   .sigma = run->sigma,
                                   .best_top1 = s->best_top1 >= 0 ? s->best_top1 : NAN,
                                   .test_top1 = s->test_top1,
                                   .convolutions = (comet_convolutions)run->convolutions,
                                   .precision = (comet_precision)run->precision};
}

/* The name in the net's text, where the file carries one. */
static comet_status name_of_net(const char *path, const char *text, char name[COMET_MAX_LAYER_NAME])
{
    comet_net *net = NULL;
    name[0] = '\0';
    if (!text)
        return COMET_OK;
    TRY(comet_net_read(&net, path, text, strlen(text)));
    snprintf(name, COMET_MAX_LAYER_NAME, "%s", comet_net_name(net));
    comet_net_destroy(net);
    return COMET_OK;
}

/* The newest checkpoint of a folder; *path is for free(). */
static comet_status open_folder(const char *folder, safetensors_file **file, char **path, bool *previous)
{
    *file = NULL;
    TRY(comet_checkpoint_newest(folder, path, previous));
    const comet_status status = safetensors_open(file, *path);
    if (status != COMET_OK)
        free(*path);
    return status;
}

comet_status comet_checkpoint_describe(const char *folder, comet_checkpoint_info *info)
{
    TRY(CHECK_SIZE(comet_checkpoint_info, info));
    comet_checkpoint_info found;
    char *path = NULL;
    bool previous = false;
    safetensors_file *file = NULL;
    checkpoint_state state = {0};
    TRY(open_folder(folder, &file, &path, &previous));
    comet_status status = state_parse(path, safetensors_metadata(file, "comet"), &state);
    if (status == COMET_OK) {
        found = info_of(&state);
        found.previous = previous;
        status = name_of_net(path, safetensors_metadata(file, "net"), found.net);
    }
    safetensors_close(file);
    free(path);
    return status == COMET_OK ? GIVE(comet_checkpoint_info, info, &found) : status;
}

/* A copy of a text of the metadata; NULL where there is none. */
static comet_status copy_metadata(const safetensors_file *file, const char *key, char **copy)
{
    const char *text = safetensors_metadata(file, key);
    *copy = text ? strdup(text) : NULL;
    return !text || *copy ? COMET_OK
                          : comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes", strlen(text));
}

comet_status comet_checkpoint_groups(const char *folder, char **freeze, char **rates)
{
    char *path = NULL, *frozen = NULL, *own_rates = NULL;
    bool previous = false;
    safetensors_file *file = NULL;
    TRY(open_folder(folder, &file, &path, &previous));
    comet_status status = copy_metadata(file, "freeze", &frozen);
    if (status == COMET_OK)
        status = copy_metadata(file, "rates", &own_rates);
    safetensors_close(file);
    free(path);
    if (status != COMET_OK) {
        free(frozen);
        return status;
    }
    *freeze = frozen;
    *rates = own_rates;
    return COMET_OK;
}

comet_status comet_checkpoint_convolutions(const char *folder, const comet_net *net, char **choices)
{
    char *path = NULL, *copy = NULL;
    safetensors_file *file = NULL;
    comet_status status = COMET_OK;
    TRY(open_folder(folder, &file, &path, &(bool){false}));
    const char *text = safetensors_metadata(file, "convolutions");
    if (text && conv_choices_check(net, text) != COMET_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", comet_last_error());
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: its %s", path, why);
    } else if (text && !(copy = strdup(text))) {
        status = comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes of choices", strlen(text));
    }
    safetensors_close(file);
    free(path);
    if (status == COMET_OK)
        *choices = copy;
    return status;
}

/* A damaged newest file must not become the previous one at the next save. */
static void set_aside(const char *folder, const char *last)
{
    char *damaged = NULL;
    if (checkpoint_path_in(folder, "damaged.safetensors", &damaged) == COMET_OK)
        rename(last, damaged);
    free(damaged);
}

comet_status checkpoint_load(const char *folder, comet_model *model, const checkpoint_settings *expected,
                             checkpoint_state *state, checkpoint_found *found, char changed[CHECKPOINT_CHANGED_BYTES])
{
    char *last = NULL, *previous = NULL;
    safetensors_file *file = NULL;
    checkpoint_found which = CHECKPOINT_NONE;
    changed[0] = '\0';
    comet_status status = checkpoint_path_in(folder, "last.safetensors", &last);
    if (status == COMET_OK)
        status = checkpoint_path_in(folder, "previous.safetensors", &previous);
    if (status == COMET_OK)
        status = open_newest(last, previous, &file, &which);
    if (status == COMET_OK && file)
        status = load_file(file, which == CHECKPOINT_LAST ? last : previous, model, expected, state, changed);
    if (status == COMET_OK) {
        *found = which;
        if (which == CHECKPOINT_PREVIOUS)
            set_aside(folder, last);
    }
    safetensors_close(file);
    free(previous);
    free(last);
    return status;
}
