/* JSON output; see json_out.h. cJSON keeps numbers as doubles, so numbers are added as text that we format. */
#include "kit/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kit/enum_names.h"
#include "kit/number.h"

json json_begin(void)
{
    cJSON *root = cJSON_CreateObject();
    return (json){.root = root, .failed = root == NULL};
}

void json_add_item(json *j, const char *key, cJSON *item)
{
    if (!item || !cJSON_AddItemToObject(j->root, key, item)) {
        cJSON_Delete(item);
        j->failed = true;
    }
}

void json_add_u64(json *j, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    json_add_item(j, key, cJSON_CreateRaw(text));
}

void json_add_double(json *j, const char *key, double value)
{
    char text[40];
    number_format(value, text, sizeof text);
    json_add_item(j, key, isfinite(value) ? cJSON_CreateRaw(text) : cJSON_CreateNull());
}

void json_add_bool(json *j, const char *key, bool value)
{
    json_add_item(j, key, cJSON_CreateBool(value));
}
void json_add_null(json *j, const char *key)
{
    json_add_item(j, key, cJSON_CreateNull());
}

void json_add_text(json *j, const char *key, const char *value)
{
    json_add_item(j, key, value ? cJSON_CreateString(value) : cJSON_CreateNull());
}

void json_add_numbers(json *j, const char *key, const uint64_t *values, uint32_t n)
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t i = 0; i < n && array; i++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRIu64, values[i]);
        cJSON *item = cJSON_CreateRaw(text);
        j->failed = j->failed || !item || !cJSON_AddItemToArray(array, item);
    }
    json_add_item(j, key, array);
}

void json_add_doubles(json *j, const char *key, const double *values, uint32_t n)
{
    cJSON *array = cJSON_CreateDoubleArray(values, (int)n);
    j->failed = j->failed || !array;
    json_add_item(j, key, array);
}

void json_add_texts(json *j, const char *key, char *const *words)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; words[i] && array; i++) {
        cJSON *item = cJSON_CreateString(words[i]);
        j->failed = j->failed || !item || !cJSON_AddItemToArray(array, item);
    }
    json_add_item(j, key, array);
}

void json_add_object(json *j, const char *key, json *object)
{
    j->failed = j->failed || object->failed;
    json_add_item(j, key, object->root);
    *object = (json){0};
}

void json_add_tensor(json *j, const comet_tensor *tensor)
{
    json_add_numbers(j, "dims", tensor->dims, tensor->n_dims);
    json_add_text(j, "dtype", dtype_name(tensor->dtype));
    json_add_text(j, "layout", layout_name(tensor->layout));
}

double json_number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

cli_exit json_write(json *j, FILE *out)
{
    char *text = j->failed ? NULL : cJSON_PrintUnformatted(j->root);
    cJSON_Delete(j->root);
    *j = (json){0};
    if (!text)
        return fail(CLI_NO_MEMORY, "out of memory: could not write JSON");
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    return CLI_OK;
}

cli_exit json_print(json *j)
{
    return json_write(j, stdout);
}
