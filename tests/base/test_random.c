/* Random numbers: the bits of Philox, streams that differ, and the statistics of what is drawn. */
#include "testing.h"

#include <math.h>

#include "base/random.h"

/* Known answers of the authors' own implementation (Random123, kat_vectors): counter 0 and key 0; all ones; digits of pi. */
static void test_known_blocks(void **state)
{
    static const struct {
        uint64_t seed, high, index; /* key; upper and lower half of the counter */
        uint32_t block[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        uint32_t block[4];
        const uint64_t part = known[i].high ^ (uint64_t)COMET_STREAM_DROPOUT << 56;
        comet_random_block(known[i].seed, COMET_STREAM_DROPOUT, part, known[i].index, block);
        assert_memory_equal(block, known[i].block, sizeof block);
    }
}

/* A sequence has the numbers of its blocks, last first, from index first << 32 on. */
static void test_sequence(void **state)
{
    comet_random r = comet_random_start(77, COMET_STREAM_ORDER, 5, 3);
    for (uint64_t index = (uint64_t)3 << 32; index < ((uint64_t)3 << 32) + 5; index++) {
        uint32_t block[4];
        comet_random_block(77, COMET_STREAM_ORDER, 5, index, block);
        for (int i = 3; i >= 0; i--)
            assert_int_equal(comet_random_u32(&r), block[i]);
    }
}

/* Seed, stream, part and index: each changes the block. */
static void test_blocks_differ(void **state)
{
    uint32_t blocks[6][4];
    comet_random_block(1, COMET_STREAM_INIT, 1, 1, blocks[0]);
    comet_random_block(2, COMET_STREAM_INIT, 1, 1, blocks[1]);
    comet_random_block(1, COMET_STREAM_SPLIT, 1, 1, blocks[2]);
    comet_random_block(1, COMET_STREAM_INIT, 2, 1, blocks[3]);
    comet_random_block(1, COMET_STREAM_INIT, 1, 2, blocks[4]);
    comet_random_block(1, COMET_STREAM_INIT, 1, (uint64_t)1 << 32, blocks[5]);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        for (size_t k = 0; k < i; k++)
            for (int j = 0; j < 4; j++)
                assert_true(blocks[i][j] != blocks[k][j]);
}

typedef struct moments {
    double mean, variance, skew, kurtosis;
} moments;

static moments moments_of(double (*draw)(comet_random *), int n, double centre)
{
    comet_random r = comet_random_start(4, COMET_STREAM_SYNTHETIC, 0, 0);
    double sums[4] = {0};
    for (int i = 0; i < n; i++) {
        const double d = draw(&r) - centre;
        for (int k = 0; k < 4; k++)
            sums[k] += pow(d, k + 1) / n;
    }
    return (moments){sums[0], sums[1], sums[2], sums[3]};
}

/* Within five standard errors or so of what they should be. */
static void test_moments(void **state)
{
    enum { N = 400000 };
    const moments uniform = moments_of(comet_random_uniform, N, 0.5), normal = moments_of(comet_random_normal, N, 0);
    assert_near(uniform.mean, 0, 0.0025);
    assert_near(uniform.variance, 1.0 / 12, 0.0006);
    assert_near(uniform.kurtosis, 1.0 / 80, 0.0002);
    assert_near(normal.mean, 0, 0.008);
    assert_near(normal.variance, 1, 0.012);
    assert_near(normal.skew, 0, 0.035);
    assert_near(normal.kurtosis, 3, 0.09);
}

/* Both numbers of a pair are normal, and neither depends on the other. */
static void test_pairs(void **state)
{
    enum { N = 200000 };
    comet_random r = comet_random_start(5, COMET_STREAM_SYNTHETIC, 0, 0);
    double first = 0, second = 0, product = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        const double a = comet_random_normal(&r), b = comet_random_normal(&r);
        first += a * a / N;
        second += b * b / N;
        product += a * b / N;
        squares += (a * a - 1) * (b * b - 1) / N;
    }
    assert_near(first, 1, 0.016);
    assert_near(second, 1, 0.016);
    assert_near(product, 0, 0.012);
    assert_near(squares, 0, 0.025);
}

static void test_uniform_has_53_bits(void **state)
{
    comet_random r = comet_random_start(6, COMET_STREAM_SYNTHETIC, 0, 0);
    uint64_t seen = 0;
    for (int i = 0; i < 1000; i++) {
        const double u = comet_random_uniform(&r);
        assert_true(u >= 0 && u < 1);
        seen |= (uint64_t)(u * 0x1p53);
    }
    assert_true(seen == ((uint64_t)1 << 53) - 1);
}

/* Every number below n equally often; also where n does not divide 2^64, by far: there the upper numbers would come half as
 * often without the draws that are repeated. */
static void test_below(void **state)
{
    enum { N = 70000 };
    comet_random r = comet_random_start(7, COMET_STREAM_SYNTHETIC, 0, 0);
    int counts[7] = {0}, low = 0;
    for (int i = 0; i < N; i++)
        counts[comet_random_below(&r, 7)]++;
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        assert_within(counts[i], 9500, 10500);
    const uint64_t n = (uint64_t)3 << 62; /* three quarters of all */
    for (int i = 0; i < N; i++) {
        const uint64_t v = comet_random_below(&r, n);
        assert_true(v < n);
        low += v < n / 3;
    }
    assert_within((double)low / N, 0.32, 0.347);
    assert_int_equal(comet_random_below(&r, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_blocks), cmocka_unit_test(test_sequence), cmocka_unit_test(test_blocks_differ),
        cmocka_unit_test(test_moments),      cmocka_unit_test(test_pairs),    cmocka_unit_test(test_uniform_has_53_bits),
        cmocka_unit_test(test_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
