/* What tells data sets apart, at little cost; see dataset.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/describe.h"
#include "base/status.h"
#include "train/data/dataset.h"
#include "train/data/storage.h"

enum { N_LOOKED_AT = 8, LABELS_AT_ONCE = 1024 };

/* Goes on from `hash` with more bytes. */
static uint64_t hash_more(uint64_t hash, const void *data, size_t bytes)
{
    const uint64_t both[2] = {hash, comet_checksum(data, bytes)};
    return comet_checksum(both, sizeof both);
}

static uint64_t hash_description(const comet_dataset *d)
{
    char text[160];
    const comet_dataset_info *info = &d->info;
    snprintf(text, sizeof text, "%s %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32, info->kind, info->n_images,
             info->channels, info->height, info->width, info->n_classes);
    uint64_t hash = comet_checksum(text, strlen(text));
    for (uint32_t i = 0; i < info->n_classes && d->class_names; i++)
        hash = hash_more(hash, d->class_names[i], strlen(d->class_names[i]));
    return hash;
}

static uint64_t hash_labels(const comet_dataset *d, uint64_t hash)
{
    uint32_t labels[LABELS_AT_ONCE];
    for (uint64_t first = 0; first < d->info.n_images; first += LABELS_AT_ONCE) {
        size_t n = 0;
        for (; n < LABELS_AT_ONCE && first + n < d->info.n_images; n++)
            labels[n] = d->source->label(d, first + n);
        hash = hash_more(hash, labels, n * sizeof *labels);
    }
    return hash;
}

/* Hashes images spread over the whole, the first and the last among them: an image that is added or removed moves those after
 * it. */
static comet_status hash_images(const comet_dataset *d, scratch *memory, float *image, uint64_t *hash)
{
    const size_t bytes = dataset_image_floats(d) * sizeof *image;
    const uint64_t last = d->info.n_images - 1;
    for (uint64_t i = 0; i < N_LOOKED_AT; i++) {
        const comet_status status = dataset_read(d, last * i / (N_LOOKED_AT - 1), NULL, memory, image);
        if (status == COMET_ERROR_MEMORY)
            return status;
        const uint32_t broken = status != COMET_OK;
        *hash = broken ? hash_more(*hash, &broken, sizeof broken) : hash_more(*hash, image, bytes);
    }
    return COMET_OK;
}

/* Goes on from *hash with images. */
static comet_status add_images(const comet_dataset *d, uint64_t *hash)
{
    scratch memory = {.file = {NULL, 0}};
    uint64_t sum = *hash;
    float *image = storage_new(dataset_image_floats(d), sizeof *image);
    if (!image)
        return COMET_ERROR_MEMORY;
    const comet_status status = hash_images(d, &memory, image, &sum);
    if (status == COMET_OK)
        *hash = sum;
    scratch_free(&memory);
    free(image);
    return status;
}

comet_status dataset_fingerprint(const comet_dataset *d, uint64_t *hash)
{
    uint64_t sum = hash_labels(d, hash_description(d));
    TRY(add_images(d, &sum));
    *hash = sum;
    return COMET_OK;
}

void comet_dataset_print_init(comet_dataset_print *print)
{
    *print = (comet_dataset_print){.size = sizeof *print};
}

comet_status comet_dataset_fingerprint(const comet_dataset *d, comet_dataset_print *print)
{
    comet_dataset_print found = {.names = 0};
    TRY(CHECK_SIZE(comet_dataset_print, print));
    found.names = hash_description(d);
    found.labels = hash_labels(d, 0);
    TRY(add_images(d, &found.images));
    return GIVE(comet_dataset_print, print, &found);
}
