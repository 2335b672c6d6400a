/*
 * NEON kernels (any AArch64) of level fast for f32 and 16-bit codes; everything else is the generic bodies, which the compiler
 * vectorises for NEON as it does those of the reference. They were checked under qemu and never timed.
 *
 * A block of 64 residuals is four registers of bytes, its map of non-zeros a 64-bit mask. Bytes are brought together and put
 * back eight at a time, by shuffles from a table; their bits are moved by shifts of 64-bit numbers that hold eight of them.
 */
#include <arm_neon.h>

#include "codec/kernels/byte_shuffles.h"
#include "codec/kernels/generic.h"
#define LINEAR_LANES 4
#include "codec/kernels/linear_lanes.h"

/* Parts of hot loops: inlined whatever their size, so that their state stays in registers. */
#define HOT static inline __attribute__((always_inline))

/* ---- quantise and dequantise, f32 ---- */

typedef struct f32_sums {
    float32x4_t squares[SUM_LANES / 4], low, high;
    uint32x4_t zeros;
} f32_sums;

static inline f32_sums f32_sums_make(void)
{
    const float32x4_t zero = vdupq_n_f32(0);
    return (f32_sums){{zero, zero, zero, zero}, vdupq_n_f32(INFINITY), vdupq_n_f32(-INFINITY), vdupq_n_u32(0)};
}

/* Codes of 4 elements in range; support rounds away from zero, nonzero down, also what is so small that its quotient is 0. */
HOT int32x4_t codes_f32(enum quantiser_mode mode, float32x4_t v, float inverse)
{
    float32x4_t t = vmulq_n_f32(v, inverse);
    if (mode == QUANTISE_PLAIN)
        return vcvtnq_s32_f32(t);
    int32x4_t below = vreinterpretq_s32_u32(vcltzq_f32(v));
    if (mode == QUANTISE_NONZERO) {
        int32x4_t c = vcvtmq_s32_f32(t);
        return vorrq_s32(c, vandq_s32(below, vreinterpretq_s32_u32(vceqzq_s32(c))));
    }
    int32x4_t up = vmaxq_s32(vcvtpq_s32_f32(vabsq_f32(t)), vdupq_n_s32(1));
    up = vsubq_s32(veorq_s32(up, below), below); /* negated for negative elements */
    return vbicq_s32(up, vreinterpretq_s32_u32(vceqzq_f32(v)));
}

/* Quantises 64 elements that are assumed to be in range, so that they come back within the bound (quantiser.c); `s` tells
 * afterwards whether they were. */
HOT void quantise_block_f32(const quantiser *q, enum quantiser_mode mode, const float *x, int16_t *codes, f32_sums *s)
{
    for (int i = 0; i < BLOCK; i += 8) {
        int32x4_t c[2];
        for (int k = 0; k < 2; k++) {
            float32x4_t v = vld1q_f32(x + i + 4 * k), *squares = &s->squares[(i / 4 + k) % (SUM_LANES / 4)];
            c[k] = codes_f32(mode, v, q->inverse);
            *squares = vfmaq_f32(*squares, v, v);
            s->low = vminq_f32(v, s->low);
            s->high = vmaxq_f32(v, s->high);
            s->zeros = vsubq_u32(s->zeros, vceqzq_f32(v));
        }
        vst1q_s16(codes + i, vcombine_s16(vmovn_s32(c[0]), vmovn_s32(c[1])));
    }
}

/* Were all elements summed up within the range of codes, and far enough within that of floats for the product of a code and the
 * step? NaN and Inf show in the squares. */
static inline bool f32_sums_clean(const f32_sums *s, const quantiser *q)
{
    if (q->mode == QUANTISE_NONZERO && vaddvq_u32(s->zeros) > 0)
        return false;
    float low = vminvq_f32(s->low), high = vmaxvq_f32(s->high);
    bool in_range = high * q->inverse < CODE16_LIMIT && low * q->inverse > -CODE16_LIMIT;
    float32x4_t sum = vaddq_f32(vaddq_f32(s->squares[0], s->squares[1]), vaddq_f32(s->squares[2], s->squares[3]));
    return in_range && high < 0x1p126f && low > -0x1p126f && isfinite(vaddvq_f32(sum));
}

static inline void f32_sums_take(const f32_sums *s, size_t n, moments *m)
{
    for (int i = 0; i < SUM_LANES / 4; i++) {
        float lane[4];
        vst1q_f32(lane, s->squares[i]);
        for (int k = 0; k < 4; k++)
            m->sum_of_squares[4 * i + k] += (double)lane[k];
    }
    m->n_nonzero += n - vaddvq_u32(s->zeros);
    m->min = fmin(m->min, (double)vminvq_f32(s->low));
    m->max = fmax(m->max, (double)vmaxvq_f32(s->high));
}

/* False if some elements need a closer look. */
HOT bool quantise_blocks_f32(const quantiser *given, enum quantiser_mode mode, const float *x, size_t n, int16_t *codes,
                             uint64_t *failed, moments *m)
{
    const quantiser q = *given; /* a copy, which stores cannot touch */
    f32_sums s = f32_sums_make();
    for (size_t i = 0; i < n; i += BLOCK)
        quantise_block_f32(&q, mode, x + i, codes + i, &s);
    if (!f32_sums_clean(&s, &q))
        return false;
    memset(failed, 0, n / BLOCK * sizeof *failed);
    f32_sums_take(&s, n, m);
    return true;
}

static void quantise_f32_16_neon(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                                 moments *m)
{
    size_t whole = n / BLOCK * BLOCK;
    bool done = false;
    switch (whole ? q->mode : QUANTISE_DITHER) {
    case QUANTISE_PLAIN: done = quantise_blocks_f32(q, QUANTISE_PLAIN, x, whole, codes, failed, m); break;
    case QUANTISE_SUPPORT: done = quantise_blocks_f32(q, QUANTISE_SUPPORT, x, whole, codes, failed, m); break;
    case QUANTISE_NONZERO: done = quantise_blocks_f32(q, QUANTISE_NONZERO, x, whole, codes, failed, m); break;
    case QUANTISE_DITHER: break;
    }
    size_t rest = done ? whole : 0;
    if (rest < n)
        quantise_f32_16_generic(q, (const float *)x + rest, n - rest, first + (uint32_t)rest, (int16_t *)codes + rest,
                                failed + rest / BLOCK, m);
}

HOT void dequantise_blocks_f32(const quantiser *given, enum quantiser_mode mode, const int16_t *codes, size_t n, float *out)
{
    const quantiser q = *given;
    const float step = mode == QUANTISE_PLAIN ? q.step : q.step / 2;
    for (size_t i = 0; i < n; i += 4) {
        int32x4_t c = vmovl_s16(vld1_s16(codes + i));
        if (mode == QUANTISE_SUPPORT) { /* twice the code, one nearer to zero: comparisons give -1 */
            int32x4_t above = vreinterpretq_s32_u32(vcgtzq_s32(c)), below = vreinterpretq_s32_u32(vcltzq_s32(c));
            c = vsubq_s32(vaddq_s32(vshlq_n_s32(c, 1), above), below);
        } else if (mode == QUANTISE_NONZERO) {
            c = vaddq_s32(vshlq_n_s32(c, 1), vdupq_n_s32(1));
        }
        vst1q_f32(out + i, vmulq_n_f32(vcvtq_f32_s32(c), step));
    }
}

static void dequantise_f32_16_neon(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    size_t whole = q->mode == QUANTISE_DITHER ? 0 : n / 4 * 4;
    switch (q->mode) {
    case QUANTISE_PLAIN: dequantise_blocks_f32(q, QUANTISE_PLAIN, codes, whole, x); break;
    case QUANTISE_SUPPORT: dequantise_blocks_f32(q, QUANTISE_SUPPORT, codes, whole, x); break;
    case QUANTISE_NONZERO: dequantise_blocks_f32(q, QUANTISE_NONZERO, codes, whole, x); break;
    case QUANTISE_DITHER: break;
    }
    if (whole < n)
        dequantise_f32_16_generic(q, (const int16_t *)codes + whole, n - whole, first + (uint32_t)whole, (float *)x + whole,
                                  stream);
}

/* ---- pack and unpack ---- */

/*
 * Eight values of w bits, in the bytes of a 64-bit number or in its low 8 w bits, are moved between the two in three steps, on
 * pairs of bytes, of 16-bit and of 32-bit numbers: the lower half of a pair stays (`stay`), the upper one moves by `move` bits
 * between its place in the bytes (`wide`) and its place in the bits (`narrow`).
 */
typedef struct packing {
    uint64_t stay[3], wide[3], narrow[3];
    int64_t move[3];
} packing;

#define LOW(bits) ((UINT64_C(1) << (bits)) - 1)
#define EACH_16 UINT64_C(0x0001000100010001)
#define EACH_32 UINT64_C(0x0000000100000001)
#define PACKING(w)                                                                                     \
    {                                                                                                  \
        {LOW(w) * EACH_16, LOW(2 * (w)) * EACH_32, LOW(4 * (w))},                                      \
            {(LOW(w) << 8) * EACH_16, (LOW(2 * (w)) << 16) * EACH_32, LOW(4 * (w)) << 32},             \
            {(LOW(w) << (w)) * EACH_16, (LOW(2 * (w)) << 2 * (w)) * EACH_32, LOW(4 * (w)) << 4 * (w)}, \
        {                                                                                              \
            8 - (w), 16 - 2 * (w), 32 - 4 * (w)                                                        \
        }                                                                                              \
    }
static const packing packings[9] = {PACKING(0), PACKING(1), PACKING(2), PACKING(3), PACKING(4),
                                    PACKING(5), PACKING(6), PACKING(7), PACKING(8)};

/* 64 bytes, `width` bits of each; the bits above are 0. Writes up to 64 bytes. */
HOT void put_values(const uint8_t *bytes, unsigned width, uint8_t *out)
{
    const packing *p = &packings[width];
    for (int i = 0; i < BLOCK; i += 16, out += 2 * width) {
        uint64x2_t v = vreinterpretq_u64_u8(vld1q_u8(bytes + i));
        for (int s = 0; s < 3; s++) {
            uint64x2_t moved = vshlq_u64(v, vdupq_n_s64(-p->move[s]));
            v = vorrq_u64(vandq_u64(v, vdupq_n_u64(p->stay[s])), vandq_u64(moved, vdupq_n_u64(p->narrow[s])));
        }
        store_u64(out, vgetq_lane_u64(v, 0));
        store_u64(out + width, vgetq_lane_u64(v, 1));
    }
}

/* The inverse; reads up to 64 bytes. */
HOT void get_values(const uint8_t *in, unsigned width, uint8x16_t v[4])
{
    const packing *p = &packings[width];
    for (int i = 0; i < 4; i++, in += 2 * width) {
        uint64x2_t bits = vcombine_u64(vcreate_u64(load_u64(in)), vcreate_u64(load_u64(in + width)));
        for (int s = 2; s >= 0; s--) {
            uint64x2_t moved = vshlq_u64(bits, vdupq_n_s64(p->move[s]));
            bits = vorrq_u64(vandq_u64(bits, vdupq_n_u64(p->stay[s])), vandq_u64(moved, vdupq_n_u64(p->wide[s])));
        }
        v[i] = vreinterpretq_u8_u64(bits);
    }
}

/* A bit for each of 64 bytes that is not 0. */
HOT uint64_t nonzeros_of(const uint8x16_t bytes[4])
{
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
    uint8x16_t set[4];
    for (int i = 0; i < 4; i++)
        set[i] = vandq_u8(vtstq_u8(bytes[i], bytes[i]), bit);
    uint8x16_t sums = vpaddq_u8(vpaddq_u8(set[0], set[1]), vpaddq_u8(set[2], set[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}

HOT void load_block(const uint16_t *residuals, uint16x8_t z[8])
{
    for (int i = 0; i < 8; i++)
        z[i] = vld1q_u16(residuals + 8 * i);
}

HOT unsigned max_of(const uint16x8_t z[8])
{
    uint16x8_t m = z[0];
    for (int i = 1; i < 8; i++)
        m = vmaxq_u16(m, z[i]);
    return vmaxvq_u16(m);
}

HOT uint64_t nonzeros_of_words(const uint16x8_t z[8])
{
    uint8x16_t bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = vcombine_u8(vmovn_u16(vtstq_u16(z[2 * i], z[2 * i])), vmovn_u16(vtstq_u16(z[2 * i + 1], z[2 * i + 1])));
    return nonzeros_of(bytes);
}

/* The bytes of 64 numbers from bit `shift` on, 0 or 8, less `less` each. */
HOT void bytes_of(const uint16x8_t z[8], int shift, unsigned less, uint8x16_t bytes[4])
{
    const uint16x8_t minus = vdupq_n_u16((uint16_t)less);
    for (int i = 0; i < 4; i++) {
        uint16x8_t low = vsubq_u16(z[2 * i], minus), high = vsubq_u16(z[2 * i + 1], minus);
        bytes[i] =
            shift ? vcombine_u8(vshrn_n_u16(low, 8), vshrn_n_u16(high, 8)) : vcombine_u8(vmovn_u16(low), vmovn_u16(high));
    }
}

/* The bytes under the map, one after the other, then 8 zeros; writes up to 72 bytes. */
HOT void bring_together(const uint8x16_t bytes[4], uint64_t map, uint8_t *out)
{
    for (int i = 0; i < 8; i++) {
        unsigned eight = map >> (8 * i) & 255;
        uint8x8_t v = i % 2 ? vget_high_u8(bytes[i / 2]) : vget_low_u8(bytes[i / 2]);
        vst1_u8(out, vtbl1_u8(v, vcreate_u8(shuffle_down[eight])));
        out += __builtin_popcount(eight);
    }
    vst1_u8(out, vdup_n_u8(0));
}

/* Writes the values of a block whose shape is known; returns their end. */
HOT uint8_t *pack_values(const uint16x8_t z[8], uint64_t map, block_shape shape, uint8_t *out)
{
    uint8_t together[BLOCK + 8];
    uint8x16_t bytes[4];
    map = shape.bitmap ? map : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map), low = shape.width < 8 ? shape.width : 8;
    bytes_of(z, 0, shape.bitmap, bytes);
    bring_together(bytes, map, together);
    put_values(together, low, out);
    if (shape.width > 8) { /* the low bytes, then what is left */
        bytes_of(z, 8, shape.bitmap, bytes);
        bring_together(bytes, map, together);
        put_values(together, shape.width - 8, out + count);
    }
    return out + values_bytes(count, shape.width);
}

static void pack_16_neon(const void *residuals, size_t n_blocks, size_t first_block, block_writer *out)
{
    const uint16_t *next = residuals;
    for (size_t b = first_block; b < first_block + n_blocks; b++, next += BLOCK) {
        uint16x8_t z[8];
        load_block(next, z);
        uint64_t map = nonzeros_of_words(z);
        block_shape shape = block_shape_of(max_of(z), (unsigned)__builtin_popcountll(map));
        out->values = pack_values(z, map, shape, out->values);
        block_begin(shape, map, b, out);
    }
}

static uint64_t pack_cost_16_neon(const void *residuals, size_t n_blocks)
{
    const uint16_t *next = residuals;
    uint64_t bits = 4 * n_blocks;
    for (size_t b = 0; b < n_blocks; b++, next += BLOCK) {
        uint16x8_t z[8];
        load_block(next, z);
        bits += 8 * block_shape_of(max_of(z), (unsigned)__builtin_popcountll(nonzeros_of_words(z))).bytes;
    }
    return bits;
}

/* The first values spread to the bits of the map that are set, as words with the map undone. */
HOT void place_values(const uint8_t *low, const uint8_t *high, uint64_t map, block_shape shape, bool identity, uint16_t *c)
{
    const uint16x8_t one = vdupq_n_u16(1);
    for (int i = 0; i < 8; i++) {
        unsigned eight = map >> (8 * i) & 255;
        uint8x8_t order = vcreate_u8(shuffle_apart[eight]);
        uint16x8_t z = vmovl_u8(vtbl1_u8(vld1_u8(low), order));
        low += __builtin_popcount(eight);
        if (shape.width > 8) {
            z = vorrq_u16(z, vshll_n_u8(vtbl1_u8(vld1_u8(high), order), 8));
            high += __builtin_popcount(eight);
        }
        if (shape.bitmap) { /* non-zeros were stored less one */
            uint8x8_t present = vcle_u8(order, vdup_n_u8(7));
            z = vaddq_u16(z, vandq_u16(vmovl_u8(present), one));
        }
        uint16x8_t sign = vsubq_u16(vdupq_n_u16(0), vandq_u16(z, one));
        vst1q_u16(c + 8 * i, identity ? z : veorq_u16(vshrq_n_u16(z, 1), sign));
    }
}

/* False if the values run out. */
HOT bool unpack_block(unsigned kind, bool identity, block_reader *in, uint16_t *c)
{
    uint64_t map;
    block_shape shape = block_shape_read(kind, in, &map);
    if (shape.width > 16)
        return false;
    unsigned count = (unsigned)__builtin_popcountll(map);
    uint8_t part[2][BLOCK + 8];
    uint8x16_t v[4];
    for (unsigned k = 0; k < (shape.width > 8 ? 2 : 1); k++) {
        unsigned bits = k ? shape.width - 8 : shape.width < 8 ? shape.width : 8;
        get_values(in->values + k * count, bits, v);
        for (int i = 0; i < 4; i++)
            vst1q_u8(part[k] + 16 * i, v[i]);
    }
    in->values += values_bytes(count, shape.width);
    place_values(part[0], part[1], map, shape, identity, c);
    return in->values <= in->values_end;
}

static bool unpack_16_neon(size_t first_block, size_t n_blocks, bool identity, block_reader *reader, void *codes)
{
    uint16_t *c = codes;
    block_reader in = *reader;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK)
        if (!unpack_block(get_kind(in.kinds, b), identity, &in, c))
            return false;
    *reader = in;
    return true;
}

/* ---- undo prediction ---- */

/* c[i] += c[i - 1]: running sums inside a register by shifts, then the last one before it. */
static void add_left(uint16_t *c, size_t n, uint16_t before)
{
    const uint16x8_t zero = vdupq_n_u16(0);
    uint16x8_t left = vdupq_n_u16(before);
    for (size_t i = 0; i < n; i += 8) {
        uint16x8_t v = vld1q_u16(c + i);
        v = vaddq_u16(v, vextq_u16(zero, v, 7));
        v = vaddq_u16(v, vextq_u16(zero, v, 6));
        v = vaddq_u16(vaddq_u16(v, vextq_u16(zero, v, 4)), left);
        left = vdupq_laneq_u16(v, 7);
        vst1q_u16(c + i, v);
    }
}

static void strided_sum_16(uint16_t *c, size_t n, size_t distance)
{
    if (distance == 1) {
        add_left(c, n, c[-1]);
    } else if (distance < 8) {
        strided_sum_16_generic(c, n, distance);
    } else {
        for (size_t i = 0; i < n; i += 8)
            vst1q_u16(c + i, vaddq_u16(vld1q_u16(c + i), vld1q_u16(c + i - distance)));
    }
}

static void add_lorenzo_16(uint16_t *c, size_t n, strides s)
{
    const uint16_t *above = c - s.up;
    if (s.left == 1) { /* first the differences to the line above, then the line above */
        add_left(c, n, (uint16_t)(c[-1] - above[-1]));
        strided_sum_16(c, n, s.up);
    } else if (s.left < 8) {
        add_lorenzo_16_generic(c, n, s);
    } else {
        for (size_t i = 0; i < n; i += 8) {
            uint16x8_t sides = vaddq_u16(vld1q_u16(c + i - s.left), vld1q_u16(above + i));
            vst1q_u16(c + i, vaddq_u16(vld1q_u16(c + i), vsubq_u16(sides, vld1q_u16(above + i - s.left))));
        }
    }
}

static void unpredict_16_neon(enum predictor predictor, void *codes, size_t n, strides s)
{
    switch (predictor) {
    case PREDICT_LEFT: strided_sum_16(codes, n, s.left); break;
    case PREDICT_UP: strided_sum_16(codes, n, s.up); break;
    case PREDICT_LORENZO: add_lorenzo_16(codes, n, s); break;
    default: break;
    }
}

/* ---- tiles and the table ---- */

static uint64_t encode_tile_f32(const tile_job *job)
{
    return encode_tile_by(job, quantise_f32_16_neon, predict_16_generic, pack_16_neon);
}

static bool decode_tile_f32(const packed_tile *tile)
{
    return decode_tile_by(tile, unpack_16_neon, unpredict_16_neon, dequantise_f32_16_neon);
}

DEFINE_TILES(f16, pack_16_neon, unpack_16_neon, unpredict_16_neon)
DEFINE_TILES(bf16, pack_16_neon, unpack_16_neon, unpredict_16_neon)
DEFINE_TILES(f64, pack_16_neon, unpack_16_neon, unpredict_16_neon)

const codec_kernels codec_kernels_neon =
    KERNEL_TABLE(COMET_ISA_NEON, quantise_f32_16_neon, dequantise_f32_16_neon, predict_16_generic, unpredict_16_neon,
                 pack_16_neon, pack_cost_16_neon, unpack_16_neon, gather_row_16_generic, scatter_row_16_generic,
                 model_row_16_generic, decode_row_16_generic, entropy_encode_generic);
