/* The part of OpenCL 1.2 that we call, as its specification gives it, found at run time: nothing of OpenCL is needed to build.
 */
#ifndef COMET_GPU_OPENCL_API_H
#define COMET_GPU_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

#include "comet/base.h"

typedef struct cl_object cl_object; /* a platform, device, context, queue, program, kernel or buffer */

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_OUT_OF_RESOURCES = -5,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4
};
enum {
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_ENDIAN_LITTLE = 0x1026,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102B,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    CL_CONTEXT_DEVICES = 0x1081,
    CL_QUEUE_CONTEXT = 0x1090,
    CL_PROGRAM_BUILD_LOG = 0x1183
};
#define CL_DEVICE_TYPE_CPU ((uint64_t)2)
#define CL_DEVICE_TYPE_ALL ((uint64_t)0xFFFFFFFF)
#define CL_FP_DENORM ((uint64_t)1)
#define CL_FP_INF_NAN ((uint64_t)2)
#define CL_FP_ROUND_TO_NEAREST ((uint64_t)4)
#define CL_MEM_READ_WRITE ((uint64_t)1)

/* X(result, name, parameters) */
#define OPENCL_FUNCTIONS(X)                                                                                                 \
    X(int32_t, clGetPlatformIDs, (uint32_t, cl_object **, uint32_t *))                                                      \
    X(int32_t, clGetDeviceIDs, (cl_object *, uint64_t, uint32_t, cl_object **, uint32_t *))                                 \
    X(int32_t, clGetDeviceInfo, (cl_object *, uint32_t, size_t, void *, size_t *))                                          \
    X(cl_object *, clCreateContext, (const intptr_t *, uint32_t, cl_object *const *, void *, void *, int32_t *))            \
    X(int32_t, clRetainContext, (cl_object *))                                                                              \
    X(int32_t, clReleaseContext, (cl_object *))                                                                             \
    X(int32_t, clGetContextInfo, (cl_object *, uint32_t, size_t, void *, size_t *))                                         \
    X(cl_object *, clCreateCommandQueue, (cl_object *, cl_object *, uint64_t, int32_t *))                                   \
    X(int32_t, clReleaseCommandQueue, (cl_object *))                                                                        \
    X(int32_t, clGetCommandQueueInfo, (cl_object *, uint32_t, size_t, void *, size_t *))                                    \
    X(cl_object *, clCreateProgramWithSource, (cl_object *, uint32_t, const char **, const size_t *, int32_t *))            \
    X(int32_t, clBuildProgram, (cl_object *, uint32_t, cl_object *const *, const char *, void *, void *))                   \
    X(int32_t, clGetProgramBuildInfo, (cl_object *, cl_object *, uint32_t, size_t, void *, size_t *))                       \
    X(int32_t, clReleaseProgram, (cl_object *))                                                                             \
    X(cl_object *, clCreateKernel, (cl_object *, const char *, int32_t *))                                                  \
    X(int32_t, clReleaseKernel, (cl_object *))                                                                              \
    X(int32_t, clSetKernelArg, (cl_object *, uint32_t, size_t, const void *))                                               \
    X(int32_t, clEnqueueNDRangeKernel,                                                                                      \
      (cl_object *, cl_object *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, const void *, void *)) \
    X(cl_object *, clCreateBuffer, (cl_object *, uint64_t, size_t, void *, int32_t *))                                      \
    X(int32_t, clReleaseMemObject, (cl_object *))                                                                           \
    X(int32_t, clEnqueueWriteBuffer,                                                                                        \
      (cl_object *, cl_object *, uint32_t, size_t, size_t, const void *, uint32_t, const void *, void *))                   \
    X(int32_t, clEnqueueReadBuffer,                                                                                         \
      (cl_object *, cl_object *, uint32_t, size_t, size_t, void *, uint32_t, const void *, void *))                         \
    X(int32_t, clEnqueueCopyBuffer,                                                                                         \
      (cl_object *, cl_object *, cl_object *, size_t, size_t, size_t, uint32_t, const void *, void *))                      \
    X(int32_t, clFinish, (cl_object *))

#define OPENCL_MEMBER(result, name, parameters) \
    result(*name) parameters; /* NOLINT(bugprone-macro-parentheses): a declaration */
typedef struct opencl_api {
    OPENCL_FUNCTIONS(OPENCL_MEMBER)
} opencl_api;
#undef OPENCL_MEMBER

/* The functions, or NULL where there is no libOpenCL. */
const opencl_api *opencl_load(void);

/* COMET_OK for CL_SUCCESS; else a status with a sentence. */
comet_status opencl_check(int32_t code, const char *what);

#endif
