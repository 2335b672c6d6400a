/* Page-aligned buffers; see pages.h. */
#include "kit/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *pages_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX - PAGE_BYTES)
        return NULL;
    const size_t n_pages = bytes / PAGE_BYTES + 1;
    return aligned_alloc(PAGE_BYTES, n_pages * PAGE_BYTES);
}

void pages_touch(void *memory, size_t bytes)
{
    memset(memory, 0xA5, bytes);
}
