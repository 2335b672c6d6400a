/*
 * The JSON header of a safetensors file, read where it lies: strings are decoded in place, so that a header needs its own bytes
 * and a table of tensors. Only the structure of the format is accepted,
 *
 *   {"__metadata__": {"key": "text", ...}, "name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...}
 *
 * with whitespace between any two of its parts: no other field, no other nesting, no key twice, whole numbers only. For the
 * reader of safetensors.
 */
#ifndef COMET_TRAIN_FILES_SAFETENSORS_HEADER_H
#define COMET_TRAIN_FILES_SAFETENSORS_HEADER_H

#include "train/files/safetensors.h"

typedef struct safetensors_header {
    safetensors_tensor *tensors; /* as they follow in the header; names lie in its text */
    size_t n_tensors;
    safetensors_pair *metadata; /* by key; texts lie there too */
    size_t n_metadata;
    size_t checksum; /* where the digits of "comet_checksum" begin in the text; 0: there are none */
} safetensors_header;

/* Takes the header apart; `text` is overwritten and must outlive *header. `path` is for the sentences of failures. Whether
 * tensors overlap or two have the same name is not looked at. On failure nothing is to be freed. */
comet_status safetensors_header_parse(safetensors_header *header, const char *path, char *text, size_t bytes);
void safetensors_header_free(safetensors_header *header);

/* COMET_ERROR_CORRUPT, with "PATH: tensor 'NAME': WHAT". */
comet_status safetensors_bad_tensor(const char *path, const char *name, const char *what);

#endif
