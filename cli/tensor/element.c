/* Single elements; see element.h. */
#include "tensor/element.h"

#include <math.h>
#include <string.h>

static double from_f16(uint16_t bits)
{
    const double sign = bits & 0x8000u ? -1 : 1;
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

static double from_f32_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double read_one(comet_dtype dtype, const void *array, uint64_t index)
{
    switch (dtype) {
    case COMET_DTYPE_F16: return from_f16(((const uint16_t *)array)[index]);
    case COMET_DTYPE_BF16: return from_f32_bits((uint32_t)((const uint16_t *)array)[index] << 16);
    case COMET_DTYPE_F64: return ((const double *)array)[index];
    case COMET_DTYPE_F32: break;
    }
    return (double)((const float *)array)[index];
}

element_pair element_read(comet_dtype dtype, const void *original, const void *decoded, uint64_t index)
{
    return (element_pair){read_one(dtype, original, index), read_one(dtype, decoded, index)};
}

void element_place(const comet_tensor *tensor, uint64_t index, uint64_t place[COMET_MAX_DIMS])
{
    uint64_t shape[COMET_NPY_MAX_DIMS], at[COMET_NPY_MAX_DIMS];
    const uint32_t n = tensor->n_dims;
    for (uint32_t i = memory_shape(tensor, shape); i-- > 0; index /= shape[i])
        at[i] = index % shape[i];
    memcpy(place, at, n * sizeof place[0]);
    if (tensor->layout == COMET_LAYOUT_CHANNELS_LAST) {
        place[n - 3] = at[n - 1];
        place[n - 2] = at[n - 3];
        place[n - 1] = at[n - 2];
    } else if (tensor->layout != COMET_LAYOUT_PLANAR) {
        place[n - 3] = at[n - 3] * layout_block(tensor->layout) + at[n];
    }
}
