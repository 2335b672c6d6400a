/* The CUDA back end on the mock of the driver: devices, contexts, streams, and what goes wrong with each. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/device.h"
#include "gpu/gpu_testing.h"
#include "gpu/mock_library.h"

typedef struct handle handle; /* of the driver's */

static comet_gpu *open_cuda(const char *name)
{
    comet_gpu *gpu = NULL;
    assert_ok(comet_gpu_open(name, NULL, &gpu));
    return gpu;
}

/* Fails the test unless the sentence has these words. */
static void assert_said(const char *words)
{
    if (!strstr(comet_last_error(), words))
        fail_because("\"%s\" does not have \"%s\"", comet_last_error(), words);
}

static void test_devices(void **state)
{
    unsigned n = 0;
    comet_gpu_info info;
    comet_gpu_info_init(&info);
    assert_ok(comet_gpu_count("cuda", &n));
    assert_int_equal(n, 2);
    assert_ok(comet_gpu_describe("cuda:1", &info));
    assert_string_equal(info.name, "cuda:1");
    assert_string_equal(info.device, "interpreter of PTX, device 1");
    assert_string_equal(info.driver, "CUDA 12.4, sm_80");
    assert_int_equal(info.memory_bytes, (uint64_t)1 << 31);
    assert_int_equal(info.shared_bytes, 49152);
    assert_string_equal(info.unfit, "");
    comet_gpu *gpu = NULL;
    assert_status(comet_gpu_open("cuda:2", NULL, &gpu), COMET_ERROR_UNSUPPORTED);
    assert_said("there are only 2");
}

/* Frames by both devices, with all that was made given back at the end. */
static void test_both(void **state)
{
    static const char *const names[] = {"cuda:0", "cuda:1"};
    const mock_cuda_counts before = mock_counts();
    for (size_t i = 0; i < 2; i++) {
        rig r = {.gpu = open_cuda(names[i]), .exact = true};
        test_rng rng = {17 + i};
        sample_case c = random_case(&rng, 5000);
        rig_check(&r, &c);
        case_free(&c);
        comet_gpu_close(r.gpu);
    }
    const mock_cuda_counts after = mock_counts();
    assert_true(after.launches >= before.launches + 20);
    assert_int_equal(after.live_objects, before.live_objects);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void test_old_device(void **state)
{
    comet_gpu *gpu = NULL;
    comet_gpu_info info;
    comet_gpu_info_init(&info);
    mock_set("capability=61");
    assert_ok(comet_gpu_describe("cuda:0", &info));
    assert_string_equal(info.unfit, "its compute capability is 6.1; at least 7.0 is needed");
    assert_status(comet_gpu_open("cuda:0", NULL, &gpu), COMET_ERROR_UNSUPPORTED);
    assert_said("capability 6.1; at least 7.0");
    mock_set("capability=80");
}

/* A driver that does not take the PTX, where there is no NVRTC either. */
static void test_ptx_refused(void **state)
{
    comet_gpu *gpu = NULL;
    const mock_cuda_counts before = mock_counts();
    mock_set("ptx=222");
    const comet_status status = comet_gpu_open("cuda:0", NULL, &gpu);
    mock_set("ptx=2");
    assert_status(comet_gpu_open("cuda:0", NULL, &gpu), COMET_ERROR_MEMORY);
    mock_set("ptx=0");
    assert_int_equal(status, COMET_ERROR_UNSUPPORTED);
    assert_int_equal(mock_counts().live_objects, before.live_objects);
}

static void test_out_of_memory(void **state)
{
    uint64_t memory = 0, more = 77;
    mock_set("memory=10000");
    comet_gpu *gpu = open_cuda("cuda:0");
    assert_ok(comet_gpu_allocate(gpu, 9000, &memory));
    assert_status(comet_gpu_allocate(gpu, 1001, &more), COMET_ERROR_MEMORY);
    assert_said("out of memory");
    comet_gpu_release(gpu, memory);
    assert_ok(comet_gpu_allocate(gpu, 10000, &memory));
    comet_gpu_release(gpu, memory);
    comet_gpu_close(gpu);
    mock_set("memory=2147483648");
}

/* ---- a tensor for calls ---- */

static const uint64_t dims[] = {3, 40, 70};

typedef struct work {
    comet_gpu *gpu;
    comet_tensor tensor;
    comet_params params;
    comet_gpu_plan plan;
    comet_gpu_pointer src, frame, work, result;
    void *x;
} work;

static comet_gpu_pointer room(comet_gpu *gpu, uint64_t bytes)
{
    comet_gpu_pointer p = {0, 0};
    assert_ok(comet_gpu_allocate(gpu, bytes, &p.memory));
    return p;
}

static work work_make(comet_gpu *gpu)
{
    work w = {.gpu = gpu,
              .tensor = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 3, dims),
              .params = params_of(COMET_LEVEL_FAST, 0.01)};
    w.params.profile = COMET_PROFILE_DEVICE;
    comet_gpu_plan_init(&w.plan);
    assert_ok(comet_gpu_plan_tensor(&w.tensor, &w.params, &w.plan));
    w.src = room(gpu, w.plan.tensor_bytes);
    w.frame = room(gpu, w.plan.frame_bytes);
    w.work = room(gpu, w.plan.encode_bytes);
    w.result = room(gpu, sizeof(comet_gpu_result));
    w.x = make_data(5, DATA_RELU, &w.tensor);
    assert_ok(comet_gpu_write(gpu, w.src, w.x, w.plan.tensor_bytes));
    return w;
}

static void work_free(work *w)
{
    comet_gpu_release(w->gpu, w->src.memory);
    comet_gpu_release(w->gpu, w->frame.memory);
    comet_gpu_release(w->gpu, w->work.memory);
    comet_gpu_release(w->gpu, w->result.memory);
    free(w->x);
}

static comet_status encode_on(const work *w, void *queue)
{
    return comet_gpu_encode(w->gpu, &w->tensor, &w->params, w->src, w->frame, w->plan.frame_bytes, w->work, w->result, queue);
}

/* Encoding launches, and neither allocates nor waits. */
static void test_only_launches(void **state)
{
    comet_gpu *gpu = open_cuda("cuda:0");
    work w = work_make(gpu);
    const mock_cuda_counts before = mock_counts();
    assert_ok(encode_on(&w, NULL));
    const mock_cuda_counts after = mock_counts();
    assert_int_equal(after.launches - before.launches, 5);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.waits, before.waits);
    work_free(&w);
    comet_gpu_close(gpu);
}

/* A stream of another context is refused, those of the lent context and the default streams are taken. */
static void test_contexts(void **state)
{
    int (*create)(handle **, unsigned, int), (*destroy)(handle *), (*now)(handle **), (*pop)(handle **), (*push)(handle *);
    int (*make_stream)(handle **, unsigned), (*drop_stream)(handle *);
    handle *lent = NULL, *other = NULL, *stream = NULL, *own = NULL, *current = NULL;
    mock_find("cuCtxCreate_v2", &create);
    mock_find("cuCtxDestroy_v2", &destroy);
    mock_find("cuCtxGetCurrent", &now);
    mock_find("cuCtxPopCurrent_v2", &pop);
    mock_find("cuCtxPushCurrent_v2", &push);
    mock_find("cuStreamCreate", &make_stream);
    mock_find("cuStreamDestroy_v2", &drop_stream);
    assert_int_equal(create(&lent, 0, 0) + make_stream(&own, 0) + create(&other, 0, 1) + make_stream(&stream, 0), 0);
    comet_gpu *gpu = NULL;
    assert_status(comet_gpu_open("cuda:0", &(comet_gpu_context){other}, &gpu), COMET_ERROR_ARGUMENT);
    assert_said("is of device 1, not 0");
    assert_ok(comet_gpu_open("cuda:0", &(comet_gpu_context){lent}, &gpu));
    assert_ptr_equal(comet_gpu_native_context(gpu), lent);
    work w = work_make(gpu);
    const uint64_t launches = mock_counts().launches;
    assert_status(encode_on(&w, stream), COMET_ERROR_ARGUMENT);
    assert_said("the stream is of another context");
    assert_status(encode_on(&w, &w), COMET_ERROR_UNSUPPORTED); /* no stream at all */
    assert_int_equal(mock_counts().launches, launches);
    assert_ok(encode_on(&w, own));
    assert_ok(encode_on(&w, (void *)1)); /* CU_STREAM_LEGACY */
    assert_ok(encode_on(&w, (void *)2)); /* CU_STREAM_PER_THREAD */
    work_free(&w);
    comet_gpu_close(gpu);
    now(&current);
    assert_ptr_equal(current, other); /* as it was before */
    assert_int_equal(drop_stream(own) + drop_stream(stream) + pop(&current) + pop(&current) + destroy(other) + destroy(lent),
                     0);
    assert_int_not_equal(push(lent), 0);
}

/* A workspace that is too small: the interpreter sees what a GPU might not. */
static void test_fault(void **state)
{
    comet_gpu *gpu = open_cuda("cuda:0");
    work w = work_make(gpu);
    comet_gpu_release(gpu, w.work.memory);
    w.work = room(gpu, 128);
    assert_status(encode_on(&w, NULL), COMET_ERROR_UNSUPPORTED);
    assert_said("outside its memory");
    assert_said("encode_16");
    work_free(&w);
    comet_gpu_close(gpu);
}

/* ---- drivers that do not start: looked for once in a process, so each has its own ---- */

static void in_child(const char *library, const char *words, const char *said)
{
    const pid_t child = fork();
    if (child == 0) {
        comet_gpu *gpu = NULL;
        unsigned n = 9;
        setenv("COMET_CUDA_LIBRARY", library, 1);
        setenv("COMET_MOCK_CUDA", words, 1);
        const bool good = comet_gpu_count("cuda", &n) == COMET_OK && n == 0 &&
                          comet_gpu_open("cuda:0", NULL, &gpu) == COMET_ERROR_UNSUPPORTED && strstr(comet_last_error(), said);
        if (!good)
            fprintf(stderr, "%s, %s: %u devices, \"%s\"\n", library, words, n, comet_last_error());
        _exit(!good);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_no_driver(void **state)
{
    in_child("/nowhere/libcuda.so.1", "", "no device of cuda: there is no driver, or it finds none");
    in_child("libm.so.6", "", "there is no driver"); /* a library without its functions */
    in_child(MOCK_LIBRARY, "init=100", "there is no driver");
    in_child(MOCK_LIBRARY, "devices=0", "there is no driver, or it finds none");
    in_child(MOCK_LIBRARY, "colour=red", "there is no driver");
}

static int open_mock(void **state)
{
    mock_open("devices=2");
    return 0;
}

int main(void)
{
    const struct CMUnitTest before[] = {cmocka_unit_test(test_no_driver)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices),       cmocka_unit_test(test_both),
                                       cmocka_unit_test(test_old_device),    cmocka_unit_test(test_ptx_refused),
                                       cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_only_launches),
                                       cmocka_unit_test(test_contexts),      cmocka_unit_test(test_fault)};
    return cmocka_run_group_tests(before, NULL, NULL) + cmocka_run_group_tests(tests, open_mock, NULL);
}
