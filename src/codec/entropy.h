/* Entropy of counts, for estimates, in integers so that every machine chooses the same. */
#ifndef COMET_CODEC_ENTROPY_H
#define COMET_CODEC_ENTROPY_H

#include <stddef.h>

#include "base/bytes.h"

#define ENTROPY_UNIT 256 /* a bit */

/* v log2(v) in units, within half a per cent; 0 for 0. */
static inline uint64_t v_log2_v(uint64_t v)
{
    if (v == 0)
        return 0;
    unsigned top = bit_length_u64(v) - 1;
    uint64_t f = top >= 8 ? (v >> (top - 8)) & 255 : (v << (8 - top)) & 255;
    return v * (ENTROPY_UNIT * top + f + (f * (256 - f) * 88 >> 16));
}

/* What coding all symbols with these counts takes, in units. */
static inline uint64_t entropy_of_counts(const uint32_t *counts, size_t n)
{
    uint64_t total = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        total += counts[i];
        sum += v_log2_v(counts[i]);
    }
    return sub_u64(v_log2_v(total), sum);
}

#endif
