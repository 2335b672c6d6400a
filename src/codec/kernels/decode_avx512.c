/* The AVX-512 kernels of decompression, level fast, for 16-bit codes: see kernels_avx512.c. */
#include "codec/kernels/unpack_avx512.h"

/* ---- dequantise, f32 ---- */

HOT __m512 load_values_f32(const quantiser *q, enum quantiser_mode mode, const int16_t *codes, uint32_t index)
{
    return values_f32(q, mode, _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)codes)), index);
}

HOT void dequantise_blocks_f32(const quantiser *given, enum quantiser_mode mode, const int16_t *c, size_t n, uint32_t first,
                               float *out, bool stream)
{
    const quantiser q = *given; /* a copy, which stores to `out` cannot touch */
    size_t head = (64 - (uintptr_t)out % 64) % 64 / sizeof *out, i = head < n ? head : n;
    /* codes go on past n, up to a block */
    _mm512_mask_storeu_ps(out, (__mmask16)((1u << i) - 1), load_values_f32(&q, mode, c, first));
    if (stream)
        for (; i + 16 <= n; i += 16)
            _mm512_stream_ps(out + i, load_values_f32(&q, mode, c + i, first + (uint32_t)i));
    else
        for (; i + 16 <= n; i += 16)
            _mm512_storeu_ps(out + i, load_values_f32(&q, mode, c + i, first + (uint32_t)i));
    if (i < n)
        _mm512_mask_storeu_ps(out + i, (__mmask16)((1u << (n - i)) - 1), load_values_f32(&q, mode, c + i, first + (uint32_t)i));
}

void dequantise_f32_16_avx512(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    switch (q->mode) {
    case QUANTISE_PLAIN: dequantise_blocks_f32(q, QUANTISE_PLAIN, codes, n, first, x, stream); break;
    case QUANTISE_SUPPORT: dequantise_blocks_f32(q, QUANTISE_SUPPORT, codes, n, first, x, stream); break;
    case QUANTISE_NONZERO: dequantise_blocks_f32(q, QUANTISE_NONZERO, codes, n, first, x, stream); break;
    case QUANTISE_DITHER: dequantise_blocks_f32(q, QUANTISE_DITHER, codes, n, first, x, stream); break;
    }
}

/* ---- unpack ---- */

bool unpack_16_avx512(size_t first_block, size_t n_blocks, bool identity, block_reader *reader, void *codes)
{
    uint16_t *c = codes;
    block_reader in = *reader;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK) {
        __m512i z[2];
        if (!unpack_block(get_kind(in.kinds, b), identity, &in, c, z))
            return false;
        _mm512_storeu_si512(c, z[0]);
        _mm512_storeu_si512(c + 32, z[1]);
    }
    *reader = in;
    return true;
}

/* ---- undo prediction ---- */

/*
 * Undoing prediction is a running sum with a stride. Loads that straddle stores just made are slow, so sums are kept in
 * registers (strides below 32) or in a row of aligned slots that is loaded exactly as it was stored.
 */

/* Running sums with stride `distance` inside a register, by doubling: step s adds what lies distance << s lanes before. */
typedef struct lane_sums {
    int steps;
    __m512i shift[5];
    __mmask32 keep[5];
} lane_sums;

static inline lane_sums lane_sums_make(unsigned distance)
{
    lane_sums l = {0};
    for (unsigned d = distance; d < 32; d *= 2, l.steps++) {
        l.shift[l.steps] = _mm512_sub_epi16(lane_numbers(), _mm512_set1_epi16((short)d));
        l.keep[l.steps] = ~UINT32_C(0) << d;
    }
    return l;
}

HOT __m512i lane_sums_of(const lane_sums *l, __m512i v)
{
    for (int s = 0; s < l->steps; s++)
        v = _mm512_add_epi16(v, _mm512_maskz_permutexvar_epi16(l->keep[s], l->shift[s], v));
    return v;
}

/* c[i] += c[i - 1]. */
static inline void add_left(uint16_t *c, size_t n, uint16_t before)
{
    const __m512i top = _mm512_set1_epi16(31);
    __m512i left = _mm512_set1_epi16((short)before);
    for (size_t i = 0; i < n; i += 32) {
        const __m512i sums = running_sums(_mm512_loadu_si512(c + i));
        _mm512_storeu_si512(c + i, _mm512_add_epi16(sums, left));
        left = _mm512_add_epi16(left, _mm512_permutexvar_epi16(top, sums));
    }
}

/* c[i] += c[i - distance] for distance < 32, n a multiple of 32. `before` holds the 32 sums that precede c; of each register
 * the last `distance` lanes, repeated, are carried into the next. */
HOT void add_near(uint16_t *c, size_t n, unsigned distance, __m512i before)
{
    uint16_t repeat[32];
    for (unsigned j = 0; j < 32; j++)
        repeat[j] = (uint16_t)(32 - distance + j % distance);
    const __m512i carry = _mm512_loadu_si512(repeat);
    const lane_sums l = lane_sums_make(distance);
    for (size_t i = 0; i < n; i += 32) {
        before = _mm512_add_epi16(lane_sums_of(&l, _mm512_loadu_si512(c + i)), _mm512_permutexvar_epi16(carry, before));
        _mm512_storeu_si512(c + i, before);
    }
}

#define MAX_SLOTS 16 /* registers that hold the line above */

/*
 * c[i] += c[i - distance] for 32 <= distance <= 32 * MAX_SLOTS, in rows of `distance` elements; the sums of the row before lie
 * in slots. With sum_left, the running sum along the elements is taken first (2-D Lorenzo with stride 1); `left` holds the one
 * that precedes c in every lane. The last register of a row reaches into the next row, whose first register is therefore loaded
 * beforehand and stored again later; after the last row, what it overwrites is not in use yet.
 */
HOT void add_slots(uint16_t *c, size_t n, size_t distance, bool sum_left, __m512i left)
{
    __m512i slot[MAX_SLOTS];
    const size_t n_slots = (distance + 31) / 32;
    const __m512i last = _mm512_set1_epi16((short)((distance - 1) % 32)), top = _mm512_set1_epi16(31);
    for (size_t k = 0; k < n_slots; k++)
        slot[k] = _mm512_loadu_si512(c - distance + 32 * k);
    __m512i first = _mm512_loadu_si512(c);
    for (size_t row = 0; row < n; row += distance) {
        __m512i v = first;
        if (row + distance < n)
            first = _mm512_loadu_si512(c + row + distance);
        for (size_t k = 0; k < n_slots && row + 32 * k < n; k++) {
            if (k > 0)
                v = _mm512_loadu_si512(c + row + 32 * k);
            if (sum_left) {
                const __m512i sums = running_sums(v);
                v = _mm512_add_epi16(sums, left);
                left = _mm512_add_epi16(left, _mm512_permutexvar_epi16(k + 1 == n_slots ? last : top, sums));
            }
            slot[k] = _mm512_add_epi16(v, slot[k]);
            _mm512_storeu_si512(c + row + 32 * k, slot[k]);
        }
    }
}

static void add_far(uint16_t *c, size_t n, size_t distance)
{
    for (size_t i = 0; i < n; i += 32)
        _mm512_storeu_si512(c + i, _mm512_add_epi16(_mm512_loadu_si512(c + i), _mm512_loadu_si512(c + i - distance)));
}

static void strided_sum_16(uint16_t *c, size_t n, size_t distance)
{
    if (distance == 1)
        add_left(c, n, c[-1]);
    else if (distance < 32)
        add_near(c, n, (unsigned)distance, _mm512_loadu_si512(c - 32));
    else if (distance <= 32 * MAX_SLOTS)
        add_slots(c, n, distance, false, _mm512_setzero_si512());
    else
        add_far(c, n, distance);
}

static void add_lorenzo_16(uint16_t *c, size_t n, strides s)
{
    uint16_t difference = (uint16_t)(c[-1] - (c - s.up)[-1]);
    if (s.left == 1 && s.up >= 32 && s.up <= 32 * MAX_SLOTS) {
        add_slots(c, n, s.up, true, _mm512_set1_epi16((short)difference));
    } else if (s.left == 1) {
        add_left(c, n, difference);
        strided_sum_16(c, n, s.up);
    } else if (s.left < 32) { /* first the differences to the line above, then the line above */
        add_near(c, n, (unsigned)s.left, _mm512_sub_epi16(_mm512_loadu_si512(c - 32), _mm512_loadu_si512(c - 32 - s.up)));
        strided_sum_16(c, n, s.up);
    } else {
        for (size_t i = 0; i < n; i += 32) {
            __m512i left = _mm512_loadu_si512(c + i - s.left), up = _mm512_loadu_si512(c + i - s.up);
            __m512i corner = _mm512_loadu_si512(c + i - s.up - s.left);
            __m512i v = _mm512_add_epi16(_mm512_loadu_si512(c + i), _mm512_sub_epi16(_mm512_add_epi16(left, up), corner));
            _mm512_storeu_si512(c + i, v);
        }
    }
}

void unpredict_16_avx512(enum predictor predictor, void *codes, size_t n, strides s)
{
    switch (predictor) {
    case PREDICT_LEFT: strided_sum_16(codes, n, s.left); break;
    case PREDICT_UP: strided_sum_16(codes, n, s.up); break;
    case PREDICT_LORENZO: add_lorenzo_16(codes, n, s); break;
    default: break;
    }
}

/* ---- unpack, undo prediction and dequantise in one loop, f32 ---- */

HOT void store_values_f32(const quantiser *q, enum quantiser_mode mode, __m512i codes, bool stream, float *x)
{
    const __m256i half[2] = {_mm512_castsi512_si256(codes), _mm512_extracti64x4_epi64(codes, 1)};
    for (int i = 0; i < 2; i++) {
        __m512 v = values_f32(q, mode, _mm512_cvtepi16_epi32(half[i]), 0);
        if (stream)
            _mm512_stream_ps(x + 16 * i, v);
        else
            _mm512_storeu_ps(x + 16 * i, v);
    }
}

HOT bool decode_blocks_f32(const packed_tile *t, enum quantiser_mode mode, enum predictor predictor, bool identity,
                           size_t distance)
{
    const quantiser q = *t->quantiser; /* copies, which stores cannot touch */
    const bool up = predictor == PREDICT_UP || predictor == PREDICT_LORENZO, stream = t->stream;
    const bool left = predictor == PREDICT_LEFT || predictor == PREDICT_LORENZO;
    const size_t n_blocks = t->n / BLOCK, first_block = t->first / BLOCK, line = t->strides.up;
    block_reader in = *t->in;
    uint16_t *c = t->codes;
    float *x = t->x;
    const char *prefetch = t->prefetch ? (const char *)t->prefetch : (const char *)c; /* which is in the cache */
    const size_t prefetch_step = t->prefetch ? BLOCK * sizeof(float) : 0;
    __m512i before = _mm512_loadu_si512(c - 32);
    if (left && up)
        before = _mm512_sub_epi16(before, _mm512_loadu_si512(c - 32 - line));
    left_sums sums = left_sums_make(distance, before);
    codes_above above = codes_above_make(line, c);
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK, x += BLOCK, prefetch += prefetch_step) {
        __m512i z[2];
        for (int i = 0; i < 4; i++)
            _mm_prefetch(prefetch + 64 * i, _MM_HINT_T1);
        if (!unpack_block(get_kind(in.kinds, b), identity, &in, c, z))
            return false;
        for (int i = 0; i < 2; i++) {
            if (left)
                z[i] = add_left_neighbours(&sums, z[i]);
            if (up)
                z[i] = add_codes_above(&above, c + 32 * i, z[i]);
            if (left || up)
                _mm512_storeu_si512(c + 32 * i, z[i]);
            store_values_f32(&q, mode, z[i], stream, x + 32 * i);
        }
    }
    *t->in = in;
    return true;
}

HOT bool decode_whole_f32(const packed_tile *t, enum quantiser_mode mode)
{
    const bool next_door = t->strides.left == 1;
    switch (t->predictor) {
    case PREDICT_LEFT:
        return next_door ? decode_blocks_f32(t, mode, PREDICT_LEFT, false, 1)
                         : decode_blocks_f32(t, mode, PREDICT_LEFT, false, 16);
    case PREDICT_UP: return decode_blocks_f32(t, mode, PREDICT_UP, false, 1);
    case PREDICT_LORENZO:
        return next_door ? decode_blocks_f32(t, mode, PREDICT_LORENZO, false, 1)
                         : decode_blocks_f32(t, mode, PREDICT_LORENZO, false, 16);
    default:
        return t->identity ? decode_blocks_f32(t, mode, PREDICT_NONE, true, 1)
                           : decode_blocks_f32(t, mode, PREDICT_NONE, false, 1);
    }
}

bool decode_tile_f32_avx512(const packed_tile *t)
{
    if (!suits_one_loop(t))
        return decode_tile_by(t, unpack_16_avx512, unpredict_16_avx512, dequantise_f32_16_avx512);
    switch (t->quantiser->mode) {
    case QUANTISE_SUPPORT: return decode_whole_f32(t, QUANTISE_SUPPORT);
    case QUANTISE_NONZERO: return decode_whole_f32(t, QUANTISE_NONZERO);
    default: return decode_whole_f32(t, QUANTISE_PLAIN);
    }
}
