/* Lanes in a wave in plain C, and the choice of a family's functions. */
#include "codec/kernels/wave.h"

#include "codec/kernels/generic.h"

#define CODE int16_t
#define UCODE uint16_t
#define SUM int32_t
#define NAME(stem) stem##_16_generic
#include "codec/kernels/wave_body.h"

#define CODE int32_t
#define UCODE uint32_t
#define SUM int64_t
#define NAME(stem) stem##_32_generic
#include "codec/kernels/wave_body.h"

const wave_kernels wave_kernels_reference = {
    .gather = {wave_gather_16_generic, wave_gather_32_generic},
    .model = {wave_model_16_generic, wave_model_32_generic},
    .decode = {wave_decode_16_generic, wave_decode_32_generic},
};

const wave_kernels *wave_kernels_of(const codec_kernels *k)
{
    (void)k;
#ifdef COMET_HAVE_AVX512
    if (k->isa >= COMET_ISA_AVX512)
        return &wave_kernels_avx512;
#endif
    return &wave_kernels_reference;
}
