/*
 * JPEG through libjpeg-turbo: decoded at a half, quarter or eighth where the box stays large enough, and only those rows and
 * columns that the box needs.
 *
 * libjpeg reports errors by a function that must not return, so everything that calls it runs below one setjmp, and its state
 * lives in a struct. It only warns of damage within the data, and shows the rest of a truncated file in grey; both count as
 * broken here. A truncated file is found by its missing end marker, not only when the box reaches into what is missing, so that
 * whether an image is skipped does not depend on the crop.
 *
 * Every scan of a file costs a pass over the whole picture, but a scan that changes nothing takes little more than a hundred
 * bytes: a file of 1 MB could hold a thread for minutes. So the number of scans is limited, and so is that number times the
 * pixels. Encoders write 1 to 18 scans (libjpeg 10 in colour, 18 in CMYK), which the largest pictures may have too.
 */
#include <setjmp.h>
#include <stdio.h> /* before jpeglib.h, which needs it */

#include <jerror.h>
#include <jpeglib.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "train/data/picture.h"

#ifndef LIBJPEG_TURBO_VERSION
#error "Comet needs libjpeg-turbo (for jpeg_crop_scanline and jpeg_skip_scanlines)"
#endif

enum { TAIL_BYTES = 4096, CMYK_BYTES = 4, MAX_SCANS = 100, MAX_SCANS_OF_LARGEST = 20 };

typedef struct jpeg_job {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    int max_scans;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    const picture_request *request;
    picture picture;
    comet_status status; /* of what fails without libjpeg */
    box wanted;          /* in pixels of the whole picture */
} jpeg_job;

static _Noreturn void leave(j_common_ptr info)
{
    jpeg_job *job = info->client_data;
    info->err->format_message(info, job->message);
    longjmp(job->escape, 1);
}

static void say_nothing(j_common_ptr info)
{
    (void)info;
}

/* Level -1 is a warning: bad data that libjpeg replaces. */
static void judge_message(j_common_ptr info, int level)
{
    if (level >= 0)
        return;
    switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC: leave(info);
    default: break;
    }
}

static int choose_max_scans(uint32_t width, uint32_t height)
{
    const uint64_t n = (uint64_t)MAX_SCANS_OF_LARGEST * MAX_PIXELS / ((uint64_t)width * height);
    return n < MAX_SCANS ? (int)n : MAX_SCANS;
}

/* libjpeg calls this for each row of blocks that it reads of a picture with several scans. */
static void watch_scans(j_common_ptr info)
{
    jpeg_job *job = info->client_data;
    if (job->info.input_scan_number <= job->max_scans)
        return;
    snprintf(job->message, sizeof job->message, "more than %d scans of %u x %u pixels, which would take too long to decode",
             job->max_scans, job->info.image_width, job->info.image_height);
    longjmp(job->escape, 1);
}

/* An end marker in the last bytes; some programs write a little after it. Entropy-coded data never holds one. */
static bool has_end(const uint8_t *file, size_t bytes)
{
    const size_t first = bytes > TAIL_BYTES ? bytes - TAIL_BYTES : 0;
    for (size_t i = bytes; i >= first + 2; i--)
        if (file[i - 2] == 0xff && file[i - 1] == JPEG_EOI)
            return true;
    return false;
}

/* The most by which both sides of the box can shrink and still have the pixels of the image. */
static unsigned choose_shrink(const box *wanted, uint32_t side)
{
    unsigned shrink = 8;
    while (shrink > 1 && (wanted->width < (double)side * shrink || wanted->height < (double)side * shrink))
        shrink /= 2;
    return shrink;
}

/* CMYK rows to RGB in their place. Adobe's files hold the complements. */
static void convert_cmyk(uint8_t *row, uint32_t width, bool complement)
{
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *from = row + (size_t)x * CMYK_BYTES;
        const unsigned black = complement ? from[3] : 255u - from[3];
        uint8_t rgb[PICTURE_CHANNELS];
        for (int c = 0; c < PICTURE_CHANNELS; c++)
            rgb[c] = (uint8_t)(((complement ? from[c] : 255u - from[c]) * black + 127) / 255);
        memcpy(row + (size_t)x * PICTURE_CHANNELS, rgb, sizeof rgb);
    }
}

/* Sets size and colours of the output and starts. Returns false where job->status tells why. */
static bool start(jpeg_job *job)
{
    struct jpeg_decompress_struct *info = &job->info;
    jpeg_create_decompress(info);
    jpeg_mem_src(info, job->request->file, (unsigned long)job->request->bytes);
    jpeg_read_header(info, TRUE);
    job->status = picture_check_size(job->request, info->image_width, info->image_height);
    if (job->status != COMET_OK)
        return false;
    job->max_scans = choose_max_scans(info->image_width, info->image_height);
    job->progress.progress_monitor = watch_scans;
    info->progress = &job->progress;
    job->wanted = crop_choose(&job->request->crop, info->image_width, info->image_height);
    info->scale_num = 1;
    info->scale_denom = choose_shrink(&job->wanted, job->request->crop.side);
    const bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(info);
    return true;
}

/* Pixels from `first` on that cover [begin, begin + length) of `limit` pixels. */
static void cover(double begin, double length, unsigned limit, unsigned *first, unsigned *n)
{
    const double end = ceil(begin + length);
    *first = begin > 0 ? (unsigned)begin : 0;
    if (*first >= limit)
        *first = limit - 1;
    *n = (end < limit ? (unsigned)end : limit) - *first;
}

static void read_rows(jpeg_job *job)
{
    struct jpeg_decompress_struct *info = &job->info;
    const double shrink = info->scale_denom;
    unsigned x, y, width, height;
    cover(job->wanted.x / shrink, job->wanted.width / shrink, info->output_width, &x, &width);
    cover(job->wanted.y / shrink, job->wanted.height / shrink, info->output_height, &y, &height);
    if (width < info->output_width)
        jpeg_crop_scanline(info, &x, &width); /* may begin and end further out */
    uint8_t *room = NULL;
    picture *p = &job->picture;
    *p = (picture){.width = width, .height = height};
    p->wanted =
        (box){job->wanted.x / shrink - x, job->wanted.y / shrink - y, job->wanted.width / shrink, job->wanted.height / shrink};
    job->status = picture_reserve(p, job->request, (size_t)info->output_components, &room);
    if (job->status != COMET_OK)
        return;
    if (y > 0 && jpeg_skip_scanlines(info, y) != y)
        ERREXIT(info, JERR_INPUT_EOF);
    for (unsigned i = 0; i < height; i++) {
        uint8_t *row = room + i * p->stride;
        jpeg_read_scanlines(info, &row, 1);
        if (info->output_components == CMYK_BYTES)
            convert_cmyk(row, width, info->saw_Adobe_marker);
    }
}

/* The job belongs to the caller, so that a longjmp leaves no local of this function undefined. */
static void decode_guarded(jpeg_job *job)
{
    if (setjmp(job->escape) != 0)
        job->status = comet_fail(COMET_ERROR_CORRUPT, "%.*s: %s", NAME_BYTES, job->request->name, job->message);
    else if (start(job))
        read_rows(job);
}

comet_status picture_decode_jpeg(picture *p, const picture_request *request)
{
    jpeg_job job = {.request = request, .status = COMET_OK};
    if (!has_end(request->file, request->bytes))
        return comet_fail(COMET_ERROR_CORRUPT, "%.*s: a truncated JPEG, without an end marker", NAME_BYTES, request->name);
    job.info.err = jpeg_std_error(&job.errors);
    job.info.client_data = &job;
    job.errors.error_exit = leave;
    job.errors.output_message = say_nothing;
    job.errors.emit_message = judge_message;
    decode_guarded(&job);
    if (job.status == COMET_OK)
        *p = job.picture;
    jpeg_destroy_decompress(&job.info);
    return job.status;
}
