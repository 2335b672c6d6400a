/* Memory for compressed blocks; see block_pool.h. */
#include "block_pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/status.h"
#include "huge_pages.h"

enum { TAG_BYTES = 64, N_LISTS = 64 };
#define SEGMENT_BYTES ((size_t)4 << 20)

/* The head of a segment, in the place of a tag. Pieces follow, up to its end. */
typedef struct segment {
    size_t bytes;
    struct segment *next, *previous;
} segment;

/* The head of a piece. Its memory begins TAG_BYTES later; that of a free piece is not touched. */
typedef struct tag {
    size_t bytes;        /* tag included; the next piece begins there */
    size_t bytes_before; /* of the piece before it; 0: it is the first of its segment */
    segment *home;
    struct tag *next_free, *previous_free;
    bool is_free;
} tag;

_Static_assert(sizeof(segment) <= TAG_BYTES && sizeof(tag) <= TAG_BYTES, "heads fit their place");

struct block_pool {
    pthread_mutex_t lock;
    segment *segments;
    size_t n_empty;      /* segments without a used piece */
    tag *lists[N_LISTS]; /* list k: free pieces of 2^k to 2^(k+1) - 1 bytes */
    block_pool_figures figures;
};

/* ---- pieces ---- */

static unsigned list_of(size_t bytes)
{
    return 63u - (unsigned)__builtin_clzll((unsigned long long)bytes);
}

static char *segment_end(segment *s)
{
    return (char *)s + s->bytes;
}

/* The piece after t, or null at the end of the segment. */
static tag *tag_after(tag *t)
{
    char *end = (char *)t + t->bytes;
    return end < segment_end(t->home) ? (tag *)(void *)end : NULL;
}

static tag *tag_before(tag *t)
{
    return t->bytes_before ? (tag *)(void *)((char *)t - t->bytes_before) : NULL;
}

static void list_add(block_pool *pool, tag *t)
{
    tag **list = &pool->lists[list_of(t->bytes)];
    t->is_free = true;
    t->previous_free = NULL;
    t->next_free = *list;
    if (*list)
        (*list)->previous_free = t;
    *list = t;
}

static void list_remove(block_pool *pool, tag *t)
{
    if (t->previous_free)
        t->previous_free->next_free = t->next_free;
    else
        pool->lists[list_of(t->bytes)] = t->next_free;
    if (t->next_free)
        t->next_free->previous_free = t->previous_free;
    t->is_free = false;
}

/* Makes t `bytes` long; what follows it in the segment knows. */
static void tag_resize(tag *t, size_t bytes)
{
    t->bytes = bytes;
    tag *after = tag_after(t);
    if (after)
        after->bytes_before = bytes;
}

/* ---- segments ---- */

/* A new segment with one piece of at least `bytes`, or null. */
static tag *segment_add(block_pool *pool, size_t bytes)
{
    const size_t needed = bytes + TAG_BYTES, all = needed < SEGMENT_BYTES ? SEGMENT_BYTES : huge_pages_round(needed);
    void *memory = huge_pages_map(all);
    if (!memory)
        return NULL;
    segment *s = memory;
    *s = (segment){.bytes = all, .next = pool->segments};
    if (s->next)
        s->next->previous = s;
    pool->segments = s;
    tag *t = (tag *)(void *)((char *)s + TAG_BYTES);
    *t = (tag){.bytes = all - TAG_BYTES, .home = s};
    pool->figures.reserved += all;
    if (pool->figures.reserved > pool->figures.peak_reserved)
        pool->figures.peak_reserved = pool->figures.reserved;
    return t;
}

static void segment_remove(block_pool *pool, segment *s)
{
    if (s->previous)
        s->previous->next = s->next;
    else
        pool->segments = s->next;
    if (s->next)
        s->next->previous = s->previous;
    pool->figures.reserved -= s->bytes;
    munmap(s, s->bytes);
}

static tag *segment_first(segment *s)
{
    return (tag *)(void *)((char *)s + TAG_BYTES);
}

static bool is_whole_segment(const tag *t)
{
    return t->bytes == t->home->bytes - TAG_BYTES;
}

static bool has_too_much(const block_pool *pool)
{
    const uint64_t free_bytes = pool->figures.reserved - pool->figures.used;
    return free_bytes > SEGMENT_BYTES && free_bytes > pool->figures.reserved / 16;
}

/* Gives empty segments back, first the one that has just become empty. */
static void trim(block_pool *pool, segment *first)
{
    segment *next = NULL;
    for (segment *s = first; s && pool->n_empty && has_too_much(pool); s = next) {
        next = s == first ? pool->segments : s->next;
        if (next == first)
            next = first->next;
        tag *t = segment_first(s);
        if (!t->is_free || !is_whole_segment(t))
            continue;
        list_remove(pool, t);
        segment_remove(pool, s);
        pool->n_empty--;
    }
}

/* ---- allocation ---- */

/* The shortest fitting piece of the first list that has one; null if there is none. */
static tag *find(block_pool *pool, size_t bytes)
{
    for (unsigned k = list_of(bytes); k < N_LISTS; k++) {
        tag *best = NULL;
        for (tag *t = pool->lists[k]; t; t = t->next_free)
            if (t->bytes >= bytes && (!best || t->bytes < best->bytes))
                best = t;
        if (best)
            return best;
    }
    return NULL;
}

/* Cuts what t has too much off its end; two tags is the least that is worth a piece. */
static void split(block_pool *pool, tag *t, size_t bytes)
{
    const size_t rest = t->bytes - bytes;
    if (rest < 2 * TAG_BYTES)
        return;
    tag *other = (tag *)(void *)((char *)t + bytes);
    *other = (tag){.bytes_before = bytes, .home = t->home};
    t->bytes = bytes;
    tag_resize(other, rest);
    list_add(pool, other);
}

static tag *take(block_pool *pool, size_t bytes)
{
    tag *t = find(pool, bytes);
    if (t) {
        pool->n_empty -= is_whole_segment(t);
        list_remove(pool, t);
    } else {
        t = segment_add(pool, bytes);
    }
    if (!t)
        return NULL;
    split(pool, t, bytes);
    pool->figures.used += t->bytes;
    pool->figures.n_blocks++;
    if (pool->figures.used > pool->figures.peak_used)
        pool->figures.peak_used = pool->figures.used;
    return t;
}

comet_status block_pool_alloc(block_pool *pool, size_t bytes, void **out)
{
    tag *t = NULL;
    if (bytes < SIZE_MAX / 2) {
        pthread_mutex_lock(&pool->lock);
        t = take(pool, (bytes + TAG_BYTES - 1) / TAG_BYTES * TAG_BYTES + TAG_BYTES);
        pthread_mutex_unlock(&pool->lock);
    }
    if (!t)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes for a block", bytes);
    *out = (char *)t + TAG_BYTES;
    return COMET_OK;
}

/* Merges t with free neighbours; returns the merged piece, which is in no list. */
static tag *merge(block_pool *pool, tag *t)
{
    tag *after = tag_after(t), *before = tag_before(t);
    if (after && after->is_free) {
        list_remove(pool, after);
        tag_resize(t, t->bytes + after->bytes);
    }
    if (before && before->is_free) {
        list_remove(pool, before);
        tag_resize(before, before->bytes + t->bytes);
        t = before;
    }
    return t;
}

void block_pool_free(block_pool *pool, void *memory)
{
    if (!memory)
        return;
    tag *t = (tag *)(void *)((char *)memory - TAG_BYTES);
    pthread_mutex_lock(&pool->lock);
    pool->figures.used -= t->bytes;
    pool->figures.n_blocks--;
    t = merge(pool, t);
    list_add(pool, t);
    pool->n_empty += is_whole_segment(t);
    trim(pool, t->home);
    pthread_mutex_unlock(&pool->lock);
}

size_t block_pool_bytes_of(const void *memory)
{
    const tag *t = (const tag *)(const void *)((const char *)memory - TAG_BYTES);
    return t->bytes;
}

block_pool_figures block_pool_memory(block_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const block_pool_figures figures = pool->figures;
    pthread_mutex_unlock(&pool->lock);
    return figures;
}

comet_status block_pool_create(block_pool **out)
{
    block_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes", sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    *out = pool;
    return COMET_OK;
}

void block_pool_destroy(block_pool *pool)
{
    if (!pool)
        return;
    for (segment *s = pool->segments, *next = NULL; s; s = next) {
        next = s->next;
        munmap(s, s->bytes);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
