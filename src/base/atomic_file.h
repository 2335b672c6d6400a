/*
 * Files that take their name only when they are whole and on the disk. What stood under the name before stays until then,
 * whatever happens: a full disk, a kill, a power cut.
 */
#ifndef COMET_BASE_ATOMIC_FILE_H
#define COMET_BASE_ATOMIC_FILE_H

#include <stdint.h>

#include "comet/base.h"

typedef struct atomic_file {
    int fd;
    char *path, *temporary;        /* the final name, and that of a temporary file beside it (base/temporary.h) */
    uint64_t n_written, n_started; /* bytes appended, and how many of them the system was told to bring to the disk */
} atomic_file;

/* Opens a temporary file; what killed processes left for the same path is removed. */
comet_status atomic_file_begin(atomic_file *file, const char *path);

/* Appends, waiting for the disk now and then so that the commit need not for long, or writes over what was written at `offset`
 * before. */
comet_status atomic_file_write(atomic_file *file, const void *data, size_t bytes);
comet_status atomic_file_patch(atomic_file *file, uint64_t offset, const void *data, size_t bytes);

/* Brings the contents to the disk, renames the file to its path, and brings the folder to the disk. A file that is replaced
 * gives its mode to the new one; else the umask decides. With `keep` the replaced file is then found under that path; at every
 * instant there is a whole file under one of the two names. Frees *file, also after a failure. */
comet_status atomic_file_commit(atomic_file *file, const char *keep);

/* The same for a file that must be new: fails if there is a file of that name by now. */
comet_status atomic_file_commit_new(atomic_file *file);

/* Removes the temporary file. Nothing happens after a commit. */
void atomic_file_abandon(atomic_file *file);

/* Writes all bytes to a descriptor, in as many calls as it takes. Returns 0, or -1 with errno. */
int comet_write_all(int fd, const void *data, size_t bytes);

#endif
