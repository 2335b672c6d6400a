/* How weights begin: a function of the seed, the number of the parameter and the element, so the same on any threads. */
#ifndef COMET_TRAIN_MATH_INITIALISE_H
#define COMET_TRAIN_MATH_INITIALISE_H

#include "comet/net.h"

/* Weights of a convolution or linear layer in torch's layout, and its biases. `parameter` numbers the arrays of a net, each
 * once; fan_in and fan_out are inputs of an output and outputs of an input, groups and kernel area counted as torch does. */
void initialise_weight(uint64_t seed, uint32_t parameter, comet_init init, uint64_t fan_in, uint64_t fan_out, size_t n,
                       float *weights);
void initialise_bias(uint64_t seed, uint32_t parameter, comet_init init, uint64_t fan_in, size_t n, float *biases);

#endif
