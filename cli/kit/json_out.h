/*
 * JSON objects on stdout, one a line, keys in the order they were added.
 * Integers keep all 64 bits, doubles read back exactly, non-finite numbers become null.
 */
#ifndef COMET_CLI_JSON_OUT_H
#define COMET_CLI_JSON_OUT_H

#include <cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "comet/codec.h"
#include "kit/say.h"

/* An object under construction; json_print reports it if memory ran out meanwhile. */
typedef struct json {
    cJSON *root;
    bool failed;
} json;

json json_begin(void);
void json_add_u64(json *j, const char *key, uint64_t value);
void json_add_double(json *j, const char *key, double value);
void json_add_bool(json *j, const char *key, bool value);
void json_add_text(json *j, const char *key, const char *value); /* NULL: null */
void json_add_null(json *j, const char *key);
void json_add_doubles(json *j, const char *key, const double *values, uint32_t n);
void json_add_texts(json *j, const char *key, char *const *words); /* ended by NULL */
/* An item that is deleted with the object, also where memory ran out; NULL is a failure. */
void json_add_item(json *j, const char *key, cJSON *item);
/* An object within the object; releases it. */
void json_add_object(json *j, const char *key, json *object);
void json_add_numbers(json *j, const char *key, const uint64_t *values, uint32_t n);

/* dims, dtype and layout. */
void json_add_tensor(json *j, const comet_tensor *tensor);

/* The number under a key of an object that was read; NaN where there is none. */
double json_number(const cJSON *object, const char *key);

/* Prints the object as one line on stdout, or to `out`, and releases it. */
cli_exit json_print(json *j);
cli_exit json_write(json *j, FILE *out);

#endif
