/* Tables of shuffles that bring bytes together and put them back. */
#ifndef COMET_CODEC_BYTE_SHUFFLES_H
#define COMET_CODEC_BYTE_SHUFFLES_H

#include <stdint.h>

/*
 * Shuffles of eight bytes or lanes by a mask of eight bits, one byte for each, for the AVX2 and NEON families. They replace
 * pext and pdep, which are slow on some CPUs, and the compress and expand instructions of AVX-512.
 *
 *   shuffle_down   the numbers of the set bits in ascending order, then 0x80
 *   shuffle_up     the same against the upper end, with 0 before them
 *   shuffle_apart  at each set bit the number of set bits below it, elsewhere 0x80
 */
extern const uint64_t shuffle_down[256], shuffle_up[256], shuffle_apart[256];

#endif
