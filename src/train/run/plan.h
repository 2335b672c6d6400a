/* Planning a model. */
#ifndef COMET_TRAIN_RUN_PLAN_H
#define COMET_TRAIN_RUN_PLAN_H

#include "comet/train.h"

/* Builds the graph of a zeroed model, decides what is saved and plans its memory. plan_destroy is to follow, also where this
 * fails. */
comet_status plan_model(comet_model *m, const comet_net *net, const comet_model_params *params);
/* Frees what plan_model made, but not the model. */
void plan_destroy(comet_model *m);

#endif
