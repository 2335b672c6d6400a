/* The state of the adaptive bound, and what its files offer one another. */
#ifndef COMET_ADAPT_STATE_H
#define COMET_ADAPT_STATE_H

#include "adapt/adapt.h"
#include "adapt/arithmetic.h"

typedef struct tensor_state {
    const char *name;
    uint64_t n_elements;
    double eb;     /* the bound in force */
    double last;   /* the bound that the last assessment gave, kept by a retreat; 0: none yet */
    double stored; /* the bound it was stored with when it was last observed; 0: stored exactly, or not observed */
} tensor_state;

/* What a consumer saw since the last assessment: sums over its steps. */
typedef struct collection {
    double n;         /* steps */
    double gain;      /* gains; of a parameter under SIGMA their roots */
    double reference; /* of a parameter: the gradient's noise (NOISE), mean |momentum| (SIGMA) */
    /* sums over the steps in which the error was measured: */
    double n_measured, measured; /* steps; squared errors (NOISE), their roots (SIGMA) */
    double harm;                 /* `measured` scaled to a bound of 1 */
    double measured_reference;   /* `reference` in these steps */
    double eb;                   /* the least bound in these steps */
} collection;

/* Quotients of measured and allowed errors, of squares (NOISE) or roots (SIGMA). Each assessment weighs as many steps as it
 * measured; older ones fade. */
typedef struct error_history {
    double n, quotients; /* sums of weights, and of weighted quotients */
} error_history;

/* Errors at the limit relative to those aimed at: their mean, and how much they scatter; aim.c. Older ones fade. */
typedef struct error_scatter {
    double n, n_squares; /* sums of weights, steps, and of their squares */
    double sum, squares; /* weighted sums of the quotients and of their squares */
} error_scatter;

typedef struct consumer_state {
    const char *name;
    uint64_t n_weights; /* 0: pass-on */
    uint32_t tensor;
    bool known;         /* observed since the start or the last retreat */
    bool limits;        /* sets its tensor's bound */
    bool harm_measured; /* `harm` was measured, not predicted */
    collection collected;
    /* of the last assessment: */
    double gain;             /* mean over its steps */
    double share;            /* best fit's factor */
    double reference;        /* of a parameter, M: the gradient's variance (NOISE), n_weights * mean|momentum|^2 (SIGMA) */
    double harm;             /* what the error of a bound of 1 adds, in units of M, smoothed; 0: unknown */
    double allowed;          /* summed variance that the error may add; NaN: unknown */
    double limit;            /* the largest bound that this consumer allows; INFINITY: any */
    double measured;         /* summed squared error (SIGMA: squared mean of roots); NaN: not measured */
    bool at_limit;           /* `measured` is the error of the bound that this consumer had set */
    error_history errors[2]; /* [0] below the limit, [1] at the limit */
    double aim;              /* the part of sigma* that the limit aims at */
    error_scatter scatter;
} consumer_state;

struct adapt {
    adapt_params params;
    tensor_state *tensors;
    consumer_state *consumers;
    uint32_t n_tensors, n_consumers, tensor_capacity, consumer_capacity;
    uint64_t first, next; /* first and last step that the next assessment collects */
    uint64_t gap;         /* steps from the last assessment to the next */
    uint64_t n_assessed;  /* assessments since the start or the last retreat: before the first no bound is in force */
};

static inline bool is_parameter(const consumer_state *c)
{
    return c->n_weights > 0;
}

/* ---- shares.c ---- */

/* Sets best fit's factor of each consumer, where best fit is asked for. */
void adapt_distribute_shares(adapt *a);
/* The share of M that the error may add to a parameter consumer's gradient. */
double adapt_parameter_share(const adapt *a, const consumer_state *c);
/* The relative energy that a pass-on consumer may let in. */
double adapt_pass_share(const adapt *a, const consumer_state *c);

/* ---- gains.c ---- */

/* Gradient assessment of a parameter consumer: M, the allowed and the measured error, and its harm. was_known: the consumer was
 * assessed before. */
void adapt_assess_gradient(const adapt *a, consumer_state *c, bool was_known);

/* ---- aim.c ---- */

/* Forgets what was measured: the limit aims at what it does at the start. */
void adapt_reset_aim(consumer_state *c);
/* What a limit was computed from. */
typedef struct known_harm {
    double harm; /* 0: unknown */
    bool measured;
} known_harm;
/* After adapt_assess_gradient, and before the new limit is computed: the aim from the errors at the last limits, which were
 * computed from `before`. */
void adapt_follow_aim(const adapt *a, consumer_state *c, const known_harm *before);

/* ---- intervals.c ---- */

/* Plans the assessment after the one at `step`, which moved bounds by up to the factor `moved`. */
void adapt_plan_next(adapt *a, uint64_t step, double moved);
/* Plans an assessment for the step after `step`, with gaps that grow from 1 again. */
void adapt_plan_restart(adapt *a, uint64_t step);

/* ---- means over steps ---- */

/* What is averaged over steps for a squared error: NOISE averages variances, SIGMA standard deviations. */
static inline double to_average(const adapt *a, double square)
{
    return a->params.rule == ADAPT_NOISE ? square : sqrt(square);
}

/* The squared error for such an average. */
static inline double from_average(const adapt *a, double mean)
{
    return a->params.rule == ADAPT_NOISE ? mean : mean * mean;
}

#endif
