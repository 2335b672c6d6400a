/* The state of adaptive bounds (assess/state.h) as text for a file's metadata: numbers with 17 digits, one space between them.
 */
#ifndef COMET_TRAIN_FILES_BOUNDS_TEXT_H
#define COMET_TRAIN_FILES_BOUNDS_TEXT_H

#include "comet/train.h"

/* In *text, for free(); NULL where the model has none. */
comet_status bounds_print(const comet_model *model, char **text);

/* The numbers of a file, for free(); NULL and 0 where it has none. */
comet_status bounds_parse(const char *path, const char *text, double **numbers, size_t *n);

#endif
