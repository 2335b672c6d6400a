/* Placements on described machines: scores by hand, the best by trying every way, and what is refused. */
#include "place/launch.h"
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct setting {
    machine m;
    routes r;
} setting;

static void open_setting(setting *s, const char *text)
{
    assert_int_equal(machine_read("test", text, &s->m), CLI_OK);
    assert_int_equal(routes_find(&s->m, &s->r), CLI_OK);
}

static void close_setting(setting *s)
{
    routes_free(&s->r);
    machine_free(&s->m);
}

/* The best placement is `where`, with these scores in GB/s. */
static void best_is(const char *text, const job *j, const char *where, double exchange, double left)
{
    setting s;
    open_setting(&s, text);
    placements found;
    assert_int_equal(placement_find(&s.m, &s.r, j, &found), CLI_OK);
    assert_true(found.all_tried);
    char *best = launch_where(&s.m, &found.items[0]);
    assert_string_equal(best, where);
    assert_near(found.items[0].exchange / 1e9, exchange, 1e-9);
    assert_near(found.items[0].left / 1e9, left, 1e-9);
    for (uint32_t i = 1; i < found.n; i++)
        assert_true(placement_better(&s.m, &found.items[i - 1], &found.items[i]));
    free(best);
    placements_free(&found);
    close_setting(&s);
}

/* A node of two sockets, of which one has room for both ranks: 20 GB/s for their one pair, against 40 GB/s between sockets. */
static void memory_or_sockets(void **state)
{
    static const char text[] = "node a sockets=2 cores=4 socket-link=40GB domain-link=80GB memory=20GB\n";
    best_is(text, &(job){.n_ranks = 2, .n_threads = 2}, "a:0 x1, a:1 x1", 40, 0);
    static const char slow[] = "node a sockets=2 cores=4 socket-link=10GB domain-link=80GB memory=20GB\n";
    best_is(slow, &(job){.n_ranks = 2, .n_threads = 2}, "a:0 x2", 20, 2 * (10 + 80));
    /* 3 ranks: 2 + 1 have 2 pairs on a link of 10 GB/s, 3 in one domain 3 pairs in 20 GB/s. */
    best_is("node a sockets=2 cores=6 socket-link=10GB memory=20GB\n", &(job){.n_ranks = 3, .n_threads = 2}, "a:0 x3",
            2 * 20.0 / 3, 2 * (10 + 80));
}

/* Two racks: within one rack, and there on the nodes with the wider cables. */
static void widest_nodes(void **state)
{
    static const char text[] = "# racks\n"
                               "node a b c d cores=4\n"
                               "switch one two\n"
                               "link a one 100Gbit\nlink b one 100Gbit # wide\n"
                               "link c two 10Gbit\nlink d two 10Gbit\n"
                               "link one two 40Gbit\n";
    const job pair = {.n_ranks = 2, .n_threads = 4};
    /* Left: all but a and b's cables and the inside of these nodes. */
    best_is(text, &pair, "a:0 x1, b:0 x1", 12.5, 2 * 1.25 + 5 + 2 * (40 + 80));
    /* Cores in use on b: a and c through three links, or c and d through two; both are as fast, the latter leaves more. */
    char with[512];
    snprintf(with, sizeof with, "%sused b 0 1\n", text);
    best_is(with, &pair, "c:0 x1, d:0 x1", 1.25, 2 * 12.5 + 5 + 2 * (40 + 80));
    /* One rank exchanges with nobody: it goes where it breaks up least. */
    snprintf(with, sizeof with, "%sused c 0 2\n", text);
    setting s;
    open_setting(&s, with);
    placements found;
    assert_int_equal(placement_find(&s.m, &s.r, &(job){.n_ranks = 1, .n_threads = 2}, &found), CLI_OK);
    assert_true(isinf(found.items[0].exchange));
    assert_int_equal(found.items[0].ranks[2], 1);
    placements_free(&found);
    close_setting(&s);
}

/* Two cables between the same ends are one of twice the rate. */
static void two_cables(void **state)
{
    best_is("node a b c cores=1\nlink a b 10Gbit\nlink b c 8Gbit\nlink c b 8Gbit\n", &(job){.n_ranks = 2, .n_threads = 1},
            "b:0 x1, c:0 x1", 2, 1.25 + 120);
}

static void few_on_a_node(void **state)
{
    setting s;
    open_setting(&s, "node a b c cores=8\nswitch s\nlink a s 10Gbit\nlink b s 10Gbit\nlink c s 10Gbit\n");
    placements found;
    assert_int_equal(placement_find(&s.m, &s.r, &(job){.n_ranks = 5, .n_threads = 2, .most_on_node = 2}, &found), CLI_OK);
    for (uint32_t i = 0; i < found.n; i++)
        for (uint32_t d = 0; d < 3; d++)
            assert_in_range(found.items[i].ranks[d], 1, 2);
    placements_free(&found);
    assert_int_equal(placement_find(&s.m, &s.r, &(job){.n_ranks = 7, .n_threads = 2, .most_on_node = 2}, &found),
                     CLI_BAD_INPUT);
    placements_free(&found);
    assert_int_equal(placement_find(&s.m, &s.r, &(job){.n_ranks = 13, .n_threads = 2}, &found), CLI_BAD_INPUT);
    placements_free(&found);
    close_setting(&s);
}

/* ---- against every way there is ---- */

typedef struct brute {
    const setting *s;
    const job *j;
    placement at;
    double best, best_left;
    uint64_t n;
} brute;

static void try_rest(brute *b, uint32_t d, uint32_t n)
{
    const machine *m = &b->s->m;
    if (d == m->n_domains) {
        if (n > 0)
            return;
        assert_int_equal(placement_score(m, &b->s->r, b->j, &b->at), CLI_OK);
        b->n++;
        const bool more = b->at.exchange > 1.001 * b->best, same = !more && b->at.exchange > 0.999 * b->best;
        if (more || (same && b->at.left > b->best_left)) {
            b->best = more ? b->at.exchange : b->best;
            b->best_left = b->at.left;
        }
        return;
    }
    const uint32_t room = (m->domains[d].n_cores - m->domains[d].used) / b->j->n_threads;
    for (uint32_t here = 0; here <= room && here <= n; here++) {
        b->at.ranks[d] = here;
        try_rest(b, d + 1, n - here);
    }
    b->at.ranks[d] = 0;
}

/* A made-up cluster of n nodes on two switches, with links and cores in use that a seed decides. */
static void describe(char *text, size_t bytes, uint32_t n, uint32_t sockets, uint64_t seed)
{
    test_rng g = {.state = seed};
    size_t at =
        (size_t)snprintf(text, bytes, "switch s0 s1\nlink s0 s1 %lluGbit\n", (unsigned long long)(10 + rng_below(&g, 200)));
    for (uint32_t i = 0; i < n; i++) {
        at +=
            (size_t)snprintf(text + at, bytes - at, "node n%u sockets=%u cores=4 socket-link=%lluGB memory=%lluGB\n", i,
                             sockets, (unsigned long long)(5 + rng_below(&g, 40)), (unsigned long long)(5 + rng_below(&g, 30)));
        at += (size_t)snprintf(text + at, bytes - at, "link n%u s%u %lluGbit\n", i, i % 2,
                               (unsigned long long)(10 + rng_below(&g, 90)));
        if (rng_chance(&g, 3))
            at += (size_t)snprintf(text + at, bytes - at, "used n%u 0 %llu\n", i, (unsigned long long)rng_below(&g, 3));
    }
}

/* The same as trying every way says, for machines small enough for the search to try them all and for larger ones; of the
 * latter the exchange alone, at least 0.9 of it. */
static void as_good_as_all(void **state)
{
    static const struct {
        uint32_t nodes, sockets, ranks;
        bool all;
    } cases[] = {{4, 1, 5, true}, {4, 2, 4, true}, {6, 1, 6, true}, {5, 2, 10, false}, {12, 1, 11, false}};
    for (size_t c = 0; c < COUNT_OF(cases); c++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            char text[4096];
            describe(text, sizeof text, cases[c].nodes, cases[c].sockets, seed);
            setting s;
            open_setting(&s, text);
            const job j = {.n_ranks = cases[c].ranks, .n_threads = 1};
            brute b = {.s = &s, .j = &j, .at.ranks = calloc(s.m.n_domains, sizeof *b.at.ranks)};
            placements found;
            try_rest(&b, 0, j.n_ranks);
            assert_int_equal(placement_find(&s.m, &s.r, &j, &found), CLI_OK);
            assert_true(found.all_tried == cases[c].all);
            if (cases[c].all) {
                assert_int_equal(found.n_tried, b.n);
                assert_near(found.items[0].exchange / b.best, 1, 1e-3);
                assert_near(found.items[0].left / b.best_left, 1, 1e-3);
            } else {
                if (found.items[0].exchange < 0.9 * b.best)
                    fail_msg("%u nodes, %u ranks, seed %u: %g found, %g is the best of %u", cases[c].nodes, cases[c].ranks,
                             (unsigned)seed, found.items[0].exchange, b.best, (unsigned)b.n);
                assert_true(found.n_tried < b.n);
            }
            free(b.at.ranks);
            placements_free(&found);
            close_setting(&s);
        }
}

/* ---- texts ---- */

static void what_mpirun_is_told(void **state)
{
    setting s;
    open_setting(&s, "node a b sockets=2 cores=4\nlink a b 10Gbit\nused a 1 1\n");
    uint32_t ranks[] = {1, 1, 0, 2};
    const placement p = {.ranks = ranks};
    const job j = {.n_ranks = 4, .n_threads = 2}, single = {.n_ranks = 4, .n_threads = 1};
    char *rankfile = launch_rankfile(&s.m, &j, &p), *hostfile = launch_hostfile(&s.m, &j, &p);
    assert_string_equal(rankfile, "rank 0=a slot=0-1\nrank 1=a slot=5-6\nrank 2=b slot=4-5\nrank 3=b slot=6-7\n");
    assert_string_equal(hostfile, "a:2 binding=user:0+1,5+6\nb:2 binding=user:4+5,6+7\n");
    free(rankfile);
    free(hostfile);
    rankfile = launch_rankfile(&s.m, &single, &p);
    assert_string_equal(rankfile, "rank 0=a slot=0\nrank 1=a slot=5\nrank 2=b slot=4\nrank 3=b slot=5\n");
    free(rankfile);
    close_setting(&s);
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "switch s\n",
                                        "nodes a\n",
                                        "node\n",
                                        "node a a\n",
                                        "node a!\n",
                                        "node a cores=0\n",
                                        "node a cpus=4\n",
                                        "node a memory=20\n",
                                        "node a\nlink a b 10Gbit\n",
                                        "node a\nlink a a 10Gbit\n",
                                        "node a b\nlink a b\n",
                                        "node a b\nlink a b 10\n",
                                        "node a\nused a 1 1\n",
                                        "node a\nused a 0 2\n",
                                        "switch s\nused s 0 1\n"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        machine m;
        if (machine_read("test", texts[i], &m) != CLI_BAD_INPUT)
            fail_msg("accepted: %s", texts[i]);
        machine_free(&m);
    }
    machine m;
    routes r;
    assert_int_equal(machine_read("test", "node a b\n", &m), CLI_OK);
    assert_int_equal(routes_find(&m, &r), CLI_BAD_INPUT);
    routes_free(&r);
    machine_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_or_sockets),       cmocka_unit_test(widest_nodes),   cmocka_unit_test(two_cables),
        cmocka_unit_test(few_on_a_node),           cmocka_unit_test(as_good_as_all), cmocka_unit_test(what_mpirun_is_told),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
