/* The state of the adaptive bound, and what its files offer one another. */
#ifndef COMET_ADAPT_STATE_H
#define COMET_ADAPT_STATE_H

#include "adapt/adapt.h"
#include "adapt/arithmetic.h"

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

/* ---- shares.c ---- */

/* Best fit's factor of each consumer. */
void adapt_distribute_shares(adapt *a);
/* Of M, that the error may add. */
double adapt_parameter_share(const adapt *a, const consumer_state *c);
/* Relative energy that a pass-on consumer may let in. */
double adapt_pass_share(const adapt *a, const consumer_state *c);

/* ---- gains.c ---- */

/* Gradient assessment of a parameter consumer: M, what the error may add, what it did, and its harm. */
void adapt_assess_gradient(const adapt *a, consumer_state *c, bool was_known);

/* ---- intervals.c ---- */

/* The next assessment after the one at `step`, which moved bounds by up to the factor `moved`. */
void adapt_plan_next(adapt *a, uint64_t step, double moved);
/* The next step is assessed, and assessments are close again. */
void adapt_plan_restart(adapt *a, uint64_t step);

/* ---- means over steps ---- */

/* A squared error as it is averaged over steps: NOISE is about variances, SIGMA about standard deviations. */
static inline double to_average(const adapt *a, double square)
{
    return a->params.rule == ADAPT_NOISE ? square : sqrt(square);
}

/* And back, of such a mean. */
static inline double from_average(const adapt *a, double mean)
{
    return a->params.rule == ADAPT_NOISE ? mean : mean * mean;
}

#endif
