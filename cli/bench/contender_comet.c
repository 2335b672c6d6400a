/* Our own codec as a contender: contexts are made before the clock starts, as a training run would. */
#include <stdlib.h>

#include "bench/contender.h"

typedef struct comet_state {
    const contender_task *task;
    comet_params params;
    comet_encoder *encoder;
    comet_decoder *decoder;
} comet_state;

static bool accepts(const contender_task *task)
{
    (void)task;
    return true;
}

static void close_state(void *opaque)
{
    comet_state *state = opaque;
    comet_encoder_destroy(state->encoder);
    comet_decoder_destroy(state->decoder);
    free(state);
}

static cli_exit open_state(const contender_task *task, void **opaque, size_t *capacity)
{
    comet_state *state = calloc(1, sizeof *state);
    if (!state)
        return fail_memory(sizeof *state);
    state->task = task;
    comet_params_init(&state->params);
    state->params.bound_mode = COMET_BOUND_ABSOLUTE;
    state->params.bound = task->eb;
    state->params.level = task->level;
    state->params.profile = task->profile;
    state->params.keep_support = task->keep_support;
    state->params.dither = task->dither;
    comet_status status = comet_encoder_create(&state->encoder, NULL, task->n_threads);
    if (status == COMET_OK)
        status = comet_decoder_create(&state->decoder, NULL, task->n_threads);
    if (status == COMET_OK)
        status = comet_compress_bound(task->tensor, &state->params, capacity);
    if (status != COMET_OK) {
        close_state(state);
        return fail_status(status, "comet");
    }
    *opaque = state;
    return CLI_OK;
}

static cli_exit compress(void *opaque, void *dst, size_t capacity, size_t *frame_bytes)
{
    comet_state *state = opaque;
    const comet_status status = comet_encoder_run(state->encoder, state->task->tensor, &state->params, state->task->src, dst,
                                                  capacity, frame_bytes, NULL);
    return status == COMET_OK ? CLI_OK : fail_status(status, "comet");
}

static cli_exit decompress(void *opaque, void *frame, size_t frame_bytes, void *dst)
{
    comet_state *state = opaque;
    size_t bytes = 0;
    const comet_status status = comet_decoder_run(state->decoder, frame, frame_bytes, dst, state->task->bytes, &bytes);
    return status == COMET_OK ? CLI_OK : fail_status(status, "comet");
}

const contender contender_comet = {.name = "comet",
                                   .level = NULL,
                                   .accepts = accepts,
                                   .open = open_state,
                                   .compress = compress,
                                   .decompress = decompress,
                                   .close = close_state};
