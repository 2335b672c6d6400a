/* Winograd's convolution in plain C, with whatever vectors the compiler makes of it. */
#define LANES 8
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define TILE_GROUP 6
#define CHANNEL_GROUP 4
#define KERNELS winograd_kernels_reference
#include "train/backend/winograd_loops.h"
