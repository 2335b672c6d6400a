/* See state_file.h. */
#include "train/files/state_file.h"

#include <cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_BYTES = 32, MOST_BYTES = 1 << 20 };

/* ---- writing ---- */

static void set(cJSON *root, const char *key, cJSON *item)
{
    if (!item || !cJSON_ReplaceItemInObjectCaseSensitive(root, key, item))
        cJSON_Delete(item);
}

static void set_word(cJSON *root, const char *key, const char *word)
{
    set(root, key, cJSON_CreateString(word));
}

/* 2006003 is oneDNN 2.6.3. */
static void set_version(cJSON *root, const char *key, uint64_t version)
{
    char text[VERSION_BYTES];
    snprintf(text, sizeof text, "%" PRIu64 ".%" PRIu64 ".%" PRIu64, version / 1000000, version / 1000 % 1000, version % 1000);
    set_word(root, key, text);
}

static void set_words(cJSON *root, const checkpoint_settings *s)
{
    set_word(root, "optimiser", comet_optimiser_name((comet_optimiser_kind)s->optimiser));
    set_word(root, "optimiser_state", comet_state_format_name((comet_state_format)s->optimiser_state));
    set_word(root, "schedule", comet_schedule_name((comet_schedule_kind)s->schedule));
    set_word(root, "convolutions", comet_convolutions_name((comet_convolutions)s->convolutions));
    set_word(root, "precision", comet_precision_name((comet_precision)s->precision));
    set_word(root, "compress", s->compress ? "bounded" : "exact");
    set_version(root, "onednn", s->onednn);
    set(root, "augment", cJSON_CreateBool(s->augment != 0));
    set(root, "recompute", cJSON_CreateBool(s->recompute != 0));
    set(root, "nesterov", cJSON_CreateBool(s->nesterov != 0));
}

void state_for_people(const checkpoint_state *state, char *json, size_t bytes)
{
    cJSON *root = cJSON_Parse(json);
    if (!root)
        return;
    set_words(root, &state->settings);
    cJSON_AddItemToObject(root, "isa", cJSON_CreateString(comet_isa_name(comet_isa_active())));
    cJSON_AddItemToObject(root, "seconds", cJSON_CreateNumber(state->seconds));
    if (state->log)
        cJSON_AddItemToObject(root, "log", cJSON_CreateString(state->log));
    char *text = cJSON_PrintUnformatted(root);
    if (text && strlen(text) < bytes)
        memcpy(json, text, strlen(text) + 1);
    cJSON_free(text);
    cJSON_Delete(root);
}

/* ---- reading ---- */

/* All of a file that is short, ended by a 0, for free(); NULL where it is not, or not readable. */
static char *read_short(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(MOST_BYTES) : NULL;
    if (text) {
        const size_t n = fread(text, 1, MOST_BYTES, file);
        text[n < MOST_BYTES ? n : 0] = '\0';
    }
    if (file)
        fclose(file);
    return text;
}

double state_file_seconds(const char *folder)
{
    const size_t bytes = strlen(folder) + sizeof "/state.json";
    char *path = malloc(bytes);
    if (!path)
        return 0;
    snprintf(path, bytes, "%s/state.json", folder);
    char *text = read_short(path);
    cJSON *root = text ? cJSON_Parse(text) : NULL;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "seconds");
    const double seconds =
        cJSON_IsNumber(item) && item->valuedouble >= 0 && isfinite(item->valuedouble) ? item->valuedouble : 0;
    cJSON_Delete(root);
    free(text);
    free(path);
    return seconds;
}
