/* An allocator that fails at the k-th call, for every k until all goes well: the status says so, nothing leaks, and the context
 * still works or can at least be destroyed. */
#include "testing.h"

#include <stdlib.h>

typedef struct work {
    comet_tensor tensor;
    comet_params params;
    void *x;
    blob frame; /* as it should come out */
} work;

static work work_of(comet_dtype dtype, comet_level level, comet_bound_mode mode, double bound)
{
    const uint64_t dims[] = {3, 20, 30};
    work w = {.tensor = tensor_of(dtype, COMET_LAYOUT_PLANAR, 3, dims), .params = params_of(level, bound)};
    w.params.bound_mode = mode;
    w.params.chunk_elements = 700;
    w.x = make_data(5, DATA_RELU, &w.tensor);
    w.frame = encode(NULL, &w.tensor, &w.params, w.x, NULL);
    return w;
}

static void work_free(work *w)
{
    free(w->x);
    free(w->frame.data);
}

/* ---- one attempt: create a context, use it, use it again with the allocator mended, destroy it ---- */

/* True if the allocator was not asked often enough to fail. */
typedef bool attempt_fn(const work *w, size_t n_threads, test_allocator *memory);

static void check_failed(comet_status status)
{
    assert_status(status, COMET_ERROR_MEMORY);
}

static bool attempt_encode(const work *w, size_t n_threads, test_allocator *memory)
{
    comet_hooks hooks = hooks_with(memory);
    comet_encoder *encoder = NULL;
    comet_status status = comet_encoder_create(&encoder, &hooks, n_threads);
    if (status != COMET_OK) {
        check_failed(status);
        assert_null(encoder);
        return false;
    }
    size_t capacity = 0, bytes = 4242;
    assert_ok(comet_compress_bound(&w->tensor, &w->params, &capacity));
    uint8_t *dst = need_malloc(capacity);
    comet_stats stats, untouched;
    comet_stats_init(&stats);
    untouched = stats;
    status = comet_encoder_run(encoder, &w->tensor, &w->params, w->x, dst, capacity, &bytes, &stats);
    bool ok = status == COMET_OK;
    if (!ok) {
        check_failed(status);
        assert_int_equal(bytes, 4242);
        assert_memory_equal(&stats, &untouched, sizeof stats);
    }
    memory->fail_from = 0;
    assert_ok(comet_encoder_run(encoder, &w->tensor, &w->params, w->x, dst, capacity, &bytes, NULL));
    assert_true(blobs_equal((blob){dst, bytes}, w->frame));
    comet_encoder_destroy(encoder);
    free(dst);
    return ok;
}

static bool attempt_estimate(const work *w, size_t n_threads, test_allocator *memory)
{
    comet_hooks hooks = hooks_with(memory);
    comet_encoder *encoder = NULL;
    comet_status status = comet_encoder_create(&encoder, &hooks, n_threads);
    if (status != COMET_OK) {
        check_failed(status);
        return false;
    }
    uint64_t bytes = 4242;
    double eb = 42;
    status = comet_encoder_estimate(encoder, &w->tensor, &w->params, w->x, &bytes, &eb);
    if (status != COMET_OK) {
        check_failed(status);
        assert_true(bytes == 4242 && eb == 42);
    }
    comet_encoder_destroy(encoder);
    return status == COMET_OK;
}

static bool attempt_decode(const work *w, size_t n_threads, test_allocator *memory)
{
    comet_hooks hooks = hooks_with(memory);
    comet_decoder *decoder = NULL;
    comet_status status = comet_decoder_create(&decoder, &hooks, n_threads);
    if (status != COMET_OK) {
        check_failed(status);
        assert_null(decoder);
        return false;
    }
    size_t capacity = bytes_of(&w->tensor), bytes = 4242;
    void *y = need_malloc(capacity);
    status = comet_decoder_run(decoder, w->frame.data, w->frame.bytes, y, capacity, &bytes);
    bool ok = status == COMET_OK;
    if (!ok) {
        check_failed(status);
        assert_int_equal(bytes, 4242);
    }
    memory->fail_from = 0;
    free(decode_and_check(decoder, w->frame, w->x));
    comet_decoder_destroy(decoder);
    free(y);
    return ok;
}

/* ---- every k ---- */

static void fail_at_every_call(attempt_fn *attempt, const work *w, size_t n_threads, bool once)
{
    for (size_t k = 1;; k++) {
        test_allocator memory = {.fail_from = k, .once = once, .garbage = 0xbd};
        bool ok = attempt(w, n_threads, &memory);
        assert_int_equal(memory.n_live, 0);
        assert_int_equal(memory.live_bytes, 0);
        assert_false(memory.misused);
        if (ok) {
            assert_true(k > 4); /* some allocations did fail */
            return;
        }
        assert_true(k < 200);
    }
}

static void check_work(work w)
{
    static attempt_fn *const attempts[] = {attempt_encode, attempt_estimate, attempt_decode};
    for (size_t a = 0; a < COUNT_OF(attempts); a++)
        for (size_t n_threads = 1; n_threads <= 2; n_threads++)
            for (int once = 0; once < 2; once++)
                fail_at_every_call(attempts[a], &w, n_threads, once);
    work_free(&w);
}

static void test_fast(void **state)
{
    check_work(work_of(COMET_DTYPE_F32, COMET_LEVEL_FAST, COMET_BOUND_ABSOLUTE, 0.05));
}

static void test_dense(void **state)
{
    check_work(work_of(COMET_DTYPE_F32, COMET_LEVEL_DENSE, COMET_BOUND_STDDEV, 0.05));
}

static void test_auto(void **state)
{
    check_work(work_of(COMET_DTYPE_F16, COMET_LEVEL_AUTO, COMET_BOUND_RANGE, 0.01));
}

static void test_ratio(void **state)
{
    check_work(work_of(COMET_DTYPE_F32, COMET_LEVEL_AUTO, COMET_BOUND_RATIO, 3));
}

static void test_lossless(void **state)
{
    check_work(work_of(COMET_DTYPE_F64, COMET_LEVEL_DENSE, COMET_BOUND_LOSSLESS, 0));
}

/* Sizes that no machine has: refused by malloc, not by a crash. */
static void test_absurd_chunk_sizes(void **state)
{
    const uint64_t dims[] = {UINT64_C(1) << 40};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 1, dims);
    comet_params p = params_of(COMET_LEVEL_FAST, 0.1);
    p.chunk_elements = 64;
    test_allocator memory = {.garbage = 1};
    comet_hooks hooks = hooks_with(&memory);
    comet_encoder *encoder = new_encoder(&hooks, 1);
    size_t bytes = 1, bound = 0;
    memory.fail_from = memory.n_calls + 1;
    float x = 0;
    assert_ok(comet_compress_bound(&t, &p, &bound));
    uint8_t dst;
    assert_status(comet_encoder_run(encoder, &t, &p, &x, &dst, bound, &bytes, NULL), COMET_ERROR_MEMORY);
    comet_encoder_destroy(encoder);
    assert_int_equal(memory.n_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast),  cmocka_unit_test(test_dense),    cmocka_unit_test(test_auto),
        cmocka_unit_test(test_ratio), cmocka_unit_test(test_lossless), cmocka_unit_test(test_absurd_chunk_sizes),
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
