/* See buckets.h. */
#include "train/update/buckets.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "comet/ranks.h"

static comet_status add_piece(bucket_list *list, const bucket_piece *piece)
{
    /* Memory grows by doubling: it is full where the count is a power of two. */
    if ((list->n_pieces & (list->n_pieces - 1)) == 0) {
        bucket_piece *more = realloc(list->pieces, (list->n_pieces ? 2 * (size_t)list->n_pieces : 1) * sizeof *more);
        if (!more)
            return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a list of %u gradients", list->n_pieces);
        list->pieces = more;
    }
    list->pieces[list->n_pieces++] = *piece;
    return COMET_OK;
}

static comet_status add_parameter(bucket_list *list, const comet_model *m, const op *o, uint32_t index)
{
    if (!is_trained(m, index))
        return COMET_OK;
    const uint64_t n = m->parameters[index].n;
    for (uint64_t first = 0; first < n; first += list->n_limit)
        TRY(add_piece(
            list, &(bucket_piece){.op = o->index, .parameter = index, .first = first, .n = min_u64(list->n_limit, n - first)}));
    return COMET_OK;
}

static comet_status add_op(bucket_list *list, const comet_model *m, const op *o)
{
    TRY(add_parameter(list, m, o, o->weight));
    return add_parameter(list, m, o, o->bias);
}

/* As backward of step.c goes. */
static comet_status add_pieces(bucket_list *list, const comet_model *m)
{
    for (uint32_t i = m->n_ops; i-- > 0;) {
        const op *o = &m->ops[i];
        if (o->buffers.diff_dst == NO_BUFFER || o->backward_by != i)
            continue;
        TRY(add_op(list, m, o));
        if (o->folds != NONE)
            TRY(add_op(list, m, &m->ops[o->folds]));
    }
    return COMET_OK;
}

static void close_bucket(bucket_list *list, const comet_model *m, bucket *b)
{
    size_t first, n;
    comet_ranks_segment(b->n, m->params.ranks->n_ranks, m->params.ranks->rank, &first, &n);
    b->own_first = first;
    b->own_n = n;
    b->state_at = list->n_own;
    list->n_own += padded_floats(n);
    list->n_most = max_u64(list->n_most, b->n);
    list->buckets[list->n_buckets++] = *b;
}

static comet_status cut(bucket_list *list, const comet_model *m)
{
    bucket now = {0};
    list->buckets = calloc(list->n_pieces + 1, sizeof *list->buckets);
    if (!list->buckets)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a list of %u buckets", list->n_pieces);
    for (uint32_t i = 0; i < list->n_pieces; i++) {
        bucket_piece *p = &list->pieces[i];
        const uint64_t n = padded_floats(p->n);
        if (now.n > 0 && now.n + n > list->n_limit) {
            close_bucket(list, m, &now);
            now = (bucket){.first_piece = i};
        }
        p->at = now.n;
        now.n += n;
        now.end_piece = i + 1;
    }
    if (now.n > 0)
        close_bucket(list, m, &now);
    return COMET_OK;
}

comet_status bucket_list_make(bucket_list *list, const comet_model *m, uint64_t n_limit)
{
    *list = (bucket_list){.n_limit = n_limit};
    TRY(add_pieces(list, m));
    return cut(list, m);
}

void bucket_list_free(bucket_list *list)
{
    free(list->pieces);
    free(list->buckets);
    *list = (bucket_list){0};
}

void bucket_own_part(const bucket *b, const bucket_piece *p, uint64_t *at, uint64_t *n)
{
    const uint64_t begin = max_u64(p->at, b->own_first), end = min_u64(p->at + p->n, b->own_first + b->own_n);
    *at = begin;
    *n = end > begin ? end - begin : 0;
}
