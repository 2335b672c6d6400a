/* Page-aligned buffers for tensors and frames. */
#ifndef COMET_CLI_PAGES_H
#define COMET_CLI_PAGES_H

#include <stddef.h>

enum { PAGE_BYTES = 4096 };

/* At least one page, so never NULL for 0 bytes; NULL when there is no memory. Release with free(). */
void *pages_alloc(size_t bytes);

/* Writes every page once, so that no page fault falls into a timed run. */
void pages_touch(void *memory, size_t bytes);

#endif
