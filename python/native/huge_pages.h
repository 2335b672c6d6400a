/*
 * Memory of the system in huge pages, where it has them: fresh memory is then touched 512 times less often for the first time,
 * which costs more than coding does.
 */
#ifndef COMET_NATIVE_HUGE_PAGES_H
#define COMET_NATIVE_HUGE_PAGES_H

#include <stddef.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Maps `bytes`, a multiple of HUGE_PAGE_BYTES, at an address that is one. Null where there are none. Memory counts as used once
 * it is touched; munmap gives it back. */
void *huge_pages_map(size_t bytes);
/* The least such multiple that is not below `bytes`. */
size_t huge_pages_round(size_t bytes);

#endif
