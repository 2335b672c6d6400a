/* Parallel-for for a context: the host's hook, or a small pool of our own. */
#ifndef COMET_BASE_THREADS_H
#define COMET_BASE_THREADS_H

#include "comet/base.h"

typedef struct comet_pool comet_pool;

/* Cores this process may use; at least 1. */
size_t comet_cores(void);

/* A pool whose runs use n_threads threads, the caller's among them (0: one per core). With a parallel hook it starts none. */
comet_status comet_pool_create(comet_pool **out, const comet_hooks *hooks, size_t n_threads);
void comet_pool_destroy(comet_pool *pool);

/* Tasks that may run at once. */
size_t comet_pool_threads(const comet_pool *pool);

/* Calls task(arg, i) for each i in [0, n_tasks), i started in ascending order, and returns when all are done. */
void comet_pool_run(comet_pool *pool, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg);

/* Gives the core away for a moment while waiting for another task. */
void comet_pool_relax(void);

/* Makes stores that went around the caches visible before those that follow. */
void comet_store_fence(void);

#endif
