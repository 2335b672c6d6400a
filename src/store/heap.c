/*
 * Two stacks under one lock. Positions in our own memory count from the first segment's first byte as if each segment followed
 * the one before. Each begins with its header, so that bookkeeping needs no allocation on a worker's thread.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "store/heap.h"

#include <sys/mman.h>

#include "base/bytes.h"
#include "base/status.h"
#include "codec/chunk.h"

#define SEGMENT_BYTES ((size_t)8 << 20)
#define SMALL_UNIT ((size_t)64 << 10) /* smaller segments are multiples of this, where the system refuses SEGMENT_BYTES */
#define HEADER_BYTES COMET_ALIGNMENT  /* at the beginning of each segment */

struct heap_segment {
    heap_segment *next;
    uint64_t start; /* position of its first byte, the header's */
    size_t bytes;
};

void heap_open(heap *h)
{
    *h = (heap){0};
    pthread_mutex_init(&h->lock, NULL);
}

void heap_close(heap *h)
{
    for (heap_segment *s = h->first, *next; s; s = next) {
        next = s->next;
        munmap(s, s->bytes);
    }
    pthread_mutex_destroy(&h->lock);
}

void heap_lend(heap *h, void *memory, uint64_t bytes)
{
    h->lent = bytes ? memory : NULL;
    h->lent_bytes = h->lent ? bytes : 0;
}

/* Each tile begins at a cache line of its own, so that two workers never write to the same line. */
static uint64_t aligned(uint64_t at)
{
    return ceil_div_u64(at, COMET_ALIGNMENT) * COMET_ALIGNMENT;
}

static uint8_t *claim_lent(heap *h, size_t bytes, const heap_range *range, heap_marks *marks)
{
    /* Offsets are aligned, not addresses: lent memory is used from its first byte on, whatever its alignment. */
    uint64_t at = aligned(max_u64(h->used.lent, range->floor)), limit = min_u64(range->ceiling, h->lent_bytes);
    if (limit < READ_SLACK || at > limit - READ_SLACK || bytes > limit - READ_SLACK - at)
        return NULL;
    h->used.lent = marks->lent = at + bytes;
    return h->lent + at;
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Adds a segment that can hold a tile of `bytes` bytes: of SEGMENT_BYTES, or as small as possible where that is refused. */
static heap_segment *add_segment(heap *h, size_t bytes)
{
    size_t least = (size_t)ceil_div_u64(HEADER_BYTES + bytes + READ_SLACK, SMALL_UNIT) * SMALL_UNIT;
    size_t length = least > SEGMENT_BYTES ? least : SEGMENT_BYTES;
    heap_segment *s = map(length);
    if (!s && length > least)
        s = map(length = least);
    if (!s) {
        comet_fail(COMET_ERROR_MEMORY,
                   "out of memory: could not allocate %zu KiB more for the activation store, which has %llu KiB", least >> 10,
                   (unsigned long long)h->own_bytes >> 10);
        return NULL;
    }
    *s = (heap_segment){.start = h->last ? h->last->start + h->last->bytes : 0, .bytes = length};
    if (h->last)
        h->last->next = s;
    else
        h->first = s;
    h->last = s;
    h->own_bytes += length;
    return s;
}

/* The first free position in s, if `bytes` bytes fit from there on; else 0. */
static uint64_t room_in(const heap *h, const heap_segment *s, size_t bytes)
{
    uint64_t first = s->start + HEADER_BYTES, at = aligned(h->used.own > first ? h->used.own : first);
    return at + bytes + READ_SLACK <= s->start + s->bytes ? at : 0;
}

static uint8_t *claim_own(heap *h, size_t bytes, heap_marks *marks)
{
    heap_segment *s = h->current ? h->current : h->first;
    uint64_t at = 0;
    while (s && (at = room_in(h, s, bytes)) == 0)
        s = s->next;
    if (!s && (s = add_segment(h, bytes)) != NULL)
        at = room_in(h, s, bytes);
    if (!s)
        return NULL;
    h->current = s;
    h->used.own = marks->own = at + bytes;
    h->own_used = max_u64(h->own_used, h->used.own);
    return (uint8_t *)s + (at - s->start);
}

uint8_t *heap_claim(heap *h, size_t bytes, const heap_range *range, heap_marks *marks)
{
    pthread_mutex_lock(&h->lock);
    uint8_t *place = h->lent ? claim_lent(h, bytes, range, marks) : NULL;
    if (!place)
        place = claim_own(h, bytes, marks);
    pthread_mutex_unlock(&h->lock);
    return place;
}

void heap_rewind(heap *h, heap_marks marks)
{
    pthread_mutex_lock(&h->lock);
    h->used = marks;
    heap_segment *s = h->first;
    while (s && s->next && marks.own > s->start + s->bytes)
        s = s->next;
    h->current = s;
    pthread_mutex_unlock(&h->lock);
}
