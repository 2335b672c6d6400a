/*
 * A star: every rank sends a beat to rank 0 each second, and rank 0 one to every rank. A rank that ends tells rank 0, which
 * tells all. A rank that was not running itself, because it was stopped or the machine asleep, counts the others' silence from
 * then on.
 *
 * Beats tell how a rank gets on (pulse.h). A rank that stands still for longer than its patience hangs if another one has
 * waited for at least half of that time; where nobody waits, all may be slow for the same reason.
 */
#include "dist/health.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "dist/work.h"

static const double beat_seconds = 1, tick_seconds = 0.1, asleep_seconds = 2;

typedef enum message_kind { MESSAGE_BEAT = 1, MESSAGE_END } message_kind;

typedef struct message {
    uint32_t kind, from;
    pulse_report report;
    char text[HEALTH_TEXT_BYTES];
} message;

typedef struct peer {
    uint32_t rank;
    int sending, receiving;
    double heard;
    pulse_report report; /* its last */
    message out, in;
} peer;

struct health {
    const card *cards;
    double silent_seconds, last_tick, last_beat;
    bool telling;
    pulse_report own;
    size_t n_peers;
    peer peers[];
};

static comet_status listen_to(peer *p, transport *t)
{
    return t->receive(t, p->rank, TAG_HEALTH, &p->in, sizeof p->in, &p->receiving) ? COMET_OK : transport_failed(t);
}

static comet_status meet_peers(health *h, transport *t)
{
    const double now = comet_seconds();
    h->n_peers = t->rank == 0 ? t->n_ranks - 1 : 1;
    for (size_t i = 0; i < h->n_peers; i++) {
        h->peers[i].rank = t->rank == 0 ? (uint32_t)i + 1 : 0;
        h->peers[i].heard = now;
        h->peers[i].sending = h->peers[i].receiving = TRANSPORT_NONE;
    }
    for (size_t i = 0; i < h->n_peers; i++)
        TRY(listen_to(&h->peers[i], t));
    h->last_tick = now;
    return COMET_OK;
}

comet_status health_create(health **out, transport *t, const card *cards, double silent_seconds)
{
    health *h = calloc(1, sizeof *h + t->n_ranks * sizeof *h->peers);
    if (!h)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes to hear from %u ranks",
                          t->n_ranks * sizeof *h->peers, t->n_ranks);
    h->cards = cards;
    h->silent_seconds = silent_seconds;
    *out = h;
    return meet_peers(h, t);
}

void health_destroy(health *h, transport *t)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n_peers; i++)
        if (h->peers[i].receiving != TRANSPORT_NONE)
            t->drop(t, h->peers[i].receiving);
    free(h);
}

/* ---- messages ---- */

/* Nothing is sent to a peer that has not taken the last message yet. */
static comet_status tell(const health *h, peer *p, transport *t, message_kind kind, const char *text)
{
    bool moved = false;
    TRY(request_poll(t, &p->sending, &moved, NULL));
    if (p->sending != TRANSPORT_NONE)
        return COMET_OK;
    p->out = (message){.kind = (uint32_t)kind, .from = t->rank, .report = h->own};
    snprintf(p->out.text, sizeof p->out.text, "%s", text);
    return t->send(t, p->rank, TAG_HEALTH, &p->out, sizeof p->out, &p->sending) ? COMET_OK : transport_failed(t);
}

static comet_status hear(health *h, transport *t, double now, verdict *found)
{
    for (size_t i = 0; i < h->n_peers; i++) {
        peer *p = &h->peers[i];
        bool came = false;
        TRY(request_poll(t, &p->receiving, &came, NULL));
        if (!came)
            continue;
        p->heard = now;
        p->report = p->in.report;
        if (p->in.kind == MESSAGE_END) {
            found->found = true;
            found->speak = false;
            snprintf(found->text, sizeof found->text, "%.*s", (int)sizeof p->in.text - 1, p->in.text);
            return COMET_OK;
        }
        TRY(listen_to(p, t));
    }
    return COMET_OK;
}

static comet_status beat(health *h, transport *t, double now)
{
    if (now - h->last_beat < beat_seconds)
        return COMET_OK;
    h->last_beat = now;
    for (size_t i = 0; i < h->n_peers; i++)
        TRY(tell(h, &h->peers[i], t, MESSAGE_BEAT, ""));
    return COMET_OK;
}

/* ---- verdicts ---- */

static void find_silent(const health *h, uint32_t own, double now, verdict *found)
{
    for (size_t i = 0; i < h->n_peers && !found->found; i++) {
        const peer *p = &h->peers[i];
        if (now - p->heard < h->silent_seconds)
            continue;
        found->found = true;
        found->speak = own <= 1; /* all others miss rank 0 at the same time */
        snprintf(found->text, sizeof found->text, "rank %u on host %s does not answer since %.0f s; the job ends", p->rank,
                 h->cards[p->rank].host, now - p->heard);
    }
}

/* The longest that a rank other than `but` has waited; rank 0's report is its own. */
static double most_waited(const health *h, uint32_t but)
{
    double most = but == 0 ? 0 : h->own.waited;
    for (size_t i = 0; i < h->n_peers; i++)
        if (h->peers[i].rank != but && h->peers[i].report.waited > most)
            most = h->peers[i].report.waited;
    return most;
}

static void judge(const health *h, uint32_t rank, const pulse_report *r, verdict *found)
{
    if (found->found || !(r->idle > r->patience) || !(most_waited(h, rank) > r->idle / 2))
        return;
    found->found = found->speak = true;
    snprintf(found->text, sizeof found->text,
             "rank %u on host %s makes no progress since %.0f s, and others wait for it; the job ends", rank,
             h->cards[rank].host, r->idle);
}

/* Rank 0 alone hears from all. */
static void find_hung(const health *h, uint32_t own, verdict *found)
{
    if (own != 0)
        return;
    judge(h, 0, &h->own, found);
    for (size_t i = 0; i < h->n_peers; i++)
        judge(h, h->peers[i].rank, &h->peers[i].report, found);
}

static void forgive(health *h, double seconds)
{
    for (size_t i = 0; i < h->n_peers; i++)
        h->peers[i].heard += seconds;
}

bool health_is_due(const health *h, double now)
{
    return now - h->last_tick >= tick_seconds;
}

comet_status health_tick(health *h, transport *t, double now, const pulse_report *own, verdict *found)
{
    const double asleep = now - h->last_tick;
    if (asleep > asleep_seconds)
        forgive(h, asleep);
    h->last_tick = now;
    h->own = *own;
    TRY(hear(h, t, now, found));
    if (!found->found)
        find_silent(h, t->rank, now, found);
    if (!found->found)
        find_hung(h, t->rank, found);
    return found->found ? COMET_OK : beat(h, t, now);
}

bool health_tell(health *h, transport *t, const char *text)
{
    bool all = true;
    for (size_t i = 0; i < h->n_peers; i++) {
        peer *p = &h->peers[i];
        bool moved = false;
        if (request_poll(t, &p->sending, &moved, NULL) != COMET_OK)
            continue;
        if (p->sending == TRANSPORT_NONE && (!h->telling || p->out.kind != MESSAGE_END))
            (void)tell(h, p, t, MESSAGE_END, text);
        all = all && p->sending == TRANSPORT_NONE;
    }
    h->telling = true;
    return all;
}
