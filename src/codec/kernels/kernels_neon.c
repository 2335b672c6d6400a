/*
 * NEON kernels (any AArch64) for packing and unpacking bit planes of 16-bit codes; everything else is the generic bodies,
 * which the compiler vectorises for NEON as it does those of the reference.
 *
 * A block of 64 residuals is four registers of bytes. A plane is gathered by giving byte i the weight of bit i % 8 and adding
 * pairs until 64 bits are left. There is no pext or pdep: bits under a bitmap are moved together and apart in six steps by
 * powers of two (the parallel suffix of Hacker's Delight, 7-4 and 7-5); which bits move depends on the map alone and is
 * worked out once a block.
 */
#include <arm_neon.h>

#include "codec/kernels/generic.h"

/* 64 residuals below 256 as bytes. */
typedef struct bytes64 {
    uint8x16_t part[4];
} bytes64;

/* Byte i stands for bit i % 8. */
static inline uint8x16_t bit_of_byte(void)
{
    return vreinterpretq_u8_u64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
}

/* Bit i of the result is set where byte i has one of the bits `wanted`. */
static inline uint64_t mask64(bytes64 b, uint8_t wanted)
{
    const uint8x16_t bits = vdupq_n_u8(wanted), weight = bit_of_byte();
    uint8x16_t w[4];
    for (int i = 0; i < 4; i++)
        w[i] = vandq_u8(vtstq_u8(b.part[i], bits), weight);
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(w[0], w[1]), vpaddq_u8(w[2], w[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
}

/* Step k moves the bits in move[k] by 2^k towards bit 0. */
enum { N_STEPS = 6 };
typedef struct bit_moves {
    uint64_t map, move[N_STEPS];
} bit_moves;

static inline bit_moves moves_of(uint64_t map)
{
    bit_moves m = {.map = map};
    uint64_t zeros = ~map << 1; /* bit i: whether the zero below bit i counts in this step */
    for (unsigned k = 0; k < N_STEPS; k++) {
        uint64_t odd = zeros; /* bit i: whether an odd number of them are at or below i */
        for (unsigned by = 1; by < 64; by *= 2)
            odd ^= odd << by;
        m.move[k] = odd & map;
        map = (map ^ m.move[k]) | m.move[k] >> (1u << k);
        zeros &= ~odd;
    }
    return m;
}

/* pext: the bits of v under the map, moved together from bit 0 on. */
static inline uint64_t gather_bits(uint64_t v, const bit_moves *m)
{
    v &= m->map;
    for (unsigned k = 0; k < N_STEPS; k++) {
        uint64_t moving = v & m->move[k];
        v = (v ^ moving) | moving >> (1u << k);
    }
    return v;
}

/* pdep: the inverse. */
static inline uint64_t scatter_bits(uint64_t v, const bit_moves *m)
{
    for (unsigned k = N_STEPS; k-- > 0;)
        v = (v & ~m->move[k]) | (v << (1u << k) & m->move[k]);
    return v & m->map;
}

static inline unsigned max_of(const uint16_t *z)
{
    uint16x8_t m = vld1q_u16(z);
    for (int i = 8; i < BLOCK; i += 8)
        m = vmaxq_u16(m, vld1q_u16(z + i));
    return vmaxvq_u16(m);
}

static inline bytes64 load_bytes(const uint16_t *z)
{
    bytes64 b;
    for (int i = 0; i < 4; i++)
        b.part[i] = vcombine_u8(vmovn_u16(vld1q_u16(z + 16 * i)), vmovn_u16(vld1q_u16(z + 16 * i + 8)));
    return b;
}

/* The planes of a bitmap block, of the non-zeros less one. */
static inline void write_under_map(bytes64 b, uint64_t map, unsigned count, unsigned width, plane_writer *out)
{
    for (int i = 0; i < 4; i++)
        b.part[i] = vsubq_u8(b.part[i], vdupq_n_u8(1));
    word_write(out, map);
    if (width == 0)
        return;
    bit_moves moves = moves_of(map);
    for (unsigned p = 0; p < width; p++)
        bit_write(&out->bits, gather_bits(mask64(b, (uint8_t)(1u << p)), &moves), count);
}

static void pack_16_neon(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, plane_writer *out)
{
    const uint16_t *z = residuals;
    for (size_t b = first_block; b < first_block + n_blocks; b++, z += BLOCK) {
        unsigned max = max_of(z);
        if (max > 255) {
            pack_16_generic(z, 1, b, kinds, out);
            continue;
        }
        bytes64 bytes = load_bytes(z);
        uint64_t map = mask64(bytes, 0xff);
        unsigned count = (unsigned)__builtin_popcountll(map);
        block_shape shape = block_shape_of(max, count);
        set_kind(kinds, b, block_kind(shape, &out->bits));
        if (shape.bitmap)
            write_under_map(bytes, map, count, shape.width, out);
        else
            for (unsigned p = 0; p < shape.width; p++)
                word_write(out, mask64(bytes, (uint8_t)(1u << p)));
    }
}

/* Adds `value` to byte i where bit i of the mask is set. */
static inline bytes64 add_where(bytes64 z, uint64_t mask, uint8_t value)
{
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(mask)), weight = bit_of_byte();
    uint8x16_t which = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    for (int i = 0; i < 4; i++) {
        uint8x16_t set = vtstq_u8(vqtbl1q_u8(bits, which), weight);
        z.part[i] = vaddq_u8(z.part[i], vandq_u8(set, vdupq_n_u8(value)));
        which = vaddq_u8(which, vdupq_n_u8(2));
    }
    return z;
}

/* The planes of a bitmap block; non-zeros were stored less one. False if the map has too many. */
static inline bool read_under_map(unsigned width, plane_reader *in, bytes64 *z)
{
    uint64_t map = word_read(in);
    unsigned count = (unsigned)__builtin_popcountll(map);
    if (count > BITMAP_MOST)
        return false;
    *z = add_where(*z, map, 1);
    if (width == 0)
        return true;
    bit_moves moves = moves_of(map);
    for (unsigned p = 0; p < width; p++)
        *z = add_where(*z, scatter_bits(bit_read(&in->bits, count), &moves), (uint8_t)(1u << p));
    return true;
}

/* Undoes the map of 8 residuals and stores them as codes. */
static inline void store8(uint8x8_t z, bool identity, uint16_t *c)
{
    uint16x8_t v = vmovl_u8(z);
    uint16x8_t sign = vsubq_u16(vdupq_n_u16(0), vandq_u16(v, vdupq_n_u16(1)));
    vst1q_u16(c, identity ? v : veorq_u16(vshrq_n_u16(v, 1), sign));
}

static bool unpack_16_neon(const uint8_t *kinds, size_t first_block, size_t n_blocks, bool identity, plane_reader *in,
                           void *codes)
{
    uint16_t *c = codes;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK) {
        block_shape shape;
        if (!block_shape_read(get_kind(kinds, b), &in->bits, 16, &shape))
            return false;
        if (shape.width + shape.bitmap > 8) { /* more than a byte can hold */
            if (!unpack_block_16_generic(shape, identity, in, c))
                return false;
            continue;
        }
        bytes64 z;
        for (int i = 0; i < 4; i++)
            z.part[i] = vdupq_n_u8(0);
        if (shape.bitmap) {
            if (!read_under_map(shape.width, in, &z))
                return false;
        } else {
            for (unsigned p = 0; p < shape.width; p++)
                z = add_where(z, word_read(in), (uint8_t)(1u << p));
        }
        for (int i = 0; i < 4; i++) {
            store8(vget_low_u8(z.part[i]), identity, c + 16 * i);
            store8(vget_high_u8(z.part[i]), identity, c + 16 * i + 8);
        }
        if (!plane_reader_ok(in))
            return false;
    }
    return true;
}

DEFINE_ENCODE_TILE(f32, quantise_f32_16_generic, pack_16_neon)
DEFINE_ENCODE_TILE(f16, quantise_f16_16_generic, pack_16_neon)
DEFINE_ENCODE_TILE(bf16, quantise_bf16_16_generic, pack_16_neon)
DEFINE_ENCODE_TILE(f64, quantise_f64_16_generic, pack_16_neon)

const codec_kernels codec_kernels_neon =
    KERNEL_TABLE(COMET_ISA_NEON, quantise_f32_16_generic, dequantise_f32_16_generic, predict_16_generic, unpredict_16_generic,
                 pack_16_neon, pack_cost_16_generic, unpack_16_neon, gather_row_16_generic, scatter_row_16_generic,
                 model_row_16_generic, decode_row_16_generic, entropy_encode_generic);
