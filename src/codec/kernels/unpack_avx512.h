/* How a block of packed 16-bit codes is unpacked and its prediction undone, for the AVX-512 units that decompress: see
 * decode_avx512.c. */
#ifndef COMET_CODEC_UNPACK_AVX512_H
#define COMET_CODEC_UNPACK_AVX512_H

#include "codec/kernels/avx512.h"

static const _Alignas(64) uint8_t apart[9][64] = {
    EIGHT_TIMES(FIRST_8, 0), EIGHT_TIMES(FIRST_8, 1), EIGHT_TIMES(FIRST_8, 2), EIGHT_TIMES(FIRST_8, 3), EIGHT_TIMES(FIRST_8, 4),
    EIGHT_TIMES(FIRST_8, 5), EIGHT_TIMES(FIRST_8, 6), EIGHT_TIMES(FIRST_8, 7), EIGHT_TIMES(FIRST_8, 8),
};

/* The inverse of put_values; reads 64 bytes. */
HOT __m512i get_values(const uint8_t *in, uint64_t map, unsigned width)
{
    const packing *p = &packings[width];
    __m512i v = _mm512_permutexvar_epi8(_mm512_load_si512(apart[width]), _mm512_loadu_si512(in));
    v = _mm512_and_si512(_mm512_multishift_epi64_epi8(each64(p->from), v), each64(p->low));
    return expand8(map, v);
}

/* Values that do not fit bytes: the low bytes, then what is left. Returns their end. */
static __attribute__((noinline)) const uint8_t *unpack_large(block_shape shape, uint64_t map, bool identity,
                                                             const uint8_t *values, uint16_t *c)
{
    unsigned count = (unsigned)__builtin_popcountll(map);
    __m512i low = get_values(values, map, 8), high = get_values(values + count, map, shape.width - 8);
    for (int k = 0; k < 2; k++) {
        __m256i low_half = k ? _mm512_extracti64x4_epi64(low, 1) : _mm512_castsi512_si256(low);
        __m256i high_half = k ? _mm512_extracti64x4_epi64(high, 1) : _mm512_castsi512_si256(high);
        __m512i z = _mm512_or_si512(_mm512_cvtepu8_epi16(low_half), _mm512_slli_epi16(_mm512_cvtepu8_epi16(high_half), 8));
        __mmask32 present = shape.bitmap ? (__mmask32)(map >> (32 * k)) : 0;
        z = _mm512_mask_add_epi16(z, present, z, _mm512_set1_epi16(1));
        __m512i sign = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z, _mm512_set1_epi16(1)));
        _mm512_storeu_si512(c + 32 * k, identity ? z : _mm512_xor_si512(_mm512_srli_epi16(z, 1), sign));
    }
    return values + values_bytes(count, shape.width);
}

/* A block, with the map undone, as two registers; `c` is room for it. False if the values run out. */
HOT bool unpack_block(unsigned kind, bool identity, block_reader *in, uint16_t *c, __m512i z[2])
{
    uint64_t map;
    block_shape shape = block_shape_read(kind, in, &map);
    if (shape.width + shape.bitmap > 8) { /* more than a byte can hold */
        if (shape.width > 16)
            return false;
        in->values = unpack_large(shape, map, identity, in->values, c);
        z[0] = _mm512_loadu_si512(c);
        z[1] = _mm512_loadu_si512(c + 32);
        return in->values <= in->values_end;
    }
    __m512i v = get_values(in->values, map, shape.width);
    v = _mm512_mask_add_epi8(v, map, v, _mm512_set1_epi8(shape.bitmap)); /* non-zeros were stored less one */
    in->values += ((unsigned)__builtin_popcountll(map) * shape.width + 7) / 8;
    if (!identity)
        v = unzigzag_bytes(v);
    __m256i low = _mm512_castsi512_si256(v), high = _mm512_extracti64x4_epi64(v, 1);
    z[0] = identity ? _mm512_cvtepu8_epi16(low) : _mm512_cvtepi8_epi16(low);
    z[1] = identity ? _mm512_cvtepu8_epi16(high) : _mm512_cvtepi8_epi16(high);
    return in->values <= in->values_end;
}

/* What the codes before add to each lane of the next ones, or their differences to the line above. It grows by sums of the new
 * ones alone, so that a register waits for the one before for a single addition. */
typedef struct left_sums {
    size_t distance; /* 1 or 16 */
    __m512i carry;
} left_sums;

/* The last `distance` lanes, again and again. */
HOT __m512i last_lanes(size_t distance, __m512i v)
{
    return distance == 1 ? _mm512_permutexvar_epi16(_mm512_set1_epi16(31), v) : _mm512_shuffle_i64x2(v, v, 0xee);
}

HOT left_sums left_sums_make(size_t distance, __m512i last)
{
    return (left_sums){distance, last_lanes(distance, last)};
}

HOT __m512i add_left_neighbours(left_sums *s, __m512i v)
{
    const __m512i low_above = _mm512_inserti64x4(_mm512_setzero_si512(), _mm512_castsi512_si256(v), 1);
    const __m512i sums = s->distance == 1 ? running_sums(v) : _mm512_add_epi16(v, low_above);
    v = _mm512_add_epi16(sums, s->carry);
    s->carry = _mm512_add_epi16(s->carry, last_lanes(s->distance, sums));
    return v;
}

/*
 * The codes above, from registers or from memory: only whole registers are loaded, as they were stored, because a load across
 * stores that were made just before is slow.
 */
typedef struct codes_above {
    size_t back;     /* the distance to the line above, rounded up to whole registers */
    __m512i order;   /* takes the codes above from two registers that lie this far back */
    __m512i last[2]; /* the last 64 codes, where these are the registers */
    bool near;
} codes_above;

HOT codes_above codes_above_make(size_t line, const uint16_t *c)
{
    codes_above a = {.back = (line + 31) / 32 * 32, .near = line <= BLOCK};
    a.order = _mm512_add_epi16(lane_numbers(), _mm512_set1_epi16((short)(a.back - line)));
    a.last[0] = _mm512_loadu_si512(c - 64);
    a.last[1] = _mm512_loadu_si512(c - 32);
    return a;
}

/* Adds the codes above to 32 codes at c. */
HOT __m512i add_codes_above(codes_above *a, const uint16_t *c, __m512i v)
{
    if (a->near) {
        v = _mm512_add_epi16(v, _mm512_permutex2var_epi16(a->last[0], a->order, a->last[1]));
        a->last[0] = a->last[1];
        a->last[1] = v;
        return v;
    }
    const __m512i first = _mm512_loadu_si512(c - a->back), second = _mm512_loadu_si512(c - a->back + 32);
    return _mm512_add_epi16(v, _mm512_permutex2var_epi16(first, a->order, second));
}

/* A line must be longer than a register. For Lorenzo, separate loops are faster where the line above is not whole registers
 * away. */
static inline bool suits_one_loop(const packed_tile *t)
{
    const strides s = t->strides;
    const bool left = t->predictor == PREDICT_LEFT || t->predictor == PREDICT_LORENZO;
    if (t->predictor == PREDICT_UP && s.up <= 32)
        return false;
    if (t->predictor == PREDICT_LORENZO && (s.up < BLOCK || (s.up % 32 && s.up <= 512)))
        return false;
    return t->n % BLOCK == 0 && t->quantiser->mode != QUANTISE_DITHER && (!left || s.left == 1 || s.left == 16) &&
           !(t->stream && (uintptr_t)t->x % 64);
}

#endif
