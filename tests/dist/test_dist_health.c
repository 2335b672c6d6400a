/* Ranks that fall silent or fail, and ranks that were not started alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "dist/group.h"
#include "team_of_ranks.h"

/* Sums until the ranks are unusable, which has to happen soon. */
static double sum_until_broken(comet_ranks *ranks)
{
    const double begin = comet_seconds();
    double value = 1;
    while (ranks->sum(ranks->self, &value, 1) == COMET_OK)
        assert_true(comet_seconds() - begin < 20);
    return comet_seconds() - begin;
}

static void fall_silent(comet_ranks *ranks, void *arg)
{
    team_of_ranks *team = arg;
    double value = 1;
    assert_int_equal(ranks->sum(ranks->self, &value, 1), COMET_OK);
    if (ranks->rank == 2)
        post_office_stop(team->office, 2);
    const double seconds = sum_until_broken(ranks);
    assert_true(seconds > 1 && seconds < 10);
    assert_non_null(strstr(comet_last_error(), ranks->rank == 2 ? "rank 0 on host " : "rank 2 on host "));
}

static void test_silence(void **state)
{
    (void)state;
    team_of_ranks team;
    team_init(&team, 4, fall_silent, &team);
    team.silent_seconds = 2;
    team.stays = true;
    team_of_ranks_run(&team);
    assert_true(team.spoke[0] && !team.spoke[1] && !team.spoke[3]);
    assert_non_null(strstr(team.ended[0], "does not answer since 2 s"));
    assert_string_equal(team.ended[0], team.ended[3]);
}

static void sleep_for(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Works for `seconds` without a word, then waits for the others. */
static void take_part(comet_ranks *ranks, comet_rank_phase phase, double seconds)
{
    double value = 1;
    ranks->mark(ranks->self, phase);
    sleep_for(seconds);
    ranks->mark(ranks->self, COMET_RANK_SAME);
    assert_int_equal(ranks->sum(ranks->self, &value, 1), COMET_OK);
}

/* With a patience of 1 s in a step: others do not wait, files, slow parts of which there were some before, the time before the
 * first step. */
static void be_slow(comet_ranks *ranks, void *arg)
{
    const bool here = ranks->rank == *(const uint32_t *)arg;
    take_part(ranks, COMET_RANK_START, here ? 2.5 : 0);
    take_part(ranks, COMET_RANK_STEP, 2);
    take_part(ranks, COMET_RANK_FILES, here ? 2.5 : 0);
    take_part(ranks, COMET_RANK_STEP, here ? 3 : 0);
}

static void hang(comet_ranks *ranks, void *arg)
{
    const uint32_t lazy = *(const uint32_t *)arg;
    const bool here = ranks->rank == lazy;
    char expected[64];
    take_part(ranks, COMET_RANK_STEP, 0.05);
    if (here)
        sleep_for(5);
    const double seconds = sum_until_broken(ranks);
    assert_true(here ? seconds < 1 : seconds > 1 && seconds < 5);
    snprintf(expected, sizeof expected, "rank %u on host ", lazy);
    assert_non_null(strstr(comet_last_error(), expected));
    assert_non_null(strstr(comet_last_error(), "makes no progress since "));
}

static void test_hanging(void **state)
{
    (void)state;
    for (uint32_t lazy = 0; lazy < 2; lazy++) {
        team_of_ranks team;
        team_init(&team, 3, hang, &lazy);
        team.params.hung_seconds = 1;
        team.stays = true;
        team_of_ranks_run(&team);
        assert_true(team.spoke[0] && !team.spoke[1] && !team.spoke[2]);
    }
}

static void test_slowness(void **state)
{
    (void)state;
    uint32_t slow = 1;
    team_of_ranks team;
    team_init(&team, 3, be_slow, &slow);
    team.params.hung_seconds = 1;
    team_of_ranks_run(&team);
}

static void fail_one(comet_ranks *ranks, void *arg)
{
    (void)arg;
    if (ranks->rank == 1)
        group_tell(ranks, "rank 1 on host a: the disk is full");
    else
        assert_true(sum_until_broken(ranks) < 5);
}

static void test_failure(void **state)
{
    (void)state;
    team_of_ranks team;
    team_init(&team, 3, fail_one, NULL);
    team.stays = true;
    team_of_ranks_run(&team);
    assert_string_equal(team.ended[0], "rank 1 on host a: the disk is full");
    assert_string_equal(team.ended[2], "rank 1 on host a: the disk is full");
    assert_true(!team.spoke[0] && !team.spoke[1] && !team.spoke[2]);
}

typedef struct agreement {
    const char *texts[3];
    const char *part; /* of the refusal; NULL: they agree */
} agreement;

static void agree(comet_ranks *ranks, void *arg)
{
    const agreement *a = arg;
    const comet_status status = comet_dist_agree(ranks, a->texts[ranks->rank]);
    assert_int_equal(status, a->part ? COMET_ERROR_ARGUMENT : COMET_OK);
    if (a->part)
        assert_non_null(strstr(comet_last_error(), a->part));
}

static void test_agreement(void **state)
{
    (void)state;
    static const char same[] = "version: 1\n--rate: 0.1\ndata: ff\n";
    agreement cases[] = {
        {{same, same, same}, NULL},
        {{same, same, "version: 1\n--rate: 0.2\ndata: ff\n"}, " was started with --rate 0.2, rank 0 with 0.1"},
        {{same, "version: 2\n--rate: 0.2\ndata: ff\n", "version: 3\n"}, " was started with version 2, rank 0 with 1"},
        {{same, same, "version: 1\ndata: ff\n"}, " was started without --rate, rank 0 with 0.1"},
        {{same, "version: 1\n--rate: 0.1\ndata: ff\n--ema: 0.9\n", same}, " was started with --ema 0.9, rank 0 without"},
        {{"", "", ""}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        team_of_ranks team;
        team_init(&team, 3, agree, &cases[i]);
        team_of_ranks_run(&team);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_silence), cmocka_unit_test(test_hanging),
                                       cmocka_unit_test(test_slowness), cmocka_unit_test(test_failure),
                                       cmocka_unit_test(test_agreement)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
