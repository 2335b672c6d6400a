/*
 * Ranks on MPI: finds out whether an MPI launcher started this process, joins the other ranks, and ends the job where one of
 * them is gone. comet/ranks.h is what the engine then uses. For programs; the training library does not contain it.
 *
 *   comet_dist_launched   was this process started by an MPI launcher, and by which?
 *   comet_dist_start      joins the other ranks; comet_dist_end leaves together
 *   comet_dist_agree      were all ranks started alike?
 *   comet_dist_fail       tells the other ranks that this one ends
 *   comet_dist_hold       time to save after SIGTERM
 *   comet_dist_module     which MPIs this build can use
 *
 * MPI is in a module beside the program, which is loaded by comet_dist_start and by nothing else. A thread of its own moves
 * messages, so that reductions go on while the engine computes. Rank 0 hears from every rank every second: a rank that is
 * silent for `silent_seconds`, has ended or has failed ends the job, within 10 s, with a sentence that names it. So does one
 * whose model's thread stands still (hung_seconds) while others wait for it.
 */
#ifndef COMET_DIST_H
#define COMET_DIST_H

#include "comet/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum comet_launcher {
    COMET_LAUNCHER_NONE = 0,
    COMET_LAUNCHER_OPENMPI, /* mpirun of Open MPI */
    COMET_LAUNCHER_PMI,     /* MPICH's hydra, or srun with PMI 1 or 2 */
    COMET_LAUNCHER_PMIX,    /* srun --mpi=pmix, prun */
    COMET_LAUNCHER_SRUN,    /* srun that serves no MPI: the copies cannot find each other */
} comet_launcher;

typedef struct comet_launch {
    size_t size;
    comet_launcher launcher;
    uint32_t rank, n_ranks; /* 0 and 1 without a launcher */
    const char *name;       /* such as "Open MPI's mpirun"; "" without a launcher */
} comet_launch;

/* Reads the environment. COMET_ERROR_ARGUMENT where it is not what a launcher leaves, such as OMPI_COMM_WORLD_SIZE=x, and where
 * srun started several copies without PMI. One copy under a launcher is COMET_LAUNCHER_NONE: it needs no MPI. */
comet_status comet_dist_launched(comet_launch *launch);

/* How gradients travel. Sums are of floats in any case. */
typedef enum comet_wire {
    COMET_WIRE_F32 = 0,
    COMET_WIRE_BF16,  /* rounded to nearest even */
    COMET_WIRE_CODED, /* our codec, level dense; what it leaves over is added the next time */
    COMET_WIRE_CODED_FAST,
} comet_wire;

typedef struct comet_dist_params {
    size_t size;
    comet_wire wire;
    double coded_share;    /* CODED: variance of the error over that of the floats, (0, 1]; default 0.02 */
    bool reduce_with_mpi;  /* COMET_REDUCE_ALL by MPI's own reduction, whose order of additions is MPI's; wire F32 only */
    double silent_seconds; /* default 6 */
    double hung_seconds;   /* default 7: so long, or 10 times as long as ever before, a step may stand still while others wait;
                            * 8 times that with files, 80 times that before the first step */
    /* The job ends: this rank prints the sentence if `speak`, then the process ends with code 1. Any thread. May be NULL. */
    void (*ending)(void *user, const char *sentence, bool speak);
    void *user;
} comet_dist_params;

void comet_dist_params_init(comet_dist_params *params);

/* Joins the other ranks of the launcher and fills *ranks in, whose calls serve one thread. Waits for all ranks. Fails where
 * this build has no MPI module for the launcher, and where MPI sees other ranks than the launcher started. At most one at a
 * time. */
comet_status comet_dist_start(const comet_dist_params *params, comet_ranks *ranks);

/* Memory that messages take on each of n_ranks, without what the MPI itself takes. */
comet_status comet_dist_message_bytes(const comet_dist_params *params, uint32_t n_ranks, uint64_t *bytes);

/* Leaves, together with all other ranks: waits for them. To be called where everything went well. */
comet_status comet_dist_end(comet_ranks *ranks);

/* Tells the other ranks that this one ends because of `sentence`; they end without another word. Returns when they know, or
 * after a second. The caller then prints the sentence and exits with a code that is not 0; comet_dist_end is not called. */
void comet_dist_fail(comet_ranks *ranks, const char *sentence);

/* To be called in the program's handler of SIGTERM and SIGINT, with or without ranks. Open MPI's mpirun kills ranks one second
 * after SIGTERM: this stops it until comet_dist_end, for 5 minutes at most; it may then kill the ranks at once. Other launchers
 * wait by themselves. Safe in signal handlers. */
void comet_dist_hold(void);

/* Are all ranks started alike? `text` has lines "what: value". Where a rank's differ from rank 0's, all ranks return
 * COMET_ERROR_ARGUMENT with the same sentence, which names the first difference and the rank: "rank 2 on host b was started
 * with
 * --rate 0.2, rank 0 with 0.1". Works on any comet_ranks. */
comet_status comet_dist_agree(comet_ranks *ranks, const char *text);

/* The host of a rank of comet_dist_start. */
const char *comet_dist_host(const comet_ranks *ranks, uint32_t rank);

/* An MPI that this build can use. */
typedef struct comet_dist_module_info {
    size_t size;
    const char *name;  /* "openmpi", "mpich" or "other" */
    char library[128]; /* what the MPI says of itself; "" where it cannot be loaded */
    char error[256];   /* why it cannot be loaded */
} comet_dist_module_info;

/* The modules of this build, by number from 0; false where there is none of that number. Loads the module's MPI, without
 * starting it. */
bool comet_dist_module(size_t number, comet_dist_module_info *info);

#ifdef __cplusplus
}
#endif

#endif
