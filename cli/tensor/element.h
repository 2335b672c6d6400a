/* Coordinates of single elements, for messages. */
#ifndef COMET_CLI_ELEMENT_H
#define COMET_CLI_ELEMENT_H

#include "tensor/tensorio.h"

/* The coordinates (.., c, h, w) of element `index` in memory order. A channel past the last is padding of a blocked layout. */
void element_place(const comet_tensor *tensor, uint64_t index, uint64_t place[COMET_MAX_DIMS]);

#endif
