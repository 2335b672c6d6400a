/*
 * The loops over states of an optimiser, for code that is compiled for several instruction sets (base/isa_pick.h). Every
 * operation is exact or rounded as IEEE 754 says, so all of them give the same bits.
 */
#ifndef COMET_TRAIN_MATH_OPTIMISER_STATE_LOOPS_H
#define COMET_TRAIN_MATH_OPTIMISER_STATE_LOOPS_H

#include <math.h>
#include <string.h>

#include "base/isa_pick.h"
#include "train/math/optimiser_state.h"

enum {
    STATE_TILE = 512, /* floats that are decoded at once: state, draws, weights and gradients stay in the first cache */
    CODE_MOST = 127,  /* of the momentum */
    SCALE_MOST = 227, /* 2^100: floats beyond 127^2 times that count as not finite */
    SCALE_LEAST = 27, /* 2^-100: blocks below are zeros */
    SCALE_NOT_FINITE = 255,
    MANTISSA = 4, /* bits of a second moment's */
    MANTISSA_CUT = 23 - MANTISSA,
    SQUARE_CODES = 255,
    DRAW_NEAREST = 0x8000, /* rounds to the nearest */
};

ISA_INLINED uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ISA_INLINED float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- draws: 16 bits for the momentum, 16 for the second moment ---- */

ISA_INLINED uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The draws for floats [first, first + n) of the model: murmur3's last rounds over their numbers, with a key in between. */
ISA_INLINED void state_draw(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *draws)
{
    const uint64_t key = mixed(mixed(mixed(seed) ^ step) ^ (first >> 32));
    const uint32_t begin = (uint32_t)key + (uint32_t)first * 0x9e3779b1u, between = (uint32_t)(key >> 32);
    for (size_t i = 0; i < n; i++) {
        uint32_t x = begin + (uint32_t)i * 0x9e3779b1u;
        x = (x ^ (x >> 16)) * 0x85ebca6bu;
        x = (x ^ (x >> 13) ^ between) * 0xc2b2ae35u;
        draws[i] = x ^ (x >> 16);
    }
}

/* ---- bf16 ---- */

ISA_INLINED void decode_bf16(const uint16_t *halves, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = float_of((uint32_t)halves[i] << 16);
}

/* What is not finite stays so. */
ISA_INLINED void encode_bf16(const float *x, const uint32_t *draws, uint32_t shift, size_t n, uint16_t *halves)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(x[i]), special = (bits & 0x7f800000u) == 0x7f800000u,
                       lost = (bits & 0xffffu) != 0 ? 0x40 : 0, draw = (draws[i] >> shift) & 0xffffu;
        halves[i] = (uint16_t)(special ? (bits >> 16) | lost : (bits + draw) >> 16);
    }
}

/* ---- coded: one block ---- */

ISA_INLINED void decode_momentum(const uint8_t *block, float *x)
{
    const float unit = float_of((uint32_t)block[STATE_BLOCK] << 23);
    for (size_t i = 0; i < STATE_BLOCK; i++) {
        const int32_t c = (int8_t)block[i];
        x[i] = (float)(c * (c < 0 ? -c : c)) * unit;
    }
}

ISA_INLINED void decode_squares(const uint8_t *block, float *x)
{
    const uint32_t base = (uint32_t)block[STATE_BLOCK] << MANTISSA;
    for (size_t i = 0; i < STATE_BLOCK; i++)
        x[i] = float_of(block[i] == 0 ? 0 : (base + block[i]) << MANTISSA_CUT);
}

ISA_INLINED uint32_t largest_bits(const float *x)
{
    uint32_t most = 0;
    for (size_t i = 0; i < STATE_BLOCK; i++) {
        const uint32_t bits = bits_of(x[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

/* The scale of the least power of 4 that times 127^2 is at least the largest float. A power of 4 doubles codes, so that a block
 * whose largest float has become smaller keeps its values. */
ISA_INLINED uint32_t momentum_scale(uint32_t most_bits)
{
    const uint32_t bits = bits_of(float_of(most_bits) / (float)(CODE_MOST * CODE_MOST)), up = (bits + 0x7fffffu) >> 23,
                   scale = up | 1;
    return most_bits >= 0x7f800000u || scale > SCALE_MOST ? SCALE_NOT_FINITE : scale < SCALE_LEAST ? 0 : scale;
}

ISA_INLINED void encode_momentum(const float *x, const uint32_t *draws, uint32_t shift, uint8_t *block)
{
    const uint32_t scale = momentum_scale(largest_bits(x));
    const bool plain = scale >= SCALE_LEAST && scale <= SCALE_MOST;
    const uint32_t inverse = plain ? (254 - scale) << 23 : 0, kept = plain ? 0x7fffffffu : 0; /* else all codes are 0 */
    const float per_unit = float_of(inverse);
    block[STATE_BLOCK] = (uint8_t)scale;
    for (size_t i = 0; i < STATE_BLOCK; i++) {
        const float size = float_of(bits_of(x[i]) & kept) * per_unit;
        const int32_t low = (int32_t)sqrtf(size);
        const float above = (size - (float)(low * low)) * 65536, step = (float)(2 * low + 1),
                    draw = (float)((draws[i] >> shift) & 0xffffu) + 0.5f;
        const int32_t up = low + (above > draw * step), code = up > CODE_MOST ? CODE_MOST : up;
        block[i] = (uint8_t)(bits_of(x[i]) >> 31 ? -code : code);
    }
}

/* The window of codes ends above the largest float, rounded up. */
ISA_INLINED uint32_t squares_scale(uint32_t most_bits)
{
    const uint32_t top = (most_bits + ((1u << MANTISSA_CUT) - 1)) >> MANTISSA_CUT, below = (1u << MANTISSA) - 1;
    return top > SQUARE_CODES ? (top - SQUARE_CODES + below) >> MANTISSA : 0;
}

ISA_INLINED void encode_squares(const float *x, const uint32_t *draws, uint32_t shift, uint8_t *block)
{
    enum { EXTRA = MANTISSA_CUT - 16, LARGEST = 0x7ff80000u >> MANTISSA_CUT };
    const uint32_t scale = squares_scale(largest_bits(x));
    const int32_t base = (int32_t)(scale << MANTISSA);
    block[STATE_BLOCK] = (uint8_t)scale;
    for (size_t i = 0; i < STATE_BLOCK; i++) {
        const uint32_t bits = bits_of(x[i]) & 0x7fffffffu, draw = ((draws[i] >> shift) & 0xffffu) << EXTRA | 1u << (EXTRA - 1);
        const int32_t digits = (int32_t)((bits + draw) >> MANTISSA_CUT), least = LARGEST < digits ? LARGEST : digits,
                      code = least - base;
        block[i] = (uint8_t)(bits == 0 ? 0 : code < 1 ? 1 : code);
    }
}

/* ---- n floats, of a state that is not f32 ---- */

ISA_INLINED void decode_block(bool squares, const uint8_t *block, float *x)
{
    if (squares)
        decode_squares(block, x);
    else
        decode_momentum(block, x);
}

ISA_INLINED void encode_block(bool squares, const float *x, const uint32_t *draws, uint32_t shift, uint8_t *block)
{
    if (squares)
        encode_squares(x, draws, shift, block);
    else
        encode_momentum(x, draws, shift, block);
}

ISA_INLINED void state_decode(state_block s, size_t n, float *x)
{
    const uint8_t *block = s.data;
    float last[STATE_BLOCK];
    size_t i = 0;
    if (s.format == COMET_STATE_BF16) {
        decode_bf16(s.data, n, x);
        return;
    }
    for (; i + STATE_BLOCK <= n; i += STATE_BLOCK, block += STATE_BLOCK_BYTES)
        decode_block(s.squares, block, x + i);
    if (i < n) {
        decode_block(s.squares, block, last);
        memcpy(x + i, last, (n - i) * sizeof *x);
    }
}

/* Draws are taken from bit `shift` on. */
ISA_INLINED void state_encode(state_block s, size_t n, const float *x, const uint32_t *draws, uint32_t shift)
{
    uint8_t *block = s.data;
    float last[STATE_BLOCK] = {0};
    uint32_t last_draws[STATE_BLOCK] = {0};
    size_t i = 0;
    if (s.format == COMET_STATE_BF16) {
        encode_bf16(x, draws, shift, n, s.data);
        return;
    }
    for (; i + STATE_BLOCK <= n; i += STATE_BLOCK, block += STATE_BLOCK_BYTES)
        encode_block(s.squares, x + i, draws + i, shift, block);
    if (i < n) {
        memcpy(last, x + i, (n - i) * sizeof *x);
        memcpy(last_draws, draws + i, (n - i) * sizeof *draws);
        encode_block(s.squares, last, last_draws, shift, block);
    }
}

/* n floats, at most STATE_TILE, from `first` on, a multiple of STATE_BLOCK: where they are, or in `room`. NULL: there are none.
 */
ISA_INLINED float *state_open(state_block s, size_t first, size_t n, float *room)
{
    if (!s.data || s.format == COMET_STATE_F32)
        return s.data ? (float *)s.data + first : NULL;
    state_decode(state_at(s, first), n, room);
    return room;
}

#endif
