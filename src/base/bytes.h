/* Unaligned little-endian access to frames, and bit counts. Frames are little-endian on every machine. */
#ifndef COMET_BASE_BYTES_H
#define COMET_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Comet is written for little-endian machines"
#endif

#define COMET_DEFINE_ACCESS(bits)                               \
    static inline uint##bits##_t load_u##bits(const void *p)    \
    {                                                           \
        uint##bits##_t v;                                       \
        memcpy(&v, p, sizeof v);                                \
        return v;                                               \
    }                                                           \
    static inline void store_u##bits(void *p, uint##bits##_t v) \
    {                                                           \
        memcpy(p, &v, sizeof v);                                \
    }

COMET_DEFINE_ACCESS(16)
COMET_DEFINE_ACCESS(32)
COMET_DEFINE_ACCESS(64)
#undef COMET_DEFINE_ACCESS

/* Bits needed to write v: 0 for 0, 64 for 2^63 and more. */
static inline unsigned bit_length_u64(uint64_t v)
{
    return v ? 64u - (unsigned)__builtin_clzll(v) : 0;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a - b, or 0 where b is larger. */
static inline uint64_t sub_u64(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static inline uint64_t ceil_div_u64(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

#endif
