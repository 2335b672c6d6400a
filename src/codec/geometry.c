/* Tensor descriptions and the shapes derived from them. */
#include "codec/geometry.h"

#include <string.h>

#include "base/status.h"

#define MAX_LINE ((uint64_t)1 << 18) /* longer lines are taken as a flat sequence */
#define FLAT_LINE ((size_t)4096)
#define MAX_CHANNELS ((uint64_t)1 << 14)
#define FAST_CHUNK ((uint64_t)1 << 17)         /* elements: the codes of a chunk stay in the second-level cache */
#define DEVICE_FAST_CHUNK ((uint64_t)1 << 13)  /* the codes of a chunk stay in the memory that a work-group shares */
#define DEVICE_DENSE_CHUNK ((uint64_t)1 << 18) /* so many share tables */
#define DENSE_CHUNK ((uint64_t)1 << 18)
#define WIDE_CHUNK ((uint64_t)1 << 22) /* dense, where lines are long */
#define WAVE_CHUNK ((uint64_t)3 << 19) /* dense, with lanes in a wave: tables and states take 400 bytes a chunk */
#define MIN_BAND_ROWS ((uint64_t)8)
#define MIN_CHUNK_LINES ((uint64_t)32) /* the first line of a chunk has none above it, so chunks hold many */

size_t comet_dtype_bytes(comet_dtype dtype)
{
    switch (dtype) {
    case COMET_DTYPE_F32: return 4;
    case COMET_DTYPE_F16:
    case COMET_DTYPE_BF16: return 2;
    case COMET_DTYPE_F64: return 8;
    }
    return 0;
}

static comet_status check_tensor(const comet_tensor *t)
{
    if (!t)
        return comet_fail(COMET_ERROR_ARGUMENT, "the tensor description is null");
    if (t->size != sizeof *t)
        return comet_fail(COMET_ERROR_ARGUMENT, "the tensor description was not filled by comet_tensor_init (size %zu)",
                          t->size);
    if (comet_dtype_bytes(t->dtype) == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "unknown element type %d", (int)t->dtype);
    if (t->n_dims < 1 || t->n_dims > COMET_MAX_DIMS)
        return comet_fail(COMET_ERROR_ARGUMENT, "%u dimensions; 1 to %d are possible", t->n_dims, COMET_MAX_DIMS);
    if ((unsigned)t->layout > COMET_LAYOUT_BLOCKED16)
        return comet_fail(COMET_ERROR_ARGUMENT, "unknown layout %d", (int)t->layout);
    if (t->layout != COMET_LAYOUT_PLANAR && t->n_dims < 3)
        return comet_fail(COMET_ERROR_ARGUMENT, "layouts other than planar need at least 3 dimensions, got %u", t->n_dims);
    return COMET_OK;
}

uint64_t comet_layout_block(comet_layout layout)
{
    return layout == COMET_LAYOUT_BLOCKED16 ? 16 : layout == COMET_LAYOUT_BLOCKED8 ? 8 : 1;
}

static comet_status count_elements(const comet_tensor *t, uint64_t *n_elements)
{
    uint64_t n = 1, block = comet_layout_block(t->layout), element = comet_dtype_bytes(t->dtype);
    bool empty = false;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        uint64_t d = t->dims[i];
        empty = empty || d == 0;
        if (i + 3 == t->n_dims && d > UINT64_MAX - block)
            return comet_fail(COMET_ERROR_OVERFLOW, "dimension %u is too large", i);
        if (i + 3 == t->n_dims)
            d = ceil_div_u64(d, block) * block;
        if (d != 0 && n > (uint64_t)PTRDIFF_MAX / element / d)
            return comet_fail(COMET_ERROR_OVERFLOW, "the tensor's size in bytes does not fit this machine (dimension %u)", i);
        n *= d ? d : 1;
    }
    *n_elements = empty ? 0 : n;
    return COMET_OK;
}

comet_status geometry_make(const comet_tensor *t, geometry *g)
{
    comet_status status = check_tensor(t);
    uint64_t n = 0;
    if (status == COMET_OK)
        status = count_elements(t, &n);
    if (status != COMET_OK)
        return status;
    uint64_t columns = t->dims[t->n_dims - 1];
    uint64_t lines = t->n_dims >= 2 ? t->dims[t->n_dims - 2] : 1;
    uint64_t channels = t->layout == COMET_LAYOUT_CHANNELS_LAST ? t->dims[t->n_dims - 3] : comet_layout_block(t->layout);
    if (n == 0)
        columns = lines = channels = 1;
    bool flat = channels > MAX_CHANNELS || columns > MAX_LINE / channels;
    *g = (geometry){.n_elements = n,
                    .channels = flat ? 1 : (size_t)channels,
                    .columns = flat ? FLAT_LINE : (size_t)columns,
                    .lines = flat ? 1 : lines};
    g->line = g->channels * g->columns;
    return COMET_OK;
}

comet_status comet_tensor_init(comet_tensor *tensor, comet_dtype dtype, uint32_t n_dims, const uint64_t *dims)
{
    if (!tensor || !dims)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_tensor_init: null pointer");
    if (n_dims < 1 || n_dims > COMET_MAX_DIMS)
        return comet_fail(COMET_ERROR_ARGUMENT, "%u dimensions; 1 to %d are possible", n_dims, COMET_MAX_DIMS);
    comet_tensor t = {.size = sizeof t, .dtype = dtype, .layout = COMET_LAYOUT_PLANAR, .n_dims = n_dims};
    memcpy(t.dims, dims, n_dims * sizeof *dims);
    geometry g;
    comet_status status = geometry_make(&t, &g);
    if (status == COMET_OK)
        *tensor = t;
    return status;
}

comet_status comet_tensor_elements(const comet_tensor *tensor, uint64_t *n_elements)
{
    geometry g;
    comet_status status = geometry_make(tensor, &g);
    if (status == COMET_OK && !n_elements)
        status = comet_fail(COMET_ERROR_ARGUMENT, "comet_tensor_elements: null pointer");
    if (status == COMET_OK)
        *n_elements = g.n_elements;
    return status;
}

comet_status comet_tensor_bytes(const comet_tensor *tensor, size_t *bytes)
{
    uint64_t n;
    comet_status status = comet_tensor_elements(tensor, &n);
    if (status == COMET_OK && !bytes)
        status = comet_fail(COMET_ERROR_ARGUMENT, "comet_tensor_bytes: null pointer");
    if (status == COMET_OK)
        *bytes = (size_t)n * comet_dtype_bytes(tensor->dtype);
    return status;
}

/* Bands that a chunk's lines are cut into, so that bands x channels fills the lanes: exactly where 64 is a multiple of the
 * channels, else with at most a sixteenth of the lanes spare. */
static size_t bands_of(size_t channels)
{
    if (channels <= LANES && LANES % channels == 0)
        return LANES / channels;
    size_t bands = 1;
    while ((LANES - bands * channels % LANES) % LANES > bands * channels / 16)
        bands++;
    return bands;
}

/* Whole planes where a few fit; else bands of equal parts of a plane, of several rows even where lines are long. */
static uint64_t dense_chunk_lines(const geometry *g)
{
    uint64_t bands = bands_of(g->channels), group = bands * g->line;
    uint64_t rows = 2 * DENSE_CHUNK / group, rows_at_least = min_u64(MIN_BAND_ROWS, WIDE_CHUNK / group);
    rows = rows > rows_at_least ? rows : rows_at_least;
    if (rows == 0)
        return g->line < DENSE_CHUNK ? DENSE_CHUNK / g->line : 1;
    if (g->lines > rows)
        return bands * ceil_div_u64(g->lines, ceil_div_u64(g->lines, rows));
    uint64_t planes = DENSE_CHUNK / (group * g->lines);
    return bands * g->lines * (planes ? planes : 1);
}

static bool waves_suit(const geometry *g)
{
    return g->channels == 1 && g->columns >= WAVE_MIN_COLUMNS && g->n_elements >= WAVE_MIN_ROWS * g->columns;
}

/* Equal parts of the tensor, of whole planes where a few fit. */
static uint64_t wave_chunk_lines(const geometry *g)
{
    uint64_t lines = g->n_elements / g->columns, unit = 2 * g->lines * g->columns <= WAVE_CHUNK ? g->lines : 1;
    uint64_t units = lines / unit, most = WAVE_CHUNK / (unit * g->columns);
    return unit * ceil_div_u64(units, ceil_div_u64(units, most ? most : 1));
}

/* Whole planes, and whole blocks, where that is possible. */
static uint64_t fast_chunk_lines(const geometry *g)
{
    uint64_t lines = FAST_CHUNK / g->line, unit = g->lines;
    if (lines < MIN_CHUNK_LINES)
        return MIN_CHUNK_LINES;
    while (unit <= lines && unit * g->line % BLOCK != 0)
        unit *= 2;
    return unit <= lines ? lines / unit * unit : lines;
}

uint64_t geometry_most_elements(comet_level level, comet_profile profile)
{
    if (profile == COMET_PROFILE_HOST)
        return MAX_CHUNK_ELEMENTS;
    return level == COMET_LEVEL_FAST ? DEVICE_FAST_CHUNK : DEVICE_DENSE_CHUNK;
}

size_t geometry_part_elements(const geometry *g)
{
    if (g->line > PART_MOST)
        return g->channels > PART_MOST ? PART_MOST : PART_MOST / g->channels * g->channels;
    uint64_t lines = PART_MOST / g->line;
    if (g->lines <= lines)
        return (size_t)(lines / g->lines * g->lines) * g->line;
    return (size_t)ceil_div_u64(g->lines, ceil_div_u64(g->lines, lines)) * g->line;
}

static uint64_t device_chunk(const geometry *g, comet_level level)
{
    size_t part = geometry_part_elements(g);
    return level == COMET_LEVEL_FAST ? DEVICE_FAST_CHUNK : DEVICE_DENSE_CHUNK / part * part;
}

static uint64_t host_chunk(const geometry *g, comet_level level)
{
    uint64_t lines = level == COMET_LEVEL_FAST ? fast_chunk_lines(g)
                     : waves_suit(g)           ? wave_chunk_lines(g)
                                               : dense_chunk_lines(g);
    return min_u64(lines * g->line, MAX_CHUNK_ELEMENTS);
}

uint64_t geometry_chunk_elements(const geometry *g, comet_level level, comet_profile profile)
{
    uint64_t elements = profile == COMET_PROFILE_DEVICE ? device_chunk(g, level) : host_chunk(g, level);
    elements = min_u64(elements, g->n_elements);
    return elements < MIN_CHUNK_ELEMENTS ? MIN_CHUNK_ELEMENTS : elements;
}

lanes geometry_lanes(const geometry *g, uint64_t chunk_elements, size_t n)
{
    lanes l = {.n = n, .channels = g->channels, .columns = g->columns};
    if (l.channels > n)
        l.channels = 1;
    l.bands = bands_of(l.channels);
    l.width = (l.bands * l.channels + LANES - 1) / LANES * LANES;
    size_t line = l.channels * l.columns, chunk_lines = (n + line - 1) / line;
    if (l.channels != g->channels || 2 * chunk_lines <= l.bands) { /* too few lines for the bands: one run of elements each */
        l.columns = (size_t)ceil_div_u64(n, l.bands * l.channels);
        l.rows = 1;
    } else {
        l.rows = (chunk_lines + l.bands - 1) / l.bands;
    }
    bool planes = chunk_elements % (g->line * g->lines) == 0 && l.rows % g->lines == 0;
    l.period = planes ? (size_t)g->lines : l.rows;
    return l;
}

bool geometry_wave(const geometry *g, size_t n, wave_shape *w)
{
    if (g->channels != 1 || g->columns < WAVE_MIN_COLUMNS || n % g->columns != 0 || n / g->columns < WAVE_MIN_ROWS)
        return false;
    *w = (wave_shape){.columns = g->columns, .rows = n / g->columns, .period = g->columns + 2};
    w->lines = (size_t)min_u64(g->lines, w->rows);
    /* The last step is that of the last line, or of lane 63 a strip earlier. */
    size_t last = w->rows - 1, end = last / LANES * w->period + 2 * (last % LANES);
    size_t before = last >= LANES ? (last / LANES - 1) * w->period + 2 * (LANES - 1) : 0;
    w->steps = (end > before ? end : before) + w->columns + 1;
    return true;
}
