/* Images from single files; see image_file.h. */
#include "train/data/image_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/convert.h"
#include "base/status.h"
#include "comet/npy.h"
#include "train/data/byte_image.h"
#include "train/data/picture.h"
#include "train/data/resample.h"
#include "train/data/storage.h"

enum { MAX_FILE_BYTES = 1 << 28 };

/* Red, green and blue of a grey value: ITU-R BT.601, as in Pillow's convert("L"). */
static const double luma[PICTURE_CHANNELS] = {0.299, 0.587, 0.114};

typedef enum number_type { NUMBER_U8, NUMBER_F16, NUMBER_F32, NUMBER_F64 } number_type;

struct image_file {
    char *path;
    bool is_array;
    uint64_t rows;
    mapped_file mapped; /* arrays */
    const uint8_t *data;
    number_type type;
};

/* ---- arrays ---- */

static comet_status find_type(image_file *f, const char *descr, size_t *bytes)
{
    static const struct {
        const char *descr;
        number_type type;
        size_t bytes;
    } known[] = {
        {"|u1", NUMBER_U8, 1}, {"<u1", NUMBER_U8, 1}, {"<f2", NUMBER_F16, 2}, {"<f4", NUMBER_F32, 4}, {"<f8", NUMBER_F64, 8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(descr, known[i].descr) != 0)
            continue;
        f->type = known[i].type;
        *bytes = known[i].bytes;
        return COMET_OK;
    }
    return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: descr '%s' is not a type of images; save a.astype('<f4'), or f8, f2 or u1",
                      f->path, descr);
}

/* N,C,H,W, N,H,W for one channel, or C,H,W. */
static comet_status find_rows(image_file *f, const comet_npy_header *h, const preparation *p)
{
    const uint32_t own[] = {p->channels, p->height, p->width};
    const uint32_t skipped = h->n_dims == 4 ? 0 : 1; /* N,H,W has no channels */
    bool fits = h->n_dims == 4 || (h->n_dims == 3 && p->channels == 1);
    for (uint32_t i = skipped; i < 3 && fits; i++)
        fits = h->dims[1 + i - skipped] == own[i];
    if (fits) {
        f->rows = h->dims[0];
    } else if (h->n_dims == 3 && h->dims[0] == own[0] && h->dims[1] == own[1] && h->dims[2] == own[2]) {
        f->rows = 1;
    } else {
        char shape[96] = "";
        for (uint32_t i = 0, at = 0; i < h->n_dims && at < sizeof shape; i++)
            at += (uint32_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, i > 0 ? "," : "", h->dims[i]);
        return comet_fail(COMET_ERROR_CORRUPT, "%s: its shape is %s; the net takes images of %u,%u,%u (C,H,W)", f->path, shape,
                          own[0], own[1], own[2]);
    }
    return f->rows > 0 ? COMET_OK : comet_fail(COMET_ERROR_CORRUPT, "%s: it has no images", f->path);
}

static comet_status open_array(image_file *f, const preparation *p)
{
    comet_npy_header header;
    size_t number_bytes = 0;
    uint64_t bytes = 0;
    comet_status status = file_map(&f->mapped, f->path);
    if (status != COMET_OK)
        return status;
    status = comet_npy_parse(&header, f->mapped.data, f->mapped.bytes);
    if (status != COMET_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", comet_last_error());
        return comet_fail(status, "%s: %s", f->path, why);
    }
    status = find_type(f, header.descr, &number_bytes);
    if (status == COMET_OK)
        status = find_rows(f, &header, p);
    if (status != COMET_OK)
        return status;
    f->data = f->mapped.data + header.data_offset;
    const uint64_t image = (uint64_t)p->channels * p->height * p->width * number_bytes;
    if (__builtin_mul_overflow(image, f->rows, &bytes) || f->mapped.bytes - header.data_offset != bytes)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: its shape needs %" PRIu64 " bytes of data, it has %zu; save it again",
                          f->path, bytes, f->mapped.bytes - header.data_offset);
    return COMET_OK;
}

static double number_at(const image_file *f, uint64_t i)
{
    double wide;
    switch (f->type) {
    case NUMBER_F16: return float_of_f16(load_u16(f->data + 2 * i));
    case NUMBER_F32: return float_of_bits(load_u32(f->data + 4 * i));
    case NUMBER_F64: memcpy(&wide, f->data + 8 * i, sizeof wide); return wide;
    case NUMBER_U8: break;
    }
    return f->data[i];
}

/* Bytes of a net that knows bytes are 0 to 255, other numbers then 0 to 1; a net trained on arrays takes numbers as they are.
 */
static comet_status read_array(const image_file *f, uint64_t row, const preparation *p, float *image)
{
    const uint64_t plane = (uint64_t)p->height * p->width;
    const double unit = p->is_bytes && f->type == NUMBER_U8 ? 255 : 1;
    for (uint32_t c = 0; c < p->channels; c++) {
        const uint64_t first = (row * p->channels + c) * plane;
        for (uint64_t k = 0; k < plane; k++) {
            const double value = (number_at(f, first + k) / unit - p->means[c]) / p->deviations[c];
            if (!(fabs(value) <= 1e30))
                return comet_fail(COMET_ERROR_CORRUPT, "%s: image %" PRIu64 " has a NaN, an infinite or a huge value", f->path,
                                  row);
            image[c * plane + k] = (float)value;
        }
    }
    return COMET_OK;
}

/* ---- pictures ---- */

static comet_status check_picture_net(const image_file *f, const preparation *p)
{
    if (p->height != p->width)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: the net takes images of %u x %u; pictures are made square", f->path,
                          p->height, p->width);
    if (!p->is_bytes || (p->channels != PICTURE_CHANNELS && p->channels != 1))
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: the net was trained on %s; give .npy arrays like those", f->path,
                          p->is_bytes ? "images that are neither grey nor colour" : "numbers that are no bytes");
    return COMET_OK;
}

static comet_status decode(const image_file *f, const preparation *p, scratch *s, resample_target *target)
{
    size_t bytes = 0;
    picture decoded;
    comet_status status = storage_read_file(f->path, MAX_FILE_BYTES, &s->file, &bytes);
    if (status != COMET_OK)
        return status;
    const picture_request request = {.name = f->path,
                                     .file = s->file.data,
                                     .bytes = bytes,
                                     .crop = {.side = target->side, .no_margin = !p->has_margin},
                                     .pixels = &s->pixels};
    status = picture_decode(&decoded, &request);
    return status == COMET_OK ? resample(&decoded, target, &s->taps) : status;
}

/* Colours as bytes, which are what a data set of pictures gives, and then the same table. */
static comet_status read_colour(const image_file *f, const preparation *p, scratch *s, comet_buffer *colours, float *image)
{
    const size_t plane = (size_t)p->height * p->width;
    resample_target target = {.side = p->width, .planes = colours->data};
    const comet_status status = decode(f, p, s, &target);
    for (size_t c = 0; c < PICTURE_CHANNELS && status == COMET_OK; c++) {
        const byte_table table = byte_table_make(p->means[c], p->deviations[c]);
        byte_plane_normalise(target.planes + c * plane, plane, &table, image + c * plane);
    }
    return status;
}

static comet_status read_grey(const image_file *f, const preparation *p, scratch *s, comet_buffer *colours, float *image)
{
    const size_t plane = (size_t)p->height * p->width;
    resample_target target = {.side = p->width, .planes = colours->data};
    const comet_status status = decode(f, p, s, &target);
    const uint8_t *red = target.planes, *green = red + plane, *blue = green + plane;
    for (size_t i = 0; i < plane && status == COMET_OK; i++) {
        const double grey = luma[0] * red[i] + luma[1] * green[i] + luma[2] * blue[i];
        image[i] = (float)((grey / 255 - p->means[0]) / p->deviations[0]);
    }
    return status;
}

static comet_status read_picture(const image_file *f, const preparation *p, scratch *s, comet_buffer *colours, float *image)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    const size_t plane = (size_t)p->height * p->width;
    const comet_status status = comet_buffer_reserve(&allocator, colours, PICTURE_CHANNELS * plane);
    if (status != COMET_OK)
        return status;
    return p->channels == 1 ? read_grey(f, p, s, colours, image) : read_colour(f, p, s, colours, image);
}

/* ---- either ---- */

static bool is_array_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcasecmp(dot, ".npy") == 0;
}

comet_status image_file_open(image_file **file, const char *path, const preparation *p)
{
    const size_t bytes = strlen(path) + 1;
    image_file *f = storage_new(1, sizeof *f);
    if (!f || !(f->path = storage_new(bytes, 1))) {
        free(f);
        return COMET_ERROR_MEMORY;
    }
    memcpy(f->path, path, bytes);
    f->is_array = is_array_name(path);
    f->rows = 1;
    const comet_status status = f->is_array ? open_array(f, p) : check_picture_net(f, p);
    if (status == COMET_OK)
        *file = f;
    else
        image_file_close(f);
    return status;
}

void image_file_close(image_file *file)
{
    if (!file)
        return;
    if (file->is_array)
        file_unmap(&file->mapped);
    free(file->path);
    free(file);
}

bool image_file_is_array(const image_file *file)
{
    return file->is_array;
}

uint64_t image_file_rows(const image_file *file)
{
    return file->rows;
}

comet_status image_file_read(const image_file *file, uint64_t row, const preparation *p, scratch *s, comet_buffer *colours,
                             float *image)
{
    if (file->is_array)
        return read_array(file, row, p, image);
    return read_picture(file, p, s, colours, image);
}
