/* Segments of comet/ranks.h, and the ranks that tests use in place of MPI. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "fake_ranks.h"
#include "testing.h"

static void segments_cover_all_floats_evenly(void **state)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 100, 1024, 100003};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (uint32_t n_ranks = 1; n_ranks <= 7; n_ranks++) {
            size_t end = 0, least = SIZE_MAX, most = 0;
            for (uint32_t rank = 0; rank < n_ranks; rank++) {
                size_t first, count;
                comet_ranks_segment(sizes[i], n_ranks, rank, &first, &count);
                assert_int_equal(first, end);
                assert_true(first % COMET_RANKS_ALIGNMENT == 0 || count == 0);
                end = first + count;
                least = count < least ? count : least;
                most = count > most ? count : most;
            }
            assert_int_equal(end, sizes[i]);
            assert_true(most - least <= 2 * COMET_RANKS_ALIGNMENT);
        }
}

/* The number of rank r at place i. */
static double number_of(uint32_t r, size_t i)
{
    return 1000.0 * (r + 1) + (double)i;
}

static double sum_of_ranks(uint32_t n_ranks, size_t i)
{
    double sum = 0;
    for (uint32_t r = 0; r < n_ranks; r++)
        sum += number_of(r, i);
    return sum;
}

enum { N_NUMBERS = 20000 }; /* more than a socket holds */

static comet_status call_together(const comet_ranks *r, void *arg, void *result)
{
    double *values = need_malloc(N_NUMBERS * sizeof *values);
    for (size_t i = 0; i < N_NUMBERS; i++)
        values[i] = number_of(r->rank, i);
    TRY(r->sum(r->self, values, N_NUMBERS));
    for (size_t i = 0; i < N_NUMBERS; i++)
        assert_true(values[i] == sum_of_ranks(r->n_ranks, i));
    values[0] = number_of(r->rank, 5);
    TRY(r->broadcast(r->self, values, sizeof *values));
    assert_true(values[0] == number_of(0, 5));
    *(double *)result = values[1];
    free(values);
    return COMET_OK;
}

static void ranks_sum_and_broadcast(void **state)
{
    for (uint32_t n = 1; n <= 4; n++) {
        double results[4];
        fake_ranks_run(n, call_together, NULL, sizeof *results, results, NULL);
        for (uint32_t r = 0; r < n; r++)
            assert_true(results[r] == sum_of_ranks(n, 1));
    }
}

/* Each sends to the next, the last to the first. */
static comet_status pass_on(const comet_ranks *r, void *arg, void *result)
{
    static uint8_t bytes[300000];
    const uint32_t next = (r->rank + 1) % r->n_ranks, previous = (r->rank + r->n_ranks - 1) % r->n_ranks;
    memset(bytes, r->rank == 0 ? 7 : 0, sizeof bytes);
    if (r->rank > 0)
        TRY(r->receive(r->self, previous, bytes, sizeof bytes));
    bytes[r->rank]++;
    TRY(r->send(r->self, next, bytes, sizeof bytes));
    if (r->rank == 0)
        TRY(r->receive(r->self, previous, bytes, sizeof bytes));
    memcpy(result, bytes, 8);
    return COMET_OK;
}

static void ranks_send_and_receive(void **state)
{
    uint8_t results[3][8];
    fake_ranks_run(3, pass_on, NULL, sizeof *results, results, NULL);
    for (int i = 0; i < 8; i++)
        assert_int_equal(results[0][i], i < 3 ? 8 : 7);
}

/* What float i of a reduction is when it has ended; false where it is undefined. */
static bool reduced(const comet_ranks *r, comet_reduction kind, size_t n, size_t i, float *expected)
{
    for (uint32_t owner = 0; owner < r->n_ranks; owner++) {
        size_t first, count;
        comet_ranks_segment(n, r->n_ranks, owner, &first, &count);
        if (i >= first && i < first + count) {
            *expected = (float)(kind == COMET_REDUCE_GATHER ? number_of(owner, i) : sum_of_ranks(r->n_ranks, i));
            return kind != COMET_REDUCE_SEGMENT || owner == r->rank;
        }
    }
    return false;
}

/* Two of each kind under way at once. They end in an order that differs between ranks. */
static comet_status reduce(const comet_ranks *r, void *arg, void *result)
{
    enum { N = 1003, N_REDUCTIONS = 8, N_KINDS = 4 };
    static float data[N_REDUCTIONS][N];
    uint32_t numbers[N_REDUCTIONS];
    for (uint32_t k = 0; k < N_REDUCTIONS; k++) {
        for (size_t i = 0; i < N; i++)
            data[k][i] = (float)number_of(r->rank, i);
        TRY(r->reduce_begin(r->self, (comet_reduction)(k % N_KINDS), k, data[k], N, &numbers[k]));
        assert_true(isnan(data[k][N - 1]));
    }
    for (uint32_t j = 0; j < N_REDUCTIONS; j++) {
        const uint32_t k = (j * 3 + r->rank) % N_REDUCTIONS;
        float expected;
        while (!r->reduce_is_done(r->self, numbers[k])) {
        }
        TRY(r->reduce_end(r->self, numbers[k]));
        for (size_t i = 0; i < N; i++)
            if (reduced(r, (comet_reduction)(k % N_KINDS), N, i, &expected))
                assert_true(data[k][i] == expected);
    }
    assert_int_equal(r->reduce_end(r->self, numbers[0]), COMET_ERROR_ARGUMENT);
    comet_ranks_figures figures = {.size = sizeof figures};
    TRY(r->describe(r->self, &figures));
    assert_int_equal(figures.bytes_sent, figures.bytes_plain);
    *(uint64_t *)result = figures.bytes_sent;
    return COMET_OK;
}

static void ranks_reduce(void **state)
{
    uint64_t results[4];
    for (uint32_t n = 1; n <= 4; n++) {
        fake_ranks_run(n, reduce, NULL, sizeof *results, results, NULL);
        assert_true(n == 1 ? results[0] == 0 : results[0] > 0);
    }
}

static comet_status differ(const comet_ranks *r, void *arg, void *result)
{
    float data[4] = {0};
    uint32_t number;
    return r->reduce_begin(r->self, COMET_REDUCE_ALL, r->rank == 2 ? 5 : 4, data, 4, &number);
}

static comet_status leave(const comet_ranks *r, void *arg, void *result)
{
    double value = 1;
    return r->rank == 1 ? COMET_OK : r->sum(r->self, &value, 1);
}

static void ranks_that_differ_or_leave_fail(void **state)
{
    comet_status statuses[3];
    fake_ranks_run(3, differ, NULL, 0, NULL, statuses);
    assert_int_equal(statuses[0], COMET_ERROR_ARGUMENT);
    assert_int_equal(statuses[2], COMET_ERROR_ARGUMENT);
    fake_ranks_run(3, leave, NULL, 0, NULL, statuses);
    assert_int_equal(statuses[0], COMET_ERROR_IO);
    assert_int_equal(statuses[1], COMET_OK);
    assert_int_equal(statuses[2], COMET_ERROR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_cover_all_floats_evenly), cmocka_unit_test(ranks_sum_and_broadcast),
        cmocka_unit_test(ranks_send_and_receive),           cmocka_unit_test(ranks_reduce),
        cmocka_unit_test(ranks_that_differ_or_leave_fail),
    };
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
