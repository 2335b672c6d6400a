/* Chooses a kernel family for a new context. */
#include "codec/kernels/kernels.h"

const codec_kernels *codec_kernels_pick(void)
{
    comet_isa isa = comet_isa_active();
    (void)isa;
#ifdef COMET_HAVE_AVX512
    if (isa >= COMET_ISA_AVX512)
        return &codec_kernels_avx512;
#endif
#ifdef COMET_HAVE_AVX2
    if (isa >= COMET_ISA_AVX2)
        return &codec_kernels_avx2;
#endif
#ifdef COMET_HAVE_NEON
    if (isa == COMET_ISA_NEON)
        return &codec_kernels_neon;
#endif
    return &codec_kernels_reference;
}
