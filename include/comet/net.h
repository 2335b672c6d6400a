/*
 * A net is a description: its layers, how they are joined, and the shapes of the values between them. It has no memory for
 * tensors and no batch size.
 *
 *   comet_net_create, _destroy     an empty net
 *   comet_layer_init               a layer with the defaults of its kind
 *   comet_net_add                  append a layer; shapes are inferred and checked at once
 *   comet_net_read, _write         the text format (docs/net_format.md)
 *   comet_net_zoo                  a built-in net by name
 *   comet_net_layer, _shape ...    what a net consists of
 *
 * A layer's output is a value, numbered in the order of creation: value 0 is the net's input, value i is made by the i-th
 * layer. Inputs of a layer are earlier values, so a net has no cycles. The last value is the net's output: class scores, one
 * row an image, to which training applies softmax and cross entropy. Names follow torchvision's modules, so that a layer's
 * parameters are NAME.weight, NAME.bias, NAME.running_mean, NAME.running_var.
 *
 * A net is used by one thread at a time; a finished one may be read by many.
 */
#ifndef COMET_NET_H
#define COMET_NET_H

#include <stdbool.h>

#include "comet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum comet_op {
    COMET_OP_INPUT = 0, /* value 0; made by comet_net_create */
    COMET_OP_CONV,
    COMET_OP_LINEAR,
    COMET_OP_BATCH_NORM,
    COMET_OP_RELU,
    COMET_OP_RELU6,
    COMET_OP_SILU,
    COMET_OP_SIGMOID,
    COMET_OP_MAX_POOL,
    COMET_OP_AVG_POOL,        /* padding counts as zeros, as torch's default count_include_pad */
    COMET_OP_GLOBAL_AVG_POOL, /* to 1 x 1 */
    COMET_OP_LRN,             /* across channels */
    COMET_OP_DROPOUT,
    COMET_OP_ADD,      /* two values of the same shape */
    COMET_OP_MULTIPLY, /* the second may be C x 1 x 1: it is then spread over the plane (squeeze-excitation) */
    COMET_OP_CONCAT,   /* along channels, 2 to COMET_MAX_INPUTS values */
    COMET_OP_FLATTEN,  /* C x H x W to one axis */
    COMET_N_OPS,
} comet_op;

/* How the weights of a convolution or linear layer are initialised. Biases are zero, except for DEFAULT, where they are uniform
 * in +-1/sqrt(fan_in) as in torch. */
typedef enum comet_init {
    COMET_INIT_DEFAULT = 0,     /* uniform in +-1/sqrt(fan_in), torch's own */
    COMET_INIT_HE_FAN_OUT,      /* normal, variance 2 / fan_out */
    COMET_INIT_NORMAL_001,      /* normal, standard deviation 0.01 */
    COMET_INIT_UNIFORM_FAN_OUT, /* uniform in +-1/sqrt(fan_out) */
} comet_init;

#define COMET_MAX_INPUTS 16
#define COMET_MAX_LAYER_NAME 96 /* including the closing zero */

/* One layer. comet_layer_init sets what the kind of layer usually has; fields that the kind does not use stay zero. */
typedef struct comet_layer {
    size_t size;
    comet_op op;
    char name[COMET_MAX_LAYER_NAME]; /* letters, digits, '_', '.', '-'; unique in the net */
    uint32_t n_inputs;
    uint32_t inputs[COMET_MAX_INPUTS]; /* values */
    uint32_t out_channels;             /* conv, linear: outputs */
    uint32_t kernel[2], stride[2];     /* conv, pool: height, width */
    uint32_t padding[2], dilation[2];  /* conv (dilation 1 is dense); pool has padding only */
    uint32_t groups;                   /* conv: 1, or a divisor of both channel counts; = channels: depthwise */
    bool bias;                         /* conv, linear */
    bool ceil_mode;                    /* pool: keep a last window that is not full */
    bool per_sample;                   /* dropout: drop whole images (stochastic depth) */
    comet_init init;                   /* conv, linear */
    float eps, momentum;               /* batch_norm: 1e-5, 0.1 */
    float p;                           /* dropout: share dropped, in [0, 1) */
    uint32_t lrn_size;                 /* lrn: odd window; torch's alpha, beta, k */
    float lrn_alpha, lrn_beta, lrn_k;
} comet_layer;

/* Shape of a value for one image: channels, height, width; a flat one has height = width = 1 and flat set. */
typedef struct comet_shape {
    uint32_t channels, height, width;
    bool flat;
} comet_shape;

typedef struct comet_net comet_net;

/* An empty net whose input has `channels` x `height` x `width`. `name` is copied. */
COMET_API comet_status comet_net_create(comet_net **net, const char *name, uint32_t channels, uint32_t height, uint32_t width);
COMET_API void comet_net_destroy(comet_net *net);

/* Defaults of `op`: stride, dilation and groups 1, bias for linear and conv, eps 1e-5, momentum 0.1, p 0.5, lrn 5, 1e-4, 0.75,
 * 1; a pool's stride stays 0, which comet_net_add reads as "its kernel". The name is copied, cut at COMET_MAX_LAYER_NAME - 1.
 */
COMET_API void comet_layer_init(comet_layer *layer, comet_op op, const char *name);

/* Appends a copy of the layer. COMET_ERROR_ARGUMENT, with a sentence that names the layer and the shapes, where it does not
 * fit; the net is unchanged then. `value` may be NULL. */
COMET_API comet_status comet_net_add(comet_net *net, const comet_layer *layer, uint32_t *value);

/* Reads the text format from `text` (`bytes` bytes). `source` names it in error sentences, which give the line. */
COMET_API comet_status comet_net_read(comet_net **net, const char *source, const char *text, size_t bytes);

/* The net in the text format, closed by a zero; the caller frees it with comet_text_free. */
COMET_API comet_status comet_net_write(const comet_net *net, char **text);
COMET_API void comet_text_free(char *text);

/* A built-in net for images of `channels` x `size` x `size` and `classes` classes; 0 for any of them means the net's own
 * default (3 x 224 x 224 and 1000 for the nets of torchvision, 3 x 32 x 32 and 10 for those of CIFAR-10, 1 x 28 x 28 and 10 for
 * cnn28). COMET_ERROR_ARGUMENT for an unknown name, with a list of all names, and for a size that the net cannot take. */
COMET_API comet_status comet_net_zoo(comet_net **net, const char *name, uint32_t channels, uint32_t size, uint32_t classes);

/* Name of the i-th built-in net and one line about it, or NULL past the end. */
COMET_API const char *comet_zoo_name(size_t index);
COMET_API const char *comet_zoo_summary(size_t index);

COMET_API const char *comet_net_name(const comet_net *net);
COMET_API uint32_t comet_net_n_values(const comet_net *net);
/* The layer that makes `value` (the input's layer has op COMET_OP_INPUT), valid as long as the net and until the next add; NULL
 * past the end. */
COMET_API const comet_layer *comet_net_layer(const comet_net *net, uint32_t value);
COMET_API comet_shape comet_net_shape(const comet_net *net, uint32_t value);
/* "conv", "batch_norm" ...: the word of the text format. */
COMET_API const char *comet_op_name(comet_op op);

#ifdef __cplusplus
}
#endif

#endif
