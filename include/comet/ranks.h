/*
 * Several processes that train one model together, each on its share of every batch: what the engine asks of them. The program
 * fills this table in with MPI (src/dist); a host may bring its own transport.
 *
 * A process is a rank, numbered from 0. All ranks make the same calls in the same order, each from the thread that runs its
 * model. Results are the same bits on every rank and, for the same number of ranks, in every run: sums are added up in the
 * order of the ranks. A call that fails leaves the ranks unusable; the sentence names the rank that is at fault.
 */
#ifndef COMET_RANKS_H
#define COMET_RANKS_H

#include <stdbool.h>

#include "comet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of the floats that are reduced. A rank's segment is comet_ranks_segment's. */
typedef enum comet_reduction {
    COMET_REDUCE_ALL = 0, /* the sum over ranks, on every rank */
    COMET_REDUCE_SEGMENT, /* the sum in this rank's segment, the rest is undefined */
    COMET_REDUCE_GATHER,  /* no sum: every rank gets every other's segment */
    COMET_REDUCE_EXACT,   /* as ALL, but never coded */
} comet_reduction;

/* Since the start. Sent: by this rank. */
typedef struct comet_ranks_figures {
    size_t size;
    uint64_t bytes_sent, bytes_plain; /* of reductions; plain: what they would be as floats */
    double seconds_waited;            /* the thread that runs the model waited for other ranks */
    double seconds_moving;            /* at least one reduction was under way */
} comet_ranks_figures;

/* What the thread that runs the model does, and so for how long it may seem to do nothing. */
typedef enum comet_rank_phase {
    COMET_RANK_SAME = 0, /* what it did before */
    COMET_RANK_START,    /* all before the first update, and the end */
    COMET_RANK_STEP,
    COMET_RANK_FILES, /* reads data or writes a checkpoint */
} comet_rank_phase;

typedef struct comet_ranks {
    size_t size;
    void *self; /* first argument of every call */
    uint32_t rank, n_ranks;
    uint32_t rank_on_node, n_on_node; /* among those of the same machine */

    /* values[i] becomes the sum over ranks. Waits for all. */
    comet_status (*sum)(void *self, double *values, size_t n);
    /* Rank 0's bytes on every rank. Waits for them. */
    comet_status (*broadcast)(void *self, void *data, size_t bytes);
    /* Bytes from one rank to another. Both wait until they are there. */
    comet_status (*send)(void *self, uint32_t to, const void *data, size_t bytes);
    comet_status (*receive)(void *self, uint32_t from, void *data, size_t bytes);

    /* Begins a reduction of n floats in place and gives it a number; `data` belongs to it until reduce_end. `key` names the
     * floats: the same in every step, and different for different floats (what coding gradients left over is kept under it).
     * Floats of kinds ALL and SEGMENT may be coded on their way, as gradients are. At most COMET_RANKS_MAX_REDUCTIONS are under
     * way. */
    comet_status (*reduce_begin)(void *self, comet_reduction kind, uint64_t key, float *data, size_t n, uint32_t *number);
    /* Has it ended? Does not wait. */
    bool (*reduce_is_done)(void *self, uint32_t number);
    /* Waits for its end and forgets it. Reductions may be ended in any order, which need not be the same on all ranks. */
    comet_status (*reduce_end)(void *self, uint32_t number);

    comet_status (*describe)(void *self, comet_ranks_figures *figures);

    /* The thread that runs the model got on: an operator, a batch, a file. Costs nothing. Whoever fills this table in may end
     * the job where that does not happen for long while other ranks wait. May be NULL. */
    void (*mark)(void *self, comet_rank_phase phase);

    uint64_t message_bytes;  /* memory that messages take in this process, */
    uint32_t kept_per_float; /* and bytes kept for each float of a gradient, where they are coded */
} comet_ranks;

enum { COMET_RANKS_MAX_REDUCTIONS = 64, COMET_RANKS_ALIGNMENT = 16 /* floats */ };

/* The part of n floats that `rank` adds up: multiples of COMET_RANKS_ALIGNMENT but for the last, as even as that allows. */
static inline void comet_ranks_segment(size_t n, uint32_t n_ranks, uint32_t rank, size_t *first, size_t *count)
{
    const size_t blocks = (n + COMET_RANKS_ALIGNMENT - 1) / COMET_RANKS_ALIGNMENT, even = blocks / n_ranks,
                 rest = blocks % n_ranks;
    const size_t begin = (even * rank + (rank < rest ? rank : rest)) * COMET_RANKS_ALIGNMENT;
    const size_t end = begin + (even + (rank < rest ? 1 : 0)) * COMET_RANKS_ALIGNMENT;
    *first = begin < n ? begin : n;
    *count = (end < n ? end : n) - *first;
}

#ifdef __cplusplus
}
#endif

#endif
