/* Blocks of the sum stay in the first cache while the parts are added to them. */
#include "dist/sum.h"

#include <string.h>

#include "base/isa_pick.h"

enum { BLOCK = 1024 };

ISA_INLINED void sum_of_two(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

ISA_INLINED void sum_of(float *out, const float *const *parts, size_t n_parts, size_t n)
{
    float block[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t m = n - at < BLOCK ? n - at : BLOCK;
        if (n_parts == 1) {
            memmove(out + at, parts[0] + at, m * sizeof *out);
            continue;
        }
        sum_of_two(block, parts[0] + at, parts[1] + at, m);
        for (size_t p = 2; p < n_parts; p++)
            sum_of_two(block, block, parts[p] + at, m);
        memcpy(out + at, block, m * sizeof *out);
    }
}
ISA_VARIANTS(sum, (float *out, const float *const *parts, size_t n_parts, size_t n), sum_of(out, parts, n_parts, n))

void sum_floats(float *out, const float *const *parts, size_t n_parts, size_t n)
{
    ISA_PICK(sum)(out, parts, n_parts, n);
}
