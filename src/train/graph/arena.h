/*
 * One piece of memory for everything that lives during a part of a step. Buffers are declared with the first and the last
 * moment at which they are in use; buffers that never meet may share bytes. Then the arena is laid out, once, and its memory is
 * reused by every step without ever being given back.
 */
#ifndef COMET_TRAIN_GRAPH_ARENA_H
#define COMET_TRAIN_GRAPH_ARENA_H

#include <stdbool.h>

#include "comet/base.h"

typedef uint32_t buffer_id;
#define NO_BUFFER UINT32_MAX

typedef struct arena_buffer {
    uint64_t bytes;
    uint32_t first, last; /* moments, both inclusive */
    uint64_t offset;      /* known after arena_plan */
    uint32_t rank;        /* of arena_plan */
} arena_buffer;

typedef struct arena {
    arena_buffer *buffers;
    uint32_t n_buffers, capacity;
    uint64_t bytes; /* of the whole arena, known after arena_plan */
    uint64_t below; /* bytes below it in the same piece, for others; set before arena_allocate */
    void *memory;   /* where the piece begins; buffers hang from its top, offset 0 highest */
} arena;

/* A buffer in use at `moment` only, for now. */
comet_status arena_declare(arena *a, uint64_t bytes, uint32_t moment, buffer_id *id);
/* The buffer is in use at `moment` too, and at all moments between. */
void arena_extend(arena *a, buffer_id id, uint32_t moment);
/* What others hold beside the arena in the same piece at each moment. */
typedef struct arena_others {
    const uint64_t *bytes;
    uint32_t n_moments;
} arena_others;

/* Chooses the offsets, such that the most that arena and others take at any moment is small. */
comet_status arena_plan(arena *a, const arena_others *others);
/* Bytes from the top that buffers take that live at any moment of [first, last]. */
uint64_t arena_height(const arena *a, uint32_t first, uint32_t last);
/* Takes the memory from the system. Pages are touched when first used. */
comet_status arena_allocate(arena *a);
/* NULL for NO_BUFFER. */
void *arena_at(const arena *a, buffer_id id);
void arena_free(arena *a);

#endif
