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

enum { CHUNK = 4096 }; /* floats that are decoded and travel at once, a multiple of STATE_BLOCK */

static state_block block_of(const comet_model *m, uint32_t tensor)
{
    return tensor == COMET_TENSOR_MOMENTUM ? m->momentum : m->second_moment;
}

/* Between `own`, which is this rank's, and `whole`, which is there on rank 0. */
static comet_status move_own(const comet_ranks *ranks, state_block own, uint64_t n, float *whole, bool write)
{
    const size_t bytes = state_bytes(own.format, n);
    if (!whole)
        return write ? ranks->receive(ranks->self, 0, own.data, bytes) : ranks->send(ranks->self, 0, own.data, bytes);
    if (write)
        state_write(own, n, whole);
    else
        state_read(own, n, whole);
    return COMET_OK;
}

/* On rank 0, with the state of another rank. */
static comet_status move_chunk(const comet_ranks *ranks, uint32_t owner, state_block like, uint64_t n, float *whole, bool write)
{
    float room[CHUNK]; /* any format takes less */
    const size_t bytes = state_bytes(like.format, n);
    like.data = room;
    if (write)
        state_write(like, n, whole);
    TRY(write ? ranks->send(ranks->self, owner, room, bytes) : ranks->receive(ranks->self, owner, room, bytes));
    if (!write)
        state_read(like, n, whole);
    return COMET_OK;
}

/* `whole`: on rank 0 alone. */
static comet_status move_shard(const comet_model *m, const request *r, const shard *s, float *whole)
{
    const comet_ranks *ranks = m->params.ranks;
    const bool here = s->owner == ranks->rank, write = r->kind == REQUEST_WRITE;
    const state_block block = block_of(m, r->tensor);
    if (!block.data)
        return comet_fail(COMET_ERROR_CORRUPT, "rank %u keeps no state of kind %u", ranks->rank, r->tensor);
    for (uint64_t at = 0; (here || whole) && at < s->n; at += CHUNK) {
        const uint64_t n = min_u64(s->n - at, CHUNK);
        float *part = whole ? whole + s->first + at : NULL;
        if (here)
            TRY(move_own(ranks, state_at(block, s->in_state + at), n, part, write));
        else
            TRY(move_chunk(ranks, s->owner, block, n, part, write));
    }
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
