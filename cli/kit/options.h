/*
 * Command-line options as tables.
 *
 * A verb keeps its arguments in a struct and lists its options in a constant table: letter, name, what the value is called,
 * how to store it and where in the struct, and the help text. The help page is printed from the same table.
 */
#ifndef COMET_CLI_OPTIONS_H
#define COMET_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "comet/codec.h"
#include "kit/say.h"

/* Stores `text` (NULL for a flag, or an optional value left out) in *target, or gives a reason. */
typedef bool (*option_setter)(void *target, const char *text, reason *why);

typedef struct option {
    char letter;       /* 0: no short form */
    const char *name;  /* long form, without dashes */
    const char *value; /* NULL: a flag; beginning with '=': optional, written --name=VALUE only */
    option_setter set;
    size_t offset;    /* where the target is in the verb's struct */
    const char *help; /* one line, or several separated by '\n' */
} option;

#define N_ITEMS(array) (sizeof(array) / sizeof((array)[0]))

/* An option that was given, on the command line or in a file, and its value. */
typedef struct given_option {
    const option *option;
    const char *text;  /* as written, not copied; NULL: a flag, or an optional value left out */
    const char *place; /* the file that has it; NULL: the command line */
    bool by_letter;    /* written "-j", not "--threads" */
    bool off;          /* --flag=false: as if the option had not been given before */
} given_option;

/* In the order given; zero at first. */
typedef struct given_options {
    given_option *items;
    size_t n, room;
} given_options;

/* Options that every verb has; the last only those with more than a handful of their own. */
typedef struct common_args {
    bool quiet;
    const char *config;
} common_args;

/* The common options of a verb with so many of its own, in a table of *n rows with targets in common_args. */
const option *options_common(size_t n_options, size_t *n);

/* The option of this long name, of the verb or common; NULL where there is none, and then the nearest name, if any is near, in
 * *nearest. */
const option *options_find(const option *table, size_t n_options, const char *name, const char **nearest);

bool option_takes_value(const option *o);

cli_exit settings_add(given_options *list, given_option item);

/* What stays in force: all of `given`, and those of `file` whose option is not given, less the ones that are turned off. */
cli_exit settings_merge(const given_options *file, const given_options *given, given_options *merged);
void settings_free(given_options *list);

/* Reads the options in argv into *given and moves the operands to the front of argv; *n_operands says how many there are. At
 * --help or -h *help becomes true and reading ends. */
cli_exit options_parse(const option *table, size_t n_options, int argc, char **argv, given_options *given, size_t *n_operands,
                       bool *help);

/* Stores the options of `table` that were given in *args; those of another table are passed over. */
cli_exit options_apply(const option *table, size_t n_options, const given_options *list, void *args);

/* The lines of a help page. */
void options_print(const option *table, size_t n_options);

#endif
