/* See huge_pages.h. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, MADV_HUGEPAGE */
#include "huge_pages.h"

#include <stdint.h>
#include <sys/mman.h>

size_t huge_pages_round(size_t bytes)
{
    return (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

void *huge_pages_map(size_t bytes)
{
    const size_t all = bytes + HUGE_PAGE_BYTES;
    char *mapped = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    const size_t before = (size_t) - (uintptr_t)mapped % HUGE_PAGE_BYTES;
    char *memory = mapped + before;
    if (before > 0)
        munmap(mapped, before);
    munmap(memory + bytes, all - before - bytes);
    madvise(memory, bytes, MADV_HUGEPAGE); /* a system without huge pages uses its usual ones */
    return memory;
}
