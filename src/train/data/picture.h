/*
 * JPEG and PNG files to RGB pixels. The first bytes tell which it is, not the name: the best known data sets have a few files
 * with the wrong one.
 *
 * A decoder first reads the size, asks the request's rule which box of the picture is needed, and then decodes at least that
 * box, at no smaller a size than the box is scaled to.
 */
#ifndef COMET_TRAIN_DATA_PICTURE_H
#define COMET_TRAIN_DATA_PICTURE_H

#include "base/memory.h"
#include "train/data/crop.h"

enum { PICTURE_CHANNELS = 3, MAX_PIXELS = 100000000, NAME_BYTES = 300 };

typedef struct picture_request {
    const char *name; /* of the file, for sentences */
    const uint8_t *file;
    size_t bytes;
    crop_rule crop;
    comet_buffer *pixels; /* grows as needed */
} picture_request;

typedef struct picture {
    const uint8_t *pixels; /* rows of RGB, in the request's buffer */
    size_t stride;         /* bytes from row to row */
    uint32_t width, height;
    box wanted; /* in pixels of this picture */
} picture;

/* Broken, truncated and unknown files give COMET_ERROR_CORRUPT or _UNSUPPORTED. */
comet_status picture_decode(picture *p, const picture_request *request);

/* What picture_decode calls. */
comet_status picture_decode_jpeg(picture *p, const picture_request *request);
comet_status picture_decode_png(picture *p, const picture_request *request);

/* Takes memory for the rows of p, whose width and height are set. *room is the place that p->pixels then points to. */
comet_status picture_reserve(picture *p, const picture_request *request, size_t pixel_bytes, uint8_t **room);

/* Fails where a header declares no pixels or too many. */
comet_status picture_check_size(const picture_request *request, uint32_t width, uint32_t height);

#endif
