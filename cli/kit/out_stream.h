/*
 * Results that are written as they come, to standard output or to a file. As in file_io.h a file is all or nothing: it gets its
 * name when out_close is told that all went well, and a signal that ends the program removes what there is.
 */
#ifndef COMET_CLI_OUT_STREAM_H
#define COMET_CLI_OUT_STREAM_H

#include <stdbool.h>
#include <stdio.h>

#include "base/atomic_file.h"
#include "kit/say.h"

typedef struct out_stream {
    FILE *stream; /* for the caller to write to */
    const char *path;
    bool force, is_file;
    atomic_file file;
    char *guarded; /* a copy of the temporary name */
} out_stream;

/* `path` NULL or "-": standard output. Without `force` a file that exists is refused. The path is kept, not copied. */
cli_exit out_open(out_stream *out, const char *path, bool force);

/* Completes the file where `code` is CLI_OK, else removes it. Returns `code`, or what went wrong. */
cli_exit out_close(out_stream *out, cli_exit code);

#endif
