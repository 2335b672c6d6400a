/* What a back end does for gpu.c: find devices, build the kernels, launch one of them. */
#ifndef COMET_GPU_BACKEND_H
#define COMET_GPU_BACKEND_H

#include "comet/gpu.h"
#include "gpu/kernel_types.h"

enum gpu_kernel {
    GPU_ENCODE16,
    GPU_ENCODE32,
    GPU_DECODE16,
    GPU_DECODE32,
    GPU_DECODE_PARTS16,
    GPU_DECODE_PARTS32,
    GPU_PUT_OUTLIERS,
    GPU_QUANTISE_PARTS16,
    GPU_QUANTISE_PARTS32,
    GPU_SAMPLE_PARTS16,
    GPU_SAMPLE_PARTS32,
    GPU_CHOOSE_PARTS,
    GPU_MODEL_PARTS16,
    GPU_MODEL_PARTS32,
    GPU_TABULATE_PARTS,
    GPU_CODE_PARTS16,
    GPU_CODE_PARTS32,
    GPU_SIZE_PARTS,
    GPU_WRITE_PARTS16,
    GPU_WRITE_PARTS32,
    GPU_WRITE_MISFITS,
    GPU_PLACE,
    GPU_COMPACT,
    GPU_OPEN_FRAME,
    GPU_CHECK_INDEX,
    GPU_SUMMARISE,
    GPU_TOTAL,
    GPU_RESET_ARENA,
    N_GPU_KERNELS
};

/* The kernel's name in the sources. */
const char *gpu_kernel_name(enum gpu_kernel kernel);
/* Bits of the codes that the build of the sources with this kernel is for. */
int gpu_kernel_bits(enum gpu_kernel kernel);

/* The buffers of a launch, as comet_gpu_pointer.memory; their offsets are in the job. Unused ones repeat another. */
typedef struct gpu_buffers {
    uint64_t x, frame, work, result;
} gpu_buffers;

/* Texts that the kernels are built from. */
typedef struct gpu_source {
    const char *text;
    size_t bytes;
} gpu_source;

enum { N_GPU_SOURCES = 11 };
extern const gpu_source gpu_sources[N_GPU_SOURCES]; /* in the order of their use */

/* Members as in comet/gpu.h. Functions record the sentence of a failure. */
typedef struct gpu_backend {
    const char *name;
    bool has_addresses; /* memory is a number to which offsets are added, not a handle */
    comet_status (*count)(unsigned *n);
    /* Fills *info, of which `name` is set, with all it can, and `unfit`. */
    comet_status (*describe)(unsigned index, comet_gpu_info *info);
    comet_status (*open)(unsigned index, const comet_gpu_context *lent, void **device);
    void (*close)(void *device);
    void *(*context)(void *device);
    /* Is the queue of the device's context? NULL is. */
    comet_status (*check_queue)(void *device, void *queue);
    comet_status (*launch)(void *device, void *queue, enum gpu_kernel kernel, uint32_t n_groups, const gpu_buffers *buffers,
                           const gpu_job *job);
    comet_status (*allocate)(void *device, size_t bytes, uint64_t *memory);
    void (*release)(void *device, uint64_t memory);
    comet_status (*write)(void *device, uint64_t memory, uint64_t offset, const void *from, size_t bytes);
    comet_status (*read)(void *device, uint64_t memory, uint64_t offset, void *to, size_t bytes);
    comet_status (*copy)(void *device, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset, size_t bytes);
    comet_status (*finish)(void *device);
} gpu_backend;

extern const gpu_backend gpu_opencl, gpu_cuda;

/* Opens device `index` of any back end, those of tests included. */
comet_status gpu_open_device(const gpu_backend *backend, unsigned index, const comet_gpu_context *lent, comet_gpu **gpu);

#endif
