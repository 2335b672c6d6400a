/* comet plan --ranks: how fast several ranks will train, and what each of them needs. */
#ifndef COMET_CLI_PLAN_RANKS_H
#define COMET_CLI_PLAN_RANKS_H

#include "train/plan_args.h"

bool set_mpi(void *target, const char *text, reason *why);       /* const mpi_kind *: openmpi or mpich */
bool set_ranks(void *target, const char *text, reason *why);     /* ranks_arg, 1 to 65536 or "table" */
bool set_link_rate(void *target, const char *text, reason *why); /* double, bytes/s, as number_rate takes it */
bool set_duration(void *target, const char *text, reason *why);  /* double, seconds, as number_seconds takes it */
bool set_gradients(void *target, const char *text, reason *why); /* double, bytes of 4: "off", "bf16" or "8x" */

/* Refuses options that are for --ranks where that is not given. */
cli_exit plan_ranks_check(const plan_args *args);

/* Measures a few steps of one rank unless --step-time says how long one takes, and prints what is predicted. */
cli_exit plan_ranks(const plan_args *args, const comet_net *net);

#endif
