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

FUNCTION float value_of_code(const quantiser_of *q, u32 mode, i32 code, u32 index)
{
    odd_int twice = 2 * (odd_int)code;
    if (mode == MODE_PLAIN)
        return (float)code * q->step;
    if (mode == MODE_SUPPORT)
        return (float)(twice - (code > 0) + (code < 0)) * q->half_step;
    if (mode == MODE_NONZERO)
        return (float)(twice + 1) * q->half_step;
    return ((float)code - dither_of(q->key, index)) * q->step;
}

FUNCTION i32 code_of_value(const quantiser_of *q, u32 mode, float x, u32 index, float limit)
{
    if (mode == MODE_SUPPORT) {
        float t = FABS(x) * q->inverse;
        t = CEIL(t < limit ? t : limit);
        i32 magnitude = (i32)(t > 1.0f ? t : 1.0f);
        return x > 0.0f ? magnitude : x < 0.0f ? -magnitude : 0;
    }
    float t = x * q->inverse;
    if (mode == MODE_DITHER)
        t += dither_of(q->key, index);
    t = t > -limit ? t : -limit; /* NaN becomes -limit, and fails the check */
    t = t < limit ? t : limit;
    if (mode == MODE_NONZERO) {
        i32 code = (i32)FLOOR(t);
        return x < 0.0f && code == 0 ? -1 : code;
    }
    return (i32)RINT(t);
}

/* The statement for a mode or a type that it takes as a constant: its loops have no choice inside. */
#define WITH_MODE(q, mode, statement)       \
    if ((q)->mode == MODE_PLAIN) {          \
        const u32 mode = MODE_PLAIN;        \
        statement                           \
    } else if ((q)->mode == MODE_SUPPORT) { \
        const u32 mode = MODE_SUPPORT;      \
        statement                           \
    } else if ((q)->mode == MODE_NONZERO) { \
        const u32 mode = MODE_NONZERO;      \
        statement                           \
    } else {                                \
        const u32 mode = MODE_DITHER;       \
        statement                           \
    }

#define WITH_TYPE(type_of, type, statement) \
    if ((type_of) == TYPE_F32) {            \
        const u32 type = TYPE_F32;          \
        statement                           \
    } else if ((type_of) == TYPE_F16) {     \
        const u32 type = TYPE_F16;          \
        statement                           \
    } else {                                \
        const u32 type = TYPE_BF16;         \
        statement                           \
    }

/* The values of a lot of elements from element `at` on, of which `n` exist; the rest are 0. */
FUNCTION void load_lot(GLOBAL const u8 *x, u64 at, u32 n, u32 type_of, float *v)
{
    WITH_TYPE(
        type_of, type,
        if (n >= LOT) {
            for (u32 e = 0; e < LOT; e++)
                v[e] = value_of_bits(load_element(x, at + e, type), type);
        } else {
            for (u32 e = 0; e < LOT; e++)
                v[e] = e < n ? value_of_bits(load_element(x, at + e, type), type) : 0.0f;
        })
}

FUNCTION u32 within(float v, float back, float bound, u32 mode)
{
    float error = FABS(v - back);
    u32 ok = mode == MODE_DITHER ? error < bound : error <= bound;
    if (mode == MODE_SUPPORT || mode == MODE_NONZERO)
        ok = ok & ((back > 0.0f) == (v > 0.0f)) & ((back < 0.0f) == (v < 0.0f));
    return ok;
}

/* Quantises a lot. Returns a bit for each element that fails; its code is 0. */
FUNCTION u32 quantise_lot(const quantiser_of *q, const float *v, u32 index, float limit, i32 *code)
{
    float back[LOT];
    u32 failed = 0;
    WITH_MODE(
        q, mode, for (u32 e = 0; e < LOT; e++) {
            code[e] = code_of_value(q, mode, v[e], index + e, limit);
            back[e] = value_of_code(q, mode, code[e], index + e);
        })
    if (q->type != TYPE_F32) {
        WITH_TYPE(q->type, type, for (u32 e = 0; e < LOT; e++) back[e] = value_of_bits(bits_of_value(back[e], type), type);)
    }
    WITH_MODE(
        q, mode, for (u32 e = 0; e < LOT; e++) {
            u32 ok = within(v[e], back[e], q->bound, mode);
            failed |= (ok ^ 1u) << e;
            code[e] = ok ? code[e] : 0;
        })
    return failed;
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
