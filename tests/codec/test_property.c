/*
 * Random tensors, parameters, threads and instruction sets against everything the codec promises.
 *
 * COMET_PROPERTY_CASES sets how many cases run (or a factor less where sanitizers slow them down), COMET_PROPERTY_SEED the seed
 * of the first; case k has seed first + k, so that any one can be run alone. A failure prints how.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "fuzz/promise.h"

enum { DEFAULT_CASES = 4000, MAX_ELEMENTS = 60000 };
#define DEFAULT_SEED UINT64_C(20240601)

typedef struct property_case {
    uint64_t seed;
    test_rng rng;
    comet_tensor tensor;
    comet_params params;
    enum data_class data;
    size_t threads[2]; /* of the two encoders and decoders compared */
    comet_isa isas[2];
    bool reversed; /* the second one's tasks run in reverse on one thread */
    void *x;
    uint64_t n;
    size_t element;
} property_case;

/* ---- failing with a repro ---- */

static void describe(const property_case *c)
{
    const comet_tensor *t = &c->tensor;
    const comet_params *p = &c->params;
    print_error("dtype %d layout %d dims", (int)t->dtype, (int)t->layout);
    for (uint32_t i = 0; i < t->n_dims; i++)
        print_error(" %llu", (unsigned long long)t->dims[i]);
    print_error(
        ", data %s, level %d, bound mode %d %.17g, min_ratio %g, support %d, dither %d, checksum %d, profile %d, chunk %llu, "
        "threads %zu %zu, isa %s %s, reversed %d\n",
        data_class_name(c->data), (int)p->level, (int)p->bound_mode, p->bound, p->min_ratio, p->keep_support, p->dither,
        p->content_checksum, (int)p->profile, (unsigned long long)p->chunk_elements, c->threads[0], c->threads[1],
        comet_isa_name(c->isas[0]), comet_isa_name(c->isas[1]), c->reversed);
}

static void print_repro(uint64_t seed)
{
    const char *cap = getenv("COMET_MAX_ISA");
    print_error("repro: %s%s%sCOMET_PROPERTY_SEED=%llu COMET_PROPERTY_CASES=1 build/tests/test_property\n",
                cap ? "COMET_MAX_ISA=" : "", cap ? cap : "", cap ? " " : "", (unsigned long long)seed);
}

static uint64_t running; /* the seed of the case that runs */

static void print_running(void)
{
    print_error("crashed\n");
    print_repro(running);
}

#define require(c, condition, ...)                            \
    do {                                                      \
        if (!(condition)) {                                   \
            print_error("property broken: %s\n", #condition); \
            print_error(__VA_ARGS__);                         \
            print_error("\n");                                \
            describe(c);                                      \
            print_repro((c)->seed);                           \
            fail();                                           \
        }                                                     \
    } while (0)

/* ---- drawing a case ---- */

/* Dims whose product is at most MAX_ELEMENTS, few of them large. */
static void draw_tensor(property_case *c)
{
    test_rng *r = &c->rng;
    comet_layout layout = (comet_layout)rng_below(r, 4);
    uint32_t least = layout == COMET_LAYOUT_PLANAR ? 1 : 3, n_dims = least + (uint32_t)rng_below(r, COMET_MAX_DIMS + 1 - least);
    n_dims = rng_chance(r, 2) && n_dims > 4 ? 4 : n_dims;
    uint64_t dims[COMET_MAX_DIMS], room = 1 + rng_below(r, rng_chance(r, 4) ? MAX_ELEMENTS : MAX_ELEMENTS / 8);
    for (uint32_t i = 0; i < n_dims; i++)
        dims[i] = 1;
    for (uint32_t k = 0; k < n_dims; k++) {
        uint32_t i = (uint32_t)rng_below(r, n_dims);
        uint64_t most = rng_chance(r, 3) ? room : min_u64(room, 64);
        if (dims[i] == 1 && most > 1)
            dims[i] = 1 + rng_below(r, most);
        room /= dims[i] > 1 ? dims[i] : 1;
    }
    if (rng_chance(r, 300))
        dims[rng_below(r, n_dims)] = 0;
    c->tensor = tensor_of((comet_dtype)rng_below(r, 4), layout, n_dims, dims);
    c->n = elements_of(&c->tensor);
    c->element = comet_dtype_bytes(c->tensor.dtype);
}

/* Now and then a tensor whose lines are long and many enough for lanes in a wave. */
static void draw_wave_tensor(property_case *c)
{
    test_rng *r = &c->rng;
    uint64_t columns = 120 + rng_below(r, 120), lines = 1 + rng_below(r, 140), planes = 1 + rng_below(r, 5);
    planes = min_u64(planes, MAX_ELEMENTS / (columns * lines));
    const uint64_t dims[3] = {planes ? planes : 1, lines, columns};
    c->tensor = tensor_of((comet_dtype)rng_below(r, 4), COMET_LAYOUT_PLANAR, 3, dims);
    c->n = elements_of(&c->tensor);
    c->element = comet_dtype_bytes(c->tensor.dtype);
}

static void draw_params(property_case *c)
{
    test_rng *r = &c->rng;
    comet_params p = params_of((comet_level)rng_below(r, 3), 0);
    p.bound_mode = (comet_bound_mode)rng_below(r, COMET_BOUND_RATIO + 1);
    if (p.bound_mode == COMET_BOUND_RATIO && !rng_chance(r, 4)) /* searches take longest */
        p.bound_mode = COMET_BOUND_ABSOLUTE;
    int scale = c->tensor.dtype == COMET_DTYPE_F16 ? 24 : c->tensor.dtype == COMET_DTYPE_F64 ? 1000 : 120;
    p.bound = ldexp(1 + rng_unit(r), (int)rng_below(r, 26) - 20);
    if (p.bound_mode == COMET_BOUND_ABSOLUTE && rng_chance(r, 4)) /* any number the type holds */
        p.bound = ldexp(1 + rng_unit(r), (int)rng_below(r, 2 * (uint64_t)scale) - scale);
    if (p.bound_mode == COMET_BOUND_RATIO)
        p.bound = 1 + 20 * rng_unit(r);
    if (p.bound_mode == COMET_BOUND_ABSOLUTE && rng_chance(r, 16))
        p.bound = 0;
    unsigned option = (unsigned)rng_below(r, 3);
    p.keep_support = option == 1;
    p.dither = option == 2 && p.bound_mode != COMET_BOUND_LOSSLESS && p.bound > 0;
    p.dither_seed = rng_next(r);
    p.content_checksum = rng_chance(r, 3);
    p.min_ratio = rng_chance(r, 2) ? 0 : 20 * rng_unit(r);
    p.profile = p.level != COMET_LEVEL_AUTO && rng_chance(r, 3) ? COMET_PROFILE_DEVICE : COMET_PROFILE_HOST;
    p.chunk_elements = rng_chance(r, 2) ? 0 : 64 + rng_below(r, rng_chance(r, 2) ? 1000 : 20000);
    c->params = p;
}

static property_case draw_case(uint64_t seed)
{
    property_case c = {.seed = seed, .rng = {seed}};
    comet_isa isas[4];
    size_t n_isas = usable_isas(isas);
    bool long_lines = rng_chance(&c.rng, 8);
    if (long_lines)
        draw_wave_tensor(&c);
    else
        draw_tensor(&c);
    draw_params(&c);
    if (long_lines && c.params.chunk_elements && rng_chance(&c.rng, 2)) /* whole lines */
        c.params.chunk_elements = c.tensor.dims[2] * (1 + c.params.chunk_elements / 100);
    if (c.params.profile == COMET_PROFILE_DEVICE && c.params.level == COMET_LEVEL_FAST && c.params.chunk_elements > 8192)
        c.params.chunk_elements = 8192;
    c.data = (enum data_class)rng_below(&c.rng, N_DATA_CLASSES);
    for (int i = 0; i < 2; i++) {
        c.threads[i] = rng_chance(&c.rng, 2) ? 1 : 1 + rng_below(&c.rng, 4);
        c.isas[i] = isas[i == 0 ? n_isas - 1 : rng_below(&c.rng, n_isas)];
    }
    c.reversed = rng_chance(&c.rng, 4);
    c.x = need_malloc(bytes_of(&c.tensor));
    fill_tensor(&c.rng, c.data, &c.tensor, c.x);
    return c;
}

/* ---- checking ---- */

typedef struct outcome {
    comet_status status;
    blob frame;
    comet_stats stats;
    comet_encoder *encoder;
    comet_decoder *decoder;
    test_allocator memory;
} outcome;

/* Encodes with the case's first or second set of threads and instructions. */
static void run_case(const property_case *c, int which, outcome *o)
{
    *o = (outcome){.memory = {.garbage = which ? 0xff : 0x7f, .guarded = true}};
    comet_hooks hooks = hooks_with(&o->memory);
    if (which == 1 && c->reversed)
        hooks.parallel = parallel_reversed();
    comet_isa before = comet_isa_active();
    comet_isa_set_cap(c->isas[which]);
    o->encoder = new_encoder(&hooks, c->threads[which]);
    o->decoder = new_decoder(&hooks, c->threads[which]);
    comet_isa_set_cap(before);
    size_t bound = 0;
    require(c, comet_compress_bound(&c->tensor, &c->params, &bound) == COMET_OK, "%s", comet_last_error());
    o->frame.data = need_malloc(bound);
    comet_stats_init(&o->stats);
    o->status = comet_encoder_run(o->encoder, &c->tensor, &c->params, c->x, o->frame.data, bound, &o->frame.bytes, &o->stats);
    bool may_fail = c->params.bound_mode == COMET_BOUND_RATIO && o->status == COMET_ERROR_UNREACHABLE;
    bool too_large = c->params.bound_mode != COMET_BOUND_ABSOLUTE && o->status == COMET_ERROR_ARGUMENT &&
                     c->tensor.dtype == COMET_DTYPE_F64 && (c->data == DATA_HUGE || c->data == DATA_BITS);
    require(c, o->status == COMET_OK || may_fail || too_large, "%s: %s", comet_status_name(o->status), comet_last_error());
}

static void outcome_free(const property_case *c, outcome *o)
{
    comet_encoder_destroy(o->encoder);
    comet_decoder_destroy(o->decoder);
    require(c, o->memory.n_live == 0 && !o->memory.misused, "memory leaked or was released wrongly");
    free(o->frame.data);
}

static void check_info(const property_case *c, const outcome *o, const comet_frame_info *info)
{
    const comet_params *p = &c->params;
    require(c, memcmp(&info->tensor, &c->tensor, sizeof c->tensor) == 0, "the tensor's description changed");
    require(c, info->frame_bytes == o->frame.bytes && info->n_elements == c->n, "lengths are wrong");
    require(c, info->eb == o->stats.eb && (info->eb == 0) == info->lossless, "eb %g, %g", info->eb, o->stats.eb);
    require(c, p->bound_mode != COMET_BOUND_ABSOLUTE || info->eb == p->bound || info->lossless, "another bound");
    require(c, p->bound_mode != COMET_BOUND_LOSSLESS || info->lossless, "not lossless");
    require(c, info->keep_support == p->keep_support && (!info->dither || p->dither), "options changed");
    require(c, p->bound_mode != COMET_BOUND_RATIO || c->n == 0 || o->stats.ratio >= p->bound, "ratio %g", o->stats.ratio);
}

static void check_promise(const property_case *c, const comet_frame_info *info, const void *y)
{
    promise p = promise_of(info);
    uint64_t i = promise_first_broken(&p, c->tensor.dtype, c->n, c->x, y);
    require(c, i == c->n, "element %llu of %llu: %.21Lg came back as %.21Lg, eb %.17g", (unsigned long long)i,
            (unsigned long long)c->n, promise_value(c->tensor.dtype, c->x, i), promise_value(c->tensor.dtype, y, i), info->eb);
    comet_comparison comparison;
    comet_comparison_init(&comparison);
    require(c, comet_compare(c->tensor.dtype, c->n, c->x, y, info->eb, &comparison) == COMET_OK, "%s", comet_last_error());
    require(c, comparison.n_violations == 0 && comparison.max_error <= info->eb, "comet_compare says %llu, max error %g of %g",
            (unsigned long long)comparison.n_violations, comparison.max_error, info->eb);
    require(c, info->dither || comparison.n_zeros == comparison.n_zeros_kept, "zeros were lost");
    require(c, !info->keep_support || comparison.n_support_lost == 0, "support was lost");
}

/* Counts and extremes exactly; the sum is the library's business in test_measure. */
static void check_stats(const property_case *c, const comet_stats *s)
{
    uint64_t n_nonzero = 0, n_nonfinite = 0;
    long double min = INFINITY, max = -INFINITY;
    for (uint64_t i = 0; i < c->n; i++) {
        long double v = promise_value(c->tensor.dtype, c->x, i);
        n_nonzero += v != 0;
        n_nonfinite += !isfinite(v);
        min = isfinite(v) && v < min ? v : min;
        max = isfinite(v) && v > max ? v : max;
    }
    if (min > max)
        min = max = 0;
    require(c, s->n_nonzero == n_nonzero && s->n_nonfinite == n_nonfinite, "%llu non-zero, %llu not finite",
            (unsigned long long)s->n_nonzero, (unsigned long long)s->n_nonfinite);
    require(c, (long double)s->min == min && (long double)s->max == max, "min %g max %g, expected %Lg %Lg", s->min, s->max, min,
            max);
    require(c, s->n_chunks == s->n_chunks_raw + s->n_chunks_fast + s->n_chunks_dense, "chunks do not add up");
}

static void check_chunk_range(property_case *c, const outcome *o, const comet_frame_info *info, const uint8_t *y)
{
    uint64_t first = rng_below(&c->rng, info->n_chunks + 1), n = rng_below(&c->rng, info->n_chunks - first + 1);
    size_t begin = (size_t)min_u64(first * info->chunk_elements, c->n) * c->element;
    size_t end = (size_t)min_u64((first + n) * info->chunk_elements, c->n) * c->element, bytes = 1;
    uint8_t *part = need_malloc(end - begin);
    comet_status status =
        comet_decoder_run_chunks(o->decoder, o->frame.data, o->frame.bytes, first, n, part, end - begin, &bytes);
    require(c, status == COMET_OK && bytes == end - begin && memcmp(part, y + begin, bytes) == 0, "chunks %llu + %llu: %s",
            (unsigned long long)first, (unsigned long long)n, comet_last_error());
    free(part);
}

static void *decode_case(const property_case *c, const outcome *o, comet_decoder *decoder)
{
    size_t room = bytes_of(&c->tensor), bytes = 1;
    void *y = need_malloc(room);
    comet_status status = comet_decoder_run(decoder, o->frame.data, o->frame.bytes, y, room, &bytes);
    require(c, status == COMET_OK && bytes == room, "%s", comet_last_error());
    return y;
}

static void check_case(property_case *c)
{
    outcome a, b;
    run_case(c, 0, &a);
    run_case(c, 1, &b);
    require(c, a.status == b.status, "%s, %s", comet_status_name(a.status), comet_status_name(b.status));
    require(c, blobs_equal(a.frame, b.frame), "frames of %zu and %zu bytes differ", a.frame.bytes, b.frame.bytes);
    if (a.status == COMET_OK) {
        comet_frame_info info = info_of(a.frame);
        uint8_t *y = decode_case(c, &a, a.decoder), *other = decode_case(c, &a, b.decoder);
        check_info(c, &a, &info);
        check_promise(c, &info, y);
        require(c, memcmp(y, other, bytes_of(&c->tensor)) == 0, "the two decoders differ");
        check_stats(c, &a.stats);
        require(c, a.stats.sum_of_squares == b.stats.sum_of_squares, "%g, %g", a.stats.sum_of_squares, b.stats.sum_of_squares);
        check_chunk_range(c, &b, &info, y);
        free(y);
        free(other);
    }
    outcome_free(c, &a);
    outcome_free(c, &b);
}

static void test_random_cases(void **state)
{
    uint64_t first = environment_number("COMET_PROPERTY_SEED", DEFAULT_SEED);
    uint64_t n = environment_number("COMET_PROPERTY_CASES", DEFAULT_CASES);
    print_message("seed %llu, %llu cases\n", (unsigned long long)first, (unsigned long long)n);
    crash_for_good(print_running);
    for (uint64_t k = 0; k < n; k++) {
        running = first + k;
        property_case c = draw_case(first + k);
        check_case(&c);
        free(c.x);
    }
    print_message("%llu cases ran\n", (unsigned long long)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_cases)};
    return cmocka_run_group_tests_name("property", tests, NULL, NULL);
}
