/*
 * NumPy's .npy headers, versions 1, 2 and 3: magic, version, header length, a Python dictionary in text, then the elements.
 * Read: little-endian, C order, f2, f4, f8, and u2 for those who keep bfloat16 bits in it. Written: version 1.
 */
#ifndef COMET_CLI_NPY_H
#define COMET_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comet/codec.h"
#include "say.h"

/* A blocked layout has one dimension more in memory than the tensor has. */
#define NPY_MAX_DIMS (COMET_MAX_DIMS + 1)

typedef struct npy_header {
    char descr[8]; /* such as "<f4" */
    uint32_t n_dims;
    uint64_t dims[NPY_MAX_DIMS];
    size_t data_offset;
} npy_header;

bool npy_has_magic(const unsigned char *file, size_t bytes);

/* Reads the header at the start of `bytes` bytes. A shape () is read as (1,). */
bool npy_parse(const unsigned char *file, size_t bytes, npy_header *header, reason *why);

/* The element type of a descr; u2 is accepted as bf16 only where `bf16` is set. */
bool npy_dtype(const char *descr, bool bf16, comet_dtype *dtype, reason *why);

enum { NPY_HEADER_CAPACITY = 512 };

/* Fills `text` with a whole header; returns its length, a multiple of 64. n_dims is at most NPY_MAX_DIMS. */
size_t npy_format(comet_dtype dtype, uint32_t n_dims, const uint64_t *dims, char text[NPY_HEADER_CAPACITY]);

#endif
