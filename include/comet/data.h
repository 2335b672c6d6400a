/*
 * Images and labels: data sets, and a loader that decodes and augments ahead of training.
 *
 *   comet_dataset_open, _close     "cifar10:DIR", "idx:DIR", "fashion", "folder:DIR", "npy:X,Y", "synthetic"
 *   comet_dataset_describe, _class images, classes, shape; names of classes
 *   comet_loader_create, _destroy  threads that fill batches into a bounded queue
 *   comet_loader_next, _release    the next batch, and giving it back
 *   comet_loader_describe          batches given, images skipped, time waited
 *
 * The order of images and every augmentation are functions of (seed, epoch, position) alone, so that batches are the same bits
 * whatever the number of threads and however slow the disk, and a loader started in the middle gives what the first one would
 * have given.
 */
#ifndef COMET_DATA_H
#define COMET_DATA_H

#include <stdbool.h>

#include "comet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct comet_dataset comet_dataset;
typedef struct comet_loader comet_loader;

typedef enum comet_split {
    COMET_SPLIT_TRAIN = 0,
    COMET_SPLIT_TEST = 1,
} comet_split;

typedef struct comet_dataset_params {
    size_t size;
    comet_split split;
    uint32_t image;    /* folder, synthetic: side in pixels of what the loader gives; 0: 224 for folder, 32 for synthetic */
    uint32_t channels; /* synthetic: 0 means 3 */
    uint32_t classes;  /* synthetic: 0 means 10 */
    uint64_t n_images; /* synthetic: images in the split; 0 means 50000 / 10000 */
    uint64_t seed;     /* synthetic: chooses the textures; npy and folder without a test part: chooses the images to hold out */
    bool strict;       /* a broken image is an error instead of being skipped and counted */
} comet_dataset_params;

COMET_API void comet_dataset_params_init(comet_dataset_params *params);

/* Opens one split of the data that `spec` names; docs/data.md has the forms. The sentence of a failure names the file, the
 * field and the fix. */
COMET_API comet_status comet_dataset_open(comet_dataset **dataset, const char *spec, const comet_dataset_params *params);
COMET_API void comet_dataset_close(comet_dataset *dataset);

typedef struct comet_dataset_info {
    size_t size;
    uint64_t n_images;
    uint32_t channels, height, width; /* of an image as the loader gives it */
    uint32_t n_classes;
    bool crops;       /* augmented by random resized crops (folder), else by padding, shift and flip (cifar10) or not at all */
    const char *kind; /* "cifar10", "idx" (fashion too), "folder", "npy", "synthetic"; valid as long as the data set */
} comet_dataset_info;

COMET_API void comet_dataset_info_init(comet_dataset_info *info);
/* Any thread. COMET_ERROR_ARGUMENT unless *info was initialised. */
COMET_API comet_status comet_dataset_describe(const comet_dataset *dataset, comet_dataset_info *info);

/* Hashes that tell data sets apart, at little cost: of the kind of data, its sizes and names of classes; of every label; of the
 * pixels of 8 images, the first and the last among them. An image that cannot be read counts as such. */
typedef struct comet_dataset_print {
    size_t size;
    uint64_t names, labels, images;
} comet_dataset_print;
COMET_API void comet_dataset_print_init(comet_dataset_print *print);
/* Reads 8 images. Any thread. COMET_ERROR_MEMORY, and COMET_ERROR_ARGUMENT unless *print was initialised. */
COMET_API comet_status comet_dataset_fingerprint(const comet_dataset *dataset, comet_dataset_print *print);

/* Name of a class, or NULL where the data has none. Valid as long as the data set. */
COMET_API const char *comet_dataset_class(const comet_dataset *dataset, uint32_t label);

/* Batches that a loader prepares at most, beside the one in use, unless it is told otherwise. */
#define COMET_LOADER_QUEUE 3
/* The most that it may be told. */
#define COMET_LOADER_MAX_QUEUE 4096

typedef struct comet_loader_params {
    size_t size;
    uint32_t batch;
    uint32_t n_threads;   /* threads that decode; 0: one per core, at most 4 */
    uint32_t queue;       /* batches that are prepared beside the one in use; 0: as many as spare the caller waits, at most
                           * COMET_LOADER_QUEUE */
    uint32_t first_queue; /* with queue 0: so many at first; 0: one. An earlier loader's stats tell what it came to */
    uint64_t seed;
    bool shuffle;   /* a new order each epoch; an incomplete last batch (of all ranks) is dropped */
    bool augment;   /* random crops, shifts and flips, as far as the kind of data has them */
    bool endless;   /* after the last epoch comes the next; else comet_loader_next ends after one epoch */
    uint64_t epoch; /* where to begin */
    uint64_t batch_in_epoch;
    uint32_t rank, n_ranks; /* of n_ranks loaders that share out each batch of n_ranks x batch rows, the one that gives rows
                             * from rank x batch on; 0 ranks: one. Together they give the bits of one loader of all rows */
} comet_loader_params;

COMET_API void comet_loader_params_init(comet_loader_params *params);

/* Images of bytes (cifar10, idx, folder, npy of u8) are prepared as bytes, a quarter of the memory, and normalised when they
 * are handed out. `images` is batch x channels x height x width, float32, normalised; rows from n_valid on are zero (only in
 * the last batch of an unshuffled epoch, where a rank may have no valid row). Labels of those rows are 0. The struct is settled
 * and has no size. */
typedef struct comet_batch {
    const float *images;
    const uint32_t *labels;
    uint32_t n_valid;
    uint64_t epoch, batch_in_epoch; /* which batch this is */
} comet_batch;

/* The loader borrows the data set, which must outlive it; several loaders may share one. A loader serves one thread at a time.
 * A batch_in_epoch equal to comet_loader_batches means the first batch of the next epoch. */
COMET_API comet_status comet_loader_create(comet_loader **loader, comet_dataset *dataset, const comet_loader_params *params);
/* Stops the threads, even in the middle of a batch. */
COMET_API void comet_loader_destroy(comet_loader *loader);

/* Batches in an epoch, the same for each of several ranks. */
COMET_API uint64_t comet_loader_batches(const comet_loader *loader);

/* Waits for the next batch in order; *batch stays valid until comet_loader_release, and up to queue + 1 batches may be held at
 * once (COMET_LOADER_QUEUE + 1 where queue is 0). *end becomes true, and no batch is given, after the last one. With `strict`,
 * a broken image fails here and names the file; so does every later call. */
COMET_API comet_status comet_loader_next(comet_loader *loader, comet_batch *batch, bool *end);
COMET_API void comet_loader_release(comet_loader *loader, const comet_batch *batch);

/* Figures since creation. A skipped image is replaced by the next readable one of the same data set, so that batches stay full.
 * Skipped images count with the batch they belong to, once it was given. */
typedef struct comet_loader_stats {
    size_t size;
    uint64_t n_batches, n_skipped;
    double wait_seconds;     /* time that comet_loader_next waited for a batch: the loader was too slow */
    double decode_seconds;   /* summed over all threads */
    uint64_t bytes;          /* memory of the queue, of the threads and of the data set, mapped files in full */
    char first_skipped[256]; /* file name and reason of the first broken image, or "" */
    uint32_t queue;          /* batches that are prepared beside the one in use, now */
} comet_loader_stats;

COMET_API void comet_loader_stats_init(comet_loader_stats *stats);
/* Any thread. COMET_ERROR_ARGUMENT unless *stats was initialised. */
COMET_API comet_status comet_loader_describe(const comet_loader *loader, comet_loader_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
