/* The verbs. A new verb needs a cmd_*.c, its name here and a line in main.c; a new subject of bench or demo needs a line in
 * cmd_bench.c or cmd_demo.c. */
#ifndef COMET_CLI_VERBS_H
#define COMET_CLI_VERBS_H

#include "kit/verb.h"

extern const verb verb_bench_codec, verb_compress, verb_decompress, verb_info, verb_verify, verb_bench, verb_generate,
    verb_doctor, verb_report, verb_demo, verb_demo_codec;
/* These need comet::train; in a build without it, training.c defines them with `absent` set. */
extern const verb verb_train, verb_eval, verb_predict, verb_models, verb_export, verb_import, verb_plan, verb_bench_train,
    verb_demo_train;

#endif
