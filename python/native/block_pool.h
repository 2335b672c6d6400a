/*
 * Memory for compressed blocks, which are freed in any order.
 *
 * Blocks lie in segments mapped from the system: 4 MiB, or as much as a larger block needs. Each piece of a segment, free or
 * used, begins with a tag of 64 bytes that has its length and that of the piece before it, so that neighbours are merged when a
 * piece is freed. Free pieces are in lists by the power of two of their length. Empty segments are given back to the system
 * while more than a quarter of what is mapped, and more than 4 MiB, is free. Memory is aligned to 64 bytes. Any thread.
 */
#ifndef COMET_NATIVE_BLOCK_POOL_H
#define COMET_NATIVE_BLOCK_POOL_H

#include "comet/base.h"

typedef struct block_pool block_pool;

typedef struct block_pool_figures {
    uint64_t used, reserved, peak_used, peak_reserved, n_blocks;
} block_pool_figures;

comet_status block_pool_create(block_pool **out);
/* Blocks that are still used go, too. */
void block_pool_destroy(block_pool *pool);

comet_status block_pool_alloc(block_pool *pool, size_t bytes, void **out);
void block_pool_free(block_pool *pool, void *memory);
/* Bytes that an allocation takes, tag included. */
size_t block_pool_bytes_of(const void *memory);
block_pool_figures block_pool_memory(block_pool *pool);

#endif
