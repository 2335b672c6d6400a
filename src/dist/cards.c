/* Cards go to rank 0, which sends the table to all. */
#include "dist/cards.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "dist/work.h"

static const double patience = 60; /* seconds */

static comet_status wait_for(transport *t, int request)
{
    const double begin = comet_seconds();
    bool moved = false;
    for (;;) {
        TRY(request_poll(t, &request, &moved, NULL));
        if (request == TRANSPORT_NONE)
            return COMET_OK;
        if (comet_seconds() - begin > patience)
            return comet_fail(COMET_ERROR_IO, "rank %u of %u: the others do not answer since %.0f s", t->rank, t->n_ranks,
                              patience);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

static comet_status send(transport *t, uint32_t to, const void *data, size_t bytes)
{
    int request;
    return t->send(t, to, TAG_CARDS, data, bytes, &request) ? wait_for(t, request) : transport_failed(t);
}

static comet_status receive(transport *t, uint32_t from, void *data, size_t bytes)
{
    int request;
    return t->receive(t, from, TAG_CARDS, data, bytes, &request) ? wait_for(t, request) : transport_failed(t);
}

static void write_own(const transport *t, card *own)
{
    *own = (card){.node = t->node};
    if (gethostname(own->host, sizeof own->host - 1) != 0 || own->host[0] == '\0')
        snprintf(own->host, sizeof own->host, "unknown");
}

comet_status cards_exchange(transport *t, card *cards)
{
    const size_t bytes = t->n_ranks * sizeof *cards;
    write_own(t, &cards[t->rank]);
    if (t->rank > 0) {
        TRY(send(t, 0, &cards[t->rank], sizeof *cards));
        return receive(t, 0, cards, bytes);
    }
    for (uint32_t r = 1; r < t->n_ranks; r++)
        TRY(receive(t, r, &cards[r], sizeof *cards));
    for (uint32_t r = 1; r < t->n_ranks; r++)
        TRY(send(t, r, cards, bytes));
    return COMET_OK;
}

void cards_count_node(const card *cards, uint32_t n_ranks, uint32_t rank, uint32_t *n_on_node, uint32_t *rank_on_node)
{
    *n_on_node = *rank_on_node = 0;
    for (uint32_t r = 0; r < n_ranks; r++) {
        const bool here = cards[r].node == cards[rank].node;
        *n_on_node += here;
        *rank_on_node += here && r < rank;
    }
}
