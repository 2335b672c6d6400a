/*
 * Files that take their name only when they are whole and on the disk. What stood under the name before stays until then,
 * whatever happens: a full disk, a kill, a power cut.
 */
#ifndef COMET_TRAIN_FILES_ATOMIC_FILE_H
#define COMET_TRAIN_FILES_ATOMIC_FILE_H

#include "comet/base.h"

typedef struct atomic_file {
    int fd;
    char *path, *temporary; /* the final name, and that of a temporary file beside it (base/temporary.h) */
} atomic_file;

/* Opens a temporary file; what killed processes left for the same path is removed. */
comet_status atomic_file_begin(atomic_file *file, const char *path);

/* Appends, or writes over what was written at `offset` before. */
comet_status atomic_file_write(atomic_file *file, const void *data, size_t bytes);
comet_status atomic_file_patch(atomic_file *file, uint64_t offset, const void *data, size_t bytes);

/* Brings the contents to the disk, renames, brings the folder to the disk. The mode is that of the file that is replaced; a new
 * one follows the umask. With `keep` the file that had the name before is
 * afterwards found under that path; at every instant there is a whole file under one of both names. Frees *file either way. */
comet_status atomic_file_commit(atomic_file *file, const char *keep);

/* Removes the temporary file. Nothing happens after a commit. */
void atomic_file_abandon(atomic_file *file);

#endif
