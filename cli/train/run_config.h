/*
 * DIR/config.json: the options of a run as `comet train --config` takes them. What was chosen for the run (batch, rate, threads
 * and so on) stands there as a value, so that a run from it is the same. Where results go is left out: --out, --log, --json and
 * the like.
 */
#ifndef COMET_CLI_RUN_CONFIG_H
#define COMET_CLI_RUN_CONFIG_H

#include "train/train_report.h"

typedef struct run_config {
    const comet_train_params *params;
    train_report *report;
} run_config;

/* For comet_train_params.event, with a run_config as its user: writes the file when the run begins, and hands every event on to
 * the report. */
void run_config_event(void *user, const comet_train_event *e);

#endif
