/* Figures: statistics, estimates, target ratios, the error's distribution under dither, comet_compare. */
#include "testing.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "fuzz/promise.h"

static const comet_dtype dtypes[] = {COMET_DTYPE_F32, COMET_DTYPE_F16, COMET_DTYPE_BF16, COMET_DTYPE_F64};

static blob encode_with_stats(const comet_tensor *t, const comet_params *p, const void *x, size_t n_threads, comet_stats *stats)
{
    comet_encoder *encoder = new_encoder(NULL, n_threads);
    comet_stats_init(stats);
    blob frame = encode(encoder, t, p, x, stats);
    comet_encoder_destroy(encoder);
    return frame;
}

/* ---- statistics ---- */

typedef struct plain_figures {
    uint64_t n_nonzero, n_nonfinite;
    long double sum_of_squares, min, max;
} plain_figures;

static plain_figures plain_figures_of(comet_dtype dtype, const void *x, uint64_t n)
{
    plain_figures f = {.min = INFINITY, .max = -INFINITY};
    for (uint64_t i = 0; i < n; i++) {
        long double v = promise_value(dtype, x, i);
        f.n_nonzero += v != 0;
        f.n_nonfinite += !isfinite(v);
        if (isfinite(v)) {
            f.sum_of_squares += v * v;
            f.min = fminl(f.min, v);
            f.max = fmaxl(f.max, v);
        }
    }
    if (f.min > f.max)
        f.min = f.max = 0;
    return f;
}

static void check_stats(const comet_tensor *t, const comet_params *p, const void *x, size_t n_threads)
{
    comet_stats s;
    blob frame = encode_with_stats(t, p, x, n_threads, &s);
    plain_figures f = plain_figures_of(t->dtype, x, elements_of(t));
    assert_true(s.n_elements == elements_of(t) && s.bytes_in == bytes_of(t) && s.bytes_out == frame.bytes);
    assert_true(s.n_nonzero == f.n_nonzero && s.n_nonfinite == f.n_nonfinite);
    assert_true((long double)s.min == f.min && (long double)s.max == f.max);
    assert_false(signbit(s.min) && s.min == 0);
    /* Squares of f32 are added up in float over some hundreds of elements. */
    long double expected = fminl(f.sum_of_squares, DBL_MAX), slack = 1e-5L * expected + (long double)s.n_elements * FLT_MIN;
    if (f.sum_of_squares <= DBL_MAX)
        assert_near(s.sum_of_squares, (double)expected, (double)slack);
    assert_near(s.ratio, (double)s.bytes_in / (double)s.bytes_out, 1e-9 * s.ratio);
    assert_true(s.n_chunks == info_of(frame).n_chunks && s.n_chunks == s.n_chunks_raw + s.n_chunks_fast + s.n_chunks_dense);
    assert_true(s.eb == info_of(frame).eb && s.n_outliers <= s.n_elements);
    assert_true(s.eb == 0 || s.n_chunks_raw || s.n_outliers >= s.n_nonfinite);
    assert_true(s.seconds_total > 0 && s.seconds_total < 100 && s.seconds_bound >= 0 && s.seconds_quantise >= 0);
    assert_true(s.seconds_predict >= 0 && s.seconds_code >= 0 && s.size == sizeof s);
    free(frame.data);
}

static void test_stats(void **state)
{
    const uint64_t dims[] = {7, 31, 45};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
        for (int c = 0; c < N_DATA_CLASSES; c++) {
            comet_tensor t = tensor_of(dtypes[d], COMET_LAYOUT_PLANAR, 3, dims);
            void *x = make_data((uint64_t)c, (enum data_class)c, &t);
            for (int option = 0; option < 4; option++) {
                comet_params p = params_of((comet_level)(c % 3), option == 3 ? 0 : 0.01);
                p.keep_support = option == 1;
                p.dither = option == 2;
                check_stats(&t, &p, x, 1);
                p.chunk_elements = 1000;
                check_stats(&t, &p, x, 2);
            }
            free(x);
        }
}

/* Extremes count even where they are alone, in a tail, and when nothing is below or above zero. */
static void test_stats_extremes(void **state)
{
    for (uint64_t n = 1; n < 300; n += 7)
        for (int sign = -1; sign <= 1; sign += 2) {
            comet_tensor t = tensor_1d(COMET_DTYPE_F32, n);
            float *x = need_malloc(bytes_of(&t));
            for (uint64_t i = 0; i < n; i++)
                x[i] = (float)sign * (1 + (float)(i % 50));
            x[n - 1] = (float)sign * 99;
            comet_params p = params_of(COMET_LEVEL_FAST, 0.1);
            check_stats(&t, &p, x, 1);
            for (uint64_t i = 0; i < n; i++)
                x[i] = NAN;
            check_stats(&t, &p, x, 1);
            free(x);
        }
}

/* Sums are added up in the order of chunks: the same number for any thread count. */
static void test_stats_do_not_depend_on_threads(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 50000);
    void *x = make_data(1, DATA_LOGNORMAL, &t);
    comet_params p = params_of(COMET_LEVEL_FAST, 0.01);
    p.chunk_elements = 777;
    comet_stats first, s;
    free(encode_with_stats(&t, &p, x, 1, &first).data);
    for (size_t n_threads = 2; n_threads <= 5; n_threads++) {
        free(encode_with_stats(&t, &p, x, n_threads, &s).data);
        assert_true(s.sum_of_squares == first.sum_of_squares && s.n_outliers == first.n_outliers);
        assert_true(s.min == first.min && s.max == first.max && s.n_nonzero == first.n_nonzero);
    }
    free(x);
}

/* ---- relative bounds ---- */

static void test_relative_bounds(void **state)
{
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_1d(dtypes[d], 20000);
        void *x = make_data(d, DATA_NONFINITE, &t);
        long double sum = 0, squares = 0, n = 0;
        plain_figures f = plain_figures_of(dtypes[d], x, 20000);
        for (uint64_t i = 0; i < 20000; i++) {
            long double v = promise_value(dtypes[d], x, i);
            sum += isfinite(v) ? v : 0;
            squares += isfinite(v) ? v * v : 0;
            n += isfinite(v);
        }
        double stddev = (double)sqrtl(squares / n - (sum / n) * (sum / n)), range = (double)(f.max - f.min);
        comet_stats s;
        comet_params p = params_of(COMET_LEVEL_FAST, 0.25);
        p.bound_mode = COMET_BOUND_RANGE;
        free(encode_with_stats(&t, &p, x, 1, &s).data);
        assert_near(s.eb, 0.25 * range, 1e-12 * range);
        p.bound_mode = COMET_BOUND_STDDEV;
        free(encode_with_stats(&t, &p, x, 1, &s).data);
        assert_near(s.eb, 0.25 * stddev, 1e-9 * stddev);
        free(x);
    }
}

/* A range of 0 leaves no room for error. */
static void test_relative_bound_of_a_constant(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 1000);
    float *x = need_malloc(bytes_of(&t));
    for (size_t i = 0; i < 1000; i++)
        x[i] = 0.1f;
    for (int mode = COMET_BOUND_RANGE; mode <= COMET_BOUND_STDDEV; mode++) {
        comet_params p = params_of(COMET_LEVEL_DENSE, 0.25);
        p.bound_mode = (comet_bound_mode)mode;
        blob frame = encode(NULL, &t, &p, x, NULL);
        assert_true(mode == COMET_BOUND_STDDEV || info_of(frame).lossless);
        free(decode_and_check(NULL, frame, x));
        free(frame.data);
    }
    free(x);
}

/* ---- estimates ---- */

static void check_estimate(const comet_tensor *t, const comet_params *p, const void *x, double tolerance)
{
    comet_stats s;
    blob frame = encode_with_stats(t, p, x, 1, &s);
    comet_encoder *encoder = new_encoder(NULL, 1);
    uint64_t bytes = 0;
    double eb = -1;
    assert_ok(comet_encoder_estimate(encoder, t, p, x, &bytes, &eb));
    if (p->bound_mode == COMET_BOUND_RATIO) /* the encoder may have widened it a little to be sure */
        assert_near(eb, s.eb, 0.1 * s.eb);
    else
        assert_true(eb == s.eb);
    if (fabs((double)bytes - (double)frame.bytes) > tolerance * (double)frame.bytes)
        fail_because("estimated %llu bytes, got %zu (level %d, bound mode %d %g, chunks of %llu)", (unsigned long long)bytes,
                     frame.bytes, (int)p->level, (int)p->bound_mode, p->bound, (unsigned long long)p->chunk_elements);
    uint64_t only_bytes = 0;
    double only_eb = -1;
    assert_ok(comet_encoder_estimate(encoder, t, p, x, &only_bytes, NULL));
    assert_ok(comet_encoder_estimate(encoder, t, p, x, NULL, &only_eb));
    assert_true(only_bytes == bytes && only_eb == eb);
    comet_encoder_destroy(encoder);
    free(frame.data);
}

static void test_estimate(void **state)
{
    static const enum data_class classes[] = {DATA_RELU, DATA_SMOOTH, DATA_NOISE, DATA_SPARSE};
    const uint64_t dims[] = {4, 8, 56, 56};
    for (size_t c = 0; c < COUNT_OF(classes); c++) {
        comet_tensor t = tensor_of(c % 2 ? COMET_DTYPE_F16 : COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
        void *x = make_data(c, classes[c], &t);
        int last_mode = c == 0 ? COMET_BOUND_RATIO : COMET_BOUND_LOSSLESS;
        for (int mode = COMET_BOUND_ABSOLUTE; mode <= last_mode; mode++)
            for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_AUTO; level++) {
                comet_params p = params_of((comet_level)level, mode == COMET_BOUND_RATIO ? 5 : 0.05);
                p.bound_mode = (comet_bound_mode)mode;
                check_estimate(&t, &p, x, 0.15);
                p.chunk_elements = 5000;
                check_estimate(&t, &p, x, 0.15);
            }
        free(x);
    }
}

/* A tensor whose parts differ: the sample must be spread over all of it. */
static void test_estimate_of_uneven_data(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 160000);
    float *x = make_data(1, DATA_NOISE, &t);
    for (int zeros_first = 0; zeros_first < 2; zeros_first++) {
        memset(x + (zeros_first ? 0 : 80000), 0, 80000 * sizeof *x);
        for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_AUTO; level++) {
            comet_params p = params_of((comet_level)level, 0.01);
            p.chunk_elements = 5000;
            check_estimate(&t, &p, x, 0.15);
        }
        test_rng r = {2};
        fill_tensor(&r, DATA_NOISE, &t, x);
    }
    free(x);
}

/* One or two chunks are all looked at, so that the estimate is the size of the frame, with header and index, to a byte. */
static void test_estimate_of_small_tensors(void **state)
{
    static const uint64_t lengths[] = {1, 100, 5000, 8000};
    comet_encoder *encoder = new_encoder(NULL, 1);
    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_AUTO; level++) {
            comet_tensor t = tensor_1d(COMET_DTYPE_F32, lengths[i]);
            float *x = make_data(i, DATA_RELU, &t);
            comet_params p = params_of((comet_level)level, 0.05);
            p.chunk_elements = 5000;
            uint64_t bytes = 0;
            assert_ok(comet_encoder_estimate(encoder, &t, &p, x, &bytes, NULL));
            blob frame = encode(encoder, &t, &p, x, NULL);
            assert_within((double)bytes, (double)frame.bytes - 1, (double)frame.bytes + 1);
            free(frame.data);
            free(x);
        }
    comet_encoder_destroy(encoder);
}

/* ---- target ratio ---- */

/* The target is reached, and a bound a third smaller would not have done. */
static void check_ratio(const comet_tensor *t, const void *x, comet_level level, double target)
{
    comet_stats s, closer;
    comet_params p = params_of(level, target);
    p.bound_mode = COMET_BOUND_RATIO;
    blob frame = encode_with_stats(t, &p, x, 1, &s);
    assert_true(s.ratio >= target);
    free(decode_and_check(NULL, frame, x));
    free(frame.data);
    p.bound_mode = COMET_BOUND_ABSOLUTE;
    p.bound = s.eb / 1.5;
    p.min_ratio = level == COMET_LEVEL_AUTO ? target : 0;
    free(encode_with_stats(t, &p, x, 1, &closer).data);
    if (closer.ratio >= target)
        fail_because("level %d, target %g: eb %g gives %g, but %g would have given %g", (int)level, target, s.eb, s.ratio,
                     p.bound, closer.ratio);
}

static void test_target_ratio(void **state)
{
    static const double targets[] = {4, 7, 12, 30};
    const uint64_t dims[] = {2, 16, 56, 56};
    for (int c = 0; c < 2; c++) {
        comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
        void *x = make_data((uint64_t)c, c ? DATA_NOISE : DATA_RELU, &t);
        for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_AUTO; level++)
            for (size_t i = 0; i < COUNT_OF(targets); i++)
                check_ratio(&t, x, (comet_level)level, targets[i]);
        free(x);
    }
}

/* A destination that holds the frame exactly gets the same frame as a roomy one. */
static void test_target_ratio_does_not_depend_on_room(void **state)
{
    static const double targets[] = {2, 3, 4.5, 6, 8};
    const uint64_t dims[] = {6, 40, 50};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 3, dims);
    void *x = make_data(5, DATA_RELU, &t);
    for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_AUTO; level++)
        for (size_t i = 0; i < COUNT_OF(targets); i++) {
            comet_params p = params_of((comet_level)level, targets[i]);
            p.bound_mode = COMET_BOUND_RATIO;
            p.chunk_elements = 4000;
            blob frame = encode(NULL, &t, &p, x, NULL);
            uint8_t *room = need_malloc(frame.bytes);
            size_t bytes = 0;
            assert_ok(comet_compress(&t, &p, x, room, frame.bytes, &bytes));
            assert_true(blobs_equal(frame, (blob){room, bytes}));
            free(room);
            free(frame.data);
        }
    free(x);
}

static void test_target_ratio_out_of_reach(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 5000);
    uint32_t *x = need_malloc(bytes_of(&t));
    uint8_t *dst = need_malloc(2 * bytes_of(&t));
    for (uint32_t i = 0; i < 5000; i++)
        x[i] = 0x7f800001u + i * 977; /* NaN, all different */
    comet_params p = params_of(COMET_LEVEL_DENSE, 10);
    p.bound_mode = COMET_BOUND_RATIO;
    size_t bytes = 1;
    assert_status(comet_compress(&t, &p, x, dst, 2 * bytes_of(&t), &bytes), COMET_ERROR_UNREACHABLE);
    t = tensor_1d(COMET_DTYPE_F32, 1); /* a header alone is larger */
    assert_status(comet_compress(&t, &p, x, dst, 1000, &bytes), COMET_ERROR_UNREACHABLE);
    assert_int_equal(bytes, 1);
    free(x);
    free(dst);
}

/* A bound found for values near the largest double is still a number that a reader accepts. */
static void test_target_ratio_of_huge_values(void **state)
{
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
        for (int c = 0; c < N_DATA_CLASSES; c++) {
            comet_tensor t = tensor_1d(dtypes[d], 20000);
            void *x = make_data(d, (enum data_class)c, &t);
            if (c == DATA_HUGE)
                set_element(dtypes[d], x, 7,
                            dtypes[d] == COMET_DTYPE_F64   ? DBL_MAX
                            : dtypes[d] == COMET_DTYPE_F16 ? 65504
                                                           : 3.3e38);
            double target = c % 2 ? 2 : 20;
            comet_params p = params_of(COMET_LEVEL_DENSE, target);
            p.bound_mode = COMET_BOUND_RATIO;
            size_t room = 0, bytes = 0;
            assert_ok(comet_compress_bound(&t, &p, &room));
            blob frame = {need_malloc(room), 0};
            comet_status status = comet_compress(&t, &p, x, frame.data, room, &bytes);
            assert_true(status == COMET_OK || status == COMET_ERROR_UNREACHABLE);
            frame.bytes = bytes;
            if (status == COMET_OK) {
                free(decode_and_check(NULL, frame, x));
                assert_true((double)bytes * target <= (double)bytes_of(&t));
            }
            free(frame.data);
            free(x);
        }
}

/* ---- dither ---- */

enum { N_DITHERED = 1 << 18 };

typedef struct dither_sums {
    double mean, variance, with_data, with_next, with_row; /* the last three: correlations */
    unsigned bins[16];
} dither_sums;

static dither_sums dither_sums_of(const double *error, const double *value, size_t n, double eb)
{
    dither_sums s = {0};
    double values = 0, value_mean = 0;
    for (size_t i = 0; i < n; i++) {
        s.mean += error[i] / (double)n;
        value_mean += value[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double e = error[i] - s.mean, v = value[i] - value_mean;
        s.variance += e * e / (double)n;
        values += v * v / (double)n;
        s.with_data += e * v / (double)n;
        s.with_next += e * (error[(i + 1) % n] - s.mean) / (double)n;
        s.with_row += e * (error[(i + 4096) % n] - s.mean) / (double)n;
        double place = (error[i] / eb + 1) * 8;
        s.bins[place < 0 ? 0 : place >= 15 ? 15 : (unsigned)place]++;
    }
    s.with_data /= sqrt(s.variance * values) + DBL_MIN;
    s.with_next /= s.variance;
    s.with_row /= s.variance;
    return s;
}

/* Uniform in [-eb, eb], whatever the data: five standard deviations of each figure are allowed. */
static void check_dither(comet_dtype dtype, enum data_class c, comet_level level, double eb)
{
    comet_tensor t = tensor_1d(dtype, N_DITHERED);
    void *x = make_data(7, c, &t);
    comet_params p = params_of(level, eb);
    p.dither = 1;
    p.dither_seed = 99;
    blob frame = encode(NULL, &t, &p, x, NULL);
    void *y = decode_and_check(NULL, frame, x);
    double *error = need_malloc(N_DITHERED * sizeof *error), *value = need_malloc(N_DITHERED * sizeof *value);
    for (uint64_t i = 0; i < N_DITHERED; i++) {
        value[i] = (double)promise_value(dtype, x, i);
        error[i] = (double)promise_value(dtype, y, i) - value[i];
    }
    dither_sums s = dither_sums_of(error, value, N_DITHERED, eb);
    double sigma = 1 / sqrt(N_DITHERED);
    assert_near(s.mean, 0, 5 * sigma * eb / sqrt(3));
    assert_near(s.variance, eb * eb / 3, 5 * sigma * eb * eb / 3);
    assert_near(s.with_data, 0, 5 * sigma);
    assert_near(s.with_next, 0, 5 * sigma);
    assert_near(s.with_row, 0, 5 * sigma);
    for (int i = 0; i < 16; i++)
        assert_near(s.bins[i], N_DITHERED / 16.0, 5 * sqrt(N_DITHERED / 16.0));
    free(frame.data);
    free(x);
    free(y);
    free(error);
    free(value);
}

static void test_dither_is_uniform(void **state)
{
    static const enum data_class classes[] = {DATA_NOISE, DATA_SMOOTH, DATA_CONSTANT, DATA_RELU};
    for (size_t c = 0; c < COUNT_OF(classes); c++) {
        check_dither(COMET_DTYPE_F32, classes[c], COMET_LEVEL_FAST, 0.1);
        check_dither(COMET_DTYPE_F64, classes[c], COMET_LEVEL_DENSE, 0.03);
    }
}

/* Another chunk, another seed: another sequence. */
static void test_dither_differs_between_chunks(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F32, 2000);
    float *x = need_malloc(bytes_of(&t));
    memset(x, 0, bytes_of(&t));
    comet_params p = params_of(COMET_LEVEL_FAST, 0.1);
    p.dither = 1;
    p.chunk_elements = 1000;
    blob frame = encode(NULL, &t, &p, x, NULL);
    float *y = decode(NULL, frame);
    size_t equal = 0;
    for (size_t i = 0; i < 1000; i++)
        equal += y[i] == y[1000 + i];
    assert_true(equal < 5);
    free(frame.data);
    free(x);
    free(y);
}

/* ---- comet_compare ---- */

static comet_comparison compare(comet_dtype dtype, uint64_t n, const void *x, const void *y, double eb)
{
    comet_comparison c;
    comet_comparison_init(&c);
    assert_ok(comet_compare(dtype, n, x, y, eb, &c));
    return c;
}

static void test_compare_figures(void **state)
{
    const float x[] = {0, 1, 2, -3, 0, 5}, y[] = {0, 1.5f, 2, -3, 1, 0};
    comet_comparison c = compare(COMET_DTYPE_F32, 6, x, y, 0.5);
    assert_true(c.n_elements == 6 && c.max_error == 5 && c.n_violations == 2 && c.first_violation == 4);
    assert_true(c.n_zeros == 2 && c.n_zeros_kept == 1 && c.n_support_lost == 1);
    double rmse = sqrt((0.25 + 1 + 25) / 6);
    assert_near(c.rmse, rmse, 1e-12);
    assert_near(c.psnr, 20 * log10(8 / rmse), 1e-9);
    c = compare(COMET_DTYPE_F32, 6, x, x, 0);
    assert_true(c.n_violations == 0 && c.first_violation == 6 && c.rmse == 0 && isinf(c.psnr) && c.psnr > 0);
}

static bool violates(double a, double b, double eb)
{
    return compare(COMET_DTYPE_F64, 1, &a, &b, eb).n_violations != 0;
}

/* Equality is allowed; one ulp more is found, even where the rounded difference equals the bound. */
static void test_compare_is_exact(void **state)
{
    assert_false(violates(1, 1.5, 0.5));
    assert_true(violates(1, nextafter(1.5, 2), 0.5));
    assert_false(violates(1, nextafter(1.5, 0), 0.5));
    assert_true(violates(1, -0x1p-60, 1));
    assert_false(violates(1, 0x1p-60, 1));
    assert_true(violates(-0x1p-60, 1, 1));
    assert_false(violates(0x1p-60, 1, 1));
    assert_true(violates(-1, 0x1p-60, 1));
    assert_false(violates(-1, -0x1p-60, 1));
    assert_true(violates(DBL_MAX, -DBL_MAX, DBL_MAX));
    assert_true(violates(4.9e-324, 0, 0));
    assert_false(violates(4.9e-324, 0, 4.9e-324));
    test_rng r = {3};
    for (int i = 0; i < 100000; i++) { /* numbers whose difference is rounded, against bounds near it */
        double a = ldexp(rng_normal(&r), (int)rng_below(&r, 60)), b = ldexp(rng_normal(&r), (int)rng_below(&r, 60));
        double eb = fabs(a - b);
        eb = rng_chance(&r, 3) ? nextafter(eb, 0) : rng_chance(&r, 2) ? nextafter(eb, INFINITY) : eb;
        assert_int_equal(violates(a, b, eb), !promise_within(a, b, eb));
    }
}

static void test_compare_one_ulp_in_every_type(void **state)
{
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_1d(dtypes[d], 300);
        uint8_t *x = make_data(1, DATA_NOISE, &t), *y = need_malloc(bytes_of(&t));
        for (uint64_t i = 0; i < 300; i++) {
            memcpy(y, x, bytes_of(&t));
            y[i * comet_dtype_bytes(dtypes[d])] ^= 1;
            double eb = fabs((double)(promise_value(dtypes[d], x, i) - promise_value(dtypes[d], y, i)));
            comet_comparison c = compare(dtypes[d], 300, x, y, eb);
            assert_true(c.n_violations == 0 && c.max_error == eb);
            c = compare(dtypes[d], 300, x, y, nextafter(eb, 0));
            assert_true(c.n_violations == 1 && c.first_violation == i);
            c = compare(dtypes[d], 300, x, y, 0);
            assert_true(c.n_violations == 1 && c.first_violation == i);
        }
        free(x);
        free(y);
    }
}

static void test_compare_special_values(void **state)
{
    const uint32_t nan_a = 0x7fc00001, nan_b = 0x7fc00002, zero = 0, minus_zero = 0x80000000, infinity = 0x7f800000,
                   one = 0x3f800000;
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &nan_a, &nan_a, 1).n_violations, 0);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &nan_a, &nan_b, 1).n_violations, 1);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &nan_a, &one, 1).n_violations, 1);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &one, &nan_a, 1).n_violations, 1);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &infinity, &infinity, 1).n_violations, 0);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &one, &infinity, 1e300).n_violations, 1);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &zero, &minus_zero, 1).n_violations, 0);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &zero, &minus_zero, 0).n_violations, 1);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &zero, &minus_zero, 1).n_zeros_kept, 1);
    assert_int_equal(compare(COMET_DTYPE_F32, 1, &one, &minus_zero, 1).n_support_lost, 1);
}

/* ---- level auto ---- */

static uint64_t bytes_at(comet_level level, const comet_tensor *t, double bound, const void *x, comet_stats *s)
{
    const comet_params p = params_of(level, bound);
    blob frame = encode_with_stats(t, &p, x, 1, s);
    free(frame.data);
    return s->bytes_out;
}

/* A chunk is coded dense where that saves a fifth or more, and fast where it saves less; near a fifth its sample decides. */
static void test_auto_codes_dense_where_it_saves_a_fifth(void **state)
{
    static const enum data_class classes[] = {DATA_NOISE, DATA_RELU};
    const uint64_t dims[] = {4, 16, 32, 32};
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
    unsigned n_little = 0, n_much = 0;
    for (size_t c = 0; c < COUNT_OF(classes); c++) {
        void *x = make_data(7, classes[c], &t);
        for (double bound = 0x1p-3; bound > 0x1p-9; bound *= 0.6) {
            comet_stats s;
            const double fast = (double)bytes_at(COMET_LEVEL_FAST, &t, bound, x, &s);
            const double share = (double)bytes_at(COMET_LEVEL_DENSE, &t, bound, x, &s) / fast;
            bytes_at(COMET_LEVEL_AUTO, &t, bound, x, &s);
            if (share > 0.88) {
                assert_int_equal(s.n_chunks_fast, s.n_chunks);
                n_little++;
            } else if (share < 0.74) {
                assert_int_equal(s.n_chunks_dense, s.n_chunks);
                n_much++;
            }
        }
        free(x);
    }
    assert_true(n_little >= 3 && n_much >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_stats_extremes),
        cmocka_unit_test(test_stats_do_not_depend_on_threads),
        cmocka_unit_test(test_relative_bounds),
        cmocka_unit_test(test_relative_bound_of_a_constant),
        cmocka_unit_test(test_estimate),
        cmocka_unit_test(test_estimate_of_uneven_data),
        cmocka_unit_test(test_estimate_of_small_tensors),
        cmocka_unit_test(test_auto_codes_dense_where_it_saves_a_fifth),
        cmocka_unit_test(test_target_ratio),
        cmocka_unit_test(test_target_ratio_does_not_depend_on_room),
        cmocka_unit_test(test_target_ratio_out_of_reach),
        cmocka_unit_test(test_target_ratio_of_huge_values),
        cmocka_unit_test(test_dither_is_uniform),
        cmocka_unit_test(test_dither_differs_between_chunks),
        cmocka_unit_test(test_compare_figures),
        cmocka_unit_test(test_compare_is_exact),
        cmocka_unit_test(test_compare_one_ulp_in_every_type),
        cmocka_unit_test(test_compare_special_values),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
