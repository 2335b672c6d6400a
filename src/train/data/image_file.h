/* Single files with images, prepared for a net. */
#ifndef COMET_TRAIN_DATA_IMAGE_FILE_H
#define COMET_TRAIN_DATA_IMAGE_FILE_H

#include "train/data/preparation.h"

/* A file with images: one picture, or an array of NumPy, N,C,H,W, N,H,W or C,H,W. */
typedef struct image_file image_file;

/* Opens arrays; pictures are opened when they are read. The name decides: arrays end in .npy. */
comet_status image_file_open(image_file **file, const char *path, const preparation *p);
void image_file_close(image_file *file);
bool image_file_is_array(const image_file *file);
uint64_t image_file_rows(const image_file *file);

/* One image as channels x height x width floats. Any number of threads, each with a scratch and a `colours` of its own. */
comet_status image_file_read(const image_file *file, uint64_t row, const preparation *p, scratch *s, comet_buffer *colours,
                             float *image);

#endif
