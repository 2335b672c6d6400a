/*
 * Frames on another architecture, run by tools/test_aarch64 under an emulator, without cmocka.
 *
 * Golden frames: each must decode to what decoded.txt says, and encoding its tensor must give the same bytes as on the machine
 * that wrote it, at every cap. Generated tensors: the frames of the reference and of the best family must be the same byte for
 * byte, each must decode by the other family, to the same bytes and within the bound.
 *
 * usage: check_frames; exits 1 if anything failed or the build holds nothing but the reference.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "zoo.h"

#define GOLDEN_FOLDER COMET_TESTS_DIR "/codec/golden"

static comet_isa best;

/* ---- golden frames ---- */

typedef struct golden_line {
    char name[64]; /* without .comet */
    uint64_t checksum;
} golden_line;

/* Lines of decoded.txt, "checksum name.comet"; returns how many. */
static size_t read_golden_list(golden_line *lines, size_t most)
{
    FILE *file = fopen(GOLDEN_FOLDER "/decoded.txt", "r");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", GOLDEN_FOLDER "/decoded.txt");
        exit(1);
    }
    size_t n = 0;
    unsigned long long checksum;
    while (n < most && fscanf(file, "%llx %63[^.].comet\n", &checksum, lines[n].name) == 2)
        lines[n++].checksum = checksum;
    int more = fgetc(file);
    fclose(file);
    if (more != EOF) {
        fprintf(stderr, "decoded.txt: line %zu cannot be read\n", n + 1);
        exit(1);
    }
    return n;
}

static const zoo_kind *kind_named(const char *name)
{
    for (size_t i = 0; i < zoo_size; i++)
        if (strcmp(zoo[i].name, name) == 0)
            return &zoo[i];
    fail_because("the zoo has no %s", name);
    return NULL;
}

static void check_golden_at(comet_isa cap, const golden_line *line, blob golden)
{
    assert_int_equal(comet_isa_set_cap(cap), cap);
    const zoo_kind *kind = kind_named(line->name);
    specimen s = specimen_make(kind);
    void *y = decode_and_check(NULL, golden, s.x);
    if (comet_checksum(y, (size_t)info_of(golden).tensor_bytes) != line->checksum)
        fail_because("%s decodes to something else at cap %s", line->name, comet_isa_name(cap));
    blob frame = zoo_frame(kind);
    if (!blobs_equal(golden, frame))
        fail_because("encoding does not give the bytes of %s at cap %s", line->name, comet_isa_name(cap));
    free(frame.data);
    free(y);
    specimen_free(&s);
}

static void test_golden_frame(void **state)
{
    const golden_line *line = *state;
    char name[80];
    snprintf(name, sizeof name, "%s.comet", line->name);
    blob golden = read_file(GOLDEN_FOLDER, name);
    check_golden_at(COMET_ISA_REFERENCE, line, golden);
    check_golden_at(best, line, golden);
    free(golden.data);
}

/* ---- generated tensors ---- */

typedef struct frame_case {
    char name[128];
    comet_tensor tensor;
    comet_params params;
    enum data_class data;
    uint64_t seed;
} frame_case;

static blob encode_at(comet_isa cap, const frame_case *c, const void *x)
{
    assert_int_equal(comet_isa_set_cap(cap), cap);
    return encode(NULL, &c->tensor, &c->params, x, NULL);
}

static void *decode_at(comet_isa cap, blob frame, const void *x)
{
    assert_int_equal(comet_isa_set_cap(cap), cap);
    return decode_and_check(NULL, frame, x);
}

static void test_generated_frame(void **state)
{
    const frame_case *c = *state;
    void *x = make_data(c->seed, c->data, &c->tensor);
    blob plain = encode_at(COMET_ISA_REFERENCE, c, x), fast = encode_at(best, c, x);
    if (!blobs_equal(plain, fast))
        fail_because("frames differ (%zu bytes, %s %zu)", plain.bytes, comet_isa_name(best), fast.bytes);
    void *y = decode_at(COMET_ISA_REFERENCE, fast, x), *z = decode_at(best, plain, x);
    assert_memory_equal(y, z, bytes_of(&c->tensor));
    free(x), free(y), free(z);
    free(plain.data), free(fast.data);
}

static const uint64_t shapes[][4] = {{2, 19, 23, 17}, {1, 3, 64, 64},  {1, 1, 1, 63},
                                     {4, 40, 7, 7},   {1, 1, 129, 65}, {1, 1, 1, 8192}};

/* Absolute bounds, of which the lowest gives 32-bit codes, then lossless and one relative to the range. */
static const double bounds[] = {1, 0.1, 0.01, 0.001, 1e-5};
enum { LOSSLESS_BOUND = COUNT_OF(bounds), RANGE_BOUND, N_BOUNDS };
enum { OPTION_NONE, OPTION_SUPPORT, OPTION_DITHER, OPTION_CHECKSUM, N_OPTIONS };

static void set_params(frame_case *c, comet_level level, unsigned bound, unsigned option)
{
    comet_params *p = &c->params;
    *p = params_of(level, bound < COUNT_OF(bounds) ? bounds[bound] : 0.002);
    p->bound_mode = bound == LOSSLESS_BOUND ? COMET_BOUND_LOSSLESS
                    : bound == RANGE_BOUND  ? COMET_BOUND_RANGE
                                            : COMET_BOUND_ABSOLUTE;
    p->keep_support = option == OPTION_SUPPORT;
    p->dither = option == OPTION_DITHER && bound < COUNT_OF(bounds);
    p->dither_seed = c->seed;
    p->content_checksum = option == OPTION_CHECKSUM;
    p->chunk_elements = option == OPTION_CHECKSUM ? 3000 : 0;
}

/* Every class, type and level; the rest is drawn. */
enum { N_CASES = N_DATA_CLASSES * 4 * 3 };

static void make_case(size_t i, frame_case *c)
{
    test_rng r = {i};
    comet_dtype dtype = (comet_dtype)(i / N_DATA_CLASSES % 4);
    comet_level level = (comet_level)(i / N_DATA_CLASSES / 4 % 3);
    comet_layout layout = (comet_layout)rng_below(&r, 4);
    unsigned bound = (unsigned)rng_below(&r, N_BOUNDS), option = (unsigned)rng_below(&r, N_OPTIONS);
    c->data = (enum data_class)(i % N_DATA_CLASSES);
    if (bound == RANGE_BOUND && (c->data == DATA_HUGE || c->data == DATA_BITS)) /* whose range may be infinite: refused */
        bound = LOSSLESS_BOUND;
    c->seed = rng_next(&r);
    c->tensor = tensor_of(dtype, layout, 4, shapes[rng_below(&r, COUNT_OF(shapes))]);
    set_params(c, level, bound, option);
    snprintf(c->name, sizeof c->name, "case %zu: %s, dtype %d, layout %d, level %d, bound %u, option %u", i,
             data_class_name(c->data), (int)dtype, (int)layout, (int)level, bound, option);
}

int main(void)
{
    enum { MOST_GOLDEN = 200 };
    static golden_line golden[MOST_GOLDEN];
    static frame_case cases[N_CASES];
    static struct CMUnitTest tests[MOST_GOLDEN + N_CASES];
    best = comet_isa_best();
    printf("kernels: reference against %s\n", comet_isa_name(best));
    if (best == COMET_ISA_REFERENCE)
        return 1;

    size_t n_golden = read_golden_list(golden, MOST_GOLDEN);
    for (size_t i = 0; i < n_golden; i++)
        tests[i] = (struct CMUnitTest){golden[i].name, test_golden_frame, NULL, NULL, &golden[i]};
    int failed = run_tests("golden frames", tests, n_golden, NULL, NULL);
    for (size_t i = 0; i < N_CASES; i++) {
        make_case(i, &cases[i]);
        tests[i] = (struct CMUnitTest){cases[i].name, test_generated_frame, NULL, NULL, &cases[i]};
    }
    failed += run_tests("generated frames", tests, N_CASES, NULL, NULL);
    return n_golden == 0 || failed > 0;
}
