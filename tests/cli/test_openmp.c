/* OpenMP's entry points as oneDNN calls them: what member and team look like, loops with a static schedule, barriers. */
#include <stdatomic.h>
#include <stdbool.h>

#include "base/threads.h"
#include "testing.h"

void GOMP_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags);
void GOMP_parallel_start(void (*body)(void *), void *data, unsigned n_threads);
void GOMP_parallel_end(void);
void GOMP_barrier(void);
bool GOMP_loop_static_start(long start, long end, long step, long chunk, long *first, long *past);
bool GOMP_loop_static_next(long *first, long *past);
void GOMP_loop_end(void);
void omp_set_num_threads(int n_threads);
int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);

enum { MOST = 64 };

typedef struct work {
    long start, end, step, chunk;
    atomic_int done[MOST];   /* times that item i was handed out */
    int by[MOST];            /* the member that got it */
    atomic_int n_members;    /* that ran */
    atomic_int seen_members; /* what omp_get_num_threads said */
    atomic_int bad;
} work;

static void look(void *data)
{
    work *w = data;
    atomic_fetch_add(&w->n_members, 1);
    atomic_store(&w->seen_members, omp_get_num_threads());
    GOMP_barrier();
    if (atomic_load(&w->n_members) != omp_get_num_threads() || omp_in_parallel() != (omp_get_num_threads() > 1))
        atomic_fetch_add(&w->bad, 1);
}

/* 0 threads: as many as were set; 0 set: one per core. */
static void test_number_of_members(void **state)
{
    (void)state;
    static const int set[] = {1, 2, 5, 0};
    for (size_t i = 0; i < COUNT_OF(set); i++)
        for (unsigned asked = 0; asked <= 3; asked++) {
            work w = {.bad = 0};
            omp_set_num_threads(set[i]);
            const int all = set[i] > 0 ? set[i] : (int)comet_cores(), expected = asked > 0 ? (int)asked : all;
            assert_int_equal(omp_get_max_threads(), all);
            GOMP_parallel(look, &w, asked, 0);
            assert_int_equal(atomic_load(&w.seen_members), expected);
            assert_int_equal(atomic_load(&w.n_members), expected);
            assert_int_equal(atomic_load(&w.bad), 0);
            assert_int_equal(omp_in_parallel(), 0);
        }
}

static void loop(void *data)
{
    work *w = data;
    long first, past;
    bool more = GOMP_loop_static_start(w->start, w->end, w->step, w->chunk, &first, &past);
    for (; more; more = GOMP_loop_static_next(&first, &past))
        for (long i = first; w->step > 0 ? i < past : i > past; i += w->step) {
            const long at = (i - w->start) / w->step;
            atomic_fetch_add(&w->done[at], 1);
            w->by[at] = omp_get_thread_num();
        }
    GOMP_loop_end();
}

/* Every item once; without a chunk in parts by order of members, with one in chunks that go round. */
static void test_static_loops(void **state)
{
    (void)state;
    static const long loops[][4] = {{0, 10, 1, 0}, {5, 50, 7, 0}, {20, 0, -3, 0}, {0, 10, 1, 2},
                                    {0, 2, 1, 0},  {3, 3, 1, 0},  {0, 64, 1, 5}};
    for (size_t i = 0; i < COUNT_OF(loops); i++)
        for (unsigned members = 1; members <= 4; members++) {
            work w = {.start = loops[i][0], .end = loops[i][1], .step = loops[i][2], .chunk = loops[i][3]};
            const long span = w.end - w.start, n = (span + w.step + (w.step > 0 ? -1 : 1)) / w.step;
            GOMP_parallel_start(loop, &w, members);
            loop(&w);
            GOMP_parallel_end();
            for (long k = 0; k < MOST; k++)
                assert_int_equal(atomic_load(&w.done[k]), k < n);
            for (long k = 0; k < n; k++) {
                if (w.chunk > 0)
                    assert_int_equal(w.by[k], k / w.chunk % members);
                else
                    assert_true(k == 0 ? w.by[k] == 0 : w.by[k] == w.by[k - 1] || w.by[k] == w.by[k - 1] + 1);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_of_members),
        cmocka_unit_test(test_static_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
