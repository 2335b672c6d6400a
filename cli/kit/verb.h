/*
 * A verb of the program: its words for the help page, its options and operands, and what it does.
 */
#ifndef COMET_CLI_VERB_H
#define COMET_CLI_VERB_H

#include "kit/options.h"

typedef struct verb {
    const char *name;                   /* with the subject, such as "bench codec", for one of several */
    const char *summary;                /* one line for the list of verbs, without a full stop */
    bool absent;                        /* needs training, which this build lacks; it has a name and a summary only */
    const struct verb *const *subjects; /* verbs one of whose last words must follow this one, then NULL; else NULL itself */
    bool first_is_default;              /* without such a word the first of them is meant */
    const char *usage;                  /* operands and main options */
    const char *details;                /* text before the options; may be "" */
    const char *examples;               /* three or more lines */
    const char *const *operands;        /* names of those that must be there, then NULL */
    bool more_operands;                 /* the last operand may be repeated */
    const option *options;
    size_t n_options;
    const void *defaults; /* args_bytes bytes: the arguments where no option is given */
    size_t args_bytes;
    cli_exit (*run)(const void *args, char **operands, size_t n_operands);
} verb;

/* Parses the words after the verb, checks the number of operands, runs the verb; or prints its help page. */
cli_exit verb_run(const verb *v, int argc, char **argv);

/* The last word of its name: "codec". */
const char *verb_word(const verb *v);

/* The help page, on stdout. */
void verb_help(const verb *v);

#endif
