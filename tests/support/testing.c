/* See testing.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "testing.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/convert.h"
#include "codec/geometry.h"
#include "fuzz/promise.h"

/* ---- random numbers ---- */

uint64_t rng_next(test_rng *r)
{
    uint64_t h = r->state += 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
    h = (h ^ h >> 27) * 0x94D049BB133111EBu;
    return h ^ h >> 31;
}

uint64_t rng_below(test_rng *r, uint64_t n)
{
    return rng_next(r) % n;
}

bool rng_chance(test_rng *r, unsigned one_in)
{
    return rng_below(r, one_in) == 0;
}

double rng_unit(test_rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* The sum of four uniforms, scaled. */
double rng_normal(test_rng *r)
{
    double sum = rng_unit(r) + rng_unit(r) + rng_unit(r) + rng_unit(r);
    return (sum - 2) * 1.7320508;
}

/* ---- tensors and their contents ---- */

const char *data_class_name(enum data_class c)
{
    static const char *const names[N_DATA_CLASSES] = {"relu",      "sparse", "smooth",    "ramp",  "walk right", "walk down",
                                                      "separable", "planes", "constant",  "noise", "spikes",     "nonfinite",
                                                      "tiny",      "huge",   "lognormal", "bits"};
    return names[c];
}

comet_tensor tensor_of(comet_dtype dtype, comet_layout layout, uint32_t n_dims, const uint64_t *dims)
{
    comet_tensor t;
    assert_ok(comet_tensor_init(&t, dtype, n_dims, dims));
    t.layout = layout;
    return t;
}

comet_tensor tensor_1d(comet_dtype dtype, uint64_t n)
{
    return tensor_of(dtype, COMET_LAYOUT_PLANAR, 1, &n);
}

uint64_t elements_of(const comet_tensor *t)
{
    uint64_t n = 0;
    assert_ok(comet_tensor_elements(t, &n));
    return n;
}

size_t bytes_of(const comet_tensor *t)
{
    size_t bytes = 0;
    assert_ok(comet_tensor_bytes(t, &bytes));
    return bytes;
}

void set_element(comet_dtype dtype, void *x, uint64_t i, double v)
{
    switch (dtype) {
    case COMET_DTYPE_F32: ((float *)x)[i] = (float)v; break;
    case COMET_DTYPE_F16: ((uint16_t *)x)[i] = f16_of_float((float)v); break;
    case COMET_DTYPE_BF16: ((uint16_t *)x)[i] = bf16_of_float((float)v); break;
    case COMET_DTYPE_F64: ((double *)x)[i] = v; break;
    }
}

void set_bits(comet_dtype dtype, void *x, uint64_t i, uint64_t bits)
{
    size_t element = comet_dtype_bytes(dtype);
    memcpy((uint8_t *)x + i * element, &bits, element);
}

/* Between -1 and 1 with period 1, two parabolas: a sine without the math library. */
static double wave(double t)
{
    t -= floor(t);
    return t < 0.5 ? 16 * t * (0.5 - t) : -16 * (t - 0.5) * (1 - t);
}

/* 2^t, straight lines between the powers of two. */
static double power_of_two(double t)
{
    return ldexp(1 + (t - floor(t)), (int)floor(t));
}

static double smooth_at(const geometry *g, uint64_t i)
{
    double channel = (double)(i % g->channels), column = (double)(i / g->channels % g->columns);
    double line = (double)(i / g->line % g->lines), plane = (double)(i / g->line / g->lines);
    return 3 * wave(0.013 * column + 0.17 * channel + 0.31 * plane) + 2 * wave(0.021 * line + 0.4 * channel);
}

static double ramp_at(const geometry *g, uint64_t i)
{
    return 2.5 * (double)(i / g->channels % g->columns) + 1.75 * (double)(i / g->line % g->lines);
}

/* The power of two that puts numbers about 1 near the type's smallest or largest. */
static int scale_of(comet_dtype dtype, bool huge)
{
    switch (dtype) {
    case COMET_DTYPE_F16: return huge ? 13 : -20;
    case COMET_DTYPE_F64: return huge ? 1021 : -1060;
    default: return huge ? 125 : -135;
    }
}

/* A number of its own for every n, between -4 and 4. */
static double scatter(uint64_t n)
{
    test_rng r = {n * 0x10001};
    return 8 * rng_unit(&r) - 4;
}

static double separable_at(const geometry *g, uint64_t i)
{
    return scatter(i / g->line) + scatter(UINT64_C(1) << 40 | i % g->line);
}

/* The neighbour at `distance` and a small step; anything where there is none. */
static double walk_from(test_rng *r, comet_dtype dtype, const void *x, uint64_t i, uint64_t distance, bool start)
{
    return start ? 20 * rng_normal(r) : (double)promise_value(dtype, x, i - distance) + 0.1 * rng_normal(r);
}

typedef struct filling {
    test_rng *rng;
    enum data_class class;
    comet_dtype dtype;
    geometry g;
    double constant;
    const void *x; /* what is there so far */
} filling;

static double value_at(const filling *f, uint64_t i)
{
    test_rng *r = f->rng;
    const geometry *g = &f->g;
    switch (f->class) {
    case DATA_RELU: return fmax(smooth_at(g, i) + 0.3 * rng_normal(r), 0);
    case DATA_SPARSE: return rng_chance(r, 40) ? rng_normal(r) : rng_chance(r, 2) ? 0.0 : -0.0;
    case DATA_RAMP: return ramp_at(g, i) + 4 * rng_normal(r);
    case DATA_WALK_RIGHT: return walk_from(r, f->dtype, f->x, i, g->channels, i % g->line < g->channels);
    case DATA_WALK_DOWN: return walk_from(r, f->dtype, f->x, i, g->line, i < g->line);
    case DATA_SEPARABLE: return separable_at(g, i);
    case DATA_PLANES: return scatter(i % (g->line * g->lines)) + 0.05 * rng_normal(r);
    case DATA_CONSTANT: return f->constant;
    case DATA_NOISE: return rng_normal(r);
    case DATA_SPIKES: return rng_normal(r) * (rng_chance(r, 100) ? 1e4 : 0.01);
    case DATA_TINY: return ldexp(rng_normal(r), scale_of(f->dtype, false));
    case DATA_HUGE: return ldexp(rng_normal(r), scale_of(f->dtype, true));
    case DATA_LOGNORMAL: return (rng_chance(r, 2) ? 1 : -1) * power_of_two(4 * rng_normal(r));
    default: return smooth_at(g, i) + 0.01 * rng_normal(r);
    }
}

/* A NaN with any payload and sign, an infinity, -0 or a subnormal. */
static uint64_t special_bits(test_rng *r, comet_dtype dtype)
{
    static const int mantissa_bits[] = {23, 10, 7, 52};
    int mantissa = mantissa_bits[dtype], width = (int)comet_dtype_bytes(dtype) * 8;
    uint64_t sign = rng_below(r, 2) << (width - 1), low = (UINT64_C(1) << mantissa) - 1;
    uint64_t exponent = ((UINT64_C(1) << (width - 1)) - 1) & ~low;
    switch (rng_below(r, 4)) {
    case 0: return sign | exponent | (rng_next(r) & low) | 1;
    case 1: return sign | exponent;
    case 2: return UINT64_C(1) << (width - 1);
    default: return sign | (rng_next(r) & low);
    }
}

void fill_tensor(test_rng *r, enum data_class c, const comet_tensor *t, void *x)
{
    filling f = {.rng = r, .class = c, .dtype = t->dtype, .x = x};
    assert_ok(geometry_make(t, &f.g));
    f.constant = rng_chance(r, 4) ? 0 : rng_normal(r);
    for (uint64_t i = 0; i < f.g.n_elements; i++) {
        if (c == DATA_BITS)
            set_bits(t->dtype, x, i, rng_next(r));
        else if (c == DATA_NONFINITE && rng_chance(r, 16))
            set_bits(t->dtype, x, i, special_bits(r, t->dtype));
        else
            set_element(t->dtype, x, i, value_at(&f, i));
    }
}

void *make_data(uint64_t seed, enum data_class c, const comet_tensor *t)
{
    void *x = need_malloc(bytes_of(t));
    test_rng r = {seed};
    fill_tensor(&r, c, t, x);
    return x;
}

/* ---- calling the codec ---- */

comet_params params_of(comet_level level, double bound)
{
    comet_params p;
    comet_params_init(&p);
    p.level = level;
    p.bound = bound;
    return p;
}

blob encode(comet_encoder *encoder, const comet_tensor *t, const comet_params *p, const void *x, comet_stats *stats)
{
    size_t bound = 0, bytes = 0;
    assert_ok(comet_compress_bound(t, p, &bound));
    uint8_t *room = need_malloc(bound);
    if (encoder)
        assert_ok(comet_encoder_run(encoder, t, p, x, room, bound, &bytes, stats));
    else
        assert_ok(comet_compress(t, p, x, room, bound, &bytes));
    assert_true(bytes <= bound);
    blob frame = {need_malloc(bytes), bytes};
    memcpy(frame.data, room, bytes);
    free(room);
    return frame;
}

comet_frame_info info_of(blob frame)
{
    comet_frame_info info;
    comet_frame_info_init(&info);
    assert_ok(comet_frame_describe(frame.data, frame.bytes, &info));
    return info;
}

void *decode(comet_decoder *decoder, blob frame)
{
    size_t expected = (size_t)info_of(frame).tensor_bytes, bytes = 0;
    void *y = need_malloc(expected);
    if (decoder)
        assert_ok(comet_decoder_run(decoder, frame.data, frame.bytes, y, expected, &bytes));
    else
        assert_ok(comet_decompress(frame.data, frame.bytes, y, expected, &bytes));
    assert_int_equal(bytes, expected);
    return y;
}

comet_encoder *new_encoder(const comet_hooks *hooks, size_t n_threads)
{
    comet_encoder *encoder = NULL;
    assert_ok(comet_encoder_create(&encoder, hooks, n_threads));
    return encoder;
}

comet_decoder *new_decoder(const comet_hooks *hooks, size_t n_threads)
{
    comet_decoder *decoder = NULL;
    assert_ok(comet_decoder_create(&decoder, hooks, n_threads));
    return decoder;
}

void *decode_and_check(comet_decoder *decoder, blob frame, const void *x)
{
    comet_frame_info info = info_of(frame);
    void *y = decode(decoder, frame);
    promise p = promise_of(&info);
    uint64_t i = promise_first_broken(&p, info.tensor.dtype, info.n_elements, x, y);
    if (i < info.n_elements)
        fail_because(
            "element %llu of %llu: %.20Lg came back as %.20Lg, eb %.17g, dtype %d layout %d level %d support %d dither %d",
            (unsigned long long)i, (unsigned long long)info.n_elements, promise_value(info.tensor.dtype, x, i),
            promise_value(info.tensor.dtype, y, i), info.eb, (int)info.tensor.dtype, (int)info.tensor.layout, (int)info.level,
            info.keep_support, info.dither);
    return y;
}

size_t check_round_trip(const comet_tensor *t, const comet_params *p, const void *x)
{
    blob frame = encode(NULL, t, p, x, NULL);
    free(decode_and_check(NULL, frame, x));
    free(frame.data);
    return frame.bytes;
}

bool blobs_equal(blob a, blob b)
{
    return a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0;
}

/* ---- assertions ---- */

void check_status(comet_status status, comet_status expected, const char *call, const char *file, int line)
{
    const char *sentence = comet_last_error();
    if (status != expected) {
        print_error("%s:%d: %s gave %s (\"%s\"), expected %s\n", file, line, call, comet_status_name(status),
                    status == COMET_OK ? "" : sentence, comet_status_name(expected));
        _fail(file, line);
    }
    if (expected != COMET_OK && (strlen(sentence) < 12 || strchr(sentence, '\n') || !strchr(sentence, ' '))) {
        print_error("%s:%d: %s left \"%s\", which is no sentence\n", file, line, call, sentence);
        _fail(file, line);
    }
}

void check_near(double a, double b, double tolerance, const char *what, const char *file, int line)
{
    if (fabs(a - b) <= tolerance)
        return;
    print_error("%s:%d: %s is %.17g, expected %.17g within %g\n", file, line, what, a, b, tolerance);
    _fail(file, line);
}

/* ---- memory ---- */

void *need_malloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        fail_because("the test itself ran out of memory (%zu bytes)", bytes);
    return memory;
}

guarded guarded_make(size_t most_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (most_bytes + page - 1) / page * page;
    guarded g = {.map_bytes = room + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    g.end = (uint8_t *)g.map + room;
    assert_int_equal(mprotect(g.end, page, PROT_NONE), 0);
    return g;
}

void guarded_free(guarded *g)
{
    munmap(g->map, g->map_bytes);
    g->map = g->end = NULL;
}

static void (*crash_report)(void);

static void on_crash(int number)
{
    signal(number, SIG_DFL);
    if (crash_report)
        crash_report();
    raise(number);
}

void crash_for_good(void (*report)(void))
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    crash_report = report;
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        signal(signals[i], on_crash);
}

/* ---- hooks ---- */

/* The piece, aligned, as close to the guard as that allows. */
static void *allocate_piece(const test_allocator *a, size_t bytes, size_t alignment)
{
    if (a->guarded) {
        guarded g = guarded_make(bytes);
        return guarded_tail(&g, (bytes + alignment - 1) / alignment * alignment);
    }
    void *memory = NULL;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void free_piece(const test_allocator *a, void *memory, size_t bytes)
{
    if (!a->guarded) {
        free(memory);
        return;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    munmap((void *)((uintptr_t)memory / page * page), room + page);
}

static void *counting_alloc(void *user, size_t bytes, size_t alignment)
{
    test_allocator *a = user;
    a->n_calls++;
    bool fails = a->once ? a->n_calls == a->fail_from : a->n_calls >= a->fail_from;
    if (a->n_live == COUNT_OF(a->live) || (a->fail_from && fails))
        return NULL;
    void *memory = allocate_piece(a, bytes, alignment);
    if (!memory)
        return NULL;
    memset(memory, a->garbage, bytes);
    a->live[a->n_live].memory = memory;
    a->live[a->n_live].bytes = bytes;
    a->n_live++;
    a->live_bytes += bytes;
    return memory;
}

static void counting_release(void *user, void *memory, size_t bytes)
{
    test_allocator *a = user;
    size_t i = 0;
    while (i < a->n_live && a->live[i].memory != memory)
        i++;
    if (i == a->n_live || a->live[i].bytes != bytes) {
        a->misused = true;
        return;
    }
    a->live[i] = a->live[--a->n_live];
    a->live_bytes -= bytes;
    free_piece(a, memory, bytes);
}

comet_hooks hooks_with(test_allocator *a)
{
    comet_hooks hooks;
    comet_hooks_init(&hooks);
    if (a)
        hooks.allocator = (comet_allocator){counting_alloc, counting_release, a};
    return hooks;
}

static void run_reversed(void *user, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg)
{
    (void)user;
    for (size_t i = n_tasks; i-- > 0;)
        task(arg, i);
}

comet_parallel parallel_reversed(void)
{
    return (comet_parallel){run_reversed, NULL};
}

size_t usable_isas(comet_isa isas[4])
{
    comet_isa before = comet_isa_active();
    size_t n = 0;
    for (int i = COMET_ISA_REFERENCE; i <= (int)before; i++)
        if (comet_isa_set_cap((comet_isa)i) == (comet_isa)i)
            isas[n++] = (comet_isa)i;
    comet_isa_set_cap(before);
    return n;
}

uint64_t environment_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- files ---- */

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, mode);
    if (!file)
        fail_because("cannot open %s", path);
    return file;
}

/* A file that is there is removed first: ext4 brings one that is cut to nothing and written again to the disk at once. */
void write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    remove(path);
    FILE *file = open_in(folder, name, "wb");
    size_t written = fwrite(data, 1, bytes, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(written, bytes);
}

blob read_file(const char *folder, const char *name)
{
    FILE *file = open_in(folder, name, "rb");
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length >= 0);
    rewind(file);
    blob b = {need_malloc((size_t)length), (size_t)length};
    size_t got = fread(b.data, 1, b.bytes, file);
    fclose(file);
    assert_int_equal(got, b.bytes);
    return b;
}
