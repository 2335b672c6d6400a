/*
 * A model: its values, operators and parameters, and the small accessors that every folder above uses.
 *
 * The net's layers become ops. A relu that comes right after its layer is fused into it, flatten is only another view of a
 * value, and changes of layout are ops of their own. Time is counted in moments: op i runs forward at moment i, the loss is
 * computed at moment n_ops, then every op runs backward in two moments: gradients of its weights, which need what forward
 * stored, then the gradient of its input. Every buffer of the arena has a first and a last moment.
 *
 * What backward needs again goes through the store. Raw, it stays in its buffer. Coded, its buffer is free after its last
 * reader in forward, and readers in backward decode it into room of their own. The relu that made it is the exception: it needs
 * only the sign mask, which the op that decodes the value first leaves for it. A batch norm stores one tensor for itself and
 * for the readers of its output in backward: that output is derived.
 */
#ifndef COMET_TRAIN_GRAPH_GRAPH_H
#define COMET_TRAIN_GRAPH_GRAPH_H

#include "base/status.h"
#include "comet/ranks.h"
#include "comet/store.h"
#include "comet/train.h"
#include "train/graph/arena.h"
#include "train/graph/observer.h"
#include "train/graph/op.h"
#include "train/graph/saving.h"
#include "train/graph/step_clock.h"

typedef struct assessment assessment;
typedef struct sampler sampler;
typedef struct exchange exchange;

/* ---- the model ---- */

/* Brings a parameter's state of the optimiser (its momentum or second moment) to `whole`, or takes it from there. */
typedef comet_status state_mover(const comet_model *m, comet_tensor_kind kind, const parameter *p, float *whole, bool write);

/* Samples of convolutions' inputs are kept in turns. */
typedef struct sample_plan {
    sampler **samplers; /* by op: assess/sample.h; NULL: nothing is measured */
    uint64_t n_turns;
    uint64_t *work_bytes; /* by op: of the buffer that measuring its sample takes, 0 where it has none */
    uint64_t bytes;       /* of the largest turn */
    uint64_t at;          /* where it lies in the arena's region */
    uint32_t first, last; /* moments at which it is in use */
    void *room;           /* NULL: not in this step */
} sample_plan;

/* What was held after forward and backward of ops, in a step for which that was asked. */
typedef struct trace_point {
    uint32_t op;
    bool backward;
    uint64_t bytes; /* as stored, in memory and on disk */
} trace_point;

typedef struct step_trace {
    bool wanted, on;
    size_t n_points;
    trace_point *points; /* of the last such step; NULL: none was asked for */
} step_trace;

struct comet_model {
    comet_model_params params;
    comet_net *net;
    backend *backend;
    comet_store *store;
    comet_dtype type; /* of activations and their gradients, except where an op computes in floats */
    bool coded;       /* saved tensors are coded, not held raw */
    value *values;
    uint32_t n_values, values_capacity, output;
    op *ops;
    uint32_t n_ops, ops_capacity;
    parameter *parameters;
    uint32_t n_parameters, parameters_capacity;
    uint64_t n_learnt, n_frozen, n_statistics; /* floats: of parameters that are updated, of frozen ones, of statistics */
    uint64_t n_state;                          /* floats of a block of the optimiser's state: n_learnt, or this rank's share */
    arena arena;
    sample_plan samples;
    float *weights;                      /* n_learnt, then n_frozen */
    float *gradients, *statistics;       /* blocks */
    state_block momentum, second_moment; /* n_state floats each, where the optimiser keeps them */
    float *kept_statistics;              /* assess/state.h: before this step, or NULL */
    double *kept_state;
    comet_memory memory;
    observer observer;
    assessment *assessment;  /* assess/assess.h; NULL where nothing is lossy */
    state_mover *move_state; /* where the optimiser's state is shared out among ranks; else NULL */
    exchange *exchange;      /* update/exchange.h; NULL where the model trains alone */
    step_clock clock;
    step_trace trace;
    uint64_t n_passes;                 /* batches that went forward and backward */
    uint64_t step_saved, step_spilled; /* between forward and backward of the last one */
    /* of this call */
    const float *images;
    uint64_t step;
    uint32_t n_accumulated;
    bool calibrates;  /* frozen batch norms take over the statistics of this batch */
    double rate;      /* fused update */
    const char *dump; /* folder for saved activations of this step, or NULL */
};

/* ---- graph.c ---- */

comet_status graph_add_value(comet_model *m, uint32_t *index);
comet_status graph_add_op(comet_model *m, const op_type *type, const comet_layer *layer, op **out);
comet_status graph_add_parameter(comet_model *m, const parameter *p, uint32_t *index);
/* Adds a parameter of n elements. */
comet_status graph_add_vector(comet_model *m, const parameter *described, uint64_t n, uint32_t *index);
/* A learnt parameter named after o's layer. */
parameter named_parameter(const op *o, const char *suffix);
/* The plain layout of the same shape and type. */
comet_status graph_plain_like(comet_model *m, const layout *l, const layout **plain);
void op_destroy(op *o);

/* Where a value's elements are in forward. */
void *value_data(const comet_model *m, uint32_t v);
/* A learnt tensor's part of a block; NULL where there is none. */
float *learnt(const comet_model *m, float *block, uint32_t index);
/* The gradient of o's parameter `index`, its weight or its bias; NULL where there is none, or it is frozen. */
float *gradient_at(const comet_model *m, const op *o, uint32_t index);

/* ---- marks.c ---- */

/* Which values need gradients, what each op keeps for backward, which of that is derived. */
void graph_mark(comet_model *m);

/* ---- accessors ---- */

static inline bool model_is_lossy(const comet_model *m)
{
    return m->coded && m->params.compression.mode >= COMET_COMPRESS_FAST;
}

static inline bool slot_may_be_lossy(const comet_model *m, comet_slot slot)
{
    return slot != COMET_NO_SLOT && comet_store_slot_spec(m->store, slot)->exactness != COMET_EXACT;
}

/* Processes that train the model together. */
static inline uint32_t model_ranks(const comet_model *m)
{
    return m->params.ranks ? m->params.ranks->n_ranks : 1;
}

/* The first of this rank's images among those of all ranks. */
static inline uint64_t first_row_of_rank(const comet_model *m)
{
    return m->params.ranks ? (uint64_t)m->params.ranks->rank * m->params.batch : 0;
}

/* Has this batch the last of the gradients that an update takes? */
static inline bool is_last_batch(const comet_model *m)
{
    return m->n_accumulated + 1 == m->params.accumulate;
}

/* The moment of op o's backward: phase 0, gradients of weights; phase 1, gradient of its input. */
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

/* The layer that makes a value, in words for figures and messages. */
static inline const char *value_maker(const comet_model *m, const value *x)
{
    return x->producer == NONE ? "input" : m->ops[x->producer].layer->name;
}

/* Where part `part` of the batch begins in a tensor of value v, for an op that takes it in parts. */
static inline void *part_of(const comet_model *m, const op *o, uint32_t v, void *whole, uint32_t part)
{
    return (uint8_t *)whole + part * (layout_bytes(m->values[v].layout) / o->n_parts);
}

/* Elements of one image in value v. */
static inline uint64_t image_elements(const comet_model *m, uint32_t v)
{
    return layout_elements(m->values[v].layout) / m->params.batch;
}

/* Is there such a parameter, and is it updated? */
static inline bool is_trained(const comet_model *m, uint32_t index)
{
    return index != NONE && !m->parameters[index].frozen;
}

/* Has the op parameters that are updated? */
static inline bool op_learns(const comet_model *m, const op *o)
{
    return is_trained(m, o->weight) || is_trained(m, o->bias);
}

static inline bool needs_gradient_of(const comet_model *m, const op *o, uint32_t input)
{
    return m->values[o->inputs[input]].needs_gradient;
}

/* Rounds up, so that what follows is aligned. */
static inline uint64_t padded_floats(uint64_t n)
{
    return (n + 15) / 16 * 16;
}

static inline uint64_t padded_bytes(uint64_t n)
{
    return (n + 63) / 64 * 64;
}

#endif
