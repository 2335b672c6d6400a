/* Parallel-for of a session; see workers.h. */
#include "workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/threads.h"
#include "comet_native.h"

typedef void torch_body(int64_t begin, int64_t end, void *context);
typedef int32_t torch_parallel_for(int64_t begin, int64_t end, int64_t grain_size, torch_body *body, void *context);
typedef void gomp_parallel(void (*body)(void *data), void *data, unsigned n_threads, unsigned flags);

struct workers {
    size_t n_threads;
    comet_pool *pool; /* our own threads, else null */
    torch_parallel_for *torch;
    gomp_parallel *gomp;
    pthread_mutex_t busy;
};

/* One run of a host's threads: each of them claims tasks until none is left. */
typedef struct run {
    void (*task)(void *arg, size_t index);
    void *arg;
    size_t n_tasks;
    atomic_size_t next;
} run;

static void drain(void *data)
{
    run *r = data;
    for (;;) {
        const size_t index = atomic_fetch_add(&r->next, 1);
        if (index >= r->n_tasks)
            return;
        r->task(r->arg, index);
    }
}

static void drain_task(void *context, size_t index)
{
    (void)index;
    drain(context);
}

static void drain_range(int64_t begin, int64_t end, void *context)
{
    (void)begin;
    (void)end;
    drain(context);
}

/* A function pointer from an address that ctypes found: ISO C has no cast for it. */
static comet_status set_entry(workers *w, int how, void *entry)
{
    if (how < COMET_NATIVE_OWN_THREADS || how > COMET_NATIVE_GOMP)
        return comet_fail(COMET_ERROR_ARGUMENT, "%d is no kind of threads: 0, 1 and 2 are known", how);
    if ((how == COMET_NATIVE_OWN_THREADS) != (entry == NULL))
        return comet_fail(COMET_ERROR_ARGUMENT, "threads of kind %d %s an entry point", how, entry ? "take no" : "need");
    if (how == COMET_NATIVE_TORCH)
        memcpy(&w->torch, &entry, sizeof entry);
    if (how == COMET_NATIVE_GOMP)
        memcpy(&w->gomp, &entry, sizeof entry);
    return COMET_OK;
}

comet_status workers_create(workers **out, size_t n_threads, int how, void *entry)
{
    workers *w = calloc(1, sizeof *w);
    if (!w)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes", sizeof *w);
    pthread_mutex_init(&w->busy, NULL);
    w->n_threads = n_threads ? n_threads : comet_cores();
    comet_status status = set_entry(w, how, entry);
    if (status == COMET_OK && how == COMET_NATIVE_OWN_THREADS)
        status = comet_pool_create(&w->pool, NULL, w->n_threads);
    if (status != COMET_OK)
        workers_destroy(w);
    else
        *out = w;
    return status;
}

void workers_destroy(workers *w)
{
    if (!w)
        return;
    comet_pool_destroy(w->pool);
    pthread_mutex_destroy(&w->busy);
    free(w);
}

size_t workers_threads(const workers *w)
{
    return w->n_threads;
}

/* Lends the threads to a run; tasks that are left afterwards are the caller's. */
static void run_shared(workers *w, run *r, size_t n_threads)
{
    if (w->torch)
        w->torch(0, (int64_t)n_threads, 1, drain_range, r);
    else if (w->gomp)
        w->gomp(drain, r, (unsigned)n_threads, 0);
    else
        comet_pool_run(w->pool, n_threads, drain_task, r);
}

void workers_run(workers *w, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg)
{
    run r = {.task = task, .arg = arg, .n_tasks = n_tasks};
    const size_t n_threads = n_tasks < w->n_threads ? n_tasks : w->n_threads;
    if (n_threads > 1 && pthread_mutex_trylock(&w->busy) == 0) {
        run_shared(w, &r, n_threads);
        pthread_mutex_unlock(&w->busy);
    }
    drain(&r);
}

static void run_hook(void *user, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg)
{
    workers_run(user, n_tasks, task, arg);
}

comet_parallel workers_hook(workers *w)
{
    return (comet_parallel){run_hook, w};
}
