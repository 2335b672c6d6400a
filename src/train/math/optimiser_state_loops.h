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
    SCALE_LEAST = 27, /* 2^-100: smaller blocks have small codes */
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

/* ---- coded: a tile of whole blocks. Loops go over all floats of it, so that compilers vectorise them ---- */

enum { TILE_BLOCKS = STATE_TILE / STATE_BLOCK };

typedef struct coded_tile {
    uint8_t codes[STATE_TILE];
    uint32_t of_float[STATE_TILE]; /* what its block's scale means for each float */
    uint32_t scales[TILE_BLOCKS];
} coded_tile;

/* Sets of_float from one number a block. */
ISA_INLINED void spread(coded_tile *t, size_t n_blocks, const uint32_t *of_block)
{
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t i = 0; i < STATE_BLOCK; i++)
            t->of_float[b * STATE_BLOCK + i] = of_block[b];
}

ISA_INLINED void read_blocks(coded_tile *t, size_t n_blocks, const uint8_t *blocks)
{
    for (size_t b = 0; b < n_blocks; b++, blocks += STATE_BLOCK_BYTES) {
        memcpy(t->codes + b * STATE_BLOCK, blocks, STATE_BLOCK);
        t->scales[b] = blocks[STATE_BLOCK];
    }
}

ISA_INLINED void write_blocks(const coded_tile *t, size_t n_blocks, uint8_t *blocks)
{
    for (size_t b = 0; b < n_blocks; b++, blocks += STATE_BLOCK_BYTES) {
        memcpy(blocks, t->codes + b * STATE_BLOCK, STATE_BLOCK);
        blocks[STATE_BLOCK] = (uint8_t)t->scales[b];
    }
}

/* The bits of each block's largest float, without signs. */
ISA_INLINED void largest_bits(const float *x, size_t n_blocks, uint32_t *most)
{
    for (size_t b = 0; b < n_blocks; b++) {
        uint32_t largest = 0;
        for (size_t i = 0; i < STATE_BLOCK; i++) {
            const uint32_t bits = bits_of(x[b * STATE_BLOCK + i]) & 0x7fffffffu;
            largest = bits > largest ? bits : largest;
        }
        most[b] = largest;
    }
}

/* ---- momentum ---- */

ISA_INLINED void decode_momentum(coded_tile *t, size_t n_blocks, float *x)
{
    uint32_t units[TILE_BLOCKS];
    for (size_t b = 0; b < n_blocks; b++)
        units[b] = t->scales[b] << 23;
    spread(t, n_blocks, units);
    for (size_t i = 0; i < n_blocks * STATE_BLOCK; i++) {
        const int32_t c = (int8_t)t->codes[i]; /* NOLINT(bugprone-signed-char-misuse): a sign is meant */
        x[i] = (float)(c * (c < 0 ? -c : c)) * float_of(t->of_float[i]);
    }
}

/* The scale of the least power of 4 that times 127^2 is at least the largest float. A power of 4 doubles codes, so that a block
 * whose largest float has become smaller keeps its values. */
ISA_INLINED uint32_t momentum_scale(uint32_t most_bits)
{
    const uint32_t bits = bits_of(float_of(most_bits) / (float)(CODE_MOST * CODE_MOST)), up = (bits + 0x7fffffu) >> 23,
                   scale = up | 1, at_least = scale < SCALE_LEAST ? SCALE_LEAST : scale;
    return most_bits == 0 ? 0 : most_bits >= 0x7f800000u || scale > SCALE_MOST ? SCALE_NOT_FINITE : at_least;
}

ISA_INLINED void encode_momentum(coded_tile *t, size_t n_blocks, const float *x, const uint32_t *draws, uint32_t shift)
{
    uint32_t inverse[TILE_BLOCKS];
    largest_bits(x, n_blocks, t->scales);
    for (size_t b = 0; b < n_blocks; b++) {
        t->scales[b] = momentum_scale(t->scales[b]);
        const bool plain = t->scales[b] != 0 && t->scales[b] != SCALE_NOT_FINITE;
        inverse[b] = plain ? (254 - t->scales[b]) << 23 : 0; /* 0: all codes are 0 */
    }
    spread(t, n_blocks, inverse);
    for (size_t i = 0; i < n_blocks * STATE_BLOCK; i++) {
        const uint32_t bits = bits_of(x[i]), kept = t->of_float[i] != 0 ? bits & 0x7fffffffu : 0;
        const float size = float_of(kept) * float_of(t->of_float[i]);
        const int32_t low = (int32_t)sqrtf(size);
        const float above = (size - (float)(low * low)) * 65536, step = (float)(2 * low + 1),
                    draw = (float)(int32_t)((draws[i] >> shift) & 0xffffu) + 0.5f;
        const int32_t up = low + (above > draw * step ? 1 : 0), code = up > CODE_MOST ? CODE_MOST : up,
                      sign = (int32_t)bits >> 31;
        t->codes[i] = (uint8_t)((code ^ sign) - sign);
    }
}

/* ---- second moments ---- */

ISA_INLINED void decode_squares(coded_tile *t, size_t n_blocks, float *x)
{
    uint32_t base[TILE_BLOCKS];
    for (size_t b = 0; b < n_blocks; b++)
        base[b] = t->scales[b] << MANTISSA;
    spread(t, n_blocks, base);
    for (size_t i = 0; i < n_blocks * STATE_BLOCK; i++) {
        const uint32_t c = t->codes[i], bits = (t->of_float[i] + c) << MANTISSA_CUT;
        x[i] = float_of(c == 0 ? 0 : bits);
    }
}

/* The window of codes ends above the largest float, rounded up. */
ISA_INLINED uint32_t squares_scale(uint32_t most_bits)
{
    const uint32_t top = (most_bits + ((1u << MANTISSA_CUT) - 1)) >> MANTISSA_CUT, below = (1u << MANTISSA) - 1;
    return top > SQUARE_CODES ? (top - SQUARE_CODES + below) >> MANTISSA : 0;
}

ISA_INLINED void encode_squares(coded_tile *t, size_t n_blocks, const float *x, const uint32_t *draws, uint32_t shift)
{
    enum { EXTRA = MANTISSA_CUT - 16, LARGEST = 0x7ff80000u >> MANTISSA_CUT };
    uint32_t base[TILE_BLOCKS];
    largest_bits(x, n_blocks, t->scales);
    for (size_t b = 0; b < n_blocks; b++) {
        t->scales[b] = squares_scale(t->scales[b]);
        base[b] = t->scales[b] << MANTISSA;
    }
    spread(t, n_blocks, base);
    for (size_t i = 0; i < n_blocks * STATE_BLOCK; i++) {
        const uint32_t bits = bits_of(x[i]) & 0x7fffffffu, draw = ((draws[i] >> shift) & 0xffffu) << EXTRA | 1u << (EXTRA - 1);
        const int32_t digits = (int32_t)((bits + draw) >> MANTISSA_CUT), least = LARGEST < digits ? LARGEST : digits,
                      code = least - (int32_t)t->of_float[i], raised = code < 1 ? 1 : code;
        t->codes[i] = (uint8_t)(bits == 0 ? 0 : raised);
    }
}

/* ---- n floats, at most STATE_TILE, of a state that is not f32 ---- */

ISA_INLINED void state_decode(state_block s, size_t n, float *x)
{
    const size_t n_blocks = (n + STATE_BLOCK - 1) / STATE_BLOCK;
    coded_tile t;
    float last[STATE_TILE], *to = n % STATE_BLOCK == 0 ? x : last;
    if (s.format == COMET_STATE_BF16) {
        decode_bf16(s.data, n, x);
        return;
    }
    read_blocks(&t, n_blocks, s.data);
    if (s.squares)
        decode_squares(&t, n_blocks, to);
    else
        decode_momentum(&t, n_blocks, to);
    if (to == last)
        memcpy(x, last, n * sizeof *x);
}

/* Draws, of whole blocks, are taken from bit `shift` on. */
ISA_INLINED void state_encode(state_block s, size_t n, const float *x, const uint32_t *draws, uint32_t shift)
{
    const size_t n_blocks = (n + STATE_BLOCK - 1) / STATE_BLOCK;
    coded_tile t;
    float last[STATE_TILE];
    if (s.format == COMET_STATE_BF16) {
        encode_bf16(x, draws, shift, n, s.data);
        return;
    }
    if (n % STATE_BLOCK != 0) {
        memcpy(last, x, n * sizeof *x);
        memset(last + n, 0, (n_blocks * STATE_BLOCK - n) * sizeof *x);
        x = last;
    }
    if (s.squares)
        encode_squares(&t, n_blocks, x, draws, shift);
    else
        encode_momentum(&t, n_blocks, x, draws, shift);
    write_blocks(&t, n_blocks, s.data);
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
