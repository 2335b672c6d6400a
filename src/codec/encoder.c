/*
 * Compression of whole tensors.
 *
 * Each worker takes the next chunk, encodes it into its own workspace, waits its turn to claim the place after the chunk before
 * it, and copies it there. Chunks are taken in order by workers that are running, so the wait is short and always ends, and the
 * bytes do not depend on the number of workers.
 */
#include "codec/encoder.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/checksum.h"
#include "base/describe.h"
#include "base/float_env.h"
#include "base/status.h"

void comet_stats_init(comet_stats *stats)
{
    *stats = (comet_stats){.size = sizeof *stats};
}

/* ---- the run ---- */

typedef struct run {
    comet_encoder *encoder;
    const chunk_plan *plan;
    const uint8_t *src;
    uint8_t *dst;
    frame_header header;
    size_t capacity;
    double *sums;
    atomic_uint_fast64_t next; /* chunk to take */
    atomic_uint_fast64_t turn; /* chunk that may claim its place */
    atomic_uint_fast64_t end;  /* bytes claimed; only who has the turn changes it */
    chunk_stats *stats;        /* one a worker */
} run;

/* Waits for chunk k's turn and claims `bytes` bytes; returns where they begin. */
static uint64_t claim(run *r, uint64_t k, size_t bytes)
{
    for (unsigned spins = 0; atomic_load_explicit(&r->turn, memory_order_acquire) != k; spins++)
        if (spins > 64)
            comet_pool_relax();
    uint64_t begin = atomic_load_explicit(&r->end, memory_order_relaxed);
    atomic_store_explicit(&r->end, begin + bytes, memory_order_relaxed);
    atomic_store_explicit(&r->turn, k + 1, memory_order_release);
    return begin;
}

static void place(run *r, uint64_t k, const chunk_payload *p)
{
    uint64_t begin = claim(r, k, p->bytes);
    if (begin + p->bytes > r->capacity)
        return; /* counted all the same: the caller learns how much it needs */
    memcpy(r->dst + begin, p->data, p->bytes);
    uint8_t *entry = frame_index_entry(&r->header, r->dst, k);
    store_u32(entry, (uint32_t)p->bytes);
    store_u32(entry + 4, r->header.flags & FLAG_CHECKSUM ? (uint32_t)comet_checksum(r->dst + begin, p->bytes) : 0);
}

static void work(void *arg, size_t index)
{
    run *r = arg;
    workspace *ws = &r->encoder->context.workers[index];
    fenv_t host;
    float_env_enter(&host);
    size_t chunk_bytes = (size_t)r->header.chunk_elements * comet_dtype_bytes(r->plan->dtype);
    for (;;) {
        uint64_t k = atomic_fetch_add(&r->next, 1);
        if (k >= r->header.n_chunks)
            break;
        chunk_payload p = chunk_encode(r->plan, ws, k, r->src + k * chunk_bytes, frame_chunk_length(&r->header, k),
                                       &r->stats[index], &r->sums[k]);
        place(r, k, &p);
    }
    float_env_leave(&host);
}

static comet_status reserve(comet_encoder *encoder, const chunk_plan *plan, uint64_t n_chunks)
{
    context *c = &encoder->context;
    size_t stats = c->n_workers * sizeof(chunk_stats);
    comet_status status = comet_buffer_reserve(&c->allocator, &encoder->sums, (size_t)n_chunks * sizeof(double) + stats);
    for (size_t i = 0; status == COMET_OK && n_chunks && i < c->n_workers; i++)
        status = workspace_reserve_encoder(&c->workers[i], &c->allocator, plan);
    return status;
}

static void fill_stats(const run *r, size_t n_workers, comet_stats *out)
{
    chunk_stats all;
    chunk_stats_init(&all);
    for (size_t i = 0; i < n_workers; i++) {
        const chunk_stats *s = &r->stats[i];
        all.min = s->min < all.min ? s->min : all.min;
        all.max = s->max > all.max ? s->max : all.max;
        all.n_nonzero += s->n_nonzero;
        all.n_nonfinite += s->n_nonfinite;
        all.n_outliers += s->n_outliers;
        for (int mode = 0; mode < N_CHUNK_MODES; mode++)
            all.n_chunks[mode] += s->n_chunks[mode];
        all.seconds_quantise += s->seconds_quantise;
        all.seconds_predict += s->seconds_predict;
        all.seconds_code += s->seconds_code;
    }
    double sum = 0;
    for (uint64_t k = 0; k < r->header.n_chunks; k++)
        sum += r->sums[k];
    bool any = all.min <= all.max;
    uint64_t bytes_in = r->header.shape.n_elements * comet_dtype_bytes(r->plan->dtype);
    *out = (comet_stats){.size = sizeof *out,
                         .eb = r->header.eb,
                         .bytes_in = bytes_in,
                         .bytes_out = r->header.frame_bytes,
                         .ratio = (double)bytes_in / (double)r->header.frame_bytes,
                         .n_elements = r->header.shape.n_elements,
                         .n_nonzero = all.n_nonzero,
                         .n_nonfinite = all.n_nonfinite,
                         .sum_of_squares = sum,
                         .min = any ? all.min + 0.0 : 0, /* -0 becomes 0 */
                         .max = any ? all.max + 0.0 : 0,
                         .n_outliers = all.n_outliers,
                         .n_chunks = r->header.n_chunks,
                         .n_chunks_raw = all.n_chunks[CHUNK_RAW],
                         .n_chunks_fast = all.n_chunks[CHUNK_FAST],
                         .n_chunks_dense = all.n_chunks[CHUNK_DENSE] + all.n_chunks[CHUNK_PARTS],
                         .seconds_quantise = all.seconds_quantise,
                         .seconds_predict = all.seconds_predict,
                         .seconds_code = all.seconds_code};
}

/* Encodes one frame with an absolute bound. Sets *frame_bytes even if the frame does not fit, unless not even the index
 * fits. */
static comet_status encode_frame(comet_encoder *encoder, chunk_plan *plan, const comet_tensor *tensor,
                                 const comet_params *params, const void *src, double eb, uint8_t *dst, size_t capacity,
                                 size_t *frame_bytes, comet_stats *stats)
{
    encoder_set_bound(plan, params, eb);
    run r = {.encoder = encoder, .plan = plan, .src = src, .dst = dst, .capacity = capacity};
    r.header = encoder_header(plan, tensor, params, eb);
    uint64_t prefix = frame_prefix_bytes(tensor->n_dims, r.header.n_chunks);
    if (prefix > capacity)
        return comet_fail(COMET_ERROR_CAPACITY, "the destination has %zu bytes; header and index alone need %llu", capacity,
                          (unsigned long long)prefix);
    comet_status status = reserve(encoder, plan, r.header.n_chunks);
    if (status != COMET_OK)
        return status;
    size_t n_workers = (size_t)min_u64(encoder->context.n_workers, r.header.n_chunks);
    r.stats = (chunk_stats *)encoder->sums.data;
    r.sums = (double *)(r.stats + encoder->context.n_workers);
    for (size_t i = 0; i < n_workers; i++)
        chunk_stats_init(&r.stats[i]);
    atomic_store(&r.end, prefix);
    if (n_workers)
        comet_pool_run(encoder->context.pool, n_workers, work, &r);
    r.header.frame_bytes = atomic_load(&r.end);
    *frame_bytes = (size_t)r.header.frame_bytes;
    if (r.header.frame_bytes > capacity)
        return comet_fail(COMET_ERROR_CAPACITY, "the destination has %zu bytes; the frame needs %zu", capacity, *frame_bytes);
    frame_write_header(&r.header, dst);
    fill_stats(&r, n_workers, stats);
    return COMET_OK;
}

/* What the search for a bound needs for one more attempt. */
typedef struct attempt {
    comet_encoder *encoder;
    chunk_plan *plan;
    const comet_tensor *tensor;
    const comet_params *params;
    const void *src;
    uint8_t *dst;
    size_t capacity;
    size_t bytes;
    comet_stats stats;
} attempt;

static comet_status attempt_at(attempt *a, double eb)
{
    return encode_frame(a->encoder, a->plan, a->tensor, a->params, a->src, eb, a->dst, a->capacity, &a->bytes, &a->stats);
}

/* Does the frame with this bound reach the target, whether it fits dst or not? Other failures go to *status. */
static bool reaches(attempt *a, double eb, comet_status *status)
{
    a->bytes = 0;
    *status = attempt_at(a, eb);
    if (*status == COMET_ERROR_CAPACITY && a->bytes > 0)
        *status = COMET_OK;
    double tensor_bytes = (double)a->plan->shape.n_elements * (double)comet_dtype_bytes(a->plan->dtype);
    return *status == COMET_OK && (tensor_bytes == 0 || tensor_bytes >= a->params->bound * (double)a->bytes);
}

/* The bound was found on samples, so whole frames decide. Widens the bound until the target is reached; after a large step, a
 * few steps of bisection narrow it again. */
static comet_status encode_to_ratio(attempt *a, double eb)
{
    enum { WIDENINGS = 12, REFINEMENTS = 4 };
    double missed = 0, step = 0.01;
    comet_status status;
    for (int i = 0; !reaches(a, eb, &status); i++, step *= 2) {
        if (status == COMET_OK && i == WIDENINGS)
            status = comet_fail(COMET_ERROR_UNREACHABLE, "no bound makes this tensor %g times smaller", a->params->bound);
        if (status != COMET_OK)
            return status;
        missed = eb;
        eb = fmin(fmax(eb, DBL_MIN) * (1 + step), 0x1p1020);
    }
    for (int i = 0; i < REFINEMENTS && missed > 0 && eb / missed > 1.02; i++) {
        double middle = sqrt(missed) * sqrt(eb);
        bool good = reaches(a, middle, &status);
        if (status != COMET_OK)
            return status;
        *(good ? &eb : &missed) = middle;
    }
    return attempt_at(a, eb);
}

comet_status comet_encoder_run(comet_encoder *encoder, const comet_tensor *tensor, const comet_params *params, const void *src,
                               void *dst, size_t capacity, size_t *frame_bytes, comet_stats *stats)
{
    double started = comet_seconds(), eb = 0;
    chunk_plan plan;
    comet_status status = encoder_plan(encoder, tensor, params, src, &plan);
    if (status == COMET_OK && (!dst || !frame_bytes))
        status = comet_fail(COMET_ERROR_ARGUMENT, "comet_encoder_run: null pointer");
    if (status == COMET_OK && stats)
        status = CHECK_SIZE(comet_stats, stats);
    if (status != COMET_OK)
        return status;
    fenv_t host;
    float_env_enter(&host);
    attempt a = {encoder, &plan, tensor, params, src, dst, capacity, 0, {0}};
    status = encoder_resolve_bound(encoder, &plan, params, src, &eb);
    double resolved = comet_seconds();
    if (status == COMET_OK)
        status = params->bound_mode == COMET_BOUND_RATIO ? encode_to_ratio(&a, eb) : attempt_at(&a, eb);
    float_env_leave(&host);
    if (status != COMET_OK)
        return status;
    *frame_bytes = a.bytes;
    a.stats.seconds_bound = resolved - started;
    a.stats.seconds_total = comet_seconds() - started;
    return stats ? GIVE(comet_stats, stats, &a.stats) : COMET_OK;
}

comet_status comet_encoder_create(comet_encoder **out, const comet_hooks *hooks, size_t n_threads)
{
    if (!out)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_encoder_create: null pointer");
    comet_status status = context_check_hooks(hooks);
    if (status != COMET_OK)
        return status;
    comet_allocator allocator = comet_allocator_of(hooks);
    comet_encoder *encoder = comet_allocate(&allocator, sizeof *encoder);
    if (!encoder)
        return COMET_ERROR_MEMORY;
    memset(encoder, 0, sizeof *encoder);
    status = context_open(&encoder->context, hooks, n_threads, "encoder");
    if (status != COMET_OK)
        comet_release(&allocator, encoder, sizeof *encoder);
    else
        *out = encoder;
    return status;
}

void comet_encoder_destroy(comet_encoder *encoder)
{
    if (!encoder)
        return;
    comet_allocator allocator = encoder->context.allocator;
    comet_buffer_free(&allocator, &encoder->sums);
    context_close(&encoder->context);
    comet_release(&allocator, encoder, sizeof *encoder);
}

comet_status comet_compress_bound(const comet_tensor *tensor, const comet_params *params, size_t *bytes)
{
    geometry g;
    comet_status status = encoder_check_params(params);
    if (status == COMET_OK)
        status = geometry_make(tensor, &g);
    if (status == COMET_OK && !bytes)
        status = comet_fail(COMET_ERROR_ARGUMENT, "comet_compress_bound: null pointer");
    if (status != COMET_OK)
        return status;
    uint64_t chunk =
        params->chunk_elements ? params->chunk_elements : geometry_chunk_elements(&g, params->level, params->profile);
    uint64_t n_chunks = ceil_div_u64(g.n_elements, chunk);
    uint64_t overhead = frame_prefix_bytes(tensor->n_dims, n_chunks) + n_chunks * CHUNK_HEADER_BYTES;
    uint64_t data = g.n_elements * comet_dtype_bytes(tensor->dtype);
    if (data > (uint64_t)PTRDIFF_MAX - overhead)
        return comet_fail(COMET_ERROR_OVERFLOW, "the worst case does not fit this machine's address space");
    *bytes = (size_t)(data + overhead);
    return COMET_OK;
}

comet_status comet_compress(const comet_tensor *tensor, const comet_params *params, const void *src, void *dst,
                            size_t dst_capacity, size_t *frame_bytes)
{
    comet_encoder *encoder;
    comet_status status = comet_encoder_create(&encoder, NULL, 1);
    if (status != COMET_OK)
        return status;
    status = comet_encoder_run(encoder, tensor, params, src, dst, dst_capacity, frame_bytes, NULL);
    comet_encoder_destroy(encoder);
    return status;
}
