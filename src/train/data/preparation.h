/*
 * How images from elsewhere are prepared for a net: as the test part of the data that it was trained on. Weights files carry
 * it as JSON in the metadata key "input":
 *
 *   {"bytes":true,"margin":true,"mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]}
 *
 * A value v becomes (v - mean) / std, channel by channel; with "bytes" v is a byte / 255. Pictures need "bytes" and one channel
 * (grey, by the weights of ITU-R BT.601) or three.
 */
#ifndef COMET_TRAIN_DATA_PREPARATION_H
#define COMET_TRAIN_DATA_PREPARATION_H

#include "train/data/dataset.h"

typedef struct preparation {
    uint32_t channels, height, width; /* of the image that a net takes */
    bool is_bytes, has_margin;
    double *means, *deviations;
} preparation;

/* The JSON of a data set in *text, for free(). */
comet_status preparation_print(const comet_dataset *d, char **text);

/* From the JSON that the file at `path` carries. Where `text` is NULL, what `folder` does to pictures, which is what nets of
 * torchvision expect. */
comet_status preparation_parse(preparation *p, const char *path, const char *text, uint32_t channels, uint32_t height,
                               uint32_t width);
void preparation_free(preparation *p);

#endif
