/*
 * A small process beside the ranks of a machine, which outlives them: it says which of them has died, ends those that are left,
 * and keeps Open MPI's launcher from killing ranks that are saving.
 */
#ifndef COMET_DIST_GUARD_H
#define COMET_DIST_GUARD_H

#include "comet/dist.h"

typedef struct guard guard;

/* Joins the guard of this machine's ranks, which the first of them starts: before MPI, so that it names a rank that dies while
 * they meet. *out is NULL where the system has no means for a guard. At most one at a time. */
comet_status guard_join(guard **out, const comet_launch *launch);

/* This process is about to end, and all is well. The last thing to do with other ranks. g may be NULL. */
void guard_dismiss(guard *g);

/* The job ends, and that was said already: ranks that are still here after 2.5 s are killed. g may be NULL. */
void guard_end_job(guard *g);

/* Stops the launcher until guard_release or one of the ranks dies, at most for 5 minutes. May be called from a signal handler,
 * with or without a guard. */
void guard_hold(void);

/* All ranks have done what they had to: the launcher may go on, and is not stopped again. g may be NULL. */
void guard_release(guard *g);

#endif
