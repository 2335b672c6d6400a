/* Frames; see frameio.h. */
#include "tensor/frameio.h"

#include <inttypes.h>
#include <stdlib.h>

#include "kit/pages.h"

cli_exit frame_encode(const comet_tensor *tensor, const comet_params *params, const void *data, size_t n_threads,
                      const char *subject, blob *frame, comet_stats *stats)
{
    comet_encoder *encoder = NULL;
    size_t capacity = 0;
    cli_exit code = CLI_OK;
    *frame = (blob){0};
    comet_status status = comet_compress_bound(tensor, params, &capacity);
    if (status == COMET_OK)
        status = comet_encoder_create(&encoder, NULL, n_threads);
    if (status == COMET_OK) {
        frame->data = pages_alloc(capacity);
        if (!frame->data)
            code = fail_memory(capacity);
        else
            status = comet_encoder_run(encoder, tensor, params, data, frame->data, capacity, &frame->bytes, stats);
    }
    if (status != COMET_OK)
        code = fail_status(status, subject);
    if (code != CLI_OK)
        blob_free(frame);
    comet_encoder_destroy(encoder);
    return code;
}

void frame_free(loaded_frame *frame)
{
    blob_free(&frame->file);
}

cli_exit frame_load(const char *path, loaded_frame *frame)
{
    cli_exit code = file_read(path, &frame->file);
    if (code != CLI_OK)
        return code;
    comet_frame_info_init(&frame->info);
    const comet_status status = comet_frame_describe(frame->file.data, frame->file.bytes, &frame->info);
    if (status == COMET_ERROR_ARGUMENT)
        code = fail(CLI_BAD_INPUT, "%s: %s", path, comet_last_error());
    else if (status != COMET_OK)
        code = fail_status(status, path);
    else if (frame->file.bytes != frame->info.frame_bytes)
        code = fail(CLI_BAD_INPUT, "%s: %s: the frame has %" PRIu64 " bytes, the file %zu", path,
                    frame->file.bytes < frame->info.frame_bytes ? "truncated" : "bytes left over at the end",
                    frame->info.frame_bytes, frame->file.bytes);
    if (code != CLI_OK)
        frame_free(frame);
    return code;
}

/* Bytes of the decoded chunks; 0 where `chunks` is out of range, which the library then reports. */
static size_t decoded_size(const comet_frame_info *info, range_arg chunks)
{
    if (!chunks.given)
        return (size_t)info->tensor_bytes;
    if (chunks.first >= info->n_chunks || chunks.count > info->n_chunks - chunks.first)
        return 0;
    const uint64_t left = info->n_elements - chunks.first * info->chunk_elements;
    const bool to_the_end = chunks.count == info->n_chunks - chunks.first;
    return (size_t)(to_the_end ? left : chunks.count * info->chunk_elements) * comet_dtype_bytes(info->tensor.dtype);
}

cli_exit frame_decode(const loaded_frame *frame, const char *path, size_t n_threads, range_arg chunks, blob *decoded)
{
    const blob *file = &frame->file;
    comet_decoder *decoder = NULL;
    const size_t capacity = decoded_size(&frame->info, chunks);
    *decoded = (blob){.data = pages_alloc(capacity)};
    if (!decoded->data)
        return fail_memory(capacity);
    comet_status status = comet_decoder_create(&decoder, NULL, n_threads);
    if (status == COMET_OK && !chunks.given)
        status = comet_decoder_run(decoder, file->data, file->bytes, decoded->data, capacity, &decoded->bytes);
    else if (status == COMET_OK)
        status = comet_decoder_run_chunks(decoder, file->data, file->bytes, chunks.first, chunks.count, decoded->data, capacity,
                                          &decoded->bytes);
    comet_decoder_destroy(decoder);
    if (status == COMET_OK)
        return CLI_OK;
    blob_free(decoded);
    return fail_status(status, path);
}
