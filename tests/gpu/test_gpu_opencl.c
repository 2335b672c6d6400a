/*
 * The GPU's kernels on an OpenCL device against the library. COMET_GPU_DEVICE names the device (default opencl:0, which is PoCL
 * where that is installed); without one the test is skipped. COMET_GPU_CASES, COMET_GPU_SEED and COMET_GPU_DAMAGED as in
 * test_gpu_fibers.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gpu/gpu_testing.h"

static comet_gpu *gpu;

static void test_random_cases(void **state)
{
    rig r = {.gpu = gpu};
    uint64_t begin = gpu_test_number("COMET_GPU_SEED", 1), n_cases = gpu_test_number("COMET_GPU_CASES", 150);
    for (uint64_t seed = begin; seed < begin + n_cases; seed++) {
        test_rng rng = {seed};
        sample_case c = random_case(&rng, gpu_test_number("COMET_GPU_MOST", seed % 10 == 0 ? 400000 : 30000));
        rig_check(&r, &c);
        rig_check_damaged(&r, &c, &rng, (size_t)gpu_test_number("COMET_GPU_DAMAGED", 4));
        case_free(&c);
    }
    printf("%llu values, %llu frames, %llu damaged frames of which %llu were refused\n", (unsigned long long)r.n_values,
           (unsigned long long)r.n_frames, (unsigned long long)r.n_damaged, (unsigned long long)r.n_refused);
}

static void test_modes(void **state)
{
    rig r = {.gpu = gpu};
    rig_check_modes(&r);
    printf("modes: %llu values, %llu frames\n", (unsigned long long)r.n_values, (unsigned long long)r.n_frames);
}

int main(void)
{
    const char *name = getenv("COMET_GPU_DEVICE");
    name = name ? name : "opencl:0";
    comet_gpu_info info;
    comet_gpu_info_init(&info);
    if (comet_gpu_describe(name, &info) != COMET_OK || info.unfit[0]) {
        printf("skipped: %s\n", info.unfit[0] ? info.unfit : comet_last_error());
        return 77;
    }
    if (comet_gpu_open(name, NULL, &gpu) != COMET_OK) {
        printf("%s\n", comet_last_error());
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_cases), cmocka_unit_test(test_modes)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comet_gpu_close(gpu);
    return failed;
}
