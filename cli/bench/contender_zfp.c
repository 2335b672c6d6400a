/*
 * zfp as a contender: 2-D in accuracy mode (reversible where the bound is 0), serial. The last dimension in memory is x, all
 * others together are y: planes are stacked.
 */
#include "bench/contender.h"

#if defined(COMET_HAVE_ZFP) && COMET_HAVE_ZFP

#include <stdlib.h>
#include <zfp.h>

#include "tensor/tensorio.h"

typedef struct zfp_state {
    const contender_task *task;
    zfp_stream *stream;
    zfp_field *field;
} zfp_state;

static bool accepts(const contender_task *task)
{
    const comet_dtype dtype = task->tensor->dtype;
    return task->bytes > 0 && (dtype == COMET_DTYPE_F32 || dtype == COMET_DTYPE_F64);
}

static void close_state(void *opaque)
{
    zfp_state *state = opaque;
    if (state->field)
        zfp_field_free(state->field);
    if (state->stream)
        zfp_stream_close(state->stream);
    free(state);
}

static cli_exit open_state(const contender_task *task, void **opaque, size_t *capacity)
{
    uint64_t shape[COMET_NPY_MAX_DIMS];
    const size_t nx = (size_t)shape[memory_shape(task->tensor, shape) - 1];
    const size_t ny = task->bytes / comet_dtype_bytes(task->tensor->dtype) / nx;
    zfp_state *state = calloc(1, sizeof *state);
    if (!state)
        return fail_memory(sizeof *state);
    state->task = task;
    state->stream = zfp_stream_open(NULL);
    state->field = zfp_field_2d(NULL, task->tensor->dtype == COMET_DTYPE_F32 ? zfp_type_float : zfp_type_double, nx, ny);
    if (!state->stream || !state->field) {
        close_state(state);
        return fail(CLI_NO_MEMORY, "out of memory: could not create a zfp stream");
    }
    if (task->eb > 0)
        zfp_stream_set_accuracy(state->stream, task->eb);
    else
        zfp_stream_set_reversible(state->stream);
    *capacity = zfp_stream_maximum_size(state->stream, state->field);
    *opaque = state;
    return CLI_OK;
}

/* Points the stream at a buffer and the field at the elements; NULL if zfp gave no stream. */
static bitstream *attach(const zfp_state *state, void *frame, size_t bytes, void *elements)
{
    bitstream *bits = stream_open(frame, bytes);
    if (bits) {
        zfp_stream_set_bit_stream(state->stream, bits);
        zfp_stream_rewind(state->stream);
        zfp_field_set_pointer(state->field, elements);
    }
    return bits;
}

static cli_exit compress(void *opaque, void *dst, size_t capacity, size_t *frame_bytes)
{
    const zfp_state *state = opaque;
    void *elements = (void *)(uintptr_t)state->task->src; /* read only, but zfp's type has no const */
    bitstream *bits = attach(state, dst, capacity, elements);
    const size_t bytes = bits ? zfp_compress(state->stream, state->field) : 0;
    if (bits)
        stream_close(bits);
    *frame_bytes = bytes;
    return bytes > 0 ? CLI_OK : fail(CLI_FAILED, "zfp: compression failed");
}

static cli_exit decompress(void *opaque, void *frame, size_t frame_bytes, void *dst)
{
    const zfp_state *state = opaque;
    bitstream *bits = attach(state, frame, frame_bytes, dst);
    const size_t bytes = bits ? zfp_decompress(state->stream, state->field) : 0;
    if (bits)
        stream_close(bits);
    return bytes > 0 ? CLI_OK : fail(CLI_FAILED, "zfp: decompression failed");
}

static const contender zfp = {.name = "zfp",
                              .level = "accuracy",
                              .accepts = accepts,
                              .open = open_state,
                              .compress = compress,
                              .decompress = decompress,
                              .close = close_state};

const contender *contender_zfp(void)
{
    return &zfp;
}
const char *contender_zfp_version(void)
{
    return ZFP_VERSION_STRING;
}

#else

const contender *contender_zfp(void)
{
    return NULL;
}
const char *contender_zfp_version(void)
{
    return NULL;
}

#endif
