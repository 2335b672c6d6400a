/* A run within a budget of memory: which way to compress, which batch, what to spill. */
#ifndef COMET_CLI_TRAIN_BUDGET_H
#define COMET_CLI_TRAIN_BUDGET_H

#include "comet/train.h"
#include "train/compression_args.h"

typedef struct batch_arg {
    bool automatic; /* as large as fits */
    uint64_t value; /* 0: not given */
} batch_arg;

bool set_batch(void *target, const char *text, reason *why); /* batch_arg, a number or "auto" */

typedef struct budget_args {
    uint64_t memory; /* bytes; 0: not given */
    batch_arg batch;
    bool batch_is_kept; /* it is that of a run which goes on: no other would do */
} budget_args;

#define BUDGET_TEXT_BYTES 320

/* Does any option ask for a budget? */
bool budget_is_asked(const budget_args *budget, const compression_args *compression);

/* Changes p->model so that the run stays below --memory and all that limits this process, with MEMORY_RESERVE left: compression
 * from what was asked for on to denser, then spilling; the batch where it is automatic. `text`: what was chosen, one line.
 * CLI_NO_MEMORY where nothing fits, after saying what would be needed. */
cli_exit budget_settle(const budget_args *args, const compression_args *compression, comet_train_params *p,
                       char text[BUDGET_TEXT_BYTES]);

#endif
