/*
 * The operators: how each kind prepares its kernels, runs forward and runs backward. table.c has the table of kinds; the other
 * files are one kind or family each, with a state of their own in op.state.
 */
#ifndef COMET_TRAIN_OPS_OPS_H
#define COMET_TRAIN_OPS_OPS_H

#include <math.h>

#include "train/graph/graph.h"
#include "train/graph/ranks.h"

typedef struct folded folded;

/* ---- table.c ---- */

const op_type *op_type_of(comet_op kind);

/* ---- single.c: one source, one destination ---- */

/* Parts of the batch in which backward takes o's first input, one after another, for ops whose result does not depend on them;
 * 0 where it cannot be cut. *part: how one lies. */
comet_status backward_parts(comet_model *m, const op *o, uint32_t *n_parts, const layout **part);
comet_status single_forward(comet_model *m, op *o, run_mode mode);
comet_status single_backward(comet_model *m, op *o);
comet_status activation_prepare(comet_model *m, op *o);
comet_status pool_prepare(comet_model *m, op *o);
comet_status lrn_prepare(comet_model *m, op *o);
extern const op_type op_type_reorder; /* a change of layout */

/* ---- dropout.c, multiply.c, concat.c ---- */

comet_status dropout_prepare(comet_model *m, op *o);
comet_status dropout_run_forward(comet_model *m, op *o, run_mode mode);
comet_status dropout_run_backward(comet_model *m, op *o);

comet_status multiply_prepare(comet_model *m, op *o);
comet_status multiply_run_forward(comet_model *m, op *o, run_mode mode);
comet_status multiply_run_backward(comet_model *m, op *o);

comet_status concat_prepare(comet_model *m, op *o);
void concat_destroy(op *o);
uint64_t concat_scratch_bytes(const comet_model *m, const op *o, op_phase phase);
comet_status concat_forward(comet_model *m, op *o, run_mode mode);
comet_status concat_backward(comet_model *m, op *o);

/* ---- weighted.c: convolution and linear ---- */

typedef struct weighted {
    bool own_depthwise; /* gradient of the weights by depthwise.c: the library has only reference code for it */
    kernel *forward_reorder, *weights_reorder, *gradient_reorder; /* between how weights are kept and what kernels need */
    folded *folded;                  /* a batch norm folded into its backward, folded.h; NULL: none */
    uint64_t choice_bytes[N_PASSES]; /* scratch of the candidates, where a trial is yet to choose; else 0 */
} weighted;

static inline weighted *weighted_of(const op *o)
{
    return o->state;
}

comet_status conv_prepare(comet_model *m, op *o);
comet_status linear_prepare(comet_model *m, op *o);
void weighted_destroy(op *o);
comet_status weighted_forward(comet_model *m, op *o, run_mode mode);
comet_status weighted_backward(comet_model *m, op *o);
uint64_t weighted_scratch_bytes(const comet_model *m, const op *o, op_phase phase);
comet_status weighted_declare_forward(comet_model *m, op *o);
comet_status weighted_declare_backward(comet_model *m, op *o, uint32_t weights, uint32_t data);
/* A convolution takes its input as it lies, or in another layout where that would be slow; a linear layer in the type in which
 * it computes. */
comet_status conv_input_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input, const layout **needed);

comet_status linear_input_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input,
                                 const layout **needed);

/* The gradient of o's input from part `part` of the batch, with weights in backward_data's layout: *gradient, to which more may
 * be added before weighted_deliver_part. */
comet_status weighted_part_of_data(comet_model *m, const op *o, void *weights, uint32_t part, void **gradient);
/* Adds that part to the gradient of the input that others have delivered, where it is added part by part. */
comet_status weighted_deliver_part(comet_model *m, const op *o, uint32_t part);
/* The gradients of o's weights and bias from the part of the batch that lies in `taken`, and from `diff`. */
comet_status weighted_part_of_weights(comet_model *m, op *o, uint32_t part, float *weight, float *bias);
/* The gradient of own_depthwise weights from n_images of input and output gradient. */
void depthwise_gradient(const comet_model *m, const op *o, uint64_t n_images, const void *x, const void *diff, float *gradient);
/* What the kernel of a pass of convolution o computes: the whole batch, backward a part of it. */
conv_spec conv_pass_spec(const comet_model *m, const op *o, kernel_pass pass);
/* Makes a kernel for gradients of the weights that read `channels` of the input's channels, from n_images. */
comet_status conv_sample_kernel(comet_model *m, const op *o, uint64_t n_images, uint64_t channels, kernel **k);
/* Bytes of the gradient of o's weights as its kernel makes it. */
uint64_t weighted_gradient_bytes(const comet_model *m, const op *o);

/* ---- batch_norm.c ---- */

typedef struct batch_norm {
    uint32_t mean, variance;             /* parameters: running statistics */
    uint64_t batch_mean, batch_variance; /* floats, in the block of statistics */
    norm_shape shape;
    float coarse;         /* how much more coarsely than its bound it stores what the relu cut off, in this step */
    uint32_t deferred_to; /* addition that computes its output on demand, or NONE */
    bool frozen;          /* neither scale nor shift is trained: it uses the running statistics, which do not move */
} batch_norm;

/* NULL where o is not a batch norm. */
batch_norm *batch_norm_of(const op *o);

comet_status norm_prepare(comet_model *m, op *o);
void norm_destroy(op *o);
comet_status norm_run_forward(comet_model *m, op *o, run_mode mode);
comet_status norm_run_backward(comet_model *m, op *o);
comet_status norm_input_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input, const layout **needed);
comet_status norm_declare_own(comet_model *m, op *o);
comet_status norm_declare_forward(comet_model *m, op *o);
uint64_t norm_scratch_bytes(const comet_model *m, const op *o, op_phase phase);
comet_status norm_derive(comet_model *m, op *o, uint64_t first_tile, uint64_t end_tile, void *y, void *scratch);

/* A batch norm whose output is computed on demand by the addition that consumes it. The addition asks for elements
 * [first, first + n), whole rows and at most `piece`. They lie in a room of the worker's until it asks again. */
typedef struct deferred_norm {
    const norm_shape *shape;
    norm_apply_coefficients apply;
    const void *in;
    void *rooms;
    uint64_t room, piece; /* elements: a worker's; of the most that may be asked for at once */
} deferred_norm;
deferred_norm deferred_norm_of(comet_model *m, const op *o);
const void *deferred_norm_apply(const deferred_norm *d, uint64_t first, uint64_t n, size_t worker);

/* The ranks whose images' statistics batch norms use. */
static inline uint32_t norm_ranks(const comet_model *m)
{
    return m->params.sync_batch_norm ? model_ranks(m) : 1;
}

/* Adds up sums over these ranks. Whether a batch norm calls it, and with how many, must not depend on the rank. */
static inline comet_status sum_over_norm_ranks(const comet_model *m, double *sums, uint64_t n)
{
    return norm_ranks(m) > 1 ? ranks_sum(m, sums, n) : COMET_OK;
}

/* 1 / standard deviation of a channel in the batch, as batch norm `o` has it in backward. */
static inline double inverse_deviation(const comet_model *m, const op *o, uint64_t channel)
{
    return 1 / sqrt((double)m->statistics[batch_norm_of(o)->batch_variance + channel] + (double)o->layer->eps);
}

/* ---- add.c ---- */

comet_status add_prepare(comet_model *m, op *o);
comet_status add_forward(comet_model *m, op *o, run_mode mode);
comet_status add_backward(comet_model *m, op *o);

#endif
