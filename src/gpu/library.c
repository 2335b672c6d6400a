/* dlopen; see library.h. */
#define _GNU_SOURCE 1 /* RTLD_LOCAL on old systems */
#include "gpu/library.h"

#include <dlfcn.h>
#include <string.h>

void *gpu_library_open(const char *const *names, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

int gpu_library_find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found); /* C has no conversion from objects to functions */
    return found != NULL;
}
