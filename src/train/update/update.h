/* The optimiser's step of a model's parameters: of all at once, of one operator's as its gradients are made, or of parts. */
#ifndef COMET_TRAIN_UPDATE_UPDATE_H
#define COMET_TRAIN_UPDATE_UPDATE_H

#include "train/graph/graph.h"
#include "train/math/optimiser.h"

/* The settings of a fused update; of another one. */
optimiser_step update_step(const comet_model *m);
optimiser_step update_step_of(const comet_model *m, double rate, uint64_t step, float gradient_scale);

/* n floats from `first` of parameter p, whose gradient and state lie at these places. */
void update_part(comet_model *m, const optimiser_step *s, const parameter *p, uint64_t first, uint64_t n, const float *gradient,
                 state_block momentum, state_block second_moment);

/* A model that trains alone: listeners are told of the gradients of o's parameters, then these are updated. */
void update_op(comet_model *m, const op *o);
/* The same for a model that keeps all gradients. */
void update_tell_all(comet_model *m, uint64_t step);
void update_all(comet_model *m, const optimiser_step *s);

#endif
