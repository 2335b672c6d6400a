/* Reductions, sums, broadcasts and messages between ranks that are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "team_of_ranks.h"

static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 131072, 300007};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_MOST = 300007 };

/* Sums of these depend on the order of additions. */
static float value_of(uint32_t rank, size_t i)
{
    const uint32_t mixed = (uint32_t)i * 2654435761u ^ (rank + 1) * 40503u;
    return ((float)(mixed >> 8) / 8388608.0f - 1) * (i % 7 == 0 ? 1000.0f : 0.001f);
}

static float sum_of(uint32_t n_ranks, size_t i)
{
    float sum = value_of(0, i);
    for (uint32_t r = 1; r < n_ranks; r++)
        sum += value_of(r, i);
    return sum;
}

static void fill(const comet_ranks *ranks, float *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        data[i] = value_of(ranks->rank, i);
}

static void reduce(comet_ranks *ranks, comet_reduction kind, uint64_t key, float *data, size_t n)
{
    uint32_t number;
    assert_int_equal(ranks->reduce_begin(ranks->self, kind, key, data, n, &number), COMET_OK);
    assert_int_equal(ranks->reduce_end(ranks->self, number), COMET_OK);
    assert_true(ranks->reduce_is_done(ranks->self, number));
}

/* In the order of the ranks, in one step and in two, of which the first leaves the sum in the rank's own segment. */
static void reduce_sizes(comet_ranks *ranks, void *arg)
{
    float *data = malloc(N_MOST * sizeof *data);
    (void)arg;
    for (size_t s = 0; s < N_SIZES; s++) {
        size_t first, count;
        fill(ranks, data, sizes[s]);
        reduce(ranks, COMET_REDUCE_ALL, s, data, sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++)
            assert_true(data[i] == sum_of(ranks->n_ranks, i));
        fill(ranks, data, sizes[s]);
        reduce(ranks, COMET_REDUCE_SEGMENT, s, data, sizes[s]);
        comet_ranks_segment(sizes[s], ranks->n_ranks, ranks->rank, &first, &count);
        for (size_t i = first; i < first + count; i++)
            assert_true(data[i] == sum_of(ranks->n_ranks, i));
        reduce(ranks, COMET_REDUCE_GATHER, s, data, sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++)
            assert_true(data[i] == sum_of(ranks->n_ranks, i));
    }
    free(data);
}

static void test_order_of_ranks(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MOST_RANKS; n++) {
        for (uint32_t shuffle = 0; shuffle < 3; shuffle++) {
            team_of_ranks team;
            team_init(&team, n, reduce_sizes, NULL);
            team.shuffle = shuffle;
            team_of_ranks_run(&team);
        }
    }
}

typedef struct hashes {
    uint64_t of[MOST_RANKS];
    comet_ranks_figures figures[MOST_RANKS];
    double error; /* rank 0: the largest of the last step, over the largest value */
} hashes;

/* Three steps of many reductions at once, so that what coding left over takes part. */
static void reduce_many(comet_ranks *ranks, void *arg)
{
    enum { N = 30, EACH = 5000, N_STEPS = 3 };
    hashes *h = arg;
    static const size_t all = (size_t)N * EACH;
    uint32_t numbers[N];
    float *data = malloc(all * sizeof *data);
    h->of[ranks->rank] = 0;
    for (int step = 0; step < N_STEPS; step++) {
        fill(ranks, data, all);
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(ranks->reduce_begin(ranks->self, COMET_REDUCE_ALL, i, data + (size_t)i * EACH, EACH, &numbers[i]),
                             COMET_OK);
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(ranks->reduce_end(ranks->self, numbers[i]), COMET_OK);
        h->of[ranks->rank] = h->of[ranks->rank] * 31 + comet_checksum(data, all * sizeof *data);
    }
    h->figures[ranks->rank].size = sizeof h->figures[0];
    assert_int_equal(ranks->describe(ranks->self, &h->figures[ranks->rank]), COMET_OK);
    for (size_t i = 0; i < all && ranks->rank == 0; i++) {
        const double off = (double)data[i] - sum_of(ranks->n_ranks, i);
        h->error = off > h->error ? off : -off > h->error ? -off : h->error;
    }
    free(data);
}

static hashes hash_with(uint32_t n_ranks, uint32_t shuffle, comet_wire wire)
{
    hashes h = {.error = 0};
    team_of_ranks team;
    team_init(&team, n_ranks, reduce_many, &h);
    team.shuffle = shuffle;
    team.params.wire = wire;
    team_of_ranks_run(&team);
    for (uint32_t r = 1; r < n_ranks; r++)
        assert_true(h.of[r] == h.of[0]);
    return h;
}

static void test_bits_and_wires(void **state)
{
    (void)state;
    static const double most_error[] = {0, 24, 700, 700}, most_bytes[] = {1, 0.5, 0.4, 0.6};
    for (int wire = COMET_WIRE_F32; wire <= COMET_WIRE_CODED_FAST; wire++) {
        for (uint32_t n = 2; n <= MOST_RANKS; n += 3) {
            const hashes first = hash_with(n, 0, (comet_wire)wire);
            for (uint32_t shuffle = 1; shuffle < 4; shuffle++)
                assert_true(hash_with(n, shuffle, (comet_wire)wire).of[0] == first.of[0]);
            const comet_ranks_figures *f = &first.figures[0];
            assert_true(first.error <= most_error[wire]);
            assert_true(f->bytes_plain > 0 && (double)f->bytes_sent <= most_bytes[wire] * (double)f->bytes_plain);
            assert_true(wire == COMET_WIRE_F32 || first.error > 0);
        }
    }
}

/* With error feedback the mean over steps approaches the sum; each step alone is off by far more. */
static void feed_back(comet_ranks *ranks, void *arg)
{
    enum { N = 20000, N_STEPS = 50 };
    float *data = malloc(N * sizeof *data);
    double *mean = calloc(N, sizeof *mean), one = 0, all = 0;
    (void)arg;
    for (int step = 0; step < N_STEPS; step++) {
        fill(ranks, data, N);
        reduce(ranks, COMET_REDUCE_ALL, 7, data, N);
        for (size_t i = 0; i < N; i++)
            mean[i] += data[i] / (double)N_STEPS;
    }
    for (size_t i = 0; i < N; i++) {
        const double wanted = sum_of(ranks->n_ranks, i);
        one += (data[i] - wanted) * (data[i] - wanted);
        all += (mean[i] - wanted) * (mean[i] - wanted);
    }
    assert_true(one > 0 && all < one / 100);
    free(data);
    free(mean);
}

static void test_feedback(void **state)
{
    (void)state;
    team_of_ranks team;
    team_init(&team, 3, feed_back, NULL);
    team.params.wire = COMET_WIRE_CODED;
    team_of_ranks_run(&team);
}

static void exchange_all(comet_ranks *ranks, void *arg)
{
    enum { N = 20000 };
    (void)arg;
    double *values = malloc(N * sizeof *values);
    for (size_t i = 0; i < N; i++)
        values[i] = value_of(ranks->rank, i);
    assert_int_equal(ranks->sum(ranks->self, values, N), COMET_OK);
    for (size_t i = 0; i < N; i++) {
        double sum = value_of(0, i);
        for (uint32_t r = 1; r < ranks->n_ranks; r++)
            sum += value_of(r, i);
        assert_true(values[i] == sum);
    }
    memset(values, (int)ranks->rank + 1, N * sizeof *values);
    assert_int_equal(ranks->broadcast(ranks->self, values, N * sizeof *values), COMET_OK);
    assert_int_equal(((unsigned char *)values)[N * sizeof *values - 1], 1);
    for (uint32_t r = 1; r < ranks->n_ranks; r++) {
        if (ranks->rank == r)
            assert_int_equal(ranks->send(ranks->self, 0, &r, sizeof r), COMET_OK);
        uint32_t came = 0;
        if (ranks->rank == 0)
            assert_int_equal(ranks->receive(ranks->self, r, &came, sizeof came), COMET_OK);
        assert_true(ranks->rank != 0 || came == r);
    }
    assert_int_equal(ranks->send(ranks->self, ranks->rank, values, 1), COMET_ERROR_ARGUMENT);
    assert_int_equal(ranks->send(ranks->self, ranks->n_ranks, values, 1), COMET_ERROR_ARGUMENT);
    free(values);
}

static void test_exchanges(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MOST_RANKS; n++) {
        team_of_ranks team;
        team_init(&team, n, exchange_all, NULL);
        team.shuffle = n;
        team_of_ranks_run(&team);
    }
}

static void begin_too_many(comet_ranks *ranks, void *arg)
{
    float data[COMET_RANKS_MAX_REDUCTIONS] = {0};
    uint32_t number;
    (void)arg;
    for (uint32_t i = 0; i < COMET_RANKS_MAX_REDUCTIONS; i++)
        assert_int_equal(ranks->reduce_begin(ranks->self, COMET_REDUCE_ALL, i, data + i, 1, &number), COMET_OK);
    assert_int_equal(ranks->reduce_begin(ranks->self, COMET_REDUCE_ALL, 0, data, 1, &number), COMET_ERROR_ARGUMENT);
    assert_int_equal(ranks->reduce_end(ranks->self, number + 1), COMET_ERROR_ARGUMENT);
    for (uint32_t i = COMET_RANKS_MAX_REDUCTIONS; i-- > 0;) /* in any order */
        assert_int_equal(ranks->reduce_end(ranks->self, i), COMET_OK);
    assert_int_equal(ranks->reduce_end(ranks->self, number), COMET_ERROR_ARGUMENT);
}

static void test_limits(void **state)
{
    (void)state;
    team_of_ranks team;
    team_init(&team, 2, begin_too_many, NULL);
    team_of_ranks_run(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_of_ranks), cmocka_unit_test(test_bits_and_wires),
                                       cmocka_unit_test(test_feedback), cmocka_unit_test(test_exchanges),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
