/* Winograd's convolution with AVX-512. */
#include <immintrin.h>

#define LANES 16
#define MULTIPLY_ADD(a, b, c) ((vec)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define TILE_GROUP 14
#define CHANNEL_GROUP 8
#define KERNELS winograd_kernels_avx512
#include "train/backend/winograd_loops.h"
