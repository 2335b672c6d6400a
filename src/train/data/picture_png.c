/*
 * PNG through libpng: grey, palette, alpha (dropped, as torchvision does), 16 bit and interlaced pictures all become 8-bit RGB.
 * A picture is decoded as a whole, since its rows can only be decoded from the first one on. Errors leave by longjmp; see
 * picture_jpeg.c.
 */
#include <png.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "train/data/picture.h"

enum {
    MAX_INFLATION = 1032, /* bytes that one byte of deflate can become */
    NO_TEXTS = 1,         /* libpng keeps one chunk of text less than this; by default 1000, each unpacked to up to 8 MB */
};

typedef struct png_job {
    png_structp png;
    png_infop info;
    const uint8_t *at, *end;
    char message[128];
    const picture_request *request;
    picture picture;
    comet_status status; /* of what fails without libpng */
} png_job;

static _Noreturn void leave(png_structp png, png_const_charp message)
{
    png_job *job = png_get_error_ptr(png);
    snprintf(job->message, sizeof job->message, "%s", message);
    png_longjmp(png, 1);
}

static void say_nothing(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
    png_job *job = png_get_io_ptr(png);
    if ((size_t)(job->end - job->at) < n)
        png_error(png, "a truncated PNG");
    memcpy(to, job->at, n);
    job->at += n;
}

/* Reads the header and asks for RGB of 8 bits. Returns false where job->status tells why. */
static bool start(png_job *job)
{
    png_structp png = job->png;
    png_set_read_fn(png, job, read_bytes);
    png_set_chunk_cache_max(png, NO_TEXTS);
    png_read_info(png, job->info);
    const uint32_t width = png_get_image_width(png, job->info), height = png_get_image_height(png, job->info);
    job->status = picture_check_size(job->request, width, height);
    if (job->status != COMET_OK)
        return false;
    if ((uint64_t)png_get_rowbytes(png, job->info) * height > ((uint64_t)job->request->bytes + 64) * MAX_INFLATION)
        png_error(png, "its header declares more pixels than the file can hold");
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    job->picture = (picture){.width = width, .height = height};
    job->picture.wanted = crop_choose(&job->request->crop, width, height);
    return true;
}

static void read_rows(png_job *job)
{
    picture *p = &job->picture;
    uint8_t *room = NULL;
    const int n_passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    if (png_get_rowbytes(job->png, job->info) != (size_t)p->width * PICTURE_CHANNELS)
        png_error(job->png, "its pixels cannot be converted to RGB");
    job->status = picture_reserve(p, job->request, PICTURE_CHANNELS, &room);
    if (job->status != COMET_OK)
        return;
    for (int pass = 0; pass < n_passes; pass++)
        for (uint32_t y = 0; y < p->height; y++)
            png_read_row(job->png, room + y * p->stride, NULL);
    png_read_end(job->png, NULL);
}

/* The job belongs to the caller, so that a longjmp leaves no local of this function undefined. */
static void decode_guarded(png_job *job)
{
    if (setjmp(png_jmpbuf(job->png)) != 0)
        job->status = comet_fail(COMET_ERROR_CORRUPT, "%.*s: %s", NAME_BYTES, job->request->name, job->message);
    else if (start(job))
        read_rows(job);
}

comet_status picture_decode_png(picture *p, const picture_request *request)
{
    png_job job = {.at = request->file, .end = request->file + request->bytes, .request = request, .status = COMET_OK};
    job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, leave, say_nothing);
    job.info = job.png ? png_create_info_struct(job.png) : NULL;
    if (!job.info)
        job.status = comet_fail(COMET_ERROR_MEMORY, "out of memory: libpng could not start");
    else
        decode_guarded(&job);
    if (job.status == COMET_OK)
        *p = job.picture;
    png_destroy_read_struct(&job.png, &job.info, NULL);
    return job.status;
}
