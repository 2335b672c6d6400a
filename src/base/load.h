/* Is the machine busy with other programs? */
#ifndef COMET_BASE_LOAD_H
#define COMET_BASE_LOAD_H

#include <stddef.h>

/* Lets n_threads threads compute for `seconds` and returns the smallest share of that time for which one of them had a core:
 * about 1 on an idle machine with as many cores, 0.5 where one of them shares its core with another program. Limits on the CPU
 * time of a container count as other programs do. 0 where the threads could not be started. */
double comet_core_share(size_t n_threads, double seconds);

#endif
