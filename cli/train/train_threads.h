/* How many threads a run has: what -j says, what the run had that goes on, or the library's choice. */
#ifndef COMET_CLI_TRAIN_THREADS_H
#define COMET_CLI_TRAIN_THREADS_H

#include "train/train_report.h"

/* -j was not given. */
#define THREADS_AUTO UINT64_MAX

/* The number before the choice, for plans and budgets: `asked` (0: one per core); where that is THREADS_AUTO, those of the run
 * that goes on, `earlier`, or 0. */
uint32_t threads_before(uint64_t asked, uint64_t earlier);

/* Sets p->model.n_threads where neither -j nor an earlier run does, and reports what was found. */
void threads_settle(uint64_t asked, uint64_t earlier, comet_train_params *p, train_report *report);

#endif
