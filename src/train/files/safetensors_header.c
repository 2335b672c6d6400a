/* Taking the header of a safetensors file apart; see safetensors_header.h. */
#include "train/files/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "train/files/safetensors_private.h"

enum { FIRST_CAPACITY = 64 };

typedef struct reader {
    const char *path;
    char *begin, *at, *end; /* of the text; what is before `at` was read, and may have been overwritten */
    safetensors_header *header;
    size_t tensor_capacity, metadata_capacity;
    bool has_metadata;
} reader;

/* A string as it is decoded, and where it was. */
typedef struct string {
    char *text;
    size_t raw_begin, raw_bytes; /* between its quotes, in the header */
} string;

comet_status safetensors_bad_tensor(const char *path, const char *name, const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: tensor '%.120s': %s", path, name, what);
}

/* ---- tokens ---- */

static comet_status not_json(const reader *r, const char *expected)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: not a safetensors file, or damaged: its header is not JSON: %s at byte %zu",
                      r->path, expected, (size_t)(r->at - r->begin));
}

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool next_is(reader *r, char c)
{
    skip_space(r);
    return r->at < r->end && *r->at == c;
}

/* Steps over `c` where it comes next. */
static bool take(reader *r, char c)
{
    const bool is = next_is(r, c);
    r->at += is;
    return is;
}

/* Digits without a sign, a leading zero, a fraction or an exponent. */
static bool take_number(reader *r, uint64_t *value)
{
    skip_space(r);
    const char *first = r->at;
    *value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(*r->at - '0'), value))
            return false;
    return r->at > first && (*first != '0' || r->at == first + 1);
}

/* A list of at most `most` whole numbers. */
static bool take_numbers(reader *r, uint64_t *values, uint32_t most, uint32_t *n)
{
    *n = 0;
    if (!take(r, '['))
        return false;
    if (take(r, ']'))
        return true;
    do
        if (*n == most || !take_number(r, &values[(*n)++]))
            return false;
    while (take(r, ','));
    return take(r, ']');
}

/* ---- strings ---- */

static bool take_hex4(reader *r, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->end ? *r->at : '\0', lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *value = *value * 16 + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *value = *value * 16 + (uint32_t)(lower - 'a') + 10;
        else
            return false;
    }
    return true;
}

/* The code point after "\u", of which some need a second "\u". Zero would end the string early and is refused. */
static bool take_code_point(reader *r, uint32_t *code)
{
    uint32_t low = 0;
    if (!take_hex4(r, code) || *code == 0 || (*code >= 0xDC00 && *code < 0xE000))
        return false;
    if (*code < 0xD800 || *code >= 0xE000)
        return true;
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
        return false;
    r->at += 2;
    if (!take_hex4(r, &low) || low < 0xDC00 || low >= 0xE000)
        return false;
    *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

/* UTF-8; never longer than the escape that it replaces. */
static char *put_code_point(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int n_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(lead[n_more] | code >> (6 * n_more));
    for (int i = n_more - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (code >> (6 * i) & 0x3F));
    return to;
}

/* What follows a backslash, decoded to *to. */
static bool take_escape(reader *r, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end)
        return false;
    const char c = *r->at++, *name = c != '\0' ? strchr(names, c) : NULL;
    if (name) {
        *(*to)++ = values[name - names];
        return true;
    }
    uint32_t code = 0;
    if (c != 'u' || !take_code_point(r, &code))
        return false;
    *to = put_code_point(*to, code);
    return true;
}

static comet_status take_string(reader *r, string *s)
{
    if (!take(r, '"'))
        return not_json(r, "no string");
    char *to = r->at;
    s->text = r->at;
    s->raw_begin = (size_t)(r->at - r->begin);
    while (r->at < r->end && *r->at != '"') {
        if ((unsigned char)*r->at < ' ')
            return not_json(r, "a control character in a string");
        if (*r->at != '\\') {
            *to++ = *r->at++;
            continue;
        }
        r->at++;
        if (!take_escape(r, &to))
            return not_json(r, "a bad escape");
    }
    if (r->at == r->end)
        return not_json(r, "an unfinished string");
    s->raw_bytes = (size_t)(r->at - r->begin) - s->raw_begin;
    *to = '\0'; /* the closing quote's place at the latest */
    r->at++;
    return COMET_OK;
}

/* The next key of an object whose '{' was read, and the colon after it; *more is false after its '}'. */
static comet_status next_key(reader *r, bool first, string *key, bool *more)
{
    *more = !take(r, '}');
    if (!*more)
        return COMET_OK;
    if (!first && !take(r, ','))
        return not_json(r, "neither ',' nor '}'");
    const comet_status status = take_string(r, key);
    if (status == COMET_OK && !take(r, ':'))
        return not_json(r, "no ':'");
    return status;
}

/* ---- tables that grow ---- */

static comet_status out_of_memory(const reader *r)
{
    return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the header of %s", r->path);
}

/* Room for one more of n items; returns the table, or NULL and leaves the old one. */
static void *grow(void *table, size_t n, size_t item_bytes, size_t *capacity)
{
    if (n < *capacity)
        return table;
    const size_t larger = *capacity > 0 ? 2 * *capacity : FIRST_CAPACITY;
    void *moved = realloc(table, larger * item_bytes);
    if (moved)
        *capacity = larger;
    return moved;
}

static safetensors_tensor *add_tensor(reader *r)
{
    safetensors_header *h = r->header;
    safetensors_tensor *larger = grow(h->tensors, h->n_tensors, sizeof *larger, &r->tensor_capacity);
    if (!larger)
        return NULL;
    h->tensors = larger;
    return &larger[h->n_tensors++];
}

static safetensors_pair *add_pair(reader *r)
{
    safetensors_header *h = r->header;
    safetensors_pair *larger = grow(h->metadata, h->n_metadata, sizeof *larger, &r->metadata_capacity);
    if (!larger)
        return NULL;
    h->metadata = larger;
    return &larger[h->n_metadata++];
}

/* ---- tensors ---- */

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4 };

typedef struct entry {
    safetensors_tensor *tensor;
    const safetensors_type *type;
    uint64_t offsets[2];
    int seen;
} entry;

static comet_status take_dtype(reader *r, entry *e)
{
    string name;
    if (next_is(r, '"')) {
        const comet_status status = take_string(r, &name);
        if (status != COMET_OK)
            return status;
        for (e->type = safetensors_types; e->type->name; e->type++)
            if (strcmp(e->type->name, name.text) == 0)
                return COMET_OK;
    }
    return safetensors_bad_tensor(r->path, e->tensor->name, "its dtype is missing or unknown");
}

static comet_status take_field(reader *r, const char *key, entry *e)
{
    safetensors_tensor *t = e->tensor;
    uint32_t n = 0;
    const int field = strcmp(key, "dtype") == 0          ? HAS_DTYPE
                      : strcmp(key, "shape") == 0        ? HAS_SHAPE
                      : strcmp(key, "data_offsets") == 0 ? HAS_OFFSETS
                                                         : 0;
    if (field == 0 || (e->seen & field))
        return comet_fail(COMET_ERROR_CORRUPT, "%s: tensor '%.120s': its field '%.40s' is %s", r->path, t->name, key,
                          field ? "there twice" : "not of the format");
    e->seen |= field;
    if (field == HAS_DTYPE)
        return take_dtype(r, e);
    if (field == HAS_SHAPE && !take_numbers(r, t->dims, SAFETENSORS_MAX_DIMS, &t->n_dims))
        return safetensors_bad_tensor(r->path, t->name, "its shape is not a list of at most 8 whole numbers");
    if (field == HAS_OFFSETS && (!take_numbers(r, e->offsets, 2, &n) || n != 2))
        return safetensors_bad_tensor(r->path, t->name, "its data_offsets are not two whole numbers");
    return COMET_OK;
}

static comet_status finish_tensor(const reader *r, const entry *e)
{
    safetensors_tensor *t = e->tensor;
    if (!(e->seen & HAS_DTYPE))
        return safetensors_bad_tensor(r->path, t->name, "its dtype is missing or unknown");
    if (!(e->seen & HAS_SHAPE))
        return safetensors_bad_tensor(r->path, t->name, "its shape is missing");
    if (!(e->seen & HAS_OFFSETS))
        return safetensors_bad_tensor(r->path, t->name, "its data_offsets are missing");
    t->dtype = e->type->dtype;
    t->offset = e->offsets[0];
    if (!safetensors_size(t->n_dims, t->dims, e->type->bytes, &t->n_elements, &t->bytes) || e->offsets[1] < t->offset ||
        e->offsets[1] - t->offset != t->bytes)
        return safetensors_bad_tensor(r->path, t->name, "its data_offsets do not fit its shape");
    return COMET_OK;
}

static comet_status take_tensor(reader *r, const char *name)
{
    entry e = {.tensor = add_tensor(r)};
    if (!e.tensor)
        return out_of_memory(r);
    *e.tensor = (safetensors_tensor){.name = name};
    if (!take(r, '{'))
        return safetensors_bad_tensor(r->path, name, "it is not described by an object");
    string key;
    bool more = true;
    comet_status status = next_key(r, true, &key, &more);
    while (status == COMET_OK && more) {
        status = take_field(r, key.text, &e);
        if (status == COMET_OK)
            status = next_key(r, false, &key, &more);
    }
    return status == COMET_OK ? finish_tensor(r, &e) : status;
}

/* ---- metadata ---- */

/* The digits are hashed as zeros where they lie, so they must lie there as they are. */
static comet_status take_checksum(reader *r, const string *value)
{
    if (value->raw_bytes != SAFETENSORS_CHECKSUM_DIGITS || strlen(value->text) != SAFETENSORS_CHECKSUM_DIGITS)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: its checksum does not have %d digits", r->path,
                          SAFETENSORS_CHECKSUM_DIGITS);
    r->header->checksum = value->raw_begin;
    return COMET_OK;
}

static comet_status take_pair(reader *r, const char *key)
{
    string value;
    comet_status status = take_string(r, &value);
    if (status == COMET_OK && strcmp(key, "comet_checksum") == 0)
        status = take_checksum(r, &value);
    if (status != COMET_OK)
        return status;
    safetensors_pair *pair = add_pair(r);
    if (!pair)
        return out_of_memory(r);
    *pair = (safetensors_pair){.key = key, .text = value.text};
    return COMET_OK;
}

static int by_key(const void *a, const void *b)
{
    const safetensors_pair *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static comet_status take_metadata(reader *r)
{
    if (r->has_metadata)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: it has __metadata__ twice", r->path);
    r->has_metadata = true;
    if (!take(r, '{'))
        return comet_fail(COMET_ERROR_CORRUPT, "%s: its __metadata__ is not an object of texts", r->path);
    string key;
    bool more = true;
    comet_status status = next_key(r, true, &key, &more);
    while (status == COMET_OK && more) {
        status = take_pair(r, key.text);
        if (status == COMET_OK)
            status = next_key(r, false, &key, &more);
    }
    safetensors_pair *pairs = r->header->metadata;
    if (pairs)
        qsort(pairs, r->header->n_metadata, sizeof *pairs, by_key);
    for (size_t i = 1; pairs && i < r->header->n_metadata && status == COMET_OK; i++)
        if (by_key(&pairs[i - 1], &pairs[i]) == 0)
            status = comet_fail(COMET_ERROR_CORRUPT, "%s: its metadata has the key '%.120s' twice", r->path, pairs[i].key);
    return status;
}

/* ---- the header ---- */

static comet_status take_header(reader *r)
{
    string key;
    bool more = true;
    if (!take(r, '{'))
        return not_json(r, "no '{'");
    comet_status status = next_key(r, true, &key, &more);
    while (status == COMET_OK && more) {
        status = strcmp(key.text, "__metadata__") == 0 ? take_metadata(r) : take_tensor(r, key.text);
        if (status == COMET_OK)
            status = next_key(r, false, &key, &more);
    }
    skip_space(r);
    if (status == COMET_OK && r->at < r->end)
        return not_json(r, "more than one object");
    return status;
}

comet_status safetensors_header_parse(safetensors_header *header, const char *path, char *text, size_t bytes)
{
    *header = (safetensors_header){0};
    reader r = {.path = path, .begin = text, .at = text, .end = text + bytes, .header = header};
    const comet_status status = take_header(&r);
    if (status != COMET_OK)
        safetensors_header_free(header);
    return status;
}

void safetensors_header_free(safetensors_header *header)
{
    free(header->tensors);
    free(header->metadata);
    *header = (safetensors_header){0};
}
