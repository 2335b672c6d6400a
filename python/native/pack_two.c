/* Arrays of at most two bit patterns (masks, ReLU's signs, constants): one bit an element, 0 for the first pattern. An array of
 * one pattern has no payload. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/status.h"
#include "bits.h"
#include "blocks.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#define WIDTH 8
#include "pack_two_loops.h"
#define WIDTH 16
#include "pack_two_loops.h"
#define WIDTH 32
#include "pack_two_loops.h"
#define WIDTH 64
#include "pack_two_loops.h"

typedef struct loops {
    uint64_t (*find_other)(const void *array, uint64_t n, uint64_t value);
    bool (*pack)(const void *array, uint64_t first, uint64_t n, const uint64_t *values, uint64_t *words);
    void (*unpack)(void *array, uint64_t first, uint64_t n, const uint64_t *values, const uint64_t *words);
} loops;

static const loops *loops_of(uint32_t element_bytes)
{
    static const loops all[] = {{find_other_8, pack_8, unpack_8},
                                {find_other_16, pack_16, unpack_16},
                                {find_other_32, pack_32, unpack_32},
                                {find_other_64, pack_64, unpack_64}};
    return &all[element_bytes == 1 ? 0 : element_bytes == 2 ? 1 : element_bytes == 4 ? 2 : 3];
}

static uint64_t element(const void *array, uint32_t element_bytes, uint64_t index)
{
    uint64_t value = 0; /* little-endian, as all that Comet runs on */
    memcpy(&value, (const char *)array + index * element_bytes, element_bytes);
    return value;
}

typedef struct packing {
    const loops *loops;
    const void *src;
    void *dst;
    const uint64_t *values;
    uint64_t *words;
    const uint64_t *packed;
    atomic_bool failed; /* a third pattern: other parts need not be looked at */
} packing;

static void pack_part(void *arg, uint64_t first, uint64_t n)
{
    packing *p = arg;
    if (!atomic_load_explicit(&p->failed, memory_order_relaxed) && !p->loops->pack(p->src, first, n, p->values, p->words))
        atomic_store_explicit(&p->failed, true, memory_order_relaxed);
}

static void unpack_part(void *arg, uint64_t first, uint64_t n)
{
    const packing *p = arg;
    p->loops->unpack(p->dst, first, n, p->values, p->packed);
}

/* Finds both patterns; returns how many there are, were there no third one: 0 to 2. Most arrays with many patterns have three
 * of them in the first GROUP elements, which *more says. */
static unsigned find_patterns(const loops *l, const void *src, uint32_t element_bytes, uint64_t n, uint64_t *values, bool *more)
{
    *more = false;
    if (n == 0)
        return 0;
    values[0] = values[1] = element(src, element_bytes, 0);
    const uint64_t other = l->find_other(src, n, values[0]);
    if (other == n)
        return 1;
    values[1] = element(src, element_bytes, other);
    for (uint64_t i = other; i < n && i < other + GROUP && !*more; i++) {
        const uint64_t x = element(src, element_bytes, i);
        *more = x != values[0] && x != values[1];
    }
    return 2;
}

int comet_native_pack_two(comet_native_session *session, const void *src, uint32_t element_bytes, uint64_t n_elements,
                          comet_native_block **out)
{
    uint64_t values[2] = {0, 0};
    bool more = false;
    comet_native_block *block = NULL;
    if (!session || !out)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session and a place for the block are needed");
    TRY(array_check(src, element_bytes, n_elements));
    packing p = {.loops = loops_of(element_bytes), .src = src, .values = values};
    const unsigned n_patterns = find_patterns(p.loops, src, element_bytes, n_elements, values, &more);
    if (!more) {
        const uint64_t n_words = n_patterns == 2 ? (n_elements + GROUP - 1) / GROUP : 0;
        TRY(block_create(session, BLOCK_TWO, 8 * n_words, n_elements * element_bytes, &block));
        block->element_bytes = element_bytes;
        block->bits = n_patterns == 2;
        memcpy(block->values, values, sizeof values);
        p.words = block_payload(block);
        if (n_words)
            array_run(session, n_elements, pack_part, &p);
    }
    if (atomic_load(&p.failed)) {
        comet_native_free(session, block);
        block = NULL;
    }
    *out = block;
    return COMET_OK;
}

typedef struct filling {
    void *dst;
    uint64_t value;
    uint32_t element_bytes;
} filling;

static void fill_part(void *arg, uint64_t first, uint64_t n)
{
    const filling *f = arg;
    char *dst = (char *)f->dst + first * f->element_bytes;
    for (uint64_t i = 0; i < n; i++, dst += f->element_bytes)
        memcpy(dst, &f->value, f->element_bytes);
}

void two_unpack(comet_native_session *session, const comet_native_block *block, void *dst)
{
    const uint64_t n_elements = block->raw_bytes / block->element_bytes;
    packing p = {.loops = loops_of(block->element_bytes), .dst = dst, .values = block->values};
    filling f = {dst, block->values[0], block->element_bytes};
    p.packed = block_payload_const(block);
    if (block->bits)
        array_run(session, n_elements, unpack_part, &p);
    else
        array_run(session, n_elements, fill_part, &f);
}
