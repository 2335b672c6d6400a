/*
 * Made-up activations; see fieldgen.h.
 *
 * A field of grid width g is a lattice of random values, one every g elements, interpolated linearly in both directions.
 * Lattice values come from a hash of (seed, plane, grid, row, column), so no state is kept.
 */
#include "tensor/fieldgen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "kit/pages.h"

typedef struct grid {
    uint64_t width;
    float weight;
} grid;

enum { N_GRIDS = 4 };

typedef struct texture {
    grid grids[N_GRIDS];
    float noise;
} texture;

/* Chosen so that ratios are near those of ResNet-18's tensors: activations after a ReLU have a finer texture. */
static const texture textures[] = {
    [FIELD_RELU] = {{{32, 0.4f}, {12, 0.5f}, {5, 0.7f}, {2, 0.6f}}, 0.1f},
    [FIELD_BN] = {{{32, 0.55f}, {12, 0.65f}, {5, 0.5f}, {2, 0.12f}}, 0.02f},
    [FIELD_NOISE] = {.noise = 1.0f},
};

/* ---- random numbers ---- */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Uniform in [-1, 1), a multiple of 2^-23. */
static float uniform(uint64_t key, uint64_t counter)
{
    return (float)(int32_t)(mix(key + counter * 0xd1342543de82ef95u) >> 40) * 0x1p-23f - 1.0f;
}

/* ---- one plane ---- */

typedef struct plane {
    uint64_t height, width;
    uint64_t key;
    float scale, offset;
    float *lattice; /* a row of lattice values, width + 2 of them at most */
} plane;

/* One row of the lattice between its rows r and r + 1, `down` of the way. */
static void lattice_row(const plane *p, const grid *g, uint64_t grid_key, uint64_t r, float down)
{
    const uint64_t n = p->width / g->width + 2;
    const uint64_t upper = mix(grid_key ^ r);
    const uint64_t lower = mix(grid_key ^ (r + 1));
    for (uint64_t i = 0; i < n; i++) {
        const float a = uniform(upper, i);
        const float b = uniform(lower, i);
        p->lattice[i] = a + (b - a) * down;
    }
}

static void add_grid(const plane *p, const grid *g, uint64_t row, float *values)
{
    const uint64_t grid_key = mix(p->key + g->width);
    const float step = 1.0f / (float)g->width;
    lattice_row(p, g, grid_key, row / g->width, (float)(row % g->width) * step);
    for (uint64_t x = 0, cell = 0; x < p->width; cell++) {
        const float a = p->lattice[cell] * g->weight;
        const float rise = (p->lattice[cell + 1] * g->weight - a) * step;
        for (uint64_t i = 0; i < g->width && x < p->width; i++, x++)
            values[x] += a + rise * (float)i;
    }
}

static void fill_row(const plane *p, field_kind kind, uint64_t row, float *values)
{
    const texture *t = &textures[kind];
    const uint64_t noise_key = mix(p->key ^ ~row);
    for (uint64_t x = 0; x < p->width; x++)
        values[x] = uniform(noise_key, x) * t->noise;
    if (kind == FIELD_NOISE)
        return;
    for (size_t i = 0; i < N_GRIDS; i++)
        add_grid(p, &t->grids[i], row, values);
    for (uint64_t x = 0; x < p->width; x++) {
        const float v = (values[x] + p->offset) * p->scale;
        values[x] = kind == FIELD_RELU && !(v > 0) ? 0 : v;
    }
}

/* Channels differ in scale by up to 4 either way and lie a little off zero. */
static void set_channel(plane *p, uint64_t seed, uint64_t channel)
{
    const uint64_t key = mix(seed ^ mix(channel));
    const float spread = uniform(key, 1);
    p->scale = spread < 0 ? 1.0f / (1.0f - 3.0f * spread) : 1.0f + 3.0f * spread;
    p->offset = 0.25f * uniform(key, 2);
}

static cli_exit fill(const field_spec *spec, float *values)
{
    const uint32_t n = spec->dims.n;
    const uint64_t *dims = spec->dims.items;
    plane p = {.width = dims[n - 1], .height = n > 1 ? dims[n - 2] : 1};
    const uint64_t channels = n > 2 ? dims[n - 3] : 1;
    uint64_t n_planes = 1;
    for (uint32_t i = 0; i + 2 < n; i++)
        n_planes *= dims[i];
    if (n_planes == 0 || p.width == 0 || p.height == 0)
        return CLI_OK;
    p.lattice = calloc(p.width + 2, sizeof *p.lattice);
    if (!p.lattice)
        return fail_memory((p.width + 2) * sizeof *p.lattice);
    for (uint64_t i = 0; i < n_planes; i++) {
        p.key = mix(spec->seed * 0x2545f4914f6cdd1du + i);
        set_channel(&p, spec->seed, i % channels);
        for (uint64_t y = 0; y < p.height; y++, values += p.width)
            fill_row(&p, spec->kind, y, values);
    }
    free(p.lattice);
    return CLI_OK;
}

/* ---- element types ---- */

/* Values below the normal range of f16 become zero. */
static uint16_t to_f16(float value)
{
    return f16_of_float(fabsf(value) < 0x1p-14f ? copysignf(0, value) : value);
}

static void convert(const float *from, uint64_t n, comet_dtype dtype, void *to)
{
    for (uint64_t i = 0; i < n; i++) {
        if (dtype == COMET_DTYPE_F64)
            ((double *)to)[i] = (double)from[i];
        else
            ((uint16_t *)to)[i] = dtype == COMET_DTYPE_F16 ? to_f16(from[i]) : bf16_of_float(from[i]);
    }
}

/* ---- public ---- */

bool field_is_spec(const char *text)
{
    return strncmp(text, "gen:", 4) == 0;
}

bool field_kind_parse(const char *text, field_kind *kind, reason *why)
{
    static const named kinds[] = {{"relu", FIELD_RELU}, {"bn", FIELD_BN}, {"noise", FIELD_NOISE}, {NULL, 0}};
    int value = 0;
    const bool known = named_find(kinds, "kind", "relu, bn or noise", text, &value, why);
    if (known)
        *kind = (field_kind)value;
    return known;
}

bool field_parse(const char *text, field_spec *spec, reason *why)
{
    char kind[16];
    const char *name = text + 4;
    const size_t length = strcspn(name, ":");
    if (name[length] != ':' || length >= sizeof kind)
        return reason_set(why, "write gen:KIND:N,C,H,W with relu, bn or noise as the kind");
    memcpy(kind, name, length);
    kind[length] = '\0';
    *spec = (field_spec){.dtype = COMET_DTYPE_F32};
    return field_kind_parse(kind, &spec->kind, why) && set_dims(&spec->dims, name + length + 1, why);
}

/* *loaded holds f32; turns it into `dtype`. */
static cli_exit convert_loaded(loaded_tensor *loaded, const comet_tensor *tensor, size_t bytes)
{
    void *converted = pages_alloc(bytes);
    if (!converted)
        return fail_memory(bytes);
    convert(loaded->memory, loaded->bytes / sizeof(float), tensor->dtype, converted);
    free(loaded->memory);
    *loaded = (loaded_tensor){.tensor = *tensor, .data = converted, .bytes = bytes, .memory = converted};
    return CLI_OK;
}

cli_exit field_make(const field_spec *spec, const char *subject, loaded_tensor *loaded)
{
    const dims_arg *dims = &spec->dims;
    comet_tensor tensor;
    size_t bytes = 0;
    *loaded = (loaded_tensor){.memory = NULL};
    cli_exit code =
        tensor_describe(spec->dtype, COMET_LAYOUT_PLANAR, dims->n, dims->items, CLI_USAGE, subject, &tensor, &bytes);
    if (code == CLI_OK)
        code = tensor_describe(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, dims->n, dims->items, CLI_USAGE, subject, &loaded->tensor,
                               &loaded->bytes);
    if (code != CLI_OK)
        return code;
    loaded->memory = pages_alloc(loaded->bytes);
    loaded->data = loaded->memory;
    if (!loaded->memory)
        return fail_memory(loaded->bytes);
    code = fill(spec, loaded->memory);
    if (code == CLI_OK && spec->dtype != COMET_DTYPE_F32)
        code = convert_loaded(loaded, &tensor, bytes);
    if (code != CLI_OK)
        tensor_free(loaded);
    return code;
}
