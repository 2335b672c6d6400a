/* What a model and the other ranks that train it have to agree on; comet/ranks.h. All of it does nothing for a model alone. */
#ifndef COMET_TRAIN_GRAPH_RANKS_H
#define COMET_TRAIN_GRAPH_RANKS_H

#include "comet/data.h"
#include "comet/ranks.h"
#include "train/graph/graph.h"

/* A loader that gives this rank's share of each batch; `r` is NULL for one that gives all. */
static inline void ranks_share_out(const comet_ranks *r, comet_loader_params *params)
{
    params->rank = r ? r->rank : 0;
    params->n_ranks = r ? r->n_ranks : 0;
}

/* The thread got on by an operator. */
static inline void ranks_mark(const comet_model *m)
{
    const comet_ranks *r = m->params.ranks;
    if (r && r->mark)
        r->mark(r->self, COMET_RANK_SAME);
}

/* Sums over ranks. */
comet_status ranks_sum(const comet_model *m, double *values, size_t n);
/* Scores of all ranks' images in place of this rank's; a loss that is not finite on one rank is so on all. */
comet_status ranks_join_scores(const comet_model *m, comet_scores *scores);

#endif
