#define _GNU_SOURCE /* CLOCK_THREAD_CPUTIME_ID */
#include "base/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct probe {
    pthread_t thread;
    double seconds, share;
} probe;

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *compute(void *arg)
{
    probe *p = arg;
    const double began = seconds_of(CLOCK_MONOTONIC), had = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double now;
    do
        now = seconds_of(CLOCK_MONOTONIC);
    while (now < began + p->seconds);
    p->share = (seconds_of(CLOCK_THREAD_CPUTIME_ID) - had) / (now - began);
    return NULL;
}

double comet_core_share(size_t n_threads, double seconds)
{
    probe *probes = calloc(n_threads > 0 ? n_threads : 1, sizeof *probes);
    size_t n = 0;
    double lowest = 1;
    for (; probes && n < n_threads; n++) {
        probes[n].seconds = seconds;
        if (pthread_create(&probes[n].thread, NULL, compute, &probes[n]) != 0)
            break;
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(probes[i].thread, NULL);
        if (probes[i].share < lowest)
            lowest = probes[i].share;
    }
    free(probes);
    return n == n_threads ? lowest : 0;
}
