/*
 * One step of an optimiser on one parameter, as torch.optim.SGD and torch.optim.AdamW do it, in a single pass over the arrays;
 * and the norm that clipping needs. Pure functions over float arrays, parallel, the same bits for any number of threads.
 *
 *   sgd      g = scale * gradient + weight_decay * w
 *            m = momentum * m + g            (zeros at the start, which makes torch's first step, m = g)
 *            w -= rate * (nesterov ? g + momentum * m : m)
 *   adamw    w -= rate * weight_decay * w
 *            m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g
 *            w -= rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)       with t = step + 1
 */
#ifndef COMET_TRAIN_MATH_OPTIMISER_H
#define COMET_TRAIN_MATH_OPTIMISER_H

#include "comet/train.h"
#include "train/math/optimiser_state.h"

typedef struct optimiser_step {
    const comet_optimiser *optimiser;
    double rate;
    uint64_t step;        /* updates done before this one */
    uint64_t seed;        /* of draws, by which a state that is not f32 is rounded */
    float gradient_scale; /* the gradient is taken times this: clipping, and the mean over accumulated batches */
} optimiser_step;

/* COMET_ERROR_ARGUMENT, with the field and its range, where a step would not be one. Fields of the other kind of optimiser are
 * not looked at. */
comet_status optimiser_check(const comet_optimiser *o);

/* Which blocks of floats, one for each weight, it keeps between steps; their data is NULL for the others. */
bool optimiser_keeps_momentum(const comet_optimiser *o);
bool optimiser_keeps_second_moment(const comet_optimiser *o);

typedef struct optimiser_state {
    state_block momentum, second_moment; /* m above, for AdamW its first moment (none for SGD without momentum); AdamW's v */
    uint64_t first; /* number in the model of the first float: the same draw in whatever part it is updated */
} optimiser_state;

/* State is decoded tile by tile, and rounded after the weights have moved. Without `decay` the weight decay is left out;
 * torch's default is to decay every parameter. */
void optimiser_apply(const optimiser_step *s, size_t n, float *weights, const float *gradient, const optimiser_state *state,
                     bool decay);

/* m = beta * m + gradient + weight_decay * w, and no weight moves: a momentum that is only looked at. */
void optimiser_follow(const optimiser_step *s, float beta, size_t n, const float *weights, const float *gradient,
                      const optimiser_state *state);

/* What brings a gradient of this norm down to clip_norm, as torch's clip_grad_norm_: clip_norm / (norm + 1e-6), at most 1; 1
 * where clip_norm is 0. */
float optimiser_clip_scale(double norm, float clip_norm);

#endif
