/* Blocks of packed residuals: their shapes, their bytes in global memory, the residuals themselves. the format, "Fast
 * codes". */
#ifndef COMET_GPU_BLOCKS_H
#define COMET_GPU_BLOCKS_H

#if CODE_BITS == 16
typedef u16 code_word; /* a code as it is kept, modulo 2^CODE_BITS */
#define SIGNED_CODE(c) ((i32)((u32)(c) << 16) >> 16)
#else
typedef u32 code_word;
#define SIGNED_CODE(c) ((i32)(c))
#endif

/* Where code i of a chunk is. On a GPU 4 bytes are left out every 32 codes, so that threads that each go through a half block
 * of their own meet different banks of shared memory. */
#if LOT == 1
#define CODE_AT(i) ((i) + (i) / HALF * (32 / CODE_BITS))
#else
#define CODE_AT(i) (i)
#endif
#define CODES_ROOM CODE_AT(MAX_CHUNK)

FUNCTION u32 length_in_bits(u32 v)
{
    return v ? 32u - LEADING_ZEROS(v) : 0u;
}

/* ---- reading at any byte ---- */

/* Bytes of a payload, read in aligned words: byte 0 is byte `skip` of the first word. No word after the last is touched. */
typedef struct bytes_in {
    GLOBAL const u32 *words;
    u32 skip, last;
} bytes_in;

FUNCTION bytes_in bytes_from(GLOBAL const u8 *buffer, u64 at, u32 n_bytes)
{
    bytes_in in;
    in.words = (GLOBAL const u32 *)buffer + at / 4;
    in.skip = (u32)(at % 4);
    in.last = n_bytes ? (in.skip + n_bytes - 1) / 4 : 0;
    return in;
}

FUNCTION u32 word_at(const bytes_in *in, u32 i)
{
    return in->words[i < in->last ? i : in->last];
}

/* The 64 bits from bit `bit` on, counted from byte 0. What lies after the payload is arbitrary. */
FUNCTION u64 bits_at(const bytes_in *in, u32 bit)
{
    u32 at = bit + 8 * in->skip, i = at / 32, shift = at % 32;
    u64 low = word_at(in, i) | (u64)word_at(in, i + 1) << 32;
    return shift ? low >> shift | (u64)word_at(in, i + 2) << (64 - shift) : low;
}

FUNCTION u32 u32_at(const bytes_in *in, u32 byte)
{
    u32 at = byte + in->skip, i = at / 4, shift = at % 4 * 8;
    u32 low = word_at(in, i);
    return shift ? low >> shift | word_at(in, i + 1) << (32 - shift) : low;
}

FUNCTION u32 u8_at(const bytes_in *in, u32 byte)
{
    u32 at = byte + in->skip;
    return word_at(in, at / 4) >> at % 4 * 8 & 255u;
}

FUNCTION void store_bytes(GLOBAL u8 *out, u32 v, u32 n_bytes)
{
    for (u32 i = 0; i < n_bytes; i++, v >>= 8)
        out[i] = (u8)v;
}

/* ---- shapes ---- */

/* Bits a value, and this where the block has a map. */
#define SHAPE_MAP 128u
#define SHAPE_WIDTH(shape) ((shape)&127u)

FUNCTION u32 bytes_of_values(u32 count, u32 width)
{
    return width / 8 * count + (width % 8 * count + 7) / 8;
}

FUNCTION u32 shape_is_wide(u32 shape)
{
    return SHAPE_WIDTH(shape) > (shape & SHAPE_MAP ? 6u : 8u);
}

/* The shortest shape for residuals with this maximum and count of non-zeros. */
FUNCTION u32 shape_for(u32 max, u32 n_nonzero)
{
    u32 plain = length_in_bits(max), bitmap = max ? length_in_bits(max - 1) : 0;
    return BLOCK_ELEMENTS + n_nonzero * bitmap < BLOCK_ELEMENTS * plain ? bitmap | SHAPE_MAP : plain;
}

/* Bits that a block takes, with its kind. */
FUNCTION u32 cost_of_block(u32 max, u32 n_nonzero)
{
    u32 shape = shape_for(max, n_nonzero), width = SHAPE_WIDTH(shape);
    u32 bytes = shape & SHAPE_MAP ? 8 + bytes_of_values(n_nonzero, width) : 8 * width;
    return 4 + 8 * (bytes + shape_is_wide(shape));
}

FUNCTION u32 kind_of_shape(u32 shape)
{
    u32 width = SHAPE_WIDTH(shape);
    if (shape_is_wide(shape))
        return 15;
    return shape & SHAPE_MAP || width == 0 ? width : width + 6;
}

/* The inverse, for kinds other than 15. */
FUNCTION u32 shape_of_kind(u32 kind)
{
    return kind == 0 ? 0 : kind <= 6 ? kind | SHAPE_MAP : kind - 6;
}

/* ---- residuals ---- */

FUNCTION u32 zigzag(u32 residual)
{
    i32 r = SIGNED_CODE(residual);
    return (u32)(code_word)((u32)r << 1 ^ (u32)(r >> 31));
}

FUNCTION u32 unzigzag(u32 z)
{
    return z >> 1 ^ (0u - (z & 1u));
}

/* The `n` codes from i - back on; 0 before the chunk. */
FUNCTION void codes_before(SHARED const code_word *codes, u32 i, u32 back, u32 n, u32 *out)
{
    if (n > 1 && i >= back)
        for (u32 e = 0; e < n; e++)
            out[e] = codes[CODE_AT(i - back + e)];
    else
        for (u32 e = 0; e < n; e++)
            out[e] = i + e >= back ? codes[CODE_AT(i + e - back)] : 0;
}

/* How the residuals of a chunk are made. */
typedef struct packing {
    u32 predictor, identity, left, up;
} packing;

/* The residuals of a lot from code i on, under predictors NONE to LORENZO, whose bits say which neighbours count. */
FUNCTION void residuals_of(SHARED const code_word *codes, const packing *p, u32 i, u32 *r)
{
    u32 other[LOT];
    codes_before(codes, i, 0, LOT, r);
    if (p->predictor & PREDICTOR_LEFT) {
        codes_before(codes, i, p->left, LOT, other);
        for (u32 e = 0; e < LOT; e++)
            r[e] -= other[e];
    }
    if (p->predictor & PREDICTOR_UP) {
        codes_before(codes, i, p->up, LOT, other);
        for (u32 e = 0; e < LOT; e++)
            r[e] -= other[e];
    }
    if ((p->predictor & PREDICTOR_LORENZO) == PREDICTOR_LORENZO) {
        codes_before(codes, i, p->up + p->left, LOT, other);
        for (u32 e = 0; e < LOT; e++)
            r[e] += other[e];
    }
    for (u32 e = 0; e < LOT; e++)
        r[e] = p->identity ? (u32)(code_word)r[e] : zigzag(r[e]);
}

#endif
