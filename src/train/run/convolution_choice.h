/* The choice between Winograd and direct convolution by time; the clock is the caller's, so that tests can bring their own. */
#ifndef COMET_TRAIN_RUN_CONVOLUTION_CHOICE_H
#define COMET_TRAIN_RUN_CONVOLUTION_CHOICE_H

#include "comet/train.h"
#include "train/ops/conv_trial.h"

/* Times the candidates for a pass of op o, a convolution of the planned model m. `share`: of the time of a whole trial. */
typedef comet_status conv_timer(void *user, comet_model *m, const op *o, kernel_pass pass, double share, conv_times *times);

/* As comet_convolutions_choose. Ops with the same kernels are timed once. */
comet_status convolution_choice_search(const comet_net *net, const comet_model_params *params, conv_timer *timer, void *user,
                                       comet_convolution_choice *choice);

#endif
