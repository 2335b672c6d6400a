/*
 * A verb of the program: its words for the help page, its options and operands, and what it does.
 */
#ifndef COMET_CLI_VERB_H
#define COMET_CLI_VERB_H

#include "kit/options.h"

typedef struct verb {
    const char *name;                   /* as on the command line: "compress", or "bench codec" for a subject */
    const char *summary;                /* one line for the list of verbs, without a full stop */
    bool absent;                        /* needs training, which this build lacks; it has a name and a summary only */
    bool computes;                      /* needs the library that training computes with */
    const struct verb *const *subjects; /* verbs such as "bench codec", ended by NULL; NULL for a verb without subjects */
    bool first_is_default;              /* without a subject on the command line the first one runs */
    const char *usage;                  /* operands and main options */
    const char *details;                /* text before the options; may be "" */
    const char *examples;               /* three or more lines */
    const char *const *operands;        /* names of the operands that must be there, ended by NULL */
    bool more_operands;                 /* the last operand may be repeated */
    const option *options;
    size_t n_options;
    const void *defaults; /* args_bytes bytes: the arguments before any option is read */
    size_t args_bytes;
    cli_exit (*run)(const void *args, char **operands, size_t n_operands);
} verb;

/* Parses the words after the verb, checks the number of operands and runs the verb, or prints its help page. */
cli_exit verb_run(const verb *v, int argc, char **argv);

/* The last word of its name: "codec". */
const char *verb_word(const verb *v);

/* The help page, on stdout. */
void verb_help(const verb *v);

#endif
