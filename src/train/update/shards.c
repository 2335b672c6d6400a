/* See shards.h. Rank 0 broadcasts a request; then each owner of a part sends it, or receives it, in the order of the pieces. */
#include "train/update/shards.h"

#include <string.h>

#include "base/bytes.h"
#include "comet/ranks.h"

typedef enum request_kind { REQUEST_END, REQUEST_READ, REQUEST_WRITE } request_kind;

typedef struct request {
    uint32_t kind, tensor, parameter;
} request;

/* The part of a piece that rank `owner` keeps. */
typedef struct shard {
    uint32_t owner;
    uint64_t first, n; /* of the parameter */
    uint64_t in_state; /* of the owner's state, where the owner is this rank */
} shard;

static float *block_of(const comet_model *m, uint32_t tensor)
{
    return tensor == COMET_TENSOR_MOMENTUM ? m->momentum : m->second_moment;
}

/* `whole`: on rank 0 alone. */
static comet_status move_shard(const comet_model *m, const request *r, const shard *s, float *whole)
{
    const comet_ranks *ranks = m->params.ranks;
    const bool here = s->owner == ranks->rank, write = r->kind == REQUEST_WRITE;
    const size_t bytes = s->n * sizeof(float);
    float *block = block_of(m, r->tensor);
    if (!block)
        return comet_fail(COMET_ERROR_CORRUPT, "rank %u keeps no state of kind %u", ranks->rank, r->tensor);
    float *own = here ? block + s->in_state : block;
    if (here && !whole)
        return write ? ranks->receive(ranks->self, 0, own, bytes) : ranks->send(ranks->self, 0, own, bytes);
    if (here)
        memcpy(write ? own : whole + s->first, write ? whole + s->first : own, bytes);
    else if (whole)
        return write ? ranks->send(ranks->self, s->owner, whole + s->first, bytes)
                     : ranks->receive(ranks->self, s->owner, whole + s->first, bytes);
    return COMET_OK;
}

static comet_status move_piece(const comet_model *m, const request *r, const bucket *b, const bucket_piece *p, float *whole)
{
    const comet_ranks *ranks = m->params.ranks;
    for (uint32_t owner = 0; owner < ranks->n_ranks; owner++) {
        size_t first, n;
        comet_ranks_segment(b->n, ranks->n_ranks, owner, &first, &n);
        const uint64_t begin = max_u64(p->at, first), end = min_u64(p->at + p->n, first + n);
        if (end <= begin)
            continue;
        const shard s = {
            .owner = owner, .first = p->first + (begin - p->at), .n = end - begin, .in_state = b->state_at + (begin - first)};
        TRY(move_shard(m, r, &s, whole));
    }
    return COMET_OK;
}

static comet_status move_parameter(const comet_model *m, const request *r, float *whole)
{
    const bucket_list *list = exchange_buckets(m);
    for (uint32_t k = 0; k < list->n_buckets; k++)
        for (uint32_t i = list->buckets[k].first_piece; i < list->buckets[k].end_piece; i++)
            if (list->pieces[i].parameter == r->parameter)
                TRY(move_piece(m, r, &list->buckets[k], &list->pieces[i], whole));
    return COMET_OK;
}

static comet_status ask(const comet_model *m, request *r)
{
    return m->params.ranks->broadcast(m->params.ranks->self, r, sizeof *r);
}

comet_status shards_move(const comet_model *m, comet_tensor_kind kind, const parameter *p, float *whole, bool write)
{
    request r = {.kind = write ? REQUEST_WRITE : REQUEST_READ, .tensor = kind, .parameter = (uint32_t)(p - m->parameters)};
    if (m->params.ranks->rank != 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "the optimiser's state is shared out among ranks: only rank 0 can read it");
    TRY(ask(m, &r));
    return move_parameter(m, &r, whole);
}

comet_status shards_serve(const comet_model *m)
{
    request r = {.kind = REQUEST_READ};
    while (m->move_state && r.kind != REQUEST_END) {
        TRY(ask(m, &r));
        if (r.kind != REQUEST_END)
            TRY(move_parameter(m, &r, NULL));
    }
    return COMET_OK;
}

comet_status shards_release(const comet_model *m)
{
    request r = {.kind = REQUEST_END};
    return m->move_state ? ask(m, &r) : COMET_OK;
}
