/* The codec's promises, call by call: round trips of everything with everything, special values, options, determinism,
 * contexts, ranges of chunks. Bad arguments are in test_arguments.c, figures in test_measure.c. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "codec/frame.h"
#include "fuzz/promise.h"

static const comet_level levels[] = {COMET_LEVEL_FAST, COMET_LEVEL_DENSE, COMET_LEVEL_AUTO};
static const comet_layout layouts[] = {COMET_LAYOUT_PLANAR, COMET_LAYOUT_CHANNELS_LAST, COMET_LAYOUT_BLOCKED8,
                                       COMET_LAYOUT_BLOCKED16};
static const comet_dtype dtypes[] = {COMET_DTYPE_F32, COMET_DTYPE_F16, COMET_DTYPE_BF16, COMET_DTYPE_F64};

/* ---- round trips ---- */

static comet_params params_with(comet_level level, comet_bound_mode mode, double bound)
{
    comet_params p = params_of(level, bound);
    p.bound_mode = mode;
    return p;
}

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

/* The tensor itself never exists: one chunk far behind element 2^32 is decoded. */
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
    assert_true(info.size == sizeof info && info.version == 1 && info.eb == 0.125 && info.level == COMET_LEVEL_AUTO);
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

/* ---- determinism ---- */

typedef struct variant {
    size_t n_threads;
    bool reversed; /* by a parallel hook that runs tasks one by one, the last first */
} variant;

static const variant variants[] = {{1, false}, {2, false}, {3, false}, {8, false}, {5, true}};

static comet_hooks variant_hooks(const variant *v)
{
    comet_hooks hooks = hooks_with(NULL);
    if (v->reversed)
        hooks.parallel = parallel_reversed();
    return hooks;
}

/* Frames of every variant equal `first`; every variant decodes to y. */
static void check_variants(const comet_tensor *t, const comet_params *p, const void *x, blob first, const void *y)
{
    for (size_t v = 0; v < COUNT_OF(variants); v++) {
        comet_hooks hooks = variant_hooks(&variants[v]);
        comet_encoder *encoder = new_encoder(&hooks, variants[v].n_threads);
        comet_decoder *decoder = new_decoder(&hooks, variants[v].n_threads);
        for (int i = 0; i < 3; i++) {
            blob frame = encode(encoder, t, p, x, NULL);
            void *back = decode(decoder, frame);
            assert_true(blobs_equal(frame, first));
            assert_memory_equal(back, y, bytes_of(t));
            free(back);
            free(frame.data);
        }
        comet_encoder_destroy(encoder);
        comet_decoder_destroy(decoder);
    }
}

static void test_same_bytes_for_any_threads(void **state)
{
    const uint64_t dims[] = {3, 16, 30, 40};
    for (size_t l = 0; l < COUNT_OF(levels); l++)
        for (int mode = COMET_BOUND_ABSOLUTE; mode <= COMET_BOUND_RATIO; mode++) {
            comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_CHANNELS_LAST, 4, dims);
            void *x = make_data((uint64_t)mode, mode % 2 ? DATA_NONFINITE : DATA_RELU, &t);
            comet_params p = params_with(levels[l], (comet_bound_mode)mode, mode == COMET_BOUND_RATIO ? 3 : 0.05);
            p.chunk_elements = 3000;
            p.content_checksum = 1;
            blob frame = encode(NULL, &t, &p, x, NULL);
            void *y = decode_and_check(NULL, frame, x);
            check_variants(&t, &p, x, frame, y);
            free(frame.data);
            free(x);
            free(y);
        }
}

static void test_same_bytes_for_any_instruction_set(void **state)
{
    const uint64_t dims[] = {2, 24, 30, 44};
    comet_isa before = comet_isa_active(), isas[4];
    size_t n_isas = usable_isas(isas);
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
        for (size_t l = 0; l < COUNT_OF(levels); l++)
            for (size_t layout = 0; layout < COUNT_OF(layouts); layout++) {
                comet_tensor t = tensor_of(dtypes[d], layouts[layout], 4, dims);
                void *x = make_data(d + l, layout % 2 ? DATA_SMOOTH : DATA_RELU, &t);
                comet_params p = params_of(levels[l], 0.03);
                blob first = {NULL, 0};
                for (size_t i = 0; i < n_isas; i++) {
                    comet_isa_set_cap(isas[i]);
                    blob frame = encode(NULL, &t, &p, x, NULL);
                    free(decode_and_check(NULL, frame, x));
                    assert_true(i == 0 || blobs_equal(first, frame));
                    free(i ? frame.data : NULL);
                    first = i ? first : frame;
                }
                free(first.data);
                free(x);
            }
    comet_isa_set_cap(before);
}

/* The frame of a context that was given memory full of `garbage`. */
static blob encode_in_garbage(const comet_tensor *t, const comet_params *p, const void *x, uint8_t garbage)
{
    test_allocator memory = {.garbage = garbage, .guarded = true};
    comet_hooks hooks = hooks_with(&memory);
    comet_encoder *encoder = new_encoder(&hooks, 1);
    blob frame = encode(encoder, t, p, x, NULL);
    comet_encoder_destroy(encoder);
    return frame;
}

/* What lay in the memory that a context was given decides nothing. */
static void test_same_bytes_for_any_garbage(void **state)
{
    const uint64_t dims[] = {2, 279, 4, 18};
    for (int c = 0; c < N_DATA_CLASSES; c++)
        for (uint64_t i = 0; i < 10; i++) {
            comet_tensor t = tensor_of(dtypes[i % 3], layouts[i % 3], 4, dims); /* a range of f64 may be infinite */
            void *x = make_data(i, (enum data_class)c, &t);
            comet_params p = params_with(levels[i / 2 % 3], COMET_BOUND_RANGE, 0.004 + 0.0004 * (double)i);
            blob a = encode_in_garbage(&t, &p, x, 0x7f), b = encode_in_garbage(&t, &p, x, 0xff);
            if (!blobs_equal(a, b))
                fail_because("data %s, case %d: %zu and %zu bytes", data_class_name((enum data_class)c), (int)i, a.bytes,
                             b.bytes);
            free(a.data);
            free(b.data);
            free(x);
        }
}

/* What a context did before leaves no trace in what it does next. */
static void test_context_has_no_memory(void **state)
{
    test_rng r = {77};
    test_allocator memory = {.garbage = 0xee};
    comet_hooks hooks = hooks_with(&memory);
    comet_encoder *encoder = new_encoder(&hooks, 2);
    comet_decoder *decoder = new_decoder(&hooks, 2);
    for (int i = 0; i < 60; i++) {
        const uint64_t dims[] = {1 + rng_below(&r, 3), 1 + rng_below(&r, 20), 1 + rng_below(&r, 40), 1 + rng_below(&r, 40)};
        comet_tensor t = tensor_of(dtypes[rng_below(&r, 4)], layouts[rng_below(&r, 4)], 4, dims);
        void *x = make_data((uint64_t)i, (enum data_class)rng_below(&r, N_DATA_CLASSES), &t);
        comet_params p = params_of(levels[rng_below(&r, 3)], rng_chance(&r, 4) ? 0 : 0.01);
        p.chunk_elements = rng_chance(&r, 2) ? 0 : 64 + rng_below(&r, 5000);
        blob frame = encode(encoder, &t, &p, x, NULL), fresh = encode(NULL, &t, &p, x, NULL);
        assert_true(blobs_equal(frame, fresh));
        free(decode_and_check(decoder, frame, x));
        free(frame.data);
        free(fresh.data);
        free(x);
    }
    comet_encoder_destroy(encoder);
    comet_decoder_destroy(decoder);
    assert_true(memory.n_live == 0 && !memory.misused);
}

/* ---- contexts ---- */

static void check_second_call_allocates_nothing(comet_level level, comet_bound_mode mode, size_t n_threads)
{
    const uint64_t dims[] = {4, 16, 40, 40}, smaller[] = {3, 16, 40, 40};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
    void *x = make_data(1, DATA_RELU, &t);
    comet_params p = params_with(level, mode, mode == COMET_BOUND_RATIO ? 4 : 0.05);
    test_allocator memory = {.garbage = 0x11};
    comet_hooks hooks = hooks_with(&memory);
    comet_encoder *encoder = new_encoder(&hooks, n_threads);
    comet_decoder *decoder = new_decoder(&hooks, n_threads);
    blob frame = encode(encoder, &t, &p, x, NULL);
    free(decode_and_check(decoder, frame, x));
    free(frame.data);
    size_t calls = memory.n_calls;
    for (int i = 0; i < 2; i++) {
        frame = encode(encoder, &t, &p, x, NULL);
        free(decode_and_check(decoder, frame, x));
        free(frame.data);
        t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, smaller);
    }
    assert_int_equal(memory.n_calls, calls);
    comet_encoder_destroy(encoder);
    comet_decoder_destroy(decoder);
    assert_int_equal(memory.n_live, 0);
    assert_false(memory.misused);
    free(x);
}

static void test_second_call_allocates_nothing(void **state)
{
    for (size_t l = 0; l < COUNT_OF(levels); l++)
        for (int mode = COMET_BOUND_ABSOLUTE; mode <= COMET_BOUND_RATIO; mode++)
            for (size_t n_threads = 1; n_threads <= 3; n_threads += 2)
                check_second_call_allocates_nothing(levels[l], (comet_bound_mode)mode, n_threads);
}

static void keep_line(void *user, const char *text)
{
    strncat(user, text, 200);
    strcat(user, "|");
}

static void test_log_hook(void **state)
{
    char lines[600] = "";
    comet_hooks hooks = hooks_with(NULL);
    hooks.log = (comet_log){keep_line, lines};
    comet_encoder_destroy(new_encoder(&hooks, 1));
    comet_decoder_destroy(new_decoder(&hooks, 1));
    assert_non_null(strstr(lines, "encoder"));
    assert_non_null(strstr(lines, "decoder"));
    assert_non_null(strstr(lines, comet_isa_name(comet_isa_active())));
    assert_null(strchr(lines, '\n'));
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
        cmocka_unit_test(test_keep_support),
        cmocka_unit_test(test_keep_support_of_zeros_beside_the_sample),
        cmocka_unit_test(test_dither_seed),
        cmocka_unit_test(test_frame_info),
        cmocka_unit_test(test_auto_level),
        cmocka_unit_test(test_levels_differ),
        cmocka_unit_test(test_same_bytes_for_any_threads),
        cmocka_unit_test(test_same_bytes_for_any_instruction_set),
        cmocka_unit_test(test_same_bytes_for_any_garbage),
        cmocka_unit_test(test_context_has_no_memory),
        cmocka_unit_test(test_second_call_allocates_nothing),
        cmocka_unit_test(test_log_hook),
        cmocka_unit_test(test_chunk_ranges_are_slices),
        cmocka_unit_test(test_content_checksum),
        cmocka_unit_test(test_frames_need_no_alignment),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
