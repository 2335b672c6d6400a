/* comet plan --peak: the moment of a step with the highest memory, and everything that is in memory then. */
#ifndef COMET_CLI_PLAN_PEAK_H
#define COMET_CLI_PLAN_PEAK_H

#include "train/plan_args.h"

/* Refuses options that do not go with --peak. */
cli_exit plan_peak_check(const plan_args *args);
cli_exit plan_peak(const plan_args *args, const comet_net *net);

#endif
