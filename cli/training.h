/*
 * Whether this build has the training engine. Where it has not, its verbs are still known by name, and say so.
 */
#ifndef COMET_CLI_TRAINING_H
#define COMET_CLI_TRAINING_H

#include "kit/say.h"

/* Why this build has no training, such as "oneDNN 3.7.2 was found, 2.x is needed"; NULL where it has. */
const char *training_missing(void);

/* The version of oneDNN that training is built on; NULL where there is no training. */
const char *training_dnnl_version(void);

/* What a verb that needs training ends with where there is none: says so and returns CLI_FAILED. */
cli_exit training_refuse(void);

#endif
