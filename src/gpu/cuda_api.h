/* The part of the CUDA driver and of NVRTC that we call, as NVIDIA's manuals give it, found at run time: nothing of CUDA is
 * needed to build. */
#ifndef COMET_GPU_CUDA_API_H
#define COMET_GPU_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "comet/base.h"

typedef struct cuda_object cuda_object; /* a context, stream, module or function */

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum {
    CUDA_SHARED_BYTES = 8, /* attributes of devices */
    CUDA_MULTIPROCESSORS = 16,
    CUDA_CAPABILITY_MAJOR = 75,
    CUDA_CAPABILITY_MINOR = 76
};
enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_LAST_NAMED_STREAM = 2 /* 1 and 2 are the default streams */ };

/* X(result, our name, the driver's name, parameters) */
#define CUDA_FUNCTIONS(X)                                                                                                     \
    X(int, init, "cuInit", (unsigned))                                                                                        \
    X(int, driver_version, "cuDriverGetVersion", (int *))                                                                     \
    X(int, error_string, "cuGetErrorString", (int, const char **))                                                            \
    X(int, device_count, "cuDeviceGetCount", (int *))                                                                         \
    X(int, device_get, "cuDeviceGet", (int *, int))                                                                           \
    X(int, device_name, "cuDeviceGetName", (char *, int, int))                                                                \
    X(int, device_memory, "cuDeviceTotalMem_v2", (size_t *, int))                                                             \
    X(int, device_attribute, "cuDeviceGetAttribute", (int *, int, int))                                                       \
    X(int, primary_retain, "cuDevicePrimaryCtxRetain", (cuda_object **, int))                                                 \
    X(int, primary_release, "cuDevicePrimaryCtxRelease_v2", (int))                                                            \
    X(int, push, "cuCtxPushCurrent_v2", (cuda_object *))                                                                      \
    X(int, pop, "cuCtxPopCurrent_v2", (cuda_object **))                                                                       \
    X(int, context_device, "cuCtxGetDevice", (int *))                                                                         \
    X(int, module_load, "cuModuleLoadData", (cuda_object **, const void *))                                                   \
    X(int, module_unload, "cuModuleUnload", (cuda_object *))                                                                  \
    X(int, module_function, "cuModuleGetFunction", (cuda_object **, cuda_object *, const char *))                             \
    X(int, launch, "cuLaunchKernel",                                                                                          \
      (cuda_object *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cuda_object *, void **, void **)) \
    X(int, allocate, "cuMemAlloc_v2", (uint64_t *, size_t))                                                                   \
    X(int, release, "cuMemFree_v2", (uint64_t))                                                                               \
    X(int, write, "cuMemcpyHtoDAsync_v2", (uint64_t, const void *, size_t, cuda_object *))                                    \
    X(int, read, "cuMemcpyDtoHAsync_v2", (void *, uint64_t, size_t, cuda_object *))                                           \
    X(int, copy, "cuMemcpyDtoDAsync_v2", (uint64_t, uint64_t, size_t, cuda_object *))                                         \
    X(int, stream_create, "cuStreamCreate", (cuda_object **, unsigned))                                                       \
    X(int, stream_destroy, "cuStreamDestroy_v2", (cuda_object *))                                                             \
    X(int, stream_wait, "cuStreamSynchronize", (cuda_object *))                                                               \
    X(int, stream_context, "cuStreamGetCtx", (cuda_object *, cuda_object **))

#define CUDA_MEMBER(result, name, symbol, parameters) \
    result(*name) parameters; /* NOLINT(bugprone-macro-parentheses): a declaration */
typedef struct cuda_api {
    CUDA_FUNCTIONS(CUDA_MEMBER)
} cuda_api;
#undef CUDA_MEMBER

/* The functions of the driver, initialised, or NULL where there is none or it finds no device. */
const cuda_api *cuda_load(void);

/* COMET_OK for CUDA_SUCCESS; else a status with a sentence. */
comet_status cuda_check(const cuda_api *cuda, int code, const char *what);

/* Compiles the kernels for a compute capability such as 75 with NVRTC, where it is installed, to PTX, which the caller frees.
 */
comet_status cuda_compile(int capability, int bits, char **ptx);

#endif
