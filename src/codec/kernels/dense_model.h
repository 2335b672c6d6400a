/* Level dense: contexts, and the symbols that stand for residuals. See docs/format.md. */
#ifndef COMET_CODEC_DENSE_MODEL_H
#define COMET_CODEC_DENSE_MODEL_H

#include "codec/kernels/kernels.h"

/* Levels of the context: thresholds 1, 3, 6, 12, 24 for the gradient and 1, 2, 4 for the magnitude. */
static const uint8_t gradient_level[32] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4,
                                           4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5};
static const uint8_t magnitude_level[5] = {0, 1, 2, 2, 3};

/* The context of outlook 4 x gradient level + magnitude level: those that say much the same share one. */
static const uint8_t context_of[N_OUTLOOKS] = {0, 1,  1,  2,  3, 4,  5,  6,  7, 8,  9,  10,
                                               7, 11, 12, 13, 7, 11, 12, 14, 7, 11, 12, 15};

/* The first residual of each symbol, and the number of bits that tell which one of its range. */
static const uint8_t symbol_base[N_SYMBOLS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 40, 72, 104, ESCAPE_LEAST};
static const uint8_t symbol_bits[N_SYMBOLS] = {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 3, 4, 5, 5, 6, 0};
/* The symbols of residuals from 8 on, by a quarter of the residual. */
static const uint8_t symbol_of_quarter[ESCAPE_LEAST / 4] = {0,  0,  8,  9,  10, 10, 11, 11, 11, 11, 12, 12, 12, 12,
                                                            12, 12, 12, 12, 13, 13, 13, 13, 13, 13, 13, 13, 14, 14,
                                                            14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14};

static inline unsigned symbol_of(uint64_t z)
{
    return z < 8 ? (unsigned)z : z < ESCAPE_LEAST ? symbol_of_quarter[z / 4] : ESCAPE;
}

/* What decoders need of a symbol in a context: its start, its number, its frequency, and the bits that it takes off the state
 * (PROB_BITS and its raw bits). */
enum { DECODER_SYMBOL = 10, DECODER_FREQUENCY = 16, DECODER_SHIFT = 27 };
static inline uint32_t decoder_entry(uint32_t start, uint32_t symbol, uint32_t frequency, uint32_t raw_bits)
{
    return (PROB_BITS + raw_bits) << DECODER_SHIFT | frequency << DECODER_FREQUENCY | symbol << DECODER_SYMBOL | start;
}

/* A residual of symbol ESCAPE: an Exp-Golomb number. False if there is none. */
static inline bool read_escape(bit_reader *r, unsigned order, uint64_t *z)
{
    uint64_t next = bit_peek(r);
    unsigned zeros = next ? (unsigned)__builtin_ctzll(next) : 64, bits = order + zeros;
    if (bits > 32)
        return false;
    r->position += zeros + 1;
    uint64_t rest = zeros + bits < 56 ? next >> zeros >> 1 : bit_peek(r);
    r->position += bits;
    *z = ESCAPE_LEAST + (UINT64_C(1) << bits) - (UINT64_C(1) << order) + (rest & ((UINT64_C(1) << bits) - 1));
    return bit_reader_ok(r);
}

#endif
