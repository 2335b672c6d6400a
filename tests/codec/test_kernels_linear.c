/* Kernels of the linear fit against the reference, bit for bit, and whole chunks with their planes subtracted and added back.
 */
#include "kernels_testing.h"

#include <stdlib.h>

#include "codec/linear.h"

enum { MOST_CHANNELS = 70, MOST_LINE = MOST_CHANNELS * 40 };

/* Tiles of neighbouring channels whose last element is the last one before the guard. */
typedef struct linear_case {
    enum code_width width;
    linear_grid grid;
    size_t n, elements, bytes;
    linear_plane planes[MOST_CHANNELS];
} linear_case;

static int16_t any_slope(test_rng *r)
{
    return (int16_t)((int16_t)rng_next(r) >> rng_below(r, 16));
}

/* Planes as they are fitted to 16-bit codes, or any. */
static linear_case linear_case_of(test_rng *r, bool fitted)
{
    linear_case c = {.width = (enum code_width)rng_below(r, 2)};
    const size_t channels = rng_chance(r, 3) ? 1 : 1 + rng_below(r, MOST_CHANNELS), columns = 16 + rng_below(r, 24);
    c.n = channels == 1 ? 1 : 1 + rng_below(r, channels);
    c.grid = (linear_grid){.rows = 1 + rng_below(r, LINEAR_TILE),
                           .columns = rng_chance(r, 2) ? LINEAR_TILE : 1 + rng_below(r, LINEAR_TILE),
                           .line = channels * columns,
                           .step = channels};
    c.elements = (c.grid.rows - 1) * c.grid.line + (c.grid.columns - 1) * c.grid.step + c.n;
    c.bytes = c.elements * code_bytes(c.width);
    for (size_t i = 0; i < c.n; i++)
        c.planes[i] =
            (linear_plane){(int32_t)(uint32_t)rng_next(r) >> (fitted ? 9 + rng_below(r, 20) : 0), any_slope(r), any_slope(r)};
    return c;
}

/* Codes in range. */
static void fill_in_range(test_rng *r, enum code_width width, size_t n, void *codes)
{
    const int64_t limit = width == CODES16 ? CODE16_LIMIT : CODE32_LIMIT;
    const unsigned shift = (unsigned)rng_below(r, 14);
    for (size_t i = 0; i < n; i++) {
        int64_t v = ((int64_t)(rng_next(r) % (uint64_t)(2 * limit + 1)) - limit) >> shift;
        v = v < -limit ? -limit : v;
        if (width == CODES16)
            ((int16_t *)codes)[i] = (int16_t)v;
        else
            ((int32_t *)codes)[i] = (int32_t)v;
    }
}

static void check_sums(const linear_case *c, const void *codes)
{
    linear_sums sums[MOST_CHANNELS], ref[MOST_CHANNELS];
    reference->linear_sums[c->width](&c->grid, codes, c->n, ref);
    FOR_EACH_FAMILY(k)
    {
        k->linear_sums[c->width](&c->grid, codes, c->n, sums);
        if (memcmp(sums, ref, c->n * sizeof *sums) != 0)
            fail_because("sums of family %s differ (%zu x %zu, %zu channels)", comet_isa_name(k->isa), c->grid.rows,
                         c->grid.columns, c->n);
    }
}

static void test_sums(void **state)
{
    test_rng r = {81};
    for (int i = 0; i < 3000; i++) {
        linear_case c = linear_case_of(&r, true);
        uint8_t *codes = guarded_tail(&input, c.bytes);
        fill_in_range(&r, c.width, c.elements, codes);
        check_sums(&c, codes);
    }
}

static void test_subtract(void **state)
{
    test_rng r = {82};
    int n_fit = 0;
    for (int i = 0; i < 3000; i++) {
        linear_case c = linear_case_of(&r, true);
        uint8_t *codes = guarded_tail(&input, c.bytes), *out, *ref;
        fill_in_range(&r, c.width, c.elements, codes);
        FOR_EACH_FAMILY(k)
        {
            outputs_of(c.bytes, &out, &ref);
            memcpy(out, codes, c.bytes);
            memcpy(ref, codes, c.bytes);
            const bool fits = k->linear_subtract[c.width](&c.grid, c.planes, c.n, out);
            assert_true(fits == reference->linear_subtract[c.width](&c.grid, c.planes, c.n, ref));
            check_outputs(out, ref, c.bytes, k, "linear_subtract", c.n);
            n_fit += fits;
        }
    }
    assert_true(n_fit > 100);
}

/* Damaged frames have any codes and any planes. */
static void test_add(void **state)
{
    test_rng r = {83};
    for (int i = 0; i < 3000; i++) {
        linear_case c = linear_case_of(&r, false);
        uint8_t *codes = guarded_tail(&input, c.bytes), *out, *ref;
        fill_codes(&r, c.width, c.elements, codes);
        FOR_EACH_FAMILY(k)
        {
            outputs_of(c.bytes, &out, &ref);
            memcpy(out, codes, c.bytes);
            memcpy(ref, codes, c.bytes);
            k->linear_add[c.width](&c.grid, c.planes, c.n, out);
            reference->linear_add[c.width](&c.grid, c.planes, c.n, ref);
            check_outputs(out, ref, c.bytes, k, "linear_add", c.n);
        }
    }
}

/* ---- whole chunks ---- */

/* Codes near the limit, alternating, leave it with a plane: then nothing may have changed. */
static void fill_chunk(test_rng *r, size_t n, int16_t *codes)
{
    fill_in_range(r, CODES16, n, codes);
    if (rng_chance(r, 3))
        for (size_t i = n / 2; i < n; i++)
            codes[i] = rng_chance(r, 2) ? CODE16_LIMIT : -CODE16_LIMIT;
}

/* Chunks of any length, so that lines are cut anywhere. */
static void test_chunks(void **state)
{
    static int16_t codes[16 * MOST_LINE], ref_codes[16 * MOST_LINE], original[16 * MOST_LINE];
    test_rng r = {84};
    int n_refused = 0;
    for (int i = 0; i < 300; i++) {
        linear_shape s = {.channels = 1 + rng_below(&r, MOST_CHANNELS), .columns = 1 + rng_below(&r, 40)};
        s.n = 1 + rng_below(&r, 16 * s.channels * s.columns);
        const size_t bytes = s.n * sizeof *codes, plane_bytes = linear_n_tiles(&s) * LINEAR_BYTES;
        uint8_t *planes = malloc(plane_bytes), *ref_planes = malloc(plane_bytes);
        fill_chunk(&r, s.n, original);
        memcpy(ref_codes, original, bytes);
        const bool ref = linear_encode(reference, CODES16, &s, ref_codes, ref_planes);
        n_refused += !ref;
        FOR_EACH_FAMILY(k)
        {
            memcpy(codes, original, bytes);
            assert_true(linear_encode(k, CODES16, &s, codes, planes) == ref);
            assert_memory_equal(codes, ref ? ref_codes : original, bytes);
            if (!ref)
                continue;
            assert_memory_equal(planes, ref_planes, plane_bytes);
            linear_decode(k, CODES16, &s, planes, codes);
            assert_memory_equal(codes, original, bytes);
        }
        free(planes);
        free(ref_planes);
    }
    assert_true(n_refused > 10 && n_refused < 290);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_subtract),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_chunks),
    };
    return cmocka_run_group_tests_name("kernels: linear", tests, make_room, free_room);
}
