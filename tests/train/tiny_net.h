/* A net of a few thousand weights with the layers that matter to a run: batch norm, dropout, biases. */
#ifndef COMET_TESTS_TINY_NET_H
#define COMET_TESTS_TINY_NET_H

#define TINY_NET_BODY(out)                        \
    "net tiny\n"                                  \
    "input 3 8 8\n"                               \
    "conv1 = conv out=8 kernel=3 pad=1 bias=no\n" \
    "bn1 = batch_norm\n"                          \
    "relu1 = relu\n"                              \
    "drop = dropout p=0.2\n"                      \
    "conv2 = conv out=" out " kernel=3 pad=1\n"   \
    "relu2 = relu\n"                              \
    "avg = global_avg_pool\n"                     \
    "flat = flatten\n"                            \
    "fc = linear out=4\n"
#define TINY_NET TINY_NET_BODY("16")
#define OTHER_NET TINY_NET_BODY("12")

#endif
