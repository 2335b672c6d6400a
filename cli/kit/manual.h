/* Manual pages in roff and completion for shells, made of the tables of verbs and options. The build writes them to files. */
#ifndef COMET_CLI_MANUAL_H
#define COMET_CLI_MANUAL_H

#include "kit/verb.h"

/* comet-VERB.1 on stdout. */
void manual_verb(const verb *v);

/* comet.1: all verbs, ended by NULL. */
void manual_overview(const verb *const *verbs);

/* Names of the pages, one a line: "comet", then "train", "bench codec" ... */
void manual_list(const verb *const *verbs);

/* For "bash", "zsh" or "fish"; false for another shell. */
bool completion_print(const char *shell, const verb *const *verbs);

#endif
