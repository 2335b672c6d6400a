/* Decompression of whole frames and of ranges of chunks; chunks are independent, so each worker takes the next one. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/float_env.h"
#include "base/status.h"
#include "codec/context.h"

/* Above this many bytes of output, written lines would push each other out of the cache anyway. */
#define STREAM_BYTES ((size_t)8 << 20)

struct comet_decoder {
    context context;
};

typedef struct run {
    comet_decoder *decoder;
    const chunk_plan *plan;
    const frame_header *header;
    const uint8_t *frame;
    uint8_t *dst;
    uint64_t first, n_chunks;
    uint64_t begin; /* of the first chunk, in bytes */
    bool stream;
    atomic_uint_fast64_t next;
    atomic_int status;
    char error[256]; /* sentence of the failure in status */
} run;

/* Where chunk k begins, given that chunk `from` begins at `at`. */
static uint64_t advance(const run *r, uint64_t from, uint64_t at, uint64_t k)
{
    for (; from < k; from++)
        at += frame_chunk_bytes(r->header, r->frame, from);
    return at;
}

static void fail(run *r, comet_status status)
{
    int ok = COMET_OK;
    if (atomic_compare_exchange_strong(&r->status, &ok, (int)status))
        snprintf(r->error, sizeof r->error, "%s", comet_last_error());
}

static comet_status decode_chunk(run *r, workspace *ws, uint64_t k, const uint8_t *payload, size_t bytes)
{
    const frame_header *h = r->header;
    if (h->flags & FLAG_CHECKSUM && (uint32_t)comet_checksum(payload, bytes) != frame_chunk_checksum(h, r->frame, k))
        return comet_fail(COMET_ERROR_CORRUPT, "chunk %llu does not match its checksum", (unsigned long long)k);
    if ((size_t)(r->frame + h->frame_bytes - (payload + bytes)) < READ_SLACK && bytes >= CHUNK_HEADER_BYTES &&
        payload[0] != CHUNK_RAW) {
        memcpy(ws->out.data, payload, bytes);
        memset((uint8_t *)ws->out.data + bytes, 0, READ_SLACK);
        payload = ws->out.data;
    }
    size_t offset = (size_t)((k - r->first) * h->chunk_elements) * comet_dtype_bytes(h->tensor.dtype);
    comet_status status = chunk_decode(r->plan, ws, k, payload, bytes, r->dst + offset, frame_chunk_length(h, k), r->stream);
    if (r->stream)
        comet_store_fence();
    return status;
}

static void work(void *arg, size_t index)
{
    run *r = arg;
    workspace *ws = &r->decoder->context.workers[index];
    fenv_t host;
    float_env_enter(&host);
    uint64_t from = r->first, at = r->begin;
    for (;;) {
        uint64_t k = r->first + atomic_fetch_add(&r->next, 1);
        if (k >= r->first + r->n_chunks || atomic_load(&r->status) != COMET_OK)
            break;
        at = advance(r, from, at, k);
        from = k;
        comet_status status = decode_chunk(r, ws, k, r->frame + at, frame_chunk_bytes(r->header, r->frame, k));
        if (status != COMET_OK)
            fail(r, status);
    }
    float_env_leave(&host);
}

/* Finds the buffers that the chunks of the range need, from their first bytes. */
static chunk_needs examine(const run *r)
{
    chunk_needs needs = {0};
    uint64_t at = r->begin;
    for (uint64_t k = r->first; k < r->first + r->n_chunks; k++) {
        size_t bytes = frame_chunk_bytes(r->header, r->frame, k);
        chunk_examine(r->frame + at, bytes, &needs);
        at += bytes;
        if (r->header->frame_bytes - at < READ_SLACK && bytes + READ_SLACK > needs.copy_bytes)
            needs.copy_bytes = bytes + READ_SLACK;
    }
    return needs;
}

static chunk_plan plan_of(const comet_decoder *decoder, const frame_header *h)
{
    chunk_plan plan = {.kernels = decoder->context.kernels,
                       .dtype = h->tensor.dtype,
                       .shape = h->shape,
                       .chunk_elements = h->chunk_elements,
                       .lossless = h->flags & FLAG_LOSSLESS,
                       .level = h->level,
                       .profile = h->profile,
                       .seed = h->seed};
    enum quantiser_mode mode = h->flags & FLAG_DITHER    ? QUANTISE_DITHER
                               : h->flags & FLAG_SUPPORT ? QUANTISE_SUPPORT
                                                         : QUANTISE_PLAIN;
    fenv_t host;
    float_env_enter(&host);
    quantiser_make(h->tensor.dtype, h->eb, mode, &plan.quantiser);
    float_env_leave(&host);
    return plan;
}

static comet_status run_range(comet_decoder *decoder, const frame_header *h, const uint8_t *frame, uint64_t first,
                              uint64_t n_chunks, uint8_t *dst, size_t bytes)
{
    context *c = &decoder->context;
    chunk_plan plan = plan_of(decoder, h);
    run r = {.decoder = decoder, .plan = &plan, .header = h, .frame = frame, .dst = dst, .first = first, .n_chunks = n_chunks};
    r.begin = advance(&r, 0, frame_prefix_bytes(h->tensor.n_dims, h->n_chunks), first);
    r.stream = bytes >= STREAM_BYTES;
    chunk_needs needs = examine(&r);
    size_t n_workers = (size_t)min_u64(c->n_workers, n_chunks);
    for (size_t i = 0; i < n_workers; i++) {
        comet_status status = workspace_reserve_decoder(&c->workers[i], &c->allocator, &plan, &needs);
        if (status != COMET_OK)
            return status;
    }
    if (n_workers)
        comet_pool_run(c->pool, n_workers, work, &r);
    if (atomic_load(&r.status) != COMET_OK)
        return comet_fail((comet_status)atomic_load(&r.status), "%s", r.error);
    return COMET_OK;
}

/* Checks everything that can be wrong before the first chunk is read. */
static comet_status open_frame(const comet_decoder *decoder, const void *frame, size_t frame_bytes, const void *dst,
                               const size_t *bytes, frame_header *h)
{
    if (!decoder || !frame || !bytes)
        return comet_fail(COMET_ERROR_ARGUMENT, "decompression: null pointer");
    comet_status status = frame_read_header(frame, frame_bytes, h);
    if (status == COMET_OK)
        status = frame_check_index(h, frame, frame_bytes);
    if (status != COMET_OK)
        return status;
    if (!dst && h->shape.n_elements)
        return comet_fail(COMET_ERROR_ARGUMENT, "the destination is null");
    if ((uintptr_t)dst % comet_dtype_bytes(h->tensor.dtype))
        return comet_fail(COMET_ERROR_ARGUMENT, "the destination is not aligned to its element size, %zu bytes",
                          comet_dtype_bytes(h->tensor.dtype));
    return COMET_OK;
}

/* Decodes chunks [first, first + n_chunks) of a frame whose header is known to be good. */
static comet_status decode_range(comet_decoder *decoder, const frame_header *h, const void *frame, uint64_t first,
                                 uint64_t n_chunks, void *dst, size_t dst_capacity, size_t *bytes)
{
    uint64_t begin = min_u64(first * h->chunk_elements, h->shape.n_elements);
    uint64_t end = min_u64((first + n_chunks) * h->chunk_elements, h->shape.n_elements);
    size_t needed = (size_t)(end - begin) * comet_dtype_bytes(h->tensor.dtype);
    if (needed > dst_capacity)
        return comet_fail(COMET_ERROR_CAPACITY, "the destination has %zu bytes; the elements need %zu", dst_capacity, needed);
    comet_status status = run_range(decoder, h, frame, first, n_chunks, dst, needed);
    if (status == COMET_OK)
        *bytes = needed;
    return status;
}

comet_status comet_decoder_run_chunks(comet_decoder *decoder, const void *frame, size_t frame_bytes, uint64_t first_chunk,
                                      uint64_t n_chunks, void *dst, size_t dst_capacity, size_t *bytes)
{
    frame_header h;
    comet_status status = open_frame(decoder, frame, frame_bytes, dst, bytes, &h);
    if (status != COMET_OK)
        return status;
    if (first_chunk > h.n_chunks || n_chunks > h.n_chunks - first_chunk)
        return comet_fail(COMET_ERROR_ARGUMENT, "%llu chunks from chunk %llu on, of a frame that has %llu",
                          (unsigned long long)n_chunks, (unsigned long long)first_chunk, (unsigned long long)h.n_chunks);
    return decode_range(decoder, &h, frame, first_chunk, n_chunks, dst, dst_capacity, bytes);
}

comet_status comet_decoder_run(comet_decoder *decoder, const void *frame, size_t frame_bytes, void *dst, size_t dst_capacity,
                               size_t *bytes)
{
    frame_header h;
    comet_status status = open_frame(decoder, frame, frame_bytes, dst, bytes, &h);
    if (status != COMET_OK)
        return status;
    return decode_range(decoder, &h, frame, 0, h.n_chunks, dst, dst_capacity, bytes);
}

comet_status comet_decoder_create(comet_decoder **out, const comet_hooks *hooks, size_t n_threads)
{
    if (!out)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_decoder_create: null pointer");
    comet_status status = context_check_hooks(hooks);
    if (status != COMET_OK)
        return status;
    comet_allocator allocator = comet_allocator_of(hooks);
    comet_decoder *decoder = comet_allocate(&allocator, sizeof *decoder);
    if (!decoder)
        return COMET_ERROR_MEMORY;
    status = context_open(&decoder->context, hooks, n_threads, "decoder");
    if (status != COMET_OK)
        comet_release(&allocator, decoder, sizeof *decoder);
    else
        *out = decoder;
    return status;
}

void comet_decoder_destroy(comet_decoder *decoder)
{
    if (!decoder)
        return;
    comet_allocator allocator = decoder->context.allocator;
    context_close(&decoder->context);
    comet_release(&allocator, decoder, sizeof *decoder);
}

comet_status comet_decompress(const void *frame, size_t frame_bytes, void *dst, size_t dst_capacity, size_t *bytes)
{
    comet_decoder *decoder;
    comet_status status = comet_decoder_create(&decoder, NULL, 1);
    if (status != COMET_OK)
        return status;
    status = comet_decoder_run(decoder, frame, frame_bytes, dst, dst_capacity, bytes);
    comet_decoder_destroy(decoder);
    return status;
}
