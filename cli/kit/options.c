/* Option parsing; see options.h. Operands and options may be mixed; "--" ends the options, "-" is an operand. */
#include "kit/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/option_synonyms.h"

enum { HANDFUL = 5, NAME_BYTES = 64 };

typedef struct parser {
    const option *table;
    size_t n_options;
    int argc;
    char **argv;
    int next; /* the first word not parsed yet */
    given_options *given;
} parser;

bool option_takes_value(const option *o)
{
    return o->value && o->value[0] != '=';
}

/* ---- options that all verbs have ---- */

static bool set_quiet(void *target, const char *text, reason *why)
{
    (void)text;
    (void)why;
    *(bool *)target = true;
    return true;
}

static bool set_config(void *target, const char *text, reason *why)
{
    if (text[0] == '\0')
        return reason_set(why, "the value is empty");
    *(const char **)target = text;
    return true;
}

static const option common_options[] = {
    {'q', "quiet", NULL, set_quiet, offsetof(common_args, quiet), "print errors and results only"},
    {0, "config", "FILE", set_config, offsetof(common_args, config),
     "options from a file: 'key = value' lines with texts in quotes, or JSON"},
};

const option *options_common(size_t n_options, size_t *n)
{
    *n = N_ITEMS(common_options) - (n_options > HANDFUL ? 0 : 1);
    return common_options;
}

static const option *find_in(const option *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const option *options_find(const option *table, size_t n_options, const char *name, const char **nearest)
{
    size_t n_common = 0;
    const option *common = options_common(n_options, &n_common), *found = find_in(table, n_options, name);
    if (!found)
        found = find_in(common, n_common, name);
    if (found)
        return found;
    nearest_word near = nearest_to(name, strlen(name));
    for (size_t i = 0; i < n_options; i++)
        nearest_offer_option(&near, table[i].name);
    for (size_t i = 0; i < n_common; i++)
        nearest_offer_option(&near, common[i].name);
    nearest_offer(&near, "help");
    *nearest = nearest_best(&near);
    return NULL;
}

/* ---- options that were given ---- */

cli_exit settings_add(given_options *list, given_option item)
{
    if (list->n == list->room) {
        const size_t room = list->room * 2 + 16;
        given_option *larger = realloc(list->items, room * sizeof *larger);
        if (!larger)
            return fail_memory(room * sizeof *larger);
        list->items = larger;
        list->room = room;
    }
    list->items[list->n++] = item;
    return CLI_OK;
}

void settings_free(given_options *list)
{
    free(list->items);
    *list = (given_options){0};
}

/* Is the option given, or turned off, at `first` or later? */
static bool comes_again(const given_options *list, size_t first, const option *o, bool off)
{
    for (size_t i = first; i < list->n; i++)
        if (list->items[i].option == o && (list->items[i].off || !off))
            return true;
    return false;
}

cli_exit settings_merge(const given_options *file, const given_options *given, given_options *merged)
{
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < file->n && code == CLI_OK; i++)
        if (!comes_again(given, 0, file->items[i].option, false))
            code = settings_add(merged, file->items[i]);
    for (size_t i = 0; i < given->n && code == CLI_OK; i++)
        if (!given->items[i].off && !comes_again(given, i + 1, given->items[i].option, true))
            code = settings_add(merged, given->items[i]);
    return code;
}

static cli_exit refuse(const given_option *s, const reason *why)
{
    if (s->place)
        return fail(CLI_BAD_INPUT, "%s: %s: %s", s->place, s->option->name, why->text);
    if (s->by_letter)
        return fail(CLI_USAGE, "option -%c: %s", s->option->letter, why->text);
    return fail(CLI_USAGE, "option --%s: %s", s->option->name, why->text);
}

cli_exit options_apply(const option *table, size_t n_options, const given_options *list, void *args)
{
    for (size_t i = 0; i < list->n; i++) {
        const given_option *s = &list->items[i];
        reason why = {""};
        if (s->option < table || s->option >= table + n_options)
            continue;
        if (!s->option->set((char *)args + s->option->offset, s->text, &why))
            return refuse(s, &why);
    }
    return CLI_OK;
}

/* ---- parsing ---- */

static cli_exit store(const parser *p, const option *o, const char *text, bool by_letter)
{
    return settings_add(p->given, (given_option){.option = o, .text = text, .by_letter = by_letter});
}

/* Stores the next word as the option's value. */
static cli_exit store_next(parser *p, const option *o, const char *label)
{
    if (p->next >= p->argc)
        return fail(CLI_USAGE, "option %s needs a value (%s)", label, o->value);
    return store(p, o, p->argv[p->next++], label[1] != '-');
}

/* A flag may be written --flag=true or =false: the latter takes back what a file of options says. */
static cli_exit store_flag(const parser *p, const option *o, const char *label, const char *value)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return fail(CLI_USAGE, "option %s takes no value", label);
    return settings_add(p->given, (given_option){.option = o, .off = value[0] == 'f'});
}

static cli_exit parse_long(parser *p, const char *word)
{
    char name[NAME_BYTES];
    const char *nearest = NULL;
    const size_t length = strcspn(word + 2, "=");
    const char *value = word[2 + length] == '=' ? word + 2 + length + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word + 2);
    const option *o = options_find(p->table, p->n_options, name, &nearest);
    if (!o && nearest)
        return fail(CLI_USAGE, "unknown option '--%s'; did you mean --%s?", name, nearest);
    if (!o)
        return fail(CLI_USAGE, "unknown option '--%s'", name);
    char label[NAME_BYTES + 2];
    snprintf(label, sizeof label, "--%s", name);
    if (value && !o->value)
        return store_flag(p, o, label, value);
    return option_takes_value(o) && !value ? store_next(p, o, label) : store(p, o, value, false);
}

static const option *find_letter(const parser *p, char letter)
{
    size_t n_common = 0;
    const option *common = options_common(p->n_options, &n_common);
    for (size_t i = 0; i < p->n_options; i++)
        if (p->table[i].letter == letter)
            return &p->table[i];
    for (size_t i = 0; i < n_common; i++)
        if (common[i].letter == letter)
            return &common[i];
    return NULL;
}

/* A word like "-f", "-j4" or "-fj4". */
static cli_exit parse_short(parser *p, const char *word)
{
    for (const char *at = word + 1; *at != '\0'; at++) {
        const char text[3] = {'-', *at, '\0'};
        const option *o = find_letter(p, *at);
        if (!o)
            return fail(CLI_USAGE, "unknown option '%s'", at == word + 1 ? word : text);
        if (option_takes_value(o))
            return at[1] != '\0' ? store(p, o, at + 1, true) : store_next(p, o, text);
        const cli_exit code = store(p, o, NULL, true);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

cli_exit options_parse(const option *table, size_t n_options, int argc, char **argv, given_options *given, size_t *n_operands,
                       bool *help)
{
    parser p = {.table = table, .n_options = n_options, .argc = argc, .argv = argv, .given = given};
    size_t n = 0;
    bool only_operands = false;
    cli_exit code = CLI_OK;
    *help = false;
    while (p.next < argc && code == CLI_OK && !*help) {
        char *word = argv[p.next++];
        if (only_operands || word[0] != '-' || word[1] == '\0')
            argv[n++] = word;
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            *help = true;
        else
            code = word[1] == '-' ? parse_long(&p, word) : parse_short(&p, word);
    }
    *n_operands = n;
    return code;
}

/* ---- help ---- */

static void print_option(const option *o)
{
    char left[64];
    const bool optional = o->value && !option_takes_value(o);
    snprintf(left, sizeof left, "%c%c%c --%s%s%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
             o->letter ? ',' : ' ', o->name, optional ? "[" : "", option_takes_value(o) ? " " : "", o->value ? o->value : "",
             optional ? "]" : "");
    for (const char *line = o->help; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        printf("  %-27s %.*s\n", line == o->help ? left : "", (int)strcspn(line, "\n"), line);
    }
}

void options_print(const option *table, size_t n_options)
{
    size_t n_common = 0;
    const option *common = options_common(n_options, &n_common);
    for (size_t i = 0; i < n_options; i++)
        print_option(&table[i]);
    for (size_t i = 0; i < n_common; i++)
        print_option(&common[i]);
    printf("  %-27s %s\n", "-h, --help", "print this page");
}
