/* Tables by class; see class_table.h. */
#include "train/class_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/csv.h"
#include "kit/text.h"
#include "train/figures.h"

enum { NAME_BYTES = 25, NUMBER_BYTES = 24 };

/* ---- making ---- */

/* Takes the list over: of the data, as far as it has names. */
static cli_exit names_of_data(class_table *t, const comet_dataset *data)
{
    if (!comet_dataset_class(data, 0))
        return CLI_OK;
    t->names = calloc(t->n_predicted, sizeof *t->names);
    for (uint32_t i = 0; i < t->n_true && t->names; i++) {
        const char *name = comet_dataset_class(data, i);
        if (name && !(t->names[i] = strdup(name)))
            return fail_memory(strlen(name) + 1);
    }
    return t->names ? CLI_OK : fail_memory(t->n_predicted * sizeof *t->names);
}

/* Names of the weights fill the gaps; the first that is not the data's is told. */
static cli_exit names_of_weights(class_table *t, const char *path)
{
    char **names = NULL;
    uint32_t n = 0;
    bool told = false;
    const comet_status status = comet_weights_class_names(path, &names, &n);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    if (n > 0 && !t->names && !(t->names = calloc(t->n_predicted, sizeof *t->names))) {
        comet_class_names_free(names);
        return fail_memory(t->n_predicted * sizeof *t->names);
    }
    cli_exit code = CLI_OK;
    for (uint32_t i = 0; i < n && i < t->n_predicted && code == CLI_OK; i++) {
        if (!t->names[i])
            t->names[i] = strdup(names[i]);
        if (!t->names[i]) {
            code = fail_memory(strlen(names[i]) + 1);
        } else if (i < t->n_true && !told && strcmp(t->names[i], names[i]) != 0) {
            complain("class %" PRIu32 " is '%s' in the data and '%s' in %s: scores count other classes than the weights know",
                     i, t->names[i], names[i], path);
            told = true;
        }
    }
    comet_class_names_free(names);
    return code;
}

cli_exit class_table_make(class_table *t, const comet_dataset *data, const char *path, uint32_t n_outputs)
{
    *t = (class_table){.n_true = info_of(data).n_classes, .n_predicted = n_outputs};
    t->counts = calloc(t->n_true, n_outputs * sizeof *t->counts);
    if (!t->counts)
        return fail_memory(t->n_true * n_outputs * sizeof *t->counts);
    const cli_exit code = names_of_data(t, data);
    return code == CLI_OK ? names_of_weights(t, path) : code;
}

void class_table_free(class_table *t)
{
    for (uint32_t i = 0; t->names && i < t->n_predicted; i++)
        free(t->names[i]);
    free(t->names);
    free(t->counts);
    *t = (class_table){0};
}

/* ---- counting ---- */

void class_table_count(class_table *t, const comet_batch *batch, const float *outputs)
{
    for (uint32_t row = 0; row < batch->n_valid; row++) {
        const float *scores = outputs + (size_t)row * t->n_predicted;
        uint32_t best = 0;
        for (uint32_t c = 1; c < t->n_predicted; c++)
            if (scores[c] > scores[best])
                best = c;
        t->counts[(size_t)batch->labels[row] * t->n_predicted + best]++;
    }
}

typedef struct class_row {
    uint64_t n_images, n_right, n_confused;
    uint32_t confused; /* the class it was most often taken for, if n_confused is not 0 */
} class_row;

static class_row row_of(const class_table *t, uint32_t label)
{
    const uint64_t *counts = t->counts + (size_t)label * t->n_predicted;
    class_row r = {.n_right = counts[label]};
    for (uint32_t c = 0; c < t->n_predicted; c++) {
        r.n_images += counts[c];
        if (c != label && counts[c] > r.n_confused) {
            r.n_confused = counts[c];
            r.confused = c;
        }
    }
    return r;
}

/* ---- printing ---- */

static const char *name_of(const class_table *t, uint32_t label)
{
    return t->names ? t->names[label] : NULL;
}

/* The name, or the number where there is none. */
static const char *label_text(const class_table *t, uint32_t label, char text[NUMBER_BYTES])
{
    if (name_of(t, label))
        return name_of(t, label);
    snprintf(text, NUMBER_BYTES, "%" PRIu32, label);
    return text;
}

/* For a column: printable, and cut. */
static const char *column_text(const class_table *t, uint32_t label, char text[NAME_BYTES])
{
    char number[NUMBER_BYTES];
    return text_printable(label_text(t, label, number), text, NAME_BYTES);
}

static int column_width(const class_table *t, uint32_t n)
{
    char text[NAME_BYTES];
    size_t width = 5;
    for (uint32_t i = 0; i < n; i++) {
        const size_t length = text_columns(column_text(t, i, text));
        width = length > width ? length : width;
    }
    return (int)width;
}

/* The name, and blanks up to the width: printf would count bytes. */
static void print_name(const class_table *t, uint32_t label, int width, FILE *out)
{
    char text[NAME_BYTES];
    column_text(t, label, text);
    const int missing = width - (int)text_columns(text);
    fprintf(out, "%s%*s", text, missing > 0 ? missing : 0, "");
}

void class_table_print(const class_table *t, FILE *out)
{
    const int width = column_width(t, t->n_true);
    fprintf(out, "\n%-*s  %8s  %8s  most confused with\n", width, "class", "images", "top-1");
    for (uint32_t i = 0; i < t->n_true; i++) {
        const class_row r = row_of(t, i);
        print_name(t, i, width, out);
        if (r.n_images == 0) {
            fprintf(out, "  %8d  %8s\n", 0, "-");
            continue;
        }
        fprintf(out, "  %8" PRIu64 "  %6.2f %%  ", r.n_images, 100 * (double)r.n_right / (double)r.n_images);
        if (r.n_confused > 0) {
            print_name(t, r.confused, 0, out);
            fprintf(out, " (%" PRIu64 ")\n", r.n_confused);
        } else {
            fputs("-\n", out);
        }
    }
}

void class_table_csv(const class_table *t, FILE *out)
{
    char number[NUMBER_BYTES];
    fputs("class,images,top1,confused_with,confused\n", out);
    for (uint32_t i = 0; i < t->n_true; i++) {
        const class_row r = row_of(t, i);
        csv_text(out, label_text(t, i, number));
        fprintf(out, ",%" PRIu64 ",", r.n_images);
        if (r.n_images > 0)
            fprintf(out, "%.6g", (double)r.n_right / (double)r.n_images);
        fputc(',', out);
        if (r.n_confused > 0)
            csv_text(out, label_text(t, r.confused, number));
        fprintf(out, ",%" PRIu64 "\n", r.n_confused);
    }
}

void class_table_json(const class_table *t, json *j)
{
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < t->n_true && list; i++) {
        const class_row r = row_of(t, i);
        json one = json_begin();
        json_add_text(&one, "class", name_of(t, i));
        json_add_u64(&one, "label", i);
        json_add_u64(&one, "images", r.n_images);
        json_add_double(&one, "top1", r.n_images > 0 ? (double)r.n_right / (double)r.n_images : NAN);
        json_add_text(&one, "confused_with", r.n_confused > 0 ? name_of(t, r.confused) : NULL);
        if (r.n_confused > 0)
            json_add_u64(&one, "confused_label", r.confused);
        else
            json_add_null(&one, "confused_label");
        json_add_u64(&one, "confused", r.n_confused);
        j->failed = j->failed || one.failed || !cJSON_AddItemToArray(list, one.root);
    }
    json_add_item(j, "per_class", list);
}

/* Digits of the largest count or class number. */
static int cell_width(const class_table *t)
{
    uint64_t largest = t->n_predicted - 1;
    int width = 1;
    for (size_t i = 0; i < (size_t)t->n_true * t->n_predicted; i++)
        largest = t->counts[i] > largest ? t->counts[i] : largest;
    for (; largest >= 10; largest /= 10)
        width++;
    return width;
}

void matrix_print(const class_table *t, FILE *out)
{
    const int width = column_width(t, t->n_true), cell = cell_width(t);
    fprintf(out, "\ntrue class, and how often each class was predicted, by number\n%*s", width + 4, "");
    for (uint32_t c = 0; c < t->n_predicted; c++)
        fprintf(out, "  %*" PRIu32, cell, c);
    for (uint32_t i = 0; i < t->n_true; i++) {
        fprintf(out, "\n%2" PRIu32 "  ", i);
        print_name(t, i, width, out);
        for (uint32_t c = 0; c < t->n_predicted; c++)
            fprintf(out, "  %*" PRIu64, cell, t->counts[(size_t)i * t->n_predicted + c]);
    }
    fputc('\n', out);
}

void matrix_csv(const class_table *t, FILE *out)
{
    char number[NUMBER_BYTES];
    fputs("class", out);
    for (uint32_t c = 0; c < t->n_predicted; c++) {
        fputc(',', out);
        csv_text(out, label_text(t, c, number));
    }
    for (uint32_t i = 0; i < t->n_true; i++) {
        fputc('\n', out);
        csv_text(out, label_text(t, i, number));
        for (uint32_t c = 0; c < t->n_predicted; c++)
            fprintf(out, ",%" PRIu64, t->counts[(size_t)i * t->n_predicted + c]);
    }
    fputc('\n', out);
}

void matrix_json(const class_table *t, json *j)
{
    cJSON *names = cJSON_CreateArray(), *rows = cJSON_CreateArray();
    for (uint32_t c = 0; c < t->n_predicted && names; c++) {
        cJSON *name = name_of(t, c) ? cJSON_CreateString(name_of(t, c)) : cJSON_CreateNull();
        j->failed = j->failed || !name || !cJSON_AddItemToArray(names, name);
    }
    for (uint32_t i = 0; i < t->n_true && rows; i++) {
        json row = json_begin();
        json_add_numbers(&row, "row", t->counts + (size_t)i * t->n_predicted, t->n_predicted);
        cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(row.root, "row");
        j->failed = j->failed || row.failed || !list || !cJSON_AddItemToArray(rows, list);
        cJSON_Delete(row.root);
    }
    json_add_item(j, "classes", names);
    json_add_item(j, "confusion", rows);
}
