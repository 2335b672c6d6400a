/* Sessions for the tests, and hosts that lend threads as PyTorch and libgomp do. */
#ifndef COMET_TESTS_NATIVE_TESTING_H
#define COMET_TESTS_NATIVE_TESTING_H

#include "comet_native.h"
#include "testing.h"

/* A session; fails the test where there is none. */
comet_native_session *session_of(uint32_t n_threads, int how, void *entry);

/* Stand-ins for torch_parallel_for and GOMP_parallel, as addresses. Both start threads and count their calls. */
void *torch_stand_in(void);
void *gomp_stand_in(void);
/* A stand-in for torch_parallel_for that fails and runs nothing. */
void *torch_refusing(void);
size_t stand_in_calls(void); /* since the last question */

comet_native_figures figures_of(comet_native_session *s);
/* A job for n elements of f32 with an absolute bound. */
comet_native_job job_of(uint64_t n, double eb);

#endif
