/* See exchange.h. */
#include "train/update/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "train/graph/ranks.h"
#include "train/graph/saving.h"
#include "train/math/reduce.h"
#include "train/ops/ops.h"
#include "train/update/update.h"

enum {
    BUCKET_FLOATS = 1 << 19, /* 2 MiB: long enough that latency hardly counts, short enough that the first leaves early */
    MAX_ROOMS = 8,           /* 16 MiB: at 1 Gbit/s, what the last layers of a net make while one bucket is under way */
    GATHER_BEHIND = 4,       /* shared out: so many are on their way to segments before the first comes back as weights */
    KEY_STATISTICS = -1,     /* of reductions; those of buckets are their numbers */
};

/* Models with ranks so far: all ranks make the same ones. */
static uint32_t n_exchanges;

struct exchange {
    bucket_list list;
    uint32_t n_rooms, next_piece;
    uint32_t n_begun, n_back, n_ended; /* buckets of this update; ended: its room is free */
    uint32_t numbers[MAX_ROOMS];       /* of the reductions in rooms */
    bool busy;                         /* reductions may be under way */
    uint64_t id; /* of the model, in keys of reductions: what coding left over of one is not added to another's */
    float *rooms, *statistics;
    uint64_t n_statistics; /* floats of running statistics that move */
    uint32_t statistics_number;
};

static struct {
    uint64_t bucket_floats;
    uint32_t n_rooms;
} limits = {BUCKET_FLOATS, MAX_ROOMS};

void exchange_limit(uint64_t bucket_floats, uint32_t n_rooms)
{
    limits.bucket_floats = padded_floats(min_u64(max_u64(bucket_floats, 1), BUCKET_FLOATS));
    limits.n_rooms = n_rooms < 1 ? 1 : n_rooms < MAX_ROOMS ? n_rooms : MAX_ROOMS;
}

static const comet_ranks *ranks_of(const comet_model *m)
{
    return m->params.ranks;
}

/* The room of bucket b, by number. */
static uint32_t place_of(const exchange *e, uint32_t b)
{
    return e->n_rooms > 0 ? b % e->n_rooms : 0;
}

static float *room_of(const exchange *e, uint32_t b)
{
    return e->rooms + place_of(e, b) * padded_floats(e->list.n_most);
}

bool exchange_shards(const comet_model *m)
{
    return m->exchange && m->params.shard_optimiser;
}

/* ---- planning ---- */

/* Calls `each` with the running statistics of every batch norm that moves them, and where they lie among all. */
typedef void statistics_fn(exchange *e, float *values, uint64_t n, uint64_t at);

static uint64_t for_statistics(comet_model *m, statistics_fn *each)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const batch_norm *b = batch_norm_of(&m->ops[i]);
        if (!b || !is_trained(m, m->ops[i].weight))
            continue;
        const uint32_t own[2] = {b->mean, b->variance};
        for (int k = 0; k < 2; k++) {
            const parameter *p = &m->parameters[own[k]];
            if (each)
                each(m->exchange, m->statistics + p->offset, p->n, at);
            at += p->n;
        }
    }
    return at;
}

comet_status exchange_plan(comet_model *m)
{
    if (!m->params.ranks || m->params.inference)
        return COMET_OK;
    exchange *e = m->exchange = calloc(1, sizeof *e);
    if (!e)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the exchange of gradients");
    TRY(bucket_list_make(&e->list, m, limits.bucket_floats));
    e->n_rooms = e->list.n_buckets < limits.n_rooms ? e->list.n_buckets : limits.n_rooms;
    e->n_statistics = for_statistics(m, NULL);
    if (m->params.shard_optimiser)
        m->n_state = e->list.n_own;
    return COMET_OK;
}

static uint64_t room_floats(const exchange *e)
{
    return e->n_rooms * padded_floats(e->list.n_most) + padded_floats(e->n_statistics);
}

static uint64_t bucket_floats(const exchange *e)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < e->list.n_buckets; k++)
        n += e->list.buckets[k].n;
    return n;
}

static uint64_t exchange_bytes(const comet_model *m)
{
    return max_u64(room_floats(m->exchange), 1) * sizeof(float);
}

void exchange_count(comet_model *m)
{
    comet_memory *t = &m->memory;
    if (!m->exchange)
        return;
    const uint64_t bytes = exchange_bytes(m), elsewhere = t->optimiser - model_state_bytes(m, m->n_state);
    t->gradients += bytes;
    t->optimiser -= elsewhere;
    t->messages = ranks_of(m)->message_bytes + ranks_of(m)->kept_per_float * bucket_floats(m->exchange);
    t->total += bytes + t->messages - elsewhere;
}

const bucket_list *exchange_buckets(const comet_model *m)
{
    return &m->exchange->list;
}

comet_status exchange_allocate(comet_model *m)
{
    exchange *e = m->exchange;
    const comet_allocator allocator = comet_allocator_of(NULL);
    if (!e)
        return COMET_OK;
    e->rooms = comet_allocate(&allocator, exchange_bytes(m));
    if (!e->rooms)
        return COMET_ERROR_MEMORY;
    memset(e->rooms, 0, exchange_bytes(m));
    e->id = (uint64_t)++n_exchanges << 32;
    e->statistics = e->rooms + e->n_rooms * padded_floats(e->list.n_most);
    return COMET_OK;
}

void exchange_release(comet_model *m)
{
    exchange *e = m->exchange;
    const comet_allocator allocator = comet_allocator_of(NULL);
    if (!e)
        return;
    /* After a step that failed the rooms still belong to reductions; the process is about to end. */
    if (e->rooms && !e->busy)
        comet_release(&allocator, e->rooms, exchange_bytes(m));
    bucket_list_free(&e->list);
    free(e);
    m->exchange = NULL;
}

/* ---- a bucket that is back ---- */

/* Where the state of the bucket's float `at`, one of this rank's segment, lies in a block of states. */
static state_block own_state(const bucket *b, state_block block, uint64_t at)
{
    return state_at(block, b->state_at + (at - b->own_first));
}

static state_block state_of(const comet_model *m, const bucket *b, const bucket_piece *p, state_block block, uint64_t at)
{
    if (exchange_shards(m))
        return own_state(b, block, at);
    return state_at(block, m->parameters[p->parameter].offset + p->first + (at - p->at));
}

static void tell_piece(comet_model *m, const bucket *b, const bucket_piece *p, const float *room)
{
    uint64_t own_at, own_n;
    bucket_own_part(b, p, &own_at, &own_n);
    const bool shards = exchange_shards(m);
    const uint64_t state_at = shards ? own_at : p->at;
    const gradient_part part = {.op = &m->ops[p->op],
                                .parameter = p->parameter,
                                .first = p->first,
                                .n = p->n,
                                .gradient = room + p->at,
                                .own_first = p->first + (own_at - p->at),
                                .own_n = own_n,
                                .state_first = p->first + (state_at - p->at),
                                .state_n = shards ? own_n : p->n,
                                .momentum = state_of(m, b, p, m->momentum, state_at)};
    tell_gradient_used(m, &part, m->step);
}

/* Floats [at, at + n) of the bucket, which are of piece p. */
static void use_floats(comet_model *m, const optimiser_step *s, const bucket *b, const bucket_piece *p, uint64_t at, uint64_t n,
                       const float *room)
{
    const parameter *q = &m->parameters[p->parameter];
    const uint64_t first = p->first + (at - p->at);
    if (n == 0)
        return;
    if (m->params.fused_update)
        update_part(m, s, q, first, n, room + at, state_of(m, b, p, m->momentum, at), state_of(m, b, p, m->second_moment, at));
    else
        memcpy(m->gradients + q->offset + first, room + at, n * sizeof *room);
}

static void use_gradients(comet_model *m, const bucket *b, const float *room)
{
    const optimiser_step s = update_step(m);
    for (uint32_t i = b->first_piece; i < b->end_piece; i++) {
        const bucket_piece *p = &m->exchange->list.pieces[i];
        uint64_t at = p->at, n = p->n;
        tell_piece(m, b, p, room);
        if (exchange_shards(m))
            bucket_own_part(b, p, &at, &n);
        use_floats(m, &s, b, p, at, n, room);
    }
}

/* ---- weights of buckets, where each rank has new ones of its segment ---- */

static void copy_weights(const comet_model *m, const bucket *b, float *room, bool out)
{
    for (uint32_t i = b->first_piece; i < b->end_piece; i++) {
        const bucket_piece *p = &m->exchange->list.pieces[i];
        float *weights = m->weights + m->parameters[p->parameter].offset + p->first;
        memcpy(out ? room + p->at : weights, out ? weights : room + p->at, p->n * sizeof *room);
    }
}

static comet_status gather_begin(comet_model *m, uint32_t index)
{
    exchange *e = m->exchange;
    const comet_ranks *r = ranks_of(m);
    const bucket *b = &e->list.buckets[index];
    copy_weights(m, b, room_of(e, index), true);
    return r->reduce_begin(r->self, COMET_REDUCE_GATHER, e->id | index, room_of(e, index), b->n,
                           &e->numbers[place_of(e, index)]);
}

static comet_status gather_end(comet_model *m, uint32_t index)
{
    exchange *e = m->exchange;
    const comet_ranks *r = ranks_of(m);
    TRY(r->reduce_end(r->self, e->numbers[place_of(e, index)]));
    copy_weights(m, &e->list.buckets[index], room_of(e, index), false);
    return COMET_OK;
}

/* ---- the way of a bucket ---- */

/* Waits for the oldest bucket that is under way and uses it. */
static comet_status take_back(comet_model *m)
{
    exchange *e = m->exchange;
    const comet_ranks *r = ranks_of(m);
    const uint32_t index = e->n_back;
    TRY(r->reduce_end(r->self, e->numbers[place_of(e, index)]));
    use_gradients(m, &e->list.buckets[index], room_of(e, index));
    e->n_back++;
    if (exchange_shards(m) && m->params.fused_update)
        return gather_begin(m, index);
    return COMET_OK;
}

/* Frees the room of the oldest bucket. */
static comet_status end_oldest(comet_model *m)
{
    exchange *e = m->exchange;
    if (e->n_back == e->n_ended)
        TRY(take_back(m));
    if (exchange_shards(m) && m->params.fused_update)
        TRY(gather_end(m, e->n_ended));
    e->n_ended++;
    return COMET_OK;
}

/* Takes back what has arrived. Where weights go round as well, all ranks must do so at the same moments: by count. */
static comet_status look_for_arrivals(comet_model *m)
{
    exchange *e = m->exchange;
    const comet_ranks *r = ranks_of(m);
    if (exchange_shards(m)) {
        while (e->n_begun - e->n_back >= GATHER_BEHIND)
            TRY(take_back(m));
        return COMET_OK;
    }
    while (e->n_back < e->n_begun && r->reduce_is_done(r->self, e->numbers[place_of(e, e->n_back)]))
        TRY(take_back(m));
    return COMET_OK;
}

static comet_status send_bucket(comet_model *m, uint32_t index)
{
    exchange *e = m->exchange;
    const comet_ranks *r = ranks_of(m);
    TRY(r->reduce_begin(r->self, exchange_shards(m) ? COMET_REDUCE_SEGMENT : COMET_REDUCE_ALL, e->id | index, room_of(e, index),
                        e->list.buckets[index].n, &e->numbers[place_of(e, index)]));
    e->n_begun++;
    return look_for_arrivals(m);
}

static comet_status add_piece(comet_model *m, const op *o, uint32_t index)
{
    exchange *e = m->exchange;
    const bucket *b = &e->list.buckets[e->n_begun];
    const bucket_piece *p = &e->list.pieces[index];
    float *room = room_of(e, e->n_begun);
    while (e->n_begun - e->n_ended >= e->n_rooms)
        TRY(end_oldest(m));
    memcpy(room + p->at, gradient_at(m, o, p->parameter) + p->first, p->n * sizeof *room);
    memset(room + p->at + p->n, 0, (padded_floats(p->n) - p->n) * sizeof *room);
    return index + 1 == b->end_piece ? send_bucket(m, e->n_begun) : COMET_OK;
}

comet_status exchange_add(comet_model *m, const op *o)
{
    exchange *e = m->exchange;
    while (e->next_piece < e->list.n_pieces && e->list.pieces[e->next_piece].op == o->index) {
        TRY(add_piece(m, o, e->next_piece));
        e->next_piece++;
    }
    return look_for_arrivals(m);
}

/* ---- running statistics ---- */

static void copy_statistics(exchange *e, float *values, uint64_t n, uint64_t at)
{
    memcpy(e->statistics + at, values, n * sizeof *values);
}

static void keep_statistics(exchange *e, float *values, uint64_t n, uint64_t at)
{
    memcpy(values, e->statistics + at, n * sizeof *values);
}

static bool joins_statistics(const comet_model *m)
{
    return m->exchange->n_statistics > 0 && !m->params.sync_batch_norm;
}

static comet_status statistics_finish(comet_model *m)
{
    exchange *e = m->exchange;
    const comet_ranks *r = ranks_of(m);
    TRY(r->reduce_end(r->self, e->statistics_number));
    for (uint64_t i = 0; i < e->n_statistics; i++)
        e->statistics[i] /= (float)r->n_ranks;
    for_statistics(m, keep_statistics);
    return COMET_OK;
}

/* ---- an update ---- */

comet_status exchange_begin(comet_model *m)
{
    exchange *e = m->exchange;
    const comet_ranks *r = ranks_of(m);
    e->next_piece = e->n_begun = e->n_back = e->n_ended = 0;
    e->busy = true;
    if (!joins_statistics(m))
        return COMET_OK;
    for_statistics(m, copy_statistics);
    return r->reduce_begin(r->self, COMET_REDUCE_EXACT, (uint64_t)KEY_STATISTICS, e->statistics, e->n_statistics,
                           &e->statistics_number);
}

comet_status exchange_finish(comet_model *m)
{
    exchange *e = m->exchange;
    if (e->next_piece != e->list.n_pieces || e->n_begun != e->list.n_buckets)
        return comet_fail(COMET_ERROR_CORRUPT, "backward made %u of %u gradients for the other ranks", e->next_piece,
                          e->list.n_pieces);
    while (e->n_back < e->n_begun)
        TRY(take_back(m));
    while (e->n_ended < e->n_begun)
        TRY(end_oldest(m));
    if (joins_statistics(m))
        TRY(statistics_finish(m));
    e->busy = false;
    return COMET_OK;
}

/* ---- updates that are not fused ---- */

comet_status exchange_squares(comet_model *m, double *squares)
{
    const bucket_list *list = &m->exchange->list;
    *squares = 0;
    for (uint32_t k = 0; k < list->n_buckets; k++)
        for (uint32_t i = list->buckets[k].first_piece; i < list->buckets[k].end_piece; i++) {
            const bucket_piece *p = &list->pieces[i];
            uint64_t at, n;
            bucket_own_part(&list->buckets[k], p, &at, &n);
            *squares +=
                sum_of_squares(COMET_DTYPE_F32, n, m->gradients + m->parameters[p->parameter].offset + p->first + (at - p->at));
        }
    return ranks_sum(m, squares, 1);
}

static void update_segment(comet_model *m, const optimiser_step *s, const bucket *b)
{
    for (uint32_t i = b->first_piece; i < b->end_piece; i++) {
        const bucket_piece *p = &m->exchange->list.pieces[i];
        const parameter *q = &m->parameters[p->parameter];
        uint64_t at, n;
        bucket_own_part(b, p, &at, &n);
        const uint64_t first = p->first + (at - p->at);
        if (n > 0)
            update_part(m, s, q, first, n, m->gradients + q->offset + first, own_state(b, m->momentum, at),
                        own_state(b, m->second_moment, at));
    }
}

comet_status exchange_update(comet_model *m, const optimiser_step *s)
{
    exchange *e = m->exchange;
    const uint32_t n = e->list.n_buckets;
    e->busy = true;
    for (uint32_t i = 0; i < n + e->n_rooms; i++) {
        if (i >= e->n_rooms)
            TRY(gather_end(m, i - e->n_rooms));
        if (i < n) {
            update_segment(m, s, &e->list.buckets[i]);
            TRY(gather_begin(m, i));
        }
    }
    e->busy = false;
    return COMET_OK;
}
