/* Allocation through the host's hook; grow-only buffers. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static void *default_alloc(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void default_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

void comet_hooks_init(comet_hooks *hooks)
{
    memset(hooks, 0, sizeof *hooks);
    hooks->size = sizeof *hooks;
}

comet_allocator comet_allocator_of(const comet_hooks *hooks)
{
    if (hooks && hooks->allocator.alloc && hooks->allocator.release)
        return hooks->allocator;
    return (comet_allocator){default_alloc, default_release, NULL};
}

void *comet_allocate(const comet_allocator *allocator, size_t bytes)
{
    void *memory = allocator->alloc(allocator->user, bytes, COMET_ALIGNMENT);
    if (!memory)
        comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes", bytes);
    return memory;
}

void comet_release(const comet_allocator *allocator, void *memory, size_t bytes)
{
    if (memory)
        allocator->release(allocator->user, memory, bytes);
}

comet_status comet_buffer_reserve(const comet_allocator *allocator, comet_buffer *buffer, size_t bytes)
{
    if (bytes <= buffer->bytes)
        return COMET_OK;
    comet_buffer_free(allocator, buffer);
    buffer->data = comet_allocate(allocator, bytes);
    if (!buffer->data)
        return COMET_ERROR_MEMORY;
    buffer->bytes = bytes;
    return COMET_OK;
}

void comet_buffer_free(const comet_allocator *allocator, comet_buffer *buffer)
{
    comet_release(allocator, buffer->data, buffer->bytes);
    buffer->data = NULL;
    buffer->bytes = 0;
}
