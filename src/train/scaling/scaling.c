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
    double total_bytes; /* of all gradients */
    double free;        /* the link */
    double now, waited; /* the rank; waited: for batch norms and buckets */
    double waited_for_buckets;
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
                                     .bucket_bytes = (uint64_t)2 << 20,
                                     .n_rooms = 8,
                                     .n_moving = 2,
                                     .n_behind = 4};
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

/* When the rank can update with a bucket. */
static double usable_at(const simulation *s, const bucket *b)
{
    return s->p->shard_optimiser ? b->summed : b->arrived;
}

/* When bucket i asks for its next phase: when it is full and may move, or when its sum is used. */
static double asks_at(const simulation *s, uint32_t i)
{
    const bucket *b = &s->buckets[i];
    const uint32_t n = s->p->n_moving;
    if (!b->sum_sent)
        return fmax(b->full, i >= n ? usable_at(s, &s->buckets[i - n]) : 0);
    return b->gather_sent ? never : b->gather;
}

/* Serves the phase that was asked for first if it begins before `until`. */
static bool serve_next(simulation *s, double until)
{
    bucket *b = NULL;
    double asked = never;
    for (uint32_t i = 0; i < s->n_full; i++)
        if (asks_at(s, i) < asked) {
            b = &s->buckets[i];
            asked = asks_at(s, i);
        }
    if (!b || !(fmax(asked, s->free) < until))
        return false;
    s->free = fmax(asked, s->free) + occupied_by(s->p, b->bytes);
    const double there = s->free + latency_of(s->p);
    if (b->sum_sent) {
        b->gather_sent = true;
        b->arrived = there;
        return true;
    }
    b->sum_sent = true;
    b->summed = there;
    if (!s->p->shard_optimiser)
        b->gather = there;
    return true;
}

static void advance_link(simulation *s, double until)
{
    while (serve_next(s, until))
        ;
}

/* ---- the rank ---- */

static void wait_until(simulation *s, double moment)
{
    s->waited += fmax(moment - s->now, 0);
    s->now = fmax(moment, s->now);
}

/* Waits for *moment of a bucket, which the link decides. Nothing is asked for meanwhile but by buckets under way. */
static void wait_for(simulation *s, const double *moment)
{
    const double before = s->waited;
    while (*moment == never && serve_next(s, never))
        ;
    wait_until(s, *moment);
    s->waited_for_buckets += s->waited - before;
}

static void update(simulation *s)
{
    bucket *b = &s->buckets[s->n_updated++];
    const double share = b->bytes / s->total_bytes / (s->p->shard_optimiser ? s->p->n_ranks : 1);
    s->now += s->p->update * share;
    if (s->p->shard_optimiser)
        b->gather = s->now;
}

/* Waits for the oldest bucket that is under way, and uses it. */
static void take_back(simulation *s)
{
    bucket *b = &s->buckets[s->n_updated];
    advance_link(s, s->now);
    wait_for(s, s->p->shard_optimiser ? &b->summed : &b->arrived);
    update(s);
}

/* Uses buckets that have arrived meanwhile; with a sharded optimiser those that n_behind others follow. */
static void use_arrived(simulation *s)
{
    advance_link(s, s->now);
    while (s->p->shard_optimiser && s->n_full - s->n_updated >= s->p->n_behind)
        take_back(s);
    while (!s->p->shard_optimiser && s->n_updated < s->n_full && s->buckets[s->n_updated].arrived <= s->now) {
        update(s);
        advance_link(s, s->now);
    }
}

/* A bucket begins to be filled, in the room of one that is done with. */
static void find_room(simulation *s)
{
    if (s->n_full < s->p->n_rooms)
        return;
    const uint32_t oldest = s->n_full - s->p->n_rooms;
    while (s->n_updated <= oldest)
        take_back(s);
    wait_for(s, &s->buckets[oldest].arrived);
}

static void send_bucket(simulation *s, double bytes)
{
    s->buckets[s->n_full++] = (bucket){.bytes = bytes, .full = s->now, .summed = never, .gather = never, .arrived = never};
    s->now += bytes * s->p->host;
    use_arrived(s);
}

/* One sum of a synchronised batch norm. */
static void wait_for_norm(simulation *s)
{
    if (s->p->sync_batch_norm)
        wait_until(s, s->now + 2 * (latency_of(s->p) + messages_of(s->p)));
}

/* Puts a layer's gradients into buckets; returns what is in the last, which is not full. */
static double fill_buckets(simulation *s, double filled, double bytes)
{
    const double most = (double)s->p->bucket_bytes;
    while (bytes > 0) {
        if (!(filled > 0))
            find_room(s);
        const double part = fmin(most - filled, bytes);
        filled += part;
        bytes -= part;
        if (filled >= most) {
            send_bucket(s, filled);
            filled = 0;
        }
    }
    return filled;
}

static void walk_backward(simulation *s)
{
    double filled = 0;
    for (size_t i = 0; i < s->p->n_layers; i++) {
        use_arrived(s);
        s->now += s->p->layers[i].seconds;
        if (s->p->layers[i].norm)
            wait_for_norm(s);
        filled = fill_buckets(s, filled, 4.0 * (double)s->p->layers[i].parameters);
    }
    if (filled > 0)
        send_bucket(s, filled);
}

static void finish_buckets(simulation *s)
{
    while (s->n_updated < s->n_full)
        take_back(s);
    for (uint32_t i = 0; i < s->n_full; i++)
        wait_for(s, &s->buckets[i].arrived);
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
    r.hidden = r.moving > 0 ? 1 - s->waited_for_buckets / r.moving : 1;
    r.efficiency = r.alone / r.step;
    r.bytes_sent = (uint64_t)(2 * (n - 1) / n * s->total_bytes * s->p->wire_bytes / 4);
    r.bucket_bytes = s->p->bucket_bytes * (s->n_full < s->p->n_rooms ? s->n_full : s->p->n_rooms);
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
    if (p->n_rooms == 0 || p->n_moving == 0 || p->n_behind == 0 || p->n_behind > p->n_rooms)
        return comet_fail(COMET_ERROR_ARGUMENT, "%" PRIu32 " buckets, %" PRIu32 " moving and %" PRIu32 " in between cannot be",
                          p->n_rooms, p->n_moving, p->n_behind);
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
