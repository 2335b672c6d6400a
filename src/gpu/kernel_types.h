/* The kernels' structs, for the host. */
#ifndef COMET_GPU_KERNEL_TYPES_H
#define COMET_GPU_KERNEL_TYPES_H

#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#include "gpu/kernels/job.h"

#endif
