/*
 * How the gradients of a model are cut into buckets, in which they travel between ranks.
 *
 * Pieces are parameters, or parts of large ones, in the order in which backward finishes their gradients. A bucket is a run of
 * pieces, at most n_limit floats together. Each rank has its segment of every bucket (comet_ranks_segment): the part that it
 * adds up, and whose optimiser's state it keeps where that is shared out. The states of a rank's segments lie one after
 * another.
 */
#ifndef COMET_TRAIN_UPDATE_BUCKETS_H
#define COMET_TRAIN_UPDATE_BUCKETS_H

#include "train/graph/graph.h"

typedef struct bucket_piece {
    uint32_t op, parameter;
    uint64_t first, n; /* floats of the parameter, in its layout */
    uint64_t at;       /* in the bucket */
} bucket_piece;

typedef struct bucket {
    uint32_t first_piece, end_piece;
    uint64_t n;                /* floats, gaps between pieces among them */
    uint64_t own_first, own_n; /* this rank's segment */
    uint64_t state_at;         /* of the segment's first float, among the states of this rank */
} bucket;

typedef struct bucket_list {
    bucket_piece *pieces;
    bucket *buckets;
    uint32_t n_pieces, n_buckets;
    uint64_t n_limit;
    uint64_t n_most; /* floats of the largest bucket */
    uint64_t n_own;  /* floats of this rank's segments together */
} bucket_list;

/* For a model with ranks whose buffers are declared. n_limit: a multiple of COMET_RANKS_ALIGNMENT. */
comet_status bucket_list_make(bucket_list *list, const comet_model *m, uint64_t n_limit);
void bucket_list_free(bucket_list *list);

/* The part of a piece that lies in this rank's segment, as floats of the bucket; *n is 0 where none does. */
void bucket_own_part(const bucket *b, const bucket_piece *p, uint64_t *at, uint64_t *n);

#endif
