/* Each call becomes a work for the thread (mover.h). Reductions have a ring of places, others one at a time. */
#include "dist/group.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/status.h"
#include "dist/exchange.h"
#include "dist/reduction.h"

typedef struct group {
    mover *mover;
    reducer *reducer;
    exchange exchange;
    uint32_t rank, n_ranks;
    uint32_t n_begun, n_ended;              /* all before n_ended have ended */
    bool ended[COMET_RANKS_MAX_REDUCTIONS]; /* of those from n_ended on */
    reduction reductions[COMET_RANKS_MAX_REDUCTIONS];
} group;

static comet_status run_exchange(group *g)
{
    mover_give(g->mover, &g->exchange.base);
    return mover_wait(g->mover, &g->exchange.base);
}

static comet_status sum(void *self, double *values, size_t n)
{
    group *g = self;
    exchange_sum(&g->exchange, values, n);
    return run_exchange(g);
}

static comet_status broadcast(void *self, void *data, size_t bytes)
{
    group *g = self;
    exchange_broadcast(&g->exchange, data, bytes);
    return run_exchange(g);
}

static comet_status check_other(const group *g, uint32_t rank)
{
    if (rank < g->n_ranks && rank != g->rank)
        return COMET_OK;
    return comet_fail(COMET_ERROR_ARGUMENT, "rank %u of %u cannot exchange a message with rank %u", g->rank, g->n_ranks, rank);
}

static comet_status send(void *self, uint32_t to, const void *data, size_t bytes)
{
    group *g = self;
    TRY(check_other(g, to));
    exchange_send(&g->exchange, to, data, bytes);
    return run_exchange(g);
}

static comet_status receive(void *self, uint32_t from, void *data, size_t bytes)
{
    group *g = self;
    TRY(check_other(g, from));
    exchange_receive(&g->exchange, from, data, bytes);
    return run_exchange(g);
}

static comet_status reduce_begin(void *self, comet_reduction kind, uint64_t key, float *data, size_t n, uint32_t *number)
{
    group *g = self;
    if (g->n_begun - g->n_ended == COMET_RANKS_MAX_REDUCTIONS)
        return comet_fail(COMET_ERROR_ARGUMENT, "%d reductions are under way, more are not possible",
                          COMET_RANKS_MAX_REDUCTIONS);
    *number = g->n_begun++;
    reduction *w = &g->reductions[*number % COMET_RANKS_MAX_REDUCTIONS];
    reduction_begin(w, g->reducer, kind, key, data, n, *number);
    mover_give(g->mover, &w->base);
    return COMET_OK;
}

static bool reduce_is_done(void *self, uint32_t number)
{
    group *g = self;
    return mover_has_ended(g->mover, &g->reductions[number % COMET_RANKS_MAX_REDUCTIONS].base);
}

static comet_status reduce_end(void *self, uint32_t number)
{
    group *g = self;
    const uint32_t at = number % COMET_RANKS_MAX_REDUCTIONS;
    if (number - g->n_ended >= g->n_begun - g->n_ended || g->ended[at])
        return comet_fail(COMET_ERROR_ARGUMENT, "reduction %u is not under way: %u were begun, all before %u have ended",
                          number, g->n_begun, g->n_ended);
    TRY(mover_wait(g->mover, &g->reductions[at].base));
    g->ended[at] = true;
    while (g->n_ended < g->n_begun && g->ended[g->n_ended % COMET_RANKS_MAX_REDUCTIONS])
        g->ended[g->n_ended++ % COMET_RANKS_MAX_REDUCTIONS] = false;
    return COMET_OK;
}

static comet_status describe(void *self, comet_ranks_figures *figures)
{
    group *g = self;
    comet_ranks_figures found = {.seconds_waited = mover_seconds_waited(g->mover),
                                 .seconds_moving = mover_seconds_moving(g->mover)};
    reducer_bytes(g->reducer, &found.bytes_sent, &found.bytes_plain);
    return GIVE(comet_ranks_figures, figures, &found);
}

static void mark(void *self, comet_rank_phase phase)
{
    const group *g = self;
    mover_mark(g->mover, phase);
}

static void fill(comet_ranks *ranks, group *g)
{
    *ranks = (comet_ranks){.size = sizeof *ranks,
                           .self = g,
                           .rank = g->rank,
                           .n_ranks = g->n_ranks,
                           .sum = sum,
                           .broadcast = broadcast,
                           .send = send,
                           .receive = receive,
                           .reduce_begin = reduce_begin,
                           .reduce_is_done = reduce_is_done,
                           .reduce_end = reduce_end,
                           .describe = describe,
                           .mark = mark,
                           .message_bytes = reducer_memory(g->reducer) + exchange_memory(g->n_ranks),
                           .kept_per_float = reducer_kept_per_float(g->reducer)};
    cards_count_node(mover_cards(g->mover), g->n_ranks, g->rank, &ranks->n_on_node, &ranks->rank_on_node);
}

static void release(group *g)
{
    mover_destroy(g->mover);
    reducer_destroy(g->reducer);
    exchange_destroy(&g->exchange);
    free(g);
}

static comet_status open_group(group *g, const mover_settings *settings, const comet_dist_params *params)
{
    TRY(mover_create(&g->mover, settings));
    const transport *t = mover_transport(g->mover);
    g->rank = t->rank;
    g->n_ranks = t->n_ranks;
    const reducer_settings reducing = {.rank = t->rank,
                                       .n_ranks = t->n_ranks,
                                       .wire = params->wire,
                                       .coded_share = params->coded_share,
                                       .with_mpi = params->reduce_with_mpi};
    TRY(reducer_create(&g->reducer, &reducing));
    return exchange_create(&g->exchange, t->n_ranks);
}

comet_status comet_dist_message_bytes(const comet_dist_params *params, uint32_t n_ranks, uint64_t *bytes)
{
    const reducer_settings reducing = {.n_ranks = n_ranks, .wire = params->wire, .coded_share = params->coded_share};
    TRY(reducer_plan(&reducing, bytes));
    *bytes += exchange_memory(n_ranks);
    return COMET_OK;
}

comet_status group_create(comet_ranks *ranks, const mover_settings *settings, const comet_dist_params *params)
{
    group *g = calloc(1, sizeof *g);
    if (!g)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for the ranks", sizeof *g);
    const comet_status status = open_group(g, settings, params);
    if (status != COMET_OK) {
        release(g);
        return status;
    }
    fill(ranks, g);
    return COMET_OK;
}

/* Nobody watches the others after the first sum, so that none is missed which leaves after the second. */
static comet_status leave(group *g)
{
    double nothing = 0;
    TRY(sum(g, &nothing, 1));
    mover_leave(g->mover);
    return sum(g, &nothing, 1);
}

comet_status group_destroy(comet_ranks *ranks, bool together)
{
    group *g = ranks->self;
    const comet_status status = together ? leave(g) : COMET_OK;
    release(g);
    ranks->self = NULL;
    return status;
}

void group_tell(const comet_ranks *ranks, const char *sentence)
{
    const group *g = ranks->self;
    mover_tell(g->mover, sentence);
}

const card *group_card(const comet_ranks *ranks, uint32_t rank)
{
    const group *g = ranks->self;
    return &mover_cards(g->mover)[rank];
}
