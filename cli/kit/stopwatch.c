/* Steady clock; see stopwatch.h. */
#include "kit/stopwatch.h"

#include <time.h>

double stopwatch_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
