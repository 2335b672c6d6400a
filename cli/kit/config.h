/*
 * Files of options, for --config: `comet train --config FILE`.
 *
 * A file that begins with { is a JSON object, any other a few lines of TOML: `key = value`, and comments after #. Keys are long
 * names of options. Values are texts, numbers, and true or false for flags; a list of texts gives an option several times. The
 * keys "comet" (a version) and "verb" (which must be the verb's name) may stand beside them: runs are saved with both.
 */
#ifndef COMET_CLI_CONFIG_H
#define COMET_CLI_CONFIG_H

#include "kit/json_out.h"
#include "kit/verb.h"

/* A file that was read, and the texts that its list points to. */
typedef struct config {
    cJSON *root;
    char **texts;
    size_t n_texts;
    given_options list;
} config;

/* Reads the options of `v` from a file. CLI_BAD_INPUT, with the key, for what is no option or has no value that fits. */
cli_exit config_read(config *c, const char *path, const verb *v);
void config_free(config *c);

/* Adds the option as a file has it: a number where the text is one that JSON keeps exactly, else a text; NULL: true. */
void config_add(json *j, const char *name, const char *text);

/* Adds what was given to the verb that runs, but for those named in `left_out`, which ends with NULL, and those that *j has. */
void config_add_settings(json *j, const char *const *left_out);

/* What the verb that runs was given, files and command line together. */
void config_set_running(const given_options *list);

#endif
