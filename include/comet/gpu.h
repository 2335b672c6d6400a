/*
 * The codec on GPUs, through OpenCL or the CUDA driver: the same bytes as on the CPU. No GPU has run it yet; what
 * it has run on, and how to test it on yours, docs/gpu.md says.
 *
 *   devices      comet_gpu_count, comet_gpu_describe, comet_gpu_open, comet_gpu_close
 *   sizes        comet_gpu_plan_tensor: workspaces, and the room that a frame may take
 *   work         comet_gpu_encode, comet_gpu_decode, comet_gpu_summarise: launches on the caller's queue
 *   arena        comet_gpu_arena_*: frames one after the other, each as long as it is
 *   memory       comet_gpu_allocate and others, for programs that have no device memory of their own
 *
 * Calls of `work` only launch kernels: they neither allocate nor wait. Their results - lengths, statuses, figures - go to
 * device memory, where later kernels of the same queue find them. A failure found on the device (too little room, a damaged
 * frame) is a status there; the return value is about the call.
 *
 * What goes: f32, f16 and bf16 in every layout, profile device, levels fast and dense, absolute bounds and
 * lossless, keep support, dither. Frames with content checksums, f64 and relative bounds give COMET_ERROR_UNSUPPORTED.
 *
 * Threads: calls on one comet_gpu may come from any thread; launches of one call stay together in its queue.
 */
#ifndef COMET_GPU_H
#define COMET_GPU_H

#include "comet/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device with its kernels. */
typedef struct comet_gpu comet_gpu;

/* ---- devices ---- */

/* What comet_gpu_describe finds. Texts end with 0 and may be cut. */
typedef struct comet_gpu_info {
    size_t size;
    char name[24];    /* "opencl:0", "cuda:0": what comet_gpu_open takes */
    char device[128]; /* the vendor's name */
    char driver[128]; /* its version */
    uint64_t memory_bytes;
    uint32_t n_units;      /* compute units, multiprocessors */
    uint32_t shared_bytes; /* memory that a group shares */
    bool is_cpu;           /* an OpenCL device that is a CPU */
    char unfit[192];       /* why it cannot be used; empty where it can */
} comet_gpu_info;

COMET_API void comet_gpu_info_init(comet_gpu_info *info);

/* The number of devices of a back end, "opencl" or "cuda"; 0 where it has no driver here. COMET_ERROR_ARGUMENT for another
 * name. */
COMET_API comet_status comet_gpu_count(const char *backend, unsigned *n_devices);

/* Describes a device by its name, such as "opencl:0". */
COMET_API comet_status comet_gpu_describe(const char *name, comet_gpu_info *info);

/* A context that the caller lends: a cl_context, or a CUcontext, of the named device. It must outlive the comet_gpu. */
typedef struct comet_gpu_context {
    void *context;
} comet_gpu_context;

/* Opens a device and builds its kernels, which may take seconds. `lent` is NULL for a context of its own.
 * COMET_ERROR_UNSUPPORTED, with the reason, where there is no driver, no such device, or where it lacks something. */
COMET_API comet_status comet_gpu_open(const char *name, const comet_gpu_context *lent, comet_gpu **gpu);

/* NULL is allowed. Nothing of it may be running. */
COMET_API void comet_gpu_close(comet_gpu *gpu);

/* The context that it uses, a cl_context or a CUcontext, for queues of the caller's. */
COMET_API void *comet_gpu_native_context(const comet_gpu *gpu);

/* ---- memory as it is handed over ---- */

/* A place in device memory: a CUdeviceptr or a cl_mem (as a number), and bytes from there. Tensors begin at a multiple of their
 * element size; frames, workspaces, results and arenas at a multiple of 16 bytes, and as many bytes belong to each as the
 * call asks for, rounded up to a multiple of 16. */
typedef struct comet_gpu_pointer {
    uint64_t memory;
    uint64_t offset;
} comet_gpu_pointer;

/* ---- sizes ---- */

typedef struct comet_gpu_plan {
    size_t size;
    uint64_t n_elements, tensor_bytes;
    uint64_t chunk_elements, n_chunks;
    uint64_t frame_bytes;                               /* no frame is longer; a multiple of 16 */
    uint64_t encode_bytes, decode_bytes, summary_bytes; /* of workspaces */
} comet_gpu_plan;

COMET_API void comet_gpu_plan_init(comet_gpu_plan *plan);

/* Finds the sizes of a tensor compressed with these parameters. Needs no device. COMET_ERROR_UNSUPPORTED
 * for what does not go on a GPU. */
COMET_API comet_status comet_gpu_plan_tensor(const comet_tensor *tensor, const comet_params *params, comet_gpu_plan *plan);

/* ---- work ---- */

/* What encoding and decoding leave in device memory, 48 bytes. */
typedef struct comet_gpu_result {
    uint32_t status;                   /* a comet_status */
    uint32_t chunk;                    /* the first damaged chunk; UINT32_MAX if there is none or it is the header or index */
    uint64_t bytes;                    /* encoding: of the frame, also if it did not fit; decoding: of the tensor */
    uint64_t offset;                   /* encoding to an arena: where the frame begins, from the arena's first byte of data */
    uint64_t n_outliers, n_chunks_raw; /* encoding: as comet_stats has them */
    uint64_t unused;
} comet_gpu_result;

/* What comet_gpu_summarise leaves there, 48 bytes, of the finite elements where not said otherwise. The sum is taken in one
 * order on every device. */
typedef struct comet_gpu_summary {
    double sum_of_squares;
    double min, max;    /* both 0 if there is none */
    uint64_t n_nonzero; /* elements that are not +-0, the others included */
    uint64_t n_nonfinite;
    uint64_t unused;
} comet_gpu_summary;

/* Compresses the tensor at src into a frame, the same as comet_compress makes with these parameters. At most `capacity` bytes
 * from `frame` on are written, and none if the frame is longer: the result then has COMET_ERROR_CAPACITY and its length.
 * `queue` is a cl_command_queue (in order) or a CUstream of the comet_gpu's context, or NULL for one of its own, which does
 * not wait for other streams: CUDA's default stream is passed as CU_STREAM_LEGACY, never as NULL. src, frame,
 * workspace and result must not overlap, and src must not change until the work is done. */
COMET_API comet_status comet_gpu_encode(comet_gpu *gpu, const comet_tensor *tensor, const comet_params *params,
                                        comet_gpu_pointer src, comet_gpu_pointer frame, uint64_t capacity,
                                        comet_gpu_pointer workspace, comet_gpu_pointer result, void *queue);

/* Decompresses a frame, of which `frame_bytes` bytes may be read: its length, or the room that it lies in. The tensor and the
 * parameters must be those that it was made with: the device compares them with the header. Frames may come from an untrusted
 * source. If the result is not COMET_OK, the contents of dst are undefined. */
COMET_API comet_status comet_gpu_decode(comet_gpu *gpu, const comet_tensor *tensor, const comet_params *params,
                                        comet_gpu_pointer frame, uint64_t frame_bytes, comet_gpu_pointer dst,
                                        comet_gpu_pointer workspace, comet_gpu_pointer result, void *queue);

/* Minimum, maximum, sum of squares and counts of a tensor, as a comet_gpu_summary at `summary`. */
COMET_API comet_status comet_gpu_summarise(comet_gpu *gpu, const comet_tensor *tensor, comet_gpu_pointer src,
                                           comet_gpu_pointer workspace, comet_gpu_pointer summary, void *queue);

/* ---- arena ---- */

/* Device memory that frames fill one after the other. 256 bytes at its start are the device's own; data follows. Only one
 * queue may use an arena at a time. */
#define COMET_GPU_ARENA_HEAD 256

typedef struct comet_gpu_arena {
    comet_gpu_pointer memory; /* at a multiple of 256 bytes */
    uint64_t bytes;           /* head included */
} comet_gpu_arena;

/* Gives back all but the first `kept` bytes of data, rounded up to a multiple of 256. Also the first thing to do with an arena,
 * with 0. */
COMET_API comet_status comet_gpu_arena_reset(comet_gpu *gpu, const comet_gpu_arena *arena, uint64_t kept, void *queue);

/* As comet_gpu_encode, to the end of the arena: as many bytes are taken as the frame has, rounded up to a multiple of 256. The
 * result says where it is. */
COMET_API comet_status comet_gpu_encode_to_arena(comet_gpu *gpu, const comet_tensor *tensor, const comet_params *params,
                                                 comet_gpu_pointer src, const comet_gpu_arena *arena,
                                                 comet_gpu_pointer workspace, comet_gpu_pointer result, void *queue);

/* ---- memory, for programs without a runtime of their own ---- */

COMET_API comet_status comet_gpu_allocate(comet_gpu *gpu, uint64_t bytes, uint64_t *memory);
/* 0 is allowed. */
COMET_API void comet_gpu_release(comet_gpu *gpu, uint64_t memory);
/* These three wait for the own queue. */
COMET_API comet_status comet_gpu_write(comet_gpu *gpu, comet_gpu_pointer to, const void *from, uint64_t bytes);
COMET_API comet_status comet_gpu_read(comet_gpu *gpu, comet_gpu_pointer from, void *to, uint64_t bytes);
COMET_API comet_status comet_gpu_finish(comet_gpu *gpu);
/* Copies within the device, on its own queue, without waiting. */
COMET_API comet_status comet_gpu_copy(comet_gpu *gpu, comet_gpu_pointer to, comet_gpu_pointer from, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
