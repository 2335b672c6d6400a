/* Which box of a picture becomes an image. */
#ifndef COMET_TRAIN_DATA_CROP_H
#define COMET_TRAIN_DATA_CROP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

typedef struct box {
    double x, y, width, height; /* in pixels, from the upper left corner */
} box;

typedef struct crop_rule {
    comet_random *random; /* NULL: the middle */
    uint32_t side;        /* pixels of the image that the box becomes */
    bool no_margin;       /* without random numbers: all of the middle square */
} crop_rule;

/* With random numbers: 8 to 100 % of the area, sides in a ratio of 3/4 to 4/3 (Szegedy et al. 2015, as torchvision's
 * RandomResizedCrop). Without: the middle square after the picture is scaled so that its short side is side * 256 / 224,
 * or the middle square as it is. */
box crop_choose(const crop_rule *rule, uint32_t width, uint32_t height);

#endif
