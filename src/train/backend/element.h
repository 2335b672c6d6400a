/* Elements of activations and of their gradients: f32 or bf16, which is rounded to nearest even. Arithmetic on them is in
 * float. */
#ifndef COMET_TRAIN_BACKEND_ELEMENT_H
#define COMET_TRAIN_BACKEND_ELEMENT_H

#include <stddef.h>

#include "base/convert.h"
#include "base/isa_pick.h"
#include "comet/codec.h"

/* The variant of a loop for elements of this type, name_f32 or name_bf16, and for comet_isa_active. */
#define ELEMENT_PICK(name, type) ((type) == COMET_DTYPE_BF16 ? ISA_PICK(name##_bf16) : ISA_PICK(name##_f32))

static inline size_t element_bytes(comet_dtype type)
{
    return type == COMET_DTYPE_BF16 ? sizeof(uint16_t) : sizeof(float);
}

/* Where element `first` lies. */
static inline const void *elements_from(comet_dtype type, const void *x, uint64_t first)
{
    return (const uint8_t *)x + first * element_bytes(type);
}

static inline void *elements_at(comet_dtype type, void *x, uint64_t first)
{
    return (uint8_t *)x + first * element_bytes(type);
}

/* Element i; loops over elements are inlined with a constant type, so that compilers make vectors of them. */
static inline float element_get(comet_dtype type, const void *x, uint64_t i)
{
    return type == COMET_DTYPE_BF16 ? float_of_bf16(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

static inline void element_put(comet_dtype type, void *x, uint64_t i, float v)
{
    if (type == COMET_DTYPE_BF16)
        ((uint16_t *)x)[i] = bf16_of_float(v);
    else
        ((float *)x)[i] = v;
}

#endif
