/*
 * NumPy's .npy headers, versions 1, 2 and 3: magic, version, header length, a Python dictionary in text, then the elements.
 *
 *   comet_npy_has_magic   is this a .npy file at all?
 *   comet_npy_parse       element type, shape and where the elements begin
 *   comet_npy_format      a header, version 1, for elements that follow
 *
 * The elements themselves, and whether the file is long enough for them, are the caller's. Any thread.
 */
#ifndef COMET_NPY_H
#define COMET_NPY_H

#include <stdbool.h>

#include "comet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Eight as a tensor has, and one more that a blocked layout has in memory. */
#define COMET_NPY_MAX_DIMS 9

/* Room for any header that comet_npy_format writes. */
#define COMET_NPY_HEADER_BYTES 512

typedef struct comet_npy_header {
    char descr[8]; /* NumPy's name of the element type, such as "<f4" */
    uint32_t n_dims;
    uint64_t dims[COMET_NPY_MAX_DIMS];
    size_t data_offset; /* from the start of the file, not beyond its end */
} comet_npy_header;

/* Whether `bytes` bytes begin as a .npy file does. */
COMET_API bool comet_npy_has_magic(const void *file, size_t bytes);

/* Reads the header at the start of `bytes` bytes. A shape () is read as (1,); Fortran order and records are refused. The
 * sentence of a failure speaks of the file as "it", for the caller to put a name before. */
COMET_API comet_status comet_npy_parse(comet_npy_header *header, const void *file, size_t bytes);

/* Fills `text` with a whole header; returns its length, a multiple of 64. n_dims is at most COMET_NPY_MAX_DIMS, descr shorter
 * than 8 characters. */
COMET_API size_t comet_npy_format(const char *descr, uint32_t n_dims, const uint64_t *dims, char text[COMET_NPY_HEADER_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
