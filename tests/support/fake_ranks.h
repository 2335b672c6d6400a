/*
 * Ranks without MPI: forked processes of this machine that share sockets, with every call of comet/ranks.h.
 *
 * The parent must not have run the engine before, since threads do not survive a fork: let a rank alone (n = 1) run what others
 * are compared with. A reduction is done at its beginning, but its floats are NaN until its end, and when it says that it is
 * done differs between ranks, so that a caller who reads too early or relies on an instant is found out. Ranks that make
 * different calls fail, and the sentence says who called what.
 */
#ifndef COMET_TESTS_FAKE_RANKS_H
#define COMET_TESTS_FAKE_RANKS_H

#include "comet/ranks.h"

enum { FAKE_RANKS_MOST = 8 };

/* What a rank runs: it may use assertions. `result` has result_bytes zeros of its own. */
typedef comet_status fake_rank_fn(const comet_ranks *ranks, void *arg, void *result);

/* Runs fn in n processes and waits for all. `results` receives n x result_bytes, in the order of the ranks. `statuses` receives
 * what each returned; NULL: a status other than COMET_OK fails the test. So does a rank that crashes, or an assertion there. */
void fake_ranks_run(uint32_t n, fake_rank_fn *fn, void *arg, size_t result_bytes, void *results, comet_status *statuses);

#endif
