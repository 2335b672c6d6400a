/* Lists that `comet bench train` is given: batch sizes, ways to compress, ways to compute convolutions. */
#ifndef COMET_CLI_BENCH_LISTS_H
#define COMET_CLI_BENCH_LISTS_H

#include "comet/train.h"
#include "kit/setters.h"
#include "kit/turns.h"

enum { MAX_BATCHES = 16, MAX_MODES = MAX_TURNS };

typedef struct batch_list {
    uint32_t n;
    uint64_t items[MAX_BATCHES];
} batch_list;

typedef struct mode_list {
    size_t n;
    comet_compress_mode items[MAX_MODES];
} mode_list;

typedef struct convolutions_list {
    size_t n;
    comet_convolutions items[MAX_MODES];
} convolutions_list;

bool set_batches(void *target, const char *text, reason *why);           /* batch_list */
bool set_modes(void *target, const char *text, reason *why);             /* mode_list; off is moved to the front */
bool set_convolutions_list(void *target, const char *text, reason *why); /* convolutions_list */

#endif
