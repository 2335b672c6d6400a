/*
 * Winograd's convolution against a plain one in double precision: all passes, odd sizes, any padding, channels that do not fill
 * a block. The same bits for any number of threads and any limit of scratch. Which kernels the backend makes of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "testing.h"
#include "train/backend/backend.h"
#include "train/backend/parallel.h"
#include "train/backend/winograd.h"

#define NO_LIMIT UINT64_MAX

/* ---- a convolution and its expected results ---- */

static const winograd_shape shapes[] = {
    {.batch = 2, .in = {20, 7, 7}, .out = {36, 7, 7}, .padding = {1, 1}, .bias = true},
    {.batch = 3, .in = {16, 13, 13}, .out = {32, 13, 13}, .padding = {1, 1}},
    {.batch = 5, .in = {33, 3, 3}, .out = {17, 1, 1}, .padding = {0, 0}, .bias = true},
    {.batch = 1, .in = {48, 5, 3}, .out = {16, 3, 1}, .padding = {0, 0}},
    {.batch = 2, .in = {8, 1, 1}, .out = {8, 1, 1}, .padding = {1, 1}},
    {.batch = 3, .in = {40, 9, 6}, .out = {16, 11, 8}, .padding = {2, 2}, .bias = true},
    {.batch = 2, .in = {5, 12, 17}, .out = {3, 10, 17}, .padding = {0, 1}},
    {.batch = 1, .in = {64, 30, 29}, .out = {64, 30, 29}, .padding = {1, 1}},
    {.batch = 2, .in = {352, 4, 4}, .out = {352, 4, 4}, .padding = {1, 1}}, /* weights are transformed block by block */
};

typedef struct tensors {
    winograd_shape s;
    uint64_t n_src, n_dst, n_weights; /* floats, with what fills up the blocks */
    float *src, *weights, *bias, *diff_dst;
    float *dst, *diff_src, *diff_weights, *diff_bias; /* results */
} tensors;

static uint64_t padded(uint64_t n)
{
    const uint64_t block = winograd_block();
    return (n + block - 1) / block * block;
}

static uint64_t data_at(const uint64_t dims[3], uint64_t image, uint64_t c, uint64_t y, uint64_t x)
{
    const uint64_t block = winograd_block();
    return (((image * padded(dims[0]) + c / block * block) * dims[1] + y * block) * dims[2]) + x * block + c % block;
}

static uint64_t weight_at(const winograd_shape *s, uint64_t out, uint64_t in, uint64_t y, uint64_t x)
{
    const uint64_t block = winograd_block();
    return ((out / block * (padded(s->in[0]) / block) + in / block) * 9 + y * 3 + x) * block * block + in % block * block +
           out % block;
}

static float *floats(uint64_t n)
{
    float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    assert_non_null(x);
    memset(x, 0xff, n * sizeof *x); /* NaN: what is not written shows */
    return x;
}

static float *random_data(test_rng *r, uint64_t batch, const uint64_t dims[3])
{
    const uint64_t n = batch * padded(dims[0]) * dims[1] * dims[2];
    float *x = floats(n);
    memset(x, 0, n * sizeof *x);
    for (uint64_t i = 0; i < batch * dims[0]; i++)
        for (uint64_t k = 0; k < dims[1] * dims[2]; k++)
            x[data_at(dims, i / dims[0], i % dims[0], k / dims[2], k % dims[2])] = (float)rng_normal(r);
    return x;
}

static tensors tensors_of(const winograd_shape *s)
{
    test_rng r = {s->in[0] + s->in[1]};
    tensors t = {.s = *s};
    t.n_src = s->batch * padded(s->in[0]) * s->in[1] * s->in[2];
    t.n_dst = s->batch * padded(s->out[0]) * s->out[1] * s->out[2];
    t.n_weights = padded(s->in[0]) * padded(s->out[0]) * 9;
    t.src = random_data(&r, s->batch, s->in);
    t.diff_dst = random_data(&r, s->batch, s->out);
    t.weights = floats(t.n_weights);
    t.bias = floats(s->out[0]);
    memset(t.weights, 0, t.n_weights * sizeof *t.weights);
    for (uint64_t o = 0; o < s->out[0]; o++) {
        t.bias[o] = s->bias ? (float)rng_normal(&r) : 0;
        for (uint64_t i = 0; i < s->in[0] * 9; i++)
            t.weights[weight_at(s, o, i / 9, i % 9 / 3, i % 3)] = (float)rng_normal(&r);
    }
    t.dst = floats(t.n_dst);
    t.diff_src = floats(t.n_src);
    t.diff_weights = floats(t.n_weights);
    t.diff_bias = floats(s->out[0]);
    return t;
}

static void tensors_free(tensors *t)
{
    float *all[] = {t->src, t->weights, t->bias, t->diff_dst, t->dst, t->diff_src, t->diff_weights, t->diff_bias};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        free(all[i]);
}

typedef struct results {
    double *dst, *diff_src, *diff_weights, *diff_bias;
    float *direct; /* dst by direct convolution in float */
} results;

/* One output and its share of the gradients. */
static void expect_output(const tensors *t, uint64_t image, uint64_t o, uint64_t y, uint64_t x, results *e)
{
    const winograd_shape *s = &t->s;
    const uint64_t there = data_at(s->out, image, o, y, x);
    const double gradient = (double)t->diff_dst[there];
    double sum = (double)t->bias[o];
    float direct = t->bias[o];
    for (uint64_t tap = 0; tap < 9; tap++) {
        const uint64_t row = y + tap / 3 - s->padding[0], column = x + tap % 3 - s->padding[1];
        if (row >= s->in[1] || column >= s->in[2]) /* unsigned: before the first, too */
            continue;
        for (uint64_t i = 0; i < s->in[0]; i++) {
            const uint64_t from = data_at(s->in, image, i, row, column), w = weight_at(s, o, i, tap / 3, tap % 3);
            sum += (double)t->src[from] * (double)t->weights[w];
            direct += t->src[from] * t->weights[w];
            e->diff_src[from] += gradient * (double)t->weights[w];
            e->diff_weights[w] += gradient * (double)t->src[from];
        }
    }
    e->dst[there] = sum;
    e->direct[there] = direct;
    e->diff_bias[o] += gradient;
}

static results expected_of(const tensors *t)
{
    const winograd_shape *s = &t->s;
    results e = {calloc(t->n_dst, sizeof(double)), calloc(t->n_src, sizeof(double)), calloc(t->n_weights, sizeof(double)),
                 calloc(s->out[0], sizeof(double)), calloc(t->n_dst, sizeof(float))};
    assert_true(e.dst && e.diff_src && e.diff_weights && e.diff_bias && e.direct);
    for (uint64_t i = 0; i < s->batch * s->out[0]; i++)
        for (uint64_t k = 0; k < s->out[1] * s->out[2]; k++)
            expect_output(t, i / s->out[0], i % s->out[0], k / s->out[2], k % s->out[2], &e);
    return e;
}

static void results_free(results *e)
{
    free(e->dst);
    free(e->diff_src);
    free(e->diff_weights);
    free(e->diff_bias);
    free(e->direct);
}

static void run(tensors *t, winograd_pass pass, size_t n_threads, uint64_t limit)
{
    winograd_plan p;
    assert_true(winograd_make(&t->s, pass, n_threads, limit, &p));
    assert_true(winograd_scratch_bytes(&p) <= limit);
    float *scratch = floats(winograd_scratch_bytes(&p) / sizeof(float));
    const float *bias = t->s.bias ? t->bias : NULL;
    if (pass == WINOGRAD_FORWARD)
        winograd_run_data(&p, t->src, t->weights, bias, t->dst, scratch);
    else if (pass == WINOGRAD_BACKWARD_DATA)
        winograd_run_data(&p, t->diff_dst, t->weights, NULL, t->diff_src, scratch);
    else
        winograd_run_weights(&p, t->src, t->diff_dst, t->diff_weights, t->s.bias ? t->diff_bias : NULL, scratch);
    free(scratch);
}

static void run_all(tensors *t, size_t n_threads)
{
    parallel_set_threads(n_threads);
    for (int pass = WINOGRAD_FORWARD; pass <= WINOGRAD_BACKWARD_WEIGHTS; pass++)
        run(t, (winograd_pass)pass, n_threads, NO_LIMIT);
}

/* ---- results ---- */

/* The root mean square of the errors, as a multiple of that of what is expected; `*worst` the largest. */
static double errors_of(const float *found, const double *expected, uint64_t n, double *worst)
{
    double squares = 0, errors = 0;
    *worst = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double error = fabs((double)found[i] - expected[i]);
        squares += expected[i] * expected[i];
        errors += error * error;
        if (!(error <= *worst))
            *worst = error;
    }
    *worst /= sqrt(squares / (double)n);
    return sqrt(errors / squares);
}

/* What fills up blocks is expected to be zero. */
static double check_errors(const char *what, const float *found, const double *expected, uint64_t n)
{
    double worst;
    const double mean = errors_of(found, expected, n, &worst);
    print_message("  %s: mean error %.1e, largest %.1e\n", what, mean, worst);
    assert_true(mean <= 3e-6 && worst <= 3e-5);
    return mean;
}

static void test_against_double(void **state)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const winograd_shape *s = &shapes[i];
        tensors t = tensors_of(s);
        results e = expected_of(&t);
        print_message("%d x %d x %d x %d to %d\n", (int)s->batch, (int)s->in[0], (int)s->in[1], (int)s->in[2], (int)s->out[0]);
        run_all(&t, 2);
        const double mean = check_errors("forward", t.dst, e.dst, t.n_dst);
        const double direct = check_errors("direct convolution in float", e.direct, e.dst, t.n_dst);
        assert_true(mean <= 10 * direct);
        check_errors("backward data", t.diff_src, e.diff_src, t.n_src);
        check_errors("backward weights", t.diff_weights, e.diff_weights, t.n_weights);
        if (s->bias)
            check_errors("bias", t.diff_bias, e.diff_bias, s->out[0]);
        results_free(&e);
        tensors_free(&t);
    }
}

/* ---- bf16: what comes of the widened elements, rounded ---- */

/* Rounds x, and returns it as bf16. */
static uint16_t *halves_of(float *x, uint64_t n)
{
    uint16_t *h = need_malloc(n * sizeof *h);
    for (uint64_t i = 0; i < n; i++) {
        h[i] = bf16_of_float(x[i]);
        x[i] = float_of_bf16(h[i]);
    }
    return h;
}

static void check_rounded(const char *what, const uint16_t *found, const float *exact, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (found[i] != bf16_of_float(exact[i]))
            fail_because("%s: element %d is %04x, not %a rounded", what, (int)i, found[i], (double)exact[i]);
}

static void check_bf16(const winograd_shape *s)
{
    tensors t = tensors_of(s);
    uint16_t *src = halves_of(t.src, t.n_src), *diff_dst = halves_of(t.diff_dst, t.n_dst);
    uint16_t *dst = need_malloc(t.n_dst * sizeof *dst), *diff_src = need_malloc(t.n_src * sizeof *diff_src);
    float *weights = floats(t.n_weights), *bias = floats(s->out[0]), *scratch;
    winograd_shape half = *s;
    winograd_plan p;
    run_all(&t, 2);
    half.type = COMET_DTYPE_BF16;
    for (int pass = WINOGRAD_FORWARD; pass <= WINOGRAD_BACKWARD_WEIGHTS; pass++) {
        assert_true(winograd_make(&half, (winograd_pass)pass, 2, NO_LIMIT, &p));
        scratch = floats(winograd_scratch_bytes(&p) / sizeof(float));
        if (pass == WINOGRAD_FORWARD)
            winograd_run_data(&p, src, t.weights, s->bias ? t.bias : NULL, dst, scratch);
        else if (pass == WINOGRAD_BACKWARD_DATA)
            winograd_run_data(&p, diff_dst, t.weights, NULL, diff_src, scratch);
        else
            winograd_run_weights(&p, src, diff_dst, weights, s->bias ? bias : NULL, scratch);
        free(scratch);
    }
    check_rounded("forward", dst, t.dst, t.n_dst);
    check_rounded("backward data", diff_src, t.diff_src, t.n_src);
    assert_memory_equal(weights, t.diff_weights, t.n_weights * sizeof *weights);
    if (s->bias)
        assert_memory_equal(bias, t.diff_bias, s->out[0] * sizeof *bias);
    void *all[] = {src, diff_dst, dst, diff_src, weights, bias};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        free(all[i]);
    tensors_free(&t);
}

static void test_bf16(void **state)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        check_bf16(&shapes[i]);
}

static void test_threads(void **state)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        tensors one = tensors_of(&shapes[i]);
        run_all(&one, 1);
        for (size_t n_threads = 2; n_threads <= 5; n_threads++) {
            tensors many = tensors_of(&shapes[i]);
            run_all(&many, n_threads);
            assert_memory_equal(one.dst, many.dst, one.n_dst * sizeof(float));
            assert_memory_equal(one.diff_src, many.diff_src, one.n_src * sizeof(float));
            assert_memory_equal(one.diff_weights, many.diff_weights, one.n_weights * sizeof(float));
            assert_memory_equal(one.diff_bias, many.diff_bias, one.s.out[0] * sizeof(float));
            tensors_free(&many);
        }
        tensors_free(&one);
    }
}

/* Large weights: with less scratch the batch is cut into slices, and in the end there is too little. */
static void test_slices(void **state)
{
    const winograd_shape s = {.batch = 6, .in = {384, 4, 4}, .out = {352, 4, 4}, .padding = {1, 1}};
    tensors whole = tensors_of(&s), sliced = tensors_of(&s);
    winograd_plan p;
    parallel_set_threads(2);
    assert_true(winograd_make(&s, WINOGRAD_FORWARD, 2, NO_LIMIT, &p));
    assert_true(p.channels_outside && p.tiles == 6);
    const uint64_t all = winograd_scratch_bytes(&p);
    run(&whole, WINOGRAD_FORWARD, 2, NO_LIMIT);
    run(&sliced, WINOGRAD_FORWARD, 2, all - 1);
    assert_true(winograd_make(&s, WINOGRAD_FORWARD, 2, all - 1, &p) && p.tiles < 6);
    assert_memory_equal(whole.dst, sliced.dst, whole.n_dst * sizeof(float));
    assert_false(winograd_make(&s, WINOGRAD_FORWARD, 2, 1 << 20, &p));
    assert_false(winograd_make(&s, WINOGRAD_BACKWARD_WEIGHTS, 2, 1 << 20, &p));
    tensors_free(&whole);
    tensors_free(&sliced);
}

/* Gradients of large weights are made for a few blocks of outputs at a time where one slice has all tiles. */
static void test_blocks(void **state)
{
    const winograd_shape last = {.batch = 32, .in = {512, 7, 7}, .out = {512, 7, 7}, .padding = {1, 1}}; /* of ResNet-50 */
    winograd_shape s = {.batch = 1, .in = {352, 4, 4}, .out = {352, 4, 4}, .padding = {1, 1}};
    winograd_plan p;
    tensors all = tensors_of(&s);
    assert_true(winograd_make(&last, WINOGRAD_BACKWARD_WEIGHTS, 2, NO_LIMIT, &p));
    assert_true(p.tiles == p.n_tiles && p.blocks < p.n_to && winograd_scratch_bytes(&p) <= (uint64_t)17 << 20);
    assert_true(winograd_make(&s, WINOGRAD_BACKWARD_WEIGHTS, 2, NO_LIMIT, &p) && p.blocks < p.n_to);
    s.out[0] = 32;
    tensors few = tensors_of(&s);
    assert_true(winograd_make(&s, WINOGRAD_BACKWARD_WEIGHTS, 2, NO_LIMIT, &p) && p.blocks == p.n_to);
    run(&all, WINOGRAD_BACKWARD_WEIGHTS, 2, NO_LIMIT);
    run(&few, WINOGRAD_BACKWARD_WEIGHTS, 2, NO_LIMIT);
    assert_memory_equal(all.diff_weights, few.diff_weights, few.n_weights * sizeof(float));
    memcpy(few.diff_dst, all.diff_dst + all.n_dst - few.n_dst, few.n_dst * sizeof(float)); /* of the last outputs */
    run(&few, WINOGRAD_BACKWARD_WEIGHTS, 2, NO_LIMIT);
    assert_memory_equal(all.diff_weights + all.n_weights - few.n_weights, few.diff_weights, few.n_weights * sizeof(float));
    tensors_free(&all);
    tensors_free(&few);
}

static void test_finish(void **state)
{
    winograd_shape s = {.batch = 2, .in = {16, 6, 5}, .out = {24, 6, 5}, .padding = {1, 1}, .bias = true};
    tensors plain = tensors_of(&s);
    run(&plain, WINOGRAD_FORWARD, 1, NO_LIMIT);
    s.relu = true;
    tensors cut = tensors_of(&s);
    cut.src[data_at(s.in, 1, 3, 2, 2)] = NAN; /* of one tile */
    run(&cut, WINOGRAD_FORWARD, 1, NO_LIMIT);
    uint64_t n_nan = 0;
    for (uint64_t i = 0; i < plain.n_dst; i++) {
        n_nan += isnan(cut.dst[i]) != 0;
        if (!isnan(cut.dst[i]))
            assert_true(cut.dst[i] == (plain.dst[i] < 0 ? 0 : plain.dst[i]));
    }
    assert_true(n_nan > 0);
    s.relu = false;
    s.adds = true;
    tensors added = tensors_of(&s);
    for (uint64_t i = 0; i < added.n_dst; i++)
        added.dst[i] = (float)(i % 7);
    run(&added, WINOGRAD_FORWARD, 1, NO_LIMIT);
    for (uint64_t i = 0; i < added.n_dst; i++)
        assert_true(added.dst[i] == plain.dst[i] + (float)(i % 7));
    tensors_free(&plain);
    tensors_free(&cut);
    tensors_free(&added);
}

static void test_refused(void **state)
{
    winograd_plan p;
    const winograd_shape s = {.batch = 1, .in = {16, 6, 6}, .out = {16, 10, 10}, .padding = {3, 3}};
    assert_false(winograd_make(&s, WINOGRAD_FORWARD, 1, NO_LIMIT, &p));
}

static void test_pays(void **state)
{
    const winograd_shape usual = {.batch = 32, .in = {64, 56, 56}, .out = {64, 56, 56}, .padding = {1, 1}};
    winograd_shape few = usual, tiny = usual, narrow = usual;
    few.batch = 1;
    few.in[1] = few.in[2] = few.out[1] = few.out[2] = 7;
    tiny.out[1] = tiny.out[2] = 2;
    narrow.in[0] = 3;
    assert_true(winograd_pays(&usual));
    assert_false(winograd_pays(&few));
    assert_false(winograd_pays(&tiny));
    assert_false(winograd_pays(&narrow));
}

/* ---- kernels of the backend ---- */

typedef struct pass_kernels {
    kernel *forward, *data, *weights;
} pass_kernels;

static pass_kernels make_kernels(backend *b, const conv_spec *s, const layout *src)
{
    pass_kernels k;
    assert_ok(kernel_conv_forward(b, s, src, &k.forward));
    assert_ok(kernel_conv_backward_data(b, s, k.forward, &k.data));
    assert_ok(kernel_conv_backward_weights(b, s, k.forward, &k.weights));
    return k;
}

static void kernels_free(pass_kernels *k)
{
    kernel_destroy(k->forward);
    kernel_destroy(k->data);
    kernel_destroy(k->weights);
}

static const conv_ways by_rule = {{CONV_BY_RULE, CONV_BY_RULE, CONV_BY_RULE}};

static bool is_own(const kernel *k)
{
    return strcmp(kernel_implementation(k), "comet:winograd") == 0;
}

/* Tensors are bf16, weights and their gradients f32. */
static void check_bf16_kernels(backend *b, conv_spec s, const layout *plain)
{
    s.type = COMET_DTYPE_BF16;
    s.ways = (conv_ways){{CONV_WINOGRAD, CONV_WINOGRAD, CONV_WINOGRAD}};
    pass_kernels own = make_kernels(b, &s, plain);
    assert_true(is_own(own.forward) && is_own(own.data) && is_own(own.weights));
    assert_int_equal(layout_type(kernel_layout(own.forward, ARG_SRC)), COMET_DTYPE_BF16);
    assert_int_equal(layout_type(kernel_layout(own.data, ARG_DIFF_SRC)), COMET_DTYPE_BF16);
    assert_int_equal(layout_type(kernel_layout(own.forward, ARG_WEIGHTS)), COMET_DTYPE_F32);
    assert_int_equal(layout_type(kernel_layout(own.weights, ARG_DIFF_WEIGHTS)), COMET_DTYPE_F32);
    kernels_free(&own);
}

static void test_kernels(void **state)
{
    backend *b;
    const layout *plain;
    const uint64_t dims[4] = {4, 32, 14, 14};
    conv_spec s = {.batch = 4,
                   .in = {32, 14, 14},
                   .out = {48, 14, 14},
                   .kernel = {3, 3},
                   .stride = {1, 1},
                   .padding = {1, 1},
                   .dilation = {1, 1},
                   .groups = 1,
                   .bias = true,
                   .ways = by_rule};
    uint64_t block;
    s.data_scratch_bytes = s.weights_scratch_bytes = (uint64_t)64 << 20;
    assert_ok(backend_create(&b));
    assert_ok(layout_plain(b, 4, dims, &plain));
    pass_kernels own = make_kernels(b, &s, plain);
    assert_true(is_own(own.forward) && is_own(own.data) && is_own(own.weights));
    assert_false(kernel_is_slow(own.forward));
    assert_true(kernel_layout(own.forward, ARG_WEIGHTS) == kernel_layout(own.data, ARG_WEIGHTS));
    assert_true(kernel_layout(own.forward, ARG_WEIGHTS) == kernel_layout(own.weights, ARG_DIFF_WEIGHTS));
    assert_int_equal(layout_describe(kernel_layout(own.forward, ARG_SRC), &block), ORDER_BLOCKED);
    assert_int_equal(block, winograd_block());
    check_bf16_kernels(b, s, plain);
    /* The library's backward kernels work beside our forward. */
    s.ways = (conv_ways){{CONV_DIRECT}};
    kernel *data, *weights;
    assert_ok(kernel_conv_backward_data(b, &s, own.forward, &data));
    assert_ok(kernel_conv_backward_weights(b, &s, own.forward, &weights));
    assert_false(is_own(data) || is_own(weights));
    kernel_destroy(data);
    kernel_destroy(weights);
    kernels_free(&own);
    s.ways = by_rule;
    s.data_scratch_bytes = s.weights_scratch_bytes = 1000;
    own = make_kernels(b, &s, plain);
    assert_false(is_own(own.forward) || is_own(own.data) || is_own(own.weights));
    kernels_free(&own);
    backend_destroy(b);
}

/* Reference code is slower by a hundred times. Sources of few channels, above all of one, have a fast gradient of the weights
 * in few layouts only, and those differ by instruction set. */
static void test_first_layers(void **state)
{
    (void)state;
    backend *b;
    assert_ok(backend_create(&b));
    for (uint64_t channels = 1; channels <= 16; channels++)
        for (uint32_t stride = 1; stride <= 2; stride++) {
            const uint64_t dims[4] = {8, channels, 28, 28};
            const layout *plain;
            const conv_spec s = {.batch = 8,
                                 .in = {channels, 28, 28},
                                 .out = {32, 28 / stride, 28 / stride},
                                 .kernel = {3, 3},
                                 .stride = {stride, stride},
                                 .padding = {1, 1},
                                 .dilation = {1, 1},
                                 .groups = 1};
            kernel *forward, *weights;
            assert_ok(layout_plain(b, 4, dims, &plain));
            assert_ok(kernel_conv_forward(b, &s, plain, &forward));
            assert_ok(kernel_conv_backward_weights(b, &s, forward, &weights));
            assert_null(strstr(kernel_implementation(forward), "ref"));
            assert_null(strstr(kernel_implementation(weights), "ref"));
            kernel_destroy(forward);
            kernel_destroy(weights);
        }
    backend_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double), cmocka_unit_test(test_bf16),   cmocka_unit_test(test_threads),
        cmocka_unit_test(test_slices),         cmocka_unit_test(test_blocks), cmocka_unit_test(test_finish),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_pays),   cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_first_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
