/*
 * How fast several ranks train one model together: a model of one step, from the time that a rank alone takes and from the
 * links between nodes.
 *
 *   comet_timeline_of_net    which layer's gradients are ready when, as shares of backward
 *   comet_scaling_predict    step time, bytes sent, and how much of their transfer backward hides
 *
 * The model. Backward goes through the layers; their gradients fill buckets one after the other, and the reduction of a bucket
 * begins when it is full. It has two phases: every rank gets the sum of its own 1/n of the bucket, then every rank gets the
 * parts of all others. In a phase a rank sends n - 1 messages of 1/n of the bucket. Of m ranks on a node, the phase takes
 *
 *   occupied = max(m (n - m)/n B / link, m (m - 1)/n B / memory) + (n - 1) message       with B bytes on the wire for a bucket
 *   latency more until the last message is there (only where a message leaves the node)
 *
 * A phase occupies the link alone, in the order of asking; what is only under way (latency) does not. A few buckets move at
 * once, and there is room for a few more: backward waits for the oldest where a gradient finds none. The update of a bucket
 * follows its arrival, between two layers of backward or after them. With a sharded optimiser a rank waits for the sum of a
 * bucket when n_behind others are full, updates its 1/n of it, and then asks for the second phase. A synchronised batch norm
 * waits for one sum in forward and one in backward, of 2 (latency + (n - 1) message) each. All ranks are equally fast, and
 * nobody else uses the links. docs/distributed.md compares this with what was measured.
 */
#ifndef COMET_SCALING_H
#define COMET_SCALING_H

#include <stdbool.h>

#include "comet/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One layer in backward. */
typedef struct comet_timeline_layer {
    double seconds;      /* of its backward; comet_timeline_of_net: share of the whole */
    uint64_t parameters; /* whose gradients are ready at its end */
    bool norm;           /* a batch norm */
} comet_timeline_layer;

/* The layers of a net in the order of backward; shares add up to 1. The backward of a convolution or linear layer costs twice
 * its multiply-adds (the first one once, since images need no gradient), every other value the layer makes COMET_TIMELINE_VALUE
 * multiply-adds, the time in which memory delivers it. Writes at most comet_net_n_values(net) - 1 layers. */
#define COMET_TIMELINE_VALUE 64
COMET_API comet_status comet_timeline_of_net(const comet_net *net, comet_timeline_layer *layers, size_t *n_layers);

typedef struct comet_scaling_params {
    size_t size;
    const comet_timeline_layer *layers; /* in the order of backward */
    size_t n_layers;
    double forward, update;      /* seconds of one rank alone; update: of all parameters */
    uint32_t n_ranks, n_on_node; /* ranks, and how many of them share a node and its link; n_ranks is a multiple */
    double link, memory;         /* bytes/s in each direction: of a node's link, and between ranks of a node */
    double latency, message;     /* seconds: until a message is there, and for which every message occupies a rank */
    double host;                 /* seconds of computing that a byte of gradients costs its rank (copies, sums); 0: none */
    double wire_bytes;           /* on the wire for a gradient of 4 bytes: 4, or 2 in bf16, or what a codec makes of it */
    uint64_t bucket_bytes;       /* gradients of a bucket, 4 bytes each */
    uint32_t n_rooms, n_moving;  /* buckets that there is room for, and that move at once */
    uint32_t n_behind;           /* with a sharded optimiser, at most n_rooms */
    bool sync_batch_norm, shard_optimiser;
} comet_scaling_params;

/* 1 rank, a link of 10 Gbit/s and 50 us, memory of 5 GB/s, 1 us a message, f32; 8 buckets of 2 MiB, of which 2
 * move at once, n_behind 4. */
COMET_API void comet_scaling_params_init(comet_scaling_params *params);

/* Seconds, of one step. */
typedef struct comet_scaling {
    size_t size;
    double step, alone;    /* with these ranks; of one rank alone with the same batch */
    double moving;         /* at least one bucket was under way */
    double waited;         /* the rank had nothing to compute: for buckets after backward, and for batch norms */
    double hidden;         /* share of `moving` in which the rank did not wait for buckets; 1 where nothing moves */
    double efficiency;     /* alone / step */
    uint64_t bytes_sent;   /* by each rank, gradients alone */
    uint64_t bucket_bytes; /* room for buckets */
    uint32_t n_buckets;
} comet_scaling;
COMET_API void comet_scaling_init(comet_scaling *scaling);

/* COMET_ERROR_ARGUMENT for parameters out of range, with their values. */
COMET_API comet_status comet_scaling_predict(const comet_scaling_params *params, comet_scaling *scaling);

#ifdef __cplusplus
}
#endif

#endif
