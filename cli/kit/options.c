/* Option parsing; see options.h. Operands and options may be mixed; "--" ends the options, "-" is an operand. */
#include "kit/options.h"

#include <stdio.h>
#include <string.h>

#include "kit/option_synonyms.h"

typedef struct parser {
    const option *table;
    size_t n_options;
    int argc;
    char **argv;
    int next; /* the first word not parsed yet */
    void *args;
} parser;

static bool takes_value(const option *o)
{
    return o->value && o->value[0] != '=';
}

static cli_exit store(const parser *p, const option *o, const char *label, const char *text)
{
    reason why = {""};
    if (o->set((char *)p->args + o->offset, text, &why))
        return CLI_OK;
    return fail(CLI_USAGE, "option %s: %s", label, why.text);
}

/* Stores the next word as the option's value. */
static cli_exit store_next(parser *p, const option *o, const char *label)
{
    if (p->next >= p->argc)
        return fail(CLI_USAGE, "option %s needs a value (%s)", label, o->value);
    return store(p, o, label, p->argv[p->next++]);
}

static cli_exit unknown_long(const parser *p, const char *name)
{
    nearest_word nearest = nearest_to(name, strlen(name));
    for (size_t i = 0; i < p->n_options; i++)
        nearest_offer_option(&nearest, p->table[i].name);
    nearest_offer(&nearest, "help");
    const char *best = nearest_best(&nearest);
    if (best)
        return fail(CLI_USAGE, "unknown option '--%s'; did you mean --%s?", name, best);
    return fail(CLI_USAGE, "unknown option '--%s'", name);
}

static cli_exit parse_long(parser *p, const char *word)
{
    char name[64];
    const size_t length = strcspn(word + 2, "=");
    const char *value = word[2 + length] == '=' ? word + 2 + length + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word + 2);
    for (size_t i = 0; i < p->n_options; i++) {
        const option *o = &p->table[i];
        if (strcmp(o->name, name) != 0)
            continue;
        char label[sizeof name + 2];
        snprintf(label, sizeof label, "--%s", name);
        if (value && !o->value)
            return fail(CLI_USAGE, "option %s takes no value", label);
        return takes_value(o) && !value ? store_next(p, o, label) : store(p, o, label, value);
    }
    return unknown_long(p, name);
}

static const option *find_letter(const parser *p, char letter)
{
    for (size_t i = 0; i < p->n_options; i++)
        if (p->table[i].letter == letter)
            return &p->table[i];
    return NULL;
}

/* A word like "-f", "-j4" or "-fj4". */
static cli_exit parse_short(parser *p, const char *word)
{
    for (const char *at = word + 1; *at != '\0'; at++) {
        const char label[3] = {'-', *at, '\0'};
        const option *o = find_letter(p, *at);
        if (!o)
            return fail(CLI_USAGE, "unknown option '%s'", at == word + 1 ? word : label);
        if (takes_value(o))
            return at[1] != '\0' ? store(p, o, label, at + 1) : store_next(p, o, label);
        const cli_exit code = store(p, o, label, NULL);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

cli_exit options_parse(const option *table, size_t n_options, int argc, char **argv, void *args, size_t *n_operands, bool *help)
{
    parser p = {.table = table, .n_options = n_options, .argc = argc, .argv = argv, .args = args};
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
    const bool optional = o->value && !takes_value(o);
    snprintf(left, sizeof left, "%c%c%c --%s%s%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
             o->letter ? ',' : ' ', o->name, optional ? "[" : "", takes_value(o) ? " " : "", o->value ? o->value : "",
             optional ? "]" : "");
    for (const char *line = o->help; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        printf("  %-27s %.*s\n", line == o->help ? left : "", (int)strcspn(line, "\n"), line);
    }
}

void options_print(const option *table, size_t n_options)
{
    for (size_t i = 0; i < n_options; i++)
        print_option(&table[i]);
    printf("  %-27s %s\n", "-h, --help", "print this page");
}
