/*
 * The model of a step on several ranks; see comet/scaling.h.
 *
 * Two things have a time of their own: the rank, which walks through backward and updates, and the link, which serves phases of
 * buckets in the order in which they were asked for. The link is advanced to the rank's time before the rank looks at it, so
 * that nothing that it does then can be overtaken by what is asked for later.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/describe.h"
#include "base/status.h"
#include "comet/scaling.h"

static const double never = INFINITY;

/* Moments; `never` until they are known. */
typedef struct bucket {
    double bytes;   /* of gradients, 4 each */
    double full;    /* its sum is asked for */
    double summed;  /* this rank's part is there */
    double gather;  /* the other parts are asked for */
    double arrived; /* they are there */
    bool sum_sent, gather_sent;
} bucket;

typedef struct simulation {
    const comet_scaling_params *p;
    bucket *buckets;
    uint32_t n_full, n_updated;
    double total_bytes;  /* of all gradients */
    double free;         /* the link */
    double now, waited;  /* the rank */
    double waited_after; /* of it, for buckets after backward */
    double held, held_most;
} simulation;

void comet_scaling_params_init(comet_scaling_params *params)
{
    *params = (comet_scaling_params){.size = sizeof *params,
                                     .n_ranks = 1,
                                     .n_on_node = 1,
                                     .link = 1.25e9,
                                     .memory = 5e9,
                                     .latency = 50e-6,
                                     .message = 1e-6,
                                     .wire_bytes = 4,
                                     .bucket_bytes = (uint64_t)4 << 20};
}

void comet_scaling_init(comet_scaling *scaling)
{
    *scaling = (comet_scaling){.size = sizeof *scaling};
}

/* ---- the link ---- */

static bool leaves_node(const comet_scaling_params *p)
{
    return p->n_ranks > p->n_on_node;
}

static double messages_of(const comet_scaling_params *p)
{
    return (p->n_ranks - 1) * p->message;
}

/* How long a phase has the link for itself. */
static double occupied_by(const comet_scaling_params *p, double bytes)
{
    const double n = p->n_ranks, m = p->n_on_node, wire = bytes * p->wire_bytes / 4;
    return fmax(m * (n - m) / n * wire / p->link, m * (m - 1) / n * wire / p->memory) + messages_of(p);
}

static double latency_of(const comet_scaling_params *p)
{
    return leaves_node(p) ? p->latency : 0;
}

/* The phase that was asked for first: its bucket, and when. NULL: there is none. */
static bucket *next_phase(simulation *s, double *asked)
{
    bucket *next = NULL;
    *asked = never;
    for (uint32_t i = 0; i < s->n_full; i++) {
        bucket *b = &s->buckets[i];
        const double at = !b->sum_sent ? b->full : !b->gather_sent ? b->gather : never;
        if (at < *asked) {
            next = b;
            *asked = at;
        }
    }
    return next;
}

/* Serves all phases that begin before `until`. */
static void advance_link(simulation *s, double until)
{
    double asked;
    for (bucket *b = next_phase(s, &asked); b && fmax(asked, s->free) < until; b = next_phase(s, &asked)) {
        s->free = fmax(asked, s->free) + occupied_by(s->p, b->bytes);
        const double there = s->free + latency_of(s->p);
        if (b->sum_sent) {
            b->gather_sent = true;
            b->arrived = there;
            continue;
        }
        b->sum_sent = true;
        b->summed = there;
        if (!s->p->shard_optimiser)
            b->gather = there;
    }
}

/* ---- the rank ---- */

/* When the rank can update with a bucket. */
static double usable_at(const simulation *s, const bucket *b)
{
    return s->p->shard_optimiser ? b->summed : b->arrived;
}

static void update(simulation *s)
{
    bucket *b = &s->buckets[s->n_updated++];
    const double share = b->bytes / s->total_bytes / (s->p->shard_optimiser ? s->p->n_ranks : 1);
    s->now += s->p->update * share;
    s->held -= b->bytes;
    if (s->p->shard_optimiser)
        b->gather = s->now;
}

/* Buckets that have arrived meanwhile, in the order in which they were filled. */
static void update_arrived(simulation *s)
{
    advance_link(s, s->now);
    while (s->n_updated < s->n_full && usable_at(s, &s->buckets[s->n_updated]) <= s->now) {
        update(s);
        advance_link(s, s->now);
    }
}

static void wait_until(simulation *s, double moment)
{
    s->waited += fmax(moment - s->now, 0);
    s->now = fmax(moment, s->now);
}

static void send_bucket(simulation *s, double bytes)
{
    s->buckets[s->n_full++] = (bucket){.bytes = bytes, .full = s->now, .summed = never, .gather = never, .arrived = never};
    s->held += bytes;
    s->held_most = fmax(s->held_most, s->held);
    s->now += bytes * s->p->host;
}

/* One sum of a synchronised batch norm. */
static void wait_for_norm(simulation *s)
{
    if (s->p->sync_batch_norm)
        wait_until(s, s->now + 2 * (latency_of(s->p) + messages_of(s->p)));
}

static void walk_backward(simulation *s)
{
    const double room = (double)s->p->bucket_bytes;
    double filled = 0;
    for (size_t i = 0; i < s->p->n_layers; i++) {
        update_arrived(s);
        s->now += s->p->layers[i].seconds;
        if (s->p->layers[i].norm)
            wait_for_norm(s);
        for (filled += 4.0 * (double)s->p->layers[i].parameters; filled >= room; filled -= room)
            send_bucket(s, room);
    }
    if (filled > 0)
        send_bucket(s, filled);
}

static void finish_buckets(simulation *s)
{
    const double before = s->waited;
    while (s->n_updated < s->n_full) {
        advance_link(s, never);
        wait_until(s, usable_at(s, &s->buckets[s->n_updated]));
        update(s);
    }
    advance_link(s, never);
    for (uint32_t i = 0; i < s->n_full; i++)
        wait_until(s, s->buckets[i].arrived);
    s->waited_after = s->waited - before;
}

/* ---- what it comes to ---- */

static double alone(const comet_scaling_params *p)
{
    double seconds = p->forward + p->update;
    for (size_t i = 0; i < p->n_layers; i++)
        seconds += p->layers[i].seconds;
    return seconds;
}

/* Buckets are full in their order. */
static double time_moving(const simulation *s)
{
    double moving = 0, until = 0;
    for (uint32_t i = 0; i < s->n_full; i++) {
        const bucket *b = &s->buckets[i];
        moving += fmax(b->arrived - fmax(b->full, until), 0);
        until = fmax(until, b->arrived);
    }
    return moving;
}

static comet_scaling result_of(const simulation *s)
{
    const double n = s->p->n_ranks;
    comet_scaling r = {.step = s->now, .alone = alone(s->p), .moving = time_moving(s), .waited = s->waited};
    r.hidden = r.moving > 0 ? 1 - s->waited_after / r.moving : 1;
    r.efficiency = r.alone / r.step;
    r.bytes_sent = (uint64_t)(2 * (n - 1) / n * s->total_bytes * s->p->wire_bytes / 4);
    r.bytes_in_buckets = (uint64_t)s->held_most;
    r.n_buckets = s->n_full;
    return r;
}

static void simulate(simulation *s)
{
    s->now = s->p->forward;
    for (size_t i = 0; i < s->p->n_layers; i++)
        if (s->p->layers[i].norm)
            wait_for_norm(s);
    walk_backward(s);
    finish_buckets(s);
}

static comet_scaling of_one_rank(const comet_scaling_params *p)
{
    const double seconds = alone(p);
    return (comet_scaling){.step = seconds, .alone = seconds, .hidden = 1, .efficiency = 1};
}

static comet_status check(const comet_scaling_params *p)
{
    if (!p || p->size != sizeof *p || !p->layers || p->n_layers == 0)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "a prediction needs parameters filled by comet_scaling_params_init, and layers");
    if (p->n_ranks == 0 || p->n_on_node == 0 || p->n_ranks % p->n_on_node != 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%" PRIu32 " ranks cannot be spread with %" PRIu32 " on each node", p->n_ranks,
                          p->n_on_node);
    if (!(p->link > 0) || !(p->memory > 0) || !(p->latency >= 0) || !(p->message >= 0) || !(p->host >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "a link of %g bytes/s and %g s, memory of %g bytes/s, %g s a message and %g s a byte cannot be",
                          p->link, p->latency, p->memory, p->message, p->host);
    if (!(p->wire_bytes > 0) || p->bucket_bytes < 4 || !(alone(p) > 0) || !isfinite(alone(p)))
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "%g bytes on the wire, buckets of %" PRIu64 " bytes and a step of %g s cannot be", p->wire_bytes,
                          p->bucket_bytes, alone(p));
    return COMET_OK;
}

comet_status comet_scaling_predict(const comet_scaling_params *params, comet_scaling *scaling)
{
    simulation s = {.p = params};
    TRY(CHECK_SIZE(comet_scaling, scaling));
    TRY(check(params));
    for (size_t i = 0; i < params->n_layers; i++)
        s.total_bytes += 4.0 * (double)params->layers[i].parameters;
    comet_scaling result = of_one_rank(params);
    if (params->n_ranks > 1 && s.total_bytes > 0) {
        const double n_buckets = ceil(s.total_bytes / (double)params->bucket_bytes) + 1;
        if (n_buckets > 1 << 20)
            return comet_fail(COMET_ERROR_ARGUMENT, "buckets of %" PRIu64 " bytes would be %g", params->bucket_bytes,
                              n_buckets);
        s.buckets = calloc((size_t)n_buckets, sizeof *s.buckets);
        if (!s.buckets)
            return comet_fail(COMET_ERROR_MEMORY, "could not allocate %g buckets", n_buckets);
        simulate(&s);
        result = result_of(&s);
        free(s.buckets);
    }
    return GIVE(comet_scaling, scaling, &result);
}
