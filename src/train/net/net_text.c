/*
 * The text format of nets: docs/net_format.md. Reader and writer both go by the table of options in net_keys.c.
 *
 *   line     [ "net" NAME | "input" C H W | NAME "=" KIND INPUT... KEY "=" VALUE... ] [ "#" comment ]
 *
 * The reader looks at the text where it lies and copies only names and numbers; any bytes are safe. What it quotes from the
 * text is cut and made printable. Numbers are read and written in the C locale whatever the host has set.
 */
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/status.h"
#include "train/net/net_internal.h"

/* ---- words ---- */

typedef struct word {
    const char *start;
    size_t length;
} word;

typedef struct quoted {
    char text[48];
} quoted;

/* The word for a sentence. */
static quoted quote(word w)
{
    quoted q;
    const size_t most = 40, n = w.length < most ? w.length : most;
    for (size_t i = 0; i < n; i++)
        q.text[i] = (char)(w.start[i] >= ' ' && w.start[i] <= '~' ? w.start[i] : '?');
    snprintf(q.text + n, sizeof q.text - n, "%s", w.length > most ? "..." : "");
    return q;
}

static bool word_is(word w, const char *text)
{
    return strlen(text) == w.length && memcmp(w.start, text, w.length) == 0;
}

/* "; did you mean conv?" or "". */
static quoted suggestion(const nearest_word *nearest)
{
    const char *best = nearest_best(nearest);
    quoted q = {""};
    if (best)
        snprintf(q.text, sizeof q.text, "; did you mean %.28s?", best);
    return q;
}

/* ---- reading ---- */

typedef struct reader {
    const char *source;
    unsigned long long line; /* from 1 */
    const char *at, *end;    /* what is left of the line */
    char name[COMET_MAX_LAYER_NAME];
    bool named;
    comet_net *net; /* NULL until the input's line */
} reader;

static comet_status fail_here(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static comet_status fail_here(const reader *r, const char *format, ...)
{
    char sentence[400];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return comet_fail(COMET_ERROR_ARGUMENT, "%.160s:%llu: %s", r->source, r->line, sentence);
}

/* Puts source and line before the sentence of a call that failed. */
static comet_status locate(const reader *r, comet_status status)
{
    char sentence[400];
    if (status != COMET_ERROR_ARGUMENT)
        return status;
    snprintf(sentence, sizeof sentence, "%s", comet_last_error());
    return fail_here(r, "%s", sentence);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
}

/* The next word; empty at the end of the line and before an equals sign. */
static word take_word(reader *r)
{
    skip_blanks(r);
    word w = {r->at, 0};
    while (r->at < r->end && !is_blank(*r->at) && *r->at != '=')
        r->at++;
    w.length = (size_t)(r->at - w.start);
    return w;
}

static bool take_equals(reader *r)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != '=')
        return false;
    r->at++;
    return true;
}

/* Digits only; false for anything else and for what is above UINT32_MAX. */
static bool parse_count(word w, uint32_t *count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < w.length; i++) {
        if (w.start[i] < '0' || w.start[i] > '9')
            return false;
        number = 10 * number + (uint64_t)(w.start[i] - '0');
        if (number > UINT32_MAX)
            return false;
    }
    *count = (uint32_t)number;
    return w.length > 0;
}

/* "3" or "3x5". */
static bool parse_pair(word w, uint32_t pair[2])
{
    const char *x = memchr(w.start, 'x', w.length);
    if (!x) {
        const bool ok = parse_count(w, &pair[0]);
        pair[1] = pair[0];
        return ok;
    }
    const size_t before = (size_t)(x - w.start);
    return parse_count((word){w.start, before}, &pair[0]) && parse_count((word){x + 1, w.length - before - 1}, &pair[1]);
}

/* A finite decimal number. strtof alone would also take hexadecimal numbers, "inf" and "nan". */
static bool parse_float(word w, float *number)
{
    char text[64], *rest;
    if (w.length == 0 || w.length >= sizeof text)
        return false;
    memcpy(text, w.start, w.length);
    text[w.length] = '\0';
    if (strspn(text, "0123456789.eE+-") != w.length)
        return false;
    *number = strtof(text, &rest);
    return *rest == '\0' && isfinite(*number);
}

static comet_status unknown_init(const reader *r, word value)
{
    nearest_word nearest = nearest_to(value.start, value.length);
    for (size_t i = 0; net_init_word(i); i++)
        nearest_offer(&nearest, net_init_word(i));
    return fail_here(r, "unknown init '%s'%s", quote(value).text, suggestion(&nearest).text);
}

static comet_status set_init(const reader *r, comet_init *init, word value)
{
    for (size_t i = 0; net_init_word(i); i++)
        if (word_is(value, net_init_word(i))) {
            *init = (comet_init)i;
            return COMET_OK;
        }
    return unknown_init(r, value);
}

static bool parse_bool(word value, bool *flag)
{
    *flag = word_is(value, "yes");
    return *flag || word_is(value, "no");
}

static bool in_range(const layer_key *key, double number)
{
    return number >= key->min && number <= key->max;
}

/* Stores the value in the layer's field, if it is valid and in its range. */
static comet_status set_field(const reader *r, const layer_key *key, comet_layer *layer, word value)
{
    void *field = (char *)layer + key->offset;
    uint32_t pair[2] = {0, 0};
    float number = 0;
    bool ok = false, flag = false;
    switch (key->kind) {
    case KEY_COUNT:
        ok = parse_count(value, pair) && in_range(key, pair[0]);
        memcpy(field, pair, sizeof *pair);
        break;
    case KEY_PAIR:
        ok = parse_pair(value, pair) && in_range(key, pair[0]) && in_range(key, pair[1]);
        memcpy(field, pair, sizeof pair);
        break;
    case KEY_FLOAT:
        ok = parse_float(value, &number) && in_range(key, (double)number);
        memcpy(field, &number, sizeof number);
        break;
    case KEY_BOOL:
        ok = parse_bool(value, &flag);
        memcpy(field, &flag, sizeof flag);
        break;
    case KEY_INIT: return set_init(r, field, value);
    }
    if (ok)
        return COMET_OK;
    return fail_here(r, "%s: %s=%s is not %s%s", layer->name, key->word, quote(value).text, key->range,
                     key->kind == KEY_PAIR ? ", or two such numbers as in 3x5" : "");
}

static comet_status unknown_key(const reader *r, const comet_layer *layer, word w)
{
    nearest_word nearest = nearest_to(w.start, w.length);
    for (size_t i = 0; i < NET_N_KEYS; i++)
        if (key_is_for(&net_keys[i], layer->op))
            nearest_offer_for(&nearest, net_keys[i].word, net_key_synonyms(net_keys[i].word));
    return fail_here(r, "%s: %s has no option '%s'%s", layer->name, comet_op_name(layer->op), quote(w).text,
                     suggestion(&nearest).text);
}

/* `seen` has a bit for every option that the line has given. */
static comet_status read_option(reader *r, comet_layer *layer, word name, uint32_t *seen)
{
    const word value = take_word(r);
    for (size_t i = 0; i < NET_N_KEYS; i++) {
        if (!key_is_for(&net_keys[i], layer->op) || !word_is(name, net_keys[i].word))
            continue;
        if (*seen >> i & 1)
            return fail_here(r, "%s: %s is given twice", layer->name, net_keys[i].word);
        *seen |= UINT32_C(1) << i;
        return set_field(r, &net_keys[i], layer, value);
    }
    return unknown_key(r, layer, name);
}

static comet_status read_input(const reader *r, comet_layer *layer, word name)
{
    const uint32_t value = net_find(r->net, name.start, name.length);
    if (value == NET_NO_VALUE) {
        nearest_word nearest = nearest_to(name.start, name.length);
        for (uint32_t v = 0; v < r->net->n_values; v++)
            nearest_offer(&nearest, r->net->layers[v].name);
        return fail_here(r, "%s: its input '%s' is not defined above%s", layer->name, quote(name).text,
                         suggestion(&nearest).text);
    }
    if (layer->n_inputs == COMET_MAX_INPUTS)
        return fail_here(r, "%s: more than %d inputs", layer->name, COMET_MAX_INPUTS);
    layer->inputs[layer->n_inputs++] = value;
    return COMET_OK;
}

/* Inputs and options, up to the end of the line. */
static comet_status read_operands(reader *r, comet_layer *layer)
{
    comet_status status = COMET_OK;
    uint32_t seen = 0;
    while (status == COMET_OK) {
        const word w = take_word(r);
        if (w.length == 0 && r->at == r->end)
            break;
        if (w.length == 0)
            status = fail_here(r, "%s: '=' without the name of an option before it", layer->name);
        else if (take_equals(r))
            status = read_option(r, layer, w, &seen);
        else
            status = read_input(r, layer, w);
    }
    return status;
}

static comet_status unknown_kind(const reader *r, const char *name, word w)
{
    char kinds[200] = "";
    size_t length = 0;
    nearest_word nearest = nearest_to(w.start, w.length);
    for (int i = COMET_OP_INPUT + 1; i < COMET_N_OPS && length < sizeof kinds; i++) {
        const char *kind = comet_op_name((comet_op)i);
        nearest_offer_for(&nearest, kind, net_op_synonyms((comet_op)i));
        length += (size_t)snprintf(kinds + length, sizeof kinds - length, "%s%s", length > 0 ? ", " : "", kind);
    }
    return fail_here(r, "%s: unknown kind of layer '%s'%s%s %s", name, quote(w).text, suggestion(&nearest).text,
                     nearest_best(&nearest) ? " There are" : "; there are", kinds);
}

static comet_status read_kind(reader *r, const char *name, comet_op *op)
{
    const word w = take_word(r);
    if (w.length == 0)
        return fail_here(r, "%s: the kind of layer is missing after '='", name);
    for (int i = COMET_OP_INPUT + 1; i < COMET_N_OPS; i++) {
        *op = (comet_op)i;
        if (word_is(w, comet_op_name(*op)))
            return COMET_OK;
    }
    return unknown_kind(r, name, w);
}

static comet_status read_layer(reader *r, word first)
{
    char name[COMET_MAX_LAYER_NAME];
    comet_layer layer;
    comet_op op = COMET_OP_INPUT;
    if (!r->net)
        return fail_here(r, "a line 'input CHANNELS HEIGHT WIDTH' must come before the first layer");
    const char *fault = net_name_fault(first.start, first.length);
    if (fault)
        return fail_here(r, "the layer's name '%s' %s", quote(first).text, fault);
    memcpy(name, first.start, first.length);
    name[first.length] = '\0';
    comet_status status = read_kind(r, name, &op);
    if (status != COMET_OK)
        return status;
    comet_layer_init(&layer, op, name);
    status = read_operands(r, &layer);
    if (status != COMET_OK)
        return status;
    if (layer.n_inputs == 0) {
        layer.n_inputs = 1;
        layer.inputs[0] = r->net->n_values - 1;
    }
    return locate(r, comet_net_add(r->net, &layer, NULL));
}

static comet_status read_net_line(reader *r)
{
    const word name = take_word(r), more = take_word(r);
    const char *fault = net_name_fault(name.start, name.length);
    if (r->net)
        return fail_here(r, "the line 'net NAME' comes before the input");
    if (r->named)
        return fail_here(r, "a second line 'net NAME'");
    if (fault)
        return fail_here(r, "the net's name '%s' %s", quote(name).text, fault);
    if (more.length > 0 || r->at < r->end)
        return fail_here(r, "'net NAME' takes one word");
    memcpy(r->name, name.start, name.length);
    r->name[name.length] = '\0';
    r->named = true;
    return COMET_OK;
}

static comet_status read_input_line(reader *r)
{
    uint32_t dims[3];
    if (r->net)
        return fail_here(r, "a second line 'input CHANNELS HEIGHT WIDTH'");
    for (int i = 0; i < 3; i++)
        if (!parse_count(take_word(r), &dims[i]))
            return fail_here(r, "after 'input' come three whole numbers: channels, height, width");
    skip_blanks(r);
    if (r->at < r->end)
        return fail_here(r, "after 'input' come three whole numbers and nothing else");
    return locate(r, comet_net_create(&r->net, r->name, dims[0], dims[1], dims[2]));
}

static comet_status read_line(reader *r)
{
    const word first = take_word(r);
    if (first.length == 0 && r->at == r->end)
        return COMET_OK;
    if (take_equals(r))
        return read_layer(r, first);
    if (word_is(first, "net"))
        return read_net_line(r);
    if (word_is(first, "input"))
        return read_input_line(r);
    return fail_here(r, "'=' is missing after '%s': a layer is NAME = KIND INPUT... OPTION=VALUE...", quote(first).text);
}

static comet_status read_lines(reader *r, const char *text, size_t bytes)
{
    comet_status status = COMET_OK;
    for (size_t at = 0; status == COMET_OK && at < bytes;) {
        const char *start = text + at, *newline = memchr(start, '\n', bytes - at);
        const size_t length = newline ? (size_t)(newline - start) : bytes - at;
        const char *comment = memchr(start, '#', length);
        r->line++;
        r->at = start;
        r->end = comment ? comment : start + length;
        status = read_line(r);
        at += length + 1;
    }
    if (status == COMET_OK && !r->net)
        status = fail_here(r, "the text ends without a line 'input CHANNELS HEIGHT WIDTH'");
    return status;
}

typedef struct number_locale {
    locale_t c, before;
} number_locale;

/* Makes the calling thread read and write numbers as C does; false where memory is short. */
static bool enter_c_locale(number_locale *l)
{
    l->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (l->c == (locale_t)0) {
        comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the C locale");
        return false;
    }
    l->before = uselocale(l->c);
    return true;
}

static void leave_c_locale(const number_locale *l)
{
    uselocale(l->before);
    freelocale(l->c);
}

comet_status comet_net_read(comet_net **net, const char *source, const char *text, size_t bytes)
{
    if (!net || (!text && bytes > 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_net_read needs a place for the net and a text");
    reader r = {.source = source ? source : "net", .name = "net"};
    number_locale l;
    if (!enter_c_locale(&l))
        return COMET_ERROR_MEMORY;
    const comet_status status = read_lines(&r, text, bytes);
    leave_c_locale(&l);
    if (status == COMET_OK)
        *net = r.net;
    else
        comet_net_destroy(r.net);
    return status;
}

/* ---- writing ---- */

/* A text that grows; after running out of memory it stays as it is. */
typedef struct writer {
    char *text;
    size_t length, capacity;
    bool failed;
} writer;

static void write_text(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Pieces are shorter than 256 characters: the longest is a name. */
static void write_text(writer *w, const char *format, ...)
{
    if (w->capacity - w->length < 256) {
        char *grown = w->failed ? NULL : realloc(w->text, 2 * w->capacity + 1024);
        if (!grown) {
            w->failed = true;
            return;
        }
        w->text = grown;
        w->capacity = 2 * w->capacity + 1024;
    }
    va_list args;
    va_start(args, format);
    w->length += (size_t)vsnprintf(w->text + w->length, w->capacity - w->length, format, args);
    va_end(args);
}

/* The shortest decimal number that reads back as the same float. */
static void write_float(writer *w, float number)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)number);
        if (strtof(text, NULL) == number)
            break;
    }
    write_text(w, "%s", text);
}

static void write_value(writer *w, const layer_key *key, const void *field)
{
    const uint32_t *pair = field;
    switch (key->kind) {
    case KEY_COUNT: write_text(w, "%u", *pair); break;
    case KEY_PAIR:
        write_text(w, "%u", pair[0]);
        if (pair[0] != pair[1])
            write_text(w, "x%u", pair[1]);
        break;
    case KEY_BOOL: write_text(w, "%s", *(const bool *)field ? "yes" : "no"); break;
    case KEY_INIT: write_text(w, "%s", net_init_word(*(const comet_init *)field)); break;
    case KEY_FLOAT: write_float(w, *(const float *)field); break;
    }
}

static void write_layer(writer *w, const comet_net *net, const comet_layer *layer)
{
    comet_layer usual;
    comet_layer_init(&usual, layer->op, "");
    if (layer->op == COMET_OP_MAX_POOL || layer->op == COMET_OP_AVG_POOL)
        memcpy(usual.stride, layer->kernel, sizeof usual.stride);
    write_text(w, "%s = %s", layer->name, comet_op_name(layer->op));
    for (uint32_t i = 0; i < layer->n_inputs; i++)
        write_text(w, " %s", net->layers[layer->inputs[i]].name);
    for (size_t i = 0; i < NET_N_KEYS; i++) {
        const layer_key *key = &net_keys[i];
        const void *field = key_field(key, layer);
        if (!key_is_for(key, layer->op) || memcmp(field, key_field(key, &usual), key->bytes) == 0)
            continue;
        write_text(w, " %s=", key->word);
        write_value(w, key, field);
    }
    write_text(w, "\n");
}

comet_status comet_net_write(const comet_net *net, char **text)
{
    if (!net || !text)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_net_write needs a net and a place for the text");
    writer w = {NULL, 0, 0, false};
    number_locale l;
    if (!enter_c_locale(&l))
        return COMET_ERROR_MEMORY;
    const comet_shape in = net->shapes[0];
    write_text(&w, "net %s\n", net->name);
    write_text(&w, "input %u %u %u\n", in.channels, in.height, in.width);
    for (uint32_t v = 1; v < net->n_values; v++)
        write_layer(&w, net, &net->layers[v]);
    leave_c_locale(&l);
    if (w.failed) {
        free(w.text);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the text of a net of %u layers",
                          net->n_values - 1);
    }
    *text = w.text;
    return COMET_OK;
}

void comet_text_free(char *text)
{
    free(text);
}
