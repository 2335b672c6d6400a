/* Works that a caller waits for: sums of doubles, broadcasts, messages between two ranks. */
#ifndef COMET_DIST_EXCHANGE_H
#define COMET_DIST_EXCHANGE_H

#include "dist/work.h"

/* Floats of a sum, and bytes of a broadcast or a message, that travel at once. */
enum { SUM_PIECE = 8192, BROADCAST_PIECE = 4 << 20, POINT_PIECE = 64 << 20 };

/* One at a time: sums use the buffers of this struct. */
typedef struct exchange {
    work base; /* first */
    uint32_t peer;
    unsigned char *data;
    size_t n, at;   /* elements, and those that are done */
    size_t started; /* elements that are under way, too */
    double *came;   /* sums: n_ranks * SUM_PIECE */
    int *requests;  /* 2 * n_ranks */
    size_t n_requests, n_ranks;
    unsigned char receipt;
} exchange;

comet_status exchange_create(exchange *e, uint32_t n_ranks);
void exchange_destroy(exchange *e);
uint64_t exchange_memory(uint32_t n_ranks);

void exchange_sum(exchange *e, double *values, size_t n);
void exchange_broadcast(exchange *e, void *data, size_t bytes);
void exchange_send(exchange *e, uint32_t to, const void *data, size_t bytes);
void exchange_receive(exchange *e, uint32_t from, void *data, size_t bytes);

#endif
