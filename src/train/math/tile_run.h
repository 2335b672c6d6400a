/* Shares out work on the tiles of a stored tensor among threads: each first does a part of its own, and then what others have
 * left. */
#ifndef COMET_TRAIN_MATH_TILE_RUN_H
#define COMET_TRAIN_MATH_TILE_RUN_H

#include <stddef.h>

#include "comet/base.h"

#define TILE ((uint64_t)1 << 16) /* elements to take at once, where the store does not say */

typedef comet_status tile_task(void *arg, uint64_t tile, size_t worker);

/* Calls each(arg, tile, worker) for the tiles [first, end), workers numbered from 0 to n_threads - 1. Where calls fail, the
 * others are still made; the sentence is `name` and that of the first to fail. */
comet_status tile_run(size_t n_threads, uint64_t first, uint64_t end, tile_task *each, void *arg, const char *name);

#endif
