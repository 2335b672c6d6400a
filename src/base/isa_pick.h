/*
 * Compiles the same code for each instruction set and picks the variant to run. This is for loops that compilers vectorise;
 * kernels written by hand have a table of their own (src/codec/kernels).
 */
#ifndef COMET_BASE_ISA_PICK_H
#define COMET_BASE_ISA_PICK_H

#include "comet/base.h"

#define ISA_INLINED static inline __attribute__((always_inline))

#ifdef __x86_64__
#define ISA_TARGET_AVX2 "avx2"
#define ISA_TARGET_AVX512 "avx512f,avx512vl,avx512bw,avx512dq"

/* Functions name_reference, name_avx2 and name_avx512 that return nothing and `call` an ISA_INLINED one. */
#define ISA_VARIANTS(name, parameters, call)                                        \
    static void name##_reference parameters                                         \
    {                                                                               \
        call;                                                                       \
    }                                                                               \
    __attribute__((target(ISA_TARGET_AVX2))) static void name##_avx2 parameters     \
    {                                                                               \
        call;                                                                       \
    }                                                                               \
    __attribute__((target(ISA_TARGET_AVX512))) static void name##_avx512 parameters \
    {                                                                               \
        call;                                                                       \
    }

/* The function for comet_isa_active. */
#define ISA_PICK(name)                                      \
    (comet_isa_active() == COMET_ISA_AVX512 ? name##_avx512 \
     : comet_isa_active() == COMET_ISA_AVX2 ? name##_avx2   \
                                            : name##_reference)
#else
#define ISA_VARIANTS(name, parameters, call) \
    static void name##_reference parameters  \
    {                                        \
        call;                                \
    }
#define ISA_PICK(name) name##_reference
#endif

#endif
