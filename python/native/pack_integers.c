/* Integers as offsets from the least of them, in as many bits as the largest offset has. 64 elements make `bits` words of 64
 * bits, so that every group begins at a word. Arithmetic is modulo 2^64, which suits signed and unsigned elements alike. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/status.h"
#include "blocks.h"
#include "packed_bits.h"

/* ---- elements ---- */

/* n <= GROUP elements as 64 bits each, signs extended. */
typedef void load_function(const void *array, uint64_t first, uint64_t n, uint64_t *values);
typedef void store_function(void *array, uint64_t first, uint64_t n, const uint64_t *values);

#define DEFINE_LOAD(type)                                                                    \
    static void load_##type(const void *array, uint64_t first, uint64_t n, uint64_t *values) \
    {                                                                                        \
        for (uint64_t k = 0; k < n; k++)                                                     \
            values[k] = (uint64_t)((const type *)array)[first + k];                          \
    }
#define DEFINE_STORE(type)                                                                    \
    static void store_##type(void *array, uint64_t first, uint64_t n, const uint64_t *values) \
    {                                                                                         \
        for (uint64_t k = 0; k < n; k++)                                                      \
            ((type *)array)[first + k] = (type)values[k];                                     \
    }

DEFINE_LOAD(int8_t)
DEFINE_LOAD(int16_t)
DEFINE_LOAD(int32_t)
DEFINE_LOAD(uint8_t)
DEFINE_LOAD(uint16_t)
DEFINE_LOAD(uint32_t)
DEFINE_LOAD(uint64_t)
DEFINE_STORE(uint8_t)
DEFINE_STORE(uint16_t)
DEFINE_STORE(uint32_t)
DEFINE_STORE(uint64_t)

static unsigned width_index(uint32_t element_bytes)
{
    return element_bytes == 1 ? 0 : element_bytes == 2 ? 1 : element_bytes == 4 ? 2 : 3;
}

static load_function *load_of(uint32_t element_bytes, bool is_signed)
{
    static load_function *const all[2][4] = {{load_uint8_t, load_uint16_t, load_uint32_t, load_uint64_t},
                                             {load_int8_t, load_int16_t, load_int32_t, load_uint64_t}};
    return all[is_signed][width_index(element_bytes)];
}

static store_function *store_of(uint32_t element_bytes)
{
    static store_function *const all[4] = {store_uint8_t, store_uint16_t, store_uint32_t, store_uint64_t};
    return all[width_index(element_bytes)];
}

/* ---- the range ---- */

/* Flipping the sign bit makes signed numbers ascend like unsigned ones. */
static uint64_t order_mask(bool is_signed)
{
    return is_signed ? UINT64_C(1) << 63 : 0;
}

typedef struct range {
    load_function *load;
    const void *src;
    uint64_t mask;
    pthread_mutex_t lock;
    uint64_t least, most; /* with the mask applied */
} range;

static void range_part(void *arg, uint64_t first, uint64_t n)
{
    range *r = arg;
    uint64_t values[GROUP], least = UINT64_MAX, most = 0;
    for (uint64_t i = 0; i < n; i += GROUP) {
        const uint64_t here = n - i < GROUP ? n - i : GROUP;
        r->load(r->src, first + i, here, values);
        for (uint64_t k = 0; k < here; k++) {
            const uint64_t x = values[k] ^ r->mask;
            least = x < least ? x : least;
            most = x > most ? x : most;
        }
    }
    pthread_mutex_lock(&r->lock);
    r->least = least < r->least ? least : r->least;
    r->most = most > r->most ? most : r->most;
    pthread_mutex_unlock(&r->lock);
}

static unsigned bits_of(uint64_t value)
{
    return value ? 64u - (unsigned)__builtin_clzll(value) : 0;
}

/* ---- packed bits ---- */

typedef struct packing {
    load_function *load;
    store_function *store;
    const void *src;
    void *dst;
    uint64_t *words;
    const uint64_t *packed;
    uint64_t least;
    unsigned bits;
} packing;

static void pack_part(void *arg, uint64_t first, uint64_t n)
{
    const packing *p = arg;
    uint64_t values[GROUP], *words = p->words + first / GROUP * p->bits;
    for (uint64_t i = 0; i < n; i += GROUP, words += p->bits) {
        const uint64_t here = n - i < GROUP ? n - i : GROUP;
        p->load(p->src, first + i, here, values);
        pack_group(values, here, p->least, p->bits, words);
    }
}

static void unpack_part(void *arg, uint64_t first, uint64_t n)
{
    const packing *p = arg;
    const uint64_t *words = p->packed + first / GROUP * p->bits;
    uint64_t values[GROUP];
    for (uint64_t i = 0; i < n; i += GROUP, words += p->bits) {
        const uint64_t here = n - i < GROUP ? n - i : GROUP;
        unpack_group(words, here, p->least, p->bits, values);
        p->store(p->dst, first + i, here, values);
    }
}

/* ---- blocks ---- */

/* Sets the least value and the bits of an offset. */
static void find_range(comet_native_session *session, packing *p, bool is_signed, uint64_t n_elements)
{
    range r = {.load = p->load, .src = p->src, .mask = order_mask(is_signed), .least = UINT64_MAX};
    pthread_mutex_init(&r.lock, NULL);
    array_run(session, n_elements, range_part, &r);
    pthread_mutex_destroy(&r.lock);
    p->least = n_elements ? r.least ^ r.mask : 0;
    p->bits = n_elements ? bits_of(r.most - r.least) : 0;
}

int comet_native_pack_integers(comet_native_session *session, const void *src, uint32_t element_bytes, int is_signed,
                               uint64_t n_elements, comet_native_block **out)
{
    if (!session || !out)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session and a place for the block are needed");
    TRY(array_check(src, element_bytes, n_elements));
    packing p = {.load = load_of(element_bytes, is_signed != 0), .src = src};
    comet_native_block *block = NULL;
    find_range(session, &p, is_signed != 0, n_elements);
    if (p.bits < 8 * element_bytes) {
        TRY(block_create(session, BLOCK_INTEGERS, 8 * words_of(n_elements, p.bits), n_elements * element_bytes, &block));
        block->element_bytes = element_bytes;
        block->values[0] = p.least;
        block->bits = p.bits;
        p.words = block_payload(block);
        if (p.bits)
            array_run(session, n_elements, pack_part, &p);
    }
    *out = block;
    return COMET_OK;
}

void integers_unpack(comet_native_session *session, const comet_native_block *block, void *dst)
{
    packing p = {.store = store_of(block->element_bytes), .dst = dst, .least = block->values[0], .bits = block->bits};
    p.packed = block_payload_const(block);
    array_run(session, block->raw_bytes / block->element_bytes, unpack_part, &p);
}
