/*
 * Eight values make `bits` whole bytes, so all loops work on groups of eight; the last group is padded. Widths that divide a
 * byte have loops of their own, which compilers turn into vector code.
 */
#include "store/packed.h"

#include <string.h>

#include "base/bytes.h"

enum { GROUP = 8, CHECKED = 4096 /* values checked at once, a multiple of GROUP: they stay in the nearest cache */ };

static void write_groups(const uint8_t *v, size_t n_groups, unsigned bits, uint8_t *out)
{
    for (size_t g = 0; g < n_groups; g++, v += GROUP) {
        uint64_t word = 0;
        for (unsigned i = 0; i < GROUP; i++)
            word |= (uint64_t)v[i] << (i * bits);
        for (unsigned i = 0; i < bits && i < GROUP; i++) /* bits < GROUP, which compilers cannot know */
            *out++ = (uint8_t)(word >> (8 * i));
    }
}

static void read_groups(const uint8_t *in, size_t n_groups, unsigned bits, uint8_t *v)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (size_t g = 0; g < n_groups; g++, v += GROUP) {
        uint64_t word = 0;
        for (unsigned i = 0; i < bits; i++)
            word |= (uint64_t)*in++ << (8 * i);
        for (unsigned i = 0; i < GROUP; i++)
            v[i] = (uint8_t)(word >> (i * bits) & mask);
    }
}

/* The product moves bit 0 of byte i to bit 56 + i; no two terms overlap, so nothing carries. */
static void write_1(const uint8_t *v, size_t n_groups, uint8_t *out)
{
    for (size_t g = 0; g < n_groups; g++)
        out[g] = (uint8_t)(load_u64(v + GROUP * g) * UINT64_C(0x0102040810204080) >> 56);
}

static void write_2(const uint8_t *v, size_t n_bytes, uint8_t *out)
{
    for (size_t i = 0; i < n_bytes; i++)
        out[i] = (uint8_t)(v[4 * i] | v[4 * i + 1] << 2 | v[4 * i + 2] << 4 | v[4 * i + 3] << 6);
}

static void write_4(const uint8_t *v, size_t n_bytes, uint8_t *out)
{
    for (size_t i = 0; i < n_bytes; i++)
        out[i] = (uint8_t)(v[2 * i] | v[2 * i + 1] << 4);
}

static void read_1(const uint8_t *in, size_t n_bytes, uint8_t *v)
{
    for (size_t i = 0; i < n_bytes; i++)
        for (unsigned k = 0; k < 8; k++)
            v[8 * i + k] = (uint8_t)(in[i] >> k & 1);
}

static void read_2(const uint8_t *in, size_t n_bytes, uint8_t *v)
{
    for (size_t i = 0; i < n_bytes; i++)
        for (unsigned k = 0; k < 4; k++)
            v[4 * i + k] = (uint8_t)(in[i] >> 2 * k & 3);
}

static void read_4(const uint8_t *in, size_t n_bytes, uint8_t *v)
{
    for (size_t i = 0; i < n_bytes; i++) {
        v[2 * i] = in[i] & 15;
        v[2 * i + 1] = in[i] >> 4;
    }
}

static void write_any(const uint8_t *v, size_t n_groups, unsigned bits, uint8_t *out)
{
    switch (bits) {
    case 1: write_1(v, n_groups, out); break;
    case 2: write_2(v, n_groups * bits, out); break;
    case 4: write_4(v, n_groups * bits, out); break;
    default: write_groups(v, n_groups, bits, out);
    }
}

static void read_any(const uint8_t *in, size_t n_groups, unsigned bits, uint8_t *v)
{
    switch (bits) {
    case 1: read_1(in, n_groups * bits, v); break;
    case 2: read_2(in, n_groups * bits, v); break;
    case 4: read_4(in, n_groups * bits, v); break;
    default: read_groups(in, n_groups, bits, v);
    }
}

static bool all_fit(const uint8_t *v, size_t n, unsigned bits)
{
    uint8_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= v[i];
    return all >> bits == 0;
}

bool packed_write(const uint8_t *values, size_t n, unsigned bits, uint8_t *out)
{
    size_t whole = n / GROUP * GROUP, rest = n - whole;
    for (size_t i = 0; i < whole; i += CHECKED) {
        size_t count = (size_t)min_u64(CHECKED, whole - i);
        if (!all_fit(values + i, count, bits))
            return false;
        write_any(values + i, count / GROUP, bits, out + i / GROUP * bits);
    }
    if (rest) {
        uint8_t last[GROUP] = {0}, packed[GROUP];
        memcpy(last, values + whole, rest);
        if (!all_fit(last, rest, bits))
            return false;
        write_any(last, 1, bits, packed);
        memcpy(out + whole / GROUP * bits, packed, packed_bytes(rest, bits));
    }
    return true;
}

void packed_read(const uint8_t *in, size_t n, unsigned bits, uint8_t *values)
{
    size_t whole = n / GROUP * GROUP, rest = n - whole;
    read_any(in, whole / GROUP, bits, values);
    if (rest) {
        uint8_t packed[GROUP] = {0}, last[GROUP];
        memcpy(packed, in + whole / GROUP * bits, packed_bytes(rest, bits));
        read_any(packed, 1, bits, last);
        memcpy(values + whole, last, rest);
    }
}
