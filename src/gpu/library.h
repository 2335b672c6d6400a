/* Drivers' libraries, loaded at run time. */
#ifndef COMET_GPU_LIBRARY_H
#define COMET_GPU_LIBRARY_H

#include <stddef.h>

/* Opens the first of these libraries that is there; NULL if none is. It stays open. */
void *gpu_library_open(const char *const *names, size_t n_names);

/* Stores the function's address at *function. False if it is missing. */
int gpu_library_find(void *library, const char *name, void *function);

#endif
