/*
 * Which way each pass of a convolution is computed, and the choices of a timed trial as text:
 *
 *   choices = [item {", " item}]      item = LAYER " " forward " " data " " weights      each winograd or direct
 *
 * as in "conv2 winograd winograd direct, conv3 direct direct direct". Layers come in the order of the net; those that had no
 * choice are left out.
 */
#ifndef COMET_TRAIN_GRAPH_CONV_CHOICES_H
#define COMET_TRAIN_GRAPH_CONV_CHOICES_H

#include "comet/train.h"
#include "train/backend/backend.h"

/* Bytes of an item without the name of its layer, with the separator and a closing zero. */
enum { CONV_ITEM_BYTES = 32 };

/* Adds an item to the `length` bytes of text, which has room for it. Returns the new length. */
size_t conv_choices_add(char *text, size_t length, const char *layer, conv_ways ways);

/* COMET_ERROR_ARGUMENT unless the text is as above, with layers of the net. */
comet_status conv_choices_check(const comet_net *net, const char *text);

/* How the passes of a layer are to be computed; the text in the parameters is one that was checked. */
conv_ways conv_ways_of(const comet_model_params *params, const char *layer);

/* Are the choices not known yet? */
static inline bool conv_choices_missing(const comet_model_params *params)
{
    return params->convolutions == COMET_CONVOLUTIONS_TIMED && !params->convolution_choices;
}

/* The choices in force; NULL: there are none. */
const char *conv_choices_of(const comet_model *m);

/* Does every kernel compute as was chosen? Winograd may be impossible where other instructions or threads are used. */
bool conv_choices_followed(const comet_model *m);

#endif
