/* How large a net is: parameters, and the arithmetic of one image. */
#ifndef COMET_CLI_NET_SIZE_H
#define COMET_CLI_NET_SIZE_H

#include "comet/net.h"

typedef struct net_size {
    uint64_t parameters;    /* numbers that training changes: weights, biases, scales and shifts */
    uint64_t multiply_adds; /* multiply-adds of convolutions and linear layers, forward, one image */
} net_size;

net_size layer_size(const comet_net *net, uint32_t value);

/* Sum over all layers; UINT64_MAX where it would overflow. */
net_size whole_size(const comet_net *net);

/* "11.69 M" with the prefix that leaves one to three digits before the point; numbers below 1000 as they are. Writes at most
 * COUNT_TEXT_BYTES bytes and returns `text`. */
enum { COUNT_TEXT_BYTES = 24 };
const char *count_text(uint64_t count, char *text);

#endif
