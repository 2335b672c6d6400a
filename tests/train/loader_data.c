/* See loader_data.h. */
#define _XOPEN_SOURCE 700
#include "loader_data.h"

#include <math.h>
#include <time.h>

#include "base/status.h"

/* ---- numbers ---- */

static comet_status made_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    made *m = d->state;
    float *image = row;
    atomic_fetch_add(&m->n_read, 1);
    const double seconds = index % 10 == 9 ? fmax(m->seconds, m->seconds_of_tenth) : m->seconds;
    if (seconds > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
    if (m->broken && m->broken[index])
        return comet_fail(COMET_ERROR_CORRUPT, "image-%u: broken by the test", (unsigned)index);
    for (int i = 0; i < 4; i++)
        image[i] = random ? (float)comet_random_uniform(random) : (float)index;
    return COMET_OK;
}

/* The same images as bytes. */
static comet_status made_read_bytes(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    float image[4];
    const comet_status status = made_read(d, index, NULL, s, image);
    for (int i = 0; i < 4; i++)
        ((uint8_t *)row)[i] = (uint8_t)(index + (uint64_t)i);
    return status;
}

static uint32_t made_label(const comet_dataset *d, uint64_t index)
{
    return (uint32_t)index;
}

static void made_close(comet_dataset *d)
{
}

static const dataset_source made_source = {"made", NULL, made_read, made_label, made_close};
static const dataset_source made_bytes_source = {"made", NULL, made_read_bytes, made_label, made_close};

comet_dataset made_dataset(made *m, uint64_t n_images)
{
    return (comet_dataset){.source = &made_source,
                           .info = {.n_images = n_images, .channels = 1, .height = 2, .width = 2, .n_classes = 1000},
                           .state = m};
}

comet_dataset made_bytes_dataset(made *m, uint64_t n_images)
{
    static byte_table tenth;
    comet_dataset d = made_dataset(m, n_images);
    for (int v = 0; v < 256; v++)
        tenth.of[v] = (float)v / 10;
    d.source = &made_bytes_source;
    d.tables = &tenth;
    return d;
}

comet_loader_params loader_params_with(uint32_t batch, uint32_t n_threads)
{
    comet_loader_params p;
    comet_loader_params_init(&p);
    p.batch = batch;
    p.n_threads = n_threads;
    p.seed = 7;
    return p;
}

comet_loader *new_loader(comet_dataset *d, const comet_loader_params *p)
{
    comet_loader *l = NULL;
    assert_ok(comet_loader_create(&l, d, p));
    return l;
}

comet_batch next_batch(comet_loader *l)
{
    comet_batch b;
    bool end = true;
    assert_ok(comet_loader_next(l, &b, &end));
    assert_false(end);
    return b;
}

/* ---- pictures ---- */

static void draw_stripes(uint32_t x, uint32_t y, uint8_t rgb[3])
{
    rgb[0] = (uint8_t)(x * 5);
    rgb[1] = (uint8_t)(y * 3);
    rgb[2] = (uint8_t)(x * y);
}

void make_pictures(const char *folder, int n)
{
    const drawing d = {61, 47, draw_stripes};
    make_folder(text_of("%s/train", folder));
    for (int c = 0; c < 2; c++) {
        make_folder(text_of("%s/train/%c", folder, 'a' + c));
        for (int i = 0; i < n; i++)
            write_blob(text_of("%s/train/%c", folder, 'a' + c), text_of("%02d.%s", i, i % 3 ? "jpg" : "png"),
                       i % 3 ? jpeg_bytes(&d, JPEG_COLOUR, 60 + 3 * i) : png_bytes(&d, PNG_RGB));
    }
}

comet_dataset *open_pictures(const char *folder, bool strict)
{
    comet_dataset *d = NULL;
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    params.image = 24;
    params.strict = strict;
    assert_ok(comet_dataset_open(&d, text_of("folder:%s", folder), &params));
    return d;
}
