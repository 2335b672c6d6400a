/* Sums of tensors that come in parts: slices of a batch, batches of an update. */
#ifndef COMET_TRAIN_BACKEND_ACCUMULATE_H
#define COMET_TRAIN_BACKEND_ACCUMULATE_H

#include <stdint.h>

/* y += x */
void add_to(uint64_t n, const float *x, float *y);

#endif
