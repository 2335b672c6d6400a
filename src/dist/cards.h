/* What ranks tell of themselves at the start: where they are. */
#ifndef COMET_DIST_CARDS_H
#define COMET_DIST_CARDS_H

#include "comet/base.h"
#include "dist/transport.h"

enum { CARD_HOST_BYTES = 64 };

typedef struct card {
    char host[CARD_HOST_BYTES];
    uint32_t node;
} card;

/* Every rank's card, at cards[rank]. Waits for all ranks; fails where some do not answer for a minute. */
comet_status cards_exchange(transport *t, card *cards);

/* Ranks on the machine of t->rank, and how many of them are lower. */
void cards_count_node(const card *cards, uint32_t n_ranks, uint32_t rank, uint32_t *n_on_node, uint32_t *rank_on_node);

#endif
