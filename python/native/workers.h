/*
 * Parallel-for of a session: our own threads, PyTorch's or those of libgomp, as a comet_parallel hook.
 *
 * Tasks are claimed in ascending order from a counter, so that they balance whatever ranges the host hands out. One run has the
 * threads at a time: a run that finds them busy is made by its caller alone, since results are the same for any number of
 * threads.
 */
#ifndef COMET_NATIVE_WORKERS_H
#define COMET_NATIVE_WORKERS_H

#include "comet/base.h"

typedef struct workers workers;

comet_status workers_create(workers **out, size_t n_threads, int how, void *entry);
void workers_destroy(workers *w);
size_t workers_threads(const workers *w);
/* Calls task(arg, i) once for each i in [0, n_tasks). */
void workers_run(workers *w, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg);
/* The same as a hook; valid while w lives. */
comet_parallel workers_hook(workers *w);

#endif
