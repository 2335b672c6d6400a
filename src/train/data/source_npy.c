/*
 * npy:X.npy,Y.npy[,XT.npy,YT.npy]: arrays of NumPy. Images are N,C,H,W or N,H,W of f32, f64, f16 or u8; labels are N or N,1 of
 * any integer type. The files stay mapped. Without XT and YT a tenth, picked by the seed, is held out to test. Values are
 * normalised channel by channel with the mean and standard deviation of the training part.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/convert.h"
#include "base/status.h"
#include "comet/npy.h"
#include "train/data/dataset.h"
#include "train/data/permutation.h"
#include "train/data/storage.h"

enum { MAX_CHANNELS = 1024 };

typedef enum element_type {
    TYPE_U8,
    TYPE_I8,
    TYPE_U16,
    TYPE_I16,
    TYPE_U32,
    TYPE_I32,
    TYPE_U64,
    TYPE_I64,
    TYPE_F16,
    TYPE_F32,
    TYPE_F64
} element_type;

static const struct known_type {
    const char *name; /* without the mark of the byte order */
    element_type type;
    uint32_t bytes;
    bool image, label;
} known_types[] = {
    {"u1", TYPE_U8, 1, true, true},   {"i1", TYPE_I8, 1, false, true},  {"u2", TYPE_U16, 2, false, true},
    {"i2", TYPE_I16, 2, false, true}, {"u4", TYPE_U32, 4, false, true}, {"i4", TYPE_I32, 4, false, true},
    {"u8", TYPE_U64, 8, false, true}, {"i8", TYPE_I64, 8, false, true}, {"f2", TYPE_F16, 2, true, false},
    {"f4", TYPE_F32, 4, true, false}, {"f8", TYPE_F64, 8, true, false},
};
enum { N_KNOWN_TYPES = sizeof known_types / sizeof known_types[0] };

typedef struct array {
    const char *path;
    mapped_file file;
    comet_npy_header header;
    const struct known_type *type;
    const uint8_t *data;
} array;

/* The indices of a part, or all of an array where list is NULL. */
typedef struct part {
    uint32_t *list;
    uint64_t n;
} part;

typedef struct npy {
    char *places; /* the spec, cut into paths */
    array x, y;   /* of the split that was opened */
    part images;
    float *mean, *inverse;      /* per channel; inverse of the standard deviation */
    double *means, *deviations; /* the same for dataset.h, of values / 255 where they are bytes */
    bool is_bytes;
    byte_table *tables; /* per channel, of images of bytes */
} npy;

/* ---- arrays ---- */

static comet_status find_type(array *a, bool image)
{
    const char *descr = a->header.descr;
    for (size_t i = 0; i < N_KNOWN_TYPES; i++) {
        const struct known_type *t = &known_types[i];
        if (descr[0] == '\0' || strcmp(descr + 1, t->name) != 0 || !(image ? t->image : t->label))
            continue;
        if (descr[0] == '>' && t->bytes > 1)
            return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: descr '%s' is big-endian; save a.astype('<%s') instead", a->path,
                              descr, t->name);
        a->type = t;
        return COMET_OK;
    }
    return comet_fail(COMET_ERROR_UNSUPPORTED,
                      image ? "%s: descr '%s' is not a type of images; save a.astype('f4'), or f8, f2 or u1"
                            : "%s: descr '%s' is not a type of labels; save a.astype('i4') or another integer",
                      a->path, descr);
}

/* Checks the shape against the length of the file. */
static comet_status check_length(const array *a)
{
    uint64_t bytes = a->type->bytes;
    for (uint32_t i = 0; i < a->header.n_dims; i++)
        if (__builtin_mul_overflow(bytes, a->header.dims[i], &bytes))
            return comet_fail(COMET_ERROR_CORRUPT, "%s: the shape in its header is larger than any memory", a->path);
    const uint64_t present = a->file.bytes - a->header.data_offset;
    if (present != bytes)
        return comet_fail(COMET_ERROR_CORRUPT,
                          "%s: %s: its shape needs %" PRIu64 " bytes of data, it has %" PRIu64 "; save it again", a->path,
                          present < bytes ? "truncated" : "bytes left over at the end", bytes, present);
    return COMET_OK;
}

static comet_status array_open(array *a, const char *path, bool image)
{
    *a = (array){.path = path};
    comet_status status = file_map(&a->file, path);
    if (status != COMET_OK)
        return status;
    status = comet_npy_parse(&a->header, a->file.data, a->file.bytes);
    if (status != COMET_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", comet_last_error());
        return comet_fail(status, "%s: %s", path, why);
    }
    status = find_type(a, image);
    if (status == COMET_OK)
        status = check_length(a);
    a->data = a->file.data + a->header.data_offset;
    return status;
}

static void array_close(array *a)
{
    file_unmap(&a->file);
}

static double image_element(const array *a, uint64_t i)
{
    double wide;
    switch (a->type->type) {
    case TYPE_F16: return float_of_f16(load_u16(a->data + 2 * i));
    case TYPE_F32: return float_of_bits(load_u32(a->data + 4 * i));
    case TYPE_F64: memcpy(&wide, a->data + 8 * i, sizeof wide); return wide;
    default: return a->data[i];
    }
}

/* Numbers beyond int64 come out negative, which no label may be. */
static int64_t label_element(const array *a, uint64_t i)
{
    const uint8_t *at = a->data + i * a->type->bytes;
    switch (a->type->type) {
    case TYPE_U8: return at[0];
    case TYPE_I8: return (int8_t)at[0];
    case TYPE_U16: return load_u16(at);
    case TYPE_I16: return (int16_t)load_u16(at);
    case TYPE_U32: return load_u32(at);
    case TYPE_I32: return (int32_t)load_u32(at);
    default: return (int64_t)load_u64(at);
    }
}

/* ---- shapes and labels ---- */

typedef struct image_shape {
    uint64_t n, channels, height, width;
} image_shape;

static image_shape shape_of(const array *x)
{
    const uint64_t *dims = x->header.dims;
    return x->header.n_dims == 3 ? (image_shape){dims[0], 1, dims[1], dims[2]}
                                 : (image_shape){dims[0], dims[1], dims[2], dims[3]};
}

static comet_status check_images(const array *x)
{
    if (x->header.n_dims != 3 && x->header.n_dims != 4)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: %u axes; images have the shape N,C,H,W or N,H,W", x->path,
                          x->header.n_dims);
    const image_shape s = shape_of(x);
    if (s.width <= 4 && s.channels > 8)
        return comet_fail(COMET_ERROR_UNSUPPORTED,
                          "%s: its shape looks like N,H,W,C; save numpy.moveaxis(a, 3, 1).copy(), which "
                          "is N,C,H,W",
                          x->path);
    if (s.n == 0 || s.n > MAX_IMAGES || s.channels == 0 || s.channels > MAX_CHANNELS || s.height == 0 || s.height > MAX_SIDE ||
        s.width == 0 || s.width > MAX_SIDE)
        return comet_fail(COMET_ERROR_UNSUPPORTED,
                          "%s: %" PRIu64 " images of %" PRIu64 " x %" PRIu64 " x %" PRIu64
                          "; at least one, of 1 to %d channels and sides of 1 to %d, are possible",
                          x->path, s.n, s.channels, s.height, s.width, MAX_CHANNELS, MAX_SIDE);
    return COMET_OK;
}

static comet_status check_labels(const array *x, const array *y)
{
    const comet_npy_header *h = &y->header;
    if (h->n_dims != 1 && !(h->n_dims == 2 && h->dims[1] == 1))
        return comet_fail(COMET_ERROR_UNSUPPORTED,
                          "%s: its shape is neither N nor N,1; labels are class numbers, one an image "
                          "(of one-hot rows, save a.argmax(1))",
                          y->path);
    if (h->dims[0] != x->header.dims[0])
        return comet_fail(COMET_ERROR_CORRUPT, "%s has %" PRIu64 " labels, but %s has %" PRIu64 " images; save them together",
                          y->path, h->dims[0], x->path, x->header.dims[0]);
    return COMET_OK;
}

static comet_status check_label_values(const array *y, uint32_t n_classes)
{
    for (uint64_t i = 0; i < y->header.dims[0]; i++) {
        const int64_t label = label_element(y, i);
        if (label < 0 || label >= n_classes)
            return comet_fail(COMET_ERROR_CORRUPT,
                              "%s: label %" PRId64 " of image %" PRIu64 " is out of range 0 to %u; number "
                              "the classes from 0",
                              y->path, label, i, n_classes - 1);
    }
    return COMET_OK;
}

static uint32_t count_classes(const array *y)
{
    int64_t highest = 0;
    for (uint64_t i = 0; i < y->header.dims[0]; i++)
        if (label_element(y, i) > highest)
            highest = label_element(y, i);
    return (uint32_t)highest + 1;
}

static comet_status open_pair(array *x, array *y, const char *const paths[2])
{
    comet_status status = array_open(x, paths[0], true);
    if (status == COMET_OK)
        status = check_images(x);
    if (status == COMET_OK)
        status = array_open(y, paths[1], false);
    if (status == COMET_OK)
        status = check_labels(x, y);
    return status;
}

/* ---- normalisation ---- */

/* Count, mean and sum of squared differences from it; joined by the rule of Chan, Golub and LeVeque. */
typedef struct moments {
    double n, mean, squares;
} moments;

static moments plane_moments(const array *x, uint64_t first, uint64_t n)
{
    moments m = {.n = (double)n};
    for (uint64_t i = first; i < first + n; i++)
        m.mean += image_element(x, i);
    m.mean /= m.n;
    for (uint64_t i = first; i < first + n; i++)
        m.squares += (image_element(x, i) - m.mean) * (image_element(x, i) - m.mean);
    return m;
}

static void join_moments(moments *all, moments m)
{
    const double n = all->n + m.n, apart = m.mean - all->mean;
    all->mean += apart * (m.n / n);
    all->squares += m.squares + apart * apart * (all->n * m.n / n);
    all->n = n;
}

/* One pass over all images, which fails where a number is not finite. Those of the part, whose list is in rising order, enter
 * the moments of their channels; with an empty part, `channels` is not used. */
static comet_status measure(const array *x, const part *images, moments *channels)
{
    const image_shape s = shape_of(x);
    const uint64_t plane = s.height * s.width;
    for (uint64_t image = 0, n_found = 0; image < s.n; image++) {
        const bool enters = n_found < images->n && (!images->list || images->list[n_found] == image);
        for (uint64_t c = 0; c < s.channels; c++) {
            const moments m = plane_moments(x, (image * s.channels + c) * plane, plane);
            if (!isfinite(m.squares))
                return comet_fail(COMET_ERROR_CORRUPT,
                                  "%s: image %" PRIu64 " has a NaN, an infinite or a huge value; clean it "
                                  "with numpy.nan_to_num",
                                  x->path, image);
            if (enters)
                join_moments(&channels[c], m);
        }
        n_found += enters;
    }
    return COMET_OK;
}

static comet_status find_normalisation(npy *a, const array *x, const part *images)
{
    const uint64_t n_channels = shape_of(x).channels;
    moments *channels = storage_new(n_channels, sizeof *channels);
    a->mean = storage_new(n_channels, sizeof *a->mean);
    a->inverse = storage_new(n_channels, sizeof *a->inverse);
    a->means = storage_new(n_channels, sizeof *a->means);
    a->deviations = storage_new(n_channels, sizeof *a->deviations);
    const bool have_all = channels && a->mean && a->inverse && a->means && a->deviations;
    a->is_bytes = x->type->type == TYPE_U8;
    const double unit = a->is_bytes ? 255 : 1;
    comet_status status = have_all ? COMET_OK : COMET_ERROR_MEMORY;
    if (status == COMET_OK)
        status = measure(x, images, channels);
    for (uint64_t c = 0; status == COMET_OK && c < n_channels; c++) {
        const double std = sqrt(channels[c].squares / channels[c].n);
        a->mean[c] = (float)channels[c].mean;
        a->inverse[c] = std > 1e-30 ? (float)(1 / std) : 1.0f;
        a->means[c] = (double)a->mean[c] / unit;
        a->deviations[c] = 1 / (double)a->inverse[c] / unit;
    }
    free(channels);
    return status;
}

static float normalised(double v, double mean, double inverse)
{
    return (float)((v - mean) * inverse);
}

/* Images of bytes stay bytes until they are used. */
static comet_status make_tables(npy *a, comet_dataset *d)
{
    if (a->x.type->type != TYPE_U8)
        return COMET_OK;
    a->tables = storage_new(d->info.channels, sizeof *a->tables);
    if (!a->tables)
        return COMET_ERROR_MEMORY;
    for (uint32_t c = 0; c < d->info.channels; c++)
        for (int v = 0; v < 256; v++)
            a->tables[c].of[v] = normalised(v, a->mean[c], a->inverse[c]);
    d->tables = a->tables;
    return COMET_OK;
}

/* ---- opening ---- */

/* Cuts "X,Y[,XT,YT]"; returns how many paths there are. */
static unsigned cut_places(char *places, const char *paths[4])
{
    unsigned n = 0;
    for (char *at = places; at; n++) {
        char *comma = strchr(at, ',');
        if (n < 4)
            paths[n] = at;
        if (comma)
            *comma++ = '\0';
        at = comma;
    }
    return n;
}

/* Takes all of X and Y to train, all of XT and YT to test. */
static comet_status open_test_arrays(npy *a, const char *const paths[2], uint32_t n_classes)
{
    const image_shape train = shape_of(&a->x);
    array_close(&a->x);
    array_close(&a->y);
    comet_status status = open_pair(&a->x, &a->y, paths);
    if (status != COMET_OK)
        return status;
    const image_shape test = shape_of(&a->x);
    if (test.channels != train.channels || test.height != train.height || test.width != train.width)
        return comet_fail(COMET_ERROR_CORRUPT,
                          "%s: images of %" PRIu64 " x %" PRIu64 " x %" PRIu64 ", but those to train on have %" PRIu64
                          " x %" PRIu64 " x %" PRIu64,
                          a->x.path, test.channels, test.height, test.width, train.channels, train.height, train.width);
    status = check_label_values(&a->y, n_classes);
    a->images.n = test.n;
    return status == COMET_OK ? measure(&a->x, &(const part){.n = 0}, NULL) : status;
}

/* Finds the part to train on, by which everything is normalised; then the part that was asked for. */
static comet_status open_split(npy *a, const comet_dataset_params *params, const char *const *test_paths, uint32_t n_classes)
{
    const bool test = params->split == COMET_SPLIT_TEST;
    const uint64_t n = shape_of(&a->x).n;
    part train = {.n = n};
    comet_status status = COMET_OK;
    if (!test_paths && n < 2)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: one image cannot be split to train and to test; name test arrays too",
                          a->x.path);
    if (!test_paths)
        status = holdout_indices(params->seed, n, false, &train.list, &train.n);
    if (status == COMET_OK)
        status = find_normalisation(a, &a->x, &train);
    if (!test) {
        a->images = train;
        return status;
    }
    free(train.list);
    if (status == COMET_OK)
        status = test_paths ? open_test_arrays(a, test_paths, n_classes)
                            : holdout_indices(params->seed, n, true, &a->images.list, &a->images.n);
    return status;
}

static comet_status npy_open(comet_dataset *d, const char *where)
{
    const char *paths[4];
    npy *a = d->state = storage_new(1, sizeof *a);
    if (!a || !(a->places = storage_new(strlen(where) + 1, 1)))
        return COMET_ERROR_MEMORY;
    memcpy(a->places, where, strlen(where));
    const unsigned n_paths = cut_places(a->places, paths);
    if (n_paths != 2 && n_paths != 4)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "npy:%.200s names %u files; give npy:X.npy,Y.npy or npy:X.npy,Y.npy,XT.npy,YT.npy", where, n_paths);
    comet_status status = open_pair(&a->x, &a->y, paths);
    if (status == COMET_OK)
        status = check_label_values(&a->y, MAX_CLASSES);
    if (status != COMET_OK)
        return status;
    const image_shape s = shape_of(&a->x);
    d->info.channels = (uint32_t)s.channels;
    d->info.height = (uint32_t)s.height;
    d->info.width = (uint32_t)s.width;
    d->info.n_classes = count_classes(&a->y);
    status = open_split(a, &d->params, n_paths == 4 ? paths + 2 : NULL, d->info.n_classes);
    if (status == COMET_OK)
        status = make_tables(a, d);
    d->info.n_images = a->images.n;
    d->preparation = (preparation_rule){.means = a->means, .deviations = a->deviations, .is_bytes = a->is_bytes};
    d->shared[0] = a->x.file;
    d->shared[1] = a->y.file;
    d->mapped = a->x.file.bytes + a->y.file.bytes;
    d->bytes = sizeof *a + a->x.file.bytes + a->y.file.bytes + (a->images.list ? a->images.n * sizeof *a->images.list : 0);
    return status;
}

/* Where an image of the split is in the arrays. */
static uint64_t place_of(const npy *a, uint64_t index)
{
    return a->images.list ? a->images.list[index] : index;
}

static uint32_t npy_label(const comet_dataset *d, uint64_t index)
{
    const npy *a = d->state;
    return (uint32_t)label_element(&a->y, place_of(a, index));
}

static comet_status npy_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    (void)random; /* it is not known what may be done to the images */
    (void)s;
    const npy *a = d->state;
    const uint64_t i = place_of(a, index);
    const size_t plane = (size_t)d->info.height * d->info.width;
    float *image = row;
    if (d->tables) {
        memcpy(row, a->x.data + i * dataset_row_bytes(d), dataset_row_bytes(d));
        return COMET_OK;
    }
    for (uint32_t c = 0; c < d->info.channels; c++, image += plane) {
        const uint64_t first = (i * d->info.channels + c) * plane;
        const double mean = a->mean[c], inverse = a->inverse[c];
        for (size_t k = 0; k < plane; k++)
            image[k] = normalised(image_element(&a->x, first + k), mean, inverse);
    }
    return COMET_OK;
}

static void npy_close(comet_dataset *d)
{
    npy *a = d->state;
    if (!a)
        return;
    array_close(&a->x);
    array_close(&a->y);
    free(a->images.list);
    free(a->mean);
    free(a->inverse);
    free(a->means);
    free(a->deviations);
    free(a->tables);
    free(a->places);
    free(a);
}

const dataset_source source_npy = {"npy", npy_open, npy_read, npy_label, npy_close};
