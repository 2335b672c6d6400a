/*
 * Whether this build has the training engine. Without it, its verbs are still known by name, and say that they are missing.
 */
#ifndef COMET_CLI_TRAINING_H
#define COMET_CLI_TRAINING_H

#include "kit/say.h"

/* Why this build has no training, such as "oneDNN 3.7.2 was found, 2.x is needed"; NULL where it has. */
const char *training_missing(void);

/* The version of oneDNN that training is built on; NULL where there is no training. */
const char *training_dnnl_version(void);

/* The end of a verb that needs training in a build without it: prints the reason and returns CLI_FAILED. */
cli_exit training_refuse(void);

#endif
