/* See kernels_testing.h. */
#include "kernels_testing.h"

#include <math.h>

#include "base/convert.h"

guarded input, output, expected;

/* The cap that COMET_MAX_ISA sets. */
static comet_isa cap;

bool usable(const codec_kernels *k)
{
    return k->isa <= cap;
}

int make_room(void **state)
{
    cap = comet_isa_active();
    input = guarded_make(ROOM);
    output = guarded_make(ROOM);
    expected = guarded_make(ROOM);
    return 0;
}

int free_room(void **state)
{
    guarded_free(&input);
    guarded_free(&output);
    guarded_free(&expected);
    return 0;
}

void outputs_of(size_t bytes, uint8_t **a, uint8_t **b)
{
    *a = guarded_tail(&output, bytes);
    *b = guarded_tail(&expected, bytes);
    memset(*a - 64, 0xa5, bytes + 64);
    memset(*b - 64, 0xa5, bytes + 64);
}

void check_outputs(const uint8_t *a, const uint8_t *b, size_t bytes, const codec_kernels *k, const char *what, size_t n)
{
    if (memcmp(a, b, bytes) == 0 && memcmp(a - 64, b - 64, 64) == 0)
        return;
    size_t at = 0;
    while (at < bytes && a[at] == b[at])
        at++;
    fail_because("%s of family %s differs from the reference at byte %zu of %zu (n %zu)", what, comet_isa_name(k->isa), at,
                 bytes, n);
}

quantise_case quantise_case_of(test_rng *r, size_t n)
{
    quantise_case c = {.dtype = (comet_dtype)rng_below(r, N_DTYPES), .width = (enum code_width)rng_below(r, 2), .n = n};
    c.first = (uint32_t)(rng_below(r, 4096) * QUANT_TILE);
    double eb = ldexp(1 + rng_unit(r), (int)rng_below(r, 24) - 16);
    if (rng_chance(r, 8)) /* at the ends of the type's range */
        eb = c.dtype == COMET_DTYPE_F64 ? ldexp(1, (int)rng_below(r, 2000) - 1000) : ldexp(1, (int)rng_below(r, 240) - 120);
    if (!quantiser_make(c.dtype, eb, (enum quantiser_mode)rng_below(r, QUANTISE_DITHER + 1), &c.q))
        quantiser_make(c.dtype, 0.01, c.q.mode, &c.q);
    c.q.key = (uint32_t)rng_next(r);
    return c;
}

bool all_finite(comet_dtype dtype, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = dtype == COMET_DTYPE_F64   ? ((const double *)x)[i]
                   : dtype == COMET_DTYPE_F32 ? (double)((const float *)x)[i]
                   : dtype == COMET_DTYPE_F16 ? (double)float_of_f16(((const uint16_t *)x)[i])
                                              : (double)float_of_bf16(((const uint16_t *)x)[i]);
        if (!isfinite(v))
            return false;
    }
    return true;
}

void check_moments(const moments *a, const moments *b, const codec_kernels *k)
{
    if (memcmp(a->sum_of_squares, b->sum_of_squares, sizeof a->sum_of_squares) != 0)
        fail_because("sums of squares of family %s differ", comet_isa_name(k->isa));
    if (a->min != b->min || a->max != b->max || a->n_nonzero != b->n_nonzero)
        fail_because("moments of family %s differ: min %g %g, max %g %g, non-zero %llu %llu", comet_isa_name(k->isa), a->min,
                     b->min, a->max, b->max, (unsigned long long)a->n_nonzero, (unsigned long long)b->n_nonzero);
}

void fill_codes(test_rng *r, enum code_width width, size_t n, void *codes)
{
    unsigned shift = (unsigned)rng_below(r, 16);
    bool wild = rng_chance(r, 4);
    for (size_t i = 0; i < n; i++) {
        int64_t limit = width == CODES16 ? CODE16_LIMIT : CODE32_LIMIT;
        int64_t v = (int64_t)(rng_next(r) % (uint64_t)(2 * limit + 1)) - limit;
        v = wild ? (int64_t)rng_next(r) : v >> shift;
        if (width == CODES16)
            ((int16_t *)codes)[i] = (int16_t)v;
        else
            ((int32_t *)codes)[i] = (int32_t)v;
    }
}

size_t readable_codes(size_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK + BLOCK;
}

void fill_residuals(test_rng *r, enum code_width width, size_t n, void *z)
{
    size_t bytes = code_bytes(width);
    for (size_t i = 0; i < n; i += BLOCK) { /* blocks of every width and share of zeros */
        unsigned bits = (unsigned)rng_below(r, 8 * bytes + 1), sparse = (unsigned)rng_below(r, 20);
        for (size_t k = i; k < n && k < i + BLOCK; k++) {
            uint64_t v = bits ? rng_next(r) >> (64 - bits) : 0;
            v = sparse > 10 && rng_below(r, sparse - 9) ? 0 : v;
            memcpy((uint8_t *)z + k * bytes, &v, bytes);
        }
    }
}

strides random_strides(test_rng *r)
{
    static const size_t lefts[] = {1, 2, 3, 5, 8, 13, 16, 24, 64, 100},
                        columns[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 56, 64, 100};
    strides s = {.left = lefts[rng_below(r, COUNT_OF(lefts))]};
    s.up = s.left * columns[rng_below(r, COUNT_OF(columns))];
    return s;
}
