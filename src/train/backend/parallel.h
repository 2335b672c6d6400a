/*
 * Parallel loops of the training code, on the OpenMP runtime that oneDNN brings, so that a process has one set of compute
 * threads. The range is cut into a few pieces for each thread, and a thread that is early takes pieces of one that is late. So
 * a result must not depend on where the range is cut, nor on who computes it.
 */
#ifndef COMET_TRAIN_BACKEND_PARALLEL_H
#define COMET_TRAIN_BACKEND_PARALLEL_H

#include <stddef.h>

/* Threads of oneDNN's primitives and of parallel_for, from now on and for this thread; 0: one per core. Returns the number. */
size_t parallel_set_threads(size_t n_threads);
size_t parallel_threads(void);

/* Calls body(arg, begin, end) on disjoint parts, several times in a thread, that cover [0, n); parts have at least `grain`
 * items (0: 1). */
void parallel_for(size_t n, size_t grain, void (*body)(void *arg, size_t begin, size_t end), void *arg);

/* Calls task(arg, i) for each i in [0, n_tasks), on as many threads at once; `user` is ignored. For hooks of the codec. */
void parallel_run(void *user, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg);

#endif
