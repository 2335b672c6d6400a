/* The precision in which a model computes. */
#ifndef COMET_TRAIN_RUN_PRECISION_H
#define COMET_TRAIN_RUN_PRECISION_H

#include "comet/codec.h"
#include "comet/model.h"

/* The type of activations and their gradients that `params` ask for on this machine. Not before backend_create.
 * COMET_ERROR_UNSUPPORTED, with a sentence about the cost, where that is bf16 without the instructions for it and not forced.
 */
comet_status precision_settle(const comet_model_params *params, comet_dtype *type);

#endif
