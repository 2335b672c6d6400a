/*
 * The adaptive bound: which error each stored tensor may have, from what its error does to gradients. docs/theory.md has the
 * derivation.
 *
 * A tensor x stored with error e ~ U[-eb, eb] has consumers. A *parameter* consumer is a weight tensor whose gradient is
 * computed from x: the error adds gain * eb^2 to the summed variance of its n_weights elements, where the caller gives the gain
 * (a convolution: C_in/groups * k_h * k_w * R/3 * ||dY||^2). A *pass-on* consumer lets the error into the gradient that is
 * passed on: relative energy gain * eb^2 of it.
 *
 * A rule sets the noise budget, which is what errors may add. NOISE: a share of the variance of the layer's own mini-batch
 * gradient. SIGMA: the paper's sigma* = factor * mean|momentum| for each weight. All pass-on consumers together may add the
 * same share of the passed energy (under SIGMA: 1 %).
 *
 * An assessment has four phases. Collect: in each step for which adapt_due is true, the caller reports every consumer with
 * adapt_observe. After the last of these steps, for which adapt_complete is true, adapt_assess computes from the means what
 * errors may add and what they add (gradient assessment), then the bounds (activation assessment). The caller compresses with
 * adapt_eb until the next assessment. Where the error of a parameter consumer is measured, it replaces what the gain predicts.
 *
 * Nothing is allocated after adapt_add_*. Nothing here depends on threads or time, so that a run resumed from numbers of
 * adapt_export gives the same bits.
 */
#ifndef COMET_ADAPT_ADAPT_H
#define COMET_ADAPT_ADAPT_H

#include <stdbool.h>

#include "comet/base.h"

typedef enum adapt_rule { ADAPT_NOISE, ADAPT_SIGMA } adapt_rule;

typedef struct adapt_params {
    adapt_rule rule;
    double share;    /* NOISE: the share of the variance, such as 0.01; SIGMA: the factor, 0.01 in the paper */
    uint32_t window; /* most steps between assessments, such as 1000 */
    bool best_fit;   /* NOISE: distributes the same total noise so that memory is least: a consumer's factor of the share is in
                        proportion to its tensor's elements, within [1/8, 4]. False: every consumer gets the same share */
} adapt_params;

typedef struct adapt adapt;
#define ADAPT_NONE UINT32_MAX

comet_status adapt_create(adapt **out, const adapt_params *params);
void adapt_destroy(adapt *a);

/* A tensor of n_elements; `name` is kept, not copied. */
comet_status adapt_add_tensor(adapt *a, const char *name, uint64_t n_elements, uint32_t *tensor);
/* Consumers of a tensor, which may have several. A consumer belongs to one tensor. */
comet_status adapt_add_parameter(adapt *a, uint32_t tensor, const char *name, uint64_t n_weights, uint32_t *consumer);
comet_status adapt_add_pass(adapt *a, uint32_t tensor, const char *name, uint32_t *consumer);

/* Is `step` (from 0) one of those that an assessment collects? Is it the last of them? Assessments are close together at first:
 * the gap is 1, 2, 4, ... up to a hundredth of the window. Each collects the last steps of the gap before it: all of them, but
 * at most 10, or half of a gap above 20, but at most 20. */
bool adapt_due(const adapt *a, uint64_t step);
bool adapt_complete(const adapt *a, uint64_t step);

/* What a consumer saw in such a step. */
typedef struct adapt_observation {
    double gain;           /* see above; 0: the error does no harm there */
    double gradient_noise; /* parameter: variance of the mini-batch gradient, summed over weights, see adapt_noise */
    double mean_momentum;  /* parameter: mean |momentum| over weights */
    double measured;       /* parameter: measured squared error of the gradient, summed over weights; NaN: not measured */
    double eb;             /* the bound that the tensor was stored with in this step; 0: stored exactly */
} adapt_observation;

void adapt_observe(adapt *a, uint32_t consumer, const adapt_observation *seen);

/* Computes bounds from what was observed since the last call, and plans the next assessment.
 *
 * Bounds: limits aim at 0.78 sigma* at first, then as close to sigma* as the scatter of errors allows: their mean square is
 * below its square by one standard error. A bound at most doubles, at first from what the tensor was stored with: what larger
 * errors do is measured before they are made. Consumers that were not observed, or with values that are negative or not finite,
 * keep what they had.
 *
 * The gap doubles from 1 to a hundredth of the window, except where a bound moved by 2x or more. From then on it is halved
 * where a bound moved by 2x or more, or a measured error is above 1.35 times the one aimed at. It is doubled, up to the window
 * and to an eighth of the steps so far, where no bound moved by more than 1.25x and no error is above 1.22 times that. */
void adapt_assess(adapt *a, uint64_t step);

/* For when something looks unsafe, such as a loss spike or non-finite values: no bound is in force until the next assessment,
 * which is made in the next step. */
void adapt_retreat(adapt *a, uint64_t step);

/* For when consumers were added: plans an assessment for the next step, with gaps that grow from 1 again. Bounds stay in force.
 */
void adapt_restart(adapt *a, uint64_t step);

/* Assessments since the start or the last retreat. */
uint64_t adapt_n_assessed(const adapt *a);

/* The bound of a tensor; 0 while it has none: before the first assessment, after a retreat, and until each of its consumers was
 * observed. INFINITY where no consumer sets a limit (no consumers, or gains of 0): the caller limits it. */
double adapt_eb(const adapt *a, uint32_t tensor);

/* The relative energy that a pass-on consumer may let in beyond what the bound of its tensor does; 0 where that is unknown. */
double adapt_pass_left(const adapt *a, uint32_t consumer);

/* sigma_ratio is reported once the measured steps weigh as much as this many. comet/train.h, docs/training.md and
 * docs/theory.md have the number, which test_adapt_errors compares with this one. */
#define ADAPT_RATIO_STEPS 30

/* A parameter consumer for the log; NaN where unknown. Each sigma is per weight. */
typedef struct adapt_state {
    double sigma_target, sigma_predicted, sigma_measured;
    double share;  /* best fit's factor of the rule's share; 1 without best fit */
    bool limits;   /* its limit is the tensor's bound; other consumers tolerate more */
    bool at_limit; /* sigma_measured is the error of the bound that this consumer had set */
    /* sigma_measured / sigma_target, root mean square (SIGMA: mean) over the last assessments in which at_limit was the same as
     * now, weighted by steps and fading: 60 or so measured steps in effect, which late in a run lie thousands of steps back.
     * The few images of one assessment give sigma to 10 or 20 %. NaN while the steps weigh less than ADAPT_RATIO_STEPS. */
    double sigma_ratio;
} adapt_state;
adapt_state adapt_consumer_state(const adapt *a, uint32_t consumer);
uint32_t adapt_n_consumers(const adapt *a);
uint32_t adapt_consumer_tensor(const adapt *a, uint32_t consumer);
const char *adapt_consumer_name(const adapt *a, uint32_t consumer);
bool adapt_is_parameter(const adapt *a, uint32_t consumer);
/* The least and the largest sigma_ratio of the consumers that the last assessment measured; NaN if there is none. The least is
 * over those at_limit only: other consumers tolerate more, so less error is expected. */
void adapt_sigma_ratios(const adapt *a, double *least, double *most);

/* The summed variance of the mini-batch gradient g from ||g - mean||^2, where `mean` is the mean gradient that momentum
 * estimates after n_steps earlier steps with factor beta (docs/theory.md); 0 where n_steps is 0. */
double adapt_noise(double squared_distance, double beta, uint64_t n_steps);

/* The whole state as numbers, all finite: for checkpoints, between steps. The parameters are not among them: a run may be
 * resumed with another share and window, but not with another rule. */
size_t adapt_n_numbers(const adapt *a);
void adapt_export(const adapt *a, double *numbers);
/* COMET_ERROR_CORRUPT where the numbers make no sense; then nothing is changed. */
comet_status adapt_import(adapt *a, const double *numbers, size_t n);

#endif
