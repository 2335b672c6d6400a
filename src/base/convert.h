/* f16 and bf16 to float and back (round to nearest even), on bits. Every family rounds exactly like this. */
#ifndef COMET_BASE_CONVERT_H
#define COMET_BASE_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float float_of_bf16(uint16_t h)
{
    return float_of_bits((uint32_t)h << 16);
}

/* NaN becomes a quiet NaN. */
static inline uint16_t bf16_of_float(float f)
{
    uint32_t b = bits_of_float(f);
    uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1)) >> 16;
    return (uint16_t)((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40 : rounded);
}

/* Exponent and mantissa are moved into place and the bias is corrected by a multiplication, which also normalises
 * subnormals. */
static inline float float_of_f16(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
    float f = float_of_bits(magnitude) * 0x1p112f;
    uint32_t bits = bits_of_float(f);
    if (magnitude >= 0x0f800000u) /* Inf and NaN keep the largest exponent */
        bits = magnitude | 0x7f800000u;
    return float_of_bits(bits | (uint32_t)(h & 0x8000u) << 16);
}

static inline uint16_t f16_of_float(float f)
{
    uint32_t b = bits_of_float(f), magnitude = b & 0x7fffffffu, h;
    if (magnitude >= 0x47800000u) { /* 65536 and more, Inf, NaN */
        h = magnitude > 0x7f800000u ? 0x7e00 : 0x7c00;
    } else if (magnitude < 0x38800000u) { /* below the smallest normal: let the addition of 0.5 round at the right bit */
        h = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
    } else {
        h = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1)) >> 13;
    }
    return (uint16_t)(h | (b >> 16 & 0x8000u));
}

#endif
