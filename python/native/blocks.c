/* Blocks, and what the ways of packing share. */
#include "blocks.h"

#include "base/status.h"

/* Elements of a part that one thread works on; a multiple of 64. */
enum { PART_ELEMENTS = 1 << 17 };

comet_status block_create(comet_native_session *session, block_kind kind, uint64_t payload_bytes, uint64_t raw_bytes,
                          comet_native_block **out)
{
    void *memory = NULL;
    TRY(block_pool_alloc(session->pool, sizeof(comet_native_block) + (size_t)payload_bytes, &memory));
    comet_native_block *block = memory;
    *block = (comet_native_block){.kind = kind, .payload_bytes = payload_bytes, .raw_bytes = raw_bytes};
    *out = block;
    return COMET_OK;
}

void *block_payload(comet_native_block *block)
{
    return block + 1;
}

const void *block_payload_const(const comet_native_block *block)
{
    return block + 1;
}

void comet_native_free(comet_native_session *session, comet_native_block *block)
{
    if (session && block)
        block_pool_free(session->pool, block);
}

uint64_t comet_native_raw_bytes(const comet_native_block *block)
{
    return block ? block->raw_bytes : 0;
}

uint64_t comet_native_block_bytes(const comet_native_block *block)
{
    return block ? block_pool_bytes_of(block) : 0;
}

/* ---- arrays ---- */

comet_status array_check(const void *array, uint32_t element_bytes, uint64_t n_elements)
{
    if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4 && element_bytes != 8)
        return comet_fail(COMET_ERROR_ARGUMENT, "elements of %u bytes cannot be packed: 1, 2, 4 and 8 can", element_bytes);
    if (n_elements > SIZE_MAX / 8)
        return comet_fail(COMET_ERROR_OVERFLOW, "%llu elements are too many", (unsigned long long)n_elements);
    if (!array && n_elements)
        return comet_fail(COMET_ERROR_ARGUMENT, "the array is null");
    if ((uintptr_t)array % element_bytes != 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "the array is not aligned to its elements of %u bytes", element_bytes);
    return COMET_OK;
}

typedef struct parts {
    uint64_t n_elements;
    void (*part)(void *arg, uint64_t first, uint64_t n);
    void *arg;
} parts;

static void run_part(void *arg, size_t index)
{
    const parts *p = arg;
    const uint64_t first = (uint64_t)index * PART_ELEMENTS, left = p->n_elements - first;
    p->part(p->arg, first, left < PART_ELEMENTS ? left : PART_ELEMENTS);
}

void array_run(comet_native_session *session, uint64_t n_elements, void (*part)(void *arg, uint64_t first, uint64_t n),
               void *arg)
{
    parts p = {n_elements, part, arg};
    workers_run(session->workers, (size_t)((n_elements + PART_ELEMENTS - 1) / PART_ELEMENTS), run_part, &p);
}
