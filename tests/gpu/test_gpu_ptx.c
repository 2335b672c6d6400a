/*
 * nvcc's PTX of the kernels against the library, through the CUDA back end and a mock of the driver that interprets it: random
 * tensors of every type and layout, damaged frames, in three orders of warps, watched for conflicts in shared memory; and the
 * golden frames. COMET_GPU_CASES, COMET_GPU_SEED, COMET_GPU_DAMAGED and COMET_GPU_MOST as in test_gpu_fibers.c.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gpu/backend.h"
#include "gpu/device.h"
#include "gpu/gpu_testing.h"
#include "gpu/mock_library.h"
#include "gpu/ptx/ptx.h"

static comet_gpu *gpu;

static void report(const char *what, const rig *r, clock_t begin)
{
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    printf("%s: %llu values, %llu frames, %llu damaged frames of which %llu were refused; %.3g values/s\n", what,
           (unsigned long long)r->n_values, (unsigned long long)r->n_frames, (unsigned long long)r->n_damaged,
           (unsigned long long)r->n_refused, (double)r->n_values / (seconds > 0 ? seconds : 1e-9));
}

static void run_cases(const char *what, bool watch, uint64_t n_cases, uint64_t most, size_t n_damaged)
{
    static const char *const orders[] = {"forward", "backward", "shuffled"};
    const uint64_t begin = gpu_test_number("COMET_GPU_SEED", 1);
    const clock_t began = clock();
    n_cases = gpu_test_number("COMET_GPU_CASES", n_cases);
    most = gpu_test_number("COMET_GPU_MOST", most);
    n_damaged = (size_t)gpu_test_number("COMET_GPU_DAMAGED", n_damaged);
    rig r = {.gpu = gpu};
    for (uint64_t seed = begin; seed < begin + n_cases; seed++) {
        mock_set("order=%s seed=%llu watch=%d", orders[seed % 3], (unsigned long long)seed, (int)watch);
        test_rng rng = {seed};
        sample_case c = random_case(&rng, most);
        r.exact = seed % 2; /* the mock sees every access outside, canaries every write */
        rig_check(&r, &c);
        rig_check_damaged(&r, &c, &rng, n_damaged);
        case_free(&c);
    }
    report(what, &r, began);
}

static void run_modes(void)
{
    const clock_t began = clock();
    rig r = {.gpu = gpu};
    mock_set("order=shuffled watch=0");
    rig_check_modes(&r);
    report("modes", &r, began);
}

/* How many of a kernel's instructions some thread has executed. */
static double executed_share(const char *name)
{
    int (*counted)(const char *, mock_kernel_counts *);
    mock_kernel_counts c;
    size_t n = 0;
    mock_find("mock_cuda_kernel_counts", &counted);
    if (counted(name, &c) != 0)
        return 0;
    for (size_t i = 0; i < ptx_kernel_ops(c.kernel); i++)
        n += c.counts[i].issued > 0;
    return (double)n / (double)ptx_kernel_ops(c.kernel);
}

/* What no case executes is not compared. */
static void check_executed(double least)
{
    for (int k = 0; k < N_GPU_KERNELS; k++) {
        const char *name = gpu_kernel_name((enum gpu_kernel)k);
        const double share = executed_share(name);
        printf("%s: %.1f %% of its instructions were executed\n", name, 100 * share);
        if (share < least && k != GPU_RESET_ARENA) /* arenas: test_gpu_calls.c */
            fail_because("%s: %.1f %% of its instructions were executed, expected %.0f", name, 100 * share, 100 * least);
    }
}

static void test_cases(void **state)
{
    mock_set("count=1");
    run_cases("cases", false, 60, 40000, 3);
    run_modes();
    mock_set("count=0");
    if (!getenv("COMET_GPU_CASES"))
        check_executed(0.7);
}

static void test_watched(void **state)
{
    run_cases("watched", true, 40, 15000, 2);
}

/* Compresses what a frame decodes to. */
static void encode_decoded(rig *r, sample_case *c, blob frame)
{
    size_t bytes = 0;
    assert_ok(comet_tensor_bytes(&c->tensor, &bytes));
    void *x = need_malloc(bytes);
    assert_ok(comet_decompress(frame.data, frame.bytes, x, bytes, &bytes));
    c->x = x;
    free(rig_encode(r, c).data);
    free(x);
}

/* Golden frames with chunks that a device takes, both ways. */
static bool check_golden(rig *r, const char *name)
{
    comet_gpu_plan plan;
    blob frame = read_file(COMET_TESTS_DIR "/codec/golden", name);
    const comet_frame_info info = info_of(frame);
    sample_case c = {.tensor = info.tensor, .name = name, .params = params_of(info.level, info.eb)};
    c.params.bound_mode = info.lossless ? COMET_BOUND_LOSSLESS : COMET_BOUND_ABSOLUTE;
    c.params.chunk_elements = info.chunk_elements;
    c.params.profile = info.profile;
    c.params.keep_support = info.keep_support;
    c.params.dither = info.dither;
    c.params.dither_seed = info.dither_seed;
    c.params.content_checksum = info.content_checksum;
    comet_gpu_plan_init(&plan);
    const bool goes = comet_gpu_plan_tensor(&c.tensor, &c.params, &plan) == COMET_OK;
    if (goes) {
        assert_int_equal(rig_decode(r, &c, frame, false), COMET_OK);
        encode_decoded(r, &c, frame);
    }
    free(frame.data);
    return goes;
}

static void test_golden(void **state)
{
    rig r = {.gpu = gpu, .exact = true};
    DIR *folder = opendir(COMET_TESTS_DIR "/codec/golden");
    assert_non_null(folder);
    size_t n = 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".comet"))
            n += check_golden(&r, entry->d_name);
    closedir(folder);
    printf("%zu golden frames\n", n);
    assert_true(n >= 2);
}

int main(void)
{
    mock_open("");
    assert_ok(comet_gpu_open("cuda:0", NULL, &gpu));
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_watched),
                                       cmocka_unit_test(test_golden)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comet_gpu_close(gpu);
    return failed;
}
