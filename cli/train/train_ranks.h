/* Ranks that train together: options, joining under an MPI launcher, and what all of them settle alike. */
#ifndef COMET_CLI_TRAIN_RANKS_H
#define COMET_CLI_TRAIN_RANKS_H

#include "comet/dist.h"
#include "comet/train.h"
#include "kit/setters.h"

typedef struct ranks_args {
    comet_wire wire;
    bool reduce_with_mpi, sync_batch_norm, shard_optimiser;
} ranks_args;

bool set_wire(void *target, const char *text, reason *why); /* comet_wire: off, bf16, codec */
const char *wire_name(comet_wire wire);
bool set_reduce(void *target, const char *text, reason *why); /* bool: ordered, mpi */

#define OPTION_SYNC_BN(type)                                                     \
    {                                                                            \
        0, "sync-bn", NULL, set_flag, offsetof(type, ranks.sync_batch_norm),     \
            "under mpirun: batch norms take the statistics of all ranks' images" \
    }
#define OPTION_SHARD(type)                                                           \
    {                                                                                \
        0, "shard-optimiser", NULL, set_flag, offsetof(type, ranks.shard_optimiser), \
            "under mpirun: each rank keeps its part of the optimiser's state"        \
    }
#define OPTION_WIRE(type)                                                                 \
    {                                                                                     \
        0, "compress-gradients", "HOW", set_wire, offsetof(type, ranks.wire),             \
            "under mpirun: gradients travel as off (floats), bf16 or codec (default off)" \
    }
#define OPTION_REDUCE(type)                                                                         \
    {                                                                                               \
        0, "reduce", "HOW", set_reduce, offsetof(type, ranks.reduce_with_mpi),                      \
            "under mpirun: ordered (same bits every time) or mpi (MPI's own sums; default ordered)" \
    }

/* This process and the others; zeroed before ranks_join. */
typedef struct train_ranks {
    bool together;
    comet_ranks table;
} train_ranks;

/* Joins the others where an MPI launcher started this process. */
cli_exit ranks_join(train_ranks *r, const ranks_args *args);
/* Leaves with the others, or, where `code` is not CLI_OK or a signal's, ends the job. Returns the code to exit with. */
cli_exit ranks_leave(train_ranks *r, cli_exit code);

static inline bool ranks_is_first(const train_ranks *r)
{
    return !r->together || r->table.rank == 0;
}

static inline uint32_t ranks_count(const train_ranks *r)
{
    return r->together ? r->table.n_ranks : 1;
}

/* Refuses ranks that were started with other options, or have other data. */
cli_exit ranks_check_alike(train_ranks *r, const comet_dataset *train, const comet_dataset *test);

/* Rank 0's bytes for all. */
cli_exit ranks_take_first(train_ranks *r, void *data, size_t bytes);
/* The same for a text that may be NULL; others than rank 0 lose theirs. For comet_text_free. */
cli_exit ranks_take_first_text(train_ranks *r, char **text);

/* A rank's share of the batch of all; `given` says whether the user chose the batch, which must then be shared out evenly. */
cli_exit ranks_share_batch(const train_ranks *r, uint64_t batch, bool given, uint32_t *share);
/* What the rank that can take the fewest images chose by its memory. */
cli_exit ranks_least_batch(train_ranks *r, comet_model_params *model, const char *spill_folder, uint32_t *chosen_by);
/* Threads for each rank of this machine: its cores, shared out. */
uint32_t ranks_threads(const train_ranks *r);

#endif
