/*
 * Placements of a job's ranks, their scores, and the search for the best: the idea of MAPA, to weigh the bandwidth that a job
 * gets against the bandwidth that it leaves to others.
 *
 * Every rank exchanges as much with every other: gradients. Of a link that `pairs` of them use, each pair gets rate / pairs,
 * and the slowest pair decides:
 *
 *   exchange = (ranks - 1) x least rate / pairs, over links and memories: what a rank sends a second
 *   left     = sum of the rates of links on which the job sends nothing
 *   broken   = cores that stay free in domains that the job uses
 *
 * The better placement exchanges more; if both do the same within 0.1 %, leaves more; then breaks up less; then uses earlier
 * domains.
 */
#ifndef COMET_CLI_PLACE_PLACEMENT_H
#define COMET_CLI_PLACE_PLACEMENT_H

#include "place/routes.h"

typedef struct job {
    uint32_t n_ranks, n_threads; /* threads: cores of a rank */
    uint32_t most_on_node;       /* 0: as many as there is room for */
} job;

enum { MOST_PLACEMENTS = 5 };

typedef struct placement {
    uint32_t *ranks; /* of each domain */
    double exchange; /* bytes/s; infinite for one rank */
    double left;     /* bytes/s */
    uint32_t broken; /* cores */
} placement;

/* The best placements, the best first; each exchanges or leaves something else than those before it. */
typedef struct placements {
    uint32_t n;
    placement items[MOST_PLACEMENTS];
    uint64_t n_tried;
    bool all_tried; /* every way there is */
} placements;

/* CLI_BAD_INPUT where the job does not fit, with the numbers. */
cli_exit placement_find(const machine *m, const routes *r, const job *j, placements *found);
void placements_free(placements *found);

/* Fills the scores of `p` from its ranks. */
cli_exit placement_score(const machine *m, const routes *r, const job *j, placement *p);
bool placement_better(const machine *m, const placement *a, const placement *b);

#endif
