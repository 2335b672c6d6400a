/*
 * Groups of parameters by their names: which are frozen, and which learn at a rate of their own.
 *
 *   freeze   "layer1.*,conv1,!*.bias"      a pattern that begins with ! takes parameters out again
 *   rates    "fc=10x,layer4.*=0.001"       times the run's rate, or a rate itself
 *
 * A pattern is one of the shell (fnmatch; * matches dots, too). It names a parameter if it matches its whole name, or the part
 * before one of its dots: "layer1" is all of layer1. Where several patterns match, the last one counts.
 */
#ifndef COMET_TRAIN_GRAPH_GROUPS_H
#define COMET_TRAIN_GRAPH_GROUPS_H

#include "train/graph/graph.h"

/* COMET_ERROR_ARGUMENT, with the part that is wrong, where either text cannot be read. */
comet_status groups_check_texts(const comet_model_params *params);
/* The same for rates that are not factors where the run's rate is not known, as only updates need it. */
comet_status groups_check_rates(const comet_model_params *params);
/* Sets `frozen` and `rate_factor` of a learnt parameter. The texts can be read. */
void groups_apply(const comet_model_params *params, parameter *p);
/* COMET_ERROR_ARGUMENT for a pattern that names no parameter (with a name that is near), or frozen ones a rate; and where
 * everything is frozen. */
comet_status groups_check(const comet_model *m);
/* Numbers that differ where other parameters are frozen, or rates are other multiples of the run's; 0: none are. */
uint64_t groups_frozen_hash(const comet_model *m);
uint64_t groups_rates_hash(const comet_model *m);

#endif
