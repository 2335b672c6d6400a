/*
 * Who is told what happens in a step. Operators and the step itself report here; listeners are added when a model is planned
 * (assess/ measures what errors of stored tensors do), and a step without listeners tells nobody.
 *
 * A listener fills in the calls it needs and leaves the others NULL. All listeners are called in the order in which they were
 * added, on the thread that runs the step. Calls with a status stop the step where they fail.
 */
#ifndef COMET_TRAIN_GRAPH_OBSERVER_H
#define COMET_TRAIN_GRAPH_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "comet/train.h"
#include "train/math/optimiser_state.h"

struct op;

/* What an error in the tensor that a batch norm stores does, in units of 3 / eb^2, summed over channels: its effect on the
 * gradient of the scale, on the gradient that is passed on, and the most that elements which the relu cut off have of the
 * latter. And the energy of what is passed on. */
typedef struct norm_harm {
    double scale, passed, cut, energy;
} norm_harm;

/* Gradients that the optimiser is about to use: floats [first, first + n) of a parameter of `op`, in its layout. With ranks
 * they are the sum over all of them, and [own_first, own_first + own_n) are those that this rank counts, for sums over ranks;
 * alone it counts all. The optimiser's state of the floats [state_first, state_first + state_n) is on this rank. */
typedef struct gradient_part {
    const struct op *op;
    uint32_t parameter;
    uint64_t first, n;
    const float *gradient; /* of `first` */
    uint64_t own_first, own_n, state_first, state_n;
    state_block momentum; /* of state_first */
} gradient_part;

typedef struct listener {
    void *self; /* first argument of every call */
    /* A step begins: model.step and model.n_accumulated are set, nothing has run. */
    comet_status (*step_begins)(void *self, comet_model *m);
    /* Forward: op o, which has weights, is about to read its input. */
    void (*input_read)(void *self, comet_model *m, const struct op *o);
    /* Backward: o's weights have their gradient from part `part` of the batch; that part of the input is still in memory. */
    comet_status (*part_done)(void *self, comet_model *m, const struct op *o, uint32_t part);
    /* The same for a convolution with a batch norm folded into it: after each part, then after all with folded_block's numbers.
     */
    comet_status (*folded_part_done)(void *self, comet_model *m, const struct op *o, uint32_t part);
    comet_status (*folded_done)(void *self, comet_model *m, const struct op *o);
    /* Backward of batch norm o: is norm_done to be called in this step? It needs sums that are not made otherwise. */
    bool (*needs_norm)(void *self, const comet_model *m);
    void (*norm_done)(void *self, comet_model *m, const struct op *o, const norm_harm *harm);
    /* Forward has ended with this loss, which may be NaN: then there is no backward. */
    void (*loss_known)(void *self, comet_model *m, double loss);
    /* Backward: the gradients of o's parameters have the whole batch in them, and those of earlier batches that accumulate.
     * They may be read and changed. */
    comet_status (*gradient_ready)(void *self, comet_model *m, const struct op *o);
    /* The optimiser is about to use these gradients, in update number `step`. */
    void (*gradient_used)(void *self, comet_model *m, const gradient_part *part, uint64_t step);
    /* All gradients of update `step` have been reported by gradient_used. */
    comet_status (*update_done)(void *self, comet_model *m, uint64_t step);
} listener;

enum { MAX_LISTENERS = 4 };

typedef struct observer {
    listener listeners[MAX_LISTENERS];
    uint32_t n_listeners;
} observer;

/* Copies the table. COMET_ERROR_ARGUMENT where MAX_LISTENERS have been added. */
comet_status observer_add(observer *o, const listener *l);
/* Removes listeners with this `self`. */
void observer_remove(observer *o, const void *self);

/* Each tells all listeners of the model. */
comet_status tell_step_begins(comet_model *m);
void tell_input_read(comet_model *m, const struct op *o);
comet_status tell_part_done(comet_model *m, const struct op *o, uint32_t part);
comet_status tell_folded_part_done(comet_model *m, const struct op *o, uint32_t part);
comet_status tell_folded_done(comet_model *m, const struct op *o);
bool anyone_needs_norm(const comet_model *m);
void tell_norm_done(comet_model *m, const struct op *o, const norm_harm *harm);
void tell_loss_known(comet_model *m, double loss);
comet_status tell_gradient_ready(comet_model *m, const struct op *o);
void tell_gradient_used(comet_model *m, const gradient_part *part, uint64_t step);
comet_status tell_update_done(comet_model *m, uint64_t step);

#endif
