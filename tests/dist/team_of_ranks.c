#include "team_of_ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dist/group.h"

typedef struct member {
    team_of_ranks *team;
    uint32_t rank;
    comet_status joined, left;
} member;

static void note_end(void *user, const char *sentence, bool speak)
{
    const member *m = user;
    snprintf(m->team->ended[m->rank], sizeof m->team->ended[m->rank], "%.255s", sentence);
    m->team->spoke[m->rank] = speak;
}

static void *run(void *arg)
{
    member *m = arg;
    mailbox_place place = {.office = m->team->office, .rank = m->rank};
    mover_settings settings = mailbox_settings(&place);
    comet_ranks ranks;
    settings.silent_seconds = m->team->silent_seconds;
    settings.hung_seconds = m->team->params.hung_seconds;
    settings.ending = note_end;
    settings.user = m;
    m->joined = group_create(&ranks, &settings, &m->team->params);
    if (m->joined != COMET_OK)
        return NULL;
    m->team->body(&ranks, m->team->arg);
    m->left = group_destroy(&ranks, !m->team->stays);
    return NULL;
}

void team_init(team_of_ranks *team, uint32_t n_ranks, void (*body)(comet_ranks *ranks, void *arg), void *arg)
{
    *team = (team_of_ranks){.n_ranks = n_ranks, .silent_seconds = 60, .body = body, .arg = arg};
    comet_dist_params_init(&team->params);
}

void team_of_ranks_run(team_of_ranks *team)
{
    pthread_t threads[MOST_RANKS];
    member members[MOST_RANKS];
    team->office = post_office_open(team->n_ranks, team->shuffle);
    for (uint32_t r = 0; r < team->n_ranks; r++) {
        members[r] = (member){.team = team, .rank = r};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &members[r]), 0);
    }
    for (uint32_t r = 0; r < team->n_ranks; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < team->n_ranks; r++) {
        assert_int_equal(members[r].joined, COMET_OK);
        assert_int_equal(members[r].left, COMET_OK);
    }
    post_office_close(team->office);
}
