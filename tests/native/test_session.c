/* Sessions: encode and decode with every kind of threads, from several threads, and where memory or sense is lacking. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "native_testing.h"

enum { N = 500000, SEED = 9 };

/* ThreadSanitizer does not see how libgomp's threads wait for one another. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEES_NO_GOMP 1
#endif
#endif
#ifndef SEES_NO_GOMP
#define SEES_NO_GOMP 0
#endif

static float *some_values(uint64_t n)
{
    const comet_tensor t = tensor_1d(COMET_DTYPE_F32, n);
    return make_data(SEED, DATA_RELU, &t);
}

/* The frame that a codec context of its own makes of the values. */
static blob expected_frame(const float *x, uint64_t n, double eb)
{
    const comet_tensor t = tensor_1d(COMET_DTYPE_F32, n);
    const comet_params p = params_of(COMET_LEVEL_FAST, eb);
    size_t capacity = 0;
    blob frame = {0};
    assert_int_equal(comet_compress_bound(&t, &p, &capacity), COMET_OK);
    frame.data = malloc(capacity);
    assert_non_null(frame.data);
    assert_int_equal(comet_compress(&t, &p, x, frame.data, capacity, &frame.bytes), COMET_OK);
    return frame;
}

static void check_values(comet_native_session *s, const comet_native_block *block, const float *x, uint64_t n, double eb)
{
    float *y = malloc(n * sizeof *y);
    assert_non_null(y);
    assert_int_equal(comet_native_decode(s, block, y, n * sizeof *y), COMET_OK);
    for (uint64_t i = 0; i < n; i++)
        assert_true(fabs((double)x[i] - (double)y[i]) <= eb);
    free(y);
}

/* Through a session: a block within the bound, the frame's bytes, a mask, integers. */
static void check_session(comet_native_session *s, const float *x, double eb)
{
    const blob expected = expected_frame(x, N, eb);
    comet_native_job job = job_of(N, eb);
    comet_native_block *block = NULL;
    size_t frame_bytes = 0, bytes = 0;
    assert_int_equal(comet_native_encode(s, &job, x, &block), COMET_OK);
    assert_int_equal(job.bytes_raw, N * sizeof *x);
    assert_int_equal(job.bytes_coded, expected.bytes);
    assert_true(job.eb > 0 && job.max > 0 && job.n_nonzero < N);
    check_values(s, block, x, N, eb);
    comet_native_free(s, block);

    assert_int_equal(comet_native_sizes(&job, NULL, &frame_bytes), COMET_OK);
    uint8_t *frame = malloc(frame_bytes);
    float *y = malloc(N * sizeof *y);
    assert_true(frame && y);
    assert_int_equal(comet_native_compress(s, &job, x, frame, frame_bytes, &bytes), COMET_OK);
    assert_int_equal(bytes, expected.bytes);
    assert_memory_equal(frame, expected.data, bytes);
    assert_int_equal(comet_native_decompress(s, frame, bytes, y, N * sizeof *y, &bytes), COMET_OK);
    assert_int_equal(bytes, N * sizeof *y);

    for (size_t i = 0; i < N; i++)
        y[i] = x[i] > 0;
    assert_int_equal(comet_native_pack_two(s, y, sizeof *y, N, &block), COMET_OK);
    check_values(s, block, y, N, 0);
    comet_native_free(s, block);
    free(expected.data);
    free(frame);
    free(y);
}

static void test_every_kind_of_threads(void **state)
{
    float *x = some_values(N);
    const struct {
        int how;
        void *entry;
        bool lent;
    } kinds[] = {{COMET_NATIVE_OWN_THREADS, NULL, false},
                 {COMET_NATIVE_TORCH, torch_stand_in(), true},
                 {COMET_NATIVE_TORCH, torch_refusing(), true}, /* the caller then does all */
                 {COMET_NATIVE_GOMP, gomp_stand_in(), true}};
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
            comet_native_session *s = session_of(n_threads, kinds[k].how, kinds[k].entry);
            stand_in_calls();
            check_session(s, x, 0.01);
            assert_int_equal(stand_in_calls() > 0, kinds[k].lent && n_threads > 1);
            assert_int_equal(figures_of(s).n_blocks, 0);
            comet_native_destroy(s);
        }
    free(x);
}

/* GNU's OpenMP runtime itself, where it is installed. */
static void test_the_real_gomp(void **state)
{
    void *library = SEES_NO_GOMP ? NULL : dlopen("libgomp.so.1", RTLD_NOW);
    if (!library)
        skip();
    void *entry = dlsym(library, "GOMP_parallel");
    assert_non_null(entry);
    float *x = some_values(N);
    comet_native_session *s = session_of(2, COMET_NATIVE_GOMP, entry);
    check_session(s, x, 0.01);
    comet_native_destroy(s);
    free(x);
}

/* ---- two threads at once ---- */

typedef struct user {
    comet_native_session *session;
    const float *x;
    uint64_t n;
} user;

static void *use(void *given)
{
    const user *u = given;
    for (int turn = 0; turn < 30; turn++) {
        comet_native_job job = job_of(u->n, 0.01);
        comet_native_block *block = NULL, *packed = NULL;
        assert_int_equal(comet_native_encode(u->session, &job, u->x, &block), COMET_OK);
        assert_int_equal(comet_native_pack_integers(u->session, u->x, 4, 0, u->n, &packed), COMET_OK);
        check_values(u->session, block, u->x, u->n, 0.01);
        if (packed)
            check_values(u->session, packed, u->x, u->n, 0);
        comet_native_free(u->session, block);
        comet_native_free(u->session, packed);
    }
    return NULL;
}

static void test_two_threads_at_once(void **state)
{
    const int kinds[] = {COMET_NATIVE_OWN_THREADS, COMET_NATIVE_TORCH, COMET_NATIVE_GOMP};
    void *const entries[] = {NULL, torch_stand_in(), gomp_stand_in()};
    float *x = some_values(N);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        comet_native_session *s = session_of(2, kinds[k], entries[k]);
        const user users[2] = {{s, x, 150001}, {s, x + 150001, 149999}};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, use, (void *)(uintptr_t)&users[0]), 0);
        use((void *)(uintptr_t)&users[1]);
        pthread_join(thread, NULL);
        assert_int_equal(figures_of(s).n_blocks, 0);
        comet_native_destroy(s);
    }
    free(x);
}

/* ---- memory ---- */

/* Noise, losslessly: frames about as long as the tensor. Of the buffer little stays. */
static void test_figures(void **state)
{
    enum { LONG = 6000000 }; /* longer than what stays of the buffer */
    const comet_tensor t = tensor_1d(COMET_DTYPE_F32, LONG);
    float *x = make_data(SEED, DATA_BITS, &t);
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    comet_native_job job = job_of(LONG, 0);
    comet_native_block *blocks[3] = {NULL};
    const comet_native_figures before = figures_of(s);
    assert_int_equal(before.bytes_used + before.bytes_reserved + before.bytes_scratch, 0);
    uint64_t used = 0;
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(comet_native_encode(s, &job, x, &blocks[k]), COMET_OK);
        used += comet_native_block_bytes(blocks[k]);
    }
    const comet_native_figures f = figures_of(s);
    assert_int_equal(f.n_blocks, 3);
    assert_int_equal(f.bytes_used, used);
    assert_true(f.bytes_reserved >= used && f.bytes_reserved < used + 8 * ((uint64_t)4 << 20));
    assert_in_range(f.bytes_scratch, 1, (uint64_t)2 << 20);
    for (size_t k = 0; k < 3; k++)
        comet_native_free(s, blocks[k]);
    assert_int_equal(figures_of(s).bytes_used, 0);
    assert_int_equal(figures_of(s).peak_used, used);
    comet_native_destroy(s);
    free(x);
}

/* Blocks that are still there go with the session. */
static void test_destroy_with_blocks(void **state)
{
    float *x = some_values(N);
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    comet_native_job job = job_of(N, 0.1);
    comet_native_block *block = NULL;
    assert_int_equal(comet_native_encode(s, &job, x, &block), COMET_OK);
    comet_native_destroy(s);
    comet_native_destroy(NULL);
    free(x);
}

/* A frame of 2^58 bytes: no room to encode into. */
static void test_no_memory_to_encode_into(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    comet_native_job job = job_of(UINT64_C(1) << 56, 0.1);
    const float x = 1;
    comet_native_block *block = NULL;
    assert_int_equal(comet_native_encode(s, &job, &x, &block), COMET_ERROR_MEMORY);
    assert_non_null(strstr(comet_native_last_error(), "could not map"));
    assert_null(block);
    job = job_of(1, 0.1);
    assert_int_equal(comet_native_encode(s, &job, &x, &block), COMET_OK);
    check_values(s, block, &x, 1, 0.1);
    comet_native_destroy(s);
}

/* ---- bad calls ---- */

static void test_kinds_of_threads_that_make_no_sense(void **state)
{
    comet_native_session *s = NULL;
    assert_int_equal(comet_native_create(NULL, 1, COMET_NATIVE_OWN_THREADS, NULL), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_create(&s, 1, 3, NULL), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_create(&s, 1, -1, NULL), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_create(&s, 1, COMET_NATIVE_OWN_THREADS, torch_stand_in()), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_create(&s, 1, COMET_NATIVE_TORCH, NULL), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_create(&s, 1, COMET_NATIVE_GOMP, NULL), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_native_last_error(), "need an entry point"));
    assert_null(s);
}

static void test_jobs_that_make_no_sense(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    const float x[4] = {1, 2, 3, 4};
    comet_native_job bad[9];
    for (size_t k = 0; k < COUNT_OF(bad); k++)
        bad[k] = job_of(4, 0.1);
    bad[0].size = 8;
    bad[1].dtype = 17;
    bad[2].layout = 9;
    bad[3].n_dims = 0;
    bad[4].n_dims = COMET_MAX_DIMS + 1;
    bad[5].bound_mode = 40;
    bad[6].bound = -1;
    bad[7].level = 5;
    bad[8].chunk_elements = 3;
    for (size_t k = 0; k < COUNT_OF(bad); k++) {
        comet_native_block *block = NULL;
        assert_int_equal(comet_native_encode(s, &bad[k], x, &block), COMET_ERROR_ARGUMENT);
        assert_null(block);
    }
    comet_native_job job = job_of(4, 0.1);
    comet_native_block *block = NULL;
    assert_int_equal(comet_native_encode(s, NULL, x, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_encode(s, &job, NULL, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_encode(s, &job, (const char *)x + 1, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_encode(NULL, &job, x, &block), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_encode(s, &job, x, NULL), COMET_ERROR_ARGUMENT);
    comet_native_figures figures = {.size = 3};
    assert_int_equal(comet_native_memory(s, &figures), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_raw_bytes(NULL) + comet_native_block_bytes(NULL), 0);
    comet_native_destroy(s);
}

/* A forked child may end its copy of a session, which has no threads there. */
static void test_a_forked_child_leaves_the_session_alone(void **state)
{
    float *x = some_values(N);
    comet_native_session *s = session_of(2, COMET_NATIVE_OWN_THREADS, NULL);
    check_session(s, x, 0.01);
    const pid_t child = fork();
    if (child == 0) {
        comet_native_destroy(s);
        _exit(0);
    }
    int ended = -1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    check_session(s, x, 0.01);
    comet_native_destroy(s);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_of_threads),
        cmocka_unit_test(test_the_real_gomp),
        cmocka_unit_test(test_two_threads_at_once),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_destroy_with_blocks),
        cmocka_unit_test(test_no_memory_to_encode_into),
        cmocka_unit_test(test_kinds_of_threads_that_make_no_sense),
        cmocka_unit_test(test_jobs_that_make_no_sense),
        cmocka_unit_test(test_a_forked_child_leaves_the_session_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
