/* comet plan --gpu: how fast the codec is on a GPU, by a model. */
#ifndef COMET_CLI_PLAN_GPU_H
#define COMET_CLI_PLAN_GPU_H

#include "kit/verb.h"

/* CLI_USAGE, with the names that are known, for another. */
cli_exit plan_gpu(const char *name, bool as_json);

#endif
