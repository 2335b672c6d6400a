/* Special tensors: tails, one element, none, more than 2^32; zeros, subnormals, NaN, infinities, values between two codes. */
#include "codec_testing.h"

#include <math.h>
#include <stdlib.h>

#include "codec/frame.h"
#include "fuzz/promise.h"

/* ---- special values ---- */

/* Every level and both a loose bound and none. */
static void round_trip_levels(const comet_tensor *t, const void *x)
{
    for (size_t l = 0; l < COUNT_OF(levels); l++)
        for (int lossless = 0; lossless < 2; lossless++) {
            comet_params p = params_of(levels[l], lossless ? 0 : 0.25);
            check_round_trip(t, &p, x);
            p.keep_support = 1;
            check_round_trip(t, &p, x);
        }
}

static void test_tails(void **state)
{
    for (uint64_t n = 1; n <= 200; n++)
        for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
            comet_tensor t = tensor_1d(dtypes[d], n);
            void *x = make_data(n, n % 3 ? DATA_NOISE : DATA_NONFINITE, &t);
            round_trip_levels(&t, x);
            free(x);
        }
}

static void test_empty_tensor(void **state)
{
    static const uint64_t dims[][3] = {{0, 4, 5}, {4, 0, 5}, {4, 5, 0}, {0, 0, 0}};
    for (size_t i = 0; i < COUNT_OF(dims); i++)
        for (size_t l = 0; l < COUNT_OF(layouts); l++)
            for (int mode = COMET_BOUND_ABSOLUTE; mode <= COMET_BOUND_RATIO; mode++) {
                comet_tensor t = tensor_of(COMET_DTYPE_F64, layouts[l], 3, dims[i]);
                comet_params p = params_with(COMET_LEVEL_AUTO, (comet_bound_mode)mode, 2);
                comet_encoder *encoder = new_encoder(NULL, 2);
                comet_stats stats;
                comet_stats_init(&stats);
                blob frame = encode(encoder, &t, &p, NULL, &stats);
                comet_frame_info info = info_of(frame);
                size_t bytes = 77;
                assert_ok(comet_decompress(frame.data, frame.bytes, NULL, 0, &bytes));
                assert_true(bytes == 0 && info.n_chunks == 0 && info.n_elements == 0 && stats.n_elements == 0);
                assert_true(stats.min == 0 && stats.max == 0 && stats.sum_of_squares == 0);
                comet_encoder_destroy(encoder);
                free(frame.data);
            }
}

static void test_one_element(void **state)
{
    static const double values[] = {0.0, -0.0, 1, -1e-30, 3e38, 1e300, INFINITY, -INFINITY, NAN};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
        for (size_t v = 0; v < COUNT_OF(values); v++) {
            comet_tensor t = tensor_1d(dtypes[d], 1);
            uint64_t x;
            set_element(dtypes[d], &x, 0, values[v]);
            round_trip_levels(&t, &x);
        }
}

/* A bound allows -0 to become +0; without one it stays. */
static void test_negative_zero(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 1000);
    float *x = need_malloc(bytes_of(&t));
    for (size_t i = 0; i < 1000; i++)
        x[i] = i % 3 ? -0.0f : 1.0f;
    round_trip_levels(&t, x);
    comet_params p = params_of(COMET_LEVEL_DENSE, 0);
    blob frame = encode(NULL, &t, &p, x, NULL);
    float *y = decode(NULL, frame);
    assert_memory_equal(x, y, bytes_of(&t));
    free(frame.data);
    free(x);
    free(y);
}

static void test_subnormals(void **state)
{
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_1d(dtypes[d], 4000);
        uint8_t *x = make_data(5, DATA_TINY, &t);
        for (uint64_t i = 0; i < 4000; i += 2) /* the smallest there are, of either sign */
            set_bits(dtypes[d], x, i, (i % 60) | (i % 4 ? UINT64_C(1) << (8 * comet_dtype_bytes(dtypes[d]) - 1) : 0));
        round_trip_levels(&t, x);
        static const double bounds[] = {1e-44, 1e-40, 1e-37, 3e-8, 1e-7, 5e-324, 1e-310, 1e-300};
        for (size_t b = 0; b < COUNT_OF(bounds); b++) {
            comet_params p = params_of(COMET_LEVEL_FAST, bounds[b]);
            check_round_trip(&t, &p, x);
            p.keep_support = 1;
            check_round_trip(&t, &p, x);
        }
        free(x);
    }
}

/* NaN of any payload and sign, quiet or signalling, and Inf: bit for bit under any bound. */
static void test_nan_payloads_and_infinities(void **state)
{
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_1d(dtypes[d], 3000);
        for (uint64_t seed = 0; seed < 4; seed++) {
            void *x = make_data(seed, DATA_NONFINITE, &t);
            round_trip_levels(&t, x);
            free(x);
        }
        void *x = make_data(9, DATA_NONFINITE, &t);
        for (uint64_t i = 0; i < 3000; i++) /* nothing but NaN */
            set_bits(dtypes[d], x, i, ~i);
        round_trip_levels(&t, x);
        free(x);
    }
}

static void test_huge_values(void **state)
{
    static const double bounds[] = {1e-3, 1e30, 1e38, 1e300, 1.7e308};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_1d(dtypes[d], 3000);
        void *x = make_data(d, DATA_HUGE, &t);
        for (size_t b = 0; b < COUNT_OF(bounds); b++)
            for (int option = 0; option < 3; option++) {
                comet_params p = params_of(COMET_LEVEL_AUTO, bounds[b]);
                p.keep_support = option == 1;
                p.dither = option == 2;
                check_round_trip(&t, &p, x);
            }
        free(x);
    }
}

/* Values exactly between two codes, and one ulp to either side: where a bound is missed by a rounding if it ever is. */
static void test_values_between_codes(void **state)
{
    static const double bounds[] = {0.1, 0.25, 1.0 / 3, 1e-3, 7, 0x1.fffffep-4, 0x1.000002p-3};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
        for (size_t b = 0; b < COUNT_OF(bounds); b++) {
            comet_tensor t = tensor_1d(dtypes[d], 6000);
            uint8_t *x = need_malloc(bytes_of(&t));
            for (uint64_t i = 0; i < 6000; i++) {
                set_element(dtypes[d], x, i, ((double)(i / 3) - 1000) * bounds[b]);
                uint8_t *low = x + i * comet_dtype_bytes(dtypes[d]);
                *low = (uint8_t)(*low + i % 3 - 1);
            }
            for (size_t l = 0; l < COUNT_OF(levels); l++)
                for (int option = 0; option < 3; option++) {
                    comet_params p = params_of(levels[l], bounds[b]);
                    p.keep_support = option == 1;
                    p.dither = option == 2;
                    check_round_trip(&t, &p, x);
                }
            free(x);
        }
}

/* ---- more than 2^32 elements ---- */

enum { HUGE_CHUNK = 1 << 20 };

static const uint64_t huge_dims[] = {3, (UINT64_C(1) << 31) + 5};

static void test_more_than_2_32_elements_described(void **state)
{
    comet_tensor t = tensor_of(COMET_DTYPE_F16, COMET_LAYOUT_PLANAR, 2, huge_dims);
    uint64_t n = 3 * huge_dims[1];
    size_t bound = 0;
    assert_true(elements_of(&t) == n && bytes_of(&t) == 2 * n);
    for (size_t l = 0; l < COUNT_OF(levels); l++) {
        comet_params p = params_of(levels[l], 0.1);
        assert_ok(comet_compress_bound(&t, &p, &bound));
        assert_true(bound > 2 * n && bound < 2 * n + n / 100);
    }
}

/* A chunk of 2^20 f16 all of the same value. */
static blob constant_payload(double value)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F16, HUGE_CHUNK);
    uint16_t *x = need_malloc(bytes_of(&t));
    for (size_t i = 0; i < HUGE_CHUNK; i++)
        set_element(COMET_DTYPE_F16, x, i, value);
    comet_params p = params_of(COMET_LEVEL_DENSE, 0.25);
    p.chunk_elements = HUGE_CHUNK;
    blob frame = encode(NULL, &t, &p, x, NULL);
    size_t prefix = (size_t)info_of(frame).header_bytes;
    frame.bytes -= prefix;
    memmove(frame.data, frame.data + prefix, frame.bytes);
    free(x);
    return frame;
}

/* A frame of more than 2^32 zeros, put together from one payload, with ones in chunk `marked`. */
static blob huge_frame(uint64_t marked)
{
    comet_tensor t = tensor_of(COMET_DTYPE_F16, COMET_LAYOUT_PLANAR, 2, huge_dims);
    blob zero = constant_payload(0), one = constant_payload(1);
    frame_header h = {.tensor = t, .level = COMET_LEVEL_DENSE, .eb = 0.25, .chunk_elements = HUGE_CHUNK};
    assert_ok(geometry_make(&t, &h.shape));
    h.n_chunks = elements_of(&t) / HUGE_CHUNK + 1; /* the last is shorter and left damaged */
    uint64_t prefix = frame_prefix_bytes(2, h.n_chunks);
    h.frame_bytes = prefix + (h.n_chunks - 1) * zero.bytes + one.bytes;
    blob frame = {need_malloc((size_t)h.frame_bytes), (size_t)h.frame_bytes};
    uint64_t at = prefix;
    for (uint64_t k = 0; k < h.n_chunks; k++) {
        blob payload = k == marked ? one : zero;
        memcpy(frame.data + at, payload.data, payload.bytes);
        store_u64(frame_index_entry(&h, frame.data, k), payload.bytes);
        at += payload.bytes;
    }
    frame_write_header(&h, frame.data);
    free(zero.data);
    free(one.data);
    return frame;
}

/* The tensor itself never exists: one chunk far beyond element 2^32 is decoded. */
static void test_chunks_beyond_2_32_elements(void **state)
{
    const uint64_t marked = 5000; /* element 5000 * 2^20 > 2^32 */
    blob frame = huge_frame(marked);
    comet_frame_info info = info_of(frame);
    assert_true(info.n_elements == 3 * huge_dims[1] && info.tensor_bytes == 6 * huge_dims[1]);
    comet_decoder *decoder = new_decoder(NULL, 2);
    uint16_t *y = need_malloc(2 * HUGE_CHUNK * sizeof *y);
    size_t bytes = 0;
    assert_ok(comet_decoder_run_chunks(decoder, frame.data, frame.bytes, marked - 1, 2, y, 2 * HUGE_CHUNK * sizeof *y, &bytes));
    assert_int_equal(bytes, 2 * HUGE_CHUNK * sizeof *y);
    for (size_t i = 0; i < 2 * HUGE_CHUNK; i++)
        assert_int_equal(y[i], i < HUGE_CHUNK ? 0 : 0x3c00);
    assert_status(comet_decoder_run(decoder, frame.data, frame.bytes, y, HUGE_CHUNK, &bytes), COMET_ERROR_CAPACITY);
    comet_decoder_destroy(decoder);
    free(frame.data);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_empty_tensor),
        cmocka_unit_test(test_one_element),
        cmocka_unit_test(test_negative_zero),
        cmocka_unit_test(test_subnormals),
        cmocka_unit_test(test_nan_payloads_and_infinities),
        cmocka_unit_test(test_huge_values),
        cmocka_unit_test(test_values_between_codes),
        cmocka_unit_test(test_more_than_2_32_elements_described),
        cmocka_unit_test(test_chunks_beyond_2_32_elements),
    };
    return cmocka_run_group_tests_name("codec: values", tests, NULL, NULL);
}
