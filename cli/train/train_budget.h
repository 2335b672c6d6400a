/* A run within a budget of memory: the options, and the library's choice made in a copy of this process. */
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

/* Does any option ask for a budget? */
bool budget_is_asked(const budget_args *budget, const compression_args *compression);

/* Changes p->model as comet_budget_settle chooses. `text`: what was chosen, one line. CLI_NO_MEMORY where nothing fits, after
 * saying what would be needed. */
cli_exit budget_settle(const budget_args *args, comet_train_params *p, char text[COMET_BUDGET_TEXT_BYTES]);

/* For comet_budget_params.sampling: shows that steps of a mode are taken. */
void budget_show_sampling(void *user, comet_compress_mode mode);

#endif
