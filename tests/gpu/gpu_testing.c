/* See gpu_testing.h. */
#include "gpu/gpu_testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/convert.h"
#include "codec/frame.h"

enum { MARGIN = 256, N_PLACES = 4 };

/* ---- buffers ---- */

typedef struct place {
    rig *rig;
    uint64_t memory;
    size_t bytes, margin;
    uint8_t canary;
} place;

static uint8_t canary_at(const place *p, size_t i)
{
    return (uint8_t)(p->canary + 31 * i);
}

/* The buffer's bytes are filled, too: nothing may depend on what is there before. */
static place place_make(rig *r, size_t bytes, uint8_t canary)
{
    place p = {.rig = r, .bytes = (bytes + 15) / 16 * 16, .margin = r->exact ? 0 : MARGIN, .canary = canary};
    size_t all = p.bytes + 2 * p.margin;
    uint8_t *fill = need_malloc(all);
    for (size_t i = 0; i < all; i++)
        fill[i] = canary_at(&p, i);
    assert_ok(comet_gpu_allocate(r->gpu, all, &p.memory));
    assert_ok(comet_gpu_write(r->gpu, (comet_gpu_pointer){p.memory, 0}, fill, all));
    free(fill);
    return p;
}

static comet_gpu_pointer pointer_to(const place *p)
{
    return (comet_gpu_pointer){p->memory, p->margin};
}

static void check_margin(const place *p, size_t from, size_t to)
{
    uint8_t *now = need_malloc(to - from);
    if (to > from)
        assert_ok(comet_gpu_read(p->rig->gpu, (comet_gpu_pointer){p->memory, from}, now, to - from));
    for (size_t i = from; i < to; i++)
        if (now[i - from] != canary_at(p, i))
            fail_because("byte %zu of a buffer with bytes %zu to %zu was written", i, p->margin, p->margin + p->bytes);
    free(now);
}

static void place_check(const place *p)
{
    check_margin(p, 0, p->margin);
    check_margin(p, p->margin + p->bytes, p->bytes + 2 * p->margin);
}

static void place_free(place *p)
{
    comet_gpu_release(p->rig->gpu, p->memory);
}

static void place_write(const place *p, const void *from, size_t bytes)
{
    if (bytes)
        assert_ok(comet_gpu_write(p->rig->gpu, pointer_to(p), from, bytes));
}

static void place_read(const place *p, void *to, size_t bytes)
{
    if (bytes)
        assert_ok(comet_gpu_read(p->rig->gpu, pointer_to(p), to, bytes));
}

static comet_gpu_plan plan_for(const sample_case *c)
{
    comet_gpu_plan plan;
    comet_gpu_plan_init(&plan);
    assert_ok(comet_gpu_plan_tensor(&c->tensor, &c->params, &plan));
    return plan;
}

/* ---- encoding ---- */

/* Fails with the first difference. */
static void compare_frames(const sample_case *c, blob expected, const uint8_t *got, uint64_t bytes)
{
    size_t i = 0, most = bytes < expected.bytes ? (size_t)bytes : expected.bytes;
    while (i < most && got[i] == expected.data[i])
        i++;
    if (i < most || bytes != expected.bytes)
        fail_because("%s: the device's frame has %llu bytes, the CPU's %zu; they differ from byte %zu on", case_text(c),
                     (unsigned long long)bytes, expected.bytes, i);
}

static void encode_on_device(rig *r, const sample_case *c, blob expected, const comet_stats *stats)
{
    comet_gpu_plan plan = plan_for(c);
    comet_gpu_result result;
    size_t capacity = r->exact ? expected.bytes : (size_t)plan.frame_bytes; /* just enough, or what any frame takes */
    place src = place_make(r, (size_t)plan.tensor_bytes, 1), frame = place_make(r, capacity, 2),
          work = place_make(r, (size_t)plan.encode_bytes, 3), out = place_make(r, sizeof result, 4);
    place_write(&src, c->x, (size_t)plan.tensor_bytes);
    assert_ok(comet_gpu_encode(r->gpu, &c->tensor, &c->params, pointer_to(&src), pointer_to(&frame), capacity,
                               pointer_to(&work), pointer_to(&out), NULL));
    place_read(&out, &result, sizeof result);
    uint8_t *got = need_malloc(frame.bytes);
    place_read(&frame, got, frame.bytes);
    if (result.status != COMET_OK)
        fail_because("%s: status %u, %llu bytes; the CPU's frame has %zu", case_text(c), result.status,
                     (unsigned long long)result.bytes, expected.bytes);
    compare_frames(c, expected, got, result.bytes);
    assert_int_equal(result.n_outliers, stats->n_outliers);
    assert_int_equal(result.n_chunks_raw, stats->n_chunks_raw);
    free(got);
    place *all[] = {&src, &frame, &work, &out};
    for (int i = 0; i < N_PLACES; i++) {
        place_check(all[i]);
        place_free(all[i]);
    }
}

blob rig_encode(rig *r, const sample_case *c)
{
    comet_stats stats;
    comet_stats_init(&stats);
    comet_encoder *encoder = new_encoder(NULL, 1);
    blob expected = encode(encoder, &c->tensor, &c->params, c->x, &stats);
    comet_encoder_destroy(encoder);
    encode_on_device(r, c, expected, &stats);
    r->n_frames++;
    r->n_values += elements_of(&c->tensor);
    return expected;
}

/* ---- decoding ---- */

/* May the device refuse a frame that the CPU reads? Only one with another header than the parameters say, or with chunks of
 * level dense. */
static bool may_refuse(const sample_case *c, blob frame)
{
    frame_header h;
    if (frame_read_header(frame.data, frame.bytes, &h) != COMET_OK)
        return true;
    size_t bytes = (size_t)frame_header_bytes(c->tensor.n_dims);
    comet_params p = c->params;
    comet_gpu_plan plan = plan_for(c);
    bool same = h.tensor.n_dims == c->tensor.n_dims && h.chunk_elements == plan.chunk_elements && h.n_chunks == plan.n_chunks;
    blob fresh = encode(NULL, &c->tensor, &p, c->x, NULL);
    same = same && memcmp(fresh.data, frame.data, 56) == 0 && memcmp(fresh.data + 64, frame.data + 64, bytes - 72) == 0;
    free(fresh.data);
    uint64_t at = frame_prefix_bytes(h.tensor.n_dims, h.n_chunks);
    for (uint64_t k = 0; same && k < h.n_chunks && at < frame.bytes; at += frame_chunk_bytes(&h, frame.data, k), k++)
        same = frame.data[at] != CHUNK_DENSE;
    return !same;
}

static void compare_decoded(rig *r, const sample_case *c, blob frame, bool damaged, const comet_gpu_result *result,
                            const uint8_t *got, size_t bytes)
{
    uint8_t *expected = need_malloc(bytes);
    size_t n = 0;
    comet_isa cap = comet_isa_active();
    if (damaged) /* codes out of range: families need not agree, the plain one says what the formula gives */
        comet_isa_set_cap(COMET_ISA_REFERENCE);
    comet_status status = comet_decompress(frame.data, frame.bytes, expected, bytes, &n);
    comet_isa_set_cap(cap);
    if (status == COMET_OK && n == bytes && result->status == COMET_OK) {
        for (size_t i = 0; i < bytes; i++)
            if (got[i] != expected[i])
                fail_because("%s: byte %zu of %zu is %u, on the CPU %u", case_text(c), i, bytes, got[i], expected[i]);
        r->n_values += elements_of(&c->tensor);
    } else if (result->status == COMET_OK) {
        fail_because("%s: the device reads a frame that the CPU refuses: %s", case_text(c), comet_last_error());
    } else if (status == COMET_OK && !(damaged && may_refuse(c, frame))) {
        fail_because("%s: the device refuses a frame that the CPU reads: status %u, chunk %u", case_text(c), result->status,
                     result->chunk);
    }
    r->n_refused += result->status != COMET_OK;
    free(expected);
}

comet_status rig_decode(rig *r, const sample_case *c, blob frame, bool damaged)
{
    comet_gpu_plan plan = plan_for(c);
    comet_gpu_result result;
    size_t bytes = (size_t)plan.tensor_bytes;
    place dst = place_make(r, bytes, 5), in = place_make(r, frame.bytes, 6), work = place_make(r, (size_t)plan.decode_bytes, 7),
          out = place_make(r, sizeof result, 8);
    place_write(&in, frame.data, frame.bytes);
    assert_ok(comet_gpu_decode(r->gpu, &c->tensor, &c->params, pointer_to(&in), frame.bytes, pointer_to(&dst),
                               pointer_to(&work), pointer_to(&out), NULL));
    place_read(&out, &result, sizeof result);
    uint8_t *got = need_malloc(bytes);
    place_read(&dst, got, bytes);
    compare_decoded(r, c, frame, damaged, &result, got, bytes);
    free(got);
    r->n_frames += !damaged;
    r->n_damaged += damaged;
    place *all[] = {&dst, &in, &work, &out};
    for (int i = 0; i < N_PLACES; i++) {
        place_check(all[i]);
        place_free(all[i]);
    }
    return (comet_status)result.status;
}

static void check_summary(rig *r, const sample_case *c)
{
    comet_gpu_plan plan = plan_for(c);
    comet_gpu_summary s;
    comet_stats stats;
    comet_stats_init(&stats);
    comet_encoder *encoder = new_encoder(NULL, 1);
    free(encode(encoder, &c->tensor, &c->params, c->x, &stats).data);
    comet_encoder_destroy(encoder);
    place src = place_make(r, (size_t)plan.tensor_bytes, 9), work = place_make(r, (size_t)plan.summary_bytes, 10),
          out = place_make(r, sizeof s, 11);
    place_write(&src, c->x, (size_t)plan.tensor_bytes);
    assert_ok(comet_gpu_summarise(r->gpu, &c->tensor, pointer_to(&src), pointer_to(&work), pointer_to(&out), NULL));
    place_read(&out, &s, sizeof s);
    assert_int_equal(s.n_nonzero, stats.n_nonzero);
    assert_int_equal(s.n_nonfinite, stats.n_nonfinite);
    assert_true(s.min == stats.min && s.max == stats.max);
    assert_near(s.sum_of_squares, stats.sum_of_squares, 1e-5 * stats.sum_of_squares);
    place *all[] = {&src, &work, &out};
    for (int i = 0; i < 3; i++) {
        place_check(all[i]);
        place_free(all[i]);
    }
}

void rig_check(rig *r, const sample_case *c)
{
    blob frame = rig_encode(r, c);
    assert_int_equal(rig_decode(r, c, frame, false), COMET_OK);
    check_summary(r, c);
    free(frame.data);
}

/* ---- every way of quantising ---- */

enum mode_kind { KIND_PLAIN, KIND_SUPPORT, KIND_NONZERO, KIND_HIDDEN_ZEROS, KIND_DITHER, N_MODE_KINDS };
enum { MODE_ELEMENTS = 40000, MODE_RUN = 64 };

/* Is the element in a run of 64 where keep support looks for zeros? See choice_runs in codec/choice.c. */
static bool in_sampled_run(uint64_t i, uint64_t n, uint64_t n_runs)
{
    const uint64_t part = n / n_runs, k = i / part;
    const uint64_t first = k * part + ((k + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 33) % (part - MODE_RUN + 1);
    return i >= first && i < first + MODE_RUN;
}

static bool is_zero(const sample_case *c, enum mode_kind kind, uint64_t i)
{
    const bool dense = c->params.level == COMET_LEVEL_DENSE;
    const uint64_t chunk = plan_for(c).chunk_elements, first = i / chunk * chunk;
    const uint64_t n = MODE_ELEMENTS - first < chunk ? MODE_ELEMENTS - first : chunk;
    return kind == KIND_SUPPORT ? i % 3 == 0 : kind == KIND_HIDDEN_ZEROS && !in_sampled_run(i - first, n, dense ? 32 : 10);
}

/* Two elements that fail, far apart, and the rest within 2^15 of zero or, not wide, within 1. */
static void fill_for_mode(const sample_case *c, enum mode_kind kind, bool wide, uint64_t seed)
{
    test_rng rng = {seed};
    uint8_t *x = (uint8_t *)(uintptr_t)c->x;
    for (uint64_t i = 0; i < MODE_ELEMENTS; i++) {
        float v = (0.01f + (float)rng_unit(&rng)) * (wide ? 32768.0f : 1.0f) * (rng_chance(&rng, 2) ? -1.0f : 1.0f);
        v = is_zero(c, kind, i) ? 0 : i == 100 || i == 39000 ? INFINITY : v;
        if (c->tensor.dtype == COMET_DTYPE_F32)
            memcpy(x + 4 * i, &v, 4);
        else
            store_u16(x + 2 * i, c->tensor.dtype == COMET_DTYPE_F16 ? f16_of_float(v) : bf16_of_float(v));
    }
}

void rig_check_modes(rig *r)
{
    static const comet_dtype dtypes[] = {COMET_DTYPE_F32, COMET_DTYPE_F16, COMET_DTYPE_BF16};
    const uint64_t dims[] = {MODE_ELEMENTS / 100, 100};
    void *x = need_malloc(MODE_ELEMENTS * sizeof(float));
    for (unsigned i = 0; i < 2 * 3 * N_MODE_KINDS * 2; i++) {
        const enum mode_kind kind = (enum mode_kind)(i / 2 % N_MODE_KINDS);
        sample_case c = {.tensor = tensor_of(dtypes[i / 2 / N_MODE_KINDS % 3], COMET_LAYOUT_PLANAR, 2, dims), .x = x};
        c.params = params_of(i < 3 * N_MODE_KINDS * 2 ? COMET_LEVEL_FAST : COMET_LEVEL_DENSE, 0.02);
        c.params.profile = COMET_PROFILE_DEVICE;
        c.params.keep_support = kind == KIND_SUPPORT || kind == KIND_NONZERO || kind == KIND_HIDDEN_ZEROS;
        c.params.dither = kind == KIND_DITHER;
        fill_for_mode(&c, kind, i % 2, i);
        rig_check(r, &c);
    }
    free(x);
}

/* ---- damage ---- */

/* Puts checksums right, as far as the frame's lengths allow. */
static void repair(blob f, uint32_t n_dims, uint64_t n_chunks)
{
    size_t header = (size_t)frame_header_bytes(n_dims), entries = (size_t)n_chunks * INDEX_ENTRY_BYTES;
    store_u64(f.data + header - CHECKSUM_BYTES, comet_checksum(f.data, header - CHECKSUM_BYTES));
    store_u64(f.data + header + entries, comet_checksum(f.data + header, entries));
}

static void damage(test_rng *rng, blob f, uint32_t n_dims, uint64_t n_chunks)
{
    size_t n = 1 + rng_below(rng, 3), prefix = (size_t)frame_prefix_bytes(n_dims, n_chunks);
    size_t first = rng_chance(rng, 8) ? 0 : prefix; /* seldom in header or index */
    for (size_t i = 0; i < n && f.bytes > first; i++) {
        size_t at = first + (size_t)rng_below(rng, f.bytes - first);
        if (rng_chance(rng, 3) && f.bytes > prefix) /* where lengths and kinds are */
            at = prefix + (size_t)rng_below(rng, f.bytes - prefix < 96 ? f.bytes - prefix : 96);
        uint8_t value = (uint8_t)rng_next(rng);
        f.data[at] = rng_chance(rng, 2) ? value : (uint8_t)(f.data[at] ^ 1u << rng_below(rng, 8));
    }
    if (!rng_chance(rng, 6))
        repair(f, n_dims, n_chunks);
}

void rig_check_damaged(rig *r, const sample_case *c, test_rng *rng, size_t n_frames)
{
    comet_gpu_plan plan = plan_for(c);
    blob whole = encode(NULL, &c->tensor, &c->params, c->x, NULL);
    for (size_t i = 0; i < n_frames; i++) {
        blob f = {need_malloc(whole.bytes), whole.bytes};
        memcpy(f.data, whole.data, whole.bytes);
        damage(rng, f, c->tensor.n_dims, plan.n_chunks);
        if (rng_chance(rng, 12)) /* cut short */
            f.bytes = (size_t)rng_below(rng, f.bytes);
        rig_decode(r, c, f, true);
        free(f.data);
    }
    free(whole.data);
}

/* ---- random cases ---- */

static comet_tensor random_tensor(test_rng *rng, uint64_t most)
{
    static const comet_dtype dtypes[] = {COMET_DTYPE_F32, COMET_DTYPE_F32, COMET_DTYPE_F16, COMET_DTYPE_BF16};
    comet_layout layout = (comet_layout)rng_below(rng, COMET_LAYOUT_BLOCKED16 + 1);
    uint32_t n_dims = layout == COMET_LAYOUT_PLANAR ? 1 + (uint32_t)rng_below(rng, 4) : 3 + (uint32_t)rng_below(rng, 2);
    uint64_t dims[COMET_MAX_DIMS], left;
    if (layout == COMET_LAYOUT_BLOCKED8 || layout == COMET_LAYOUT_BLOCKED16)
        most = most / 8 + 1; /* channels are rounded up */
    left = 1 + rng_below(rng, most);
    for (uint32_t i = 0; i < n_dims; i++) {
        uint64_t d = i + 1 == n_dims ? left : 1 + rng_below(rng, left < 300 ? left : 300);
        dims[n_dims - 1 - i] = d;
        left = left / d ? left / d : 1;
    }
    return tensor_of(dtypes[rng_below(rng, 4)], layout, n_dims, dims);
}

sample_case random_case(test_rng *rng, uint64_t most)
{
    static const uint64_t chunks[] = {0, 0, 0, 0, 64, 100, 777, 4096, 5000, 8191};
    static const double bounds[] = {0, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.3, 2, 1e30};
    sample_case c = {.tensor = random_tensor(rng, most), .params = params_of(COMET_LEVEL_FAST, bounds[rng_below(rng, 9)])};
    enum data_class class = (enum data_class)rng_below(rng, N_DATA_CLASSES);
    c.params.profile = COMET_PROFILE_DEVICE;
    c.params.level = rng_chance(rng, 3) ? COMET_LEVEL_DENSE : COMET_LEVEL_FAST;
    c.params.chunk_elements = chunks[rng_below(rng, 10)];
    if (c.params.level == COMET_LEVEL_DENSE && c.params.chunk_elements)
        c.params.chunk_elements += 4000; /* small parts take as many steps as large ones */
    c.params.keep_support = rng_chance(rng, 3);
    c.params.dither = !c.params.keep_support && c.params.bound > 0 && rng_chance(rng, 5);
    c.params.dither_seed = rng_next(rng);
    if (rng_chance(rng, 16))
        c.params.bound_mode = COMET_BOUND_LOSSLESS, c.params.dither = false;
    c.x = make_data(rng_next(rng), class, &c.tensor);
    c.name = data_class_name(class);
    return c;
}

void case_free(sample_case *c)
{
    free((void *)(uintptr_t)c->x);
}

const char *case_text(const sample_case *c)
{
    static char text[256];
    int n = snprintf(text, sizeof text, "level %d, %s, dtype %d, layout %d, dims", (int)c->params.level, c->name ? c->name : "",
                     (int)c->tensor.dtype, (int)c->tensor.layout);
    for (uint32_t i = 0; i < c->tensor.n_dims; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %llu", (unsigned long long)c->tensor.dims[i]);
    snprintf(text + n, sizeof text - (size_t)n, ", bound %g mode %d, chunks of %llu%s%s", c->params.bound,
             (int)c->params.bound_mode, (unsigned long long)c->params.chunk_elements,
             c->params.keep_support ? ", keep support" : "", c->params.dither ? ", dither" : "");
    return text;
}

uint64_t gpu_test_number(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}
