/* What saving a model needs of its inside. */
#ifndef COMET_TRAIN_GRAPH_STAGING_H
#define COMET_TRAIN_GRAPH_STAGING_H

#include "comet/train.h"

/* Memory that may be used between an update and the next gradients, so that saving needs none of its own: the block of
 * gradients, or NULL and 0 bytes while gradients are under way. It is not read until model_staging_end. */
void *model_staging_begin(const comet_model *model, size_t *bytes);
void model_staging_end(const comet_model *model);

/* Is there a momentum only for bounds, since SGD has none? It is among the model's tensors, but the optimiser does not see
 * it. */
bool model_hides_momentum(const comet_model *model);

/* What is frozen, and the rates of layers, as the model was given them; NULL: none. */
const char *model_freeze_text(const comet_model *m);
const char *model_rates_text(const comet_model *m);

#endif
