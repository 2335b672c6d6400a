/* Repeats a planar tensor, or changes its layout; bench does this before its clock starts. */
#ifndef COMET_CLI_REARRANGE_H
#define COMET_CLI_REARRANGE_H

#include "tensor/tensorio.h"

/* Repeats the planar *loaded along its slowest dimension until it has at least `min_bytes` bytes. Empty tensors stay. */
cli_exit tensor_tile(loaded_tensor *loaded, size_t min_bytes);

/* Lays the planar *loaded out as `layout`; channels added by blocked layouts are zero. */
cli_exit tensor_rearrange(loaded_tensor *loaded, comet_layout layout);

#endif
