/* The same bytes for any threads, instruction set and memory; what an encoder or decoder keeps between calls. */
#include "codec_testing.h"

#include <math.h>
#include <stdlib.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes_for_any_threads),    cmocka_unit_test(test_same_bytes_for_any_instruction_set),
        cmocka_unit_test(test_same_bytes_for_any_garbage),    cmocka_unit_test(test_context_has_no_memory),
        cmocka_unit_test(test_second_call_allocates_nothing), cmocka_unit_test(test_log_hook),
    };
    return cmocka_run_group_tests_name("codec: contexts", tests, NULL, NULL);
}
