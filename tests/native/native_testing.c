/* Threads to lend; see native_testing.h. */
#include "native_testing.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 8 };

static atomic_size_t n_calls;

size_t stand_in_calls(void)
{
    return atomic_exchange(&n_calls, 0);
}

comet_native_session *session_of(uint32_t n_threads, int how, void *entry)
{
    comet_native_session *s = NULL;
    assert_int_equal(comet_native_create(&s, n_threads, how, entry), COMET_OK);
    assert_non_null(s);
    return s;
}

comet_native_figures figures_of(comet_native_session *s)
{
    comet_native_figures figures = {.size = sizeof figures};
    assert_int_equal(comet_native_memory(s, &figures), COMET_OK);
    return figures;
}

comet_native_job job_of(uint64_t n, double eb)
{
    return (comet_native_job){.size = sizeof(comet_native_job),
                              .dtype = COMET_DTYPE_F32,
                              .n_dims = 1,
                              .dims = {n},
                              .bound_mode = COMET_BOUND_ABSOLUTE,
                              .bound = eb};
}

/* ---- hosts ---- */

typedef struct one_range {
    void (*body)(int64_t begin, int64_t end, void *context);
    void *context;
    int64_t begin, end;
} one_range;

static void *range_thread(void *given)
{
    const one_range *r = given;
    r->body(r->begin, r->end, r->context);
    return NULL;
}

/* Two ranges on two threads, as torch_parallel_for with two threads does. */
static int32_t torch_fake(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void *), void *context)
{
    const int64_t middle = begin + (end - begin) / 2;
    one_range first = {body, context, begin, middle}, second = {body, context, middle, end};
    pthread_t thread;
    atomic_fetch_add(&n_calls, 1);
    assert_int_equal(grain, 1);
    assert_int_equal(pthread_create(&thread, NULL, range_thread, &first), 0);
    range_thread(&second);
    pthread_join(thread, NULL);
    return 0;
}

static int32_t torch_failing(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void *), void *context)
{
    atomic_fetch_add(&n_calls, 1);
    return 1;
}

typedef struct one_team {
    void (*body)(void *data);
    void *data;
} one_team;

static void *team_thread(void *given)
{
    const one_team *t = given;
    t->body(t->data);
    return NULL;
}

/* Every thread of the team calls the body. */
static void gomp_fake(void (*body)(void *data), void *data, unsigned n_threads, unsigned flags)
{
    pthread_t threads[MOST_THREADS];
    one_team team = {body, data};
    atomic_fetch_add(&n_calls, 1);
    assert_true(n_threads <= MOST_THREADS);
    for (unsigned k = 1; k < n_threads; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, team_thread, &team), 0);
    team_thread(&team);
    for (unsigned k = 1; k < n_threads; k++)
        pthread_join(threads[k], NULL);
}

/* The address of a function, for which ISO C has no cast. */
#define ADDRESS_OF(function, type)                  \
    do {                                            \
        type *const pointer = function;             \
        memcpy(&address, &pointer, sizeof address); \
    } while (0)

typedef int32_t torch_function(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void *), void *);
typedef void gomp_function(void (*)(void *), void *, unsigned, unsigned);

void *torch_stand_in(void)
{
    void *address = NULL;
    ADDRESS_OF(torch_fake, torch_function);
    return address;
}

void *torch_refusing(void)
{
    void *address = NULL;
    ADDRESS_OF(torch_failing, torch_function);
    return address;
}

void *gomp_stand_in(void)
{
    void *address = NULL;
    ADDRESS_OF(gomp_fake, gomp_function);
    return address;
}
