/*
 * What compilers call under -fsanitize=thread, without that sanitizer: each access to memory of a watched build of the kernels.
 * Every byte of shared memory remembers who wrote and who read it since which barrier.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/fiber_kernels.h"
#include "gpu/fibers.h"

enum { MANY = 0xfffe, ATOMIC = 0xffff, MAX_RANGES = 96 };

typedef struct shadow {
    uint32_t write_epoch, read_epoch;
    uint16_t writer, reader;
} shadow;

typedef struct range {
    const uint8_t *begin, *end;
} range;

/* Bounds of the section that shared arrays lie in; the linker gives them. */
extern uint8_t __start_gpu_shared[], __stop_gpu_shared[]; /* NOLINT */

static shadow *shadows;
static uint32_t epoch;
static uint64_t n_accesses;
static range ranges[MAX_RANGES], stack_range;
static size_t n_ranges, last_range;

uint64_t watch_accesses(void)
{
    return n_accesses;
}

void watch_group_begins(void)
{
    if (!shadows)
        shadows = calloc((size_t)(__stop_gpu_shared - __start_gpu_shared), sizeof *shadows);
    epoch++;
}

void watch_epoch(void)
{
    epoch++;
}

void watch_buffer_clear(void)
{
    n_ranges = 0;
    last_range = 0;
}

void watch_buffer(const void *p, size_t bytes)
{
    if (n_ranges < MAX_RANGES)
        ranges[n_ranges++] = (range){p, (const uint8_t *)p + bytes};
}

void watch_stacks(const void *p, size_t bytes)
{
    stack_range = (range){p, (const uint8_t *)p + bytes};
}

static bool inside(const range *r, const uint8_t *p, size_t bytes)
{
    return p >= r->begin && p + bytes <= r->end;
}

static void conflict(const char *what, const uint8_t *p, unsigned other)
{
    fibers_complain("group %u, thread %u %s shared byte %zu, which thread %u has accessed since the last barrier", fiber_group,
                    fiber_thread, what, (size_t)(p - __start_gpu_shared), other);
}

static void note_shared(const uint8_t *p, size_t bytes, bool writes, uint16_t who)
{
    for (size_t i = 0; i < bytes; i++) {
        shadow *s = &shadows[p + i - __start_gpu_shared];
        if (s->write_epoch == epoch && s->writer != who)
            conflict(writes ? "writes" : "reads", p + i, s->writer);
        if (writes && s->read_epoch == epoch && s->reader != who)
            conflict("writes", p + i, s->reader);
        if (writes) {
            s->write_epoch = epoch;
            s->writer = who;
        } else {
            s->reader = s->read_epoch == epoch && s->reader != who ? MANY : who;
            s->read_epoch = epoch;
        }
    }
}

static void note(const void *address, size_t bytes, bool writes)
{
    const uint8_t *p = address;
    n_accesses++;
    if (inside(&stack_range, p, bytes))
        return;
    if (p >= __start_gpu_shared && p < __stop_gpu_shared) {
        if (p + bytes > __stop_gpu_shared)
            fibers_complain("an access past the end of shared memory");
        else
            note_shared(p, bytes, writes, (uint16_t)fiber_thread);
        return;
    }
    if (last_range < n_ranges && inside(&ranges[last_range], p, bytes))
        return;
    for (size_t i = 0; i < n_ranges; i++)
        if (inside(&ranges[i], p, bytes)) {
            last_range = i;
            return;
        }
    fibers_complain("group %u, thread %u %s %zu bytes outside its buffers", fiber_group, fiber_thread,
                    writes ? "writes" : "reads", bytes);
}

void watch_atomic(const void *address, size_t bytes)
{
    const uint8_t *p = address;
    if (shadows && p >= __start_gpu_shared && p < __stop_gpu_shared)
        note_shared(p, bytes, true, ATOMIC);
}

/* ---- the names that compilers use ---- */

#define DEFINE_ACCESS(bytes)                     \
    void __tsan_read##bytes(void *p);            \
    void __tsan_read##bytes(void *p)             \
    {                                            \
        note(p, bytes, false);                   \
    }                                            \
    void __tsan_write##bytes(void *p);           \
    void __tsan_write##bytes(void *p)            \
    {                                            \
        note(p, bytes, true);                    \
    }                                            \
    void __tsan_unaligned_read##bytes(void *p);  \
    void __tsan_unaligned_read##bytes(void *p)   \
    {                                            \
        note(p, bytes, false);                   \
    }                                            \
    void __tsan_unaligned_write##bytes(void *p); \
    void __tsan_unaligned_write##bytes(void *p)  \
    {                                            \
        note(p, bytes, true);                    \
    }

DEFINE_ACCESS(1)
DEFINE_ACCESS(2)
DEFINE_ACCESS(4)
DEFINE_ACCESS(8)
DEFINE_ACCESS(16)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *p);
void __tsan_func_entry(void *p)
{
    (void)p;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *p, unsigned long bytes);
void __tsan_read_range(void *p, unsigned long bytes)
{
    note(p, bytes, false);
}

void __tsan_write_range(void *p, unsigned long bytes);
void __tsan_write_range(void *p, unsigned long bytes)
{
    note(p, bytes, true);
}
