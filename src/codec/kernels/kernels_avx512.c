/*
 * AVX-512 kernels (F, BW, DQ, VL, VBMI, VBMI2) for 16-bit codes; everything else is the generic bodies compiled for these
 * instructions.
 *
 * A block of 64 residuals is one register of bytes, its masks are 64-bit integers, and bit planes are moved between the two by
 * the compare-into-mask, pext and pdep instructions. Level dense is in dense_avx512.c.
 */
#include "codec/kernels/avx512.h"

/* ---- quantise and dequantise, f32 ---- */

typedef struct f32_sums {
    __m512 squares, low, high, worst; /* worst: the largest |error| */
    __m512i nonzero;
} f32_sums;

static inline f32_sums f32_sums_make(void)
{
    return (f32_sums){_mm512_setzero_ps(), _mm512_set1_ps(INFINITY), _mm512_set1_ps(-INFINITY), _mm512_setzero_ps(),
                      _mm512_setzero_si512()};
}

HOT void sum_up(__m512 v, f32_sums *s)
{
    __mmask16 nonzero = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    s->nonzero = _mm512_mask_add_epi32(s->nonzero, nonzero, s->nonzero, _mm512_set1_epi32(1));
    s->squares = _mm512_fmadd_ps(v, v, s->squares);
    s->low = _mm512_min_ps(v, s->low);
    s->high = _mm512_max_ps(v, s->high);
}

/* 64 elements that are taken to be in range and within the bound; `s` tells afterwards whether they were. */
HOT void quantise_block_f32(const quantiser *q, const float *x, int16_t *codes, f32_sums *s)
{
    enum { LARGEST_MAGNITUDE = 0x0b };
    const __m512 inverse = _mm512_set1_ps(q->inverse), step = _mm512_set1_ps(q->step);
    __m512i c[4];
    for (int i = 0; i < 4; i++) {
        __m512 v = _mm512_loadu_ps(x + 16 * i);
        c[i] = _mm512_cvtps_epi32(_mm512_mul_ps(v, inverse));
        __m512 error = _mm512_sub_ps(v, _mm512_mul_ps(_mm512_cvtepi32_ps(c[i]), step));
        s->worst = _mm512_range_ps(s->worst, error, LARGEST_MAGNITUDE);
        sum_up(v, s);
    }
    const __m512i even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24, 22,
                                          20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    _mm512_storeu_si512(codes, _mm512_permutex2var_epi16(c[0], even, c[1]));
    _mm512_storeu_si512(codes + 32, _mm512_permutex2var_epi16(c[2], even, c[3]));
}

/* Whether all elements summed up were within the bound and the range of codes. NaN and Inf show in the squares. */
static inline bool f32_sums_clean(const f32_sums *s, const quantiser *q)
{
    float low = _mm512_reduce_min_ps(s->low), high = _mm512_reduce_max_ps(s->high);
    bool in_range = high * q->inverse < CODE16_LIMIT && low * q->inverse > -CODE16_LIMIT;
    return in_range && isfinite(_mm512_reduce_add_ps(s->squares)) && _mm512_reduce_max_ps(_mm512_abs_ps(s->worst)) <= q->eb;
}

static inline void f32_sums_take(const f32_sums *s, moments *m)
{
    float squares[SUM_LANES];
    _mm512_storeu_ps(squares, s->squares);
    for (int i = 0; i < SUM_LANES; i++)
        m->sum_of_squares[i] += (double)squares[i];
    m->n_nonzero += (uint64_t)_mm512_reduce_add_epi32(s->nonzero);
    m->min = fmin(m->min, (double)_mm512_reduce_min_ps(s->low));
    m->max = fmax(m->max, (double)_mm512_reduce_max_ps(s->high));
}

/* 64 elements of any kind: those that fail are told, and get code 0. */
HOT uint64_t quantise_block_checked(const quantiser *q, const float *x, int16_t *codes, f32_sums *s)
{
    const __m512 inverse = _mm512_set1_ps(q->inverse), step = _mm512_set1_ps(q->step), eb = _mm512_set1_ps(q->eb);
    const __m512 limit = _mm512_set1_ps(CODE16_LIMIT), minus_limit = _mm512_set1_ps(-CODE16_LIMIT);
    uint64_t failed = 0;
    for (int i = 0; i < 4; i++) {
        __m512 v = _mm512_loadu_ps(x + 16 * i);
        __m512 t = _mm512_min_ps(_mm512_max_ps(_mm512_mul_ps(v, inverse), minus_limit), limit); /* NaN becomes -limit */
        __m512i c = _mm512_cvtps_epi32(t);
        __m512 error = _mm512_sub_ps(v, _mm512_mul_ps(_mm512_cvtepi32_ps(c), step));
        __mmask16 bad = _mm512_cmp_ps_mask(_mm512_abs_ps(error), eb, _CMP_NLE_UQ);
        _mm256_storeu_si256((__m256i *)(codes + 16 * i), _mm512_maskz_cvtepi32_epi16((__mmask16)~bad, c));
        failed |= (uint64_t)bad << (16 * i);
        sum_up(v, s);
    }
    return failed;
}

/* Runs without the checks of single elements, and again with them if the tile turns out to need them. */
static void quantise_f32_16_avx512(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                                   moments *m)
{
    const float *v = x;
    int16_t *c = codes;
    size_t whole = n / BLOCK * BLOCK;
    if (q->mode != QUANTISE_PLAIN) {
        quantise_f32_16_generic(q, x, n, first, codes, failed, m);
        return;
    }
    f32_sums s = f32_sums_make();
    for (size_t i = 0; i < whole; i += BLOCK)
        quantise_block_f32(q, v + i, c + i, &s);
    if (f32_sums_clean(&s, q)) {
        memset(failed, 0, whole / BLOCK * sizeof *failed);
    } else {
        s = f32_sums_make();
        for (size_t i = 0; i < whole; i += BLOCK)
            failed[i / BLOCK] = quantise_block_checked(q, v + i, c + i, &s);
    }
    f32_sums_take(&s, m);
    if (whole < n)
        quantise_f32_16_generic(q, (const float *)x + whole, n - whole, first + (uint32_t)whole, (int16_t *)codes + whole,
                                failed + whole / BLOCK, m);
}

HOT __m512 value_f32(const int16_t *codes, __m512 step)
{
    __m512i c = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)codes));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(c), step);
}

static void dequantise_f32_16_avx512(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    const int16_t *c = codes;
    float *out = x;
    if (q->mode != QUANTISE_PLAIN) {
        dequantise_f32_16_generic(q, codes, n, first, x, stream);
        return;
    }
    const __m512 step = _mm512_set1_ps(q->step);
    size_t head = (64 - (uintptr_t)out % 64) % 64 / sizeof *out, i = head < n ? head : n;
    _mm512_mask_storeu_ps(out, (__mmask16)((1u << i) - 1), value_f32(c, step)); /* codes go on past n, up to a block */
    if (stream)
        for (; i + 16 <= n; i += 16)
            _mm512_stream_ps(out + i, value_f32(c + i, step));
    else
        for (; i + 16 <= n; i += 16)
            _mm512_storeu_ps(out + i, value_f32(c + i, step));
    if (i < n)
        _mm512_mask_storeu_ps(out + i, (__mmask16)((1u << (n - i)) - 1), value_f32(c + i, step));
}

/* ---- residuals ---- */

static inline __m512i lane_numbers(void)
{
    return _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6,
                            5, 4, 3, 2, 1, 0);
}

HOT unsigned max_u16(__m512i z0, __m512i z1)
{
    __m512i m = _mm512_max_epu16(z0, z1);
    __m256i h = _mm256_max_epu16(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
    __m128i q = _mm_max_epu16(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    __m128i min = _mm_minpos_epu16(_mm_xor_si128(q, _mm_set1_epi16(-1))); /* the smallest complement */
    return ~(unsigned)_mm_cvtsi128_si32(min) & 0xffff;
}

/* 64 residuals below 256 as bytes. */
HOT __m512i narrow(__m512i z0, __m512i z1)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, _mm512_packus_epi16(z0, z1));
}

static uint64_t pack_cost_16_avx512(const void *residuals, size_t n_blocks)
{
    const uint16_t *z = residuals;
    uint64_t bits = 4 * n_blocks;
    for (size_t b = 0; b < n_blocks; b++, z += BLOCK) {
        __m512i z0 = _mm512_loadu_si512(z), z1 = _mm512_loadu_si512(z + 32);
        unsigned nonzero = (unsigned)__builtin_popcountll((uint64_t)_mm512_test_epi16_mask(z0, z0) |
                                                          (uint64_t)_mm512_test_epi16_mask(z1, z1) << 32);
        bits += block_shape_of(max_u16(z0, z1), nonzero).bits;
    }
    return bits;
}

/* Planes that are written or read whether there are so many or not, with no bits if not: cheaper than mispredicted branches. */
#define EAGER_PLANES 2

HOT uint64_t plane_of(__m512i bytes, unsigned p)
{
    return _mm512_test_epi8_mask(bytes, _mm512_set1_epi8((char)(1u << p)));
}

/* A block of residuals below 256. Words: the map, or the planes; bits: the planes under the map, or nothing. */
HOT void pack_bytes(__m512i bytes, uint64_t map, block_shape shape, plane_writer *w)
{
    const unsigned width = shape.width, count = (unsigned)__builtin_popcountll(map);
    uint64_t plane[EAGER_PLANES];
    bytes = _mm512_sub_epi8(bytes, _mm512_set1_epi8(shape.bitmap));
    for (unsigned p = 0; p < EAGER_PLANES; p++) {
        plane[p] = plane_of(bytes, p);
        unsigned bits = shape.bitmap && p < width ? count : 0;
        bit_write(&w->bits, _pext_u64(plane[p], bits ? map : 0), bits);
        store_u64(w->words + 8 * p, p == 0 && shape.bitmap ? map : plane[p]); /* those too many are overwritten later */
    }
    unsigned words = shape.bitmap ? 1 : width;
    for (unsigned p = EAGER_PLANES; p < width; p++) {
        if (shape.bitmap)
            bit_write(&w->bits, _pext_u64(plane_of(bytes, p), map), count);
        else
            store_u64(w->words + 8 * p, plane_of(bytes, p));
    }
    w->words += 8 * words;
}

/* Residuals of 256 and more: the planes of the low bytes, then those of the high ones. */
static __attribute__((noinline)) plane_writer pack_large(__m512i z0, __m512i z1, unsigned max, size_t block, uint8_t *kinds,
                                                         plane_writer w)
{
    uint64_t map = _mm512_test_epi16_mask(z0, z0) | (uint64_t)_mm512_test_epi16_mask(z1, z1) << 32;
    unsigned count = (unsigned)__builtin_popcountll(map);
    block_shape shape = block_shape_of(max, count);
    set_kind(kinds, block, block_kind(shape, &w.bits));
    const __m512i byte = _mm512_set1_epi16(0xff), one = _mm512_set1_epi16(shape.bitmap);
    z0 = _mm512_sub_epi16(z0, one);
    z1 = _mm512_sub_epi16(z1, one);
    __m512i low = narrow(_mm512_and_si512(z0, byte), _mm512_and_si512(z1, byte));
    __m512i high = narrow(_mm512_srli_epi16(z0, 8), _mm512_srli_epi16(z1, 8));
    if (shape.bitmap)
        word_write(&w, map);
    for (unsigned p = 0; p < shape.width; p++) {
        uint64_t plane = p < 8 ? plane_of(low, p) : plane_of(high, p - 8);
        if (shape.bitmap)
            bit_write(&w.bits, _pext_u64(plane, map), count);
        else
            word_write(&w, plane);
    }
    return w;
}

HOT void pack_block(__m512i z0, __m512i z1, size_t block, uint8_t *kinds, plane_writer *w)
{
    unsigned max = max_u16(z0, z1);
    if (max > 255) {
        *w = pack_large(z0, z1, max, block, kinds, *w);
        return;
    }
    __m512i bytes = narrow(z0, z1);
    uint64_t map = _mm512_test_epi8_mask(bytes, bytes);
    block_shape shape = block_shape_of(max, (unsigned)__builtin_popcountll(map));
    set_kind(kinds, block, block_kind(shape, &w->bits));
    pack_bytes(bytes, map, shape, w);
}

static void pack_16_avx512(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, plane_writer *out)
{
    const uint16_t *z = residuals;
    plane_writer w = *out;
    for (size_t b = 0; b < n_blocks; b++, z += BLOCK)
        pack_block(_mm512_loadu_si512(z), _mm512_loadu_si512(z + 32), first_block + b, kinds, &w);
    *out = w;
}

HOT __m512i add_plane(__m512i z, unsigned p, uint64_t plane)
{
    return _mm512_mask_add_epi8(z, plane, z, _mm512_set1_epi8((char)(1u << p)));
}

HOT __m512i unpack_bitmap(unsigned width, plane_reader *in)
{
    uint64_t map = word_read(in);
    unsigned count = (unsigned)__builtin_popcountll(map);
    __m512i z = _mm512_maskz_set1_epi8(map, 1);
    for (unsigned p = 0; p < EAGER_PLANES; p++) {
        bool there = p < width;
        z = add_plane(z, p, _pdep_u64(bit_peek(&in->bits), there ? map : 0));
        in->bits.position += there ? count : 0;
    }
    for (unsigned p = EAGER_PLANES; p < width; p++) {
        z = add_plane(z, p, _pdep_u64(bit_peek(&in->bits), map));
        in->bits.position += count;
    }
    if (count > BITMAP_MOST) /* damage: let it be noticed like bits that ran out */
        in->bits.position = in->bits.limit + 1;
    return z;
}

HOT uint64_t next_plane(bool bitmap, uint64_t map, unsigned count, plane_reader *in)
{
    return bitmap ? _pdep_u64(bit_read(&in->bits, count), map) : word_read(in);
}

/* Planes that do not fit bytes, in two halves of eight; READ_SLACK covers what 16 planes may read too far. Works on a copy, so
 * that the caller's reader stays in registers. */
static __attribute__((noinline)) plane_reader unpack_large(block_shape shape, bool identity, plane_reader in, uint16_t *c)
{
    uint64_t map = shape.bitmap ? word_read(&in) : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map);
    __m512i low = _mm512_setzero_si512(), high = _mm512_setzero_si512();
    bool too_many = shape.bitmap && count > BITMAP_MOST;
    count = too_many ? BITMAP_MOST : count;
    for (unsigned p = 0; p < shape.width && p < 8; p++)
        low = add_plane(low, p, next_plane(shape.bitmap, map, count, &in));
    for (unsigned p = 8; p < shape.width; p++)
        high = add_plane(high, p - 8, next_plane(shape.bitmap, map, count, &in));
    if (too_many) /* damage: let it be noticed like bits that ran out */
        in.bits.position = in.bits.limit + 1;
    for (int k = 0; k < 2; k++) {
        __m256i low_half = k ? _mm512_extracti64x4_epi64(low, 1) : _mm512_castsi512_si256(low);
        __m256i high_half = k ? _mm512_extracti64x4_epi64(high, 1) : _mm512_castsi512_si256(high);
        __m512i z = _mm512_or_si512(_mm512_cvtepu8_epi16(low_half), _mm512_slli_epi16(_mm512_cvtepu8_epi16(high_half), 8));
        __mmask32 present = shape.bitmap ? (__mmask32)(map >> (32 * k)) : 0;
        z = _mm512_mask_add_epi16(z, present, z, _mm512_set1_epi16(1));
        __m512i sign = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z, _mm512_set1_epi16(1)));
        _mm512_storeu_si512(c + 32 * k, identity ? z : _mm512_xor_si512(_mm512_srli_epi16(z, 1), sign));
    }
    return in;
}

static bool unpack_16_avx512(const uint8_t *kinds, size_t first_block, size_t n_blocks, bool identity, plane_reader *reader,
                             void *codes)
{
    uint16_t *c = codes;
    plane_reader in = *reader;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK) {
        block_shape shape;
        if (!block_shape_read(get_kind(kinds, b), &in.bits, 16, &shape))
            return false;
        if (shape.width + shape.bitmap > 8) { /* more than a byte can hold */
            in = unpack_large(shape, identity, in, c);
            if (!plane_reader_ok(&in))
                return false;
            continue;
        }
        __m512i z = _mm512_setzero_si512();
        if (shape.bitmap)
            z = unpack_bitmap(shape.width, &in);
        else
            for (unsigned p = 0; p < shape.width; p++)
                z = add_plane(z, p, word_read(&in));
        if (!identity) {
            __mmask64 odd = _mm512_test_epi8_mask(z, _mm512_set1_epi8(1));
            __m512i half = _mm512_and_si512(_mm512_srli_epi16(z, 1), _mm512_set1_epi8(0x7f));
            z = _mm512_mask_sub_epi8(half, odd, _mm512_set1_epi8(-1), half);
        }
        __m256i low = _mm512_castsi512_si256(z), high = _mm512_extracti64x4_epi64(z, 1);
        _mm512_storeu_si512(c, identity ? _mm512_cvtepu8_epi16(low) : _mm512_cvtepi8_epi16(low));
        _mm512_storeu_si512(c + 32, identity ? _mm512_cvtepu8_epi16(high) : _mm512_cvtepi8_epi16(high));
        if (!plane_reader_ok(&in))
            return false;
    }
    *reader = in;
    return true;
}

/* Mapped residuals of 32 codes. A left neighbour one element away is taken from the differences before, in *before, because a
 * load that reaches over two cache lines costs twice. */
HOT __m512i residuals32(enum predictor predictor, bool identity, const int16_t *c, strides s, bool next_door, __m512i *before)
{
    const __m512i shifted = _mm512_add_epi16(lane_numbers(), _mm512_set1_epi16(31));
    bool up = predictor == PREDICT_UP || predictor == PREDICT_LORENZO;
    bool left = predictor == PREDICT_LEFT || predictor == PREDICT_LORENZO;
    __m512i v = _mm512_loadu_si512(c), r;
    if (up)
        v = _mm512_sub_epi16(v, _mm512_loadu_si512(c - s.up));
    if (left && next_door) {
        r = _mm512_sub_epi16(v, _mm512_permutex2var_epi16(*before, shifted, v));
        *before = v;
    } else {
        r = left ? _mm512_sub_epi16(v, _mm512_loadu_si512(c - s.left)) : v;
        if (left && up)
            r = _mm512_add_epi16(r, _mm512_loadu_si512(c - s.up - s.left));
    }
    return identity ? r : zigzag32(r);
}

/* ---- quantise, predict and pack in one loop, f32 ---- */

#define LAG 4 /* blocks that packing stays behind, so that the codes it loads are no longer on their way to the cache */
#define FETCH_AHEAD 2048 /* elements */

HOT bool encode_blocks_f32(const tile_job *j, enum predictor predictor, bool identity, bool next_door)
{
    const float *x = j->x;
    int16_t *codes = j->codes;
    uint8_t *kinds = j->kinds;
    const quantiser q = *j->quantiser; /* copies, which stores to bytes cannot touch, stay in registers */
    const strides distance = j->strides;
    const size_t n_blocks = j->n / BLOCK, first_block = j->first / BLOCK;
    f32_sums s = f32_sums_make();
    plane_writer w = *j->out;
    __m512i before = _mm512_loadu_si512(codes - 32);
    if (predictor == PREDICT_LORENZO)
        before = _mm512_sub_epi16(before, _mm512_loadu_si512(codes - 32 - j->strides.up));
    for (size_t b = 0; b < n_blocks + LAG; b++) {
        if (b < n_blocks) {
            for (int line = 0; line < 4; line++)
                _mm_prefetch((const char *)(x + b * BLOCK + FETCH_AHEAD + 16 * line), _MM_HINT_T0);
            quantise_block_f32(&q, x + b * BLOCK, codes + b * BLOCK, &s);
        }
        if (b >= LAG) {
            const int16_t *c = codes + (b - LAG) * BLOCK;
            __m512i z0 = residuals32(predictor, identity, c, distance, next_door, &before);
            __m512i z1 = residuals32(predictor, identity, c + 32, distance, next_door, &before);
            pack_block(z0, z1, first_block + b - LAG, kinds, &w);
        }
    }
    if (!f32_sums_clean(&s, &q))
        return false;
    f32_sums_take(&s, j->moments);
    memset(j->failed, 0, n_blocks * sizeof *j->failed);
    *j->out = w;
    return true;
}

/* A tile that is not whole, or turns out to have elements that need a closer look, goes through the kernels one by one. */
static void encode_tile_f32(const tile_job *j)
{
    bool done = false, next_door = j->strides.left == 1;
    if (j->quantiser->mode == QUANTISE_PLAIN && j->n % BLOCK == 0)
        switch (j->predictor) {
        case PREDICT_LEFT:
            done =
                next_door ? encode_blocks_f32(j, PREDICT_LEFT, false, true) : encode_blocks_f32(j, PREDICT_LEFT, false, false);
            break;
        case PREDICT_UP: done = encode_blocks_f32(j, PREDICT_UP, false, false); break;
        case PREDICT_LORENZO:
            done = next_door ? encode_blocks_f32(j, PREDICT_LORENZO, false, true)
                             : encode_blocks_f32(j, PREDICT_LORENZO, false, false);
            break;
        default: done = encode_blocks_f32(j, PREDICT_NONE, j->identity, false); break;
        }
    if (!done)
        encode_tile_by(j, quantise_f32_16_avx512, predict_16_generic, pack_16_avx512);
}

DEFINE_ENCODE_TILE(f16, quantise_f16_16_generic, pack_16_avx512)
DEFINE_ENCODE_TILE(bf16, quantise_bf16_16_generic, pack_16_avx512)
DEFINE_ENCODE_TILE(f64, quantise_f64_16_generic, pack_16_avx512)

/*
 * Undoing prediction is a running sum with a stride. Loads that straddle stores just made are slow, so sums travel in registers
 * (strides below 32) or in a row of aligned slots that is loaded exactly as it was stored.
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

/* Running sums with stride 1: inside 128 bits by shifts, then the totals of the quarters before. */
HOT __m512i running_sums(__m512i v)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i last_word = _mm512_set1_epi16(0x0f0e);
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 2));
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 4));
    v = _mm512_add_epi16(v, _mm512_bslli_epi128(v, 8));
    __m512i total = _mm512_shuffle_epi8(v, last_word);
    __m512i one = _mm512_alignr_epi64(total, zero, 6);
    __m512i two = _mm512_alignr_epi64(_mm512_add_epi16(total, one), zero, 4);
    return _mm512_add_epi16(v, _mm512_add_epi16(one, two));
}

/* c[i] += c[i - 1]. */
static inline void add_left(uint16_t *c, size_t n, uint16_t before)
{
    const __m512i top = _mm512_set1_epi16(31);
    __m512i left = _mm512_set1_epi16((short)before);
    for (size_t i = 0; i < n; i += 32) {
        __m512i v = _mm512_add_epi16(running_sums(_mm512_loadu_si512(c + i)), left);
        left = _mm512_permutexvar_epi16(top, v);
        _mm512_storeu_si512(c + i, v);
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

#define MAX_SLOTS 16

/*
 * c[i] += c[i - distance] for 32 <= distance <= 32 * MAX_SLOTS, in rows of `distance` elements; the sums of the row before lie
 * in slots. With sum_left, the running sum along the elements is taken first (2-D Lorenzo with stride 1); `left` holds the one
 * that precedes c in every lane. The last register of a row reaches into the next row, whose first register is therefore
 * loaded beforehand and stored again later; behind the last row, what it spoils is not in use yet.
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
                v = _mm512_add_epi16(running_sums(v), left);
                left = _mm512_permutexvar_epi16(k + 1 == n_slots ? last : top, v);
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

static void add_behind_16(uint16_t *c, size_t n, size_t distance)
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
        add_behind_16(c, n, s.up);
    } else if (s.left < 32) { /* first the differences to the line above, then the line above */
        add_near(c, n, (unsigned)s.left, _mm512_sub_epi16(_mm512_loadu_si512(c - 32), _mm512_loadu_si512(c - 32 - s.up)));
        add_behind_16(c, n, s.up);
    } else {
        for (size_t i = 0; i < n; i += 32) {
            __m512i left = _mm512_loadu_si512(c + i - s.left), up = _mm512_loadu_si512(c + i - s.up);
            __m512i corner = _mm512_loadu_si512(c + i - s.up - s.left);
            __m512i v = _mm512_add_epi16(_mm512_loadu_si512(c + i), _mm512_sub_epi16(_mm512_add_epi16(left, up), corner));
            _mm512_storeu_si512(c + i, v);
        }
    }
}

static void unpredict_16_avx512(enum predictor predictor, void *codes, size_t n, strides s)
{
    switch (predictor) {
    case PREDICT_LEFT: add_behind_16(codes, n, s.left); break;
    case PREDICT_UP: add_behind_16(codes, n, s.up); break;
    case PREDICT_LORENZO: add_lorenzo_16(codes, n, s); break;
    default: break;
    }
}

const codec_kernels codec_kernels_avx512 =
    KERNEL_TABLE(COMET_ISA_AVX512, quantise_f32_16_avx512, dequantise_f32_16_avx512, predict_16_generic, unpredict_16_avx512,
                 pack_16_avx512, pack_cost_16_avx512, unpack_16_avx512, gather_row_16_avx512, scatter_row_16_avx512,
                 model_row_16_avx512, decode_row_16_avx512, entropy_encode_avx512);
