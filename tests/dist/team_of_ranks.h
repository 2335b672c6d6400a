/* Runs a function on several ranks at once, each a thread, on mailboxes. */
#ifndef COMET_TESTS_TEAM_OF_RANKS_H
#define COMET_TESTS_TEAM_OF_RANKS_H

#include "comet/dist.h"
#include "mailboxes.h"

enum { MOST_RANKS = 5 };

typedef struct team_of_ranks {
    uint32_t n_ranks, shuffle;
    comet_dist_params params;
    double silent_seconds;
    bool stays; /* the ranks do not leave together */
    void (*body)(comet_ranks *ranks, void *arg);
    void *arg;
    /* Filled in. */
    post_office *office;
    char ended[MOST_RANKS][256]; /* why the job ended, as each rank was told */
    bool spoke[MOST_RANKS];
} team_of_ranks;

void team_init(team_of_ranks *team, uint32_t n_ranks, void (*body)(comet_ranks *ranks, void *arg), void *arg);
void team_of_ranks_run(team_of_ranks *team);

#endif
