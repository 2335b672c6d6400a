/* The adaptive bound inside: what bounds.c and numbers.c (checkpoints) share. */
#ifndef COMET_ADAPT_STATE_H
#define COMET_ADAPT_STATE_H

#include <math.h>

#include "adapt/adapt.h"

typedef struct tensor_state {
    const char *name;
    uint64_t n_elements;
    double eb;     /* in force */
    double last;   /* as of the last assessment, which a retreat does not forget; 0: none yet */
    double stored; /* with which it was stored when it was last observed; 0: exactly, or not known */
} tensor_state;

/* What was observed since the last assessment: sums over the steps. */
typedef struct collection {
    double n;
    double gain;      /* of a parameter under SIGMA: roots */
    double allowance; /* of a parameter: what the rule measures by, the gradient's noise or mean |momentum| */
    /* over the steps in which the error was measured: */
    double n_measured, measured; /* errors: squares under NOISE, roots of them under SIGMA */
    double harm;                 /* likewise, for a bound of 1 */
    double measured_allowance;
    double eb; /* the least in these */
} collection;

/* Errors, such as `collection` has them, to what was allowed, of assessments weighted by the steps they measured, older ones
 * fading. */
typedef struct error_history {
    double n, quotients; /* sums of weights, and of weighted quotients */
} error_history;

typedef struct consumer_state {
    const char *name;
    uint64_t n_weights; /* 0: pass-on */
    uint32_t tensor;
    bool known;         /* observed since the start or the last retreat */
    bool limits;        /* sets its tensor's bound */
    bool harm_measured; /* `harm` is measured */
    collection collected;
    double gain;             /* in the mean of the last assessment's steps */
    double share;            /* best fit's factor */
    double measure;          /* a parameter's M, of the last assessment */
    double harm;             /* that an error of bound 1 does, in units of M, smoothed; 0: unknown */
    double allowed;          /* summed variance; NaN: unknown */
    double limit;            /* of eb; INFINITY: none */
    double measured;         /* summed squared error in the last assessment (SIGMA: squared mean of roots); NaN: not measured */
    bool at_limit;           /* that was with the bound which this consumer had set */
    error_history errors[2]; /* made with other bounds, and at the limit */
} consumer_state;

struct adapt {
    adapt_params params;
    tensor_state *tensors;
    consumer_state *consumers;
    uint32_t n_tensors, n_consumers, tensor_capacity, consumer_capacity;
    uint64_t first, next; /* of the steps that the next assessment collects, the first and the last */
    uint64_t gap;         /* steps to the one after */
    uint64_t n_assessed;  /* assessments since the start or the last retreat: before the first no bound is in force */
};

/* Best fit's factor of each consumer. */
void adapt_share_out(adapt *a);

/* Finite, and not below 0. */
static inline bool usable(double x)
{
    return isfinite(x) && x >= 0;
}

#endif
