/*
 * The inside of a data set: a source's functions, the description of the data that they gave, and their state. After opening
 * nothing changes, so that any number of threads may read images at once.
 */
#ifndef COMET_TRAIN_DATA_DATASET_H
#define COMET_TRAIN_DATA_DATASET_H

#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "comet/data.h"
#include "train/data/byte_image.h"
#include "train/data/storage.h"

/* Threads of a loader unless it is told otherwise, where there are as many cores. */
enum { LOADER_THREADS = 4 };

/* Positions and indices have 32 bits in the random numbers. */
#define MAX_IMAGES ((uint64_t)UINT32_MAX)
enum { MAX_SIDE = 16384, MAX_CLASSES = 1000000, MAX_SHARED = 2 };

/* Memory of one reading thread; grows as needed, kept from image to image. */
typedef struct scratch {
    comet_buffer file, pixels, taps, row;
} scratch;

uint64_t scratch_bytes(const scratch *s);
void scratch_free(scratch *s);

typedef struct dataset_source {
    const char *kind;
    /* Fills info (all but kind), class_names, bytes and state for the split in d->params. Called once; after a failure, close
     * is called all the same. */
    comet_status (*open)(comet_dataset *d, const char *where);
    /* Writes image `index` as channels x height x width elements, augmented where `random` is not NULL: bytes where the data
     * set has tables, else normalised floats. Broken files give COMET_ERROR_CORRUPT, _UNSUPPORTED or _IO and a sentence that
     * names the file. */
    comet_status (*read)(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row);
    uint32_t (*label)(const comet_dataset *d, uint64_t index);
    void (*close)(comet_dataset *d);
} dataset_source;

/* What becomes of the values of an image, augmentation apart: (value - mean) / deviation, channel by channel. */
typedef struct preparation_rule {
    const double *means, *deviations; /* info.channels of each, the source's own; of bytes / 255 where is_bytes is set */
    bool is_bytes;                    /* values are bytes: 0 is black, 255 white */
    bool has_margin;                  /* pictures are scaled to 256 / 224 of the side before the middle is taken */
} preparation_rule;

struct comet_dataset {
    const dataset_source *source;
    comet_dataset_params params;
    comet_dataset_info info;
    const char *const *class_names; /* info.n_classes of them, or NULL */
    preparation_rule preparation;   /* set by the source's open */
    const byte_table *tables;       /* by channel: what each byte of a row becomes; NULL: rows are floats already */
    uint64_t bytes;                 /* memory held or mapped */
    uint64_t mapped;                /* of them, in mapped files */
    mapped_file shared[MAX_SHARED]; /* of these, those that the data set of the other split may have too */
    uint64_t reading_bytes;         /* that a thread which reads takes at most, as a rule */
    void *state;                    /* the source's own */
};

extern const dataset_source source_cifar10, source_idx, source_fashion, source_npy, source_folder, source_synthetic;

/* A hash that tells data sets apart: kind, shape, names of classes, every label, and the pixels of a few images. A picture that
 * cannot be read counts as such. */
comet_status dataset_fingerprint(const comet_dataset *d, uint64_t *hash);

/* Threads of a loader that was asked for so many; 0: the default. */
static inline uint32_t loader_threads(uint32_t asked)
{
    const size_t cores = comet_cores();
    return asked > 0 ? asked : cores < LOADER_THREADS ? (uint32_t)cores : LOADER_THREADS;
}

/* Batches that a loader with such a queue (0: auto) prepares at most, beside the one that its caller holds. */
static inline uint32_t loader_batches(uint32_t queue)
{
    return queue > 0 ? queue : COMET_LOADER_QUEUE;
}

/* Numbers of one image. */
static inline size_t dataset_image_floats(const comet_dataset *d)
{
    return (size_t)d->info.channels * d->info.height * d->info.width;
}

/* Bytes of one image as `read` writes it. */
static inline size_t dataset_row_bytes(const comet_dataset *d)
{
    return dataset_image_floats(d) * (d->tables ? 1 : sizeof(float));
}

/* Memory that both data sets, either of which may be NULL, have together: files that both map count once. Without `mapped`,
 * mapped files do not count. */
uint64_t dataset_bytes_together(const comet_dataset *a, const comet_dataset *b, bool mapped);

/* Rows that are bytes to normalised floats, `n` images. */
void dataset_normalise(const comet_dataset *d, const uint8_t *rows, uint64_t n, float *images);

/* Image `index` as normalised floats, whatever its rows are. */
comet_status dataset_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, float *image);

#endif
