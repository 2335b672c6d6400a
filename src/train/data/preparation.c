/* The preparation of images as text; see preparation.h. */
#include "train/data/preparation.h"

#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "train/data/picture.h"
#include "train/data/storage.h"

enum { NUMBER_BYTES = 26 };

/* Those of ImageNet. */
static const double usual_means[PICTURE_CHANNELS] = {0.485, 0.456, 0.406};
static const double usual_deviations[PICTURE_CHANNELS] = {0.229, 0.224, 0.225};

static size_t print_list(char *text, size_t bytes, const char *key, const double *values, uint32_t n)
{
    size_t at = (size_t)snprintf(text, bytes, ",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%.17g", i > 0 ? "," : "", values[i]);
    return at + (size_t)snprintf(text + at, bytes - at, "]");
}

comet_status preparation_print(const comet_dataset *d, char **text)
{
    const uint32_t n = d->info.channels;
    const preparation_rule *rule = &d->preparation;
    const size_t bytes = 100 + 2 * (size_t)n * NUMBER_BYTES;
    char *made = storage_new(bytes, 1);
    if (!made)
        return COMET_ERROR_MEMORY;
    size_t at = (size_t)snprintf(made, bytes, "{\"bytes\":%s,\"margin\":%s", rule->is_bytes ? "true" : "false",
                                 rule->has_margin ? "true" : "false");
    at += print_list(made + at, bytes - at, "mean", rule->means, n);
    at += print_list(made + at, bytes - at, "std", rule->deviations, n);
    snprintf(made + at, bytes - at, "}");
    *text = made;
    return COMET_OK;
}

static comet_status invalid(const char *path, const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: its preparation of images ('input') has no valid '%s'", path, what);
}

/* `n` finite numbers, more than 0 where `positive`. */
static bool take_list(const cJSON *list, double *values, uint32_t n, bool positive)
{
    const cJSON *item = cJSON_IsArray(list) ? list->child : NULL;
    for (uint32_t i = 0; i < n; i++, item = item->next) {
        if (!item || !cJSON_IsNumber(item) || !isfinite(item->valuedouble) || (positive && !(item->valuedouble > 0)))
            return false;
        values[i] = item->valuedouble;
    }
    return item == NULL;
}

static comet_status take_fields(preparation *p, const char *path, const cJSON *root)
{
    const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(root, "bytes");
    const cJSON *margin = cJSON_GetObjectItemCaseSensitive(root, "margin");
    if (!cJSON_IsBool(bytes))
        return invalid(path, "bytes");
    if (!cJSON_IsBool(margin))
        return invalid(path, "margin");
    if (!take_list(cJSON_GetObjectItemCaseSensitive(root, "mean"), p->means, p->channels, false))
        return invalid(path, "mean");
    if (!take_list(cJSON_GetObjectItemCaseSensitive(root, "std"), p->deviations, p->channels, true))
        return invalid(path, "std");
    p->is_bytes = cJSON_IsTrue(bytes);
    p->has_margin = cJSON_IsTrue(margin);
    return COMET_OK;
}

static void take_usual(preparation *p)
{
    p->is_bytes = p->has_margin = true;
    for (uint32_t c = 0; c < p->channels; c++) {
        p->means[c] = usual_means[c % PICTURE_CHANNELS];
        p->deviations[c] = usual_deviations[c % PICTURE_CHANNELS];
    }
}

comet_status preparation_parse(preparation *p, const char *path, const char *text, uint32_t channels, uint32_t height,
                               uint32_t width)
{
    comet_status status = COMET_OK;
    *p = (preparation){.channels = channels, .height = height, .width = width};
    p->means = storage_new(channels, sizeof *p->means);
    p->deviations = storage_new(channels, sizeof *p->deviations);
    if (!p->means || !p->deviations) {
        status = COMET_ERROR_MEMORY;
    } else if (text) {
        cJSON *root = cJSON_Parse(text);
        status = take_fields(p, path, root);
        cJSON_Delete(root);
    } else {
        take_usual(p);
    }
    if (status != COMET_OK)
        preparation_free(p);
    return status;
}

void preparation_free(preparation *p)
{
    free(p->means);
    free(p->deviations);
    *p = (preparation){0};
}
