/*
 * AVX2 kernels (with BMI2, F16C, FMA) for packing and unpacking 16-bit codes; everything else is the generic bodies compiled
 * for these instructions.
 *
 * A block of 64 residuals is two registers of bytes. Four bytes at a time, pext takes the bits that are stored out of those
 * under the map, and pdep puts them back.
 */
#include <immintrin.h>

#include "codec/kernels/generic.h"
#include "codec/kernels/half_avx2.h"

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

/* The low `width` bits of those of 4 bytes whose bit in `four` is set. */
static inline uint64_t bits_under(unsigned four, unsigned width)
{
    return _pdep_u64(four, 0x01010101) * ((1u << width) - 1);
}

static uint8_t *pack_16_avx2(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, uint8_t *out)
{
    const uint16_t *z = residuals;
    for (size_t b = first_block; b < first_block + n_blocks; b++, z += BLOCK) {
        unsigned max = max_of(z);
        if (max > 255) {
            out = pack_16_generic(z, 1, b, kinds, out);
            continue;
        }
        bytes64 bytes = load_bytes(z);
        uint64_t map = nonzero_of(bytes);
        block_shape shape = block_shape_of(max, (unsigned)__builtin_popcountll(map));
        out = block_begin(shape, b, kinds, out);
        store_u64(out, map);
        out += shape.bitmap ? 8 : 0;
        map = shape.bitmap ? map : ~UINT64_C(0);
        const __m256i one = _mm256_set1_epi8(shape.bitmap);
        uint8_t v[BLOCK];
        _mm256_storeu_si256((__m256i *)v, _mm256_sub_epi8(bytes.low, one));
        _mm256_storeu_si256((__m256i *)(v + 32), _mm256_sub_epi8(bytes.high, one));
        bit_writer w = {.next = out};
        for (unsigned i = 0; i < BLOCK; i += 4) {
            unsigned four = map >> i & 15;
            bit_write(&w, _pext_u64(load_u32(v + i), bits_under(four, shape.width)),
                      (unsigned)__builtin_popcount(four) * shape.width);
        }
        out = bit_writer_end(&w);
    }
    return out;
}

/* Undoes the map of 16 residuals and stores them as codes. */
static inline void store16(__m128i z, bool identity, uint16_t *c)
{
    __m256i v = _mm256_cvtepu8_epi16(z);
    __m256i sign = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_and_si256(v, _mm256_set1_epi16(1)));
    __m256i r = _mm256_xor_si256(_mm256_srli_epi16(v, 1), sign);
    _mm256_storeu_si256((__m256i *)c, identity ? v : r);
}

static bool unpack_16_avx2(const uint8_t *kinds, size_t first_block, size_t n_blocks, bool identity, block_reader *in,
                           void *codes)
{
    uint16_t *c = codes;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK) {
        block_shape shape = block_shape_read(get_kind(kinds, b), in);
        if (shape.width + shape.bitmap > 8) { /* more than a byte can hold */
            if (!unpack_block_16_generic(shape, identity, in, c))
                return false;
            continue;
        }
        uint64_t map = shape.bitmap ? load_u64(in->next) : ~UINT64_C(0);
        in->next += shape.bitmap ? 8 : 0;
        bit_reader bits = {.start = in->next};
        in->next += values_bytes((unsigned)__builtin_popcountll(map), shape.width);
        if (in->next > in->end)
            return false;
        uint8_t z[BLOCK];
        for (unsigned i = 0; i < BLOCK; i += 4) {
            unsigned four = map >> i & 15;
            uint64_t ones = _pdep_u64(four, 0x01010101) * shape.bitmap; /* non-zeros were stored less one */
            store_u32(z + i, (uint32_t)(_pdep_u64(bit_peek(&bits), bits_under(four, shape.width)) + ones));
            bits.position += (unsigned)__builtin_popcount(four) * shape.width;
        }
        for (unsigned i = 0; i < BLOCK; i += 16)
            store16(_mm_loadu_si128((const __m128i *)(z + i)), identity, c + i);
    }
    return true;
}

DEFINE_TILES(f32, pack_16_avx2, unpack_16_avx2, unpredict_16_generic)
DEFINE_TILES_OF(f16, quantise_f16_16_avx2, dequantise_f16_16_avx2, pack_16_avx2, unpack_16_avx2, unpredict_16_generic)
DEFINE_TILES_OF(bf16, quantise_bf16_16_avx2, dequantise_bf16_16_avx2, pack_16_avx2, unpack_16_avx2, unpredict_16_generic)
DEFINE_TILES(f64, pack_16_avx2, unpack_16_avx2, unpredict_16_generic)

#undef OTHER_QUANTISERS
#define OTHER_QUANTISERS quantise_f16_16_avx2, quantise_bf16_16_avx2, quantise_f64_16_generic
#undef OTHER_DEQUANTISERS
#define OTHER_DEQUANTISERS dequantise_f16_16_avx2, dequantise_bf16_16_avx2, dequantise_f64_16_generic

const codec_kernels codec_kernels_avx2 =
    KERNEL_TABLE(COMET_ISA_AVX2, quantise_f32_16_generic, dequantise_f32_16_generic, predict_16_generic, unpredict_16_generic,
                 pack_16_avx2, pack_cost_16_generic, unpack_16_avx2, gather_row_16_generic, scatter_row_16_generic,
                 model_row_16_generic, decode_row_16_generic, entropy_encode_generic);
