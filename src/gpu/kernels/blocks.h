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

/* Where code i of a chunk is. On a GPU 4 bytes are left out every 128 bytes, so that threads that each go through a half block
 * of their own meet different banks of shared memory. */
#if LOT == 1
#define CODE_AT(i) ((i) + (i) / (1024 / CODE_BITS) * (32 / CODE_BITS))
#else
#define CODE_AT(i) (i)
#endif
#define CODES_ROOM CODE_AT(MAX_CHUNK)

FUNCTION u32 lowest_bit(u32 mask)
{
    return 31 - LEADING_ZEROS(mask & (0u - mask));
}

/* Threads of a GPU take codes of 16 bits in pairs: a word is two lanes, the lower code first. */
#define PAIRED (CODE_BITS == 16 && LOT == 1)
#if PAIRED
typedef u32 ALIASING code_pair;
#define PAIRS (HALF / 2)               /* of a half block, which lie in a row */
#define PAIR_AT(w) ((w) + ((w) >> 5))  /* where pair w of a chunk is, which may be negative */
#define PAIR_STEP (GROUP + GROUP / 32) /* from pair w to pair w + GROUP */
#define PAIRS_BEFORE 128               /* zeros in front of a chunk's pairs, for neighbours that are not there */
#define ONES 0x00010001u
#define TOPS 0x80008000u

/* Sums of lanes, modulo 2^16 each: those of whole words have the right lower lane, those of upper lanes the right upper one. */
FUNCTION u32 lanes_joined(u32 upper, u32 whole)
{
    return (upper & 0xffff0000u) | (whole & 0xffffu);
}

/* Lanes of a sum that has taken from its upper lane what its lower one, a negative number of 16 bits, lacked. */
FUNCTION u32 lanes_settled(u32 sum)
{
    return sum + ((sum & 0x8000u) << 1);
}

FUNCTION u32 lanes_sum(u32 a, u32 b)
{
    return lanes_joined(a + (b & 0xffff0000u), a + b);
}

FUNCTION u32 lanes_zigzag(u32 r)
{
    return (r << 1 & ~ONES) ^ (r >> 15 & ONES) * 0xffffu;
}

FUNCTION u32 lanes_unzigzag(u32 z)
{
    return (z >> 1 & ~TOPS) ^ (z & ONES) * 0xffffu;
}

/* 1 in each lane that is not 0. */
FUNCTION u32 lanes_nonzero(u32 z)
{
    return (((z & ~TOPS) + ~TOPS) | z) >> 15 & ONES;
}

/* The lower halves of the bits go to even places, the upper halves to odd ones. */
FUNCTION u32 interleaved(u32 halves)
{
    u32 v = halves, swap = (v ^ v >> 8) & 0x0000ff00u;
    v ^= swap ^ swap << 8;
    swap = (v ^ v >> 4) & 0x00f000f0u;
    v ^= swap ^ swap << 4;
    swap = (v ^ v >> 2) & 0x0c0c0c0cu;
    v ^= swap ^ swap << 2;
    swap = (v ^ v >> 1) & 0x22222222u;
    return v ^ swap ^ swap << 1;
}
#endif

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

/* The 32 bits from bit `bit` on, counted from byte 0. */
FUNCTION u32 bits32_at(const bytes_in *in, u32 bit)
{
    u32 at = bit + 8 * in->skip, i = at / 32, shift = at % 32;
    return word_at(in, i) >> shift | word_at(in, i + 1) << 1 << (31 - shift);
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

/* The shortest shape for `n_nonzero` residuals z other than 0 that are together at most `any` long, z - 1 at most `less`. */
FUNCTION u32 shape_for(u32 any, u32 less, u32 n_nonzero)
{
    u32 plain = length_in_bits(any), bitmap = length_in_bits(less);
    return BLOCK_ELEMENTS + n_nonzero * bitmap < BLOCK_ELEMENTS * plain ? bitmap | SHAPE_MAP : plain;
}

/* Bits that a block takes, with its kind, whose largest residual is `max`. */
FUNCTION u32 cost_of_block(u32 max, u32 n_nonzero)
{
    u32 shape = shape_for(max, max ? max - 1 : 0, n_nonzero), width = SHAPE_WIDTH(shape);
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

#endif
