/* Where elements of activations and of their gradients lie: f32 or bf16. Arithmetic on them is in float. */
#ifndef COMET_TRAIN_BACKEND_ELEMENT_H
#define COMET_TRAIN_BACKEND_ELEMENT_H

#include "comet/codec.h"

static inline const void *elements_from(comet_dtype type, const void *x, uint64_t first)
{
    return (const uint8_t *)x + first * comet_dtype_bytes(type);
}

static inline void *elements_at(comet_dtype type, void *x, uint64_t first)
{
    return (uint8_t *)x + first * comet_dtype_bytes(type);
}

#endif
