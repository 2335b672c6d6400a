/* Reductions of floats: works that add up in the order of the ranks, and what they share. */
#ifndef COMET_DIST_REDUCTION_H
#define COMET_DIST_REDUCTION_H

#include "comet/ranks.h"
#include "dist/wire.h"
#include "dist/work.h"

typedef struct reducer reducer; /* buffers, coders, what coding left over */

typedef struct reduction {
    work base; /* first */
    reducer *shared;
    comet_reduction kind;
    uint64_t key;
    float *data;
    size_t n;
    uint32_t number;
    struct lane *lane; /* the buffers, while it moves */
    float *left;       /* of its key, where gradients are coded */
    size_t next_piece, n_pieces, n_pieces_done;
    int request; /* of MPI's own reduction */
} reduction;

typedef struct reducer_settings {
    uint32_t rank, n_ranks;
    comet_wire wire;
    double coded_share;
    bool with_mpi;
} reducer_settings;

comet_status reducer_create(reducer **out, const reducer_settings *settings);
void reducer_destroy(reducer *r);
/* Memory of its buffers, and bytes that it keeps for each float that was ever coded. */
uint64_t reducer_memory(const reducer *r);
uint32_t reducer_kept_per_float(const reducer *r);
/* reducer_memory of one with these settings. */
comet_status reducer_plan(const reducer_settings *settings, uint64_t *bytes);
/* Bytes sent so far, and what they would have been as floats. Any thread. */
void reducer_bytes(const reducer *r, uint64_t *sent, uint64_t *plain);

/* Prepares a work; all ranks use the same numbers for it. */
void reduction_begin(reduction *w, reducer *shared, comet_reduction kind, uint64_t key, float *data, size_t n, uint32_t number);

#endif
