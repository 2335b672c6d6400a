/* A host may flush subnormals to zero or round another way; frames and elements must not depend on it. */
#include "testing.h"

#include <fenv.h>
#include <stdlib.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#define N 4096

/* Changes the calling thread's arithmetic; returns how it was. */
static fenv_t upset(int direction)
{
    fenv_t before;
    fegetenv(&before);
    fesetround(direction);
#ifdef __x86_64__
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
    return before;
}

static comet_params params_for(int keep_support, double eb)
{
    comet_params params;
    comet_params_init(&params);
    params.bound = eb;
    params.keep_support = keep_support;
    return params;
}

/* Compresses and decompresses with the arithmetic upset or not; returns the frame's bytes. */
static size_t round_trip(bool upset_it, comet_dtype dtype, const comet_params *params, const void *x, void *back,
                         uint8_t *frame, size_t room)
{
    uint64_t dims[] = {N};
    comet_tensor tensor;
    assert_int_equal(comet_tensor_init(&tensor, dtype, 1, dims), COMET_OK);
    size_t bytes = 0, written = 0;
    fenv_t before;
    fegetenv(&before);
    if (upset_it)
        before = upset(FE_UPWARD);
    comet_status compressed = comet_compress(&tensor, params, x, frame, room, &bytes);
    comet_status decompressed = comet_decompress(frame, bytes, back, N * sizeof(float), &written);
    int rounding = fegetround();
    fesetenv(&before);
    assert_int_equal(compressed, COMET_OK);
    assert_int_equal(decompressed, COMET_OK);
    assert_int_equal(rounding, upset_it ? FE_UPWARD : FE_TONEAREST); /* the host's own setting is put back */
    return bytes;
}

static void check_same(comet_dtype dtype, const comet_params *params, const void *x, size_t element)
{
    static uint8_t frames[2][N * 8];
    static float back[2][N];
    size_t bytes[2];
    for (int i = 0; i < 2; i++)
        bytes[i] = round_trip(i, dtype, params, x, back[i], frames[i], sizeof frames[i]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(frames[0], frames[1], bytes[0]);
    assert_memory_equal(back[0], back[1], N * element);
}

static void test_f32_subnormals_keep_their_support(void **state)
{
    (void)state;
    static float x[N];
    for (int i = 0; i < N; i++)
        x[i] = i % 3 ? (float)i * 0x1p-148f : (float)i;
    comet_params params = params_for(1, 0.01);
    check_same(COMET_DTYPE_F32, &params, x, sizeof *x);
}

static void test_f16_with_a_subnormal_bound(void **state)
{
    (void)state;
    static uint16_t x[N];
    for (int i = 0; i < N; i++)
        x[i] = (uint16_t)(i * 7 % 0x3c00);
    comet_params params = params_for(0, 0x1p-18);
    check_same(COMET_DTYPE_F16, &params, x, sizeof *x);
}

/* A host's floating-point settings change nothing and are still there afterwards. */
static void test_same_bytes_in_any_float_environment(void **state)
{
    static const comet_dtype dtypes[] = {COMET_DTYPE_F32, COMET_DTYPE_F16, COMET_DTYPE_BF16, COMET_DTYPE_F64};
    static const int directions[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    static const enum data_class classes[] = {DATA_RELU, DATA_TINY, DATA_NONFINITE, DATA_LOGNORMAL};
    const uint64_t dims[] = {5, 40, 50};
    for (size_t c = 0; c < COUNT_OF(classes); c++)
        for (size_t i = 0; i < 3; i++) {
            comet_tensor t = tensor_of(dtypes[(c + i) % 4], COMET_LAYOUT_PLANAR, 3, dims);
            void *x = make_data(c, classes[c], &t);
            comet_params p = params_of((comet_level)i, 0.1);
            p.bound_mode = i == 1 ? COMET_BOUND_ABSOLUTE : COMET_BOUND_STDDEV;
            p.chunk_elements = 3000;
            blob expected = encode(NULL, &t, &p, x, NULL);
            void *y = decode_and_check(NULL, expected, x);
            fenv_t before = upset(directions[i]);
            comet_encoder *encoder = new_encoder(NULL, 2);
            comet_decoder *decoder = new_decoder(NULL, 2);
            blob frame = encode(encoder, &t, &p, x, NULL);
            void *back = decode(decoder, frame);
            int direction = fegetround();
            fesetenv(&before);
            assert_int_equal(direction, directions[i]);
            assert_true(blobs_equal(frame, expected));
            assert_memory_equal(back, y, bytes_of(&t));
            comet_encoder_destroy(encoder);
            comet_decoder_destroy(decoder);
            free(expected.data);
            free(frame.data);
            free(x);
            free(y);
            free(back);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_subnormals_keep_their_support),
        cmocka_unit_test(test_f16_with_a_subnormal_bound),
        cmocka_unit_test(test_same_bytes_in_any_float_environment),
    };
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
