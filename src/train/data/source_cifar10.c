/*
 * cifar10:DIR, the binary version (Krizhevsky 2009): data_batch_1.bin to data_batch_5.bin and test_batch.bin, records of a
 * label byte and 32 x 32 bytes of red, green and blue. The files stay mapped. Images are augmented by a shift of up to 4 pixels
 * over black and by mirroring.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "train/data/byte_image.h"
#include "train/data/dataset.h"
#include "train/data/storage.h"

enum {
    N_CHANNELS = 3,
    SIDE = 32,
    PLANE = SIDE * SIDE,
    RECORD = 1 + N_CHANNELS * PLANE,
    N_CLASSES = 10,
    MAX_FILES = 5,
    SHIFT = 4
};

static const char *const class_names[N_CLASSES] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                   "dog",      "frog",       "horse", "ship", "truck"};
static const double means[N_CHANNELS] = {0.4914, 0.4822, 0.4465}, stds[N_CHANNELS] = {0.2470, 0.2435, 0.2616};

typedef struct cifar10 {
    mapped_file files[MAX_FILES];
    unsigned n_files;
    byte_table tables[N_CHANNELS];
} cifar10;

/* Every label of the file is looked at, so that reading cannot fail later. */
static comet_status check_records(const mapped_file *file, const char *path)
{
    if (file->bytes == 0 || file->bytes % RECORD != 0)
        return comet_fail(
            COMET_ERROR_CORRUPT,
            "%s: %zu bytes are not a whole number of records of %d bytes (label and image); fetch the file again, "
            "and the binary version (cifar-10-binary.tar.gz)",
            path, file->bytes, RECORD);
    for (size_t i = 0; i < file->bytes / RECORD; i++)
        if (file->data[i * RECORD] >= N_CLASSES)
            return comet_fail(COMET_ERROR_CORRUPT,
                              "%s: label %u of record %zu is out of range 0 to %d; is this CIFAR-10's binary version?", path,
                              file->data[i * RECORD], i, N_CLASSES - 1);
    return COMET_OK;
}

/* A missing file that is there compressed gets a sentence of its own. */
static comet_status explain_missing(const char *folder, const char *path)
{
    char packed[PATH_BYTES + 4];
    snprintf(packed, sizeof packed, "%s.xz", path);
    if (path_exists(packed))
        return comet_fail(COMET_ERROR_IO, "%s is compressed; unpack with: xz -dk %s/*.xz", packed, folder);
    return comet_fail(COMET_ERROR_IO,
                      "%s was not found; DIR of cifar10:DIR is the folder that cifar-10-binary.tar.gz unpacks to, with "
                      "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
                      path);
}

static comet_status open_file(comet_dataset *d, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    cifar10 *c = d->state;
    comet_status status = path_join(path, folder, name);
    if (status != COMET_OK)
        return status;
    if (!path_exists(path))
        return explain_missing(folder, path);
    mapped_file *file = &c->files[c->n_files];
    status = file_map(file, path);
    if (status != COMET_OK)
        return status;
    c->n_files++;
    d->bytes += file->bytes;
    d->mapped += file->bytes;
    d->info.n_images += file->bytes / RECORD;
    return check_records(file, path);
}

static comet_status cifar10_open(comet_dataset *d, const char *where)
{
    cifar10 *c = d->state = storage_new(1, sizeof *c);
    if (!c)
        return COMET_ERROR_MEMORY;
    d->info.channels = N_CHANNELS;
    d->info.height = d->info.width = SIDE;
    d->info.n_classes = N_CLASSES;
    d->class_names = class_names;
    d->preparation = (preparation_rule){.means = means, .deviations = stds, .is_bytes = true};
    d->bytes = sizeof *c;
    for (int i = 0; i < N_CHANNELS; i++)
        c->tables[i] = byte_table_make(means[i], stds[i]);
    d->tables = c->tables;
    if (d->params.split == COMET_SPLIT_TEST)
        return open_file(d, where, "test_batch.bin");
    comet_status status = COMET_OK;
    for (int i = 1; i <= MAX_FILES && status == COMET_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        status = open_file(d, where, name);
    }
    return status;
}

/* Label and pixels of an image. */
static const uint8_t *record_of(const comet_dataset *d, uint64_t index)
{
    const cifar10 *c = d->state;
    const mapped_file *file = c->files;
    for (; index >= file->bytes / RECORD; file++)
        index -= file->bytes / RECORD;
    return file->data + index * RECORD;
}

static uint32_t cifar10_label(const comet_dataset *d, uint64_t index)
{
    return record_of(d, index)[0];
}

static comet_status cifar10_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    (void)s;
    uint8_t *planes = row;
    const uint8_t *record = record_of(d, index);
    placement place = {0};
    if (random) {
        place.dx = (int)comet_random_below(random, 2 * SHIFT + 1) - SHIFT;
        place.dy = (int)comet_random_below(random, 2 * SHIFT + 1) - SHIFT;
        place.flip = comet_random_below(random, 2) == 1;
    }
    for (size_t i = 0; i < N_CHANNELS; i++)
        byte_plane_place(record + 1 + i * PLANE, SIDE, SIDE, place, planes + i * PLANE);
    return COMET_OK;
}

static void cifar10_close(comet_dataset *d)
{
    cifar10 *c = d->state;
    for (unsigned i = 0; c && i < c->n_files; i++)
        file_unmap(&c->files[i]);
    free(c);
}

const dataset_source source_cifar10 = {"cifar10", cifar10_open, cifar10_read, cifar10_label, cifar10_close};
