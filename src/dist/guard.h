/*
 * A small process beside the ranks of a machine, which outlives them: it says which of them has died, ends those that are left,
 * and keeps Open MPI's launcher from killing ranks that are saving.
 */
#ifndef COMET_DIST_GUARD_H
#define COMET_DIST_GUARD_H

#include <stdbool.h>

#include "comet/base.h"
#include "dist/cards.h"

typedef struct guard guard;

/* Forks. Only the lowest rank of a machine has a guard: *out is NULL for the others, and where ranks are threads of one
 * process. At most one at a time. `hold`: see guard_hold. */
comet_status guard_create(guard **out, const card *cards, uint32_t n_ranks, uint32_t rank, bool hold);

/* All is well: the ranks leave, and a launcher that is held may go on. g may be NULL. */
void guard_dismiss(guard *g);

/* The job ends, and that was said already: ranks that are still here after 2.5 s are killed. g may be NULL. */
void guard_end_job(guard *g);

/* Stops the launcher until the ranks leave or one of them dies, at most for 5 minutes. May be called from a signal handler,
 * with or without a guard. */
void guard_hold(void);

#endif
