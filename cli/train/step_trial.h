/* How long a step takes on this machine: a few steps of a model, in a process of its own. */
#ifndef COMET_CLI_STEP_TRIAL_H
#define COMET_CLI_STEP_TRIAL_H

#include "comet/train.h"
#include "kit/say.h"

/* Seconds of one step; coding is in forward and backward. */
typedef struct step_times {
    double forward, backward, update;
} step_times;

/* Trains on made-up images: one step that does not count, then `n_steps` of which the fastest counts. Meanwhile `n_beside`
 * other processes do the same, as other ranks of the machine would. */
cli_exit step_trial(const comet_net *net, const comet_model_params *params, uint32_t n_steps, uint32_t n_beside,
                    step_times *times);

#endif
