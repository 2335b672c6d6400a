/*
 * Launchers, told apart by what they leave in the environment:
 *
 *   OMPI_COMM_WORLD_SIZE, _RANK    Open MPI's mpirun, which sets PMIX_RANK too
 *   PMI_SIZE, PMI_RANK             MPICH's hydra, Slurm's srun --mpi=pmi2
 *   PMIX_RANK                      srun --mpi=pmix; how many is in SLURM_STEP_NUM_TASKS or SLURM_NTASKS
 *   SLURM_PROCID, SLURM_STEP_NUM_TASKS    srun without any of these
 *
 * Slurm's batch script itself has SLURM_PROCID=0 and SLURM_NTASKS, but is one process: only srun sets SLURM_STEP_NUM_TASKS.
 */
#include "dist/launcher.h"

#include <errno.h>
#include <stdlib.h>

#include "base/describe.h"
#include "base/status.h"

enum { MOST_RANKS = 1 << 20 };

/* The number in a variable that a launcher set. */
static comet_status read_number(const char *name, uint32_t *number)
{
    const char *text = getenv(name);
    char *end = NULL;
    errno = 0;
    const unsigned long value = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (!end || *end != '\0' || errno != 0 || value > MOST_RANKS)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s=%s in the environment is not the number that an MPI launcher leaves there",
                          name, text ? text : "");
    *number = (uint32_t)value;
    return COMET_OK;
}

static comet_status read_both(comet_launch *found, comet_launcher launcher, const char *launcher_name, const char *rank,
                              const char *size)
{
    TRY(read_number(rank, &found->rank));
    TRY(read_number(size, &found->n_ranks));
    if (found->n_ranks == 0 || found->rank >= found->n_ranks)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s=%u and %s=%u in the environment cannot both be right", rank, found->rank,
                          size, found->n_ranks);
    found->launcher = launcher;
    found->name = launcher_name;
    return COMET_OK;
}

/* srun names the tasks of a step; other launchers with PMIx may leave the number of tasks of the job only. */
static const char *tasks_variable(void)
{
    return getenv("SLURM_STEP_NUM_TASKS") || !getenv("SLURM_NTASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

static comet_status find(comet_launch *found)
{
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        return read_both(found, COMET_LAUNCHER_OPENMPI, "Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    if (getenv("PMI_SIZE") && getenv("PMI_RANK"))
        return read_both(found, COMET_LAUNCHER_PMI, getenv("SLURM_STEP_NUM_TASKS") ? "srun (PMI)" : "MPICH's mpirun",
                         "PMI_RANK", "PMI_SIZE");
    if (getenv("PMIX_RANK"))
        return read_both(found, COMET_LAUNCHER_PMIX, "a launcher with PMIx", "PMIX_RANK", tasks_variable());
    if (getenv("SLURM_PROCID") && getenv("SLURM_STEP_NUM_TASKS"))
        return read_both(found, COMET_LAUNCHER_SRUN, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    return COMET_OK;
}

comet_status comet_dist_launched(comet_launch *launch)
{
    comet_launch found = {.n_ranks = 1, .name = ""};
    TRY(CHECK_SIZE(comet_launch, launch));
    TRY(find(&found));
    if (found.n_ranks == 1)
        found = (comet_launch){.n_ranks = 1, .name = ""};
    if (found.launcher == COMET_LAUNCHER_SRUN)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "srun started %u copies without PMI, so they cannot find each other: start them with srun --mpi=pmix "
                          "or --mpi=pmi2 (srun --mpi=list shows which there are)",
                          found.n_ranks);
    return GIVE(comet_launch, launch, &found);
}

const char *const *launcher_modules(comet_launcher launcher)
{
    static const char *const none[] = {NULL}, *const openmpi[] = {"openmpi", "other", NULL},
                             *const pmi[] = {"mpich", "other", NULL}, *const pmix[] = {"openmpi", "other", "mpich", NULL};
    switch (launcher) {
    case COMET_LAUNCHER_OPENMPI: return openmpi;
    case COMET_LAUNCHER_PMI: return pmi;
    case COMET_LAUNCHER_PMIX: return pmix;
    case COMET_LAUNCHER_NONE:
    case COMET_LAUNCHER_SRUN: return none;
    }
    return none;
}
