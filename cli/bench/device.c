/* Devices through comet/gpu.h; see device.h. Without comet::gpu in the build there are none. */
#include "bench/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/frameio.h"

#ifdef COMET_HAVE_GPU
#include "comet/gpu.h"

enum { SRC, FRAME, WORK, RESULT, DST, N_PLACES };

struct device {
    comet_gpu *gpu;
    comet_tensor tensor;
    comet_params params;
    const void *src;
    comet_gpu_plan plan;
    uint64_t memory[N_PLACES];
    size_t frame_bytes;
};

const char *device_missing(void)
{
    return NULL;
}

static void add_facts(const char *backend, unsigned index, device_facts *f)
{
    comet_gpu_info info;
    char name[24];
    comet_gpu_info_init(&info);
    snprintf(name, sizeof name, "%s:%u", backend, index);
    *f = (device_facts){.memory_bytes = 0};
    if (comet_gpu_describe(name, &info) != COMET_OK)
        snprintf(info.unfit, sizeof info.unfit, "%s", comet_last_error());
    memcpy(f->name, name, sizeof f->name);
    memcpy(f->device, info.device, sizeof f->device);
    memcpy(f->driver, info.driver, sizeof f->driver);
    memcpy(f->unfit, info.unfit, sizeof f->unfit);
    f->memory_bytes = info.memory_bytes;
    f->n_units = info.n_units;
    f->shared_bytes = info.shared_bytes;
    f->is_cpu = info.is_cpu;
}

unsigned device_list(device_facts list[DEVICES_MOST])
{
    static const char *const backends[] = {"cuda", "opencl"};
    unsigned n = 0;
    for (size_t b = 0; b < 2; b++) {
        unsigned found = 0;
        if (comet_gpu_count(backends[b], &found) != COMET_OK)
            continue;
        for (unsigned i = 0; i < found && n < DEVICES_MOST; i++)
            add_facts(backends[b], i, &list[n++]);
    }
    return n;
}

static cli_exit check(comet_status status, const char *subject)
{
    return status == COMET_OK ? CLI_OK : fail_status(status, subject);
}

cli_exit device_open(const char *name, device **d)
{
    device *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(sizeof *made);
    const comet_status status = comet_gpu_open(name, NULL, &made->gpu);
    if (status == COMET_OK)
        *d = made;
    else
        free(made);
    return check(status, name);
}

static void release_all(device *d)
{
    for (int i = 0; i < N_PLACES; i++) {
        comet_gpu_release(d->gpu, d->memory[i]);
        d->memory[i] = 0;
    }
}

void device_close(device *d)
{
    if (!d)
        return;
    release_all(d);
    comet_gpu_close(d->gpu);
    free(d);
}

static comet_gpu_pointer at(const device *d, int place)
{
    return (comet_gpu_pointer){d->memory[place], 0};
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

cli_exit device_prepare(device *d, const comet_tensor *tensor, const comet_params *params, const void *src, size_t *capacity)
{
    d->tensor = *tensor;
    d->params = *params;
    d->src = src;
    comet_gpu_plan_init(&d->plan);
    release_all(d);
    comet_status status = comet_gpu_plan_tensor(tensor, params, &d->plan);
    const uint64_t bytes[N_PLACES] = {d->plan.tensor_bytes, d->plan.frame_bytes,
                                      most(d->plan.encode_bytes, d->plan.decode_bytes), sizeof(comet_gpu_result),
                                      d->plan.tensor_bytes};
    for (int i = 0; i < N_PLACES && status == COMET_OK; i++)
        status = comet_gpu_allocate(d->gpu, bytes[i] + 16, &d->memory[i]);
    if (status == COMET_OK)
        status = comet_gpu_write(d->gpu, at(d, SRC), src, d->plan.tensor_bytes);
    *capacity = (size_t)d->plan.frame_bytes;
    return check(status, "device");
}

/* Waits, and gets the device's own status. */
static cli_exit take_result(device *d, comet_gpu_result *result)
{
    const comet_status status = comet_gpu_read(d->gpu, at(d, RESULT), result, sizeof *result);
    if (status == COMET_OK && result->status != COMET_OK)
        return fail(CLI_BAD_INPUT, "device: %s, chunk %u", comet_status_name((comet_status)result->status), result->chunk);
    return check(status, "device");
}

cli_exit device_encode(device *d, size_t *frame_bytes)
{
    comet_gpu_result result;
    cli_exit code = check(comet_gpu_encode(d->gpu, &d->tensor, &d->params, at(d, SRC), at(d, FRAME), d->plan.frame_bytes,
                                           at(d, WORK), at(d, RESULT), NULL),
                          "device");
    if (code == CLI_OK)
        code = take_result(d, &result);
    if (code == CLI_OK)
        *frame_bytes = d->frame_bytes = (size_t)result.bytes;
    return code;
}

cli_exit device_decode(device *d)
{
    comet_gpu_result result;
    const cli_exit code = check(comet_gpu_decode(d->gpu, &d->tensor, &d->params, at(d, FRAME), d->frame_bytes, at(d, DST),
                                                 at(d, WORK), at(d, RESULT), NULL),
                                "device");
    return code == CLI_OK ? take_result(d, &result) : code;
}

cli_exit device_copy(device *d)
{
    comet_status status = comet_gpu_copy(d->gpu, at(d, DST), at(d, SRC), d->plan.tensor_bytes);
    if (status == COMET_OK)
        status = comet_gpu_finish(d->gpu);
    return check(status, "device");
}

cli_exit device_read_frame(device *d, void *frame)
{
    return check(comet_gpu_read(d->gpu, at(d, FRAME), frame, d->frame_bytes), "device");
}

cli_exit device_read_tensor(device *d, void *tensor)
{
    return check(comet_gpu_read(d->gpu, at(d, DST), tensor, d->plan.tensor_bytes), "device");
}

cli_exit device_compare(const device *d, const void *frame, size_t frame_bytes, bool *same)
{
    blob expected = {0};
    const cli_exit code = frame_encode(&d->tensor, &d->params, d->src, 1, "device", &expected, NULL);
    if (code == CLI_OK)
        *same = expected.bytes == frame_bytes && memcmp(expected.data, frame, frame_bytes) == 0;
    blob_free(&expected);
    return code;
}

#else

const char *device_missing(void)
{
    return "this build was configured with COMET_BUILD_GPU=OFF";
}

unsigned device_list(device_facts list[DEVICES_MOST])
{
    (void)list;
    return 0;
}

cli_exit device_open(const char *name, device **d)
{
    (void)d;
    return fail(CLI_FAILED, "%s: %s", name, device_missing());
}

/* Nothing is ever opened. */
void device_close(device *d)
{
    (void)d;
}

cli_exit device_prepare(device *d, const comet_tensor *tensor, const comet_params *params, const void *src, size_t *capacity)
{
    (void)tensor;
    (void)params;
    (void)src;
    (void)capacity;
    return device_decode(d);
}

cli_exit device_encode(device *d, size_t *frame_bytes)
{
    (void)frame_bytes;
    return device_decode(d);
}

cli_exit device_decode(device *d)
{
    (void)d;
    return fail(CLI_FAILED, "%s", device_missing());
}

cli_exit device_copy(device *d)
{
    return device_decode(d);
}

cli_exit device_read_frame(device *d, void *frame)
{
    (void)frame;
    return device_decode(d);
}

cli_exit device_read_tensor(device *d, void *tensor)
{
    (void)tensor;
    return device_decode(d);
}

cli_exit device_compare(const device *d, const void *frame, size_t frame_bytes, bool *same)
{
    (void)d;
    (void)frame;
    (void)frame_bytes;
    (void)same;
    return fail(CLI_FAILED, "%s", device_missing());
}

#endif
