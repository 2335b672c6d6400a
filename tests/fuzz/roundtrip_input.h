/*
 * How the round-trip target reads its input. The first ROUNDTRIP_HEADER bytes choose:
 *
 *   0  dtype (2 bits), layout (2), level (2), content checksum (1), profile (1)
 *   1  dimensions less one (3 bits), bound mode (3), option: none, support, dither (2)
 *   2  bound: power of two, signed           3  bound: mantissa
 *   4  chunk elements: 0 for the default, else 64 and 17 times this
 *   5  minimum ratio, in eighths
 *   6  dims, a byte each
 *
 * The rest is the tensor's bytes, repeated as often as it takes.
 */
#ifndef COMET_TESTS_ROUNDTRIP_INPUT_H
#define COMET_TESTS_ROUNDTRIP_INPUT_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "comet/codec.h"

/* Small enough for hundreds of runs a second; a search for a ratio encodes a tensor dozens of times. */
enum { ROUNDTRIP_HEADER = 14, ROUNDTRIP_MOST_BYTES = 1 << 13, ROUNDTRIP_MOST_SEARCHED = 1 << 11 };

typedef struct roundtrip_input {
    comet_tensor tensor;
    comet_params params;
    uint64_t n;
    size_t bytes;
    void *x;
} roundtrip_input;

static inline comet_params roundtrip_params(const uint8_t *data)
{
    comet_params p;
    comet_params_init(&p);
    p.level = (comet_level)(data[0] >> 4 & 3) % 3;
    p.content_checksum = data[0] >> 6 & 1;
    p.profile = p.level == COMET_LEVEL_AUTO ? COMET_PROFILE_HOST : (comet_profile)(data[0] >> 7);
    p.bound_mode = (comet_bound_mode)((data[1] >> 3 & 7) % 5);
    p.bound = p.bound_mode == COMET_BOUND_RATIO ? 1 + data[2] / 8.0 : ldexp(1 + data[3] / 256.0, (int8_t)data[2] / 2);
    p.keep_support = data[1] >> 6 == 1;
    p.dither = data[1] >> 6 == 2 && p.bound_mode != COMET_BOUND_LOSSLESS;
    p.dither_seed = data[3];
    p.chunk_elements = data[4] ? 64 + 17 * (uint64_t)data[4] : 0;
    p.min_ratio = data[5] / 8.0;
    return p;
}

/* False if the input is too short or the tensor too large. x is malloc'd. */
static inline bool roundtrip_read(const uint8_t *data, size_t size, roundtrip_input *in)
{
    uint64_t dims[COMET_MAX_DIMS];
    if (size < ROUNDTRIP_HEADER)
        return false;
    comet_layout layout = (comet_layout)(data[0] >> 2 & 3);
    uint32_t n_dims = 1 + (data[1] & 7);
    n_dims = layout != COMET_LAYOUT_PLANAR && n_dims < 3 ? 3 : n_dims;
    for (uint32_t i = 0; i < n_dims; i++)
        dims[i] = data[6 + i] % (n_dims <= 2 ? 256 : n_dims <= 4 ? 40 : 8);
    if (comet_tensor_init(&in->tensor, (comet_dtype)(data[0] & 3), n_dims, dims) != COMET_OK)
        return false;
    in->tensor.layout = layout;
    if (comet_tensor_bytes(&in->tensor, &in->bytes) != COMET_OK || in->bytes > ROUNDTRIP_MOST_BYTES)
        return false;
    in->n = in->bytes / comet_dtype_bytes(in->tensor.dtype);
    in->params = roundtrip_params(data);
    if (in->params.bound_mode == COMET_BOUND_RATIO && in->bytes > ROUNDTRIP_MOST_SEARCHED)
        return false;
    in->x = malloc(in->bytes + 1);
    size_t have = size - ROUNDTRIP_HEADER;
    for (size_t i = 0; in->x && i < in->bytes; i++)
        ((uint8_t *)in->x)[i] = have ? data[ROUNDTRIP_HEADER + i % have] : 0;
    return in->x != NULL;
}

#endif
