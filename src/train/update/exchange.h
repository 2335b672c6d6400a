/*
 * Gradients of a model that several ranks train: summed over ranks while backward goes on, then used.
 *
 * Each rank's loss is scaled by 1 / ranks, so that the sum of the ranks' gradients is that of the whole batch. A gradient
 * enters its bucket as soon as backward has made it. A full bucket begins its way through the other ranks in a room of its own;
 * there are few rooms, and only gradients in rooms are in memory. When a bucket is back, listeners are told of its gradients
 * and its parameters are updated (with fused updates), or it is copied into the block of gradients.
 *
 * Where the optimiser's state is shared out, a bucket comes back with this rank's segment alone. The rank updates the weights
 * of that segment, and the bucket goes round once more with new weights.
 *
 * Running statistics of batch norms become the mean over ranks in every update, so that they are the same everywhere.
 *
 *   exchange_begin, exchange_add for each operator in backward's order, exchange_finish        gradients of one update
 */
#ifndef COMET_TRAIN_UPDATE_EXCHANGE_H
#define COMET_TRAIN_UPDATE_EXCHANGE_H

#include "train/math/optimiser.h"
#include "train/update/buckets.h"

/* Makes the list of buckets of a model with ranks whose buffers are declared, plans the rooms and sets n_state, and sets
 * n_state; nothing for a model alone.
 */
comet_status exchange_plan(comet_model *m);
/* Adds the rooms and the buffers of messages to the planned memory, and takes off the state of the optimiser that others have.
 */
void exchange_count(comet_model *m);
comet_status exchange_allocate(comet_model *m);
void exchange_release(comet_model *m);

/* Forward has ended, running statistics have moved. */
comet_status exchange_begin(comet_model *m);
/* o's parameters have their gradients. */
comet_status exchange_add(comet_model *m, const op *o);
/* Waits until all of them are back and used. */
comet_status exchange_finish(comet_model *m);

const bucket_list *exchange_buckets(const comet_model *m);

/* For tests: models planned from now on have smaller buckets and fewer rooms. At most what is usual. */
void exchange_limit(uint64_t bucket_floats, uint32_t n_rooms);

/* For updates that are not fused: the sum of squares of all gradients. It has the same bits whether the optimiser's state is
 * shared out or not, as each rank adds up its segments in either case. */
comet_status exchange_squares(comet_model *m, double *squares);

/* Is the optimiser's state shared out? */
bool exchange_shards(const comet_model *m);
/* Only then, for updates that are not fused: the update itself. */
comet_status exchange_update(comet_model *m, const optimiser_step *s);

#endif
