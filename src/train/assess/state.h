/*
 * What decides a model's future steps beside its tensors: the adaptive bounds. They are given as numbers, all finite, for
 * checkpoints, between an update and the next gradients. And this is the way back from a step that failed.
 */
#ifndef COMET_TRAIN_ASSESS_STATE_H
#define COMET_TRAIN_ASSESS_STATE_H

#include "comet/train.h"

/* 0 where nothing is held within bounds. */
size_t model_state_n(const comet_model *model);
void model_state_export(const comet_model *model, double *numbers);
/* COMET_ERROR_CORRUPT, and nothing is changed, where they are not of this model and its rule for bounds. */
comet_status model_state_import(comet_model *model, const double *numbers, size_t n);
/* Sets bounds as before the first step, and a hidden momentum to zeros. */
comet_status model_state_restart(comet_model *model);

/* A step changes running statistics and bounds before it can fail because a disk is full. Where tensors may be spilled, the
 * first function keeps both, and the second returns to them, as if nothing had happened since the last update. */
comet_status model_keep(comet_model *model);
comet_status model_go_back(comet_model *model);

#endif
