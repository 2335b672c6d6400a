/* Finds the CUDA driver and its functions, once: the library that COMET_CUDA_LIBRARY names, or the system's. */
#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu/cuda_api.h"
#include "gpu/library.h"

static cuda_api api;
static int found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
    const char *const named = getenv("COMET_CUDA_LIBRARY");
    void *library = named ? gpu_library_open(&named, 1) : gpu_library_open(names, 2);
    if (!library)
        return;
#define FIND(result, name, symbol, parameters) &&gpu_library_find(library, symbol, &api.name)
    found = 1 CUDA_FUNCTIONS(FIND);
#undef FIND
    found = found && api.init(0) == CUDA_SUCCESS;
}

const cuda_api *cuda_load(void)
{
    pthread_once(&once, load);
    return found ? &api : NULL;
}

comet_status cuda_check(const cuda_api *cuda, int code, const char *what)
{
    const char *text = NULL;
    if (code == CUDA_SUCCESS)
        return COMET_OK;
    if (cuda->error_string(code, &text) != CUDA_SUCCESS || !text)
        text = "unknown error";
    return comet_fail(code == CUDA_ERROR_OUT_OF_MEMORY ? COMET_ERROR_MEMORY : COMET_ERROR_UNSUPPORTED,
                      "CUDA: %s: %s (error %d)", what, text, code);
}
