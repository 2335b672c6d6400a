/*
 * The optimiser's state, shared out among ranks, for checkpoints: rank 0 reads and writes tensors of it as if all were its own,
 * while the others serve it. Between updates; memory of gradients, which is unused then, holds one tensor at a time.
 */
#ifndef COMET_TRAIN_UPDATE_SHARDS_H
#define COMET_TRAIN_UPDATE_SHARDS_H

#include "train/update/exchange.h"

/* model.move_state of a model whose state is shared out, on rank 0: brings all floats of parameter p's state to `whole`, or
 * takes them from there to the ranks that keep them. */
comet_status shards_move(const comet_model *m, comet_tensor_kind kind, const parameter *p, float *whole, bool write);

/* On other ranks: serves rank 0 until its shards_release. Both do nothing where no state is shared out. */
comet_status shards_serve(const comet_model *m);
comet_status shards_release(const comet_model *m);

#endif
