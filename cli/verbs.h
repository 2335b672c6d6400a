/* The verbs. A new one is a cmd_*.c, a line here and a line in main.c. */
#ifndef COMET_CLI_VERBS_H
#define COMET_CLI_VERBS_H

#include "verb.h"

extern const verb verb_compress, verb_decompress, verb_info, verb_verify, verb_bench, verb_generate, verb_doctor, verb_demo;
/* On comet::train, where it is built. */
extern const verb verb_models;

#endif
