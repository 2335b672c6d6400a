/*
 * Indices of max pooling: each says where in its window the largest value was, so a few bits do instead of 64.
 *
 * With base = (row * stride - padding) * width + column * stride - padding, the first position of a window, the index is
 * base + y * dilation * width + x * dilation, and y * kernel width + x is stored. What does not have this form is refused: the
 * difference of index and base is divided and found to be such a sum, which then has one y and x that give the index back.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"
#include "blocks.h"
#include "packed_bits.h"

enum { MOST_PLACES = 256 }; /* in a window */

/* Where an element of the array is. */
typedef struct position {
    uint64_t inner, column, row;
} position;

typedef struct windows {
    comet_native_windows shape;
    const uint64_t *indices;
    uint64_t *words, *dst;
    const uint64_t *packed;
    unsigned bits;
    atomic_bool refused;
} windows;

static uint64_t n_places(const comet_native_windows *w)
{
    return (uint64_t)w->kernel[0] * w->kernel[1];
}

static position position_of(const comet_native_windows *w, uint64_t element)
{
    const uint64_t inner = element % w->n_inner, rest = element / w->n_inner;
    return (position){inner, rest % w->n_columns, rest / w->n_columns % w->n_rows};
}

static void advance(const comet_native_windows *w, position *p)
{
    if (++p->inner < w->n_inner)
        return;
    p->inner = 0;
    if (++p->column < w->n_columns)
        return;
    p->column = 0;
    p->row = p->row + 1 < w->n_rows ? p->row + 1 : 0;
}

/* Modulo 2^64: a window may begin before the plane does. */
static uint64_t base_of(const comet_native_windows *w, const position *p)
{
    return (p->row * w->stride[0] - w->padding[0]) * w->width + p->column * w->stride[1] - w->padding[1];
}

/* The place in the window, or MOST_PLACES where the index is none of the window's. */
static uint64_t place_of(const comet_native_windows *w, uint64_t distance)
{
    if (distance > UINT32_MAX)
        return MOST_PLACES;
    const uint32_t y = (uint32_t)distance / (uint32_t)w->width, x = (uint32_t)distance % (uint32_t)w->width;
    if (y % w->dilation[0] || x % w->dilation[1] || y / w->dilation[0] >= w->kernel[0] || x / w->dilation[1] >= w->kernel[1])
        return MOST_PLACES;
    return (uint64_t)(y / w->dilation[0]) * w->kernel[1] + x / w->dilation[1];
}

static void pack_part(void *arg, uint64_t first, uint64_t n)
{
    windows *w = arg;
    uint64_t values[GROUP], *words = w->words + first / GROUP * w->bits;
    position p = position_of(&w->shape, first);
    for (uint64_t i = 0; i < n; i += GROUP, words += w->bits) {
        const uint64_t here = n - i < GROUP ? n - i : GROUP;
        for (uint64_t k = 0; k < here; k++, advance(&w->shape, &p)) {
            values[k] = place_of(&w->shape, w->indices[first + i + k] - base_of(&w->shape, &p));
            if (values[k] >= MOST_PLACES) {
                atomic_store(&w->refused, true);
                return;
            }
        }
        pack_group(values, here, 0, w->bits, words);
    }
}

static void unpack_part(void *arg, uint64_t first, uint64_t n)
{
    const windows *w = arg;
    const comet_native_windows *shape = &w->shape;
    const uint64_t *words = w->packed + first / GROUP * w->bits;
    uint64_t values[GROUP], distances[MOST_PLACES];
    for (uint64_t k = 0; k < n_places(shape); k++)
        distances[k] = k / shape->kernel[1] * shape->dilation[0] * shape->width + k % shape->kernel[1] * shape->dilation[1];
    position p = position_of(shape, first);
    for (uint64_t i = 0; i < n; i += GROUP, words += w->bits) {
        const uint64_t here = n - i < GROUP ? n - i : GROUP;
        unpack_group(words, here, 0, w->bits, values);
        for (uint64_t k = 0; k < here; k++, advance(shape, &p))
            w->dst[first + i + k] = base_of(shape, &p) + distances[values[k]];
    }
}

/* ---- blocks ---- */

/* The payload: the shape, then the words. */
#define HEAD_BYTES ((sizeof(comet_native_windows) + 63) / 64 * 64)

static unsigned bits_of_places(uint64_t n)
{
    unsigned bits = 0;
    while ((UINT64_C(1) << bits) < n)
        bits++;
    return bits;
}

static comet_status count_elements(const comet_native_windows *w, uint64_t *n_elements)
{
    const uint64_t sides[] = {w->n_outer, w->n_rows, w->n_columns, w->n_inner};
    uint64_t n = 1;
    for (unsigned i = 0; i < 4; i++) {
        if (sides[i] == 0 || n > UINT32_MAX * UINT64_C(1024) / sides[i])
            return comet_fail(COMET_ERROR_ARGUMENT, "%llu indices by %llu: there must be some, and fewer than 2^42",
                              (unsigned long long)n, (unsigned long long)sides[i]);
        n *= sides[i];
    }
    *n_elements = n;
    return COMET_OK;
}

static comet_status check_windows(const comet_native_windows *w, uint64_t *n_elements)
{
    if (!w || w->size != sizeof *w)
        return comet_fail(COMET_ERROR_ARGUMENT, "windows of %zu bytes are needed", sizeof *w);
    TRY(count_elements(w, n_elements));
    if (w->width == 0 || w->width > UINT32_MAX)
        return comet_fail(COMET_ERROR_ARGUMENT, "a plane is %llu wide", (unsigned long long)w->width);
    for (unsigned i = 0; i < 2; i++)
        if (w->kernel[i] == 0 || w->dilation[i] == 0)
            return comet_fail(COMET_ERROR_ARGUMENT, "a kernel of %u and a dilation of %u", w->kernel[i], w->dilation[i]);
    return COMET_OK;
}

int comet_native_pack_windows(comet_native_session *session, const comet_native_windows *shape, const int64_t *indices,
                              comet_native_block **out)
{
    if (!session || !out)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session and a place for the block are needed");
    uint64_t n_elements = 0;
    TRY(check_windows(shape, &n_elements));
    TRY(array_check(indices, sizeof *indices, n_elements));
    comet_native_block *block = NULL;
    if (n_places(shape) <= MOST_PLACES) {
        windows w = {.shape = *shape, .indices = (const uint64_t *)indices, .bits = bits_of_places(n_places(shape))};
        TRY(block_create(session, BLOCK_WINDOWS, HEAD_BYTES + 8 * words_of(n_elements, w.bits), n_elements * sizeof *indices,
                         &block));
        block->element_bytes = sizeof *indices;
        block->bits = w.bits;
        memcpy(block_payload(block), shape, sizeof *shape);
        w.words = (uint64_t *)(void *)((char *)block_payload(block) + HEAD_BYTES);
        array_run(session, n_elements, pack_part, &w);
        if (atomic_load(&w.refused)) {
            comet_native_free(session, block);
            block = NULL;
        }
    }
    *out = block;
    return COMET_OK;
}

void windows_unpack(comet_native_session *session, const comet_native_block *block, void *dst)
{
    windows w = {.dst = dst, .bits = block->bits};
    memcpy(&w.shape, block_payload_const(block), sizeof w.shape);
    w.packed = (const uint64_t *)(const void *)((const char *)block_payload_const(block) + HEAD_BYTES);
    array_run(session, block->raw_bytes / block->element_bytes, unpack_part, &w);
}
