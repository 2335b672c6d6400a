/* Elements to numbers and back, and the quantiser: the format, "Codes to elements". The arithmetic is that of
 * src/codec/kernels/quantise_body.h and src/base/convert.h. */
#ifndef COMET_GPU_VALUES_H
#define COMET_GPU_VALUES_H

FUNCTION float value_of_f16(u32 h)
{
    u32 magnitude = (h & 0x7fffu) << 13;
    u32 bits = BITS_OF_FLOAT(FLOAT_OF_BITS(magnitude) * FLOAT_OF_BITS(0x77800000u)); /* 2^112 */
    if (magnitude >= 0x0f800000u)
        bits = magnitude | 0x7f800000u;
    return FLOAT_OF_BITS(bits | (h & 0x8000u) << 16);
}

FUNCTION u32 f16_of_value(float f)
{
    u32 b = BITS_OF_FLOAT(f), magnitude = b & 0x7fffffffu, h;
    if (magnitude >= 0x47800000u)
        h = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    else if (magnitude < 0x38800000u)
        h = BITS_OF_FLOAT(FLOAT_OF_BITS(magnitude) + 0.5f) - 0x3f000000u;
    else
        h = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1u)) >> 13;
    return (h | (b >> 16 & 0x8000u)) & 0xffffu;
}

FUNCTION u32 bf16_of_value(float f)
{
    u32 b = BITS_OF_FLOAT(f);
    return (b & 0x7fffffffu) > 0x7f800000u ? b >> 16 | 0x40u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
}

/* The bits of element i, which begins at a multiple of its size. */
FUNCTION u32 load_element(GLOBAL const u8 *x, u64 i, u32 type)
{
    return type == TYPE_F32 ? ((GLOBAL const u32 *)x)[i] : (u32)((GLOBAL const u16 *)x)[i];
}

FUNCTION void store_element(GLOBAL u8 *x, u64 i, u32 type, u32 bits)
{
    if (type == TYPE_F32)
        ((GLOBAL u32 *)x)[i] = bits;
    else
        ((GLOBAL u16 *)x)[i] = (u16)bits;
}

FUNCTION float value_of_bits(u32 bits, u32 type)
{
    if (type == TYPE_F32)
        return FLOAT_OF_BITS(bits);
    return type == TYPE_F16 ? value_of_f16(bits) : FLOAT_OF_BITS(bits << 16);
}

FUNCTION u32 bits_of_value(float v, u32 type)
{
    if (type == TYPE_F32)
        return BITS_OF_FLOAT(v);
    return type == TYPE_F16 ? f16_of_value(v) : bf16_of_value(v);
}

FUNCTION u32 chunk_key(u64 seed, u64 chunk)
{
    u64 h = seed + (chunk + 1) * 0x9E3779B97F4A7C15UL;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9UL;
    h = (h ^ h >> 27) * 0x94D049BB133111EBUL;
    return (u32)(h >> 32);
}

/* Uniform in [-1/2, 1/2). */
FUNCTION float dither_of(u32 key, u32 index)
{
    u32 h = index ^ key;
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    h ^= h >> 16;
    return (float)((i32)(h >> 8) - (1 << 23)) * FLOAT_OF_BITS(0x33800000u); /* 2^-24 */
}

/* What the quantiser needs of a job and a chunk. */
typedef struct quantiser_of {
    float step, half_step, inverse, bound;
    u32 mode, key, type;
} quantiser_of;

#if CODE_BITS == 32
typedef i64 odd_int; /* twice a damaged code may not fit 32 bits */
#else
typedef i32 odd_int;
#endif

FUNCTION float value_of_code(const quantiser_of *q, i32 code, u32 index)
{
    odd_int twice = 2 * (odd_int)code;
    if (q->mode == MODE_PLAIN)
        return (float)code * q->step;
    if (q->mode == MODE_SUPPORT)
        return (float)(twice - (code > 0) + (code < 0)) * q->half_step;
    if (q->mode == MODE_NONZERO)
        return (float)(twice + 1) * q->half_step;
    return ((float)code - dither_of(q->key, index)) * q->step;
}

FUNCTION i32 code_of_value(const quantiser_of *q, float x, u32 index, float limit)
{
    if (q->mode == MODE_SUPPORT) {
        float t = FABS(x) * q->inverse;
        t = CEIL(t < limit ? t : limit);
        i32 magnitude = (i32)(t > 1.0f ? t : 1.0f);
        return x > 0.0f ? magnitude : x < 0.0f ? -magnitude : 0;
    }
    float t = x * q->inverse;
    if (q->mode == MODE_DITHER)
        t += dither_of(q->key, index);
    t = t > -limit ? t : -limit; /* NaN becomes -limit, and fails the check */
    t = t < limit ? t : limit;
    if (q->mode == MODE_NONZERO) {
        i32 code = (i32)FLOOR(t);
        return x < 0.0f && code == 0 ? -1 : code;
    }
    return (i32)RINT(t);
}

/* Quantises the element with these bits. *code is 0 where it fails. */
FUNCTION u32 quantise(const quantiser_of *q, u32 bits, u32 index, float limit, i32 *code)
{
    float v = value_of_bits(bits, q->type);
    i32 c = code_of_value(q, v, index, limit);
    float back = value_of_code(q, c, index);
    if (q->type != TYPE_F32)
        back = value_of_bits(bits_of_value(back, q->type), q->type);
    float error = FABS(v - back);
    u32 ok = q->mode == MODE_DITHER ? error < q->bound : error <= q->bound;
    if (q->mode == MODE_SUPPORT || q->mode == MODE_NONZERO)
        ok = ok && (back > 0.0f) == (v > 0.0f) && (back < 0.0f) == (v < 0.0f);
    *code = ok ? c : 0;
    return ok;
}

/* Lossless codes: bit patterns as integers in the order of the values. */
FUNCTION i32 code_of_bits(u32 bits, u32 type)
{
    if (type == TYPE_F32)
        return (i32)(bits >> 31 ? bits ^ 0x7fffffffu : bits);
    return bits >> 15 ? (i32)(bits ^ 0x7fffu) - 65536 : (i32)bits;
}

FUNCTION u32 bits_of_code(i32 code, u32 type)
{
    u32 c = (u32)code;
    if (type == TYPE_F32)
        return c >> 31 ? c ^ 0x7fffffffu : c;
    return (c >> 15 & 1u ? c ^ 0x7fffu : c) & 0xffffu;
}

#endif
