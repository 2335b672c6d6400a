/*
 * Adaptive bounds of a model: assess.c (consumers, and the assessment itself) listens to the model's steps; policy.c says how
 * each tensor is held, measure.c finds gains and errors, sample.c keeps what errors are measured with, state.c is for
 * checkpoints, figures.c for those who ask.
 */
#ifndef COMET_TRAIN_ASSESS_ASSESS_H
#define COMET_TRAIN_ASSESS_ASSESS_H

#include "adapt/adapt.h"
#include "train/graph/graph.h"
#include "train/memory/memory.h"

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

/* What the adaptive bound knows of an op, NONE where it does not apply. */
typedef struct op_bounds {
    uint32_t consumer; /* its weights */
    uint32_t pass;     /* the gradient it passes on */
    uint32_t tensor;   /* what it stores for itself */
} op_bounds;

struct assessment {
    adapt *adapt;
    op_bounds *ops;                      /* by op */
    uint32_t *value_tensors;             /* by value: of the adaptive bound; NONE: exact, or masks alone */
    bool due, complete;                  /* this step is collected; bounds were assessed after it */
    bool frozen;                         /* comet_model_hold_bounds: no step is collected */
    uint64_t n_assessments, n_collected; /* so far; steps collected for them */
    uint64_t n_withdrawals;              /* of all bounds, in this process */
    double loss_mean, loss_spread;       /* of the last steps; spread: mean absolute deviation */
    adapt_observation *seen;             /* by consumer */
    struct joint *joint;                 /* join.c; NULL: the model trains alone */
    pass_consumer *passes;
    uint32_t n_passes;
    double *deviations; /* by slot: of what was put last; 0: not known */
    double *cut_gains;  /* by slot of a batch norm: the most that what the relu cut off contributes to its pass-on gain, as
                           a part of that gain; NaN: unknown */
    double *coarse;     /* by the same slots: how much more coarsely that is stored; at least 1; 0: unknown yet */
    bool *dense;        /* by slot: mode auto */
    level_clock *clocks;
    bool chosen;        /* `dense` is chosen; false after a resume */
    uint64_t n_updates; /* updates of the hidden momentum */
    uint64_t n_nonzero; /* non-zeros of the input that is read now, in its parts so far */
    double began, step_seconds;
    uint64_t held, conv_raw, conv_held, n_nonfinite; /* of the last step, at its peak */
    const char *nonfinite_layer;                     /* the first with such values; NULL: none */
};

/* The bound that a slot was put with. */
static inline double slot_eb(const comet_model *m, comet_slot slot)
{
    comet_slot_report r;
    comet_slot_report_init(&r);
    return comet_store_describe_slot(m->store, slot, &r) == COMET_OK ? r.eb : 0;
}

/* The mean of a parameter's |momentum| from its sum, in units of SGD's. */
static inline double mean_of_momentum(const comet_model *m, const parameter *p, double sum)
{
    const comet_optimiser *o = &m->params.optimiser;
    return sum / (double)p->n * (o->kind == COMET_OPTIMISER_ADAMW ? 1 / (1 - o->beta1) : 1);
}

/* ---- assess.c ---- */

/* Makes the assessment and adds it to the model's listeners, where anything is lossy. */
comet_status assess_create(comet_model *m);
void assess_destroy(comet_model *m);

/* ---- join.c: what all ranks observed in place of what this one did; each is called with a->joint alone ---- */

comet_status join_create(comet_model *m);
void join_destroy(assessment *a);
/* For the listener: this rank's gradient of o's weights; a part of that of all ranks, whose sum of |momentum| times
 * momentum_scale is the mean. */
comet_status join_gradient_ready(void *self, comet_model *m, const op *o);
void join_gradient_used(assessment *a, uint32_t consumer, const gradient_part *part, double momentum_scale);
/* At the end of an update: all ranks have the same observations, deviations and counts of values that are not finite. */
comet_status join_observations(comet_model *m);

/* ---- figures.c ---- */

comet_compression_figures assess_figures(const comet_model *m);

/* ---- policy.c ---- */

/* Sets the policies of all slots for the next step, those that are held exactly among them. */
comet_status policy_set_all(comet_model *m);
/* Mode auto: chooses which slots are dense, where a choice is due. */
comet_status choose_levels(comet_model *m);

/* ---- measure.c: what the listener is told, see observer.h ---- */

/* A step begins, and it is known whether it is collected: makes room for samples, or takes it back. */
comet_status measure_begin(comet_model *m);
void measure_input(void *self, comet_model *m, const op *o);
comet_status measure_part(void *self, comet_model *m, const op *o, uint32_t part);
comet_status measure_folded_part(void *self, comet_model *m, const op *o, uint32_t part);
comet_status measure_folded(void *self, comet_model *m, const op *o);
void measure_norm(void *self, comet_model *m, const op *o, const norm_harm *harm);

#endif
