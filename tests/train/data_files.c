/* Files for the tests of data sets; see data_files.h. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "data_files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include "comet/npy.h"
#include "train/data/dataset.h"

/* ---- folders ---- */

int temp_folder_make(void **state)
{
    const char *parent = getenv("TMPDIR");
    char *path = malloc(512);
    if (!path)
        return -1;
    snprintf(path, 512, "%s/comet_data_XXXXXX", parent ? parent : "/tmp");
    *state = path;
    return mkdtemp(path) ? 0 : -1;
}

static int remove_item(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

int temp_folder_remove(void **state)
{
    const int result = nftw(*state, remove_item, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return result;
}

const char *text_of(const char *format, ...)
{
    static char texts[8][2048];
    static unsigned next;
    char *text = texts[next++ % COUNT_OF(texts)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof texts[0], format, arguments);
    va_end(arguments);
    return text;
}

void make_folder(const char *path)
{
    if (mkdir(path, 0700) != 0)
        fail_because("cannot make the folder %s", path);
}

void make_pipe(const char *folder, const char *name)
{
    const char *path = text_of("%s/%s", folder, name);
    remove(path);
    if (mkfifo(path, 0600) != 0)
        fail_because("cannot make the pipe %s", path);
    alarm(60);
}

void stop_waiting(void)
{
    alarm(0);
}

/* ---- arrays ---- */

void write_gz(const char *folder, const char *name, const void *data, size_t bytes)
{
    gzFile file = gzopen(text_of("%s/%s", folder, name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

static void put_big_endian(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

blob idx_bytes(uint32_t magic, uint32_t n_dims, const uint32_t *dims, const void *data, size_t bytes)
{
    blob b = {.bytes = 4 + 4 * n_dims + bytes};
    b.data = need_malloc(b.bytes);
    put_big_endian(b.data, magic);
    for (uint32_t i = 0; i < n_dims; i++)
        put_big_endian(b.data + 4 + 4 * i, dims[i]);
    memcpy(b.data + 4 + 4 * n_dims, data, bytes);
    return b;
}

void write_npy(const char *folder, const char *name, const char *descr, uint32_t n_dims, const uint64_t *dims, const void *data,
               size_t bytes)
{
    char header[COMET_NPY_HEADER_BYTES];
    blob b = {.bytes = comet_npy_format(descr, n_dims, dims, header)};
    b.data = need_malloc(b.bytes + bytes);
    memcpy(b.data, header, b.bytes);
    memcpy(b.data + b.bytes, data, bytes);
    b.bytes += bytes;
    write_blob(folder, name, b);
}

void write_blob(const char *folder, const char *name, blob b)
{
    write_file(folder, name, b.data, b.bytes);
    free(b.data);
}

/* ---- pictures ---- */

static void draw_row(const drawing *d, uint32_t y, uint8_t *rgb)
{
    for (uint32_t x = 0; x < d->width; x++)
        d->pixel(x, y, rgb + 3 * (size_t)x);
}

/* A row of RGB in the form that this kind of JPEG needs; CMYK as Adobe has it, complemented and without black. */
static void convert_jpeg_row(jpeg_kind kind, uint32_t width, const uint8_t *rgb, uint8_t *to)
{
    for (uint32_t x = 0; x < width; x++, rgb += 3) {
        if (kind == JPEG_GREY) {
            *to++ = rgb[0];
            continue;
        }
        memcpy(to, rgb, 3);
        to += 3;
        if (kind == JPEG_CMYK)
            *to++ = 255;
    }
}

/* The usual scans where n_scans is 0. */
static blob make_jpeg(const drawing *d, jpeg_kind kind, int quality, const jpeg_scan_info *scans, int n_scans)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long bytes = 0;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &memory, &bytes);
    info.image_width = d->width;
    info.image_height = d->height;
    info.input_components = kind == JPEG_GREY ? 1 : kind == JPEG_CMYK ? 4 : 3;
    info.in_color_space = kind == JPEG_GREY ? JCS_GRAYSCALE : kind == JPEG_CMYK ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, quality, TRUE);
    if (kind == JPEG_PROGRESSIVE)
        jpeg_simple_progression(&info);
    if (n_scans > 0) {
        info.scan_info = scans;
        info.num_scans = n_scans;
    }
    jpeg_start_compress(&info, TRUE);
    uint8_t *rgb = need_malloc(3 * (size_t)d->width), *row = need_malloc(4 * (size_t)d->width);
    for (uint32_t y = 0; y < d->height; y++) {
        draw_row(d, y, rgb);
        convert_jpeg_row(kind, d->width, rgb, row);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    blob b = {.data = need_malloc(bytes), .bytes = bytes};
    memcpy(b.data, memory, bytes);
    free(memory);
    free(rgb);
    free(row);
    return b;
}

blob jpeg_bytes(const drawing *d, jpeg_kind kind, int quality)
{
    return make_jpeg(d, kind, quality, NULL, 0);
}

blob jpeg_bytes_of_scans(const drawing *d, int n_scans)
{
    static const jpeg_scan_info scans[] = {{.comps_in_scan = 1}, {.comps_in_scan = 1, .Ss = 1, .Se = 63}};
    enum { TABLE = 0xc4 /* marks the Huffman table that begins each scan */, END_BYTES = 2 };
    blob two = make_jpeg(d, JPEG_GREY, 90, scans, COUNT_OF(scans));
    size_t second = two.bytes - END_BYTES;
    while (two.data[second] != 0xff || two.data[second + 1] != TABLE)
        second--;
    const size_t scan_bytes = two.bytes - END_BYTES - second;
    blob b = {.bytes = two.bytes + (size_t)(n_scans - 2) * scan_bytes};
    b.data = need_malloc(b.bytes);
    memcpy(b.data, two.data, second);
    for (size_t at = second; at < b.bytes - END_BYTES; at += scan_bytes)
        memcpy(b.data + at, two.data + second, scan_bytes);
    memcpy(b.data + b.bytes - END_BYTES, two.data + two.bytes - END_BYTES, END_BYTES);
    free(two.data);
    return b;
}

typedef struct png_form {
    int colour, depth, interlace;
} png_form;

static png_form form_of(png_kind kind)
{
    switch (kind) {
    case PNG_RGB16: return (png_form){PNG_COLOR_TYPE_RGB, 16, PNG_INTERLACE_NONE};
    case PNG_RGBA: return (png_form){PNG_COLOR_TYPE_RGB_ALPHA, 8, PNG_INTERLACE_NONE};
    case PNG_GREY: return (png_form){PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_NONE};
    case PNG_GREY_1BIT: return (png_form){PNG_COLOR_TYPE_GRAY, 1, PNG_INTERLACE_NONE};
    case PNG_GREY_ALPHA16: return (png_form){PNG_COLOR_TYPE_GRAY_ALPHA, 16, PNG_INTERLACE_NONE};
    case PNG_PALETTE: return (png_form){PNG_COLOR_TYPE_PALETTE, 8, PNG_INTERLACE_NONE};
    case PNG_INTERLACED: return (png_form){PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_ADAM7};
    default: return (png_form){PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_NONE};
    }
}

/* Palette entry i is the colour (i, 255 - i, i / 2), and a picture's red chooses it. */
static void convert_png_row(png_kind kind, uint32_t width, const uint8_t *rgb, uint8_t *to)
{
    memset(to, 0, 8 * (size_t)width);
    for (uint32_t x = 0; x < width; x++, rgb += 3) {
        switch (kind) {
        case PNG_RGB16:
            for (size_t c = 0; c < 3; c++)
                to[6 * (size_t)x + 2 * c] = to[6 * (size_t)x + 2 * c + 1] = rgb[c];
            break;
        case PNG_RGBA:
            memcpy(to + 4 * (size_t)x, rgb, 3);
            to[4 * (size_t)x + 3] = (uint8_t)x;
            break;
        case PNG_GREY:
        case PNG_PALETTE: to[x] = rgb[0]; break;
        case PNG_GREY_1BIT: to[x / 8] |= (uint8_t)((rgb[0] >> 7) << (7 - x % 8)); break;
        case PNG_GREY_ALPHA16: to[4 * (size_t)x] = to[4 * (size_t)x + 1] = rgb[0]; break;
        default: memcpy(to + 3 * (size_t)x, rgb, 3);
        }
    }
}

static void grow_blob(png_structp png, png_bytep data, size_t bytes)
{
    blob *b = png_get_io_ptr(png);
    b->data = realloc(b->data, b->bytes + bytes);
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
}

static void flush_nothing(png_structp png)
{
    (void)png;
}

static void add_texts(png_structp png, png_infop info)
{
    enum { N_TEXTS = 16, TEXT_BYTES = 7000000 };
    char key[] = "Comment", *text = need_malloc(TEXT_BYTES + 1);
    memset(text, 'a', TEXT_BYTES);
    text[TEXT_BYTES] = '\0';
    const png_text one = {.compression = PNG_TEXT_COMPRESSION_zTXt, .key = key, .text = text, .text_length = TEXT_BYTES};
    for (int i = 0; i < N_TEXTS; i++)
        png_set_text(png, info, &one, 1);
    free(text);
}

blob png_bytes(const drawing *d, png_kind kind)
{
    blob b = {.data = NULL, .bytes = 0};
    const png_form form = form_of(kind);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &b, grow_blob, flush_nothing);
    png_set_IHDR(png, info, d->width, d->height, form.depth, form.colour, form.interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_color palette[256];
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(uint8_t)i, (uint8_t)(255 - i), (uint8_t)(i / 2)};
    if (kind == PNG_PALETTE)
        png_set_PLTE(png, info, palette, 256);
    if (kind == PNG_TEXTS)
        add_texts(png, info);
    png_write_info(png, info);
    uint8_t *rgb = need_malloc(3 * (size_t)d->width), *row = need_malloc(8 * (size_t)d->width);
    const int n_passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < n_passes; pass++) {
        for (uint32_t y = 0; y < d->height; y++) {
            draw_row(d, y, rgb);
            convert_png_row(kind, d->width, rgb, row);
            png_write_row(png, row);
        }
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(rgb);
    free(row);
    return b;
}

/* ---- data sets ---- */

comet_dataset *open_data(const char *spec, comet_split split)
{
    comet_dataset_params params;
    comet_dataset *d = NULL;
    comet_dataset_params_init(&params);
    params.split = split;
    assert_ok(comet_dataset_open(&d, spec, &params));
    return d;
}

float *read_image(const comet_dataset *d, uint64_t index, uint32_t *label)
{
    scratch memory = {.file = {NULL, 0}};
    float *image = need_malloc(dataset_image_floats(d) * sizeof *image);
    assert_ok(dataset_read(d, index, NULL, &memory, image));
    if (label)
        *label = d->source->label(d, index);
    scratch_free(&memory);
    return image;
}

void assert_refused(const char *spec, comet_split split, comet_status expected, const char *const words[])
{
    comet_dataset_params params;
    comet_dataset *d = NULL;
    comet_dataset_params_init(&params);
    params.split = split;
    const comet_status status = comet_dataset_open(&d, spec, &params);
    if (status == COMET_OK) {
        comet_dataset_close(d);
        fail_because("%s was accepted", spec);
    }
    if (status != expected)
        fail_because("%s: %s instead of %s: %s", spec, comet_status_name(status), comet_status_name(expected),
                     comet_last_error());
    for (; *words; words++)
        if (!strstr(comet_last_error(), *words))
            fail_because("'%s' is not in: %s", *words, comet_last_error());
}
