/* Devices by name, their opening and closing, and plain memory calls. */
#include "gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/status.h"

static const gpu_backend *const backends[] = {&gpu_opencl, &gpu_cuda};
enum { N_BACKENDS = 2 };

/* The back end that a name, or its part before a colon, begins with. */
static const gpu_backend *find_backend(const char *name, size_t bytes)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (strlen(backends[i]->name) == bytes && memcmp(backends[i]->name, name, bytes) == 0)
            return backends[i];
    return NULL;
}

/* Takes "opencl:1" apart and checks that there is such a device. */
static comet_status find_device(const char *name, const gpu_backend **backend, unsigned *index)
{
    if (!name)
        return comet_fail(COMET_ERROR_ARGUMENT, "the device's name is null");
    const char *colon = strchr(name, ':');
    *backend = find_backend(name, colon ? (size_t)(colon - name) : strlen(name));
    const char *digits = colon ? colon + 1 : "0";
    const size_t n_digits = strspn(digits, "0123456789");
    if (!*backend || n_digits == 0 || n_digits > 3 || digits[n_digits])
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "\"%.40s\" names no device: write opencl:0 or cuda:0, the number counting from 0", name);
    *index = (unsigned)strtoul(digits, NULL, 10);
    unsigned n = 0;
    TRY((*backend)->count(&n));
    if (n == 0)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "no device of %s: there is no driver, or it finds none", (*backend)->name);
    if (*index >= n)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "no device %s:%u: there %s only %u", (*backend)->name, *index,
                          n == 1 ? "is" : "are", n);
    return COMET_OK;
}

comet_status comet_gpu_count(const char *backend, unsigned *n_devices)
{
    if (!backend || !n_devices)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_count: null pointer");
    const gpu_backend *found = find_backend(backend, strlen(backend));
    if (!found)
        return comet_fail(COMET_ERROR_ARGUMENT, "\"%.40s\" is no back end: write opencl or cuda", backend);
    return found->count(n_devices);
}

void comet_gpu_info_init(comet_gpu_info *info)
{
    *info = (comet_gpu_info){.size = sizeof *info};
}

comet_status comet_gpu_describe(const char *name, comet_gpu_info *info)
{
    const gpu_backend *backend;
    unsigned index;
    comet_gpu_info found = {.size = sizeof found};
    if (!info)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_describe: null pointer");
    TRY(CHECK_SIZE(comet_gpu_info, info));
    TRY(find_device(name, &backend, &index));
    snprintf(found.name, sizeof found.name, "%s:%u", backend->name, index);
    TRY(backend->describe(index, &found));
    return GIVE(comet_gpu_info, info, &found);
}

comet_status gpu_open_device(const gpu_backend *backend, unsigned index, const comet_gpu_context *lent, comet_gpu **gpu)
{
    comet_gpu *made = calloc(1, sizeof *made);
    if (!made)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes", sizeof *made);
    made->backend = backend;
    const comet_status status = backend->open(index, lent, &made->device);
    if (status != COMET_OK) {
        free(made);
        return status;
    }
    pthread_mutex_init(&made->lock, NULL);
    *gpu = made;
    return COMET_OK;
}

comet_status comet_gpu_open(const char *name, const comet_gpu_context *lent, comet_gpu **gpu)
{
    const gpu_backend *backend;
    unsigned index;
    if (!gpu)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_open: null pointer");
    TRY(find_device(name, &backend, &index));
    return gpu_open_device(backend, index, lent, gpu);
}

void comet_gpu_close(comet_gpu *gpu)
{
    if (!gpu)
        return;
    gpu->backend->close(gpu->device);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

void *comet_gpu_native_context(const comet_gpu *gpu)
{
    return gpu ? gpu->backend->context(gpu->device) : NULL;
}

void gpu_device_lock(comet_gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
}

void gpu_device_unlock(comet_gpu *gpu)
{
    pthread_mutex_unlock(&gpu->lock);
}

/* ---- memory ---- */

comet_status comet_gpu_allocate(comet_gpu *gpu, uint64_t bytes, uint64_t *memory)
{
    if (!gpu || !memory)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_allocate: null pointer");
    return gpu->backend->allocate(gpu->device, (size_t)bytes, memory);
}

void comet_gpu_release(comet_gpu *gpu, uint64_t memory)
{
    if (gpu && memory)
        gpu->backend->release(gpu->device, memory);
}

comet_status comet_gpu_write(comet_gpu *gpu, comet_gpu_pointer to, const void *from, uint64_t bytes)
{
    if (!gpu || !to.memory || !from)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_write: null pointer");
    return bytes ? gpu->backend->write(gpu->device, to.memory, to.offset, from, (size_t)bytes) : COMET_OK;
}

comet_status comet_gpu_read(comet_gpu *gpu, comet_gpu_pointer from, void *to, uint64_t bytes)
{
    if (!gpu || !from.memory || !to)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_read: null pointer");
    return bytes ? gpu->backend->read(gpu->device, from.memory, from.offset, to, (size_t)bytes) : COMET_OK;
}

comet_status comet_gpu_copy(comet_gpu *gpu, comet_gpu_pointer to, comet_gpu_pointer from, uint64_t bytes)
{
    if (!gpu || !to.memory || !from.memory)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_copy: null pointer");
    if (bytes == 0)
        return COMET_OK;
    return gpu->backend->copy(gpu->device, to.memory, to.offset, from.memory, from.offset, (size_t)bytes);
}

comet_status comet_gpu_finish(comet_gpu *gpu)
{
    if (!gpu)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_finish: null pointer");
    return gpu->backend->finish(gpu->device);
}
