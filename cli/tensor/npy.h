/*
 * Which .npy element types are tensors' types: little-endian f2, f4, f8, and u2 for those who keep bfloat16 bits in it. The
 * headers themselves are the library's, comet/npy.h.
 */
#ifndef COMET_CLI_NPY_H
#define COMET_CLI_NPY_H

#include <stdbool.h>

#include "comet/codec.h"
#include "comet/npy.h"
#include "kit/say.h"

/* The element type of a descr; u2 is accepted as bf16 only where `bf16` is set. */
bool npy_dtype(const char *descr, bool bf16, comet_dtype *dtype, reason *why);

const char *npy_descr(comet_dtype dtype);

#endif
