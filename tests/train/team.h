/*
 * A model that ranks of fake_ranks.h train together, each with its rows of the same batches, and what each of them has in the
 * end.
 */
#ifndef COMET_TESTS_TEAM_H
#define COMET_TESTS_TEAM_H

#include "fake_ranks.h"
#include "training.h"

enum { TEAM_STEPS = 64, TEAM_KINDS = COMET_TENSOR_SECOND_MOMENT + 1, TEAM_FLOATS = 1 << 14 };

typedef struct team_job {
    const comet_net *net;
    comet_model_params params; /* batch: of all ranks together */
    uint32_t n_steps;          /* at most TEAM_STEPS */
    double rate;
    uint64_t bucket_floats; /* exchange_limit; 0: as usual */
    uint32_t n_rooms;
    bool alone;                 /* one rank without a table of ranks */
    const comet_ranks *rows_of; /* whose rows it takes then; NULL: all */
    bool apart;                 /* gradients and updates are two calls */
    /* Called in each rank; both may be NULL. `own` is the rank's part of what team_run_with gives. */
    void (*prepare)(trial *t, void *own);
    void (*after_step)(trial *t, uint64_t step, void *own);
} team_job;

/* What one rank has, by kind of tensor: state of the optimiser only where it is not shared out. */
typedef struct team_outcome {
    uint64_t bits[TEAM_KINDS]; /* a hash of all tensors after every step */
    uint64_t n_kept[TEAM_KINDS];
    float kept[TEAM_KINDS][TEAM_FLOATS]; /* after the last; every so many of large tensors */
    comet_scores scores[TEAM_STEPS];
    comet_memory planned, memory;
    uint32_t n_buckets;
} team_outcome;

/* 4 steps of the net with a batch of 12 at a rate of 0.05, one thread a rank. */
team_job team_job_of(const comet_net *net);

/* malloc'd, one for each rank. `own` receives own_bytes of each; NULL and 0: there are none. */
team_outcome *team_run(const team_job *job, uint32_t n_ranks, size_t own_bytes, void *own);
/* The same for several jobs, one after another in the same processes, which is faster: those of the first job come first. */
team_outcome *team_run_all(const team_job *jobs, size_t n_jobs, uint32_t n_ranks);

/* For what runs in ranks without team_run: a rank's parameters. */
comet_model_params team_params(const team_job *job, const comet_ranks *ranks);

/* A hash of all tensors of a kind. */
uint64_t team_hash(const comet_model *m, comet_tensor_kind kind);

/* The same bits in every step. */
bool team_same_bits(const team_outcome *a, const team_outcome *b, int kind);
/* relative_distance of what is kept of that kind. */
double team_distance(const team_outcome *a, const team_outcome *b, int kind);

/* The same scores in every step; field by field, since the struct has bytes that belong to none. */
bool team_same_scores(const team_outcome *a, const team_outcome *b, uint32_t n_steps);

#endif
