/* Frames: made from tensors, read from files, decoded. */
#ifndef COMET_CLI_FRAMEIO_H
#define COMET_CLI_FRAMEIO_H

#include "comet/codec.h"
#include "kit/file_io.h"
#include "kit/setters.h"

/* Compresses into a fresh buffer; frame->bytes is the frame's length. stats may be NULL. */
cli_exit frame_encode(const comet_tensor *tensor, const comet_params *params, const void *data, size_t n_threads,
                      const char *subject, blob *frame, comet_stats *stats);

typedef struct loaded_frame {
    blob file;
    comet_frame_info info;
} loaded_frame;

/* Reads a file that must hold exactly one whole frame. */
cli_exit frame_load(const char *path, loaded_frame *frame);
void frame_free(loaded_frame *frame);

/* Decodes the given chunks, or all where no range is given, into a fresh buffer. */
cli_exit frame_decode(const loaded_frame *frame, const char *path, size_t n_threads, range_arg chunks, blob *decoded);

#endif
