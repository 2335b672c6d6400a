/* Our codec on a device: tensor and frame stay in its memory while the clock runs, as they would in training. */
#include <stdlib.h>

#include "bench/contender.h"
#include "bench/device.h"

typedef struct device_state {
    device *device;
} device_state;

static bool accepts(const contender_task *task)
{
    (void)task;
    return true;
}

static void close_state(void *opaque)
{
    device_state *state = opaque;
    device_close(state->device);
    free(state);
}

static cli_exit open_state(const contender_task *task, void **opaque, size_t *capacity)
{
    comet_params params;
    device_state *state = calloc(1, sizeof *state);
    if (!state)
        return fail_memory(sizeof *state);
    comet_params_init(&params);
    params.bound_mode = COMET_BOUND_ABSOLUTE;
    params.bound = task->eb;
    params.level = task->level;
    params.profile = COMET_PROFILE_DEVICE;
    params.keep_support = task->keep_support;
    params.dither = task->dither;
    cli_exit code = device_open(task->device, &state->device);
    if (code == CLI_OK)
        code = device_prepare(state->device, task->tensor, &params, task->src, capacity);
    if (code != CLI_OK) {
        close_state(state);
        return code;
    }
    *opaque = state;
    return CLI_OK;
}

static cli_exit compress(void *opaque, void *dst, size_t capacity, size_t *frame_bytes)
{
    (void)dst;
    (void)capacity;
    return device_encode(((device_state *)opaque)->device, frame_bytes);
}

static cli_exit decompress(void *opaque, void *frame, size_t frame_bytes, void *dst)
{
    (void)frame;
    (void)frame_bytes;
    (void)dst;
    return device_decode(((device_state *)opaque)->device);
}

static cli_exit fetch(void *opaque, void *frame, size_t frame_bytes, void *dst, bool *same_bytes)
{
    device *d = ((device_state *)opaque)->device;
    cli_exit code = device_read_frame(d, frame);
    if (code == CLI_OK)
        code = device_read_tensor(d, dst);
    return code == CLI_OK ? device_compare(d, frame, frame_bytes, same_bytes) : code;
}

const contender contender_device = {.name = "comet",
                                    .level = NULL,
                                    .accepts = accepts,
                                    .open = open_state,
                                    .compress = compress,
                                    .decompress = decompress,
                                    .fetch = fetch,
                                    .close = close_state};
