/* From a net to the ops of a model. */
#ifndef COMET_TRAIN_RUN_BUILD_H
#define COMET_TRAIN_RUN_BUILD_H

#include "comet/train.h"

/* Adds values and ops with their kernels and parameters to a model that has a net and a backend. */
comet_status graph_build(comet_model *m);

#endif
