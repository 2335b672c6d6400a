/* Grow-only buffers on the host's allocator (or malloc). All memory of a context lives in these. */
#ifndef COMET_BASE_MEMORY_H
#define COMET_BASE_MEMORY_H

#include "comet/base.h"

/* One cache line, and the widest vector. */
#define COMET_ALIGNMENT ((size_t)64)

typedef struct comet_buffer {
    void *data;
    size_t bytes;
} comet_buffer;

/* The allocator of `hooks`, or malloc's where hooks is NULL or lends none. */
comet_allocator comet_allocator_of(const comet_hooks *hooks);

/* `bytes` bytes aligned to COMET_ALIGNMENT, or NULL with the failure recorded. */
void *comet_allocate(const comet_allocator *allocator, size_t bytes);
void comet_release(const comet_allocator *allocator, void *memory, size_t bytes);

/* Makes the buffer at least `bytes` long. The old contents are lost when it grows; after a failure it is empty. */
comet_status comet_buffer_reserve(const comet_allocator *allocator, comet_buffer *buffer, size_t bytes);
void comet_buffer_free(const comet_allocator *allocator, comet_buffer *buffer);

#endif
