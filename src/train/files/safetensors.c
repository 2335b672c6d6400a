/* What reading and writing share: types, sizes, the checksum; see safetensors.h. */
#include "train/files/safetensors_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/status.h"

const safetensors_type safetensors_types[] = {
    {"F32", SAFETENSORS_F32, 4},    {"F64", SAFETENSORS_F64, 8},   {"F16", SAFETENSORS_F16, 2},   {"BF16", SAFETENSORS_BF16, 2},
    {"I64", SAFETENSORS_I64, 8},    {"U64", SAFETENSORS_OTHER, 8}, {"I32", SAFETENSORS_OTHER, 4}, {"U32", SAFETENSORS_OTHER, 4},
    {"I16", SAFETENSORS_OTHER, 2},  {"U16", SAFETENSORS_OTHER, 2}, {"I8", SAFETENSORS_OTHER, 1},  {"U8", SAFETENSORS_OTHER, 1},
    {"BOOL", SAFETENSORS_OTHER, 1}, {NULL, SAFETENSORS_OTHER, 0},
};

bool safetensors_size(uint32_t n_dims, const uint64_t *dims, uint64_t element_bytes, uint64_t *n_elements, uint64_t *bytes)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < n_dims; i++)
        if (__builtin_mul_overflow(n, dims[i], &n))
            return false;
    *n_elements = n;
    return !__builtin_mul_overflow(n, element_bytes, bytes) && *bytes <= INT64_MAX;
}

uint64_t safetensors_chain(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t left = bytes; left > 0;) {
        const size_t here = left < SAFETENSORS_PIECE ? left : SAFETENSORS_PIECE;
        unsigned char link[16];
        store_u64(link, hash);
        store_u64(link + 8, comet_checksum(at, here));
        hash = comet_checksum(link, sizeof link);
        at += here;
        left -= here;
    }
    return hash;
}

char *safetensors_shape_text(uint32_t n_dims, const uint64_t *dims, char text[SAFETENSORS_SHAPE_BYTES])
{
    size_t at = 0;
    snprintf(text, SAFETENSORS_SHAPE_BYTES, "scalar");
    for (uint32_t i = 0; i < n_dims && i < SAFETENSORS_MAX_DIMS; i++)
        at += (size_t)snprintf(text + at, SAFETENSORS_SHAPE_BYTES - at, "%s%" PRIu64, i > 0 ? " x " : "", dims[i]);
    return text;
}
