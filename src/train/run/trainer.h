/* What other files need of a run's start; see trainer_start.c. */
#ifndef COMET_TRAIN_RUN_TRAINER_H
#define COMET_TRAIN_RUN_TRAINER_H

#include "comet/train.h"

/* The settings in their ranges, net and data that fit each other, and memory for both. */
comet_status trainer_check(const comet_train_params *p);

#endif
