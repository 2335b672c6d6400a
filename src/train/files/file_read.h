/* Opening and reading files of models, for the readers of all formats. */
#ifndef COMET_TRAIN_FILES_FILE_READ_H
#define COMET_TRAIN_FILES_FILE_READ_H

#include "comet/base.h"

/* Opens a regular file for reading. COMET_ERROR_IO where that fails or it is something else; *fd is then -1. */
comet_status file_open_regular(const char *path, int *fd, uint64_t *bytes);

/* All `bytes` at `offset`; COMET_ERROR_CORRUPT where the file ends before. `path` is for the sentences. */
comet_status file_read_at(int fd, const char *path, uint64_t offset, void *to, size_t bytes);

#endif
