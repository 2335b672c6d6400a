/*
 * Bit streams, least significant bit first.
 *
 * Bits are written and read up to 56 at a time. The writer needs 8 bytes of room after what it has written; the reader may look
 * 8 bytes past the end. bit_reader_ok tells whether bits past the end were read, and must be asked at least once a block.
 */
#ifndef COMET_CODEC_BITS_H
#define COMET_CODEC_BITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

typedef struct bit_writer {
    uint8_t *next;
    uint64_t pending; /* bits that do not fill a byte yet */
    unsigned n_pending;
} bit_writer;

/* Appends the low `count` (0 to 56) bits of v; the bits above must be 0. */
static inline void bit_write(bit_writer *w, uint64_t v, unsigned count)
{
    w->pending |= v << w->n_pending;
    w->n_pending += count;
    store_u64(w->next, w->pending);
    w->next += w->n_pending >> 3;
    w->pending >>= w->n_pending & ~7u;
    w->n_pending &= 7;
}

/* Stores what is pending; returns the end of the stream. */
static inline uint8_t *bit_writer_end(bit_writer *w)
{
    store_u64(w->next, w->pending);
    return w->next + (w->n_pending + 7) / 8;
}

typedef struct bit_reader {
    const uint8_t *start;
    uint64_t position; /* in bits */
    uint64_t limit;    /* bits of the stream */
} bit_reader;

static inline bit_reader bit_reader_make(const uint8_t *start, size_t bytes)
{
    return (bit_reader){start, 0, (uint64_t)bytes * 8};
}

/* Returns the next 57 bits or more and leaves the position; bits past the end are arbitrary. */
static inline uint64_t bit_peek(const bit_reader *r)
{
    return load_u64(r->start + (r->position >> 3)) >> (r->position & 7);
}

/* count: 0 to 56. */
static inline uint64_t bit_read(bit_reader *r, unsigned count)
{
    uint64_t v = bit_peek(r) & ((UINT64_C(1) << count) - 1);
    r->position += count;
    return v;
}

static inline bool bit_reader_ok(const bit_reader *r)
{
    return r->position <= r->limit;
}

#endif
