/* See ranks.h. */
#include "train/graph/ranks.h"

comet_status ranks_sum(const comet_model *m, double *values, size_t n)
{
    const comet_ranks *r = m->params.ranks;
    return r ? r->sum(r->self, values, n) : COMET_OK;
}

comet_status ranks_join_scores(const comet_model *m, comet_scores *scores)
{
    double sums[] = {scores->loss * scores->n_valid, scores->n_valid, scores->n_top1, scores->n_top5};
    if (!m->params.ranks)
        return COMET_OK;
    TRY(ranks_sum(m, sums, sizeof sums / sizeof sums[0]));
    *scores = (comet_scores){.loss = sums[1] > 0 ? sums[0] / sums[1] : 0,
                             .n_valid = (uint32_t)sums[1],
                             .n_top1 = (uint32_t)sums[2],
                             .n_top5 = (uint32_t)sums[3]};
    return COMET_OK;
}
