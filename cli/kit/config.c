/* Files of options; see config.h. TOML is read into the same objects of cJSON as JSON. */
#include "kit/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/file_io.h"
#include "kit/number.h"

enum { CONFIG_BYTES = 1 << 20, NUMBER_BYTES = 40 };
static const double most_exact = 9007199254740992.0; /* 2^53: integers that JSON's numbers hold exactly */

static const given_options *running;

/* ---- TOML: key = value ---- */

typedef struct toml {
    const char *path, *at;
    size_t line;
    cJSON *root;
} toml;

static cli_exit refuse(const toml *t, const char *why)
{
    return fail(CLI_BAD_INPUT, "%s:%zu: %s", t->path, t->line, why);
}

static void skip_blanks(toml *t)
{
    while (*t->at == ' ' || *t->at == '\t')
        t->at++;
}

/* The end of a line, after a comment perhaps. */
static bool take_end(toml *t)
{
    skip_blanks(t);
    if (*t->at == '#')
        t->at += strcspn(t->at, "\n");
    if (t->at[0] == '\r' && t->at[1] == '\n')
        t->at++;
    if (*t->at == '\n') {
        t->at++;
        t->line++;
        return true;
    }
    return *t->at == '\0';
}

/* "text" with \" \\ \t \n, or 'text' as it is. */
static cli_exit take_text(toml *t, cJSON **value)
{
    const char quote = *t->at++;
    const size_t most = strcspn(t->at, "\n") + 1;
    char *text = malloc(most);
    size_t n = 0;
    if (!text)
        return fail_memory(most);
    for (; *t->at != quote && *t->at != '\n' && *t->at != '\0'; t->at++) {
        char c = *t->at;
        if (quote == '"' && c == '\\') {
            static const char from[] = "\"\\tn", to[] = "\"\\\t\n";
            const char *escape = t->at[1] != '\0' ? strchr(from, t->at[1]) : NULL;
            if (!escape) {
                free(text);
                return refuse(t, "an escape that is not \\\", \\\\, \\t or \\n");
            }
            c = to[escape - from];
            t->at++;
        }
        text[n++] = c;
    }
    text[n] = '\0';
    const bool closed = *t->at == quote;
    t->at += closed;
    *value = cJSON_CreateString(text);
    free(text);
    return !closed ? refuse(t, "a text has no closing quote") : *value ? CLI_OK : fail_memory(n);
}

/* `word` is as much of it as a number may have. */
static cli_exit refuse_word(const toml *t, const char *key, const char *word)
{
    if (word[0] == '\0')
        return refuse(t, "a value is missing: a \"text\", a number, true or false");
    return fail(CLI_BAD_INPUT, "%s:%zu: a text needs quotes: %s = \"%s%s\"", t->path, t->line, key, word,
                strlen(word) + 1 < NUMBER_BYTES ? "" : "...");
}

/* true, false, or a number, which is kept as text so that no digit is lost. */
static cli_exit take_word(toml *t, const char *key, cJSON **value)
{
    char word[NUMBER_BYTES];
    const size_t length = strcspn(t->at, " \t\r\n#");
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), t->at);
    t->at += length;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        *value = cJSON_CreateBool(word[0] == 't');
    else if (length < sizeof word && number_is_decimal(word))
        *value = cJSON_CreateRaw(word);
    else
        return refuse_word(t, key, word);
    return *value ? CLI_OK : fail_memory(sizeof(cJSON));
}

static cli_exit take_line(toml *t)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    char key[64];
    cJSON *value = NULL;
    const size_t length = strspn(t->at, letters);
    if (length == 0 || length >= sizeof key)
        return refuse(t,
                      *t->at == '[' ? "tables are not known here: lines are 'option = value'" : "a line is 'option = value'");
    snprintf(key, sizeof key, "%.*s", (int)length, t->at);
    t->at += length;
    skip_blanks(t);
    if (*t->at != '=')
        return refuse(t, "a line is 'option = value'");
    t->at++;
    skip_blanks(t);
    if (cJSON_GetObjectItemCaseSensitive(t->root, key))
        return refuse(t, "the option stands here for the second time");
    const size_t line = t->line;
    const cli_exit code = *t->at == '"' || *t->at == '\'' ? take_text(t, &value) : take_word(t, key, &value);
    if (code != CLI_OK || !cJSON_AddItemToObject(t->root, key, value)) {
        cJSON_Delete(value);
        return code != CLI_OK ? code : fail_memory(sizeof(cJSON));
    }
    if (take_end(t))
        return CLI_OK;
    t->line = line;
    return refuse(t, "something follows the value");
}

static cli_exit read_toml(const char *path, const char *text, cJSON **root)
{
    toml t = {.path = path, .at = text, .line = 1, .root = cJSON_CreateObject()};
    cli_exit code = t.root ? CLI_OK : fail_memory(sizeof(cJSON));
    while (code == CLI_OK && *t.at != '\0') {
        skip_blanks(&t);
        if (!take_end(&t))
            code = take_line(&t);
    }
    *root = t.root;
    return code;
}

/* ---- options that were given ---- */

/* Keeps a text as long as the file. */
static cli_exit keep(config *c, const char *text, const char **kept)
{
    char **larger = realloc(c->texts, (c->n_texts + 1) * sizeof *larger);
    if (larger)
        c->texts = larger;
    char *copy = larger ? strdup(text) : NULL;
    if (!copy)
        return fail_memory(strlen(text) + 1);
    *kept = c->texts[c->n_texts++] = copy;
    return CLI_OK;
}

/* The text that one would give on the command line. False where there is none. */
static bool text_of(const cJSON *value, char number[NUMBER_BYTES], const char **text)
{
    if (cJSON_IsString(value) || cJSON_IsRaw(value)) {
        *text = value->valuestring;
        return true;
    }
    if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble))
        return false;
    if (floor(value->valuedouble) == value->valuedouble && fabs(value->valuedouble) <= most_exact)
        snprintf(number, NUMBER_BYTES, "%.0f", value->valuedouble);
    else
        number_format(value->valuedouble, number, NUMBER_BYTES);
    *text = number;
    return true;
}

static cli_exit add_value(config *c, const char *path, const option *o, const cJSON *value)
{
    char number[NUMBER_BYTES];
    const char *text = NULL;
    if (cJSON_IsNull(value) || cJSON_IsFalse(value))
        return o->value && cJSON_IsFalse(value)
                   ? fail(CLI_BAD_INPUT, "%s: %s needs a value (%s), not false", path, o->name, o->value)
                   : CLI_OK;
    if (!o->value && !cJSON_IsTrue(value))
        return fail(CLI_BAD_INPUT, "%s: %s is a flag: true or false", path, o->name);
    if (option_takes_value(o) && cJSON_IsTrue(value))
        return fail(CLI_BAD_INPUT, "%s: %s needs a value (%s), not true", path, o->name, o->value);
    if (o->value && !cJSON_IsTrue(value)) {
        if (cJSON_IsNumber(value) && fabs(value->valuedouble) > most_exact)
            return fail(CLI_BAD_INPUT, "%s: %s: JSON does not keep every digit of so large a number; write it in quotes", path,
                        o->name);
        if (!text_of(value, number, &text))
            return fail(CLI_BAD_INPUT, "%s: %s needs a text or a number (%s)", path, o->name, o->value);
        const cli_exit code = keep(c, text, &text);
        if (code != CLI_OK)
            return code;
    }
    return settings_add(&c->list, (given_option){.option = o, .text = text, .place = path});
}

/* What a file of options may say beside options. */
static cli_exit check_note(const char *path, const verb *v, const cJSON *item, bool *is_note)
{
    *is_note = strcmp(item->string, "comet") == 0 || strcmp(item->string, "verb") == 0;
    if (strcmp(item->string, "verb") != 0)
        return CLI_OK;
    if (!cJSON_IsString(item) || strcmp(item->valuestring, v->name) != 0)
        return fail(CLI_BAD_INPUT, "%s: it has options of 'comet %s', not of 'comet %s'", path,
                    cJSON_IsString(item) ? item->valuestring : "?", v->name);
    return CLI_OK;
}

static cli_exit add_item(config *c, const char *path, const verb *v, const cJSON *item)
{
    const char *nearest = NULL;
    bool is_note = false;
    cli_exit code = check_note(path, v, item, &is_note);
    if (code != CLI_OK || is_note)
        return code;
    const option *o = options_find(v->options, v->n_options, item->string, &nearest);
    if (!o && nearest)
        return fail(CLI_BAD_INPUT, "%s: unknown option '%s'; did you mean %s?", path, item->string, nearest);
    if (!o)
        return fail(CLI_BAD_INPUT, "%s: unknown option '%s'", path, item->string);
    if (strcmp(o->name, "config") == 0)
        return fail(CLI_BAD_INPUT, "%s: a file of options names no other", path);
    if (!cJSON_IsArray(item))
        return add_value(c, path, o, item);
    for (const cJSON *one = item->child; one && code == CLI_OK; one = one->next)
        code = add_value(c, path, o, one);
    return code;
}

static cli_exit parse(config *c, const char *path, const char *text)
{
    const char *end = NULL;
    const char *at = text + strspn(text, " \t\r\n");
    if (*at != '{')
        return read_toml(path, text, &c->root);
    c->root = cJSON_ParseWithOpts(at, &end, true);
    if (cJSON_IsObject(c->root))
        return CLI_OK;
    size_t line = 1;
    for (const char *p = text; end && p < end; p++)
        line += *p == '\n';
    return fail(CLI_BAD_INPUT, "%s:%zu: this is not JSON", path, line);
}

cli_exit config_read(config *c, const char *path, const verb *v)
{
    blob contents;
    *c = (config){0};
    cli_exit code = file_read_small(path, CONFIG_BYTES, &contents);
    if (code != CLI_OK)
        return code;
    char *text = malloc(contents.bytes + 1);
    if (text) {
        memcpy(text, contents.data, contents.bytes);
        text[contents.bytes] = '\0';
        code =
            strlen(text) == contents.bytes ? parse(c, path, text) : fail(CLI_BAD_INPUT, "%s: no text: it has zero bytes", path);
    } else {
        code = fail_memory(contents.bytes + 1);
    }
    free(text);
    blob_free(&contents);
    for (const cJSON *item = c->root ? c->root->child : NULL; item && code == CLI_OK; item = item->next) {
        for (const cJSON *other = item->next; other && code == CLI_OK; other = other->next)
            if (strcmp(other->string, item->string) == 0)
                code = fail(CLI_BAD_INPUT, "%s: the option '%s' stands there twice", path, item->string);
        if (code == CLI_OK)
            code = add_item(c, path, v, item);
    }
    return code;
}

void config_free(config *c)
{
    for (size_t i = 0; i < c->n_texts; i++)
        free(c->texts[i]);
    free(c->texts);
    settings_free(&c->list);
    cJSON_Delete(c->root);
    *c = (config){0};
}

/* ---- writing ---- */

/* Is it a number of JSON whose value a double keeps? */
static bool is_number(const char *text)
{
    const char *digits = text + (*text == '-');
    const size_t length = strlen(text);
    char again[NUMBER_BYTES];
    if (length == 0 || length > 15 || !number_is_decimal(text) || strspn(digits, "0123456789.eE-+") != strlen(digits))
        return false;
    if (*digits == '.' || *text == '+' || text[length - 1] == '.' || strstr(text, ".e") ||
        (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'))
        return false;
    snprintf(again, sizeof again, "%.17g", strtod(text, NULL));
    return strtod(again, NULL) == strtod(text, NULL);
}

static cJSON *item_of(const char *text)
{
    return !text ? cJSON_CreateTrue() : is_number(text) ? cJSON_CreateRaw(text) : cJSON_CreateString(text);
}

/* A second text of the same option makes a list. */
void config_add(json *j, const char *name, const char *text)
{
    cJSON *there = j->root ? cJSON_GetObjectItemCaseSensitive(j->root, name) : NULL;
    if (!there || !text) {
        if (!there)
            json_add_item(j, name, item_of(text));
        return;
    }
    if (!cJSON_IsArray(there)) {
        cJSON *list = cJSON_CreateArray();
        there = cJSON_DetachItemFromObjectCaseSensitive(j->root, name);
        if (!list || !cJSON_AddItemToArray(list, there)) {
            j->failed = true;
            return;
        }
        json_add_item(j, name, list);
        there = list;
    }
    cJSON *item = item_of(text);
    j->failed = j->failed || !item || !cJSON_AddItemToArray(there, item);
}

static bool is_named(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

void config_add_settings(json *j, const char *const *left_out)
{
    for (size_t i = 0; running && i < running->n; i++) {
        const option *o = running->items[i].option;
        if (!is_named(left_out, o->name))
            config_add(j, o->name, running->items[i].text);
    }
}

void config_set_running(const given_options *list)
{
    running = list;
}
