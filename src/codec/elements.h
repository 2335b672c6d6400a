/* Passes over elements of any type, for relative bounds, unusual chunks and checks. */
#ifndef COMET_CODEC_ELEMENTS_H
#define COMET_CODEC_ELEMENTS_H

#include "base/convert.h"
#include "comet/codec.h"

/* The value of element i, exactly. */
static inline double element_value(comet_dtype dtype, const void *x, uint64_t i)
{
    switch (dtype) {
    case COMET_DTYPE_F32: return (double)((const float *)x)[i];
    case COMET_DTYPE_F16: return (double)float_of_f16(((const uint16_t *)x)[i]);
    case COMET_DTYPE_BF16: return (double)float_of_bf16(((const uint16_t *)x)[i]);
    case COMET_DTYPE_F64: break;
    }
    return ((const double *)x)[i];
}

/* Figures of a run of elements; sums and extremes are over the finite ones. */
typedef struct summary {
    double sum, sum_of_squares;
    double min, max; /* +Inf and -Inf if there is no finite element */
    uint64_t n_nonzero, n_nonfinite;
} summary;

summary elements_summary(comet_dtype dtype, const void *x, uint64_t n);

/* The standard deviation of the finite elements, two passes; 0 if there is none. */
double elements_stddev(comet_dtype dtype, const void *x, uint64_t n);

#endif
