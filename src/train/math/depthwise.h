/* Gradient of a depthwise convolution's weights for tensors in blocked layout, where oneDNN 2 has only reference code. */
#ifndef COMET_TRAIN_MATH_DEPTHWISE_H
#define COMET_TRAIN_MATH_DEPTHWISE_H

#include "comet/codec.h"

enum { DEPTHWISE_MAX_BLOCK = 16 };

/* Pairs are height, width. Tensors are [batch][n_blocks][height][width][block], weights [n_blocks][height][width][block]. */
typedef struct depthwise_spec {
    comet_dtype type;                /* of x and dy: f32 or bf16 */
    uint64_t batch, n_blocks, block; /* block: 8 or 16 */
    uint64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
} depthwise_spec;

/* The same bits for any number of threads and any instruction set. */
void depthwise_backward_weights(const depthwise_spec *spec, const void *x, const void *dy, float *dw);

#endif
