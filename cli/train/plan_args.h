/* The arguments of `comet plan`, for its parts: cmd_plan.c, plan_ranks.c and others. */
#ifndef COMET_CLI_PLAN_ARGS_H
#define COMET_CLI_PLAN_ARGS_H

#include "train/compression_args.h"
#include "train/convolutions.h"
#include "train/optimiser_args.h"
#include "train/precision_args.h"
#include "train/train_setup.h"

/* --ranks N or table. */
typedef struct ranks_arg {
    bool given, table;
    uint64_t n;
} ranks_arg;

/* Several ranks; what was not given is 0, and wire_bytes 4. */
typedef struct plan_ranks_args {
    ranks_arg ranks;
    uint64_t per_node;
    const struct mpi_kind *mpi;      /* NULL: of this build's first module */
    double link, latency, step_time; /* bytes/s, seconds; negative: not given */
    double wire_bytes;               /* on the wire for a gradient of 4 bytes */
    bool sync_bn, shard_optimiser;
} plan_ranks_args;

typedef struct plan_args {
    net_args net;
    compression_args compression;
    uint64_t image, channels, batch, memory, n_threads, queue;
    optimiser_args optimiser;
    convolutions_arg convolutions;
    precision_args precision;
    groups_args groups;
    plan_ranks_args several;
    const char *place; /* a described machine, or NULL */
    const char *gpu;   /* the name of one, or NULL */
    bool json, no_recompute, peak;
} plan_args;

/* The model that all forecasts are about, without compression. */
comet_model_params plan_model_params(const plan_args *args);
/* Its budget, which says on the progress line when it tries a step. The caller destroys it. */
comet_status plan_budget(const plan_args *args, const comet_net *net, comet_budget **budget);

#endif
