/* A box of a picture brought to size. */
#ifndef COMET_TRAIN_DATA_RESAMPLE_H
#define COMET_TRAIN_DATA_RESAMPLE_H

#include "train/data/picture.h"

typedef struct resample_target {
    uint32_t side;
    bool flip;       /* mirrored left to right */
    uint8_t *planes; /* PICTURE_CHANNELS x side x side */
} resample_target;

/* Bilinear where the box grows; a triangle as wide as two pixels of the result where it shrinks, so that nothing is skipped
 * (the antialiased filter of Pillow and torchvision). Pixels outside of the box are not used. Rounded to the nearest byte at
 * the end. `memory` grows as needed. */
comet_status resample(const picture *p, const resample_target *target, comet_buffer *memory);

#endif
