/*
 * The GPU's kernels in plain C against the library: random tensors and damaged frames, in every order of fibers, with warps of
 * 32 and of 64, and watched for conflicts in shared memory and for accesses outside the buffers. COMET_GPU_CASES sets how many
 * cases each test has, COMET_GPU_SEED where they begin, COMET_GPU_DAMAGED how many damaged frames a case has,
 * COMET_GPU_MOST about how many elements at most.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gpu/device.h"
#include "gpu/fiber_kernels.h"
#include "gpu/gpu_testing.h"

static rig rig_of_fibers(const fiber_run *run)
{
    rig r = {.exact = run->build == FIBERS_WATCHED};
    fibers_begin(run);
    assert_ok(gpu_open_device(&fiber_backend, 0, NULL, &r.gpu));
    return r;
}

static void check_quiet(const sample_case *c, uint64_t seed)
{
    if (fibers_complaint())
        fail_because("seed %llu: %s: %s", (unsigned long long)seed, case_text(c), fibers_complaint());
}

static void report(const char *what, const rig *r)
{
    printf("%s: %llu values, %llu frames, %llu damaged frames of which %llu were refused\n", what,
           (unsigned long long)r->n_values, (unsigned long long)r->n_frames, (unsigned long long)r->n_damaged,
           (unsigned long long)r->n_refused);
}

static void run_cases(const char *what, enum fiber_build build, uint64_t n_cases, uint64_t most, size_t n_damaged)
{
    uint64_t begin = gpu_test_number("COMET_GPU_SEED", 1);
    n_cases = gpu_test_number("COMET_GPU_CASES", n_cases);
    most = gpu_test_number("COMET_GPU_MOST", most);
    n_damaged = (size_t)gpu_test_number("COMET_GPU_DAMAGED", n_damaged);
    rig sum = {.gpu = NULL};
    for (uint64_t seed = begin; seed < begin + n_cases; seed++) {
        fiber_run run = {build, (enum fiber_order)(seed % N_FIBER_ORDERS), seed};
        rig r = rig_of_fibers(&run);
        test_rng rng = {seed};
        sample_case c = random_case(&rng, most);
        rig_check(&r, &c);
        check_quiet(&c, seed);
        rig_check_damaged(&r, &c, &rng, n_damaged);
        check_quiet(&c, seed);
        sum.n_values += r.n_values;
        sum.n_frames += r.n_frames;
        sum.n_damaged += r.n_damaged;
        sum.n_refused += r.n_refused;
        case_free(&c);
        comet_gpu_close(r.gpu);
    }
    report(what, &sum);
}

static void test_plain(void **state)
{
    run_cases("plain", FIBERS_PLAIN, 50, 30000, 3);
}

static void test_warps_of_32(void **state)
{
    run_cases("warps of 32", FIBERS_WARP32, 25, 30000, 3);
}

static void test_warps_of_64(void **state)
{
    run_cases("warps of 64", FIBERS_WARP64, 25, 30000, 3);
}

static void test_lots(void **state)
{
    run_cases("lots of 32", FIBERS_LOTS, 25, 30000, 3);
}

static void test_watched(void **state)
{
    uint64_t before = watch_accesses();
    run_cases("watched", FIBERS_WATCHED, 30, 20000, 3);
    assert_true(watch_accesses() > before + 100000);
}

static void test_modes(void **state)
{
    const fiber_run run = {FIBERS_PLAIN, FIBERS_SHUFFLED, 1};
    rig r = rig_of_fibers(&run);
    rig_check_modes(&r);
    report("modes", &r);
    comet_gpu_close(r.gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain),       cmocka_unit_test(test_warps_of_32),
                                       cmocka_unit_test(test_warps_of_64), cmocka_unit_test(test_lots),
                                       cmocka_unit_test(test_watched),     cmocka_unit_test(test_modes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
