/*
 * Compiles the file that LOOP_FILE names for elements of each type and for each instruction set, on the vectors of
 * element_lanes.h. A function LOOP(name) of that file becomes name_f32_reference, name_bf16_avx512 and so on, and
 * ELEMENT_PICK(name, type) is the one to call.
 *
 * LOOP_LANES is the width of the vectors: what the instruction set has, since compilers do badly with wider ones. LOOP_MASKS:
 * compares make masks, which vectors of C cannot express.
 */
/* No include guard: a file may have several LOOP_FILEs. */

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/isa_pick.h"
#include "comet/codec.h"

#ifndef ELEMENT_PICK
#define ELEMENT_PICK(name, type) ((type) == COMET_DTYPE_BF16 ? ISA_PICK(name##_bf16) : ISA_PICK(name##_f32))
#endif

#define LOOP(name) name##_f32_reference
#define LOOP_TARGET
#define LOOP_LANES 4
#include "train/math/element_lanes.h"
#include LOOP_FILE
#include "train/math/element_end.h"

#define LOOP(name) name##_bf16_reference
#define LOOP_TARGET
#define LOOP_LANES 4
#define LOOP_BF16
#include "train/math/element_lanes.h"
#include LOOP_FILE
#include "train/math/element_end.h"

#ifdef __x86_64__
#define LOOP(name) name##_f32_avx2
#define LOOP_TARGET target(ISA_TARGET_AVX2),
#define LOOP_LANES 8
#include "train/math/element_lanes.h"
#include LOOP_FILE
#include "train/math/element_end.h"

#define LOOP(name) name##_bf16_avx2
#define LOOP_TARGET target(ISA_TARGET_AVX2),
#define LOOP_LANES 8
#define LOOP_BF16
#include "train/math/element_lanes.h"
#include LOOP_FILE
#include "train/math/element_end.h"

#define LOOP(name) name##_f32_avx512
#define LOOP_TARGET target(ISA_TARGET_AVX512),
#define LOOP_LANES 16
#define LOOP_MASKS
#include "train/math/element_lanes.h"
#include LOOP_FILE
#include "train/math/element_end.h"

#define LOOP(name) name##_bf16_avx512
#define LOOP_TARGET target(ISA_TARGET_AVX512),
#define LOOP_LANES 16
#define LOOP_MASKS
#define LOOP_BF16
#include "train/math/element_lanes.h"
#include LOOP_FILE
#include "train/math/element_end.h"
#endif

#undef LOOP_FILE
