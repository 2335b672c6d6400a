/* NVRTC, for devices and drivers that the PTX in the library does not suit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "gpu/backend.h"
#include "gpu/cuda_api.h"
#include "gpu/library.h"

typedef struct nvrtc_program nvrtc_program;

/* X(name, symbol, parameters) */
#define NVRTC_FUNCTIONS(X)                                                                           \
    X(create, "nvrtcCreateProgram",                                                                  \
      (nvrtc_program **, const char *, const char *, int, const char *const *, const char *const *)) \
    X(compile, "nvrtcCompileProgram", (nvrtc_program *, int, const char *const *))                   \
    X(ptx_bytes, "nvrtcGetPTXSize", (nvrtc_program *, size_t *))                                     \
    X(ptx, "nvrtcGetPTX", (nvrtc_program *, char *))                                                 \
    X(log_bytes, "nvrtcGetProgramLogSize", (nvrtc_program *, size_t *))                              \
    X(log, "nvrtcGetProgramLog", (nvrtc_program *, char *))                                          \
    X(destroy, "nvrtcDestroyProgram", (nvrtc_program **))

#define NVRTC_MEMBER(name, symbol, parameters) int(*name) parameters; /* NOLINT(bugprone-macro-parentheses): a declaration */
typedef struct nvrtc_api {
    NVRTC_FUNCTIONS(NVRTC_MEMBER)
} nvrtc_api;

/* NVRTC 13 does not know devices before compute capability 7.5. */
static comet_status load(nvrtc_api *api, int capability)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
    const int newest = capability < 75 ? 1 : 0;
    void *library = gpu_library_open(names + newest, 4 - newest);
#define FIND(name, symbol, parameters) &&gpu_library_find(library, symbol, &api->name)
    if (!library || !(1 NVRTC_FUNCTIONS(FIND)))
        return comet_fail(COMET_ERROR_UNSUPPORTED,
                          "CUDA: the driver does not take the library's PTX, and there is no NVRTC%s to "
                          "compile the kernels with for compute capability %d.%d",
                          newest ? " 12 or 11.2" : "", capability / 10, capability % 10);
#undef FIND
    return COMET_OK;
}

/* All sources in one text, malloc'd. */
static char *join_sources(void)
{
    size_t bytes = 1;
    for (int i = 0; i < N_GPU_SOURCES; i++)
        bytes += gpu_sources[i].bytes;
    char *text = malloc(bytes), *end = text;
    for (int i = 0; text && i < N_GPU_SOURCES; i++) {
        memcpy(end, gpu_sources[i].text, gpu_sources[i].bytes);
        end += gpu_sources[i].bytes;
    }
    if (text)
        *end = 0;
    return text;
}

static comet_status compile_failed(const nvrtc_api *api, nvrtc_program *program, int code)
{
    char *log = NULL;
    size_t bytes = 0;
    if (api->log_bytes(program, &bytes) == 0 && (log = calloc(bytes + 1, 1)))
        api->log(program, log);
    const comet_status status = comet_fail(COMET_ERROR_UNSUPPORTED, "NVRTC: error %d: %.400s", code, log ? log : "");
    free(log);
    return status;
}

static comet_status compile(const nvrtc_api *api, nvrtc_program *program, int capability, int bits, char **ptx)
{
    char architecture[48], define[24];
    const char *const options[] = {architecture, define, "--fmad=false"};
    size_t bytes = 0;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=compute_%d", capability);
    snprintf(define, sizeof define, "-DCODE_BITS=%d", bits);
    const int code = api->compile(program, 3, options);
    if (code != 0)
        return compile_failed(api, program, code);
    if (api->ptx_bytes(program, &bytes) != 0 || !(*ptx = calloc(bytes + 1, 1)))
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for the compiled kernels", bytes);
    api->ptx(program, *ptx);
    return COMET_OK;
}

comet_status cuda_compile(int capability, int bits, char **ptx)
{
    nvrtc_api api;
    nvrtc_program *program = NULL;
    TRY(load(&api, capability));
    char *text = join_sources();
    if (!text)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate the text of the kernels");
    comet_status status = COMET_OK;
    const int code = api.create(&program, text, "comet_gpu.cu", 0, NULL, NULL);
    free(text);
    if (code != 0)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "NVRTC: error %d", code);
    status = compile(&api, program, capability, bits, ptx);
    api.destroy(&program);
    return status;
}
