/* The shape of a block of packed residuals: how it is chosen and how it is written. See residual_body.h for the format. */
#ifndef COMET_CODEC_BLOCK_H
#define COMET_CODEC_BLOCK_H

#include "codec/bits.h"
#include "codec/kernels/kernels.h"

typedef struct block_shape {
    bool bitmap;
    unsigned width; /* bits a value */
    unsigned bytes; /* of the block, the extra one of kind 15 included; the kind itself not */
} block_shape;

enum { KIND_BITMAP_MAX = 6, KIND_PLAIN_MAX = 8, KIND_OTHER = 15 };

/* Bytes of `count` values: whole bytes of each, then the bits that are left, rounded up together. */
static inline unsigned values_bytes(unsigned count, unsigned width)
{
    return width / 8 * count + (width % 8 * count + 7) / 8;
}

/* The shortest shape for residuals with this maximum and count of non-zeros. */
static inline block_shape block_shape_of(uint64_t max, unsigned n_nonzero)
{
    unsigned plain_width = bit_length_u64(max), bitmap_width = max ? bit_length_u64(max - 1) : 0;
    bool bitmap = BLOCK + n_nonzero * bitmap_width < BLOCK * plain_width;
    unsigned width = bitmap ? bitmap_width : plain_width;
    unsigned extra = width > (bitmap ? KIND_BITMAP_MAX : KIND_PLAIN_MAX);
    return (block_shape){bitmap, width, extra + (bitmap ? 8 + values_bytes(n_nonzero, width) : 8 * width)};
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

/* Writes the 4-bit kind and the byte that goes with kind 15; returns the end of what was written. */
static inline uint8_t *block_begin(block_shape shape, size_t block, uint8_t *kinds, uint8_t *out)
{
    if (shape.width <= (shape.bitmap ? KIND_BITMAP_MAX : KIND_PLAIN_MAX)) {
        set_kind(kinds, block, shape.width + (shape.bitmap || shape.width == 0 ? 0 : KIND_BITMAP_MAX));
        return out;
    }
    set_kind(kinds, block, KIND_OTHER);
    *out = (uint8_t)(shape.width | (shape.bitmap ? 128u : 0u));
    return out + 1;
}

/* The inverse of block_begin; `bytes` is not set. Reads the byte of kind 15 without a branch, whether there is one or not,
 * because kinds 15 come at random. If it lies past the end, the reader is past its end afterwards, which the caller checks. */
static inline block_shape block_shape_read(unsigned kind, block_reader *in)
{
    unsigned byte = *in->next;
    bool other = kind == KIND_OTHER, bitmap = kind <= KIND_BITMAP_MAX;
    in->next += other;
    return (block_shape){.bitmap = other ? byte >> 7 : bitmap && kind,
                         .width = other    ? byte & 127
                                  : bitmap ? kind
                                           : kind - KIND_BITMAP_MAX};
}

#endif
