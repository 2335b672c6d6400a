/* The ranks of a transport, as the table of comet/ranks.h. */
#ifndef COMET_DIST_GROUP_H
#define COMET_DIST_GROUP_H

#include "comet/dist.h"
#include "dist/mover.h"

/* Joins the other ranks and fills in *ranks, whose `self` is the group. params: wire, coded_share, reduce_with_mpi. */
comet_status group_create(comet_ranks *ranks, const mover_settings *settings, const comet_dist_params *params);
/* Leaves with all others, where `together`; else at once. */
comet_status group_destroy(comet_ranks *ranks, bool together);
void group_tell(const comet_ranks *ranks, const char *sentence);
const card *group_card(const comet_ranks *ranks, uint32_t rank);

#endif
