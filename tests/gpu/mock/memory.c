/* The driver's functions about memory, which is the host's: what was not allocated or registered is no memory of a device. See
 * mock.h. */
#include <stdlib.h>
#include <string.h>

#include "gpu/mock/inside.h"

static uint64_t used[MAX_DEVICES];
static int buffer_device[PTX_MAX_BUFFERS]; /* by place in the machine; -1: of the host */

static int find_buffer(const void *p, size_t bytes)
{
    const uint64_t address = (uint64_t)(uintptr_t)p;
    for (size_t i = 0; i < mock.machine.n_buffers; i++)
        if (address >= mock.machine.buffers[i].address &&
            address + bytes <= mock.machine.buffers[i].address + mock.machine.buffers[i].bytes)
            return (int)i;
    return -1;
}

static void remove_buffer(int i)
{
    ptx_machine_remove(&mock.machine, (const void *)(uintptr_t)mock.machine.buffers[i].address);
    buffer_device[i] = buffer_device[mock.machine.n_buffers]; /* the last takes its place */
}

static bool add_buffer(const void *p, size_t bytes, int device)
{
    if (!ptx_machine_add(&mock.machine, p, bytes))
        return false;
    buffer_device[mock.machine.n_buffers - 1] = device;
    return true;
}

DRIVER int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
DRIVER int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    const object *context = mock_context();
    if (!context || bytes == 0)
        return context ? INVALID_VALUE : INVALID_CONTEXT;
    pthread_mutex_lock(&mock.lock);
    void *p = NULL;
    if (bytes <= mock.memory - used[context->device])
        p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (p && !add_buffer(p, bytes, context->device)) {
        free(p);
        p = NULL;
    }
    if (p) {
        memset(p, 0xa5, bytes); /* nothing may depend on what is there */
        used[context->device] += bytes;
        mock.counts.live_bytes += bytes;
        mock.counts.allocations++;
    }
    pthread_mutex_unlock(&mock.lock);
    *pointer = (uint64_t)(uintptr_t)p;
    return p ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuMemFree_v2(uint64_t pointer);
DRIVER int cuMemFree_v2(uint64_t pointer)
{
    void *p = (void *)(uintptr_t)pointer;
    pthread_mutex_lock(&mock.lock);
    const int i = find_buffer(p, 1);
    const bool good = i >= 0 && mock.machine.buffers[i].address == pointer && buffer_device[i] >= 0;
    if (good) {
        used[buffer_device[i]] -= mock.machine.buffers[i].bytes;
        mock.counts.live_bytes -= mock.machine.buffers[i].bytes;
        remove_buffer(i);
        free(p);
    }
    pthread_mutex_unlock(&mock.lock);
    return good ? SUCCESS : INVALID_VALUE;
}

/* Host memory that kernels may use, at the same address. */
DRIVER int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
DRIVER int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&mock.lock);
    const bool good = add_buffer(p, bytes, -1);
    pthread_mutex_unlock(&mock.lock);
    return good ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuMemHostUnregister(void *p);
DRIVER int cuMemHostUnregister(void *p)
{
    pthread_mutex_lock(&mock.lock);
    const int i = find_buffer(p, 1);
    const bool good = i >= 0 && mock.machine.buffers[i].address == (uint64_t)(uintptr_t)p && buffer_device[i] < 0;
    if (good)
        remove_buffer(i);
    pthread_mutex_unlock(&mock.lock);
    return good ? SUCCESS : INVALID_VALUE;
}

/* Device memory is checked, host memory is the caller's. */
static int copy(void *to, const void *from, size_t bytes, bool to_device, bool from_device, const object *stream)
{
    pthread_mutex_lock(&mock.lock);
    int code = mock_check_stream(stream);
    if (code == SUCCESS && ((to_device && find_buffer(to, bytes) < 0) || (from_device && find_buffer(from, bytes) < 0)))
        code = INVALID_VALUE;
    if (code == SUCCESS)
        memmove(to, from, bytes);
    pthread_mutex_unlock(&mock.lock);
    return code;
}

DRIVER int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, object *stream);
DRIVER int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, object *stream)
{
    return copy((void *)(uintptr_t)to, from, bytes, true, false, stream);
}

DRIVER int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, object *stream);
DRIVER int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, object *stream)
{
    return copy(to, (const void *)(uintptr_t)from, bytes, false, true, stream);
}

DRIVER int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, object *stream);
DRIVER int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, object *stream)
{
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, true, true, stream);
}
