/* The shape of a block of packed residuals: how it is chosen, written and read. See residual_body.h for the format. */
#ifndef COMET_CODEC_BLOCK_H
#define COMET_CODEC_BLOCK_H

#include "codec/bits.h"
#include "codec/kernels/kernels.h"

typedef struct block_shape {
    bool bitmap;
    unsigned width; /* bits a value */
    unsigned bytes; /* of values, map and wide byte */
} block_shape;

enum { KIND_BITMAP_MAX = 6, KIND_PLAIN_MAX = 8, KIND_WIDE = 15 };
enum { WIDE_BITMAP = 128 }; /* the bit of a wide byte that says bitmap */
#define MAP_BYTES 8

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
    return (block_shape){bitmap, width, extra + (bitmap ? MAP_BYTES + values_bytes(n_nonzero, width) : 8 * width)};
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

static inline bool block_is_wide(block_shape shape)
{
    return shape.width > (shape.bitmap ? KIND_BITMAP_MAX : KIND_PLAIN_MAX);
}

static inline uint8_t wide_byte(block_shape shape)
{
    return (uint8_t)(shape.width | (shape.bitmap ? WIDE_BITMAP : 0));
}

/* Writes all of a block but its values: the kind, the map if it is a bitmap, the wide byte if it is wide. */
static inline void block_begin(block_shape shape, uint64_t map, size_t block, block_writer *out)
{
    bool wide = block_is_wide(shape);
    set_kind(out->kinds, block, wide ? KIND_WIDE : shape.width + (shape.bitmap || shape.width == 0 ? 0 : KIND_BITMAP_MAX));
    *out->wides = wide_byte(shape);
    out->wides += wide;
    store_u64(out->maps, map);
    out->maps += shape.bitmap ? MAP_BYTES : 0;
}

/* The inverse of block_begin; `bytes` is not set. Of a plain block the map is all ones. Reads map and wide byte without a
 * branch, whether there is one or not, because kinds come at random. */
static inline block_shape block_shape_read(unsigned kind, block_reader *in, uint64_t *map)
{
    unsigned byte = in->wides[-1];
    bool wide = kind == KIND_WIDE, narrow_bitmap = kind <= KIND_BITMAP_MAX;
    block_shape shape = {.bitmap = wide ? byte >= WIDE_BITMAP : narrow_bitmap && kind,
                         .width = wide            ? byte % WIDE_BITMAP
                                  : narrow_bitmap ? kind
                                                  : kind - KIND_BITMAP_MAX};
    in->wides -= wide;
    *map = shape.bitmap ? load_u64(in->maps) : ~UINT64_C(0);
    in->maps += shape.bitmap ? MAP_BYTES : 0;
    return shape;
}

#endif
