/*
 * idx:DIR, the files of MNIST and its kin, plain or gzip'ed: train-images-idx3-ubyte, train-labels-idx1-ubyte and the same with
 * t10k for the test part. A file is a header of big-endian numbers (magic, count, and for images height and width), then bytes.
 * Images are held unpacked in memory as bytes, and normalised by mean and standard deviation of the training images. `fashion`
 * is the same in the folder where Debian's package dataset-fashion-mnist puts it, with names for its classes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/status.h"
#include "train/data/byte_image.h"
#include "train/data/dataset.h"
#include "train/data/storage.h"

#define FASHION_FOLDER "/usr/share/datasets/fashion-mnist"

enum {
    IMAGES_MAGIC = 0x803,
    LABELS_MAGIC = 0x801,
    MAX_INFLATION = 1032, /* bytes that one byte of deflate can become */
    PIECE = 1 << 24,
};

static const char *const fashion_names[] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
enum { N_FASHION = sizeof fashion_names / sizeof fashion_names[0] };

/* One file, unpacked. */
typedef struct idx_file {
    char path[PATH_BYTES];
    uint32_t count, height, width; /* 1 x 1 for labels */
    uint8_t *data;
    uint64_t bytes;
} idx_file;

typedef struct idx {
    idx_file images, labels;
    byte_table table;
    double mean, deviation; /* of the training images' bytes / 255 */
} idx;

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* FOLDER/NAME or FOLDER/NAME.gz, whichever is there. */
static comet_status find_file(idx_file *file, const char *folder, const char *name)
{
    char packed[64];
    comet_status status = path_join(file->path, folder, name);
    if (status != COMET_OK || path_exists(file->path))
        return status;
    snprintf(packed, sizeof packed, "%s.gz", name);
    status = path_join(file->path, folder, packed);
    if (status != COMET_OK || path_exists(file->path))
        return status;
    return comet_fail(COMET_ERROR_IO,
                      "%s/%s was not found, nor was it with .gz; DIR of idx:DIR is the folder of the four files", folder, name);
}

/* Reads exactly `bytes` bytes. */
static comet_status read_exactly(gzFile stream, const char *path, uint8_t *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        const unsigned piece = bytes - at < PIECE ? (unsigned)(bytes - at) : PIECE;
        const int n = gzread(stream, data + at, piece);
        int code = Z_OK;
        const char *why = gzerror(stream, &code);
        if (n < 0)
            return comet_fail(COMET_ERROR_CORRUPT, "%s: it cannot be unpacked (%s); fetch it again", path, why);
        if (n == 0)
            return comet_fail(COMET_ERROR_CORRUPT,
                              "%s: truncated: it ends after %llu of the %llu bytes that its header "
                              "declares; fetch it again",
                              path, (unsigned long long)at, (unsigned long long)bytes);
        at += (uint64_t)n;
    }
    return COMET_OK;
}

static comet_status read_header(gzFile stream, idx_file *file, uint32_t magic)
{
    uint8_t header[16];
    const unsigned header_bytes = magic == IMAGES_MAGIC ? 16 : 8;
    const comet_status status = read_exactly(stream, file->path, header, header_bytes);
    if (status != COMET_OK)
        return status;
    if (big_endian(header) != magic)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: magic number 0x%08x instead of 0x%08x; this is not an IDX file of %s bytes",
                          file->path, big_endian(header), magic, magic == IMAGES_MAGIC ? "images, three axes of" : "labels,");
    file->count = big_endian(header + 4);
    file->height = file->width = 1;
    if (magic == IMAGES_MAGIC) {
        file->height = big_endian(header + 8);
        file->width = big_endian(header + 12);
    }
    if (file->count == 0 || file->height == 0 || file->width == 0 || file->height > MAX_SIDE || file->width > MAX_SIDE)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: its header declares %u items of %u x %u; sides of 1 to %d are possible",
                          file->path, file->count, file->height, file->width, MAX_SIDE);
    file->bytes = (uint64_t)file->count * file->height * file->width;
    return COMET_OK;
}

/* Can a file of this length hold what the header says, however well it is packed? This is checked before memory is
 * allocated. */
static comet_status check_possible(const idx_file *file, uint64_t length)
{
    if (file->bytes > (length + 64) * MAX_INFLATION)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: truncated: its header declares %llu bytes, which %llu cannot hold",
                          file->path, (unsigned long long)file->bytes, (unsigned long long)length);
    return COMET_OK;
}

static comet_status read_body(gzFile stream, idx_file *file)
{
    uint8_t more;
    file->data = storage_new(file->bytes, 1);
    if (!file->data)
        return COMET_ERROR_MEMORY;
    const comet_status status = read_exactly(stream, file->path, file->data, file->bytes);
    if (status != COMET_OK)
        return status;
    const int n = gzread(stream, &more, 1); /* this checks gzip's checksum, too */
    if (n != 0)
        return comet_fail(COMET_ERROR_CORRUPT,
                          n < 0 ? "%s: its checksum does not match; fetch it again"
                                : "%s: longer than its header declares; fetch it again",
                          file->path);
    return COMET_OK;
}

/* zlib reads plain files too. */
static comet_status open_stream(const char *path, gzFile *stream, uint64_t *length)
{
    int descriptor = -1;
    const comet_status status = file_open(path, &descriptor, length);
    if (status != COMET_OK)
        return status;
    *stream = gzdopen(descriptor, "rb");
    if (!*stream) {
        close(descriptor);
        return comet_fail(COMET_ERROR_MEMORY, "%s: out of memory: zlib could not start", path);
    }
    gzbuffer(*stream, 1 << 17);
    return COMET_OK;
}

static comet_status load_file(idx_file *file, const char *folder, const char *name, uint32_t magic)
{
    gzFile stream = NULL;
    uint64_t length = 0;
    comet_status status = find_file(file, folder, name);
    if (status == COMET_OK)
        status = open_stream(file->path, &stream, &length);
    if (status != COMET_OK)
        return status;
    status = read_header(stream, file, magic);
    if (status == COMET_OK)
        status = check_possible(file, length);
    if (status == COMET_OK)
        status = read_body(stream, file);
    gzclose(stream);
    return status;
}

static void free_file(idx_file *file)
{
    free(file->data);
    file->data = NULL;
}

/* Classes are what the training labels have; labels of `labels` must be among them. */
static comet_status check_labels(const idx_file *images, const idx_file *labels, uint32_t n_classes)
{
    if (images->count != labels->count)
        return comet_fail(COMET_ERROR_CORRUPT, "%s has %u labels, but %s has %u images; fetch both again", labels->path,
                          labels->count, images->path, images->count);
    for (uint64_t i = 0; i < labels->bytes; i++)
        if (labels->data[i] >= n_classes)
            return comet_fail(COMET_ERROR_CORRUPT, "%s: label %u of image %llu is out of range 0 to %u of the training labels",
                              labels->path, labels->data[i], (unsigned long long)i, n_classes - 1);
    return COMET_OK;
}

static uint32_t count_classes(const idx_file *labels)
{
    uint32_t highest = 0;
    for (uint64_t i = 0; i < labels->bytes; i++)
        if (labels->data[i] > highest)
            highest = labels->data[i];
    return highest + 1;
}

/* Sets x->mean and x->deviation to those of x->images. */
static void measure(idx *x)
{
    const idx_file *images = &x->images;
    uint64_t counts[256] = {0};
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < images->bytes; i++)
        counts[images->data[i]]++;
    for (int v = 0; v < 256; v++)
        sum += (double)counts[v] * (v / 255.0);
    const double mean = x->mean = sum / (double)images->bytes;
    for (int v = 0; v < 256; v++)
        squares += (double)counts[v] * (v / 255.0 - mean) * (v / 255.0 - mean);
    const double std = sqrt(squares / (double)images->bytes);
    x->deviation = std > 0 ? std : 1;
}

/* Opening the test part needs the training part, too, for its classes and statistics. */
static comet_status open_test(idx *x, const char *where, uint32_t n_classes)
{
    free_file(&x->images);
    free_file(&x->labels);
    const uint32_t height = x->images.height, width = x->images.width;
    comet_status status = load_file(&x->images, where, "t10k-images-idx3-ubyte", IMAGES_MAGIC);
    if (status == COMET_OK)
        status = load_file(&x->labels, where, "t10k-labels-idx1-ubyte", LABELS_MAGIC);
    if (status != COMET_OK)
        return status;
    if (x->images.height != height || x->images.width != width)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: images of %u x %u, but those to train on have %u x %u", x->images.path,
                          x->images.height, x->images.width, height, width);
    return check_labels(&x->images, &x->labels, n_classes);
}

static comet_status idx_open(comet_dataset *d, const char *where)
{
    idx *x = d->state = storage_new(1, sizeof *x);
    if (!x)
        return COMET_ERROR_MEMORY;
    comet_status status = load_file(&x->images, where, "train-images-idx3-ubyte", IMAGES_MAGIC);
    if (status == COMET_OK)
        status = load_file(&x->labels, where, "train-labels-idx1-ubyte", LABELS_MAGIC);
    if (status != COMET_OK)
        return status;
    const uint32_t n_classes = count_classes(&x->labels);
    status = check_labels(&x->images, &x->labels, n_classes);
    if (status == COMET_OK) {
        measure(x);
        x->table = byte_table_make(x->mean, x->deviation);
        d->preparation = (preparation_rule){.means = &x->mean, .deviations = &x->deviation, .is_bytes = true};
        d->tables = &x->table;
        if (d->params.split == COMET_SPLIT_TEST)
            status = open_test(x, where, n_classes);
    }
    d->info.n_images = x->images.count;
    d->info.channels = 1;
    d->info.height = x->images.height;
    d->info.width = x->images.width;
    d->info.n_classes = n_classes;
    d->bytes = sizeof *x + x->images.bytes + x->labels.bytes;
    return status;
}

static comet_status fashion_open(comet_dataset *d, const char *where)
{
    const bool usual = where[0] == '\0';
    if (usual && !path_is_folder(FASHION_FOLDER))
        return comet_fail(COMET_ERROR_IO, FASHION_FOLDER " was not found; on Debian and Ubuntu, apt-get install "
                                                         "dataset-fashion-mnist; elsewhere give fashion:DIR, a folder with "
                                                         "Fashion-MNIST's four files");
    const comet_status status = idx_open(d, usual ? FASHION_FOLDER : where);
    if (status == COMET_OK && d->info.n_classes == N_FASHION)
        d->class_names = fashion_names;
    return status;
}

static comet_status idx_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    (void)random; /* digits must not be mirrored, and are centred already */
    (void)s;
    const idx *x = d->state;
    memcpy(row, x->images.data + index * dataset_row_bytes(d), dataset_row_bytes(d));
    return COMET_OK;
}

static uint32_t idx_label(const comet_dataset *d, uint64_t index)
{
    const idx *x = d->state;
    return x->labels.data[index];
}

static void idx_close(comet_dataset *d)
{
    idx *x = d->state;
    if (x) {
        free_file(&x->images);
        free_file(&x->labels);
    }
    free(x);
}

const dataset_source source_idx = {"idx", idx_open, idx_read, idx_label, idx_close};
const dataset_source source_fashion = {"idx", fashion_open, idx_read, idx_label, idx_close};
