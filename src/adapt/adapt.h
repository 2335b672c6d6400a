/*
 * The adaptive bound: which error each stored tensor may have, from what its error does to gradients. docs/theory.md derives
 * it.
 *
 * A tensor x stored with error e ~ U[-eb, eb] has consumers. A *parameter* consumer is a weight tensor whose gradient is
 * computed from x: the error adds gain * eb^2 to the summed variance of its n_weights elements, where the caller gives the gain
 * (a convolution: C_in/groups * k_h * k_w * R/3 * ||dY||^2). A *pass-on* consumer lets the error into the gradient that is
 * passed on: relative energy gain * eb^2 of it.
 *
 * What is allowed: rule NOISE, a share of the variance of the layer's own mini-batch gradient; rule SIGMA, the paper's
 * sigma* = factor * mean|momentum| for each weight. All pass-on consumers together may add the same share of the passed energy
 * (under SIGMA: 1 %).
 *
 * The four phases: adapt_due says whether an assessment wants this step; the caller then reports every consumer (collect);
 * after the last of these steps, adapt_complete, adapt_assess makes targets (gradient assessment) and bounds (activation
 * assessment) of their means; the caller compresses with adapt_eb until the next. Where errors of a
 * parameter consumer are measured, they take the place of what its gain predicts.
 *
 * No allocation after adapt_add_*; nothing here depends on threads or time, so that a run resumed from adapt_export'ed state
 * gives the same bits.
 */
#ifndef COMET_ADAPT_ADAPT_H
#define COMET_ADAPT_ADAPT_H

#include <stdbool.h>

#include "comet/base.h"

typedef enum adapt_rule { ADAPT_NOISE, ADAPT_SIGMA } adapt_rule;

typedef struct adapt_params {
    adapt_rule rule;
    double share;    /* NOISE: of the variance, such as 0.01; SIGMA: the factor, 0.01 */
    uint32_t window; /* steps between assessments once settled: 1000 */
    bool best_fit;   /* NOISE: distribute the same total noise so that memory is least: relative noise in proportion to the
                        tensor's elements for each of its consumers, within [1/8, 4]. False: every consumer the same share */
} adapt_params;

typedef struct adapt adapt;
#define ADAPT_NONE UINT32_MAX

comet_status adapt_create(adapt **out, const adapt_params *params);
void adapt_destroy(adapt *a);

/* A tensor of n_elements; `name` is kept, not copied. */
comet_status adapt_add_tensor(adapt *a, const char *name, uint64_t n_elements, uint32_t *tensor);
/* Consumers of a tensor. Several tensors never share a parameter consumer; a tensor may have several consumers. */
comet_status adapt_add_parameter(adapt *a, uint32_t tensor, const char *name, uint64_t n_weights, uint32_t *consumer);
comet_status adapt_add_pass(adapt *a, uint32_t tensor, const char *name, uint32_t *consumer);

/* Is step (from 0) one of those that an assessment collects, and is it the last of them? Assessments are close together at
 * first: the gap is 1, 2, 4, ... until a hundredth of the window. Each collects over the gap before it, at most 10 steps, or
 * half of a gap above 20, at most 20. */
bool adapt_due(const adapt *a, uint64_t step);
bool adapt_complete(const adapt *a, uint64_t step);

/* What a consumer saw in such a step. */
typedef struct adapt_observation {
    double gain;           /* see above; 0: the error does no harm there */
    double gradient_noise; /* parameter: sum over weights of the variance of the mini-batch gradient, see adapt_noise */
    double mean_momentum;  /* parameter: mean |momentum| over weights */
    double measured;       /* parameter: summed squared error of the gradient, measured; NaN: not measured, or exactly stored */
    double eb;             /* that the tensor was stored with in this step; 0: exactly */
} adapt_observation;

void adapt_observe(adapt *a, uint32_t consumer, const adapt_observation *seen);

/* New bounds from what was observed since the last call; then the next assessment is planned. The gap grows from 1 by doubling
 * to 1/100 of the window, held where any bound moved by 2x or more. From there it is halved where any bound did, or a
 * measured error is above 1.05 sigma*, and doubled up to the window, at most an eighth of the steps so far, where no bound
 * moved by more than 1.25x and no error is above 0.95 sigma*. Consumers not observed, or observed with values that are negative
 * or not finite, keep what they had. A bound at most doubles, at first from what the tensor was stored with: what larger errors
 * do is measured on the way up, not foreseen. Limits aim at 0.78 sigma*, the middle of 0.5 and 1.2: batches differ, and what an
 * error does may grow until the next assessment. */
void adapt_assess(adapt *a, uint64_t step);

/* Something looks unsafe (a loss spike, non-finite values): bounds are as before the first assessment until the next, which
 * comes with the next step. */
void adapt_retreat(adapt *a, uint64_t step);

/* Assessments since the start or the last retreat. */
uint64_t adapt_n_assessed(const adapt *a);

/* The bound of a tensor; 0 while it has none: before the first assessment, after a retreat, and until each of its consumers was
 * observed. INFINITY where no consumer sets a limit (no consumers, or gains of 0): for the caller to cap. */
double adapt_eb(const adapt *a, uint32_t tensor);

/* Relative energy that a pass-on consumer may still let in at the bound of its tensor; 0 where that is not known. */
double adapt_pass_left(const adapt *a, uint32_t consumer);

/* A ratio is told from a weight of so many steps on. comet/train.h, docs/training.md and docs/theory.md have the number, which
 * test_adapt compares with this one. */
#define ADAPT_RATIO_STEPS 30

/* Of a parameter consumer, for the log; NaN where unknown. sigma is per weight. */
typedef struct adapt_state {
    double sigma_target, sigma_predicted, sigma_measured;
    double share;  /* of the rule's budget that best fit gives it; 1: all */
    bool limits;   /* its limit is the tensor's bound; the others have less error than they could bear */
    bool at_limit; /* sigma_measured is of the bound that this consumer had set */
    /* Measured to target, root mean square (SIGMA: mean) over the last assessments in which at_limit was what it is now,
     * weighted by steps and fading: 60 or so measured steps in effect, which late in a run lie thousands of steps back. One
     * assessment's few images tell a sigma to 10 or 20 %. NaN while their weight is less than ADAPT_RATIO_STEPS. */
    double sigma_ratio;
} adapt_state;
adapt_state adapt_consumer_state(const adapt *a, uint32_t consumer);
uint32_t adapt_n_consumers(const adapt *a);
uint32_t adapt_consumer_tensor(const adapt *a, uint32_t consumer);
const char *adapt_consumer_name(const adapt *a, uint32_t consumer);
bool adapt_is_parameter(const adapt *a, uint32_t consumer);
/* sigma_ratio of the consumers that the last assessment measured; NaN if there is none. The largest is over all of them, the
 * smallest over those whose limit was the bound that the tensor was stored with: others have less by right. */
void adapt_sigma_ratios(const adapt *a, double *least, double *most);

/* Summed variance of the mini-batch gradient from ||g - mean||^2, where `mean` is the mean gradient that momentum estimates
 * after n_steps earlier steps with factor beta (docs/theory.md); 0 where n_steps is 0. */
double adapt_noise(double squared_distance, double beta, uint64_t n_steps);

/* Everything that decides future bounds, and what is told of errors, as numbers, all finite: for checkpoints, between steps.
 * The parameters are not in them: a run may go on with another share and window, not with another rule. */
size_t adapt_n_numbers(const adapt *a);
void adapt_export(const adapt *a, double *numbers);
/* COMET_ERROR_CORRUPT where they make no sense; then nothing is changed. */
comet_status adapt_import(adapt *a, const double *numbers, size_t n);

#endif
