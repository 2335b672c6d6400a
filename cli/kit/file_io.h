/*
 * Whole files in and out.
 *
 * Output is all or nothing: it is written under a temporary name in the same folder, synced to the disk and renamed at the end,
 * so that a full disk, an interrupt or a power cut leaves the old file. A file that is replaced keeps its mode.
 * "-" is standard input or output; devices and pipes are written directly.
 */
#ifndef COMET_CLI_FILE_IO_H
#define COMET_CLI_FILE_IO_H

#include <stdbool.h>
#include <stddef.h>

#include "kit/say.h"

typedef struct blob {
    unsigned char *data; /* page-aligned; release with blob_free */
    size_t bytes;
} blob;

/* Reads all of `path`; CLI_NO_MEMORY where it does not fit memory. */
cli_exit file_read(const char *path, blob *contents);

/* Reads a file that should be short, such as the description of a net: CLI_BAD_INPUT where it has more than `most` bytes. */
enum { NET_FILE_BYTES = 16 << 20 };
cli_exit file_read_small(const char *path, size_t most, blob *contents);
void blob_free(blob *contents);

/* Checks before the work whether file_write would refuse `path`: it exists and `force` is false, it is a folder, or a terminal.
 */
cli_exit file_check_output(const char *path, bool force);

/* Refuses an output that is the input file, even under another path: the original would be lost. */
cli_exit file_check_distinct(const char *input, const char *output);

typedef struct piece {
    const void *data;
    size_t bytes;
} piece;

/* Writes the pieces one after another as the file `path`. */
cli_exit file_write(const char *path, bool force, const piece *pieces, size_t n_pieces);

bool file_is_standard_stream(const char *path);

/* A temporary file to remove where a signal ends the program, from now on; NULL: none. One at a time. */
void file_guard(const char *path);

#endif
