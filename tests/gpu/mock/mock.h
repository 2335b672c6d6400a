/*
 * A CUDA driver without a GPU: a shared library with the functions of the driver that src/gpu calls, whose kernels run in the
 * interpreter of tests/gpu/ptx. Device memory is host memory, so pointers of one are pointers of the other; kernels and copies
 * see what cuMemAlloc gave and what cuMemHostRegister named, and nothing else. Everything is done when it is called.
 *
 * COMET_MOCK_CUDA, read by cuInit, or mock_cuda_configure say what the machine is like, in words with spaces between them:
 *
 *   devices=N       (1)           capability=N    80 for 8.0 (80)       memory=BYTES   of each device (2^31)
 *   init=CODE       what cuInit returns (0)                             ptx=CODE       what cuModuleLoadData returns (0)
 *   order=NAME      of warps: forward, backward, shuffled (forward)     seed=N         of that order (1)
 *   watch=0|1       for conflicts in shared memory (0)                  count=0|1      what kernels execute (0)
 *
 * A kernel that does what it must not - an access outside the memory, a conflict, a barrier that not all threads reach - gives
 * CUDA_ERROR_LAUNCH_FAILED (719), whose text by cuGetErrorString is a sentence about it, and writes that to stderr.
 */
#ifndef COMET_TESTS_MOCK_H
#define COMET_TESTS_MOCK_H

#include <stdint.h>

/* 0, or CUDA_ERROR_INVALID_VALUE for a word that is not known. What is not named stays as it was. */
int mock_cuda_configure(const char *words);

/* Since the library was loaded. */
typedef struct mock_cuda_counts {
    uint64_t launches, allocations, waits, live_bytes, live_objects;
} mock_cuda_counts;

void mock_cuda_count(mock_cuda_counts *counts);

struct ptx_kernel;
struct ptx_count;

/* What was executed of a kernel, over all its launches while count=1. */
typedef struct mock_kernel_counts {
    const struct ptx_kernel *kernel;
    const struct ptx_count *counts; /* one for each operation */
    uint64_t launches, groups, sectors_read, sectors_written;
} mock_kernel_counts;

/* 0, or CUDA_ERROR_NOT_FOUND where no function of this name that has run is there. It stays until its module goes. */
int mock_cuda_kernel_counts(const char *name, mock_kernel_counts *out);

#endif
