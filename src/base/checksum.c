/* XXH64 as its specification describes it: four lanes of multiply and rotate over 32-byte stripes, then the tail. */
#include "base/checksum.h"

#include "base/bytes.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u, P4 = 0x85EBCA77C2B2AE63u,
                      P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t v, unsigned by)
{
    return (v << by) | (v >> (64 - by));
}

static uint64_t round_lane(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * P2, 31) * P1;
}

static uint64_t merge_lane(uint64_t hash, uint64_t lane)
{
    return (hash ^ round_lane(0, lane)) * P1 + P4;
}

static uint64_t stripes(const uint8_t **p, const uint8_t *end)
{
    uint64_t lane[4] = {P1 + P2, P2, 0, 0 - P1};
    for (; end - *p >= 32; *p += 32)
        for (int i = 0; i < 4; i++)
            lane[i] = round_lane(lane[i], load_u64(*p + 8 * i));
    uint64_t hash = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
    for (int i = 0; i < 4; i++)
        hash = merge_lane(hash, lane[i]);
    return hash;
}

uint64_t comet_checksum(const void *data, size_t bytes)
{
    const uint8_t *p = data, *end = p + bytes;
    uint64_t hash = (bytes >= 32 ? stripes(&p, end) : P5) + bytes;
    for (; end - p >= 8; p += 8)
        hash = rotate(hash ^ round_lane(0, load_u64(p)), 27) * P1 + P4;
    for (; end - p >= 4; p += 4)
        hash = rotate(hash ^ (load_u32(p) * P1), 23) * P2 + P3;
    for (; p < end; p++)
        hash = rotate(hash ^ (*p * P5), 11) * P1;
    hash = (hash ^ (hash >> 33)) * P2;
    hash = (hash ^ (hash >> 29)) * P3;
    return hash ^ (hash >> 32);
}
