/*
 * A model inside: what model_graph.c, model_ops.c, model_lower.c, model_tensors.c and model.c share.
 *
 * The net's layers become ops: a relu that follows its layer is fused into it, flatten is only another view of a value, and
 * changes of layout are ops of their own. Time is counted in moments: op i runs forward at moment i, the loss at moment n_ops,
 * op i runs backward at moment 2 n_ops - i. Every buffer of the arena has a first and a last moment.
 */
#ifndef COMET_TRAIN_MODEL_INTERNAL_H
#define COMET_TRAIN_MODEL_INTERNAL_H

#include "base/status.h"
#include "comet/train.h"
#include "store/store.h"
#include "train/arena.h"
#include "train/backend.h"

#define NONE UINT32_MAX

typedef struct op op;

/* A tensor that flows between ops. */
typedef struct value {
    uint32_t root; /* itself, or the value it is a view of; everything below stands at the root */
    const layout *layout;
    uint32_t producer;    /* op; NONE for the net's input, whose memory is the caller's */
    uint32_t last_reader; /* op that reads it last in forward */
    bool leads;           /* the output depends on it */
    bool needs_gradient;  /* it depends on parameters, and the output depends on it */
    bool saved;           /* held for backward in the store */
    bool recomputed;      /* computed again in backward, from what its producer saved */
    const char *saved_for;
    store_class saved_class;
    store_exactness exactness;
    store_slot slot;
    void *taken;                            /* from the store, between the first and the last backward reader */
    uint32_t first_backward, last_backward; /* moments of the backward readers; NONE, 0: there are none */
    buffer_id buffer, again;                /* forward's (and backward's, if saved raw); where it is recomputed */
} value;

/* A learnt tensor or a running statistic. */
typedef struct parameter {
    char name[COMET_MAX_LAYER_NAME + 16];
    bool learnt;
    const layout *layout, *plain; /* as kernels want it, and in torch's order */
    uint32_t n_dims;
    uint64_t dims[4];   /* torch's */
    uint64_t offset, n; /* floats, in the block of its kind; n counts the padding of the layout */
    comet_init init;
    float fill; /* where init does not apply: batch norm */
    bool filled;
    uint64_t fan_in, fan_out;
} parameter;

/* How gradients of one input are delivered. */
typedef struct delivery {
    buffer_id write;     /* where the op writes it; NO_BUFFER: it passes through, or is not needed */
    buffer_id a, b, sum; /* then sum = a + b, where a may be the sum; NO_BUFFER: it is the first to come, nothing is added */
} delivery;

enum { MAX_PARTS = COMET_MAX_INPUTS };

typedef struct op_type op_type;

struct op {
    const op_type *type;
    const comet_layer *layer;                                   /* of the model's own net */
    uint32_t index, n_inputs, inputs[COMET_MAX_INPUTS], output; /* values, at their roots */
    bool relu;                                                  /* fused behind it */
    bool own_depthwise;      /* gradient of the weights by depthwise.c: the library has only reference code for it */
    kernel *forward, *apply; /* apply: batch norm with given statistics */
    kernel *backward_data, *backward_weights, *backward_relu;
    kernel *weights_reorder, *gradient_reorder; /* between the forward kernel's layout and backward's */
    kernel *parts[MAX_PARTS];                   /* concat: gradients of the inputs */
    kernel *add[COMET_MAX_INPUTS];              /* additions of gradients */
    uint32_t weight, bias;                      /* parameters, NONE if there are none; batch norm: scale, shift */
    uint32_t mean, variance;                    /* running statistics */
    uint64_t batch_mean, batch_variance;        /* floats, in the block of statistics */
    const layout *workspace_layout;
    buffer_id workspace;
    store_slot workspace_slot;
    void *workspace_taken; /* from the store, in backward */
    buffer_id scratch_forward, scratch_backward, weights_copy, fresh_weight, fresh_bias;
    buffer_id diff_dst, diff; /* gradient of the output, and behind a fused relu */
    delivery deliveries[COMET_MAX_INPUTS];
    uint32_t recompute; /* value computed again before this op's backward, or NONE */
};

typedef enum run_mode {
    RUN_TRAIN,   /* batch statistics, running ones move, dropout */
    RUN_INSPECT, /* likewise, but nothing moves */
    RUN_EVALUATE,
} run_mode;

struct op_type {
    const char *name;
    comet_status (*prepare)(comet_model *m, op *o); /* kernels, parameters, layout of the output */
    comet_status (*forward)(comet_model *m, op *o, run_mode mode);
    comet_status (*backward)(comet_model *m, op *o); /* writes gradients of inputs and parameters */
    bool keeps_input, keeps_output;                  /* that backward reads; keeps_input: all inputs */
    const char *kept_as;
    store_class kept_class;
    store_exactness exactness;
    bool in_place;          /* forward may write over its first input */
    bool backward_in_place; /* the gradient of the input may replace that of the output */
    bool passes_gradient;   /* the gradient of the output is that of each input */
    bool always_writes;     /* backward needs a place for the gradient of its input, even if nobody reads it */
};

struct comet_model {
    comet_model_params params;
    comet_net *net;
    backend *backend;
    store *store;
    value *values;
    uint32_t n_values, values_capacity, output;
    op *ops;
    uint32_t n_ops, ops_capacity;
    parameter *parameters;
    uint32_t n_parameters, parameters_capacity;
    uint64_t n_learnt, n_statistics; /* floats in each block */
    arena arena;
    float *weights, *gradients, *first, *second, *statistics; /* blocks */
    comet_memory memory;
    /* of the call at hand */
    const float *images;
    uint64_t step;
    uint32_t n_accumulated;
};

/* ---- model_graph.c ---- */

/* Ops from the net, with their kernels and parameters, and what each must keep for backward. */
comet_status graph_build(comet_model *m);
/* The plain layout of the same shape. */
comet_status graph_plain_like(comet_model *m, const layout *l, const layout **plain);
comet_status graph_add_parameter(comet_model *m, const parameter *p, uint32_t *index);

/* ---- model_lower.c ---- */

/* Declares and plans all buffers and fills m->memory. */
comet_status lower(comet_model *m);

/* ---- model_ops.c ---- */

const op_type *op_type_of(comet_op kind);
extern const op_type op_type_reorder;

/* How a convolution takes an input that lies as `input`: likewise, or otherwise where that would be slow. */
comet_status conv_wanted_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input,
                                const layout **wanted);

/* Where a value's elements are in forward, and in backward. */
void *value_data(const comet_model *m, uint32_t v);
void *value_data_backward(const comet_model *m, uint32_t v);
/* Computes again the value that `reader` is about to read in backward and that was not kept. */
comet_status op_recompute(comet_model *m, const op *reader);
void op_destroy(op *o);

static inline uint32_t moment_backward(const comet_model *m, const op *o)
{
    return 2 * m->n_ops - o->index;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
