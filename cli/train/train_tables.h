/* What a run prints before its first step and at its end. */
#ifndef COMET_CLI_TRAIN_TABLES_H
#define COMET_CLI_TRAIN_TABLES_H

#include <stdio.h>

#include "train/train_log.h"

/* Net, data, settings and places of a run, on `out`, each with its name. */
void run_table_print(FILE *out, const train_log *log, const comet_train_event *e);

/* What a model holds, on `out`; saved activations of the largest few layers. */
void memory_table_print(FILE *out, const comet_model *model);

/* Memory, its parts, and what compression did, on `out`. */
void cost_table_print(FILE *out, const comet_train_event *end);

#endif
