/* The mock of the CUDA driver for tests of comet::gpu: this process's back end loads it in place of a driver. */
#ifndef COMET_TESTS_MOCK_LIBRARY_H
#define COMET_TESTS_MOCK_LIBRARY_H

#include "gpu/mock/mock.h"

/* Before the first call about CUDA. `library` is the file; `words` as in mock.h. */
void mock_open_library(const char *library, const char *words);
#define mock_open(words) mock_open_library(MOCK_LIBRARY, words)

/* Changes settings; printf's format. */
void mock_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

mock_cuda_counts mock_counts(void);

/* A function of the library, such as cuCtxCreate_v2; *function is set. */
void mock_find(const char *name, void *function);

#endif
