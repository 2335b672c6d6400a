/* Small integers, one in each byte, packed to few bits each: value i takes bits [i * bits, (i + 1) * bits) of a little-endian
 * bit string. */
#ifndef COMET_STORE_PACKED_H
#define COMET_STORE_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t packed_bytes(size_t n, unsigned bits)
{
    return n / 8 * bits + (n % 8 * bits + 7) / 8;
}

/* Writes n values of 1 to 7 bits to packed_bytes bytes. False if a value does not fit its bits; `out` is undefined then. */
bool packed_write(const uint8_t *values, size_t n, unsigned bits, uint8_t *out);
void packed_read(const uint8_t *in, size_t n, unsigned bits, uint8_t *values);

#endif
