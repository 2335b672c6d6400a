/* Files and memory of data sets. Sentences of failures name the file. */
#ifndef COMET_TRAIN_DATA_STORAGE_H
#define COMET_TRAIN_DATA_STORAGE_H

#include <stdbool.h>

#include "base/memory.h"

/* Longest path, with the closing zero. */
enum { PATH_BYTES = 4096 };

/* Allocates zeroed memory, for free(); NULL with the failure recorded. */
void *storage_new(uint64_t count, size_t item_bytes);

/* FOLDER/NAME; a path too long for the buffer fails. */
comet_status path_join(char path[PATH_BYTES], const char *folder, const char *name);

bool path_exists(const char *path);
bool path_is_folder(const char *path);

/* Opens a regular file to read and tells its length. Anything else, a pipe or a device, is refused at once: opening a pipe
 * would otherwise wait for somebody to write. The descriptor is the caller's to close. */
comet_status file_open(const char *path, int *descriptor, uint64_t *bytes);

/* A whole file, mapped read-only. It must not be cut short while it is in use. A file that is mapped already is not mapped
 * again: both data sets of an array that Comet splits have the same pages, which count once in the resident set. */
typedef struct mapped_file {
    const uint8_t *data;
    size_t bytes;
} mapped_file;

/* An empty file maps to bytes 0. */
comet_status file_map(mapped_file *file, const char *path);
void file_unmap(mapped_file *file);

/* Reads a whole file of at most max_bytes into the buffer, which grows as needed. */
comet_status storage_read_file(const char *path, size_t max_bytes, comet_buffer *buffer, size_t *bytes);

#endif
