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

/* Stores the options found in argv into *args and moves the operands to the front of argv; *n_operands says how many there
 * are. At --help or -h *help becomes true and parsing ends. */
cli_exit options_parse(const option *table, size_t n_options, int argc, char **argv, void *args, size_t *n_operands,
                       bool *help);

/* The lines of a help page. */
void options_print(const option *table, size_t n_options);

#endif
