/* Learning rate and schedule: options of `comet train`. */
#ifndef COMET_CLI_RATE_ARGS_H
#define COMET_CLI_RATE_ARGS_H

#include "comet/train.h"
#include "kit/setters.h"

typedef struct rate_arg {
    bool find;    /* by a range test */
    double value; /* negative: not given */
} rate_arg;

bool set_rate(void *target, const char *text, reason *why);     /* rate_arg */
bool set_schedule(void *target, const char *text, reason *why); /* comet_schedule_kind */

#endif
