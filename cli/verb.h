/*
 * A verb of the program: its words for the help page, its options and operands, and what it does.
 */
#ifndef COMET_CLI_VERB_H
#define COMET_CLI_VERB_H

#include "options.h"

typedef struct verb {
    const char *name;
    const char *summary;         /* one line for the list of verbs, without a full stop */
    const char *subject;         /* the word that must follow the verb, also in 'help VERB SUBJECT'; NULL: none */
    const char *usage;           /* operands and main options */
    const char *details;         /* text before the options; may be "" */
    const char *examples;        /* three or more lines */
    const char *const *operands; /* names of those that must be there, then NULL */
    bool more_operands;          /* the last operand may be repeated */
    const option *options;
    size_t n_options;
    const void *defaults; /* args_bytes bytes: the arguments where no option is given */
    size_t args_bytes;
    cli_exit (*run)(const void *args, char **operands, size_t n_operands);
} verb;

/* Parses the words after the verb, checks the number of operands, runs the verb; or prints its help page. */
cli_exit verb_run(const verb *v, int argc, char **argv);

/* The help page, on stdout. */
void verb_help(const verb *v);

#endif
