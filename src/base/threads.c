/*
 * A pool of n-1 sleeping threads. A run wakes them, and its caller works with them. There is one run at a time, since a context
 * serves one call at a time. Tasks are handed out in ascending order from a counter under the lock: they are coarse, so the
 * lock costs nothing.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "base/memory.h"
#include "base/status.h"

#define MAX_THREADS ((size_t)1024)

struct comet_pool {
    comet_allocator allocator;
    comet_parallel parallel; /* the host's; run == NULL if it lends none */
    size_t n_threads;
    size_t n_started; /* of our own */
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    void (*task)(void *arg, size_t index);
    void *arg;
    size_t n_tasks, next, n_running;
    bool stop;
    pthread_t threads[];
};

size_t comet_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (size_t)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (size_t)n : 1;
}

void comet_pool_relax(void)
{
    sched_yield();
}

void comet_store_fence(void)
{
#ifdef __x86_64__
    _mm_sfence();
#else
    atomic_thread_fence(memory_order_release);
#endif
}

/* Runs tasks until none is left. Called and left with the lock held. */
static void drain(comet_pool *pool)
{
    while (pool->next < pool->n_tasks) {
        size_t index = pool->next++;
        pool->n_running++;
        pthread_mutex_unlock(&pool->lock);
        pool->task(pool->arg, index);
        pthread_mutex_lock(&pool->lock);
        pool->n_running--;
    }
    if (pool->n_running == 0)
        pthread_cond_broadcast(&pool->idle);
}

static void *worker(void *arg)
{
    comet_pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        drain(pool);
        pthread_cond_wait(&pool->work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static size_t pool_bytes(size_t n_threads)
{
    return sizeof(comet_pool) + n_threads * sizeof(pthread_t);
}

comet_status comet_pool_create(comet_pool **out, const comet_hooks *hooks, size_t n_threads)
{
    if (n_threads == 0)
        n_threads = comet_cores() < MAX_THREADS ? comet_cores() : MAX_THREADS;
    if (n_threads > MAX_THREADS)
        return comet_fail(COMET_ERROR_ARGUMENT, "%zu threads were asked for; at most %zu are possible", n_threads, MAX_THREADS);
    comet_allocator allocator = comet_allocator_of(hooks);
    comet_pool *pool = comet_allocate(&allocator, pool_bytes(n_threads));
    if (!pool)
        return COMET_ERROR_MEMORY;
    *pool = (comet_pool){.allocator = allocator, .n_threads = n_threads};
    if (hooks)
        pool->parallel = hooks->parallel;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->idle, NULL);
    /* A pool works with fewer threads where one cannot be started: the caller's own always runs. */
    while (!pool->parallel.run && pool->n_started + 1 < n_threads &&
           pthread_create(&pool->threads[pool->n_started], NULL, worker, pool) == 0)
        pool->n_started++;
    *out = pool;
    return COMET_OK;
}

void comet_pool_destroy(comet_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->lock);
    comet_allocator allocator = pool->allocator;
    comet_release(&allocator, pool, pool_bytes(pool->n_threads));
}

size_t comet_pool_threads(const comet_pool *pool)
{
    return pool->n_threads;
}

void comet_pool_run(comet_pool *pool, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg)
{
    if (pool->parallel.run) {
        pool->parallel.run(pool->parallel.user, n_tasks, task, arg);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    pool->next = 0;
    if (n_tasks > 1)
        pthread_cond_broadcast(&pool->work);
    drain(pool);
    while (pool->n_running > 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
