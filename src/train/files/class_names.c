/* Names of classes; see class_names.h. */
#include "train/files/class_names.h"

#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "train/files/tensor_file.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

static comet_status out_of_memory(void)
{
    return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the names of classes");
}

/* Bytes of the UTF-8 character at `at`; 0 where there is none. */
static size_t utf8_length(const unsigned char *at)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = at[0] < 0x80 ? 1 : at[0] < 0xC2 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : at[0] < 0xF5 ? 4 : 0;
    uint32_t code = length > 1 ? at[0] & (0x7Fu >> length) : at[0];
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3F);
    }
    return code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : length;
}

/* A copy for free(); NULL where there is no memory. */
static char *as_utf8(const char *name)
{
    const unsigned char *at = (const unsigned char *)name;
    char *copy = malloc(3 * strlen(name) + 1), *to = copy;
    while (copy && *at != '\0') {
        const size_t length = utf8_length(at), bytes = length > 0 ? length : sizeof replacement - 1;
        memcpy(to, length > 0 ? (const char *)at : replacement, bytes);
        to += bytes;
        at += length > 0 ? length : 1;
    }
    if (copy)
        *to = '\0';
    return copy;
}

comet_status class_names_print(const comet_dataset *data, char **text)
{
    comet_dataset_info info;
    comet_dataset_info_init(&info);
    comet_status status = comet_dataset_describe(data, &info);
    *text = NULL;
    if (status != COMET_OK || !comet_dataset_class(data, 0))
        return status;
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < info.n_classes && status == COMET_OK; i++) {
        const char *name = comet_dataset_class(data, i);
        char *copy = as_utf8(name ? name : "");
        cJSON *item = copy ? cJSON_CreateString(copy) : NULL;
        free(copy);
        if (!list || !item || !cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            status = out_of_memory();
        }
    }
    *text = status == COMET_OK ? cJSON_PrintUnformatted(list) : NULL;
    cJSON_Delete(list);
    return status == COMET_OK && !*text ? out_of_memory() : status;
}

/* ---- reading ---- */

/* Counts the names and the bytes of their texts; false where an item is no text. */
static bool measure(const cJSON *list, uint32_t *n, size_t *bytes)
{
    *n = 0;
    *bytes = 0;
    for (const cJSON *item = list->child; item; item = item->next) {
        if (!cJSON_IsString(item) || *n == UINT32_MAX)
            return false;
        (*n)++;
        *bytes += strlen(item->valuestring) + 1;
    }
    return true;
}

/* Pointers and texts in one block. */
static comet_status copy_names(const cJSON *list, uint32_t n, size_t bytes, char ***names)
{
    char **made = malloc(n * sizeof *made + bytes + 1), *to = (char *)(made + n);
    uint32_t i = 0;
    if (!made)
        return out_of_memory();
    for (const cJSON *item = list->child; item; item = item->next) {
        const size_t length = strlen(item->valuestring) + 1;
        made[i++] = memcpy(to, item->valuestring, length);
        to += length;
    }
    *names = made;
    return COMET_OK;
}

comet_status comet_weights_class_names(const char *path, char ***names, uint32_t *n)
{
    safetensors_file *file = NULL;
    char **made = NULL;
    uint32_t count = 0;
    size_t bytes = 0;
    comet_status status = tensor_file_open(&file, path);
    const char *text = status == COMET_OK ? safetensors_metadata(file, "classes") : NULL;
    cJSON *list = text ? cJSON_Parse(text) : NULL;
    if (text && (!cJSON_IsArray(list) || !measure(list, &count, &bytes)))
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: its names of classes cannot be read", path);
    else if (count > 0)
        status = copy_names(list, count, bytes, &made);
    cJSON_Delete(list);
    safetensors_close(file);
    if (status == COMET_OK) {
        *names = made;
        *n = count;
    }
    return status;
}

void comet_class_names_free(char **names)
{
    free(names);
}
