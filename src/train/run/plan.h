/* Planning a model. */
#ifndef COMET_TRAIN_RUN_PLAN_H
#define COMET_TRAIN_RUN_PLAN_H

#include "comet/train.h"

/* COMET_ERROR_ARGUMENT, with what is wrong, for parameters out of range. */
comet_status model_check_params(const comet_net *net, const comet_model_params *params);
/* Builds the graph of a zeroed model, decides what is saved and plans its memory. plan_destroy is to follow, also where this
 * fails. */
comet_status plan_model(comet_model *m, const comet_net *net, const comet_model_params *params);
/* Frees what plan_model made, but not the model. */
void plan_destroy(comet_model *m);

#endif
