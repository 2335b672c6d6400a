/*
 * A star: every rank sends a beat to rank 0 each second, and rank 0 one to every rank. A rank that ends tells rank 0, which
 * tells all. A rank that was not running itself, because it was stopped or the machine asleep, counts the others' silence from
 * then on.
 *
 * Processes of the same machine are watched through their descriptors (pidfd), which tell at once that one has ended: a
 * launcher gives a rank a second or less to say so before it kills it too.
 */
#define _DEFAULT_SOURCE /* syscall */
#include "dist/health.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "dist/work.h"

static const double beat_seconds = 1, tick_seconds = 0.1, asleep_seconds = 2;

typedef enum message_kind { MESSAGE_BEAT = 1, MESSAGE_END } message_kind;

typedef struct message {
    uint32_t kind, from;
    char text[HEALTH_TEXT_BYTES];
} message;

typedef struct peer {
    uint32_t rank;
    int sending, receiving;
    double heard;
    message out, in;
} peer;

struct health {
    const card *cards;
    double silent_seconds, last_tick, last_beat;
    bool telling;
    size_t n_peers, n_watched;
    struct pollfd *watched; /* processes of this machine */
    uint32_t *watched_ranks;
    peer peers[];
};

/* POSIX has no name for it. Not there before Linux 5.3, where beats alone must do. */
static int open_process(uint32_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u);
#else
    (void)pid;
    return -1;
#endif
}

static void watch_machine(health *h, const transport *t)
{
    const card *own = &h->cards[t->rank];
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const card *other = &h->cards[r];
        if (r == t->rank || other->node != own->node || other->pid_space != own->pid_space || other->pid == own->pid)
            continue;
        const int descriptor = open_process(other->pid);
        if (descriptor < 0)
            continue;
        h->watched_ranks[h->n_watched] = r;
        h->watched[h->n_watched++] = (struct pollfd){.fd = descriptor, .events = POLLIN};
    }
}

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
    const size_t n = t->n_ranks;
    health *h = calloc(1, sizeof *h + n * sizeof *h->peers);
    struct pollfd *watched = calloc(n, sizeof *watched);
    uint32_t *ranks = calloc(n, sizeof *ranks);
    if (!h || !watched || !ranks) {
        free(h);
        free(watched);
        free(ranks);
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes to watch %zu ranks", n * sizeof *h->peers, n);
    }
    h->cards = cards;
    h->silent_seconds = silent_seconds;
    h->watched = watched;
    h->watched_ranks = ranks;
    watch_machine(h, t);
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
    for (size_t i = 0; i < h->n_watched; i++)
        close(h->watched[i].fd);
    free(h->watched);
    free(h->watched_ranks);
    free(h);
}

/* ---- messages ---- */

/* Nothing is sent to a peer that has not taken the last message yet. */
static comet_status tell(peer *p, transport *t, message_kind kind, const char *text)
{
    bool moved = false;
    TRY(request_poll(t, &p->sending, &moved, NULL));
    if (p->sending != TRANSPORT_NONE)
        return COMET_OK;
    p->out = (message){.kind = (uint32_t)kind, .from = t->rank};
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
        TRY(tell(&h->peers[i], t, MESSAGE_BEAT, ""));
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

/* The lowest other rank of the machine says so. */
static bool is_lowest_beside(const health *h, uint32_t own, uint32_t ended)
{
    for (size_t i = 0; i < h->n_watched; i++)
        if (h->watched_ranks[i] != ended && h->watched_ranks[i] < own)
            return false;
    return true;
}

static void find_ended(const health *h, uint32_t own, verdict *found)
{
    if (h->n_watched == 0 || poll(h->watched, (nfds_t)h->n_watched, 0) <= 0)
        return;
    for (size_t i = 0; i < h->n_watched && !found->found; i++) {
        const uint32_t r = h->watched_ranks[i];
        if (h->watched[i].revents == 0)
            continue;
        found->found = true;
        found->speak = is_lowest_beside(h, own, r);
        snprintf(found->text, sizeof found->text, "rank %u on host %s has died; the job ends", r, h->cards[r].host);
    }
}

static void forgive(health *h, double seconds)
{
    for (size_t i = 0; i < h->n_peers; i++)
        h->peers[i].heard += seconds;
}

comet_status health_tick(health *h, transport *t, verdict *found)
{
    const double now = comet_seconds(), asleep = now - h->last_tick;
    if (asleep < tick_seconds)
        return COMET_OK;
    if (asleep > asleep_seconds)
        forgive(h, asleep);
    h->last_tick = now;
    TRY(hear(h, t, now, found));
    if (!found->found)
        find_ended(h, t->rank, found);
    if (!found->found)
        find_silent(h, t->rank, now, found);
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
            (void)tell(p, t, MESSAGE_END, text);
        all = all && p->sending == TRANSPORT_NONE;
    }
    h->telling = true;
    return all;
}
