/*
 * Memory for coded tiles: memory lent by the caller first, then segments of our own. Both are stacks, which grow while forward
 * puts and are rewound as backward drops: memory above the highest byte still in use is free again. Segments stay mapped until
 * the end, so that only the first step pays for fresh pages.
 */
#ifndef COMET_STORE_HEAP_H
#define COMET_STORE_HEAP_H

#include <pthread.h>

#include "comet/base.h"

/* Positions in both stacks: how far the tiles of a slot reach. */
typedef struct heap_marks {
    uint64_t lent, own;
} heap_marks;

/* Offsets in lent memory. */
typedef struct heap_range {
    uint64_t floor, ceiling;
} heap_range;

typedef struct heap_segment heap_segment;

typedef struct heap {
    pthread_mutex_t lock;
    uint8_t *lent; /* NULL: none */
    uint64_t lent_bytes;
    heap_marks used;
    heap_segment *first, *last, *current; /* `current` is where used.own lies */
    uint64_t own_bytes, own_used;         /* mapped; as far as tiles ever reached */
} heap;

void heap_open(heap *h);
void heap_close(heap *h);

/* Only while nothing is in use. */
void heap_lend(heap *h, void *memory, uint64_t bytes);

/* Claims `bytes` bytes that READ_SLACK readable ones follow; in lent memory all of them lie within `range`. Raises *marks
 * to cover the bytes. Any thread. NULL, with the failure recorded, if there is no memory. */
uint8_t *heap_claim(heap *h, size_t bytes, const heap_range *range, heap_marks *marks);

/* Frees all above the marks. */
void heap_rewind(heap *h, heap_marks marks);

#endif
