/*
 * synthetic: pictures of one textured shape on a textured ground, computed on demand, for trying things out without a file. The
 * class is a pair of shape and texture; place, size, tilt, colours, ground and noise differ from image to image, so a net has
 * to find form and pattern, and no colour or position gives the class away.
 *
 *   shape    a circle with k waves around it, r < 1 + depth cos(k angle), perhaps with a hole, perhaps flattened
 *   texture  stripes, checks, rings or dots of some direction and fineness
 *
 * Everything is made of sums, products, quotients and square roots, which are exact to the last bit on every machine: waves are
 * triangles, and cos(k angle) is the real part of a power of a complex number. An image is a function of (seed, split, index).
 */
#include <math.h>

#include "base/status.h"
#include "train/data/dataset.h"

enum { N_SHAPES = 64, N_TEXTURES = 64, MAX_CHANNELS = 16, MIN_SIDE = 8, MAX_SYNTHETIC_SIDE = 4096 };
enum { TEXTURE_STRIPES, TEXTURE_CHECKS, TEXTURE_RINGS, TEXTURE_DOTS };

typedef struct direction {
    float x, y; /* of length 1 */
} direction;

typedef struct shape {
    unsigned n_waves;
    float depth, hole, flatness;
} shape;

typedef struct texture {
    int kind;
    direction along;
    float fineness; /* periods across the radius of the shape */
} texture;

/* One image before its pixels. Coordinates of the shape have its centre at 0 and its mean radius at 1. */
typedef struct scene {
    shape shape;
    texture texture, ground;
    float centre_x, centre_y, per_pixel;
    direction tilt;
    float phase, ground_phase;
    float bright[MAX_CHANNELS], dark[MAX_CHANNELS], ground_bright[MAX_CHANNELS], ground_dark[MAX_CHANNELS];
    float noise;
} scene;

/* ---- what the seed fixes ---- */

static direction direction_of(float x, float y)
{
    const float length = sqrtf(x * x + y * y);
    return (direction){x / length, y / length};
}

static direction turn(direction d, direction by)
{
    return (direction){d.x * by.x - d.y * by.y, d.x * by.y + d.y * by.x};
}

static float between(comet_random *r, float low, float high)
{
    return low + (high - low) * ((float)(comet_random_u32(r) >> 8) * 0x1p-24f);
}

static shape shape_of(uint32_t s)
{
    static const unsigned waves[8] = {0, 3, 4, 2, 5, 6, 8, 7};
    const unsigned n_waves = waves[s % 8];
    const bool deep = (s / 16) % 2, flat = (s / 32) % 2 || (n_waves == 0 && deep);
    return (shape){.n_waves = n_waves,
                   .depth = n_waves == 0 ? 0
                            : deep       ? 0.45f
                                         : 0.25f,
                   .hole = (s / 8) % 2 ? 0.45f : 0,
                   .flatness = flat ? 1.8f : 1};
}

/* The seed turns and stretches the textures a little. */
static texture texture_of(uint32_t t, uint64_t seed)
{
    static const direction directions[4] = {{1, 0}, {0, 1}, {0.70710678f, 0.70710678f}, {0.70710678f, -0.70710678f}};
    static const float fineness[4] = {1.6f, 2.6f, 1.1f, 3.8f};
    comet_random r = comet_random_start(seed, COMET_STREAM_SYNTHETIC, COMET_SPLIT_TEST + 1, 0);
    const direction by = direction_of(1, between(&r, -0.4f, 0.4f));
    const float stretch = between(&r, 0.9f, 1.15f);
    return (texture){
        .kind = (int)(t % 4), .along = turn(directions[(t / 4) % 4], by), .fineness = fineness[(t / 16) % 4] * stretch};
}

/* The pairs of shape and texture fill the smallest square that has room for all classes. */
static void class_parts(uint32_t label, uint32_t n_classes, uint32_t *s, uint32_t *t)
{
    uint32_t side = 1;
    while (side * side < n_classes)
        side++;
    *s = label % side;
    *t = label / side;
}

/* ---- what the index fixes ---- */

/* One draw a statement: C leaves the order open within an initialiser or a list of arguments, and compilers differ in it. */
static texture ground_of(comet_random *r)
{
    texture ground = {.kind = (int)comet_random_below(r, 4)};
    ground.fineness = between(r, 0.2f, 1.2f);
    const float y = between(r, 0.05f, 1);
    const float x = between(r, -1, 1);
    ground.along = direction_of(x, y);
    return ground;
}

static scene scene_of(const comet_dataset *d, uint32_t label, comet_random *r)
{
    scene s = {.noise = between(r, 0.01f, 0.1f)};
    uint32_t shape_number, texture_number;
    class_parts(label, d->info.n_classes, &shape_number, &texture_number);
    s.shape = shape_of(shape_number);
    s.texture = texture_of(texture_number, d->params.seed);
    const float side = (float)d->info.width, radius = side * between(r, 0.26f, 0.4f);
    s.per_pixel = 1 / radius;
    s.centre_x = between(r, 0.8f * radius, side - 0.8f * radius);
    s.centre_y = between(r, 0.8f * radius, side - 0.8f * radius);
    s.tilt = direction_of(1, between(r, -0.35f, 0.35f));
    s.phase = between(r, 0, 1);
    s.ground = ground_of(r);
    s.ground_phase = between(r, 0, 1);
    for (uint32_t c = 0; c < d->info.channels; c++) {
        s.bright[c] = between(r, 0.35f, 1);
        s.dark[c] = s.bright[c] - between(r, 0.25f, 0.7f);
        s.ground_bright[c] = between(r, 0, 1);
        s.ground_dark[c] = s.ground_bright[c] + between(r, -0.15f, 0.15f);
    }
    return s;
}

/* ---- pixels ---- */

/* A wave of period 1 between 0 and 1. */
static float wave(float x)
{
    const float part = x - floorf(x);
    return part < 0.5f ? 2 * part : 2 - 2 * part;
}

/* Makes a wave steeper, and flat at its ends. */
static float sharpen(float v)
{
    const float steep = (v - 0.5f) * 3 + 0.5f;
    return steep < 0 ? 0 : steep > 1 ? 1 : steep;
}

static float texture_at(const texture *t, float phase, float x, float y)
{
    const float u = (x * t->along.x + y * t->along.y) * t->fineness + phase;
    const float v = (y * t->along.x - x * t->along.y) * t->fineness + phase;
    switch (t->kind) {
    case TEXTURE_STRIPES: return sharpen(wave(u));
    case TEXTURE_CHECKS: return sharpen(0.5f + 2 * (wave(u) - 0.5f) * (wave(v) - 0.5f));
    case TEXTURE_RINGS: return sharpen(wave(sqrtf(4 * u * u + v * v))); /* flattened along its direction */
    default: return sharpen(1.6f * wave(u) * wave(v));
    }
}

/* How far inside the outline a point is, in radii; below 0 outside. */
static float inside(const shape *s, float x, float y)
{
    y *= s->flatness;
    const float r = sqrtf(x * x + y * y);
    if (r < 1e-6f)
        return s->hole > 0 ? -s->hole : 1;
    const float ux = x / r, uy = y / r;
    float px = 1, py = 0;
    for (unsigned k = 0; k < s->n_waves; k++) {
        const float next = px * ux - py * uy;
        py = px * uy + py * ux;
        px = next;
    }
    const float edge = 1 + s->depth * px - r, hole = r - s->hole;
    return s->hole > 0 && hole < edge ? hole : edge;
}

static void write_pixel(const scene *s, uint32_t n_channels, uint32_t x, uint32_t y, comet_random *r, size_t plane, float *to)
{
    const float dx = ((float)x + 0.5f - s->centre_x) * s->per_pixel, dy = ((float)y + 0.5f - s->centre_y) * s->per_pixel;
    const float u = dx * s->tilt.x + dy * s->tilt.y, v = dy * s->tilt.x - dx * s->tilt.y;
    const float ground = texture_at(&s->ground, s->ground_phase, dx, dy);
    float cover = 0, pattern = 0;
    if (u * u + v * v < 2.25f) { /* no outline goes further */
        const float depth = inside(&s->shape, u, v) / s->per_pixel + 0.5f;
        cover = depth < 0 ? 0 : depth > 1 ? 1 : depth;
        pattern = cover > 0 ? texture_at(&s->texture, s->phase, u, v) : 0;
    }
    uint32_t random = 0;
    for (uint32_t c = 0; c < n_channels; c++, random >>= 8) {
        if (c % 4 == 0)
            random = comet_random_u32(r);
        const float back = s->ground_dark[c] + (s->ground_bright[c] - s->ground_dark[c]) * ground;
        const float front = s->dark[c] + (s->bright[c] - s->dark[c]) * pattern;
        const float noise = ((float)(random & 255) - 127.5f) * (s->noise / 64);
        const float value = back + (front - back) * cover + noise;
        to[c * plane] = (value - 0.5f) * 4; /* mean about 0.5, deviation about 0.25 */
    }
}

static uint32_t synthetic_label(const comet_dataset *d, uint64_t index)
{
    return (uint32_t)(index % d->info.n_classes);
}

static comet_status synthetic_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *memory, void *row)
{
    (void)random; /* every image is as random as can be */
    (void)memory;
    const uint32_t side = d->info.width;
    float *image = row;
    comet_random r = comet_random_start(d->params.seed, COMET_STREAM_SYNTHETIC, (uint64_t)d->params.split, (uint32_t)index);
    const scene s = scene_of(d, synthetic_label(d, index), &r);
    for (uint32_t y = 0; y < side; y++)
        for (uint32_t x = 0; x < side; x++)
            write_pixel(&s, d->info.channels, x, y, &r, (size_t)side * side, image + (size_t)y * side + x);
    return COMET_OK;
}

/* ---- opening ---- */

static comet_status check_limits(const comet_dataset_info *info)
{
    if (info->width < MIN_SIDE || info->width > MAX_SYNTHETIC_SIDE)
        return comet_fail(COMET_ERROR_ARGUMENT, "synthetic: images of %u pixels were asked for; %d to %d are possible",
                          info->width, MIN_SIDE, MAX_SYNTHETIC_SIDE);
    if (info->channels > MAX_CHANNELS)
        return comet_fail(COMET_ERROR_ARGUMENT, "synthetic: %u channels were asked for; 1 to %d are possible", info->channels,
                          MAX_CHANNELS);
    if (info->n_classes < 2 || info->n_classes > N_SHAPES * N_TEXTURES)
        return comet_fail(COMET_ERROR_ARGUMENT, "synthetic: %u classes were asked for; 2 to %d are possible", info->n_classes,
                          N_SHAPES * N_TEXTURES);
    return COMET_OK;
}

/* As write_pixel does. */
static const double means[MAX_CHANNELS] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
static const double deviations[MAX_CHANNELS] = {0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25,
                                                0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25};

static comet_status synthetic_open(comet_dataset *d, const char *where)
{
    (void)where;
    d->preparation = (preparation_rule){.means = means, .deviations = deviations, .is_bytes = true};
    const comet_dataset_params *p = &d->params;
    d->info.n_images = p->n_images > 0 ? p->n_images : p->split == COMET_SPLIT_TEST ? 10000 : 50000;
    d->info.channels = p->channels > 0 ? p->channels : 3;
    d->info.height = d->info.width = p->image > 0 ? p->image : 32;
    d->info.n_classes = p->classes > 0 ? p->classes : 10;
    return check_limits(&d->info);
}

static void synthetic_close(comet_dataset *d)
{
    (void)d;
}

const dataset_source source_synthetic = {"synthetic", synthetic_open, synthetic_read, synthetic_label, synthetic_close};
