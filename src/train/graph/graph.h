/*
 * A model inside: what model_*.c and model.c share.
 *
 * The net's layers become ops: a relu that follows its layer is fused into it, flatten is only another view of a value, and
 * changes of layout are ops of their own. Time is counted in moments: op i runs forward at moment i, the loss at moment n_ops,
 * then every op backward in two moments: gradients of its weights, which need what forward stored, then that of its input.
 * Every buffer of the arena has a first and a last moment.
 *
 * What backward needs again goes through the store. Raw, it stays in its buffer. Coded, its buffer is free from its last reader
 * in forward on, and readers in backward decode it into room of their own, but for the relu that made it: who decodes it first
 * leaves it the signs. A batch norm stores one tensor for itself and for those who read its output in backward: that output is
 * derived.
 */
#ifndef COMET_TRAIN_GRAPH_GRAPH_H
#define COMET_TRAIN_GRAPH_GRAPH_H

#include <math.h>

#include "base/status.h"
#include "comet/store.h"
#include "comet/train.h"
#include "train/backend/backend.h"
#include "train/math/norm.h"
#include "train/memory/arena.h"

#define NONE UINT32_MAX

typedef struct op op;
typedef struct assessment assessment;
typedef struct folded folded;
typedef struct sampler sampler;

/* A tensor that flows between ops. */
typedef struct value {
    uint32_t root; /* itself, or the value it is a view of; everything below stands at the root */
    const layout *layout;
    uint32_t producer;    /* op; NONE for the net's input, whose memory is the caller's */
    uint32_t last_reader; /* op that reads it last in forward */
    bool leads;           /* the output depends on it */
    bool needs_gradient;  /* it depends on parameters, and the output depends on it */
    bool saved;           /* read again in backward */
    bool derived;         /* from what its producer, a batch norm, stored */
    bool norm_input;      /* a batch norm stores it for itself */
    bool masks_only;      /* all that is read off it is where it is positive */
    bool put_by_producer; /* it is coded as it is made; others are put before their last reader runs */
    const char *saved_for;
    comet_slot_class saved_class;
    comet_exactness exactness;
    comet_slot slot; /* COMET_NO_SLOT: derived, or not saved */
    uint32_t tensor; /* of the adaptive bound, NONE: exact, or masks alone */
    void *taken;     /* from the store, for the op at hand in backward */
    buffer_id whole; /* room for all of it, decoded once for all readers; NO_BUFFER: readers decode it again */
    bool decoded;    /* it is there, in the step at hand */
    buffer_id signs; /* room for them: who decodes it first leaves them to the relu that made it; NO_BUFFER: it decodes, too */
    bool signs_known;
    uint32_t n_backward;                    /* readers in backward, the relu that made it among them */
    uint32_t first_backward, last_backward; /* ops that read it first and last in backward, NONE: nobody does */
    buffer_id buffer;                       /* forward's, and backward's if held raw */
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
    bool by_parts;       /* `write` holds one part of the batch at a time, which the op itself adds to `sum` */
} delivery;

enum { MAX_PIECES = COMET_MAX_INPUTS };

typedef struct op_type op_type;

struct op {
    const op_type *type;
    const comet_layer *layer;                                   /* of the model's own net */
    uint32_t index, n_inputs, inputs[COMET_MAX_INPUTS], output; /* values, at their roots */
    bool relu;                                                  /* fused behind it */
    bool own_depthwise; /* gradient of the weights by depthwise.c: the library has only reference code for it */
    bool masks;         /* backward: the gradient passes where the output is positive (fused relu, not batch norm's) */
    bool sums;          /* masks: and its sums by channel are wanted of what passed */
    kernel *forward, *backward_data, *backward_weights;
    uint32_t n_parts; /* convolution, linear: backward takes the batch in so many equal parts, and its kernels are for one; 0 */
    kernel *weights_reorder, *gradient_reorder; /* between the forward kernel's layout and backward's */
    kernel *pieces[MAX_PIECES];                 /* concat: gradients of the inputs */
    kernel *add[COMET_MAX_INPUTS];              /* additions of gradients */
    uint32_t weight, bias;                      /* parameters, NONE if there are none; batch norm: scale, shift */
    uint32_t mean, variance;                    /* running statistics */
    uint64_t batch_mean, batch_variance;        /* floats, in the block of statistics */
    comet_slot norm_slot;                       /* batch norm: what it stores */
    norm_shape norm;                            /* batch norm, or where there are sums: how its output lies */
    uint64_t norm_tile;                         /* elements that it takes at once in training */
    uint32_t norm_tensor;                       /* of the adaptive bound, or NONE */
    float norm_coarse;    /* how much more coarsely than its bound it stores what the relu cut off, in the step at hand */
    buffer_id norm_whole; /* as value.whole, for what it stored */
    bool norm_decoded;
    folded *folded;       /* convolution: with the batch norm behind it in backward, model_folded.h; NULL: without */
    uint32_t folded_into; /* batch norm: that convolution's op, or NONE */
    uint32_t applied_by;  /* batch norm that is folded: the addition that makes its output on the way, or NONE */
    const layout *workspace_layout;
    buffer_id workspace;
    comet_slot workspace_slot;
    void *workspace_taken;                                          /* from the store, in backward */
    buffer_id rooms[COMET_MAX_INPUTS], room_output, room_workspace; /* where what is taken in backward is decoded */
    buffer_id scratch_forward, scratch_weights, scratch_backward, weights_copy, fresh_weight, fresh_bias;
    buffer_id gradient;       /* fused update: of its weights, then of its bias */
    buffer_id part_gradient;  /* likewise of a part of the batch, as the kernel makes it */
    buffer_id diff_dst, diff; /* gradient of the output, and behind a fused relu */
    buffer_id mask_sums;      /* sums by channel of the latter, then of its squares, in double; NO_BUFFER: they are not made */
    delivery deliveries[COMET_MAX_INPUTS];
    uint32_t consumer, pass; /* of the adaptive bound: its weights, the gradient it passes on; NONE */
    sampler *sampler;        /* convolution: measures its error, model_sample.h; NULL: its input is exact */
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
    comet_slot_class kept_class;
    comet_exactness exactness;
    bool in_place;          /* forward may write over its first input */
    bool backward_in_place; /* the gradient of the input may replace that of the output */
    bool passes_gradient;   /* the gradient of the output is that of each input */
    bool always_writes;     /* backward needs a place for the gradient of its input, even if nobody reads it */
};

/* Samples of convolutions' inputs are kept in turns. */
typedef struct sample_plan {
    uint64_t n_turns;
    uint64_t bytes, work_bytes; /* of the turn that has most; of what measuring one of them works with */
    void *room;                 /* for both, at the bottom of the arena's region; NULL: not in this step */
} sample_plan;

struct comet_model {
    comet_model_params params;
    comet_net *net;
    backend *backend;
    comet_store *store;
    bool coded; /* saved tensors are coded, not held raw */
    value *values;
    uint32_t n_values, values_capacity, output;
    op *ops;
    uint32_t n_ops, ops_capacity;
    parameter *parameters;
    uint32_t n_parameters, parameters_capacity;
    uint64_t n_learnt, n_statistics; /* floats in each block */
    arena arena;
    sample_plan samples;
    float *weights, *gradients, *first, *second, *statistics; /* blocks */
    float *kept_statistics;                                   /* model_state.h: before the step at hand, or NULL */
    double *kept_state;
    comet_memory memory;
    /* of the call at hand */
    const float *images;
    uint64_t step;
    uint32_t n_accumulated;
    double rate;            /* fused update */
    const char *dump;       /* folder for saved activations of the step at hand, or NULL */
    assessment *assessment; /* NULL where nothing is lossy */
};

/* ---- model_graph.c ---- */

/* Ops from the net, with their kernels and parameters, and what each must keep for backward. */
comet_status graph_build(comet_model *m);
/* The plain layout of the same shape. */
comet_status graph_plain_like(comet_model *m, const layout *l, const layout **plain);
comet_status graph_add_parameter(comet_model *m, const parameter *p, uint32_t *index);

/* ---- model_lower.c ---- */

/* Declares and plans all buffers, and m->memory. */
comet_status lower(comet_model *m);

/* ---- model_memory.c ---- */

/* Lays out the arena, with more rooms where they cost no memory, and fills m->memory. */
comet_status memory_plan(comet_model *m);
/* Lends the part of the arena's region that transients leave free to the store; below it there is room for samples, or not.
 * Only between steps. */
comet_status memory_share_region(comet_model *m, bool samples);

/* ---- model_ops.c ---- */

const op_type *op_type_of(comet_op kind);
extern const op_type op_type_reorder;

/* Where a value's elements are in forward. */
void *value_data(const comet_model *m, uint32_t v);
/* A learnt tensor's part of a block; NULL where there is none. */
float *learnt(const comet_model *m, float *block, uint32_t index);
/* The gradient of o's parameter `index`, its weight or its bias; NULL where there is none. */
float *gradient_at(const comet_model *m, const op *o, uint32_t index);
parameter named_parameter(const op *o, const char *suffix);
comet_status add_vector(comet_model *m, const parameter *described, uint64_t n, uint32_t *index);
void op_destroy(op *o);

/* ---- model_weighted.c: convolution and linear ---- */

comet_status conv_prepare(comet_model *m, op *o);
comet_status linear_prepare(comet_model *m, op *o);
comet_status weighted_forward(comet_model *m, op *o, run_mode mode);
comet_status weighted_backward(comet_model *m, op *o);
/* How a convolution takes an input that lies as `input`: likewise, or otherwise where that would be slow. */
comet_status conv_wanted_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input,
                                const layout **wanted);

/* The gradient of o's input from part `part` of the batch, with weights in backward_data's layout. */
comet_status weighted_part_of_data(comet_model *m, const op *o, void *weights, uint32_t part);
/* The gradients of o's weights and bias from the part of the batch that lies in `taken`, and from `diff`, to be written there.
 */
comet_status op_run_backward_weights(comet_model *m, op *o, uint32_t part, float *weight, float *bias);
/* The gradient of own_depthwise weights from n_images of input and output gradient. */
void depthwise_gradient(const comet_model *m, const op *o, uint64_t n_images, const float *x, const float *diff,
                        float *gradient);
/* Gradients of the weights that meet `channels` of its input's channels, from n_images. */
comet_status conv_sample_kernel(comet_model *m, const op *o, uint64_t n_images, uint64_t channels, kernel **k);
/* Of the gradient of o's weights as its kernel makes it; and with that of its bias, for a part of the batch. */
uint64_t op_gradient_bytes(const comet_model *m, const op *o);
uint64_t op_part_gradient_bytes(const comet_model *m, const op *o);

/* ---- model_norm.c ---- */

comet_status norm_prepare(comet_model *m, op *o);
comet_status norm_forward(comet_model *m, op *o, run_mode mode);
comet_status norm_backward(comet_model *m, op *o);
/* The output of batch norm o again, from the tiles [first, end) of what it stored, which y begins with. `scratch` has
 * norm_scratch_bytes. */
comet_status norm_again(comet_model *m, op *o, uint64_t first_tile, uint64_t end_tile, float *y, void *scratch);
uint64_t norm_scratch_bytes(const comet_model *m, const op *o);
/* A batch norm o that is applied_by another, which asks for the elements [first, first + n) of its output, whole rows and at
 * most `piece`. They lie in a room of the worker's until it asks again; what they are computed from stays as it is. */
typedef struct norm_late {
    const norm_shape *shape;
    norm_apply_coefficients apply;
    const float *in;
    float *rooms;
    uint64_t room, piece; /* floats a worker; elements */
} norm_late;
norm_late norm_late_of(comet_model *m, const op *o);
const float *norm_apply_late(const norm_late *l, uint64_t first, uint64_t n, size_t worker);
/* A reader has gone through tiles in their order, if `all` to the last: then they all lie in norm_whole, where there is one. */
void norm_took(op *o, bool all);

/* ---- model_add.c ---- */

comet_status add_prepare(comet_model *m, op *o);
comet_status add_forward(comet_model *m, op *o, run_mode mode);
comet_status add_backward(comet_model *m, op *o);
/* Elements that it takes at once. */
uint64_t add_tile_elements(const comet_model *m, const op *o);

/* ---- model_folded.c: a batch norm folded into the backward pass of the convolution before it ---- */

/* Which ones; before slots are declared. */
comet_status folded_find(comet_model *m);
void folded_destroy(folded *f);
/* Memory in backward, beside what convolutions have. */
comet_status folded_declare(comet_model *m, op *o);
uint64_t folded_scratch_bytes(const folded *f);
/* All gradients of convolution o and of its batch norm. */
comet_status folded_backward(comet_model *m, op *o);
/* Adds what the input of a part of the batch contributes to that part's gradient of the input. */
comet_status folded_add_input(comet_model *m, const op *o, float *gradient);

/* ---- model_saved.c: what forward puts and backward takes ---- */

comet_status saved_declare(comet_model *m);
/* The slot that value v is read off in backward. */
comet_slot value_slot(const comet_model *m, uint32_t v);
/* Before op o runs forward: what it reads last is put; after: what nobody reads, and its workspace. Not what is
 * put_by_producer. */
comet_status saved_put_before(comet_model *m, const op *o);
comet_status saved_put_after(comet_model *m, const op *o);
/* Around the making of value v, which is put_by_producer: the slot that its tiles go to as they are made; or, where they must
 * all be there first, COMET_NO_SLOT. */
comet_status saved_put_begin(comet_model *m, uint32_t v, comet_slot *slot);
comet_status saved_put_end(comet_model *m, uint32_t v, comet_slot slot);
/* Around op o's backward. Ops with weights take their input themselves, part by part. */
comet_status saved_take(comet_model *m, op *o);
typedef struct saved_part {
    uint32_t index, n; /* of so many equal parts of the batch */
} saved_part;
comet_status saved_take_input(comet_model *m, op *o, saved_part part);
/* Room to decode one of n_parts of value v. */
uint64_t saved_room_bytes(const comet_model *m, uint32_t v, uint32_t n_parts);
/* Of value v's signs; 0 where they cannot be left to the relu that made it, or there is none. */
uint64_t saved_signs_bytes(const comet_model *m, uint32_t v);
comet_status saved_drop(comet_model *m, op *o);
/* The gradient of o's output passes where that output is positive: from diff_dst to diff, which may be the same. Sums go to
 * mask_sums, if there are to be any. */
comet_status saved_mask(comet_model *m, const op *o);
uint64_t saved_mask_scratch_bytes(const comet_model *m, const op *o);
/* Of mask_sums; 0 where sums cannot be made on the way. */
uint64_t saved_mask_sums_bytes(const comet_model *m, const op *o);
/* The tensor description of a layout for the codec. */
comet_tensor layout_tensor(const layout *l);

/* ---- model_dump.c ---- */

/* Writes a saved tensor, where that was asked for. */
comet_status dump_tensor(const comet_model *m, const char *layer, const char *what, const layout *l, const float *x);

/* ---- model_sample.c ---- */

/* Samplers of all convolutions whose inputs are stored with errors. */
comet_status sample_find(comet_model *m);
void sample_destroy(sampler *s);

/* ---- model_assess.c, model_policy.c, model_measure.c: adaptive bounds ---- */

/* Of samples and what measuring works with, in steps that have them. */
uint64_t assess_bytes(const comet_model *m);
comet_status assess_create(comet_model *m);
void assess_destroy(comet_model *m);
/* Policies of all slots for the step to come. */
comet_status assess_set_policies(comet_model *m);
bool assess_is_due(const comet_model *m);
/* Forward: op o is about to read its input. */
void assess_before(comet_model *m, const op *o);
/* Backward: o's weights have their gradient from a part of the batch, whose input still lies in `taken`. */
comet_status assess_weighted(comet_model *m, const op *o, uint32_t part);
/* Likewise with the batch norm behind o folded into it: part by part, then as a whole with folded_block's numbers at hand. */
void assess_folded_part(comet_model *m, const op *o, uint32_t part);
comet_status assess_folded(comet_model *m, const op *o);
/* What an error in what a batch norm stores does, in units of 3 / eb^2, summed over channels: to the gradient of its scale, to
 * the gradient it passes on, and how much of that at most where the relu cut off; and the energy of what is passed on. */
typedef struct norm_harm {
    double scale, passed, cut, energy;
} norm_harm;
void assess_norm(comet_model *m, const op *o, const norm_harm *harm);
/* The loss of this step is known. */
void assess_loss(comet_model *m, double loss);
/* The gradients of o's parameters are about to be used by the optimiser, in update number `step`. */
void assess_gradient(comet_model *m, const op *o, uint64_t step);
/* All of them have been seen. */
comet_status assess_update(comet_model *m, uint64_t step);

/* 1 / standard deviation of a channel in the batch, as batch norm `o` has it in backward. */
static inline double inverse_deviation(const comet_model *m, const op *o, uint64_t channel)
{
    return 1 / sqrt((double)m->statistics[o->batch_variance + channel] + (double)o->layer->eps);
}

/* The moment of op o's backward: phase 0, gradients of weights; phase 1, that of its input. */
static inline uint32_t moment_backward(const comet_model *m, const op *o, uint32_t phase)
{
    return m->n_ops + 1 + 2 * (m->n_ops - 1 - o->index) + phase;
}

static inline uint32_t moments_of(const comet_model *m)
{
    return 3 * m->n_ops + 1;
}

/* Where a value's elements are in backward, while an op has taken them. */
static inline void *value_data_backward(const comet_model *m, uint32_t v)
{
    return m->values[v].taken;
}

static inline const layout *input_layout(const comet_model *m, const op *o)
{
    return m->values[o->inputs[0]].layout;
}

static inline void set_output_layout(comet_model *m, const op *o, const layout *l)
{
    m->values[o->output].layout = l;
}

/* Of one image in value v. */
static inline uint64_t image_floats(const comet_model *m, uint32_t v)
{
    return layout_bytes(m->values[v].layout) / sizeof(float) / m->params.batch;
}

static inline bool wants_gradient(const comet_model *m, const op *o, uint32_t input)
{
    return m->values[o->inputs[input]].needs_gradient;
}

/* So that what follows is aligned. */
static inline uint64_t padded_floats(uint64_t n)
{
    return (n + 15) / 16 * 16;
}

#endif
