#include "base/random.h"

#include <math.h>

enum { N_ROUNDS = 10 };

static void round_once(uint32_t c[4], const uint32_t k[2])
{
    const uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
    const uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
    for (int i = 0; i < 4; i++)
        c[i] = next[i];
}

/* The 128-bit counter is (index, part with the stream in its top byte); the key is the seed. */
void comet_random_block(uint64_t seed, comet_stream stream, uint64_t part, uint64_t index, uint32_t out[4])
{
    const uint64_t high = part ^ ((uint64_t)stream << 56);
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int i = 0; i < N_ROUNDS; i++) {
        round_once(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

comet_random comet_random_start(uint64_t seed, comet_stream stream, uint64_t part, uint32_t first)
{
    return (comet_random){.seed = seed, .stream = stream, .part = part, .index = (uint64_t)first << 32};
}

uint32_t comet_random_u32(comet_random *r)
{
    if (r->n_left == 0) {
        comet_random_block(r->seed, r->stream, r->part, r->index++, r->block);
        r->n_left = 4;
    }
    return r->block[--r->n_left];
}

double comet_random_uniform(comet_random *r)
{
    const uint64_t high = comet_random_u32(r), low = comet_random_u32(r);
    return (double)((high << 32 | low) >> 11) * 0x1p-53;
}

/* Box and Muller: normal numbers come in pairs. */
double comet_random_normal(comet_random *r)
{
    r->has_spare = !r->has_spare;
    if (!r->has_spare)
        return r->spare;
    const double radius = sqrt(-2 * log1p(-comet_random_uniform(r))), angle = 6.283185307179586 * comet_random_uniform(r);
    r->spare = radius * sin(angle);
    return radius * cos(angle);
}

uint64_t comet_random_below(comet_random *r, uint64_t n)
{
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* a multiple of n: larger numbers are drawn again */
    uint64_t v;
    do {
        const uint64_t high = comet_random_u32(r), low = comet_random_u32(r); /* in this order with every compiler */
        v = high << 32 | low;
    } while (v >= limit);
    return v % n;
}
