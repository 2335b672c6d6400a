/* Groups of 64 bits to bytes and back. */
#ifndef COMET_NATIVE_BITS_H
#define COMET_NATIVE_BITS_H

#include <stdint.h>

enum { GROUP = 64 };

/* Bit k of the result is flags[k], each 0 or 1. */
static inline uint64_t word_of_flags(const uint8_t *flags)
{
    uint64_t word = 0;
    for (unsigned byte = 0; byte < 8; byte++) {
        uint64_t eight = 0;
        for (unsigned k = 0; k < 8; k++)
            eight |= (uint64_t)flags[8 * byte + k] << (8 * k);
        word |= ((eight * UINT64_C(0x0102040810204080)) >> 56) << (8 * byte);
    }
    return word;
}

static inline void flags_of_word(uint64_t word, uint8_t *flags)
{
    for (unsigned byte = 0; byte < 8; byte++) {
        const uint64_t copies = ((word >> (8 * byte)) & 0xff) * UINT64_C(0x0101010101010101);
        const uint64_t bits = copies & UINT64_C(0x8040201008040201);
        const uint64_t eight = ((bits + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7) & UINT64_C(0x0101010101010101);
        for (unsigned k = 0; k < 8; k++)
            flags[8 * byte + k] = (uint8_t)(eight >> (8 * k));
    }
}

#endif
