/*
 * Sums: every rank sends its doubles to every other and adds all up in the order of the ranks, which takes the time of one
 * message. Broadcasts: pieces go down a binary tree, whose rank r sends to 2r + 1 and 2r + 2. Messages: in pieces; the receiver
 * answers the last with a receipt, so that the sender returns when all is there.
 */
#include "dist/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

comet_status exchange_create(exchange *e, uint32_t n_ranks)
{
    *e = (exchange){.n_ranks = n_ranks};
    e->came = malloc((size_t)n_ranks * SUM_PIECE * sizeof *e->came);
    e->requests = malloc(2 * (size_t)n_ranks * sizeof *e->requests);
    if (e->came && e->requests)
        return COMET_OK;
    exchange_destroy(e);
    return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for sums over %u ranks",
                      (size_t)n_ranks * SUM_PIECE * sizeof *e->came, n_ranks);
}

uint64_t exchange_memory(uint32_t n_ranks)
{
    const exchange *e = NULL;
    return (uint64_t)n_ranks * (SUM_PIECE * sizeof *e->came + 2 * sizeof *e->requests);
}

void exchange_destroy(exchange *e)
{
    free(e->came);
    free(e->requests);
    *e = (exchange){0};
}

static void begin(exchange *e, comet_status (*advance)(work *, transport *, bool *, bool *), uint32_t peer, void *data,
                  size_t n)
{
    e->base = (work){.advance = advance};
    e->peer = peer;
    e->data = data;
    e->n = n;
    e->at = e->started = 0;
    e->n_requests = 0;
}

/* Forgets requests that are done; true where none is left. */
static comet_status poll_all(exchange *e, transport *t, bool *moved, bool *none_left)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->n_requests; i++) {
        TRY(request_poll(t, &e->requests[i], moved, NULL));
        if (e->requests[i] != TRANSPORT_NONE)
            e->requests[kept++] = e->requests[i];
    }
    e->n_requests = kept;
    *none_left = kept == 0;
    return COMET_OK;
}

static comet_status start_send(exchange *e, transport *t, uint32_t to, int tag, const void *data, size_t bytes)
{
    return t->send(t, to, tag, data, bytes, &e->requests[e->n_requests++]) ? COMET_OK : transport_failed(t);
}

static comet_status start_receive(exchange *e, transport *t, uint32_t from, int tag, void *data, size_t bytes)
{
    return t->receive(t, from, tag, data, bytes, &e->requests[e->n_requests++]) ? COMET_OK : transport_failed(t);
}

/* ---- sums ---- */

static void add_up(exchange *e, const transport *t, double *values, size_t n)
{
    memcpy(e->came + t->rank * n, values, n * sizeof *values);
    memcpy(values, e->came, n * sizeof *values);
    for (uint32_t r = 1; r < t->n_ranks; r++)
        for (size_t i = 0; i < n; i++)
            values[i] += e->came[r * n + i];
}

static comet_status advance_sum(work *w, transport *t, bool *moved, bool *ended)
{
    exchange *e = (exchange *)w;
    double *values = (double *)(void *)e->data;
    bool none_left;
    if (e->started > e->at) {
        TRY(poll_all(e, t, moved, &none_left));
        if (!none_left)
            return COMET_OK;
        add_up(e, t, values + e->at, e->started - e->at);
        e->at = e->started;
    }
    *ended = e->at == e->n;
    if (*ended)
        return COMET_OK;
    const size_t n = e->n - e->at < SUM_PIECE ? e->n - e->at : SUM_PIECE, bytes = n * sizeof(double);
    e->started = e->at + n;
    *moved = true;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        if (r == t->rank)
            continue;
        TRY(start_receive(e, t, r, TAG_SUM, e->came + r * n, bytes));
        TRY(start_send(e, t, r, TAG_SUM, values + e->at, bytes));
    }
    return COMET_OK;
}

void exchange_sum(exchange *e, double *values, size_t n)
{
    begin(e, advance_sum, 0, values, n);
}

/* ---- broadcasts ---- */

static comet_status pass_on(exchange *e, transport *t, size_t bytes)
{
    for (uint32_t child = 2 * t->rank + 1; child <= 2 * t->rank + 2; child++)
        if (child < t->n_ranks)
            TRY(start_send(e, t, child, TAG_BROADCAST, e->data + e->at, bytes));
    return COMET_OK;
}

/* A rank receives a piece (started > at), then sends it on (started == at + its bytes, peer says so). */
static comet_status advance_broadcast(work *w, transport *t, bool *moved, bool *ended)
{
    exchange *e = (exchange *)w;
    enum { IDLE = 0, RECEIVING, PASSING };
    bool none_left = true;
    if (e->peer != IDLE)
        TRY(poll_all(e, t, moved, &none_left));
    if (!none_left)
        return COMET_OK;
    if (e->peer == PASSING)
        e->at = e->started;
    const size_t bytes = e->n - e->at < BROADCAST_PIECE ? e->n - e->at : BROADCAST_PIECE;
    *ended = bytes == 0;
    if (*ended)
        return COMET_OK;
    *moved = true;
    e->started = e->at + bytes;
    if (e->peer != RECEIVING && t->rank > 0) {
        e->peer = RECEIVING;
        return start_receive(e, t, (t->rank - 1) / 2, TAG_BROADCAST, e->data + e->at, bytes);
    }
    e->peer = PASSING;
    return pass_on(e, t, bytes);
}

void exchange_broadcast(exchange *e, void *data, size_t bytes)
{
    begin(e, advance_broadcast, 0, data, bytes);
}

/* ---- from one rank to another ---- */

/* The next piece; its bytes are 0 after the last. */
static size_t next_piece(exchange *e)
{
    e->at = e->started;
    const size_t bytes = e->n - e->at < POINT_PIECE ? e->n - e->at : POINT_PIECE;
    e->started += bytes;
    return bytes;
}

/* The step of the receipt comes after the last piece; `receipt` counts it. */
static comet_status advance_point(exchange *e, transport *t, bool *moved, bool *ended, bool sends)
{
    bool none_left;
    TRY(poll_all(e, t, moved, &none_left));
    if (!none_left)
        return COMET_OK;
    const size_t bytes = next_piece(e);
    *ended = bytes == 0 && e->receipt == 1;
    if (*ended)
        return COMET_OK;
    *moved = true;
    if (bytes == 0) {
        e->receipt = 1;
        return sends ? start_receive(e, t, e->peer, TAG_RECEIPT, &e->receipt, 1)
                     : start_send(e, t, e->peer, TAG_RECEIPT, &e->receipt, 1);
    }
    return sends ? start_send(e, t, e->peer, TAG_POINT, e->data + e->at, bytes)
                 : start_receive(e, t, e->peer, TAG_POINT, e->data + e->at, bytes);
}

static comet_status advance_send(work *w, transport *t, bool *moved, bool *ended)
{
    return advance_point((exchange *)w, t, moved, ended, true);
}

static comet_status advance_receive(work *w, transport *t, bool *moved, bool *ended)
{
    return advance_point((exchange *)w, t, moved, ended, false);
}

void exchange_send(exchange *e, uint32_t to, const void *data, size_t bytes)
{
    void *bare;
    memcpy(&bare, &data, sizeof bare); /* the sender's bytes are only read */
    begin(e, advance_send, to, bare, bytes);
    e->receipt = 0;
}

void exchange_receive(exchange *e, uint32_t from, void *data, size_t bytes)
{
    begin(e, advance_receive, from, data, bytes);
    e->receipt = 0;
}
