/* What the tests of nets share. Each check fails the test. */
#ifndef COMET_TESTS_NET_TESTING_H
#define COMET_TESTS_NET_TESTING_H

#include "training.h"

/* Shape of the layer of this name. */
void assert_shape(const comet_net *net, const char *name, uint32_t channels, uint32_t height, uint32_t width, bool flat);
/* The same layers, inputs, shapes and options. */
void assert_nets_equal(const comet_net *a, const comet_net *b);
/* Written, read and written again: the same net and the same text. */
void check_text_round_trip(const comet_net *net);

/* A net of its input alone, and a layer that reads value number `input`. */
comet_net *small_net(void);
comet_layer layer_on(comet_op op, const char *name, uint32_t input);

#endif
