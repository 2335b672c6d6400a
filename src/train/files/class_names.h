/*
 * Names of classes in files of weights: the metadata key "classes", a JSON list of texts in the order of the net's outputs, as
 * ["cats","dogs"]. Bytes of a name that are no UTF-8 become U+FFFD, since JSON has UTF-8 only.
 */
#ifndef COMET_TRAIN_FILES_CLASS_NAMES_H
#define COMET_TRAIN_FILES_CLASS_NAMES_H

#include "comet/train.h"

/* The list of a data set in *text, for free(); NULL where its classes have no names. */
comet_status class_names_print(const comet_dataset *data, char **text);

#endif
