/* The shape of a bit-plane block: how it is chosen and how it is written. See residual_body.h for the format. */
#ifndef COMET_CODEC_BLOCK_H
#define COMET_CODEC_BLOCK_H

#include "codec/bits.h"

typedef struct block_shape {
    bool bitmap;
    unsigned width; /* planes */
    unsigned bits;  /* of the block, the extra 8 of kind 15 included; the kind itself not */
} block_shape;

enum { KIND_BITMAP_MAX = 6, KIND_PLAIN_MAX = 8, KIND_OTHER = 15 };
enum { BITMAP_MOST = 56 }; /* non-zeros in a bitmap block: what a bit stream moves at a time */

/* The shortest shape for residuals with this maximum and count of non-zeros. */
static inline block_shape block_shape_of(uint64_t max, unsigned n_nonzero)
{
    unsigned plain_width = bit_length_u64(max), bitmap_width = max ? bit_length_u64(max - 1) : 0;
    unsigned plain_bits = 64 * plain_width, bitmap_bits = 64 + n_nonzero * bitmap_width;
    bool bitmap = bitmap_bits < plain_bits && n_nonzero <= BITMAP_MOST;
    unsigned width = bitmap ? bitmap_width : plain_width;
    unsigned extra = width > (bitmap ? KIND_BITMAP_MAX : KIND_PLAIN_MAX) ? 8 : 0;
    return (block_shape){bitmap, width, (bitmap ? bitmap_bits : plain_bits) + extra};
}

/* The 4-bit kind; writes the 8 bits that go with kind 15. */
static inline unsigned block_kind(block_shape shape, bit_writer *bits)
{
    if (shape.width <= (shape.bitmap ? KIND_BITMAP_MAX : KIND_PLAIN_MAX))
        return shape.width + (shape.bitmap || shape.width == 0 ? 0 : KIND_BITMAP_MAX);
    bit_write(bits, shape.width | (shape.bitmap ? 128u : 0u), 8);
    return KIND_OTHER;
}

/* The inverse of block_kind; false if the width is more than max_width. */
static inline bool block_shape_read(unsigned kind, bit_reader *bits, unsigned max_width, block_shape *shape)
{
    shape->bitmap = kind != 0 && kind <= KIND_BITMAP_MAX;
    shape->width = kind <= KIND_BITMAP_MAX ? kind : kind - KIND_BITMAP_MAX;
    if (kind == KIND_OTHER) {
        if (!bit_reader_ok(bits))
            return false;
        unsigned byte = (unsigned)bit_read(bits, 8);
        shape->bitmap = byte >> 7;
        shape->width = byte & 127;
    }
    return shape->width <= max_width;
}

static inline void set_kind(uint8_t *kinds, size_t block, unsigned kind)
{
    uint8_t *byte = &kinds[block / 2];
    *byte = (uint8_t)(block % 2 ? *byte | kind << 4 : kind);
}

static inline unsigned get_kind(const uint8_t *kinds, size_t block)
{
    return kinds[block / 2] >> (block % 2 * 4) & 15;
}

#endif
