/*
 * AVX2 kernels (with BMI2, F16C, FMA) for packing and unpacking bit planes of 16-bit codes; everything else is the generic
 * bodies compiled for these instructions.
 *
 * A block of 64 residuals is two registers of bytes; planes are moved by movemask and, under a bitmap, by pext and pdep.
 */
#include <immintrin.h>

#include "codec/kernels/generic.h"

/* 64 residuals below 256 as bytes. */
typedef struct bytes64 {
    __m256i low, high;
} bytes64;

static inline __m256i narrow32(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), _MM_SHUFFLE(3, 1, 2, 0));
}

static inline uint64_t mask64(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

static inline uint64_t nonzero_of(bytes64 b)
{
    const __m256i zero = _mm256_setzero_si256();
    return ~mask64(_mm256_cmpeq_epi8(b.low, zero), _mm256_cmpeq_epi8(b.high, zero));
}

/* Bit p of every byte, moved to the sign. Shifting words leaves the wanted bit of each byte in place. */
static inline uint64_t plane_of(bytes64 b, unsigned p)
{
    const __m128i by = _mm_cvtsi32_si128((int)(7 - p));
    return mask64(_mm256_sll_epi16(b.low, by), _mm256_sll_epi16(b.high, by));
}

static inline unsigned max_of(const uint16_t *z)
{
    __m256i m = _mm256_loadu_si256((const __m256i *)z);
    for (int i = 16; i < BLOCK; i += 16)
        m = _mm256_max_epu16(m, _mm256_loadu_si256((const __m256i *)(z + i)));
    __m128i h = _mm_max_epu16(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    __m128i least = _mm_minpos_epu16(_mm_xor_si128(h, _mm_set1_epi16(-1))); /* the smallest complement */
    return ~(unsigned)_mm_cvtsi128_si32(least) & 0xffff;
}

static inline bytes64 load_bytes(const uint16_t *z)
{
    const __m256i *p = (const __m256i *)(const void *)z;
    __m256i v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_loadu_si256(p + i);
    return (bytes64){narrow32(v[0], v[1]), narrow32(v[2], v[3])};
}

static void pack_16_avx2(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, plane_writer *out)
{
    const uint16_t *z = residuals;
    for (size_t b = first_block; b < first_block + n_blocks; b++, z += BLOCK) {
        unsigned max = max_of(z);
        if (max > 255) {
            pack_16_generic(z, 1, b, kinds, out);
            continue;
        }
        bytes64 bytes = load_bytes(z);
        uint64_t map = nonzero_of(bytes);
        unsigned count = (unsigned)__builtin_popcountll(map);
        block_shape shape = block_shape_of(max, count);
        set_kind(kinds, b, block_kind(shape, &out->bits));
        if (shape.bitmap) {
            const __m256i one = _mm256_set1_epi8(1);
            bytes = (bytes64){_mm256_sub_epi8(bytes.low, one), _mm256_sub_epi8(bytes.high, one)};
            word_write(out, map);
        }
        for (unsigned p = 0; p < shape.width; p++) {
            uint64_t plane = plane_of(bytes, p);
            if (shape.bitmap)
                bit_write(&out->bits, _pext_u64(plane, map), count);
            else
                word_write(out, plane);
        }
    }
}

/* 0xff in byte i where bit i is set. */
static inline __m256i spread32(uint32_t mask)
{
    const __m256i which =
        _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), which), bit);
    return _mm256_cmpeq_epi8(v, bit);
}

static inline bytes64 add_where(bytes64 z, uint64_t mask, unsigned p)
{
    const __m256i value = _mm256_set1_epi8((char)(1u << p));
    z.low = _mm256_or_si256(z.low, _mm256_and_si256(spread32((uint32_t)mask), value));
    z.high = _mm256_or_si256(z.high, _mm256_and_si256(spread32((uint32_t)(mask >> 32)), value));
    return z;
}

/* Undoes the map of 16 residuals and stores them as codes. */
static inline void store16(__m128i z, bool identity, uint16_t *c)
{
    __m256i v = _mm256_cvtepu8_epi16(z);
    __m256i sign = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_and_si256(v, _mm256_set1_epi16(1)));
    __m256i r = _mm256_xor_si256(_mm256_srli_epi16(v, 1), sign);
    _mm256_storeu_si256((__m256i *)c, identity ? v : r);
}

static bool unpack_16_avx2(const uint8_t *kinds, size_t first_block, size_t n_blocks, bool identity, plane_reader *in,
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
        bytes64 z = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        uint64_t map = shape.bitmap ? word_read(in) : 0;
        unsigned count = (unsigned)__builtin_popcountll(map);
        if (count > BITMAP_MOST)
            return false;
        for (unsigned p = 0; p < shape.width; p++)
            z = add_where(z, shape.bitmap ? _pdep_u64(bit_read(&in->bits, count), map) : word_read(in), p);
        if (shape.bitmap) { /* non-zeros were stored less one */
            z.low = _mm256_sub_epi8(z.low, spread32((uint32_t)map));
            z.high = _mm256_sub_epi8(z.high, spread32((uint32_t)(map >> 32)));
        }
        store16(_mm256_castsi256_si128(z.low), identity, c);
        store16(_mm256_extracti128_si256(z.low, 1), identity, c + 16);
        store16(_mm256_castsi256_si128(z.high), identity, c + 32);
        store16(_mm256_extracti128_si256(z.high, 1), identity, c + 48);
        if (!plane_reader_ok(in))
            return false;
    }
    return true;
}

DEFINE_ENCODE_TILE(f32, quantise_f32_16_generic, pack_16_avx2)
DEFINE_ENCODE_TILE(f16, quantise_f16_16_generic, pack_16_avx2)
DEFINE_ENCODE_TILE(bf16, quantise_bf16_16_generic, pack_16_avx2)
DEFINE_ENCODE_TILE(f64, quantise_f64_16_generic, pack_16_avx2)

const codec_kernels codec_kernels_avx2 =
    KERNEL_TABLE(COMET_ISA_AVX2, quantise_f32_16_generic, dequantise_f32_16_generic, predict_16_generic, unpredict_16_generic,
                 pack_16_avx2, pack_cost_16_generic, unpack_16_avx2, gather_row_16_generic, scatter_row_16_generic,
                 model_row_16_generic, decode_row_16_generic, entropy_encode_generic);
