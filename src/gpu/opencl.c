/* The back end OpenCL. The kernels are built from their sources when a device is opened, once for each width of codes. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "gpu/backend.h"
#include "gpu/opencl_api.h"

enum { MAX_DEVICES = 32, MAX_PLATFORMS = 16, N_PROGRAMS = 4 };
#define LEAST_SHARED ((uint64_t)44 << 10) /* what the kernel for 32-bit codes takes */

typedef struct opencl_device {
    const opencl_api *cl;
    cl_object *id, *context, *queue;
    cl_object *programs[N_PROGRAMS]; /* for codes of 16 and 32 bits; the last two are built without optimisation */
    cl_object *kernels[N_GPU_KERNELS];
} opencl_device;

/* ---- finding devices ---- */

static uint32_t list_devices(const opencl_api *cl, cl_object *devices[MAX_DEVICES])
{
    cl_object *platforms[MAX_PLATFORMS];
    uint32_t n_platforms = 0, n = 0;
    if (cl->clGetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms) != CL_SUCCESS)
        return 0;
    for (uint32_t p = 0; p < n_platforms && p < MAX_PLATFORMS && n < MAX_DEVICES; p++) {
        uint32_t more = 0;
        if (cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES - n, devices + n, &more) == CL_SUCCESS)
            n += more < MAX_DEVICES - n ? more : MAX_DEVICES - n;
    }
    return n;
}

static comet_status count(unsigned *n)
{
    cl_object *devices[MAX_DEVICES];
    const opencl_api *cl = opencl_load();
    *n = cl ? list_devices(cl, devices) : 0;
    return COMET_OK;
}

static comet_status device_at(unsigned index, const opencl_api **cl, cl_object **id)
{
    cl_object *devices[MAX_DEVICES];
    *cl = opencl_load();
    if (!*cl || index >= list_devices(*cl, devices))
        return comet_fail(COMET_ERROR_UNSUPPORTED, "no device opencl:%u", index);
    *id = devices[index];
    return COMET_OK;
}

/* A number of a device, whatever its size; 0 where the device does not say. */
static uint64_t number_of(const opencl_api *cl, cl_object *id, uint32_t what)
{
    uint64_t v = 0;
    return cl->clGetDeviceInfo(id, what, sizeof v, &v, NULL) == CL_SUCCESS ? v : 0;
}

static void text_of(const opencl_api *cl, cl_object *id, uint32_t what, char *text, size_t bytes)
{
    size_t length = 0;
    char *all = NULL;
    text[0] = 0;
    if (cl->clGetDeviceInfo(id, what, 0, NULL, &length) == CL_SUCCESS && (all = calloc(length + 1, 1)) &&
        cl->clGetDeviceInfo(id, what, length, all, NULL) == CL_SUCCESS)
        snprintf(text, bytes, "%s", all);
    free(all);
}

/* Why the device cannot be used; empty where it can. */
static void find_unfit(const opencl_api *cl, cl_object *id, char *why, size_t bytes)
{
    const uint64_t single_needs = CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST;
    const uint64_t shared = number_of(cl, id, CL_DEVICE_LOCAL_MEM_SIZE),
                   group = number_of(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    why[0] = 0;
    if (!number_of(cl, id, CL_DEVICE_AVAILABLE) || !number_of(cl, id, CL_DEVICE_COMPILER_AVAILABLE))
        snprintf(why, bytes, "it is not available, or has no compiler");
    else if (!number_of(cl, id, CL_DEVICE_ENDIAN_LITTLE))
        snprintf(why, bytes, "it is not little-endian");
    else if ((number_of(cl, id, CL_DEVICE_SINGLE_FP_CONFIG) & single_needs) != single_needs)
        snprintf(why, bytes, "its single precision lacks subnormal numbers, infinities or rounding to nearest");
    else if (!number_of(cl, id, CL_DEVICE_DOUBLE_FP_CONFIG))
        snprintf(why, bytes, "it has no double precision");
    else if (group < GROUP)
        snprintf(why, bytes, "its work-groups have at most %llu work-items; %d are needed", (unsigned long long)group, GROUP);
    else if (shared < LEAST_SHARED)
        snprintf(why, bytes, "its work-groups share %llu bytes; %llu are needed", (unsigned long long)shared,
                 (unsigned long long)LEAST_SHARED);
}

static comet_status describe(unsigned index, comet_gpu_info *info)
{
    const opencl_api *cl;
    cl_object *id = NULL;
    char version[64];
    TRY(device_at(index, &cl, &id));
    text_of(cl, id, CL_DEVICE_NAME, info->device, sizeof info->device);
    text_of(cl, id, CL_DEVICE_VERSION, version, sizeof version);
    text_of(cl, id, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    const size_t used = strlen(info->driver);
    snprintf(info->driver + used, sizeof info->driver - used, ", %s", version);
    info->memory_bytes = number_of(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->n_units = (uint32_t)number_of(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->shared_bytes = (uint32_t)number_of(cl, id, CL_DEVICE_LOCAL_MEM_SIZE);
    info->is_cpu = (number_of(cl, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
    find_unfit(cl, id, info->unfit, sizeof info->unfit);
    return COMET_OK;
}

/* ---- opening ---- */

static void close_device(void *opaque)
{
    opencl_device *d = opaque;
    for (int k = 0; k < N_GPU_KERNELS; k++)
        if (d->kernels[k])
            d->cl->clReleaseKernel(d->kernels[k]);
    for (int i = 0; i < N_PROGRAMS; i++)
        if (d->programs[i])
            d->cl->clReleaseProgram(d->programs[i]);
    if (d->queue)
        d->cl->clReleaseCommandQueue(d->queue);
    if (d->context)
        d->cl->clReleaseContext(d->context);
    free(d);
}

/* A lent context must have the device. */
static comet_status take_context(opencl_device *d, const comet_gpu_context *lent)
{
    int32_t code;
    if (!lent) {
        d->context = d->cl->clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
        return opencl_check(d->context ? CL_SUCCESS : code, "making a context");
    }
    cl_object *devices[MAX_DEVICES];
    size_t bytes = 0, i = 0;
    TRY(opencl_check(d->cl->clGetContextInfo(lent->context, CL_CONTEXT_DEVICES, sizeof devices, devices, &bytes),
                     "looking at the context"));
    while (i < bytes / sizeof *devices && devices[i] != d->id)
        i++;
    if (i == bytes / sizeof *devices)
        return comet_fail(COMET_ERROR_ARGUMENT, "the context that was lent does not have this device");
    TRY(opencl_check(d->cl->clRetainContext(lent->context), "keeping the context"));
    d->context = lent->context;
    return COMET_OK;
}

/* The last lines of the compiler's messages say what is wrong. */
static comet_status build_failed(const opencl_device *d, cl_object *program, int32_t code)
{
    char log[400] = "";
    char *all = calloc(1, 1 << 16);
    size_t bytes = 0;
    if (all && d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, (1 << 16) - 1, all, &bytes) == CL_SUCCESS)
        snprintf(log, sizeof log, "%s", all);
    free(all);
    return comet_fail(COMET_ERROR_UNSUPPORTED, "OpenCL: building the kernels: error %d: %s", code, log);
}

/* Elements that a thread takes in a row: see LOT in kernels/language.h. */
static int lot_of(const opencl_device *d)
{
    return number_of(d->cl, d->id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU ? HALF : 1;
}

static comet_status build(opencl_device *d, int bits, bool optimised, cl_object **program)
{
    const char *texts[N_GPU_SOURCES];
    size_t lengths[N_GPU_SOURCES];
    char options[64];
    int32_t code;
    for (int i = 0; i < N_GPU_SOURCES; i++) {
        texts[i] = gpu_sources[i].text;
        lengths[i] = gpu_sources[i].bytes;
    }
    snprintf(options, sizeof options, "-cl-std=CL1.2 %s-DCODE_BITS=%d -DLOT=%d", optimised ? "" : "-cl-opt-disable ", bits,
             lot_of(d));
    *program = d->cl->clCreateProgramWithSource(d->context, N_GPU_SOURCES, texts, lengths, &code);
    TRY(opencl_check(*program ? CL_SUCCESS : code, "reading the kernels"));
    code = d->cl->clBuildProgram(*program, 1, &d->id, options, NULL, NULL);
    return code == CL_SUCCESS ? COMET_OK : build_failed(d, *program, code);
}

/* PoCL 3.1 takes minutes to optimise the kernels for parts. */
static bool is_pocl(const opencl_api *cl, cl_object *id)
{
    char version[64];
    text_of(cl, id, CL_DEVICE_VERSION, version, sizeof version);
    return strstr(version, "PoCL") || strstr(version, "pocl");
}

static bool is_plain(enum gpu_kernel k)
{
    const bool decodes_parts = k == GPU_DECODE_PARTS16 || k == GPU_DECODE_PARTS32;
    return decodes_parts || (k >= GPU_QUANTISE_PARTS16 && k <= GPU_WRITE_MISFITS);
}

static comet_status build_all(opencl_device *d)
{
    int32_t code;
    const bool pocl = is_pocl(d->cl, d->id);
    for (int i = 0; i < (pocl ? N_PROGRAMS : 2); i++)
        TRY(build(d, i % 2 ? 32 : 16, i < 2, &d->programs[i]));
    for (int k = 0; k < N_GPU_KERNELS; k++) {
        const bool plain = pocl && is_plain((enum gpu_kernel)k);
        cl_object *program = d->programs[gpu_kernel_bits((enum gpu_kernel)k) / 32 + (plain ? 2 : 0)];
        d->kernels[k] = d->cl->clCreateKernel(program, gpu_kernel_name((enum gpu_kernel)k), &code);
        TRY(opencl_check(d->kernels[k] ? CL_SUCCESS : code, gpu_kernel_name((enum gpu_kernel)k)));
    }
    return COMET_OK;
}

static comet_status fill_device(unsigned index, const comet_gpu_context *lent, opencl_device *d)
{
    char unfit[192];
    int32_t code;
    TRY(device_at(index, &d->cl, &d->id));
    find_unfit(d->cl, d->id, unfit, sizeof unfit);
    if (unfit[0])
        return comet_fail(COMET_ERROR_UNSUPPORTED, "opencl:%u cannot be used: %s", index, unfit);
    TRY(take_context(d, lent));
    d->queue = d->cl->clCreateCommandQueue(d->context, d->id, 0, &code);
    TRY(opencl_check(d->queue ? CL_SUCCESS : code, "making a queue"));
    return build_all(d);
}

static comet_status open_device(unsigned index, const comet_gpu_context *lent, void **device)
{
    opencl_device *d = calloc(1, sizeof *d);
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
    return ((opencl_device *)device)->context;
}

/* ---- work ---- */

static comet_status check_queue(void *device, void *queue)
{
    const opencl_device *d = device;
    cl_object *context = NULL;
    if (!queue)
        return COMET_OK;
    TRY(opencl_check(d->cl->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL),
                     "looking at the queue"));
    return context == d->context ? COMET_OK : comet_fail(COMET_ERROR_ARGUMENT, "the queue is of another context");
}

static comet_status launch(void *device, void *queue, enum gpu_kernel kernel, uint32_t n_groups, const gpu_buffers *buffers,
                           const gpu_job *job)
{
    const opencl_device *d = device;
    cl_object *k = d->kernels[kernel];
    const uint64_t memory[4] = {buffers->x, buffers->frame, buffers->work, buffers->result};
    const size_t local = GROUP, global = (size_t)n_groups * GROUP;
    int32_t code = CL_SUCCESS;
    for (uint32_t i = 0; i < 4 && code == CL_SUCCESS; i++) {
        const cl_object *const object = (const cl_object *)(uintptr_t)memory[i];
        code = d->cl->clSetKernelArg(k, i, sizeof object, &object);
    }
    if (code == CL_SUCCESS)
        code = d->cl->clSetKernelArg(k, 4, sizeof *job, job);
    if (code == CL_SUCCESS)
        code = d->cl->clEnqueueNDRangeKernel(queue ? queue : d->queue, k, 1, NULL, &global, &local, 0, NULL, NULL);
    return opencl_check(code, gpu_kernel_name(kernel));
}

/* ---- memory ---- */

static comet_status allocate(void *device, size_t bytes, uint64_t *memory)
{
    const opencl_device *d = device;
    int32_t code;
    cl_object *buffer = d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &code);
    if (!buffer)
        return opencl_check(code == CL_SUCCESS ? CL_OUT_OF_RESOURCES : code, "allocating");
    *memory = (uint64_t)(uintptr_t)buffer;
    return COMET_OK;
}

static void release(void *device, uint64_t memory)
{
    ((const opencl_device *)device)->cl->clReleaseMemObject((cl_object *)(uintptr_t)memory);
}

static comet_status write_memory(void *device, uint64_t memory, uint64_t offset, const void *from, size_t bytes)
{
    const opencl_device *d = device;
    return opencl_check(
        d->cl->clEnqueueWriteBuffer(d->queue, (cl_object *)(uintptr_t)memory, 1, (size_t)offset, bytes, from, 0, NULL, NULL),
        "writing to the device");
}

static comet_status read_memory(void *device, uint64_t memory, uint64_t offset, void *to, size_t bytes)
{
    const opencl_device *d = device;
    return opencl_check(
        d->cl->clEnqueueReadBuffer(d->queue, (cl_object *)(uintptr_t)memory, 1, (size_t)offset, bytes, to, 0, NULL, NULL),
        "reading from the device");
}

static comet_status copy_memory(void *device, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                                size_t bytes)
{
    const opencl_device *d = device;
    return opencl_check(d->cl->clEnqueueCopyBuffer(d->queue, (cl_object *)(uintptr_t)from, (cl_object *)(uintptr_t)to,
                                                   (size_t)from_offset, (size_t)to_offset, bytes, 0, NULL, NULL),
                        "copying on the device");
}

static comet_status finish(void *device)
{
    const opencl_device *d = device;
    return opencl_check(d->cl->clFinish(d->queue), "waiting for the device");
}

const gpu_backend gpu_opencl = {.name = "opencl",
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
