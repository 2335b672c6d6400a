/* Teams: every member runs once, whoever runs it; barriers; regions inside regions; late threads; the load of the machine. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/load.h"
#include "base/team.h"
#include "testing.h"

enum { MOST = 8, ROUNDS = 2000 };

typedef struct counts {
    atomic_uint runs[MOST];
    atomic_uint bad;
    atomic_uint before; /* members that came to the barrier */
    pthread_t caller;
    atomic_uint by_caller;
} counts;

static void count_member(void *data)
{
    counts *c = data;
    atomic_fetch_add(&c->runs[team_member()], 1);
    if (pthread_equal(pthread_self(), c->caller))
        atomic_fetch_add(&c->by_caller, 1);
}

/* Each member of each region runs exactly once, for teams that grow and shrink. */
static void test_members_run_once(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const size_t n = 1 + round % MOST;
        counts c = {.caller = pthread_self()};
        assert_true(team_run(n, count_member, &c));
        for (size_t i = 0; i < MOST; i++)
            assert_int_equal(atomic_load(&c.runs[i]), i < n);
        assert_int_equal(team_member(), 0);
        assert_int_equal(team_members(), 1);
        assert_false(team_is_active());
    }
}

static void meet(void *data)
{
    counts *c = data;
    const unsigned n = (unsigned)team_members();
    for (unsigned round = 1; round <= 20; round++) {
        atomic_fetch_add(&c->before, 1);
        team_barrier();
        if (atomic_load(&c->before) != round * n)
            atomic_fetch_add(&c->bad, 1);
        team_barrier();
    }
}

/* No member passes a barrier before all have come to it; each member then has a thread of its own. */
static void test_barriers(void **state)
{
    (void)state;
    for (size_t n = 1; n <= MOST; n++) {
        counts c = {.bad = 0};
        assert_true(team_run(n, meet, &c));
        assert_int_equal(atomic_load(&c.bad), 0);
        assert_int_equal(atomic_load(&c.before), 20 * n);
    }
}

static void inner(void *data)
{
    counts *c = data;
    if (team_members() != 1 || team_member() != 0 || !team_is_active())
        atomic_fetch_add(&c->bad, 1);
    team_barrier(); /* alone */
    atomic_fetch_add(&c->before, 1);
}

static void outer(void *data)
{
    counts *c = data;
    const size_t member = team_member();
    if (!team_run(4, inner, c) || team_member() != member || team_members() != 3)
        atomic_fetch_add(&c->bad, 1);
}

/* A region inside a region has one member, the one that began it. */
static void test_regions_inside(void **state)
{
    counts c = {.bad = 0};
    (void)state;
    assert_true(team_run(3, outer, &c));
    assert_int_equal(atomic_load(&c.bad), 0);
    assert_int_equal(atomic_load(&c.before), 3);
}

/* A thread that is asleep takes longer to come than the caller needs for both members, so the caller runs both, at least once.
 */
static void test_late_thread(void **state)
{
    unsigned by_caller = 0;
    (void)state;
    for (int i = 0; i < 50; i++) {
        counts c = {.caller = pthread_self()};
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_true(team_run(2, count_member, &c));
        by_caller += atomic_load(&c.by_caller);
    }
    assert_true(by_caller > 50);
}

static void *run_regions(void *data)
{
    for (int i = 0; i < 200; i++) {
        counts c = {.caller = pthread_self()};
        if (!team_run(3, count_member, &c) || atomic_load(&c.runs[0]) != 1 || atomic_load(&c.runs[2]) != 1)
            atomic_fetch_add((atomic_uint *)data, 1);
    }
    return NULL;
}

/* Two threads that begin regions at the same time take turns. */
static void test_two_callers(void **state)
{
    pthread_t other;
    atomic_uint bad = 0;
    (void)state;
    assert_int_equal(pthread_create(&other, NULL, run_regions, &bad), 0);
    run_regions(&bad);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&bad), 0);
}

static void test_too_many(void **state)
{
    counts c = {.bad = 0};
    (void)state;
    assert_false(team_begin(TEAM_MAX + 1, count_member, &c));
    assert_true(team_run(2, count_member, &c));
}

/* A child of fork has none of its parent's threads; members that meet at barriers would wait for them for ever. */
static void test_after_fork(void **state)
{
    counts c = {.bad = 0};
    int status;
    (void)state;
    assert_true(team_run(4, count_member, &c));
    const pid_t child = fork();
    if (child == 0) {
        counts met = {.bad = 0};
        alarm(20);
        _exit(team_run(4, meet, &met) && atomic_load(&met.bad) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(team_run(4, meet, &c));
    assert_int_equal(atomic_load(&c.bad), 0);
}

/* More threads than any machine has cores cannot all have one. */
static void test_core_share(void **state)
{
    (void)state;
    const double one = comet_core_share(1, 0.01), many = comet_core_share(600, 0.05);
    assert_true(one > 0 && one <= 1.01);
    assert_true(many >= 0 && many < 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_run_once), cmocka_unit_test(test_barriers),    cmocka_unit_test(test_regions_inside),
        cmocka_unit_test(test_late_thread),      cmocka_unit_test(test_two_callers), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_after_fork),       cmocka_unit_test(test_core_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
