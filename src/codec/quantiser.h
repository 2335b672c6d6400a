/* From a bound to the quantiser of a frame. */
#ifndef COMET_CODEC_QUANTISER_H
#define COMET_CODEC_QUANTISER_H

#include "codec/kernels/kernels.h"

/* The bound is rounded down to the element type, so that values within it can be written in that type. False if nothing is
 * left of it then (the tensor is coded without loss). */
bool quantiser_make(comet_dtype dtype, double eb, enum quantiser_mode mode, quantiser *q);

/* The dither's key for one chunk. */
uint32_t quantiser_key(uint64_t seed, uint64_t chunk);

#endif
