/* Plans of the arena: buffers that meet never overlap, and what others hold is planned around. */
#include <stdlib.h>

#include "base/random.h"
#include "testing.h"
#include "train/graph/arena.h"

enum { N_MOMENTS = 60 };

static uint64_t least_possible(const arena *a, const uint64_t *others)
{
    uint64_t most = 0;
    for (uint32_t moment = 0; moment < N_MOMENTS; moment++) {
        uint64_t bytes = others[moment];
        for (uint32_t i = 0; i < a->n_buffers; i++)
            if (a->buffers[i].first <= moment && moment <= a->buffers[i].last)
                bytes += a->buffers[i].bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static uint64_t most_of(const arena *a, const uint64_t *others)
{
    uint64_t most = 0;
    for (uint32_t moment = 0; moment < N_MOMENTS; moment++) {
        const uint64_t bytes = arena_height(a, moment, moment) + others[moment];
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void assert_apart(const arena *a)
{
    for (uint32_t i = 0; i < a->n_buffers; i++)
        for (uint32_t j = 0; j < i; j++) {
            const arena_buffer *x = &a->buffers[i], *y = &a->buffers[j];
            if (x->first <= y->last && y->first <= x->last)
                assert_true(x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset);
            assert_true(x->offset + x->bytes <= a->bytes);
        }
}

static void test_plans(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        comet_random r = comet_random_start(seed, COMET_STREAM_SYNTHETIC, 0, 0);
        arena a = {0};
        uint64_t others[N_MOMENTS];
        for (uint32_t moment = 0; moment < N_MOMENTS; moment++) /* as coded tensors do: up, then down */
            others[moment] = 4096 * (uint64_t)(moment < N_MOMENTS / 2 ? moment : N_MOMENTS - moment);
        for (int i = 0; i < 120; i++) {
            buffer_id id;
            const uint32_t first = (uint32_t)(comet_random_uniform(&r) * N_MOMENTS);
            const uint32_t length = (uint32_t)(comet_random_uniform(&r) * 5);
            assert_int_equal(arena_declare(&a, 1 + (uint64_t)(comet_random_uniform(&r) * 200000), first, &id), COMET_OK);
            arena_extend(&a, id, first + length < N_MOMENTS ? first + length : N_MOMENTS - 1);
        }
        assert_int_equal(arena_plan(&a, &(arena_others){others, N_MOMENTS}), COMET_OK);
        assert_apart(&a);
        const double times = (double)most_of(&a, others) / (double)least_possible(&a, others);
        worst = times > worst ? times : worst;
        arena_free(&a);
    }
    print_message("plans take up to %.3f of what none can do without\n", worst);
    assert_true(worst >= 1 && worst < 1.2);
}

/* A large buffer that lives while others hold little goes above a small one that lives while they hold much. */
static void test_plans_around_others(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20, others[4] = {0, 0, 100 * mib, 100 * mib};
    arena a = {0};
    buffer_id large, lasting, late;
    assert_int_equal(arena_declare(&a, 80 * mib, 0, &large), COMET_OK);
    assert_int_equal(arena_declare(&a, 40 * mib, 1, &lasting), COMET_OK);
    arena_extend(&a, large, 1);
    arena_extend(&a, lasting, 2);
    assert_int_equal(arena_declare(&a, 10 * mib, 3, &late), COMET_OK);
    assert_int_equal(arena_plan(&a, &(arena_others){others, 4}), COMET_OK);
    assert_apart(&a);
    assert_int_equal(arena_height(&a, 2, 2), 40 * mib);
    assert_int_equal(arena_height(&a, 3, 3), 10 * mib);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans), cmocka_unit_test(test_plans_around_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
