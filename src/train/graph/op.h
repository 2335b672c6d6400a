/*
 * Values, parameters and ops: what a model's graph consists of. graph.h says how they fit together.
 */
#ifndef COMET_TRAIN_GRAPH_OP_H
#define COMET_TRAIN_GRAPH_OP_H

#include "comet/store.h"
#include "comet/train.h"
#include "train/backend/backend.h"
#include "train/graph/arena.h"
#include "train/math/norm.h"

#define NONE UINT32_MAX

typedef struct op op;
typedef struct op_type op_type;

/* ---- values ---- */

/* A tensor that flows between ops. */
typedef struct value {
    uint32_t root; /* itself, or the value it is a view of; everything below is valid at the root only */
    const layout *layout;
    uint32_t producer;    /* op; NONE for the net's input, whose memory is the caller's */
    uint32_t last_reader; /* op that reads it last in forward */
    bool leads;           /* the output depends on it */
    bool needs_gradient;  /* it depends on parameters, and the output depends on it */
    bool saved;           /* read again in backward */
    bool derived;         /* computed again from what its producer, a batch norm, stored */
    bool norm_input;      /* a batch norm stores it for itself */
    bool masks_only;      /* backward needs only its sign mask */
    bool put_by_producer; /* it is coded while it is made; others are put before their last reader runs */
    const char *saved_for;
    comet_slot_class saved_class;
    comet_exactness exactness;
    comet_slot slot; /* COMET_NO_SLOT: derived, or not saved */
    void *taken;     /* from the store, for the op that runs backward now */
    buffer_id whole; /* room for all of it, decoded once for all readers; NO_BUFFER: every reader decodes it again */
    bool decoded;    /* `whole` has it, in this step */
    buffer_id signs; /* room for its sign mask, which the op that decodes it first leaves for the relu that made it;
                        NO_BUFFER: the relu decodes the value, too */
    bool signs_known;
    uint32_t n_backward;                    /* readers in backward, the relu that made it among them */
    uint32_t first_backward, last_backward; /* ops that read it first and last in backward; NONE: there is none */
    buffer_id buffer;                       /* in forward, and in backward if it is held raw */
} value;

/* ---- parameters ---- */

/* A learnt tensor or a running statistic. */
typedef struct parameter {
    char name[COMET_MAX_LAYER_NAME + 16];
    bool learnt;
    bool frozen;                  /* learnt, but this model does not update it: no gradient, no state of the optimiser */
    double rate_factor;           /* of the run's rate */
    const layout *layout, *plain; /* as kernels need it, and in torch's order */
    uint32_t n_dims;
    uint64_t dims[4];   /* torch's */
    uint64_t offset, n; /* floats, in the block of its kind; n counts the padding of the layout. Frozen ones lie after the
                           others in the block of weights, and are in no other block */
    comet_init init;
    float fill; /* where init does not apply: batch norm */
    bool filled;
    uint64_t fan_in, fan_out;
} parameter;

/* ---- ops ---- */

/* How gradients of one input are delivered. */
typedef struct delivery {
    buffer_id write;     /* where the op writes it; NO_BUFFER: it passes through, or is not needed */
    buffer_id a, b, sum; /* then sum = a + b, where a may be the sum; NO_BUFFER: it is the first gradient, nothing is added */
    bool by_parts;       /* `write` holds one part of the batch at a time, which the op itself adds to `sum` */
} delivery;

/* Buffers of the arena that are planned for an op; NO_BUFFER where it needs none. */
typedef struct op_buffers {
    buffer_id workspace;
    buffer_id rooms[COMET_MAX_INPUTS], room_output, room_workspace; /* where what is taken in backward is decoded */
    buffer_id scratch_forward, scratch_weights, scratch_backward;   /* of kernels: forward, phase 0 and 1 of backward */
    buffer_id forward_weights;                                      /* a copy of the weights as the forward kernel needs them */
    buffer_id weights_copy, fresh_weight, fresh_bias;
    buffer_id gradient;       /* fused update: of its weights, then of its bias */
    buffer_id part_gradient;  /* the same from a part of the batch, as the kernel makes it */
    buffer_id work;           /* the op's own memory in both phases of backward: folded.h */
    buffer_id diff_dst, diff; /* gradient of the output, and that after the mask of a fused relu */
    buffer_id sample_work;    /* where the sample of its input is measured: assess/sample.h */
    buffer_id mask_sums;      /* sums by channel of `diff`, then of its squares, in double; NO_BUFFER: they are not made */
    delivery deliveries[COMET_MAX_INPUTS];
} op_buffers;

/* A tensor that an op stores for itself: a batch norm its input. */
typedef struct op_own {
    comet_slot slot;
    uint64_t tile;   /* elements that are put and taken at once */
    buffer_id whole; /* as value.whole */
    bool decoded;
} op_own;

/* What a kernel leaves for its backward: indices of max pooling. */
typedef struct op_workspace {
    const layout *layout; /* NULL: there is none */
    comet_slot_class class_;
    uint32_t index_bits; /* of an element, 0: they are stored as they are */
    comet_slot slot;
    void *taken; /* from the store, in backward */
} op_workspace;

/* Backward of a fused relu that the op does not compute itself: the gradient passes where the output is positive. */
typedef struct op_mask {
    bool used;
    bool sums;        /* sums by channel of what passes are needed */
    norm_shape shape; /* sums: how the output lies */
} op_mask;

struct op {
    const op_type *type;
    const comet_layer *layer;                                   /* of the model's own net */
    uint32_t index, n_inputs, inputs[COMET_MAX_INPUTS], output; /* values, at their roots */
    bool relu;                                                  /* a relu is fused into it */
    uint32_t weight, bias; /* parameters, NONE if there are none; batch norm: scale, shift */
    kernel *forward, *backward_data, *backward_weights;
    kernel *add[COMET_MAX_INPUTS]; /* additions of gradients */
    uint32_t n_parts;     /* equal parts in which backward takes the batch of its first input, kernels are for one; 0: whole */
    uint32_t backward_by; /* op whose backward makes its gradients: itself, or the convolution that it is folded into */
    uint32_t folds;       /* op that is folded into its backward, NONE */
    op_mask mask;
    op_own own;
    op_workspace workspace;
    op_buffers buffers;
    void *state; /* of its kind: made by prepare, freed by destroy */
};

typedef enum run_mode {
    RUN_TRAIN,   /* batch statistics, running ones move, dropout */
    RUN_INSPECT, /* as in training, but nothing moves */
    RUN_EVALUATE,
} run_mode;

typedef enum op_phase {
    PHASE_FORWARD,
    PHASE_WEIGHTS, /* backward: gradients of weights */
    PHASE_DATA,    /* backward: gradient of the input */
    PHASE_DERIVE,  /* backward of a reader of its output, which is derived */
} op_phase;

/* A kind of op. Callbacks other than prepare, forward and backward may be NULL. */
struct op_type {
    const char *name;
    comet_status (*prepare)(comet_model *m, op *o); /* kernels, parameters, layout of the output, state */
    void (*destroy)(op *o);                         /* the state, not the kernels that every op has */
    comet_status (*forward)(comet_model *m, op *o, run_mode mode);
    comet_status (*backward)(comet_model *m, op *o); /* writes gradients of inputs and parameters */
    /* The layout in which it needs its input, which lies as `input`. */
    comet_status (*input_layout)(comet_model *m, const comet_layer *layer, bool relu, const layout *input,
                                 const layout **needed);
    /* Declares the slot of what it stores for itself. */
    comet_status (*declare_own)(comet_model *m, op *o);
    /* Scratch beside what forward, backward_data, backward_weights and additions of gradients need. */
    uint64_t (*scratch_bytes)(const comet_model *m, const op *o, op_phase phase);
    /* Declares its further buffers of forward, after all others of it. */
    comet_status (*declare_forward)(comet_model *m, op *o);
    /* Declares its further buffers of backward, between the moments of its two phases. */
    comet_status (*declare_backward)(comet_model *m, op *o, uint32_t weights, uint32_t data);
    /* Computes its output again from the tiles [first, end) of what it stored, which y begins with. */
    comet_status (*derive)(comet_model *m, op *o, uint64_t first_tile, uint64_t end_tile, void *y, void *scratch);
    bool keeps_input, keeps_output; /* that backward reads; keeps_input: all inputs */
    const char *kept_as;
    comet_slot_class kept_class;
    comet_exactness exactness;
    bool in_place;          /* forward may write over its first input */
    bool backward_in_place; /* the gradient of the input may replace that of the output */
    bool passes_gradient;   /* the gradient of the output is that of each input */
    bool puts_output;       /* where its output is coded, it codes it tile by tile as it is made */
    bool takes_relu;        /* a relu that follows may be fused into it */
    bool any_order;         /* it takes a flattened input in any order of its elements */
    bool keeps_order;       /* and its output has the same order */
    bool inputs_alike;      /* its inputs must lie alike */
    bool joins_channels;    /* its inputs may differ in channels, and must fill their blocks */
};

#endif
