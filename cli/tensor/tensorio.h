/*
 * Tensors from and to files: .npy, raw bytes, or made on the spot ("gen:relu:N,C,H,W").
 *
 * A .npy holds the tensor as it lies in memory, so its shape is the memory shape of the layout: N,C,H,W for nchw; N,H,W,C for
 * nhwc; N,C/16,H,W,16 for nChw16c. Dims of comet_tensor are N,C,H,W throughout.
 */
#ifndef COMET_CLI_TENSORIO_H
#define COMET_CLI_TENSORIO_H

#include "comet/npy.h"
#include "kit/file_io.h"
#include "kit/setters.h"

/* What the command line (or a frame) says about a tensor. Needed for raw input; checked against a .npy. */
typedef struct tensor_request {
    comet_layout layout;
    dims_arg dims;   /* n 0: not given */
    dtype_arg dtype; /* not given: f32 for raw input */
} tensor_request;

typedef struct loaded_tensor {
    comet_tensor tensor;
    const void *data; /* aligned to the element size; to 64 bytes where the header of the file allows it */
    size_t bytes;
    void *memory; /* what tensor_free releases */
} loaded_tensor;

cli_exit tensor_load(const char *path, const tensor_request *request, loaded_tensor *loaded);
void tensor_free(loaded_tensor *loaded);

/* Writes .npy, or the bare elements if `raw`. */
cli_exit tensor_save(const char *path, bool force, bool raw, const comet_tensor *tensor, const void *data, size_t bytes);

/* The shape in memory, at most COMET_NPY_MAX_DIMS numbers; returns how many. */
uint32_t memory_shape(const comet_tensor *tensor, uint64_t shape[COMET_NPY_MAX_DIMS]);

/* Fills a tensor and its byte count; a failure returns `code`. */
cli_exit tensor_describe(comet_dtype dtype, comet_layout layout, uint32_t n_dims, const uint64_t *dims, cli_exit code,
                         const char *subject, comet_tensor *tensor, size_t *bytes);

/* "8x64x56x56" and the like. */
enum { DIMS_TEXT_BYTES = 192 };
const char *dims_text(uint32_t n_dims, const uint64_t *dims, const char *separator, char text[DIMS_TEXT_BYTES]);

#endif
