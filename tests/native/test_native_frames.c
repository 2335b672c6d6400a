/* Frames through the library's functions: descriptions, comparisons, damage, and options that reach the codec. */
#include <stdlib.h>

#include "native_testing.h"

enum { N = 4096, SEED = 2 };

static void *some_data(comet_dtype dtype)
{
    const comet_tensor t = tensor_1d(dtype, N);
    return make_data(SEED, DATA_RELU, &t);
}

static blob frame_of(comet_native_session *s, comet_native_job *job, const void *x)
{
    blob frame = {0};
    size_t capacity = 0;
    assert_int_equal(comet_native_sizes(job, NULL, &capacity), COMET_OK);
    frame.data = malloc(capacity);
    assert_non_null(frame.data);
    assert_int_equal(comet_native_compress(s, job, x, frame.data, capacity, &frame.bytes), COMET_OK);
    return frame;
}

static void test_a_description_says_what_the_job_said(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    double *x = some_data(COMET_DTYPE_F64);
    comet_native_job job = job_of(N, 0);
    job.dtype = COMET_DTYPE_F64;
    job.n_dims = 3;
    memcpy(job.dims, (uint64_t[]){4, 16, 64}, 3 * sizeof job.dims[0]);
    job.layout = COMET_LAYOUT_CHANNELS_LAST;
    job.bound_mode = COMET_BOUND_STDDEV;
    job.bound = 0.1;
    job.level = COMET_LEVEL_DENSE;
    job.dither = 1;
    job.dither_seed = 77;
    job.checksum = 1;
    job.chunk_elements = 1024;
    const blob frame = frame_of(s, &job, x);
    comet_native_frame info = {.size = sizeof info};
    assert_int_equal(comet_native_describe(frame.data, frame.bytes, &info), COMET_OK);
    assert_true(info.dtype == COMET_DTYPE_F64 && info.layout == COMET_LAYOUT_CHANNELS_LAST && info.n_dims == 3);
    assert_true(info.dims[0] == 4 && info.dims[1] == 16 && info.dims[2] == 64 && info.level == COMET_LEVEL_DENSE);
    assert_true(info.eb == job.eb && info.eb > 0 && !info.lossless && !info.keep_support);
    assert_true(info.dither == 1 && info.dither_seed == 77 && info.checksum == 1 && info.chunk_elements == 1024);
    assert_true(info.n_elements == N && info.tensor_bytes == 8 * N && info.frame_bytes == frame.bytes && info.n_chunks == 4);
    free(frame.data);
    free(x);
    comet_native_destroy(s);
}

static void test_a_comparison(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    float *x = some_data(COMET_DTYPE_F32), *y = malloc(N * sizeof *y);
    comet_native_job job = job_of(N, 0.05);
    size_t bytes = 0;
    assert_non_null(y);
    const blob frame = frame_of(s, &job, x);
    assert_int_equal(comet_native_decompress(s, frame.data, frame.bytes, y, N * sizeof *y, &bytes), COMET_OK);
    comet_native_comparison seen = {.size = sizeof seen};
    assert_int_equal(comet_native_compare(COMET_DTYPE_F32, N, x, y, 0.05, &seen), COMET_OK);
    assert_true(seen.n_violations == 0 && seen.max_error > 0 && seen.max_error <= 0.05 && seen.n_zeros == seen.n_zeros_kept);
    y[100] += 1;
    assert_int_equal(comet_native_compare(COMET_DTYPE_F32, N, x, y, 0.05, &seen), COMET_OK);
    assert_true(seen.n_violations == 1 && seen.first_violation == 100);
    seen.size = 1;
    assert_int_equal(comet_native_compare(COMET_DTYPE_F32, N, x, y, 0.05, &seen), COMET_ERROR_ARGUMENT);
    free(frame.data);
    free(x);
    free(y);
    comet_native_destroy(s);
}

static void test_damaged_frames(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    float *x = some_data(COMET_DTYPE_F32), *y = malloc(N * sizeof *y);
    comet_native_job job = job_of(N, 0.05);
    comet_native_frame info = {.size = sizeof info};
    size_t bytes = 12345;
    assert_non_null(y);
    job.checksum = 1;
    const blob frame = frame_of(s, &job, x);
    for (size_t k = 0; k < frame.bytes; k++) {
        frame.data[k] ^= 0x10;
        assert_int_not_equal(comet_native_decompress(s, frame.data, frame.bytes, y, N * sizeof *y, &bytes), COMET_OK);
        frame.data[k] ^= 0x10;
        assert_int_not_equal(comet_native_decompress(s, frame.data, k, y, N * sizeof *y, &bytes), COMET_OK);
    }
    assert_int_equal(comet_native_describe(frame.data, 3, &info), COMET_ERROR_CORRUPT);
    info.size = 0;
    assert_int_equal(comet_native_describe(frame.data, frame.bytes, &info), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_decompress(NULL, frame.data, frame.bytes, y, N * sizeof *y, &bytes), COMET_ERROR_ARGUMENT);
    assert_int_equal(comet_native_decompress(s, frame.data, frame.bytes, y, 5, &bytes), COMET_ERROR_CAPACITY);
    assert_int_equal(bytes, 12345);
    free(frame.data);
    free(x);
    free(y);
    comet_native_destroy(s);
}

static void test_a_frame_that_does_not_fit(void **state)
{
    comet_native_session *s = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    float *x = some_data(COMET_DTYPE_F32);
    uint8_t little[100];
    size_t bytes = 12345, tensor_bytes = 0;
    comet_native_job job = job_of(N, 0);
    assert_int_equal(comet_native_compress(s, &job, x, little, sizeof little, &bytes), COMET_ERROR_CAPACITY);
    assert_int_equal(comet_native_compress(NULL, &job, x, little, sizeof little, &bytes), COMET_ERROR_ARGUMENT);
    assert_int_equal(bytes, 12345);
    assert_int_equal(comet_native_sizes(&job, &tensor_bytes, NULL), COMET_OK);
    assert_int_equal(tensor_bytes, 4 * N);
    free(x);
    comet_native_destroy(s);
}

static void test_the_version(void **state)
{
    assert_string_equal(comet_native_version(), COMET_VERSION_STRING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_description_says_what_the_job_said),
        cmocka_unit_test(test_a_comparison),
        cmocka_unit_test(test_damaged_frames),
        cmocka_unit_test(test_a_frame_that_does_not_fit),
        cmocka_unit_test(test_the_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
