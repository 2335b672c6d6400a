/*
 * OpenMP's entry points for oneDNN, on the team of base/team.h. The linker lets a program's own functions take the place of a
 * library's, so oneDNN calls these instead of those of libgomp.
 *
 * The reason: libgomp gives each thread a fixed part of a region, waits for all of them, and spins for milliseconds meanwhile.
 * Where another program has one of the cores, every layer waits until the scheduler gives that core back. libgomp's settings
 * are read when it is loaded, before a program could set them, and change only the waiting. OMP_WAIT_POLICY works here, too.
 *
 * These are all functions that oneDNN 2.6 to 3.7 uses, and cmake/openmp.cmake leaves this file out where the library that was
 * found uses others. Libraries keep libgomp: a host program may use it, too.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <strings.h>

#include "base/team.h"
#include "base/threads.h"
#include "kit/say.h"

#define ACTIVE_NS 1000000000L
#define EXPORTED __attribute__((visibility("default")))

EXPORTED void GOMP_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags);
EXPORTED void GOMP_parallel_start(void (*body)(void *), void *data, unsigned n_threads);
EXPORTED void GOMP_parallel_end(void);
EXPORTED void GOMP_barrier(void);
EXPORTED bool GOMP_loop_static_start(long start, long end, long step, long chunk, long *first, long *past);
EXPORTED bool GOMP_loop_static_next(long *first, long *past);
EXPORTED void GOMP_loop_end(void);
EXPORTED void GOMP_loop_end_nowait(void);
EXPORTED void omp_set_num_threads(int n_threads);
EXPORTED int omp_get_max_threads(void);
EXPORTED int omp_get_num_threads(void);
EXPORTED int omp_get_thread_num(void);
EXPORTED int omp_in_parallel(void);

static _Thread_local int n_wanted; /* 0: one per core */

void omp_set_num_threads(int n_threads)
{
    n_wanted = n_threads > 0 ? n_threads : 0;
}

int omp_get_max_threads(void)
{
    const size_t cores = comet_cores() < TEAM_MAX ? comet_cores() : TEAM_MAX;
    return n_wanted > 0 ? n_wanted : (int)cores;
}

int omp_get_num_threads(void)
{
    return (int)team_members();
}

int omp_get_thread_num(void)
{
    return (int)team_member();
}

int omp_in_parallel(void)
{
    return team_is_active();
}

void GOMP_barrier(void)
{
    team_barrier();
}

/* OpenMP's own setting, where the user gave it. */
static void read_wait_policy(void)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    if (policy && strcasecmp(policy, "passive") == 0)
        team_set_spin(0);
    else if (policy && strcasecmp(policy, "active") == 0)
        team_set_spin(ACTIVE_NS);
}

/* There is no way to report a failure to oneDNN; libgomp ends the program here, too. */
void GOMP_parallel_start(void (*body)(void *), void *data, unsigned n_threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_wait_policy);
    const size_t n = n_threads > 0 ? n_threads : (size_t)omp_get_max_threads();
    if (!team_begin(n, body, data))
        exit((int)fail(CLI_NO_MEMORY, "could not start %zu threads; -j gives a smaller number", n));
}

void GOMP_parallel_end(void)
{
    team_end();
}

void GOMP_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags)
{
    (void)flags;
    GOMP_parallel_start(body, data, n_threads);
    body(data);
    GOMP_parallel_end();
}

/* ---- loops with a static schedule ---- */

static _Thread_local struct {
    long start, step, chunk, n_items, n_rounds;
} loop;

/* With a chunk, members take chunks in turns; without, each gets one part. */
bool GOMP_loop_static_next(long *first, long *past)
{
    const long members = (long)team_members(), member = (long)team_member(), round = loop.n_rounds++;
    long from, to;
    if (loop.chunk > 0) {
        from = (round * members + member) * loop.chunk;
        to = from + loop.chunk;
    } else {
        const long share = loop.n_items / members, rest = loop.n_items % members;
        from = member * share + (member < rest ? member : rest);
        to = from + share + (member < rest);
    }
    to = to < loop.n_items ? to : loop.n_items;
    if (from >= to || (loop.chunk == 0 && round > 0))
        return false;
    *first = loop.start + from * loop.step;
    *past = loop.start + to * loop.step;
    return true;
}

bool GOMP_loop_static_start(long start, long end, long step, long chunk, long *first, long *past)
{
    const long n = (end - start + step + (step > 0 ? -1 : 1)) / step;
    loop.start = start;
    loop.step = step;
    loop.chunk = chunk;
    loop.n_items = n > 0 ? n : 0;
    loop.n_rounds = 0;
    return GOMP_loop_static_next(first, past);
}

void GOMP_loop_end(void)
{
    team_barrier();
}

void GOMP_loop_end_nowait(void)
{
}
