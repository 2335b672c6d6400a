/*
 * What the training engine asks of the library that does the arithmetic. Only backend_dnnl*.c include dnnl.h, by dnnl_api.h,
 * which also says how they serve oneDNN 2 and 3; another library is one more set of files under this header.
 *
 * A layout is the physical form of a tensor: its dims and how they lie in memory. Layouts are owned by the backend and unique,
 * so pointers compare as the forms do. A kernel is one operation made for fixed layouts: it is created once and run on memory
 * that the caller plans. Kernels allocate nothing while they run; what they need is kernel_scratch_bytes.
 */
#ifndef COMET_TRAIN_BACKEND_BACKEND_H
#define COMET_TRAIN_BACKEND_BACKEND_H

#include <stdbool.h>

#include "comet/codec.h"
#include "comet/net.h"

typedef struct backend backend;
typedef struct layout layout;
typedef struct kernel kernel;

/* Where a kernel takes its operands from, and puts its results. */
typedef enum kernel_arg {
    ARG_SRC,
    ARG_SRC_1, /* add: the second */
    ARG_WEIGHTS,
    ARG_BIAS,
    ARG_DST,
    ARG_WORKSPACE,
    ARG_DIFF_SRC,
    ARG_DIFF_DST,
    ARG_DIFF_WEIGHTS,
    ARG_DIFF_BIAS,
    ARG_SCRATCH,
    ARG_MULTIPLE, /* concat: the i-th source is ARG_MULTIPLE + i */
    N_KERNEL_ARGS = ARG_MULTIPLE + COMET_MAX_INPUTS,
} kernel_arg;

typedef struct kernel_args {
    void *at[N_KERNEL_ARGS];
} kernel_args;

/* The library that is loaded, 2006003 for oneDNN 2.6.3, and the instructions that it uses, as a number of its own: what a run's
 * bits depend on. Not before backend_create, which caps the instructions. */
uint64_t backend_version(void);
uint64_t backend_instructions(void);
/* Do they multiply bf16 numbers? Without, the library computes with bf16 more slowly than with floats, or not at all. */
bool backend_multiplies_bf16(void);

comet_status backend_create(backend **out);
void backend_destroy(backend *b);
/* Drops what the library caches for kernels yet to be made; those that exist go on working. */
void backend_settle(backend *b);

/* ---- layouts ---- */

/* Row-major floats, 1 to 4 dims, slowest first. */
comet_status layout_plain(backend *b, uint32_t n_dims, const uint64_t *dims, const layout **l);
/* As `l` lies, with elements of another type: activations in a known order, and weights of depthwise convolutions. */
comet_status layout_typed(backend *b, const layout *l, comet_dtype type, const layout **out);
uint64_t layout_bytes(const layout *l);
/* f32 or bf16. */
comet_dtype layout_type(const layout *l);
/* With what fills up blocks. */
uint64_t layout_elements(const layout *l);
uint32_t layout_dims(const layout *l, uint64_t dims[5]);

typedef enum layout_order {
    ORDER_PLANAR,        /* N C H W, or fewer dims */
    ORDER_CHANNELS_LAST, /* N H W C */
    ORDER_BLOCKED,       /* N C/b H W b, the last block filled up with zeros */
    ORDER_OTHER,
} layout_order;

/* How a tensor with batch and channels lies; *block is channels that lie together (1 for planar). */
layout_order layout_describe(const layout *l, uint64_t *block);

/* Do the weights of a depthwise convolution lie as [groups / block][height][width][block]? */
bool layout_is_depthwise(const layout *l, uint64_t block);

/* The layout in the same order with another batch and number of channels, at most whole blocks of them; 4 dims. */
comet_status layout_resized(backend *b, const layout *l, uint64_t batch, uint64_t channels, const layout **out);

/* Elements [first, first + n), counted row by row, of a tensor of floats that lies at `data`: to and from `plain`, which has no
 * others. Scattering the first element sets what fills up blocks to zeros. */
comet_status layout_gather(const layout *l, const float *data, uint64_t first, uint64_t n, float *plain);
comet_status layout_scatter(const layout *l, float *data, uint64_t first, uint64_t n, const float *plain);

/* ---- small matrices ---- */

typedef struct product_spec {
    uint64_t rows, columns, inner; /* of the result; length of the sums */
    bool transposed;               /* a lies as inner x rows */
} product_spec;

/* c = a b, all row by row. */
comet_status backend_multiply(const product_spec *p, const float *a, const float *b, float *c);

/* ---- kernels ---- */

void kernel_destroy(kernel *k);
uint64_t kernel_scratch_bytes(const kernel *k);
/* The layout that an operand must have; NULL where the kernel has no such operand. */
const layout *kernel_layout(const kernel *k, kernel_arg arg);
const char *kernel_implementation(const kernel *k);
/* Is it the library's reference code, which is correct but slower by an order of magnitude? */
bool kernel_is_slow(const kernel *k);
/* Is it a convolution by our own Winograd? */
bool kernel_is_winograd(const kernel *k);
comet_status kernel_run(kernel *k, const kernel_args *args);

/* A pass of a layer that has weights. */
typedef enum kernel_pass { PASS_FORWARD, PASS_BACKWARD_DATA, PASS_BACKWARD_WEIGHTS, N_PASSES } kernel_pass;

/* How a pass of a convolution is computed. Where our own Winograd cannot compute it, because of its shape, its layouts or the
 * bytes of its scratchpad, it is direct in any case. */
typedef enum conv_way {
    CONV_DIRECT,
    CONV_BY_RULE, /* by Winograd where that is faster as a rule: winograd_pays */
    CONV_WINOGRAD,
} conv_way;

typedef struct conv_ways {
    conv_way of[N_PASSES];
} conv_ways;

/* A convolution as its three kernels see it. */
typedef struct conv_spec {
    uint64_t batch, in[3], out[3]; /* channels, height, width */
    uint32_t kernel[2], stride[2], padding[2], dilation[2], groups;
    bool bias, relu;  /* relu: applied to the output in forward */
    bool adds;        /* forward adds to what is in the output */
    comet_dtype type; /* of activations, their gradients and the weights; gradients of weights, and biases, are floats */
    conv_ways ways;
    uint64_t data_scratch_bytes, weights_scratch_bytes; /* most of Winograd: forward and backward data, backward weights */
} conv_spec;

/* `src`: how the input lies, in any type; the kernel may need another layout, see kernel_layout. Weights and dst are the
 * library's choice. */
comet_status kernel_conv_forward(backend *b, const conv_spec *spec, const layout *src, kernel **k);
/* `forward` is the kernel above. Layouts of src and dst are those of `forward`, except that the batch may be a part of its
 * batch, and src in planar or blocked order may have some of its blocks of channels. Weights have the layout of `forward` where
 * possible; in bf16 every pass has its own. */
comet_status kernel_conv_backward_data(backend *b, const conv_spec *spec, const kernel *forward, kernel **k);
comet_status kernel_conv_backward_weights(backend *b, const conv_spec *spec, const kernel *forward, kernel **k);

/* Are all passes of such a convolution fast, with `data` that of its input's gradient, too? Not by Winograd. */
comet_status conv_is_fast(backend *b, const conv_spec *spec, const layout *src, bool data, bool *fast);

/* A linear layer takes src as it lies, whatever its dims after the batch, and computes in its type. dst is plain. */
comet_status kernel_linear_forward(backend *b, uint64_t outputs, bool bias, bool relu, const layout *src, kernel **k);
comet_status kernel_linear_backward_data(backend *b, const kernel *forward, kernel **k);
comet_status kernel_linear_backward_weights(backend *b, bool bias, const kernel *forward, kernel **k);

/* relu, relu6, silu, sigmoid; in place if the caller likes. Backward takes ARG_DST (silu: ARG_SRC); DIFF_SRC may be DIFF_DST.
 */
comet_status kernel_activation_forward(backend *b, comet_op op, const layout *data, kernel **k);
comet_status kernel_activation_backward(backend *b, comet_op op, const layout *data, kernel **k);

typedef struct pool_spec {
    bool max; /* else average with padding counted */
    uint64_t out[2];
    uint32_t kernel[2], stride[2], padding[2];
} pool_spec;

/* Max pooling has a workspace with the indices. */
comet_status kernel_pool_forward(backend *b, const pool_spec *spec, const layout *src, kernel **k);
comet_status kernel_pool_backward(backend *b, const pool_spec *spec, const kernel *forward, kernel **k);

comet_status kernel_lrn_forward(backend *b, const comet_layer *layer, const layout *data, kernel **k);
comet_status kernel_lrn_backward(backend *b, const comet_layer *layer, const kernel *forward, kernel **k);

/* dst = the sum of two sources; dst may be the first. */
comet_status kernel_add(backend *b, const layout *data, kernel **k);
/* dst = the sources one after another along channels. */
comet_status kernel_concat(backend *b, uint32_t n, const layout *const *sources, kernel **k);
/* dst = channels [first, first + those of `part`) of src. */
comet_status kernel_take_channels(backend *b, const layout *whole, uint64_t first, const layout *part, kernel **k);
/* dst = src in another layout of the same dims. */
comet_status kernel_reorder(backend *b, const layout *src, const layout *dst, kernel **k);

#endif
