/* Verbs; see verb.h. */
#include "kit/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *verb_word(const verb *v)
{
    const char *space = strrchr(v->name, ' ');
    return space ? space + 1 : v->name;
}

static void print_subjects(const verb *v)
{
    printf("\nsubjects:\n");
    for (size_t i = 0; v->subjects[i]; i++)
        printf("  %-12s %s\n", verb_word(v->subjects[i]), v->subjects[i]->summary);
}

void verb_help(const verb *v)
{
    printf("usage: comet %s %s\n\n%s.\n", v->name, v->usage, v->summary);
    if (v->details[0] != '\0')
        printf("\n%s", v->details);
    if (v->subjects)
        print_subjects(v);
    const verb *first = v->subjects && v->first_is_default ? v->subjects[0] : v;
    if (first->n_options > 0) {
        printf(first == v ? "\noptions:\n" : "\noptions of the default subject, %s:\n", verb_word(first));
        options_print(first->options, first->n_options);
    }
    printf("\nexamples:\n%s", v->examples);
}

static cli_exit check_operands(const verb *v, char **operands, size_t n_operands)
{
    size_t n_needed = 0;
    for (; v->operands[n_needed]; n_needed++)
        if (n_needed == n_operands)
            return fail(CLI_USAGE, "%s is missing", v->operands[n_needed]);
    if (n_operands > n_needed && !v->more_operands)
        return fail(CLI_USAGE, "too many operands; unexpected: '%s'", operands[n_needed]);
    return CLI_OK;
}

cli_exit verb_run(const verb *v, int argc, char **argv)
{
    size_t n_operands = 0;
    bool help = false;
    void *args = malloc(v->args_bytes);
    if (!args)
        return fail_memory(v->args_bytes);
    memcpy(args, v->defaults, v->args_bytes);
    cli_exit code = options_parse(v->options, v->n_options, argc, argv, args, &n_operands, &help);
    if (code == CLI_OK && help)
        verb_help(v);
    else if (code == CLI_OK)
        code = check_operands(v, argv, n_operands);
    if (code == CLI_OK && !help)
        code = v->run(args, argv, n_operands);
    free(args);
    return code;
}
