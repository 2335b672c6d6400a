/* What bad arguments get: the right status, a sentence, and nothing written. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

enum { N = 3000 };

/* A good call, to be spoiled in one respect at a time. */
typedef struct call {
    comet_tensor tensor;
    comet_params params;
    float *x;
    uint8_t *dst;
    size_t capacity;
} call;

static comet_encoder *encoder;
static comet_decoder *decoder;
static call good;
static blob good_frame;

static int set_up(void **state)
{
    encoder = new_encoder(NULL, 2);
    decoder = new_decoder(NULL, 2);
    good.tensor = tensor_1d(COMET_DTYPE_F32, N);
    good.params = params_of(COMET_LEVEL_FAST, 0.01);
    good.x = make_data(1, DATA_NOISE, &good.tensor);
    good.capacity = 2 * bytes_of(&good.tensor);
    good.dst = need_malloc(good.capacity);
    good_frame = encode(NULL, &good.tensor, &good.params, good.x, NULL);
    return 0;
}

static int tear_down(void **state)
{
    comet_encoder_destroy(encoder);
    comet_decoder_destroy(decoder);
    free(good.x);
    free(good.dst);
    free(good_frame.data);
    return 0;
}

/* ---- compression ---- */

/* Every call that takes the same arguments refuses them with the same status and leaves its results alone. */
static void check_refused(const call *c, comet_status expected)
{
    size_t bytes = 12345, bound = 54321;
    uint64_t estimate = 777;
    double eb = 3.5;
    comet_stats stats, before;
    comet_stats_init(&stats);
    stats.n_elements = 99;
    before = stats;
    memset(c->dst, 0x5a, c->capacity);
    assert_status(comet_compress(&c->tensor, &c->params, c->x, c->dst, c->capacity, &bytes), expected);
    assert_status(comet_encoder_run(encoder, &c->tensor, &c->params, c->x, c->dst, c->capacity, &bytes, &stats), expected);
    assert_status(comet_encoder_estimate(encoder, &c->tensor, &c->params, c->x, &estimate, &eb), expected);
    assert_status(comet_compress_bound(&c->tensor, &c->params, &bound), expected);
    assert_true(bytes == 12345 && bound == 54321 && estimate == 777 && eb == 3.5);
    assert_memory_equal(&stats, &before, sizeof stats);
    for (size_t i = 0; i < c->capacity; i++)
        assert_int_equal(c->dst[i], 0x5a);
}

static void refuse_params(comet_params p)
{
    call c = good;
    c.params = p;
    check_refused(&c, COMET_ERROR_ARGUMENT);
}

static void test_bad_bounds(void **state)
{
    static const double bad[] = {NAN, -NAN, -1, -1e-300, INFINITY, -INFINITY};
    for (int mode = COMET_BOUND_ABSOLUTE; mode <= COMET_BOUND_RATIO; mode++)
        for (size_t i = 0; i < COUNT_OF(bad); i++) {
            comet_params p = params_of(COMET_LEVEL_FAST, bad[i]);
            p.bound_mode = (comet_bound_mode)mode;
            if (mode == COMET_BOUND_LOSSLESS)
                check_round_trip(&good.tensor, &p, good.x);
            else
                refuse_params(p);
        }
    comet_params p = params_of(COMET_LEVEL_FAST, 0.99);
    p.bound_mode = COMET_BOUND_RATIO;
    refuse_params(p);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        p = params_of(COMET_LEVEL_AUTO, 0.1);
        p.min_ratio = bad[i];
        refuse_params(p);
    }
}

static void test_bad_options(void **state)
{
    comet_params p = params_of(COMET_LEVEL_FAST, 0.1);
    p.dither = p.keep_support = 1;
    refuse_params(p);
    p = params_of(COMET_LEVEL_FAST, 0);
    p.dither = 1;
    refuse_params(p);
    p = params_of(COMET_LEVEL_FAST, 1);
    p.dither = 1;
    p.bound_mode = COMET_BOUND_LOSSLESS;
    refuse_params(p);
    static const uint64_t chunks[] = {1, 63, (UINT64_C(1) << 24) + 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        p = good.params;
        p.chunk_elements = chunks[i];
        refuse_params(p);
    }
    p.chunk_elements = 64;
    check_round_trip(&good.tensor, &p, good.x);
    p.chunk_elements = UINT64_C(1) << 24;
    check_round_trip(&good.tensor, &p, good.x);
}

/* Chunks of profile device are small, and level auto has none. */
static void test_profiles(void **state)
{
    comet_params p = params_of(COMET_LEVEL_FAST, 0.1);
    p.profile = COMET_PROFILE_DEVICE;
    p.chunk_elements = 8193;
    refuse_params(p);
    p.chunk_elements = 8192;
    check_round_trip(&good.tensor, &p, good.x);
    p.level = COMET_LEVEL_DENSE;
    p.chunk_elements = (1 << 18) + 1;
    refuse_params(p);
    p.chunk_elements = 1 << 18;
    check_round_trip(&good.tensor, &p, good.x);
    p.level = COMET_LEVEL_AUTO;
    p.chunk_elements = 0;
    refuse_params(p);
    p.level = COMET_LEVEL_FAST;
    p.profile = (comet_profile)2;
    refuse_params(p);
}

static void test_unknown_enums(void **state)
{
    static const int unknown[] = {-1, 5, 100, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        call c = good;
        c.params.bound_mode = (comet_bound_mode)unknown[i];
        check_refused(&c, COMET_ERROR_ARGUMENT);
        c = good;
        c.params.level = (comet_level)unknown[i];
        check_refused(&c, COMET_ERROR_ARGUMENT);
        c = good;
        c.tensor.dtype = (comet_dtype)unknown[i];
        check_refused(&c, COMET_ERROR_ARGUMENT);
        c = good;
        c.tensor.layout = (comet_layout)unknown[i];
        check_refused(&c, COMET_ERROR_ARGUMENT);
        assert_int_equal(comet_dtype_bytes((comet_dtype)unknown[i]), 0);
    }
}

static void test_wrong_struct_sizes(void **state)
{
    static const size_t wrong[] = {0, 1, 8, 4096};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        call c = good;
        c.params.size = wrong[i];
        check_refused(&c, COMET_ERROR_ARGUMENT);
        c = good;
        c.tensor.size = wrong[i];
        check_refused(&c, COMET_ERROR_ARGUMENT);
        comet_stats stats = {.size = wrong[i]};
        size_t bytes = 1;
        assert_status(comet_encoder_run(encoder, &good.tensor, &good.params, good.x, good.dst, good.capacity, &bytes, &stats),
                      COMET_ERROR_ARGUMENT);
        comet_hooks hooks = hooks_with(NULL);
        hooks.size = wrong[i];
        comet_encoder *e = NULL;
        comet_decoder *d = NULL;
        assert_status(comet_encoder_create(&e, &hooks, 1), COMET_ERROR_ARGUMENT);
        assert_status(comet_decoder_create(&d, &hooks, 1), COMET_ERROR_ARGUMENT);
        assert_true(!e && !d && bytes == 1 && stats.size == wrong[i]);
        comet_frame_info info = {.size = wrong[i]};
        assert_status(comet_frame_describe(good_frame.data, good_frame.bytes, &info), COMET_ERROR_ARGUMENT);
        comet_comparison comparison = {.size = wrong[i]};
        assert_status(comet_compare(COMET_DTYPE_F32, N, good.x, good.x, 1, &comparison), COMET_ERROR_ARGUMENT);
    }
}

static void test_bad_tensors(void **state)
{
    call c = good;
    for (uint32_t n_dims = 0; n_dims <= 20; n_dims += n_dims == 0 ? 9 : 1) {
        c.tensor.n_dims = n_dims;
        check_refused(&c, COMET_ERROR_ARGUMENT);
    }
    c = good;
    for (int layout = COMET_LAYOUT_CHANNELS_LAST; layout <= COMET_LAYOUT_BLOCKED16; layout++) {
        c.tensor.layout = (comet_layout)layout;
        check_refused(&c, COMET_ERROR_ARGUMENT);
    }
}

static void test_sizes_that_overflow(void **state)
{
    static const struct {
        uint32_t n_dims;
        uint64_t dims[3];
    } shapes[] = {{1, {UINT64_MAX}},
                  {1, {UINT64_C(1) << 61}},
                  {2, {UINT64_C(1) << 32, UINT64_C(1) << 32}},
                  {3, {UINT64_C(1) << 22, UINT64_C(1) << 21, UINT64_C(1) << 21}},
                  {2, {UINT64_MAX, UINT64_MAX}}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        comet_tensor t = good.tensor;
        assert_status(comet_tensor_init(&t, COMET_DTYPE_F32, shapes[i].n_dims, shapes[i].dims), COMET_ERROR_OVERFLOW);
        assert_memory_equal(&t, &good.tensor, sizeof t);
        call c = good;
        c.tensor.n_dims = shapes[i].n_dims;
        memcpy(c.tensor.dims, shapes[i].dims, sizeof shapes[i].dims);
        check_refused(&c, COMET_ERROR_OVERFLOW);
        uint64_t n = 5;
        size_t bytes = 5;
        assert_status(comet_tensor_elements(&c.tensor, &n), COMET_ERROR_OVERFLOW);
        assert_status(comet_tensor_bytes(&c.tensor, &bytes), COMET_ERROR_OVERFLOW);
        assert_true(n == 5 && bytes == 5);
    }
}

/* Padding of blocked layouts, and the frame's own overhead, may be what does not fit. */
static void test_sizes_that_overflow_by_a_little(void **state)
{
    const uint64_t dims[] = {(UINT64_C(1) << 62) - 1, 1, 1};
    comet_tensor t = tensor_of(COMET_DTYPE_F16, COMET_LAYOUT_PLANAR, 3, dims);
    comet_params p = params_of(COMET_LEVEL_FAST, 0.1);
    size_t bytes = 5;
    assert_status(comet_compress_bound(&t, &p, &bytes), COMET_ERROR_OVERFLOW);
    t.layout = COMET_LAYOUT_BLOCKED16;
    assert_status(comet_tensor_bytes(&t, &bytes), COMET_ERROR_OVERFLOW);
    t.dims[0] = UINT64_MAX - 3;
    assert_status(comet_tensor_bytes(&t, &bytes), COMET_ERROR_OVERFLOW);
    assert_int_equal(bytes, 5);
}

/* ---- pointers ---- */

static void test_null_pointers_when_describing(void **state)
{
    const uint64_t dims[] = {3};
    comet_tensor t;
    uint64_t n;
    size_t bytes;
    assert_status(comet_tensor_init(NULL, COMET_DTYPE_F32, 1, dims), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_init(&t, COMET_DTYPE_F32, 1, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_init(&t, COMET_DTYPE_F32, 0, dims), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_init(&t, COMET_DTYPE_F32, 9, dims), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_init(&t, (comet_dtype)9, 1, dims), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_elements(NULL, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_elements(&good.tensor, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_bytes(NULL, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_tensor_bytes(&good.tensor, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_compress_bound(NULL, &good.params, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_compress_bound(&good.tensor, NULL, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_compress_bound(&good.tensor, &good.params, NULL), COMET_ERROR_ARGUMENT);
}

static void test_null_pointers_when_compressing(void **state)
{
    const call *c = &good;
    size_t bytes = 1;
    uint64_t estimate;
    assert_status(comet_compress(NULL, &c->params, c->x, c->dst, c->capacity, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_compress(&c->tensor, NULL, c->x, c->dst, c->capacity, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_compress(&c->tensor, &c->params, NULL, c->dst, c->capacity, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_compress(&c->tensor, &c->params, c->x, NULL, c->capacity, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_compress(&c->tensor, &c->params, c->x, c->dst, c->capacity, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_encoder_run(NULL, &c->tensor, &c->params, c->x, c->dst, c->capacity, &bytes, NULL),
                  COMET_ERROR_ARGUMENT);
    assert_status(comet_encoder_estimate(NULL, &c->tensor, &c->params, c->x, &estimate, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_encoder_estimate(encoder, &c->tensor, &c->params, NULL, &estimate, NULL), COMET_ERROR_ARGUMENT);
    assert_ok(comet_encoder_estimate(encoder, &c->tensor, &c->params, c->x, NULL, NULL));
    assert_status(comet_encoder_create(NULL, NULL, 1), COMET_ERROR_ARGUMENT);
    assert_int_equal(bytes, 1);
    comet_encoder_destroy(NULL);
}

static void test_null_pointers_when_decompressing(void **state)
{
    float *y = need_malloc(bytes_of(&good.tensor));
    size_t bytes = 1, room = bytes_of(&good.tensor);
    comet_frame_info info;
    comet_comparison comparison;
    comet_frame_info_init(&info);
    comet_comparison_init(&comparison);
    assert_status(comet_decompress(NULL, good_frame.bytes, y, room, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_decompress(good_frame.data, good_frame.bytes, NULL, room, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_decompress(good_frame.data, good_frame.bytes, y, room, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_decoder_run(NULL, good_frame.data, good_frame.bytes, y, room, &bytes), COMET_ERROR_ARGUMENT);
    assert_status(comet_decoder_run_chunks(NULL, good_frame.data, good_frame.bytes, 0, 1, y, room, &bytes),
                  COMET_ERROR_ARGUMENT);
    assert_status(comet_decoder_create(NULL, NULL, 1), COMET_ERROR_ARGUMENT);
    assert_status(comet_frame_describe(NULL, 100, &info), COMET_ERROR_ARGUMENT);
    assert_status(comet_frame_describe(good_frame.data, good_frame.bytes, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_compare(COMET_DTYPE_F32, N, NULL, y, 1, &comparison), COMET_ERROR_ARGUMENT);
    assert_status(comet_compare(COMET_DTYPE_F32, N, good.x, NULL, 1, &comparison), COMET_ERROR_ARGUMENT);
    assert_status(comet_compare(COMET_DTYPE_F32, N, good.x, y, 1, NULL), COMET_ERROR_ARGUMENT);
    assert_int_equal(bytes, 1);
    comet_decoder_destroy(NULL);
    free(y);
}

static void test_misaligned_pointers(void **state)
{
    static const comet_dtype dtypes[] = {COMET_DTYPE_F32, COMET_DTYPE_F16, COMET_DTYPE_BF16, COMET_DTYPE_F64};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        comet_tensor t = tensor_1d(dtypes[d], 100);
        uint8_t *room = need_malloc(bytes_of(&t) + 8), *x = make_data(1, DATA_NOISE, &t);
        blob frame = encode(NULL, &t, &good.params, x, NULL);
        comet_comparison comparison;
        comet_comparison_init(&comparison);
        for (size_t shift = 1; shift < comet_dtype_bytes(dtypes[d]); shift++) {
            size_t bytes = 1;
            assert_status(comet_compress(&t, &good.params, room + shift, good.dst, good.capacity, &bytes),
                          COMET_ERROR_ARGUMENT);
            assert_status(comet_encoder_estimate(encoder, &t, &good.params, room + shift, NULL, NULL), COMET_ERROR_ARGUMENT);
            assert_status(comet_decompress(frame.data, frame.bytes, room + shift, bytes_of(&t), &bytes), COMET_ERROR_ARGUMENT);
            assert_status(comet_decoder_run_chunks(decoder, frame.data, frame.bytes, 0, 1, room + shift, bytes_of(&t), &bytes),
                          COMET_ERROR_ARGUMENT);
            assert_status(comet_compare(dtypes[d], 100, room + shift, x, 1, &comparison), COMET_ERROR_ARGUMENT);
            assert_status(comet_compare(dtypes[d], 100, x, room + shift, 1, &comparison), COMET_ERROR_ARGUMENT);
            assert_int_equal(bytes, 1);
        }
        free(frame.data);
        free(room);
        free(x);
    }
}

/* ---- room ---- */

static void check_capacities(const comet_tensor *t, const comet_params *p, const void *x, size_t n_threads)
{
    comet_encoder *e = new_encoder(NULL, n_threads);
    blob frame = encode(e, t, p, x, NULL);
    guarded room = guarded_make(frame.bytes); /* a byte written too far is a crash */
    size_t bytes = 1;
    assert_ok(comet_encoder_run(e, t, p, x, guarded_tail(&room, frame.bytes), frame.bytes, &bytes, NULL));
    assert_int_equal(bytes, frame.bytes);
    assert_memory_equal(guarded_tail(&room, bytes), frame.data, bytes);
    for (size_t missing = 1; missing <= frame.bytes; missing += missing < 4 ? 1 : frame.bytes / 37 + 1) {
        size_t capacity = frame.bytes - missing, untouched = 4242;
        assert_status(comet_encoder_run(e, t, p, x, guarded_tail(&room, capacity), capacity, &untouched, NULL),
                      COMET_ERROR_CAPACITY);
        assert_int_equal(untouched, 4242);
    }
    assert_ok(comet_encoder_run(e, t, p, x, guarded_tail(&room, frame.bytes), frame.bytes, &bytes, NULL));
    assert_memory_equal(guarded_tail(&room, bytes), frame.data, frame.bytes);
    guarded_free(&room);
    free(frame.data);
    comet_encoder_destroy(e);
}

static void test_destination_of_a_frame_too_small(void **state)
{
    static const enum data_class classes[] = {DATA_RELU, DATA_BITS, DATA_CONSTANT};
    for (size_t c = 0; c < COUNT_OF(classes); c++)
        for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_AUTO; level++)
            for (size_t n_threads = 1; n_threads <= 3; n_threads++) {
                comet_tensor t = tensor_1d(COMET_DTYPE_F32, 5000);
                void *x = make_data(c, classes[c], &t);
                comet_params p = params_of((comet_level)level, 0.01);
                p.chunk_elements = 1000;
                check_capacities(&t, &p, x, n_threads);
                free(x);
            }
}

static void test_destination_of_a_tensor_too_small(void **state)
{
    size_t room = bytes_of(&good.tensor), bytes = 1;
    guarded out = guarded_make(room);
    for (size_t missing = 1; missing <= room; missing += missing < 8 ? 1 : room / 37 + 1) {
        float *y = (float *)(void *)(out.end - (room - missing) / 4 * 4);
        memset(y, 0x77, (room - missing) / 4 * 4);
        assert_status(comet_decompress(good_frame.data, good_frame.bytes, y, (room - missing) / 4 * 4, &bytes),
                      COMET_ERROR_CAPACITY);
        for (float *p = y; (uint8_t *)p < out.end; p++)
            assert_memory_equal(p, "\x77\x77\x77\x77", 4);
    }
    assert_status(comet_decompress(good_frame.data, good_frame.bytes, guarded_tail(&out, room), room - 1, &bytes),
                  COMET_ERROR_CAPACITY);
    assert_int_equal(bytes, 1);
    assert_ok(comet_decompress(good_frame.data, good_frame.bytes, guarded_tail(&out, room), room, &bytes));
    assert_int_equal(bytes, room);
    guarded_free(&out);
}

static void test_chunk_numbers_out_of_range(void **state)
{
    comet_params p = good.params;
    p.chunk_elements = 1000;
    blob frame = encode(NULL, &good.tensor, &p, good.x, NULL);
    static const uint64_t ranges[][2] = {{0, 4}, {3, 1}, {4, 0}, {1, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, UINT64_MAX}};
    size_t room = bytes_of(&good.tensor), bytes = 1;
    float *y = need_malloc(room);
    for (size_t i = 0; i < COUNT_OF(ranges); i++)
        assert_status(comet_decoder_run_chunks(decoder, frame.data, frame.bytes, ranges[i][0], ranges[i][1], y, room, &bytes),
                      COMET_ERROR_ARGUMENT);
    assert_status(comet_decoder_run_chunks(decoder, frame.data, frame.bytes, 1, 2, y, 7999, &bytes), COMET_ERROR_CAPACITY);
    assert_int_equal(bytes, 1);
    assert_ok(comet_decoder_run_chunks(decoder, frame.data, frame.bytes, 1, 2, y, 8000, &bytes));
    assert_int_equal(bytes, 8000);
    free(frame.data);
    free(y);
}

static void test_too_many_threads(void **state)
{
    comet_encoder *e = NULL;
    comet_decoder *d = NULL;
    assert_status(comet_encoder_create(&e, NULL, SIZE_MAX), COMET_ERROR_ARGUMENT);
    assert_status(comet_decoder_create(&d, NULL, 100000), COMET_ERROR_ARGUMENT);
    assert_true(!e && !d);
}

static void test_bad_comparisons(void **state)
{
    comet_comparison c;
    comet_comparison_init(&c);
    c.n_elements = 17;
    assert_status(comet_compare((comet_dtype)7, N, good.x, good.x, 1, &c), COMET_ERROR_ARGUMENT);
    assert_status(comet_compare(COMET_DTYPE_F32, N, good.x, good.x, NAN, &c), COMET_ERROR_ARGUMENT);
    assert_status(comet_compare(COMET_DTYPE_F32, N, good.x, good.x, -1, &c), COMET_ERROR_ARGUMENT);
    assert_int_equal(c.n_elements, 17);
    assert_ok(comet_compare(COMET_DTYPE_F32, 0, NULL, NULL, 1, &c));
    assert_int_equal(c.n_elements, 0);
}

/* Values whose range is no longer a number of the type the bound is kept in. */
static void test_relative_bound_that_overflows(void **state)
{
    comet_tensor t = tensor_1d(COMET_DTYPE_F64, 2);
    const double x[] = {-1.7e308, 1.7e308};
    size_t bytes = 1;
    uint8_t dst[400];
    comet_params p = params_of(COMET_LEVEL_FAST, 1);
    p.bound_mode = COMET_BOUND_RANGE;
    assert_status(comet_compress(&t, &p, x, dst, sizeof dst, &bytes), COMET_ERROR_ARGUMENT);
    p.bound_mode = COMET_BOUND_STDDEV;
    p.bound = 1e300;
    assert_status(comet_compress(&t, &p, x, dst, sizeof dst, &bytes), COMET_ERROR_ARGUMENT);
    assert_int_equal(bytes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_bounds),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_unknown_enums),
        cmocka_unit_test(test_wrong_struct_sizes),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_sizes_that_overflow_by_a_little),
        cmocka_unit_test(test_null_pointers_when_describing),
        cmocka_unit_test(test_null_pointers_when_compressing),
        cmocka_unit_test(test_null_pointers_when_decompressing),
        cmocka_unit_test(test_misaligned_pointers),
        cmocka_unit_test(test_destination_of_a_frame_too_small),
        cmocka_unit_test(test_destination_of_a_tensor_too_small),
        cmocka_unit_test(test_chunk_numbers_out_of_range),
        cmocka_unit_test(test_too_many_threads),
        cmocka_unit_test(test_bad_comparisons),
        cmocka_unit_test(test_relative_bound_that_overflows),
    };
    return cmocka_run_group_tests_name("arguments", tests, set_up, tear_down);
}
