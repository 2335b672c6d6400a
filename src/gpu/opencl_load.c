/* Finds libOpenCL and its functions, once. */
#include <pthread.h>

#include "base/status.h"
#include "gpu/library.h"
#include "gpu/opencl_api.h"

static opencl_api api;
static int found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
    void *library = gpu_library_open(names, 2);
    if (!library)
        return;
#define FIND(result, name, parameters) &&gpu_library_find(library, #name, &api.name)
    found = 1 OPENCL_FUNCTIONS(FIND);
#undef FIND
}

const opencl_api *opencl_load(void)
{
    pthread_once(&once, load);
    return found ? &api : NULL;
}

comet_status opencl_check(int32_t code, const char *what)
{
    switch (code) {
    case CL_SUCCESS: return COMET_OK;
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE: /* more than the device gives at a time */
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return comet_fail(COMET_ERROR_MEMORY, "OpenCL: %s: out of memory (error %d)", what, code);
    default: return comet_fail(COMET_ERROR_UNSUPPORTED, "OpenCL: %s: error %d", what, code);
    }
}
