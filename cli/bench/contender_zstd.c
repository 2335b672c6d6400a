/* zstd as a contender: level 1, lossless, on the bytes as they are. */
#include "bench/contender.h"

#if defined(COMET_HAVE_ZSTD) && COMET_HAVE_ZSTD

#include <stdlib.h>
#include <zstd.h>

typedef struct zstd_state {
    const contender_task *task;
    ZSTD_CCtx *encoder;
    ZSTD_DCtx *decoder;
} zstd_state;

static bool accepts(const contender_task *task)
{
    return task->bytes > 0;
}

static void close_state(void *opaque)
{
    zstd_state *state = opaque;
    ZSTD_freeCCtx(state->encoder);
    ZSTD_freeDCtx(state->decoder);
    free(state);
}

static cli_exit open_state(const contender_task *task, void **opaque, size_t *capacity)
{
    zstd_state *state = calloc(1, sizeof *state);
    if (!state)
        return fail_memory(sizeof *state);
    state->task = task;
    state->encoder = ZSTD_createCCtx();
    state->decoder = ZSTD_createDCtx();
    if (!state->encoder || !state->decoder) {
        close_state(state);
        return fail(CLI_NO_MEMORY, "out of memory: could not create a zstd context");
    }
    *capacity = ZSTD_compressBound(task->bytes);
    *opaque = state;
    return CLI_OK;
}

static cli_exit check(size_t result)
{
    return ZSTD_isError(result) ? fail(CLI_FAILED, "zstd: %s", ZSTD_getErrorName(result)) : CLI_OK;
}

static cli_exit compress(void *opaque, void *dst, size_t capacity, size_t *frame_bytes)
{
    const zstd_state *state = opaque;
    *frame_bytes = ZSTD_compressCCtx(state->encoder, dst, capacity, state->task->src, state->task->bytes, 1);
    return check(*frame_bytes);
}

static cli_exit decompress(void *opaque, void *frame, size_t frame_bytes, void *dst)
{
    const zstd_state *state = opaque;
    return check(ZSTD_decompressDCtx(state->decoder, dst, state->task->bytes, frame, frame_bytes));
}

static const contender zstd = {.name = "zstd",
                               .level = "1",
                               .accepts = accepts,
                               .open = open_state,
                               .compress = compress,
                               .decompress = decompress,
                               .close = close_state};

const contender *contender_zstd(void)
{
    return &zstd;
}
const char *contender_zstd_version(void)
{
    return ZSTD_versionString();
}

#else

const contender *contender_zstd(void)
{
    return NULL;
}
const char *contender_zstd_version(void)
{
    return NULL;
}

#endif
