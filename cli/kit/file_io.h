/*
 * Whole files in and out.
 *
 * Output is all or nothing: it is written under a temporary name in the same folder, brought to the disk and takes its name at
 * the end, so a full disk, an interrupt or a power cut leaves what was there before. A file that is replaced keeps its mode.
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

/* Reads all of `path`, however much that is: what does not fit memory is CLI_NO_MEMORY. */
cli_exit file_read(const char *path, blob *contents);

/* The same for what cannot be long, such as the description of a net: CLI_BAD_INPUT where there are more than `most` bytes. */
enum { NET_FILE_BYTES = 16 << 20 };
cli_exit file_read_small(const char *path, size_t most, blob *contents);
void blob_free(blob *contents);

/* Says early whether file_write would refuse `path`: it exists and `force` is false, it is a folder, or a terminal. */
cli_exit file_check_output(const char *path, bool force);

/* Refuses an output that is the input file, by whatever path: the original would be gone. */
cli_exit file_check_distinct(const char *input, const char *output);

typedef struct piece {
    const void *data;
    size_t bytes;
} piece;

/* Writes the pieces one after another as the file `path`. */
cli_exit file_write(const char *path, bool force, const piece *pieces, size_t n_pieces);

bool file_is_standard_stream(const char *path);

#endif
