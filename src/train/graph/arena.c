/*
 * Buffers are placed largest first, each at the lowest place that is free during its whole life. Before them come small ones
 * that outlive many others: at the far end they would keep arena_height up. Then, again and again, the buffer that ends highest
 * at the worst moment is placed before all others, and the best of these plans is kept: it is within two per cent of the lower
 * bound for most nets of the zoo.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "train/graph/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/status.h"

#define ALIGNMENT ((uint64_t)4096)
#define SMALL ((uint64_t)1 << 18)
#define LASTING 8
#define N_PLANS 200

comet_status arena_declare(arena *a, uint64_t bytes, uint32_t moment, buffer_id *id)
{
    if (a->n_buffers == a->capacity) {
        const uint32_t capacity = a->capacity ? 2 * a->capacity : 256;
        arena_buffer *larger = realloc(a->buffers, capacity * sizeof *larger);
        if (!larger)
            return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a plan of %u buffers", capacity);
        a->buffers = larger;
        a->capacity = capacity;
    }
    a->buffers[a->n_buffers] =
        (arena_buffer){.bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, .first = moment, .last = moment};
    *id = a->n_buffers++;
    return COMET_OK;
}

void arena_extend(arena *a, buffer_id id, uint32_t moment)
{
    arena_buffer *b = &a->buffers[id];
    if (moment < b->first)
        b->first = moment;
    if (moment > b->last)
        b->last = moment;
}

static bool meet(const arena_buffer *a, const arena_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool is_small_and_lasting(const arena_buffer *b)
{
    return b->bytes <= SMALL && b->last - b->first > LASTING;
}

static int larger_first(const void *left, const void *right)
{
    const arena_buffer *a = *(const arena_buffer *const *)left, *b = *(const arena_buffer *const *)right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? 1 : -1;
    if (is_small_and_lasting(a) != is_small_and_lasting(b))
        return is_small_and_lasting(a) ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a > b) - (a < b);
}

/* The lowest offset at which `b` fits between the first n of `placed` (sorted by offset) that it meets. */
static uint64_t lowest_place(const arena_buffer *b, arena_buffer *const *placed, uint32_t n)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!meet(b, placed[i]))
            continue;
        if (placed[i]->offset >= offset + b->bytes)
            break;
        const uint64_t end = placed[i]->offset + placed[i]->bytes;
        if (end > offset)
            offset = end;
    }
    return offset;
}

static void insert_by_offset(arena_buffer **placed, uint32_t n, arena_buffer *b)
{
    for (; n > 0 && placed[n - 1]->offset > b->offset; n--)
        placed[n] = placed[n - 1];
    placed[n] = b;
}

/* Places the buffers in the given order. */
static void place_all(arena *a, arena_buffer **order, arena_buffer **placed)
{
    for (uint32_t i = 0; i < a->n_buffers; i++)
        order[i] = &a->buffers[i];
    qsort(order, a->n_buffers, sizeof *order, larger_first);
    for (uint32_t i = 0; i < a->n_buffers; i++) {
        order[i]->offset = lowest_place(order[i], placed, i);
        insert_by_offset(placed, i, order[i]);
    }
}

/* The most bytes at any moment, and the buffer that stands highest there. */
static uint64_t worst_moment(const arena *a, const arena_others *others, arena_buffer **highest)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < a->n_buffers; i++) {
        arena_buffer *b = &a->buffers[i];
        uint64_t beside = 0;
        for (uint32_t moment = b->first; moment <= b->last && moment < others->n_moments; moment++)
            beside = others->bytes[moment] > beside ? others->bytes[moment] : beside;
        if (b->offset + b->bytes + beside > most) {
            most = b->offset + b->bytes + beside;
            *highest = b;
        }
    }
    return most;
}

/* No plan takes less: the most that lives at any moment. */
static uint64_t least_possible(const arena *a, const arena_others *others)
{
    uint64_t most = 0;
    for (uint32_t moment = 0; moment < others->n_moments; moment++) {
        uint64_t bytes = others->bytes[moment];
        for (uint32_t i = 0; i < a->n_buffers; i++)
            if (a->buffers[i].first <= moment && moment <= a->buffers[i].last)
                bytes += a->buffers[i].bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void keep_plan(const arena *a, uint64_t *offsets)
{
    for (uint32_t i = 0; i < a->n_buffers; i++)
        offsets[i] = a->buffers[i].offset;
}

static void use_plan(arena *a, const uint64_t *offsets)
{
    a->bytes = 0;
    for (uint32_t i = 0; i < a->n_buffers; i++) {
        arena_buffer *b = &a->buffers[i];
        b->offset = offsets[i];
        if (b->offset + b->bytes > a->bytes)
            a->bytes = b->offset + b->bytes;
    }
}

comet_status arena_plan(arena *a, const arena_others *others)
{
    a->bytes = 0;
    if (a->n_buffers == 0)
        return COMET_OK;
    arena_buffer **order = malloc(2 * a->n_buffers * sizeof(arena_buffer *));
    uint64_t *offsets = calloc(a->n_buffers, sizeof *offsets), best = UINT64_MAX;
    if (!order || !offsets) {
        free(order);
        free(offsets);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a plan of %u buffers", a->n_buffers);
    }
    for (uint32_t i = 0; i < a->n_buffers; i++)
        a->buffers[i].rank = 0;
    const uint64_t least = least_possible(a, others);
    for (uint32_t plan = 0; plan < N_PLANS && best > least; plan++) {
        arena_buffer *highest = NULL;
        place_all(a, order, order + a->n_buffers);
        const uint64_t bytes = worst_moment(a, others, &highest);
        if (bytes < best) {
            best = bytes;
            keep_plan(a, offsets);
        }
        if (!highest || (highest->rank == plan && plan > 0)) /* it is as low as it can be */
            break;
        highest->rank = plan + 1;
    }
    use_plan(a, offsets);
    free(order);
    free(offsets);
    return COMET_OK;
}

uint64_t arena_height(const arena *a, uint32_t first, uint32_t last)
{
    uint64_t height = 0;
    for (uint32_t i = 0; i < a->n_buffers; i++) {
        const arena_buffer *b = &a->buffers[i];
        if (b->first <= last && first <= b->last && b->offset + b->bytes > height)
            height = b->offset + b->bytes;
    }
    return height;
}

comet_status arena_allocate(arena *a)
{
    const uint64_t bytes = a->bytes + a->below;
    if (bytes == 0)
        return COMET_OK;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %.1f MiB for activations",
                          (double)bytes / 1048576);
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    a->memory = memory;
    return COMET_OK;
}

void *arena_at(const arena *a, buffer_id id)
{
    if (id == NO_BUFFER)
        return NULL;
    const arena_buffer *b = &a->buffers[id];
    return (char *)a->memory + (a->bytes + a->below - b->offset - b->bytes);
}

void arena_free(arena *a)
{
    if (a->memory)
        munmap(a->memory, a->bytes + a->below);
    free(a->buffers);
    *a = (arena){0};
}
