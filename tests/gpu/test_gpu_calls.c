/* The calls of comet/gpu.h beside what they compute: arguments, capacity, the arena, names of devices. On fibers. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu/device.h"
#include "gpu/fiber_kernels.h"
#include "gpu/gpu_testing.h"

static const uint64_t dims[] = {4, 50, 100};

typedef struct places {
    comet_gpu *gpu;
    comet_tensor tensor;
    comet_params params;
    comet_gpu_plan plan;
    void *x;
    comet_gpu_pointer src, frame, work, result;
} places;

static comet_gpu_pointer room(comet_gpu *gpu, uint64_t bytes)
{
    comet_gpu_pointer p = {0, 0};
    assert_ok(comet_gpu_allocate(gpu, bytes, &p.memory));
    return p;
}

static places make_places(comet_level level)
{
    places p = {.tensor = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 3, dims), .params = params_of(level, 0.01)};
    const fiber_run run = {FIBERS_PLAIN, FIBERS_FORWARD, 1};
    fibers_begin(&run);
    p.params.profile = COMET_PROFILE_DEVICE;
    assert_ok(gpu_open_device(&fiber_backend, 0, NULL, &p.gpu));
    comet_gpu_plan_init(&p.plan);
    assert_ok(comet_gpu_plan_tensor(&p.tensor, &p.params, &p.plan));
    p.x = make_data(3, DATA_RELU, &p.tensor);
    p.src = room(p.gpu, p.plan.tensor_bytes);
    p.frame = room(p.gpu, p.plan.frame_bytes);
    p.work = room(p.gpu, p.plan.encode_bytes);
    p.result = room(p.gpu, sizeof(comet_gpu_result));
    assert_ok(comet_gpu_write(p.gpu, p.src, p.x, p.plan.tensor_bytes));
    return p;
}

static void free_places(places *p)
{
    const comet_gpu_pointer all[] = {p->src, p->frame, p->work, p->result};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        comet_gpu_release(p->gpu, all[i].memory);
    comet_gpu_close(p->gpu);
    free(p->x);
}

static comet_gpu_result result_of(const places *p)
{
    comet_gpu_result r;
    assert_ok(comet_gpu_read(p->gpu, p->result, &r, sizeof r));
    return r;
}

/* One byte too little: the length is told, and the room stays as it was. */
static void check_capacity(comet_level level)
{
    places p = make_places(level);
    blob expected = encode(NULL, &p.tensor, &p.params, p.x, NULL);
    uint8_t *before = need_malloc(p.plan.frame_bytes), *after = need_malloc(p.plan.frame_bytes);
    memset(before, 0x5A, p.plan.frame_bytes);
    assert_ok(comet_gpu_write(p.gpu, p.frame, before, p.plan.frame_bytes));
    assert_ok(comet_gpu_encode(p.gpu, &p.tensor, &p.params, p.src, p.frame, expected.bytes - 1, p.work, p.result, NULL));
    assert_int_equal(result_of(&p).status, COMET_ERROR_CAPACITY);
    assert_int_equal(result_of(&p).bytes, expected.bytes);
    assert_ok(comet_gpu_read(p.gpu, p.frame, after, p.plan.frame_bytes));
    assert_memory_equal(before, after, p.plan.frame_bytes);
    assert_ok(comet_gpu_encode(p.gpu, &p.tensor, &p.params, p.src, p.frame, expected.bytes, p.work, p.result, NULL));
    assert_int_equal(result_of(&p).status, COMET_OK);
    free(before);
    free(after);
    free(expected.data);
    free_places(&p);
}

static void test_capacity(void **state)
{
    check_capacity(COMET_LEVEL_FAST);
    check_capacity(COMET_LEVEL_DENSE);
}

/* Frames one after the other at multiples of 256 bytes, until there is no room; then the first is kept and one fits again. */
static void check_arena(comet_level level)
{
    places p = make_places(level);
    blob expected = encode(NULL, &p.tensor, &p.params, p.x, NULL);
    const uint64_t rounded = (expected.bytes + 255) / 256 * 256;
    const comet_gpu_arena arena = {room(p.gpu, COMET_GPU_ARENA_HEAD + 2 * rounded), COMET_GPU_ARENA_HEAD + 2 * rounded};
    uint8_t *got = need_malloc(expected.bytes);
    assert_ok(comet_gpu_arena_reset(p.gpu, &arena, 0, NULL));
    for (uint64_t i = 0; i < 4; i++) {
        if (i == 3)
            assert_ok(comet_gpu_arena_reset(p.gpu, &arena, rounded - 255, NULL)); /* rounded up */
        assert_ok(comet_gpu_encode_to_arena(p.gpu, &p.tensor, &p.params, p.src, &arena, p.work, p.result, NULL));
        const comet_gpu_result r = result_of(&p);
        assert_int_equal(r.status, i == 2 ? COMET_ERROR_CAPACITY : COMET_OK);
        if (i == 2)
            continue;
        assert_int_equal(r.offset, i == 0 ? 0 : rounded);
        const comet_gpu_pointer at = {arena.memory.memory, COMET_GPU_ARENA_HEAD + r.offset};
        assert_ok(comet_gpu_read(p.gpu, at, got, expected.bytes));
        assert_memory_equal(got, expected.data, expected.bytes);
    }
    assert_status(comet_gpu_arena_reset(p.gpu, &arena, 2 * rounded + 1, NULL), COMET_ERROR_ARGUMENT);
    comet_gpu_release(p.gpu, arena.memory.memory);
    free(got);
    free(expected.data);
    free_places(&p);
}

static void test_arena(void **state)
{
    check_arena(COMET_LEVEL_FAST);
    check_arena(COMET_LEVEL_DENSE);
}

static void test_refused(void **state)
{
    places p = make_places(COMET_LEVEL_FAST);
    comet_params other = p.params;
    other.bound_mode = COMET_BOUND_STDDEV;
    assert_status(comet_gpu_plan_tensor(&p.tensor, &other, &p.plan), COMET_ERROR_UNSUPPORTED);
    other = p.params;
    other.content_checksum = true;
    assert_status(comet_gpu_plan_tensor(&p.tensor, &other, &p.plan), COMET_ERROR_UNSUPPORTED);
    other = p.params;
    other.profile = COMET_PROFILE_HOST;
    assert_status(comet_gpu_plan_tensor(&p.tensor, &other, &p.plan), COMET_ERROR_UNSUPPORTED);
    const comet_tensor doubles = tensor_of(COMET_DTYPE_F64, COMET_LAYOUT_PLANAR, 3, dims);
    assert_status(comet_gpu_plan_tensor(&doubles, &p.params, &p.plan), COMET_ERROR_UNSUPPORTED);
    comet_gpu_pointer odd = {p.frame.memory, 8}, none = {0, 0};
    assert_status(comet_gpu_encode(p.gpu, &p.tensor, &p.params, p.src, odd, 1, p.work, p.result, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_gpu_encode(p.gpu, &p.tensor, &p.params, none, p.frame, 1, p.work, p.result, NULL),
                  COMET_ERROR_ARGUMENT);
    assert_status(comet_gpu_encode(p.gpu, &p.tensor, &p.params, p.src, p.frame, 1, p.work, p.result, &p), COMET_ERROR_ARGUMENT);
    /* An address counts together with its offset. */
    comet_gpu_pointer shifted = {p.frame.memory + 4, p.frame.offset};
    assert_status(comet_gpu_encode(p.gpu, &p.tensor, &p.params, p.src, shifted, 1, p.work, p.result, NULL),
                  COMET_ERROR_ARGUMENT);
    free_places(&p);
}

/* A frame of a later version. */
static void test_version(void **state)
{
    places p = make_places(COMET_LEVEL_FAST);
    blob f = encode(NULL, &p.tensor, &p.params, p.x, NULL);
    f.data[4]++;
    assert_ok(comet_gpu_write(p.gpu, p.frame, f.data, f.bytes));
    assert_ok(comet_gpu_decode(p.gpu, &p.tensor, &p.params, p.frame, f.bytes, p.src, p.work, p.result, NULL));
    assert_int_equal(result_of(&p).status, COMET_ERROR_UNSUPPORTED);
    free(f.data);
    free_places(&p);
}

static void test_names(void **state)
{
    comet_gpu *gpu = NULL;
    comet_gpu_info info;
    unsigned n = 99;
    comet_gpu_info_init(&info);
    assert_status(comet_gpu_open("opencl:x", NULL, &gpu), COMET_ERROR_ARGUMENT);
    assert_status(comet_gpu_open("metal:0", NULL, &gpu), COMET_ERROR_ARGUMENT);
    assert_status(comet_gpu_open("cuda:998", NULL, &gpu), COMET_ERROR_UNSUPPORTED);
    assert_status(comet_gpu_describe("opencl:998", &info), COMET_ERROR_UNSUPPORTED);
    assert_status(comet_gpu_count("metal", &n), COMET_ERROR_ARGUMENT);
    assert_ok(comet_gpu_count("cuda", &n));
    assert_true(n < 99 && gpu == NULL);
}

static void check_empty(comet_level level)
{
    places p = make_places(level);
    const uint64_t none[] = {0, 7};
    sample_case c = {.tensor = tensor_of(COMET_DTYPE_BF16, COMET_LAYOUT_PLANAR, 2, none), .params = p.params, .x = p.x};
    rig r = {.gpu = p.gpu};
    rig_check(&r, &c);
    free_places(&p);
}

static void test_empty(void **state)
{
    check_empty(COMET_LEVEL_FAST);
    check_empty(COMET_LEVEL_DENSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_capacity), cmocka_unit_test(test_arena),
                                       cmocka_unit_test(test_refused),  cmocka_unit_test(test_version),
                                       cmocka_unit_test(test_names),    cmocka_unit_test(test_empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
