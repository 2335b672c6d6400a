/* Timed runs of the candidates for a pass of a convolution, on made-up numbers. */
#ifndef COMET_TRAIN_OPS_CONV_TRIAL_H
#define COMET_TRAIN_OPS_CONV_TRIAL_H

#include "train/graph/graph.h"
#include "train/ops/conv_candidates.h"

typedef struct conv_times {
    bool choice;                  /* false: there is no choice, and nothing was timed */
    double seconds[N_CANDIDATES]; /* of one run; the fastest of several */
} conv_times;

/* Could a pass of op o have a choice? It is a convolution of 3 x 3 with stride 1. */
bool conv_trial_suits(const op *o);
/* Do two ops that suit have the same kernels, on tensors that lie alike? */
bool conv_trial_same(const comet_model *m, const op *a, const op *b);

/* Runs both candidates in turns, on as many images of the batch as suit the time: twice, and more often within `seconds`.
 * Allocates the tensors of these images, and frees them. */
comet_status conv_trial_time(comet_model *m, const op *o, kernel_pass pass, double seconds, conv_times *times);

#endif
