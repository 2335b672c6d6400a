/* Sessions: their parts, and the frames that they encode and decode. */
#define _GNU_SOURCE /* MADV_DONTNEED */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "blocks.h"
#include "huge_pages.h"

/* Bytes of the scratch buffer that stay resident between calls: one huge page. Backward, when memory peaks, encodes nothing. */
#define SCRATCH_KEPT ((size_t)2 << 20)

const char *comet_native_version(void)
{
    return comet_version();
}

const char *comet_native_last_error(void)
{
    return comet_last_error();
}

/* ---- scratch ---- */

static comet_status scratch_reserve(scratch *s, size_t bytes)
{
    if (bytes <= s->bytes)
        return COMET_OK;
    if (s->data)
        munmap(s->data, s->bytes);
    *s = (scratch){0};
    bytes = huge_pages_round(bytes);
    void *data = huge_pages_map(bytes);
    if (!data)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not map %zu bytes to encode into", bytes);
    *s = (scratch){.data = data, .bytes = bytes};
    return COMET_OK;
}

/* The first `touched` bytes may have been written: pages beyond what is kept go back to the system. */
static void scratch_trim(scratch *s, size_t touched)
{
    if (touched > SCRATCH_KEPT)
        madvise((char *)s->data + SCRATCH_KEPT, s->bytes - SCRATCH_KEPT, MADV_DONTNEED);
    const size_t kept = touched < SCRATCH_KEPT ? touched : SCRATCH_KEPT;
    s->touched = kept > s->touched ? kept : s->touched;
}

/* ---- sessions ---- */

static comet_status create_contexts(comet_native_session *s, uint32_t n_threads, int how, void *entry)
{
    TRY(workers_create(&s->workers, n_threads, how, entry));
    TRY(block_pool_create(&s->pool));
    comet_hooks hooks;
    comet_hooks_init(&hooks);
    hooks.parallel = workers_hook(s->workers);
    TRY(comet_encoder_create(&s->encoder, &hooks, workers_threads(s->workers)));
    return comet_decoder_create(&s->decoder, &hooks, workers_threads(s->workers));
}

int comet_native_create(comet_native_session **out, uint32_t n_threads, int how, void *entry)
{
    if (!out)
        return comet_fail(COMET_ERROR_ARGUMENT, "the place for the session is null");
    comet_native_session *s = calloc(1, sizeof *s);
    if (!s)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes", sizeof *s);
    s->owner = getpid();
    pthread_mutex_init(&s->encoding, NULL);
    pthread_mutex_init(&s->decoding, NULL);
    const comet_status status = create_contexts(s, n_threads, how, entry);
    if (status != COMET_OK)
        comet_native_destroy(s);
    else
        *out = s;
    return status;
}

void comet_native_destroy(comet_native_session *session)
{
    if (!session || session->owner != getpid())
        return;
    comet_encoder_destroy(session->encoder);
    comet_decoder_destroy(session->decoder);
    block_pool_destroy(session->pool);
    workers_destroy(session->workers);
    if (session->scratch.data)
        munmap(session->scratch.data, session->scratch.bytes);
    pthread_mutex_destroy(&session->encoding);
    pthread_mutex_destroy(&session->decoding);
    free(session);
}

int comet_native_memory(comet_native_session *session, comet_native_figures *figures)
{
    if (!session || !figures || figures->size != sizeof *figures)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session and figures of %zu bytes are needed", sizeof *figures);
    const block_pool_figures pool = block_pool_memory(session->pool);
    figures->bytes_used = pool.used;
    figures->bytes_reserved = pool.reserved;
    figures->peak_used = pool.peak_used;
    figures->peak_reserved = pool.peak_reserved;
    figures->n_blocks = pool.n_blocks;
    pthread_mutex_lock(&session->encoding);
    figures->bytes_scratch = session->scratch.touched;
    pthread_mutex_unlock(&session->encoding);
    return COMET_OK;
}

/* ---- jobs ---- */

static comet_status read_job(const comet_native_job *job, comet_tensor *tensor, comet_params *params)
{
    if (!job || job->size != sizeof *job)
        return comet_fail(COMET_ERROR_ARGUMENT, "a job of %zu bytes is needed", sizeof *job);
    TRY(comet_tensor_init(tensor, (comet_dtype)job->dtype, job->n_dims, job->dims));
    tensor->layout = (comet_layout)job->layout;
    comet_params_init(params);
    params->bound_mode = (comet_bound_mode)job->bound_mode;
    params->bound = job->bound;
    params->level = (comet_level)job->level;
    params->min_ratio = job->min_ratio;
    params->keep_support = job->keep_support != 0;
    params->dither = job->dither != 0;
    params->dither_seed = job->dither_seed;
    params->content_checksum = job->checksum != 0;
    params->chunk_elements = job->chunk_elements;
    params->profile = (comet_profile)job->profile;
    return COMET_OK;
}

static void write_job(comet_native_job *job, const comet_stats *stats, const comet_native_block *block)
{
    job->bytes_block = comet_native_block_bytes(block);
    job->eb = stats->eb;
    job->bytes_raw = stats->bytes_in;
    job->bytes_coded = stats->bytes_out;
    job->n_nonzero = stats->n_nonzero;
    job->n_nonfinite = stats->n_nonfinite;
    job->sum_of_squares = stats->sum_of_squares;
    job->min = stats->min;
    job->max = stats->max;
    job->seconds = stats->seconds_total;
}

int comet_native_sizes(const comet_native_job *job, size_t *tensor_bytes, size_t *frame_bytes)
{
    comet_tensor tensor;
    comet_params params;
    size_t raw = 0, coded = 0;
    TRY(read_job(job, &tensor, &params));
    TRY(comet_tensor_bytes(&tensor, &raw));
    if (frame_bytes)
        TRY(comet_compress_bound(&tensor, &params, &coded));
    if (tensor_bytes)
        *tensor_bytes = raw;
    if (frame_bytes)
        *frame_bytes = coded;
    return COMET_OK;
}

/* ---- frames in blocks ---- */

/* The frame in the scratch buffer becomes a block. */
static comet_status keep_frame(comet_native_session *session, const comet_tensor *tensor, const comet_stats *stats,
                               comet_native_block **out)
{
    comet_native_block *block = NULL;
    TRY(block_create(session, BLOCK_FRAME, stats->bytes_out, stats->bytes_in, &block));
    memcpy(block_payload(block), session->scratch.data, (size_t)stats->bytes_out);
    block->element_bytes = (uint32_t)comet_dtype_bytes(tensor->dtype);
    *out = block;
    return COMET_OK;
}

/* Encodes into the scratch buffer; the session's encoder is locked. */
static comet_status encode_locked(comet_native_session *session, comet_native_job *job, const void *src,
                                  comet_native_block **out)
{
    comet_tensor tensor;
    comet_params params;
    comet_stats stats;
    size_t capacity = 0, bytes = 0;
    TRY(read_job(job, &tensor, &params));
    TRY(comet_compress_bound(&tensor, &params, &capacity));
    TRY(scratch_reserve(&session->scratch, capacity));
    comet_stats_init(&stats);
    comet_status status =
        comet_encoder_run(session->encoder, &tensor, &params, src, session->scratch.data, capacity, &bytes, &stats);
    /* A search for a ratio, or a run that failed, may have written more than the frame. */
    const bool one_run = status == COMET_OK && params.bound_mode != COMET_BOUND_RATIO;
    if (status == COMET_OK)
        status = keep_frame(session, &tensor, &stats, out);
    if (status == COMET_OK)
        write_job(job, &stats, *out);
    scratch_trim(&session->scratch, one_run ? bytes : capacity);
    return status;
}

int comet_native_encode(comet_native_session *session, comet_native_job *job, const void *src, comet_native_block **out)
{
    if (!session || !out)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session and a place for the block are needed");
    pthread_mutex_lock(&session->encoding);
    const comet_status status = encode_locked(session, job, src, out);
    pthread_mutex_unlock(&session->encoding);
    return status;
}

static comet_status decode_frame(comet_native_session *session, const void *frame, size_t frame_bytes, void *dst,
                                 size_t capacity, size_t *bytes)
{
    pthread_mutex_lock(&session->decoding);
    const comet_status status = comet_decoder_run(session->decoder, frame, frame_bytes, dst, capacity, bytes);
    pthread_mutex_unlock(&session->decoding);
    return status;
}

int comet_native_decode(comet_native_session *session, const comet_native_block *block, void *dst, size_t dst_bytes)
{
    if (!session || !block || (!dst && dst_bytes))
        return comet_fail(COMET_ERROR_ARGUMENT, "a session, a block and a destination are needed");
    if (dst_bytes != block->raw_bytes)
        return comet_fail(COMET_ERROR_CAPACITY, "the destination has %zu bytes; the block holds %llu", dst_bytes,
                          (unsigned long long)block->raw_bytes);
    if (block->kind == BLOCK_FRAME) {
        size_t bytes = 0;
        return decode_frame(session, block_payload_const(block), (size_t)block->payload_bytes, dst, dst_bytes, &bytes);
    }
    TRY(array_check(dst, block->element_bytes, dst_bytes / block->element_bytes));
    if (block->kind == BLOCK_TWO)
        two_unpack(session, block, dst);
    else if (block->kind == BLOCK_WINDOWS)
        windows_unpack(session, block, dst);
    else
        integers_unpack(session, block, dst);
    return COMET_OK;
}

/* ---- whole frames ---- */

int comet_native_compress(comet_native_session *session, comet_native_job *job, const void *src, void *dst, size_t capacity,
                          size_t *frame_bytes)
{
    comet_tensor tensor;
    comet_params params;
    comet_stats stats;
    if (!session)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session is needed");
    TRY(read_job(job, &tensor, &params));
    comet_stats_init(&stats);
    pthread_mutex_lock(&session->encoding);
    const comet_status status = comet_encoder_run(session->encoder, &tensor, &params, src, dst, capacity, frame_bytes, &stats);
    pthread_mutex_unlock(&session->encoding);
    if (status == COMET_OK)
        write_job(job, &stats, NULL);
    return status;
}

int comet_native_decompress(comet_native_session *session, const void *frame, size_t frame_bytes, void *dst, size_t capacity,
                            size_t *bytes)
{
    if (!session)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session is needed");
    return decode_frame(session, frame, frame_bytes, dst, capacity, bytes);
}
