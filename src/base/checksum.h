/* The 64-bit hash (XXH64 with seed 0) that guards headers and chunks. */
#ifndef COMET_BASE_CHECKSUM_H
#define COMET_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t comet_checksum(const void *data, size_t bytes);

#endif
