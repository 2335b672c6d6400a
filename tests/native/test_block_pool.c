/* The pool of blocks: contents survive whatever is freed around them, neighbours merge, memory goes back to the system. */
#include "block_pool.h"
#include "huge_pages.h"

#include <pthread.h>
#include <stdlib.h>

#include "testing.h"

enum { SEED = 5, TAG_BYTES = 64 };
#define SEGMENT_BYTES ((size_t)4 << 20)

static block_pool *create(void)
{
    block_pool *pool = NULL;
    assert_int_equal(block_pool_create(&pool), COMET_OK);
    return pool;
}

static void *alloc(block_pool *pool, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(block_pool_alloc(pool, bytes, &memory), COMET_OK);
    assert_int_equal((uintptr_t)memory % 64, 0);
    assert_true(block_pool_bytes_of(memory) >= bytes + TAG_BYTES);
    return memory;
}

static void assert_empty(block_pool *pool)
{
    const block_pool_figures f = block_pool_memory(pool);
    assert_int_equal(f.used, 0);
    assert_int_equal(f.n_blocks, 0);
    assert_true(f.reserved <= SEGMENT_BYTES);
}

/* ---- any order ---- */

typedef struct piece {
    unsigned char *memory;
    size_t bytes;
    unsigned char mark;
} piece;

static void check_marks(const piece *p)
{
    for (size_t i = 0; i < p->bytes; i += 1 + p->bytes / 97)
        assert_int_equal(p->memory[i], p->mark);
    if (p->bytes)
        assert_int_equal(p->memory[p->bytes - 1], p->mark);
}

/* Mostly small, some about as long as a segment, a few longer. */
static size_t some_bytes(test_rng *r)
{
    if (rng_chance(r, 40))
        return SEGMENT_BYTES - 200 + (size_t)rng_below(r, 400);
    if (rng_chance(r, 60))
        return (size_t)rng_below(r, 3 * SEGMENT_BYTES);
    return (size_t)rng_below(r, rng_chance(r, 2) ? 300 : 200000);
}

static void test_any_order_of_frees(void **state)
{
    enum { N_PIECES = 300, N_TURNS = 6000 };
    test_rng r = {SEED};
    piece pieces[N_PIECES] = {{0}};
    block_pool *pool = create();
    size_t n_live = 0;
    uint64_t used = 0;
    for (size_t turn = 0; turn < N_TURNS; turn++) {
        piece *p = &pieces[rng_below(&r, turn % 2000 < 1000 ? N_PIECES : 20)];
        if (p->memory) {
            check_marks(p);
            used -= block_pool_bytes_of(p->memory);
            block_pool_free(pool, p->memory);
            p->memory = NULL;
            n_live--;
        } else {
            *p = (piece){.bytes = some_bytes(&r), .mark = (unsigned char)turn};
            p->memory = alloc(pool, p->bytes);
            memset(p->memory, p->mark, p->bytes);
            used += block_pool_bytes_of(p->memory);
            n_live++;
        }
        const block_pool_figures f = block_pool_memory(pool);
        assert_int_equal(f.n_blocks, n_live);
        assert_int_equal(f.used, used);
        assert_true(f.used <= f.reserved && f.reserved <= f.peak_reserved && f.used <= f.peak_used);
    }
    for (size_t k = 0; k < N_PIECES; k++) {
        if (pieces[k].memory)
            check_marks(&pieces[k]);
        block_pool_free(pool, pieces[k].memory);
    }
    assert_empty(pool);
    block_pool_destroy(pool);
}

/* Three neighbours freed in each of the six orders leave one piece, in which a block of their whole length fits again. */
static void test_neighbours_merge(void **state)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    block_pool *pool = create();
    void *before = alloc(pool, 1000);
    for (size_t k = 0; k < COUNT_OF(orders); k++) {
        void *three[3] = {alloc(pool, 100000), alloc(pool, 100000), alloc(pool, 100000)};
        void *after = alloc(pool, SEGMENT_BYTES / 2);
        assert_ptr_equal((char *)three[1] - (char *)three[0], block_pool_bytes_of(three[0]));
        const size_t all = 3 * block_pool_bytes_of(three[0]);
        for (size_t i = 0; i < 3; i++)
            block_pool_free(pool, three[orders[k][i]]);
        void *whole = alloc(pool, all - TAG_BYTES);
        assert_ptr_equal(whole, three[0]);
        block_pool_free(pool, whole);
        block_pool_free(pool, after);
    }
    block_pool_free(pool, before);
    assert_empty(pool);
    block_pool_destroy(pool);
}

static void test_the_shortest_fitting_piece_is_taken(void **state)
{
    block_pool *pool = create();
    void *pieces[9];
    static const size_t lengths[9] = {70000, 100, 66000, 100, 68000, 100, 130000, 100, 100};
    for (size_t k = 0; k < 9; k++)
        pieces[k] = alloc(pool, lengths[k]);
    for (size_t k = 0; k < 8; k += 2)
        block_pool_free(pool, pieces[k]);
    assert_ptr_equal(alloc(pool, 65800), pieces[2]);
    assert_ptr_equal(alloc(pool, 67900), pieces[4]);
    assert_ptr_equal(alloc(pool, 128000), pieces[6]);
    block_pool_destroy(pool); /* with blocks that are used */
}

/* ---- memory that goes back ---- */

static void test_memory_is_given_back(void **state)
{
    enum { N = 32 };
    block_pool *pool = create();
    void *blocks[N];
    for (size_t k = 0; k < N; k++)
        blocks[k] = alloc(pool, SEGMENT_BYTES - 2 * TAG_BYTES);
    assert_int_equal(block_pool_memory(pool).reserved, N * SEGMENT_BYTES);
    for (size_t k = 0; k < N; k++) {
        block_pool_free(pool, blocks[k]);
        const block_pool_figures f = block_pool_memory(pool);
        const uint64_t not_used = f.reserved - f.used;
        assert_true(not_used <= SEGMENT_BYTES || not_used <= f.reserved / 16);
    }
    const block_pool_figures f = block_pool_memory(pool);
    assert_int_equal(f.reserved, SEGMENT_BYTES); /* what is kept to begin with */
    assert_int_equal(f.peak_reserved, N * SEGMENT_BYTES);
    assert_int_equal(f.peak_used, N * (SEGMENT_BYTES - TAG_BYTES));
    block_pool_destroy(pool);
}

static void test_a_long_block_has_a_segment_of_its_length(void **state)
{
    block_pool *pool = create();
    const size_t bytes = 5 * SEGMENT_BYTES + 12345;
    unsigned char *memory = alloc(pool, bytes);
    memory[bytes - 1] = 1;
    const block_pool_figures f = block_pool_memory(pool);
    assert_true(f.reserved >= bytes && f.reserved < bytes + HUGE_PAGE_BYTES + TAG_BYTES + 1);
    block_pool_free(pool, memory);
    assert_int_equal(block_pool_memory(pool).reserved, 0);
    block_pool_destroy(pool);
}

/* A second step like the first maps nothing new. */
static void test_a_step_like_the_last_reuses_its_memory(void **state)
{
    enum { N = 100 };
    block_pool *pool = create();
    uint64_t reserved = 0;
    void *anchor = alloc(pool, 10 * SEGMENT_BYTES); /* keeps most of the memory used, so that empty segments stay */
    for (int step = 0; step < 3; step++) {
        void *blocks[N];
        for (size_t k = 0; k < N; k++)
            blocks[k] = alloc(pool, 1000 + 517 * k);
        if (step > 0)
            assert_int_equal(block_pool_memory(pool).reserved, reserved);
        reserved = block_pool_memory(pool).reserved;
        for (size_t k = N; k-- > 0;)
            block_pool_free(pool, blocks[k]);
    }
    block_pool_free(pool, anchor);
    block_pool_destroy(pool);
}

static void test_more_than_there_is(void **state)
{
    block_pool *pool = create();
    int mark = 0;
    void *memory = &mark;
    static const size_t lengths[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4, SIZE_MAX - 63};
    for (size_t k = 0; k < COUNT_OF(lengths); k++) {
        assert_int_equal(block_pool_alloc(pool, lengths[k], &memory), COMET_ERROR_MEMORY);
        assert_non_null(strstr(comet_last_error(), "could not allocate"));
    }
    assert_ptr_equal(memory, &mark);
    assert_empty(pool);
    block_pool_free(pool, alloc(pool, 0));
    block_pool_free(pool, NULL);
    assert_empty(pool);
    block_pool_destroy(pool);
    block_pool_destroy(NULL);
}

/* ---- threads ---- */

typedef struct worker {
    block_pool *pool;
    unsigned char mark;
} worker;

static void *work(void *given)
{
    const worker *w = given;
    test_rng r = {w->mark};
    piece pieces[16] = {{0}};
    for (size_t turn = 0; turn < 4000; turn++) {
        piece *p = &pieces[rng_below(&r, 16)];
        if (p->memory) {
            check_marks(p);
            block_pool_free(w->pool, p->memory);
            p->memory = NULL;
        } else {
            p->bytes = (size_t)rng_below(&r, 5000);
            p->mark = w->mark;
            p->memory = alloc(w->pool, p->bytes);
            memset(p->memory, p->mark, p->bytes);
        }
    }
    for (size_t k = 0; k < 16; k++)
        block_pool_free(w->pool, pieces[k].memory);
    return NULL;
}

static void test_two_threads(void **state)
{
    block_pool *pool = create();
    pthread_t threads[2];
    worker workers[2] = {{pool, 3}, {pool, 4}};
    for (size_t k = 0; k < 2; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, work, &workers[k]), 0);
    for (size_t k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
    assert_empty(pool);
    block_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_of_frees),
        cmocka_unit_test(test_neighbours_merge),
        cmocka_unit_test(test_the_shortest_fitting_piece_is_taken),
        cmocka_unit_test(test_memory_is_given_back),
        cmocka_unit_test(test_a_long_block_has_a_segment_of_its_length),
        cmocka_unit_test(test_a_step_like_the_last_reuses_its_memory),
        cmocka_unit_test(test_more_than_there_is),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
