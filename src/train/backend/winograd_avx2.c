/* Winograd's convolution with AVX2 and FMA. */
#include <immintrin.h>

#define LANES 8
#define MULTIPLY_ADD(a, b, c) ((vec)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define TILE_GROUP 6
#define CHANNEL_GROUP 4
#define KERNELS winograd_kernels_avx2
#include "train/backend/winograd_loops.h"
