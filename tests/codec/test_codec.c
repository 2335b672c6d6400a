/* The codec's promises, call by call: round trips of everything with everything, options, ranges of chunks. Special values are
 * in test_codec_values.c, determinism and contexts in test_codec_contexts.c, bad arguments in test_arguments.c, figures in
 * test_measure.c. */
#include "codec_testing.h"

#include <math.h>
#include <stdlib.h>

#include "codec/frame.h"
#include "fuzz/promise.h"

/* ---- round trips ---- */

static void round_trip_all_bounds(const comet_tensor *t, const void *x)
{
    static const struct {
        comet_bound_mode mode;
        double bound;
    } bounds[] = {{COMET_BOUND_ABSOLUTE, 0}, {COMET_BOUND_ABSOLUTE, 0.02}, {COMET_BOUND_RANGE, 1e-3},
                  {COMET_BOUND_STDDEV, 0.1}, {COMET_BOUND_LOSSLESS, NAN},  {COMET_BOUND_RATIO, 3}};
    for (size_t l = 0; l < COUNT_OF(levels); l++)
        for (size_t b = 0; b < COUNT_OF(bounds); b++) {
            comet_params p = params_with(levels[l], bounds[b].mode, bounds[b].bound);
            check_round_trip(t, &p, x);
        }
}

static void test_round_trips(void **state)
{
    static const enum data_class classes[] = {DATA_RELU, DATA_SMOOTH, DATA_NONFINITE};
    const uint64_t dims[] = {2, 11, 13, 21};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
        for (size_t l = 0; l < COUNT_OF(layouts); l++)
            for (size_t c = 0; c < COUNT_OF(classes); c++) {
                comet_tensor t = tensor_of(dtypes[d], layouts[l], 4, dims);
                void *x = make_data(d * 100 + l * 10 + c, classes[c], &t);
                round_trip_all_bounds(&t, x);
                free(x);
            }
}

static void test_every_data_class(void **state)
{
    const uint64_t dims[] = {5, 37, 41};
    for (int c = 0; c < N_DATA_CLASSES; c++)
        for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
            comet_tensor t = tensor_of(dtypes[d], COMET_LAYOUT_PLANAR, 3, dims);
            void *x = make_data((uint64_t)c, (enum data_class)c, &t);
            for (int option = 0; option < 3; option++)
                for (size_t l = 0; l < COUNT_OF(levels); l++) {
                    comet_params p = params_with(levels[l], COMET_BOUND_ABSOLUTE, 0.01);
                    p.keep_support = option == 1;
                    p.dither = option == 2;
                    check_round_trip(&t, &p, x);
                }
            free(x);
        }
}

/* Lines longer than a chunk, single columns, thousands of channels, all eight dimensions. */
static void test_odd_shapes(void **state)
{
    static const struct {
        comet_layout layout;
        uint32_t n_dims;
        uint64_t dims[COMET_MAX_DIMS];
    } shapes[] = {
        {COMET_LAYOUT_PLANAR, 1, {100000}},
        {COMET_LAYOUT_PLANAR, 2, {3, 70001}},
        {COMET_LAYOUT_PLANAR, 2, {50000, 1}},
        {COMET_LAYOUT_PLANAR, 8, {2, 1, 3, 1, 2, 5, 7, 9}},
        {COMET_LAYOUT_CHANNELS_LAST, 3, {20000, 1, 3}},
        {COMET_LAYOUT_CHANNELS_LAST, 4, {1, 5000, 2, 3}},
        {COMET_LAYOUT_CHANNELS_LAST, 3, {3, 200, 50}},
        {COMET_LAYOUT_CHANNELS_LAST, 3, {100, 1, 1}},
        {COMET_LAYOUT_BLOCKED8, 3, {1, 40, 40}},
        {COMET_LAYOUT_BLOCKED16, 5, {2, 2, 17, 9, 9}},
        {COMET_LAYOUT_BLOCKED16, 3, {16, 1, 3000}},
    };
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        comet_tensor t = tensor_of(COMET_DTYPE_F32, shapes[s].layout, shapes[s].n_dims, shapes[s].dims);
        void *x = make_data(s, DATA_SMOOTH, &t);
        for (size_t l = 0; l < COUNT_OF(levels); l++) {
            comet_params p = params_of(levels[l], 0.01);
            check_round_trip(&t, &p, x);
            p.chunk_elements = 1000;
            check_round_trip(&t, &p, x);
        }
        free(x);
    }
}

/* ---- options ---- */

static void test_keep_support(void **state)
{
    const uint64_t dims[] = {3, 40, 50};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_of(dtypes[d], COMET_LAYOUT_PLANAR, 3, dims);
        void *x = make_data(3, DATA_RELU, &t);
        for (uint64_t i = 0; i < elements_of(&t); i += 7) /* far below the bound */
            set_element(dtypes[d], x, i, i % 2 ? 6e-8 : -6e-8);
        for (size_t l = 0; l < COUNT_OF(levels); l++) {
            comet_params p = params_of(levels[l], 0.5);
            p.keep_support = 1;
            blob frame = encode(NULL, &t, &p, x, NULL);
            void *y = decode_and_check(NULL, frame, x);
            for (uint64_t i = 0; i < elements_of(&t); i++)
                assert_true((promise_value(dtypes[d], x, i) == 0) == (promise_value(dtypes[d], y, i) == 0));
            assert_true(info_of(frame).keep_support);
            free(frame.data);
            free(y);
        }
        free(x);
    }
}

/* Chunks are coded without zeros if a sample has none; elsewhere there may be a few, or many. */
static void test_keep_support_of_zeros_beside_the_sample(void **state)
{
    const uint64_t dims[] = {3, 40, 50}, n = 6000;
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_of(dtypes[d], COMET_LAYOUT_PLANAR, 3, dims);
        for (uint64_t at = 0; at < n; at += 397) {
            void *x = make_data(at, DATA_NOISE, &t);
            for (uint64_t i = at; i < at + (at % 2 ? 9 : 200) && i < n; i++)
                set_element(dtypes[d], x, i, i % 2 ? 0.0 : -0.0);
            for (size_t l = 0; l < COUNT_OF(levels); l++) {
                comet_params p = params_of(levels[l], at % 3 ? 0.5 : 1e30);
                p.keep_support = 1;
                blob frame = encode(NULL, &t, &p, x, NULL);
                void *y = decode_and_check(NULL, frame, x);
                for (uint64_t i = 0; i < n; i++) {
                    long double a = promise_value(dtypes[d], x, i), b = promise_value(dtypes[d], y, i);
                    assert_true((a > 0) == (b > 0) && (a < 0) == (b < 0));
                }
                free(frame.data);
                free(y);
            }
            free(x);
        }
    }
}

static void test_dither_seed(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 5000);
    void *x = make_data(3, DATA_NOISE, &t);
    comet_params p = params_of(COMET_LEVEL_FAST, 0.1);
    p.dither = 1;
    p.dither_seed = 42;
    blob a = encode(NULL, &t, &p, x, NULL), b = encode(NULL, &t, &p, x, NULL);
    p.dither_seed = 43;
    blob c = encode(NULL, &t, &p, x, NULL);
    assert_true(blobs_equal(a, b));
    assert_false(blobs_equal(a, c));
    assert_true(info_of(c).dither && info_of(c).dither_seed == 43);
    free(decode_and_check(NULL, c, x));
    free(a.data);
    free(b.data);
    free(c.data);
    free(x);
}

static void test_frame_info(void **state)
{
    const uint64_t dims[] = {2, 5, 30, 40};
    comet_tensor t = tensor_of(COMET_DTYPE_BF16, COMET_LAYOUT_BLOCKED8, 4, dims);
    void *x = make_data(3, DATA_RELU, &t);
    comet_params p = params_of(COMET_LEVEL_AUTO, 0.125);
    p.keep_support = p.content_checksum = 1;
    p.chunk_elements = 640;
    blob frame = encode(NULL, &t, &p, x, NULL);
    comet_frame_info info = info_of(frame);
    assert_memory_equal(&info.tensor, &t, sizeof t);
    assert_true(info.size == sizeof info && info.version == 3 && info.eb == 0.125 && info.level == COMET_LEVEL_AUTO);
    assert_true(info.keep_support && info.content_checksum && !info.dither && !info.lossless);
    assert_true(info.n_elements == 2 * 8 * 30 * 40 && info.tensor_bytes == 2 * info.n_elements);
    assert_true(info.frame_bytes == frame.bytes && info.chunk_elements == 640 && info.n_chunks == 30);
    assert_true(info.header_bytes < frame.bytes);
    comet_frame_info_init(&info);
    assert_ok(comet_frame_describe(frame.data, 64 + 4 * 8 + 8, &info)); /* the header is enough */
    free(frame.data);
    free(x);
}

/* The chunk counts by level say what AUTO chose. */
static comet_stats auto_stats(enum data_class c, double bound, double min_ratio)
{
    const uint64_t dims[] = {4, 64, 64};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 3, dims);
    void *x = make_data(3, c, &t);
    comet_params p = params_of(COMET_LEVEL_AUTO, bound);
    p.min_ratio = min_ratio;
    p.chunk_elements = 4096;
    comet_stats stats;
    comet_stats_init(&stats);
    comet_encoder *encoder = new_encoder(NULL, 1);
    blob frame = encode(encoder, &t, &p, x, &stats);
    free(decode_and_check(NULL, frame, x));
    comet_encoder_destroy(encoder);
    free(frame.data);
    free(x);
    return stats;
}

static void test_auto_level(void **state)
{
    comet_stats easy = auto_stats(DATA_RELU, 0.05, 1), hard = auto_stats(DATA_RELU, 0.05, 1000);
    assert_int_equal(easy.n_chunks_fast, 4);
    assert_true(hard.n_chunks_dense > 0 && hard.bytes_out < easy.bytes_out);
    assert_int_equal(auto_stats(DATA_CONSTANT, 0.05, 2).n_chunks_fast, 4);
    assert_int_equal(auto_stats(DATA_BITS, 0, 0).n_chunks_raw, 4);
}

/* A level's frame is never longer than a raw one, and dense is the denser one on what it is made for. */
static void test_levels_differ(void **state)
{
    const uint64_t dims[] = {16, 56, 56};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 3, dims);
    void *x = make_data(3, DATA_RELU, &t);
    comet_params fast = params_of(COMET_LEVEL_FAST, 0.05), dense = params_of(COMET_LEVEL_DENSE, 0.05);
    size_t fast_bytes = check_round_trip(&t, &fast, x), dense_bytes = check_round_trip(&t, &dense, x);
    assert_true(fast_bytes * 3 < bytes_of(&t) && dense_bytes * 10 < fast_bytes * 9);
    free(x);
}

/* ---- chunks ---- */

static void test_chunk_ranges_are_slices(void **state)
{
    const uint64_t dims[] = {2, 3, 37, 41};
    for (size_t l = 0; l < COUNT_OF(levels); l++) {
        comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
        void *x = make_data(l, DATA_RELU, &t);
        comet_params p = params_of(levels[l], 0.01);
        p.chunk_elements = 1000;
        p.dither = levels[l] == COMET_LEVEL_FAST;
        blob frame = encode(NULL, &t, &p, x, NULL);
        uint8_t *whole = decode_and_check(NULL, frame, x), *part = need_malloc(bytes_of(&t));
        uint64_t n_chunks = info_of(frame).n_chunks;
        assert_int_equal(n_chunks, 10);
        comet_decoder *decoder = new_decoder(NULL, 2);
        for (uint64_t first = 0; first <= n_chunks; first++)
            for (uint64_t n = 0; n <= n_chunks - first; n++) {
                size_t begin = (size_t)min_u64(first * 4000, bytes_of(&t)),
                       end = (size_t)min_u64((first + n) * 4000, bytes_of(&t));
                size_t bytes = 1;
                assert_ok(comet_decoder_run_chunks(decoder, frame.data, frame.bytes, first, n, part, end - begin, &bytes));
                assert_int_equal(bytes, end - begin);
                assert_memory_equal(part, whole + begin, bytes);
            }
        comet_decoder_destroy(decoder);
        free(frame.data);
        free(whole);
        free(part);
        free(x);
    }
}

/* Any bit of any chunk: found by the checksum, and the sentence says which chunk. */
static void test_content_checksum(void **state)
{
    const uint64_t dims[] = {30, 41};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 2, dims);
    void *x = make_data(1, DATA_NOISE, &t), *y = need_malloc(bytes_of(&t));
    for (size_t l = 0; l < COUNT_OF(levels); l++) {
        comet_params p = params_of(levels[l], 0.01);
        p.content_checksum = 1;
        p.chunk_elements = 500;
        blob frame = encode(NULL, &t, &p, x, NULL);
        free(decode_and_check(NULL, frame, x));
        comet_decoder *decoder = new_decoder(NULL, 1);
        for (size_t i = (size_t)info_of(frame).header_bytes; i < frame.bytes; i++) {
            size_t bytes = 0;
            frame.data[i] ^= (uint8_t)(1 << i % 8);
            assert_status(comet_decoder_run(decoder, frame.data, frame.bytes, y, bytes_of(&t), &bytes), COMET_ERROR_CORRUPT);
            assert_non_null(strstr(comet_last_error(), "checksum"));
            frame.data[i] ^= (uint8_t)(1 << i % 8);
        }
        comet_decoder_destroy(decoder);
        free(frame.data);
    }
    free(x);
    free(y);
}

/* Frames may lie at any address, and so may the destination of a frame. */
static void test_frames_need_no_alignment(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F64, 3000);
    void *x = make_data(1, DATA_RELU, &t);
    comet_params p = params_of(COMET_LEVEL_DENSE, 0.01);
    blob frame = encode(NULL, &t, &p, x, NULL);
    uint8_t *room = need_malloc(frame.bytes + 8);
    double *y = need_malloc(bytes_of(&t)), *expected = decode(NULL, frame);
    for (size_t shift = 1; shift < 8; shift++) {
        size_t bytes = 0;
        assert_ok(comet_compress(&t, &p, x, room + shift, frame.bytes, &bytes));
        assert_memory_equal(room + shift, frame.data, frame.bytes);
        assert_ok(comet_decompress(room + shift, bytes, y, bytes_of(&t), &bytes));
        assert_memory_equal(y, expected, bytes_of(&t));
    }
    free(room);
    free(frame.data);
    free(x);
    free(y);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_every_data_class),
        cmocka_unit_test(test_odd_shapes),
        cmocka_unit_test(test_keep_support),
        cmocka_unit_test(test_keep_support_of_zeros_beside_the_sample),
        cmocka_unit_test(test_dither_seed),
        cmocka_unit_test(test_frame_info),
        cmocka_unit_test(test_auto_level),
        cmocka_unit_test(test_levels_differ),
        cmocka_unit_test(test_chunk_ranges_are_slices),
        cmocka_unit_test(test_content_checksum),
        cmocka_unit_test(test_frames_need_no_alignment),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
