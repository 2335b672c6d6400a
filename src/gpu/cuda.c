/* The back end CUDA: the driver compiles the PTX in the library when a device is opened, or NVRTC the sources where it cannot.
 * Each call makes the device's context current and leaves the caller's as it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "gpu/backend.h"
#include "gpu/cuda_api.h"
#include "gpu_ptx.h"

enum { LEAST_CAPABILITY = 70 };

typedef struct cuda_device {
    const cuda_api *cuda;
    int id, capability;
    bool retained; /* the context is the device's primary one, kept by us */
    cuda_object *context, *stream, *modules[2];
    cuda_object *kernels[N_GPU_KERNELS];
} cuda_device;

static comet_status enter(const cuda_device *d)
{
    return cuda_check(d->cuda, d->cuda->push(d->context), "making the context current");
}

static comet_status leave(const cuda_device *d, int code, const char *what)
{
    cuda_object *popped;
    const comet_status status = cuda_check(d->cuda, code, what);
    d->cuda->pop(&popped);
    return status;
}

/* ---- finding devices ---- */

static comet_status count(unsigned *n)
{
    const cuda_api *cuda = cuda_load();
    int found = 0;
    *n = cuda && cuda->device_count(&found) == CUDA_SUCCESS && found > 0 ? (unsigned)found : 0;
    return COMET_OK;
}

static int attribute(const cuda_api *cuda, int id, int what)
{
    int v = 0;
    return cuda->device_attribute(&v, what, id) == CUDA_SUCCESS ? v : 0;
}

static int capability_of(const cuda_api *cuda, int id)
{
    return 10 * attribute(cuda, id, CUDA_CAPABILITY_MAJOR) + attribute(cuda, id, CUDA_CAPABILITY_MINOR);
}

static comet_status device_at(unsigned index, const cuda_api **cuda, int *id)
{
    *cuda = cuda_load();
    if (!*cuda)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "no device cuda:%u: there is no driver", index);
    return cuda_check(*cuda, (*cuda)->device_get(id, (int)index), "finding the device");
}

static comet_status describe(unsigned index, comet_gpu_info *info)
{
    const cuda_api *cuda;
    int id = 0, version = 0;
    size_t bytes = 0;
    TRY(device_at(index, &cuda, &id));
    if (cuda->device_name(info->device, (int)sizeof info->device, id) != CUDA_SUCCESS)
        info->device[0] = 0;
    cuda->driver_version(&version);
    const int capability = capability_of(cuda, id);
    snprintf(info->driver, sizeof info->driver, "CUDA %d.%d, sm_%d", version / 1000, version % 1000 / 10, capability);
    info->memory_bytes = cuda->device_memory(&bytes, id) == CUDA_SUCCESS ? bytes : 0;
    info->n_units = (uint32_t)attribute(cuda, id, CUDA_MULTIPROCESSORS);
    info->shared_bytes = (uint32_t)attribute(cuda, id, CUDA_SHARED_BYTES);
    if (capability < LEAST_CAPABILITY)
        snprintf(info->unfit, sizeof info->unfit, "its compute capability is %d.%d; at least 7.0 is needed", capability / 10,
                 capability % 10);
    return COMET_OK;
}

/* ---- opening ---- */

static void close_device(void *opaque)
{
    cuda_device *d = opaque;
    cuda_object *popped;
    if (d->context && d->cuda->push(d->context) == CUDA_SUCCESS) {
        for (int i = 0; i < 2; i++)
            if (d->modules[i])
                d->cuda->module_unload(d->modules[i]);
        if (d->stream)
            d->cuda->stream_destroy(d->stream);
        d->cuda->pop(&popped);
    }
    if (d->retained)
        d->cuda->primary_release(d->id);
    free(d);
}

static comet_status take_context(cuda_device *d, const comet_gpu_context *lent)
{
    int id = -1;
    if (!lent) {
        TRY(cuda_check(d->cuda, d->cuda->primary_retain(&d->context, d->id), "making a context"));
        d->retained = true;
        return COMET_OK;
    }
    d->context = lent->context;
    TRY(enter(d));
    TRY(leave(d, d->cuda->context_device(&id), "looking at the context"));
    if (id != d->id) {
        d->context = NULL;
        return comet_fail(COMET_ERROR_ARGUMENT, "the context that was lent is of device %d, not %d", id, d->id);
    }
    return COMET_OK;
}

/* Drivers read PTX up to the first 0. */
static char *ptx_text(int bits)
{
    const char *from = bits == 16 ? kernels_16_ptx : kernels_32_ptx;
    const size_t bytes = bits == 16 ? sizeof kernels_16_ptx : sizeof kernels_32_ptx;
    char *text = calloc(bytes + 1, 1);
    return text ? memcpy(text, from, bytes) : NULL;
}

/* The context is current. */
static comet_status load_module(cuda_device *d, int bits, cuda_object **module)
{
    char *ptx = ptx_text(bits);
    if (!ptx)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate the text of the kernels");
    const int code = d->cuda->module_load(module, ptx);
    free(ptx);
    if (code == CUDA_SUCCESS)
        return COMET_OK;
    if (code == CUDA_ERROR_OUT_OF_MEMORY)
        return cuda_check(d->cuda, code, "loading the kernels");
    TRY(cuda_compile(d->capability, bits, &ptx));
    const comet_status status = cuda_check(d->cuda, d->cuda->module_load(module, ptx), "loading the kernels");
    free(ptx);
    return status;
}

static comet_status load_all(cuda_device *d)
{
    TRY(load_module(d, 16, &d->modules[0]));
    TRY(load_module(d, 32, &d->modules[1]));
    for (int k = 0; k < N_GPU_KERNELS; k++) {
        const char *name = gpu_kernel_name((enum gpu_kernel)k);
        cuda_object *module = d->modules[gpu_kernel_bits((enum gpu_kernel)k) / 32];
        TRY(cuda_check(d->cuda, d->cuda->module_function(&d->kernels[k], module, name), name));
    }
    return cuda_check(d->cuda, d->cuda->stream_create(&d->stream, CUDA_STREAM_NON_BLOCKING), "making a stream");
}

static comet_status fill_device(unsigned index, const comet_gpu_context *lent, cuda_device *d)
{
    cuda_object *popped;
    TRY(device_at(index, &d->cuda, &d->id));
    d->capability = capability_of(d->cuda, d->id);
    if (d->capability < LEAST_CAPABILITY)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "cuda:%u has compute capability %d.%d; at least 7.0 is needed", index,
                          d->capability / 10, d->capability % 10);
    TRY(take_context(d, lent));
    TRY(enter(d));
    const comet_status status = load_all(d);
    d->cuda->pop(&popped);
    return status;
}

static comet_status open_device(unsigned index, const comet_gpu_context *lent, void **device)
{
    cuda_device *d = calloc(1, sizeof *d);
    if (!d)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes", sizeof *d);
    const comet_status status = fill_device(index, lent, d);
    if (status != COMET_OK)
        close_device(d);
    else
        *device = d;
    return status;
}

static void *context_of(void *device)
{
    return ((cuda_device *)device)->context;
}

/* ---- work ---- */

/* The default streams have no context of their own: they are those of the current one. */
static comet_status check_queue(void *device, void *queue)
{
    const cuda_device *d = device;
    cuda_object *context = NULL;
    if ((uintptr_t)queue <= CUDA_LAST_NAMED_STREAM)
        return COMET_OK;
    TRY(enter(d));
    TRY(leave(d, d->cuda->stream_context(queue, &context), "looking at the stream"));
    return context == d->context ? COMET_OK : comet_fail(COMET_ERROR_ARGUMENT, "the stream is of another context");
}

static comet_status launch(void *device, void *queue, enum gpu_kernel kernel, uint32_t n_groups, const gpu_buffers *buffers,
                           const gpu_job *job)
{
    const cuda_device *d = device;
    gpu_buffers b = *buffers;
    gpu_job copy = *job;
    void *arguments[] = {&b.x, &b.frame, &b.work, &b.result, &copy};
    TRY(enter(d));
    return leave(
        d, d->cuda->launch(d->kernels[kernel], n_groups, 1, 1, GROUP, 1, 1, 0, queue ? queue : d->stream, arguments, NULL),
        gpu_kernel_name(kernel));
}

/* ---- memory ---- */

static comet_status allocate(void *device, size_t bytes, uint64_t *memory)
{
    const cuda_device *d = device;
    TRY(enter(d));
    return leave(d, d->cuda->allocate(memory, bytes ? bytes : 1), "allocating");
}

static void release(void *device, uint64_t memory)
{
    const cuda_device *d = device;
    if (enter(d) == COMET_OK)
        leave(d, d->cuda->release(memory), "releasing");
}

static comet_status finish(void *device)
{
    const cuda_device *d = device;
    TRY(enter(d));
    return leave(d, d->cuda->stream_wait(d->stream), "waiting for the device");
}

static comet_status write_memory(void *device, uint64_t memory, uint64_t offset, const void *from, size_t bytes)
{
    const cuda_device *d = device;
    TRY(enter(d));
    TRY(leave(d, d->cuda->write(memory + offset, from, bytes, d->stream), "writing to the device"));
    return finish(device);
}

static comet_status read_memory(void *device, uint64_t memory, uint64_t offset, void *to, size_t bytes)
{
    const cuda_device *d = device;
    TRY(enter(d));
    TRY(leave(d, d->cuda->read(to, memory + offset, bytes, d->stream), "reading from the device"));
    return finish(device);
}

static comet_status copy_memory(void *device, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                                size_t bytes)
{
    const cuda_device *d = device;
    TRY(enter(d));
    return leave(d, d->cuda->copy(to + to_offset, from + from_offset, bytes, d->stream), "copying on the device");
}

const gpu_backend gpu_cuda = {.name = "cuda",
                              .has_addresses = true,
                              .count = count,
                              .describe = describe,
                              .open = open_device,
                              .close = close_device,
                              .context = context_of,
                              .check_queue = check_queue,
                              .launch = launch,
                              .allocate = allocate,
                              .release = release,
                              .write = write_memory,
                              .read = read_memory,
                              .copy = copy_memory,
                              .finish = finish};
