/* Images kept as bytes, one plane a channel: laid out anew while they stay bytes, and bytes to normalised floats. */
#ifndef COMET_TRAIN_DATA_BYTE_IMAGE_H
#define COMET_TRAIN_DATA_BYTE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What each value of a byte becomes: (v / 255 - mean) / std. */
typedef struct byte_table {
    float of[256];
} byte_table;

byte_table byte_table_make(double mean, double std);

/* How an image is laid onto one of its own size: moved by (dx, dy), black where nothing is, then mirrored. */
typedef struct placement {
    int dx, dy;
    bool flip;
} placement;

void byte_plane_place(const uint8_t *from, uint32_t height, uint32_t width, placement place, uint8_t *to);

/* n bytes of one channel to floats. */
void byte_plane_normalise(const uint8_t *restrict from, size_t n, const byte_table *restrict table, float *restrict to);

#endif
