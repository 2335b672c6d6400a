/* Shared by the reader and the writer of safetensors; for them alone. */
#ifndef COMET_TRAIN_FILES_SAFETENSORS_PRIVATE_H
#define COMET_TRAIN_FILES_SAFETENSORS_PRIVATE_H

#include "train/files/safetensors.h"

#define SAFETENSORS_CHECKSUM_DIGITS 16

typedef struct safetensors_type {
    const char *name;
    safetensors_dtype dtype;
    uint64_t bytes;
} safetensors_type;

/* Ends with a NULL name. */
extern const safetensors_type safetensors_types[];

/* False where a size does not fit 63 bits. */
bool safetensors_size(uint32_t n_dims, const uint64_t *dims, uint64_t element_bytes, uint64_t *n_elements, uint64_t *bytes);

/* The hash after the pieces of one tensor. */
uint64_t safetensors_chain(uint64_t hash, const void *data, size_t bytes);

#endif
