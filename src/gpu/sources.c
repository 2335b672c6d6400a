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
                            [GPU_QUANTISE_PARTS16] = {"quantise_parts_16", 16},
                            [GPU_QUANTISE_PARTS32] = {"quantise_parts_32", 32},
                            [GPU_SAMPLE_PARTS16] = {"sample_parts_16", 16},
                            [GPU_SAMPLE_PARTS32] = {"sample_parts_32", 32},
                            [GPU_CHOOSE_PARTS] = {"choose_parts", 16},
                            [GPU_MODEL_PARTS16] = {"model_parts_16", 16},
                            [GPU_MODEL_PARTS32] = {"model_parts_32", 32},
                            [GPU_TABULATE_PARTS] = {"tabulate_parts", 16},
                            [GPU_CODE_PARTS16] = {"code_parts_16", 16},
                            [GPU_CODE_PARTS32] = {"code_parts_32", 32},
                            [GPU_SIZE_PARTS] = {"size_parts", 16},
                            [GPU_WRITE_PARTS16] = {"write_parts_16", 16},
                            [GPU_WRITE_PARTS32] = {"write_parts_32", 32},
                            [GPU_WRITE_MISFITS] = {"write_misfits", 16},
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
                                               {parts_model_kernel_h, sizeof parts_model_kernel_h},
                                               {parts_encode_kernel_h, sizeof parts_encode_kernel_h},
                                               {frame_kernel_h, sizeof frame_kernel_h}};
