/* See mock_library.h. */
#include "gpu/mock_library.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "testing.h"

static void *handle;

void mock_open_library(const char *library, const char *words)
{
    setenv("COMET_CUDA_LIBRARY", library, 1);
    setenv("COMET_MOCK_CUDA", words, 1);
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
}

void mock_find(const char *name, void *function)
{
    void *found = dlsym(handle, name);
    if (!found)
        fail_because("the mock of CUDA has no %s", name);
    memcpy(function, &found, sizeof found);
}

void mock_set(const char *format, ...)
{
    char words[256];
    int (*configure)(const char *);
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    mock_find("mock_cuda_configure", &configure);
    assert_int_equal(configure(words), 0);
}

mock_cuda_counts mock_counts(void)
{
    mock_cuda_counts counts;
    void (*count)(mock_cuda_counts *);
    mock_find("mock_cuda_count", &count);
    count(&counts);
    return counts;
}
