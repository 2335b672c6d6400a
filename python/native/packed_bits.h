/* Numbers of `bits` bits each in words of 64 bits. A group of 64 numbers makes `bits` words, so that every group begins at a
 * word. */
#ifndef COMET_NATIVE_PACKED_BITS_H
#define COMET_NATIVE_PACKED_BITS_H

#include <stdint.h>

#include "bits.h" /* GROUP */

static inline uint64_t words_of(uint64_t n_elements, unsigned bits)
{
    const uint64_t tail = n_elements % GROUP * bits;
    return n_elements / GROUP * bits + (tail + 63) / 64;
}

/* n <= GROUP values of 1 to 63 bits each into the words they need. */
static inline void pack_group(const uint64_t *values, uint64_t n, uint64_t least, unsigned bits, uint64_t *words)
{
    uint64_t word = 0;
    unsigned filled = 0;
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t offset = values[k] - least;
        word |= offset << filled;
        filled += bits;
        if (filled >= 64) {
            *words++ = word;
            filled -= 64;
            word = filled ? offset >> (bits - filled) : 0;
        }
    }
    if (filled)
        *words = word;
}

/* With 0 bits there are no words. */
static inline void unpack_group(const uint64_t *words, uint64_t n, uint64_t least, unsigned bits, uint64_t *values)
{
    if (bits == 0) {
        for (uint64_t k = 0; k < n; k++)
            values[k] = least;
        return;
    }
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t at = k * bits;
        const unsigned shift = (unsigned)(at % 64);
        uint64_t offset = words[at / 64] >> shift;
        if (shift + bits > 64)
            offset |= words[at / 64 + 1] << (64 - shift);
        values[k] = (offset & mask) + least;
    }
}

#endif
