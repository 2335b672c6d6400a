/* What saving and loading a model need of its inside. */
#ifndef COMET_TRAIN_GRAPH_SAVING_H
#define COMET_TRAIN_GRAPH_SAVING_H

#include "comet/train.h"

/* comet_model_tensor_read and _write for the elements [first, first + n), so that files need no room for a tensor. Whoever
 * reads or writes a tensor by parts begins with its first element and goes on to its last. */
comet_status model_tensor_read_part(const comet_model *model, size_t index, uint64_t first, uint64_t n, float *elements);
comet_status model_tensor_write_part(comet_model *model, size_t index, uint64_t first, uint64_t n, const float *elements);

/* Is there a momentum only for bounds, since SGD has none? It is among the model's tensors, but the optimiser does not see
 * it. */
bool model_hides_momentum(const comet_model *model);

/* Which blocks of the optimiser's state a model has, the hidden momentum among them; none for inference. */
bool model_keeps_momentum(const comet_model *model);
bool model_keeps_second_moment(const comet_model *model);
/* Bytes of n floats of each of them. */
uint64_t model_state_bytes(const comet_model *model, uint64_t n);

/* What is frozen, and the rates of layers, as the model was given them; NULL: none. */
const char *model_freeze_text(const comet_model *m);
const char *model_rates_text(const comet_model *m);

#endif
