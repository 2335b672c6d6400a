/* comet plan --place: on which nodes and cores the ranks of a job do best. */
#ifndef COMET_CLI_PLAN_PLACE_H
#define COMET_CLI_PLAN_PLACE_H

#include "train/plan_args.h"

cli_exit plan_place(const plan_args *args);

#endif
