/* The verbs. A new one is a cmd_*.c, a word here and a line in main.c; a new subject of bench is a line in cmd_bench.c. */
#ifndef COMET_CLI_VERBS_H
#define COMET_CLI_VERBS_H

#include "verb.h"

extern const verb verb_bench_codec, verb_compress, verb_decompress, verb_info, verb_verify, verb_bench, verb_generate,
    verb_doctor, verb_demo;
/* On comet::train, where it is built. */
extern const verb verb_train, verb_eval, verb_models, verb_export, verb_import, verb_plan, verb_bench_train;

#endif
