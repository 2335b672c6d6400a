/*
 * Whether this build has the training engine. Without it, its verbs are still known by name, and say that they are missing.
 */
#ifndef COMET_CLI_TRAINING_H
#define COMET_CLI_TRAINING_H

#include "kit/say.h"

/* Why this build has no training, such as "oneDNN 4.0.0 was found, 2.x or 3.x is needed"; NULL where it has. */
const char *training_missing(void);

/* The version of oneDNN that is loaded, and that which training was built with; NULL where there is no training. */
const char *training_dnnl_version(void);
const char *training_dnnl_version_built(void);

/* Prints why the oneDNN that is loaded cannot be used by this build, and returns CLI_FAILED; CLI_OK where nothing is wrong. */
cli_exit training_check(void);

/* The end of a verb that needs training in a build without it: prints the reason and returns CLI_FAILED. */
cli_exit training_refuse(void);

#endif
