/*
 * Assessments of a model inside: what model_assess.c (consumers, and the assessment itself), model_policy.c (how each tensor is
 * held), model_measure.c (gains and errors), model_state.c (checkpoints) and model_figures.c share.
 */
#ifndef COMET_TRAIN_ASSESS_ASSESS_H
#define COMET_TRAIN_ASSESS_ASSESS_H

#include "adapt/adapt.h"
#include "train/graph/graph.h"

/* A consumer that only passes gradients on. */
typedef struct pass_consumer {
    uint32_t consumer, value;
    comet_op op;
} pass_consumer;

/* What the store had counted for a slot when its level was last changed. */
typedef struct level_clock {
    double seconds;
    uint64_t n_puts;
} level_clock;

struct assessment {
    adapt *adapt;
    bool due, complete;                  /* this step is collected; and bounds were assessed with it */
    bool held_still;                     /* no step is collected */
    uint64_t n_assessments, n_collected; /* so far; steps collected for them */
    uint64_t n_withdrawals;              /* of all bounds, in this process */
    double loss_mean, loss_spread;       /* of the last steps; spread: mean absolute deviation */
    adapt_observation *seen;             /* by consumer */
    pass_consumer *passes;
    uint32_t n_passes;
    double *deviations; /* by slot: of what was put last; 0: not known */
    double *cut_gains;  /* by slot of a batch norm: part of its pass-on gain at most that is of what the relu cut off; NaN:
                           unknown */
    double *coarse;     /* likewise: how much more coarsely that is stored; at least 1, or 0 before it is known */
    bool *dense;        /* by slot: mode auto */
    level_clock *clocks;
    bool chosen;        /* `dense` is; not after a resume */
    uint64_t n_updates; /* that a hidden momentum has seen */
    uint64_t n_nonzero; /* of the input at hand, in its parts so far */
    double began, step_seconds;
    uint64_t held, conv_raw, conv_held, n_nonfinite; /* of the last step, at its peak */
    const char *nonfinite_layer;                     /* the first with such values; NULL: none */
};

static inline bool model_is_lossy(const comet_model *m)
{
    return m->coded && m->params.compression.mode >= COMET_COMPRESS_FAST;
}

static inline bool slot_may_be_lossy(const comet_model *m, comet_slot slot)
{
    return slot != COMET_NO_SLOT && comet_store_slot_spec(m->store, slot)->exactness != COMET_EXACT;
}

/* The bound that a slot was put with. */
double slot_eb(const comet_model *m, comet_slot slot);

/* ---- model_measure.c ---- */

/* Of a step, when it is known whether that is due: room for samples, or none. */
comet_status assess_begin(comet_model *m);

/* ---- model_policy.c ---- */

/* Mode auto: which slots are dense, where that is to be chosen. */
comet_status choose_levels(comet_model *m);

#endif
