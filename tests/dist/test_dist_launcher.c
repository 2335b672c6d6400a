/* Launchers, told apart by the environment that they leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comet/dist.h"

static const char *const names[] = {
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "SLURM_NTASKS",
    "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS"};
enum { N_NAMES = sizeof names / sizeof *names };

/* The values of `names`, NULL for unset. */
static comet_status launched(const char *const values[N_NAMES], comet_launch *launch)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (values[i])
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
    *launch = (comet_launch){.size = sizeof *launch};
    return comet_dist_launched(launch);
}

static void test_found(void **state)
{
    (void)state;
    static const struct {
        const char *values[N_NAMES];
        comet_launcher launcher;
        uint32_t rank, n_ranks;
    } cases[] = {
        {{0}, COMET_LAUNCHER_NONE, 0, 1},
        {{"4", "2", 0, 0, "2"}, COMET_LAUNCHER_OPENMPI, 2, 4},
        {{"4", "2", 0, 0, "2", "8", "0"}, COMET_LAUNCHER_OPENMPI, 2, 4}, /* mpirun in a batch script */
        {{0, 0, "3", "0"}, COMET_LAUNCHER_PMI, 0, 3},
        {{0, 0, "3", "1", 0, "3", "1", "3"}, COMET_LAUNCHER_PMI, 1, 3},
        {{0, 0, 0, 0, "5", "8", "5", "8"}, COMET_LAUNCHER_PMIX, 5, 8},
        {{0, 0, 0, 0, "1", "6"}, COMET_LAUNCHER_PMIX, 1, 6},
        {{0, 0, 0, 0, 0, "4", "0"}, COMET_LAUNCHER_NONE, 0, 1}, /* the batch script itself */
        {{0, 0, 0, 0, 0, "1", "0", "1"}, COMET_LAUNCHER_NONE, 0, 1},
        {{"1", "0", 0, 0, "0"}, COMET_LAUNCHER_NONE, 0, 1}, /* mpirun -n 1 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        comet_launch launch;
        assert_int_equal(launched(cases[i].values, &launch), COMET_OK);
        assert_int_equal(launch.launcher, cases[i].launcher);
        assert_int_equal(launch.rank, cases[i].rank);
        assert_int_equal(launch.n_ranks, cases[i].n_ranks);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *values[N_NAMES], *part;
    } cases[] = {
        {{0, 0, 0, 0, 0, "4", "1", "4"}, "srun started 4 copies without PMI"},
        {{"x", "2"}, "OMPI_COMM_WORLD_SIZE=x"},
        {{"4", 0}, "OMPI_COMM_WORLD_RANK="},
        {{"4", "4"}, "OMPI_COMM_WORLD_RANK=4 and OMPI_COMM_WORLD_SIZE=4"},
        {{0, 0, "0", "0"}, "PMI_SIZE=0"},
        {{0, 0, "99999999999", "0"}, "PMI_SIZE=99999999999"},
        {{0, 0, 0, 0, "0"}, "SLURM_STEP_NUM_TASKS="},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        comet_launch launch;
        assert_int_equal(launched(cases[i].values, &launch), COMET_ERROR_ARGUMENT);
        assert_non_null(strstr(comet_last_error(), cases[i].part));
    }
}

/* This program lies where no module is, so a launcher of several ranks is refused before any MPI is loaded. */
static void test_no_module(void **state)
{
    (void)state;
    static const char *const mpirun[N_NAMES] = {"4", "2", 0, 0, "2"}, *const none[N_NAMES] = {0};
    comet_launch launch;
    comet_dist_params params;
    comet_ranks ranks;
    comet_dist_params_init(&params);
    assert_int_equal(launched(mpirun, &launch), COMET_OK);
    assert_int_equal(comet_dist_start(&params, &ranks), COMET_ERROR_UNSUPPORTED);
    assert_non_null(
        strstr(comet_last_error(), "Open MPI's mpirun started this program, which has no module for that MPI (it has: none)"));
    assert_int_equal(launched(none, &launch), COMET_OK);
    assert_int_equal(comet_dist_start(&params, &ranks), COMET_ERROR_ARGUMENT);
    params.wire = COMET_WIRE_BF16;
    params.reduce_with_mpi = true;
    assert_int_equal(comet_dist_start(&params, &ranks), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "MPI adds up plain floats only"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_no_module)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
