/* Verbs; see verb.h. */
#include "kit/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/config.h"

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

/* Options of a file and of the command line, in *merged. */
static cli_exit read_settings(const verb *v, const given_options *given, config *file, given_options *merged)
{
    size_t n_common = 0;
    common_args common = {0};
    const option *table = options_common(v->n_options, &n_common);
    cli_exit code = options_apply(table, n_common, given, &common);
    if (code == CLI_OK && common.config)
        code = config_read(file, common.config, v);
    if (code == CLI_OK)
        code = settings_merge(&file->list, given, merged);
    if (code == CLI_OK)
        code = options_apply(table, n_common, merged, &common);
    if (common.quiet)
        say_set_quiet();
    return code;
}

static cli_exit run_with(const verb *v, const given_options *given, char **operands, size_t n_operands)
{
    config file = {0};
    given_options merged = {0};
    void *args = malloc(v->args_bytes);
    if (!args)
        return fail_memory(v->args_bytes);
    memcpy(args, v->defaults, v->args_bytes);
    cli_exit code = read_settings(v, given, &file, &merged);
    if (code == CLI_OK)
        code = options_apply(v->options, v->n_options, &merged, args);
    if (code == CLI_OK)
        code = check_operands(v, operands, n_operands);
    if (code == CLI_OK) {
        config_set_running(&merged);
        code = v->run(args, operands, n_operands);
        config_set_running(NULL);
    }
    settings_free(&merged);
    config_free(&file);
    free(args);
    return code;
}

cli_exit verb_run(const verb *v, int argc, char **argv)
{
    size_t n_operands = 0;
    bool help = false;
    given_options given = {0};
    cli_exit code = options_parse(v->options, v->n_options, argc, argv, &given, &n_operands, &help);
    if (code == CLI_OK && help)
        verb_help(v);
    else if (code == CLI_OK)
        code = run_with(v, &given, argv, n_operands);
    settings_free(&given);
    return code;
}
