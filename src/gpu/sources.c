/* The kernels: their names, and the texts that they are built from, which the build makes an array of. */
#include "gpu/backend.h"
#include "gpu_sources.h"

static const struct {
    const char *name;
    int bits;
} kernels[N_GPU_KERNELS] = {[GPU_ENCODE16] = {"encode_16", 16},
                            [GPU_ENCODE32] = {"encode_32", 32},
                            [GPU_DECODE16] = {"decode_16", 16},
                            [GPU_DECODE32] = {"decode_32", 32},
                            [GPU_DECODE_PARTS16] = {"decode_parts_16", 16},
                            [GPU_DECODE_PARTS32] = {"decode_parts_32", 32},
                            [GPU_PUT_OUTLIERS] = {"put_outliers", 16},
                            [GPU_PLACE] = {"place", 16},
                            [GPU_COMPACT] = {"compact", 16},
                            [GPU_OPEN_FRAME] = {"open_frame", 16},
                            [GPU_CHECK_INDEX] = {"check_index", 16},
                            [GPU_SUMMARISE] = {"summarise", 16},
                            [GPU_TOTAL] = {"total", 16},
                            [GPU_RESET_ARENA] = {"reset_arena", 16}};

const char *gpu_kernel_name(enum gpu_kernel kernel)
{
    return kernels[kernel].name;
}

int gpu_kernel_bits(enum gpu_kernel kernel)
{
    return kernels[kernel].bits;
}

const gpu_source gpu_sources[N_GPU_SOURCES] = {{language_h, sizeof language_h},
                                               {job_h, sizeof job_h},
                                               {values_h, sizeof values_h},
                                               {blocks_h, sizeof blocks_h},
                                               {decode_kernel_h, sizeof decode_kernel_h},
                                               {parts_kernel_h, sizeof parts_kernel_h},
                                               {choice_h, sizeof choice_h},
                                               {encode_kernel_h, sizeof encode_kernel_h},
                                               {frame_kernel_h, sizeof frame_kernel_h}};
