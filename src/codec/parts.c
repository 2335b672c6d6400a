/* How a part is arranged, and what its cells are predicted from: see parts.h. */
#include "codec/parts.h"

#include "codec/kernels/dense_model.h"

enum { PART_COLUMNS = 64 }; /* of lines that hold several tiles; at least as many steps from a line to the next of the lane */
enum { PART_LAG = 2 };      /* steps from a lane to the next */

/* ---- arrangement ---- */

typedef struct arrangement {
    size_t n, channels, columns;
    size_t height, tiles, tiles_a_channel;
    size_t side, width, lines, period; /* of lines: tiles, places, their number, steps from one to the lane's next */
} arrangement;

static arrangement arrange(const geometry *g, size_t n)
{
    arrangement a = {.n = n, .channels = g->channels, .columns = g->columns};
    size_t rows = n / g->line;
    a.height = rows % g->lines == 0 ? (size_t)g->lines : rows;
    if (rows == 0 || n % g->line) {
        a.channels = n % g->channels ? 1 : g->channels;
        a.columns = PART_COLUMNS;
        a.height = rows = (n / a.channels + PART_COLUMNS - 1) / PART_COLUMNS;
    }
    a.tiles_a_channel = rows / a.height;
    a.tiles = a.channels * a.tiles_a_channel;
    a.side = a.columns < PART_COLUMNS ? PART_COLUMNS / a.columns : 1;
    a.width = a.side * a.columns;
    a.lines = (a.tiles + a.side - 1) / a.side * a.height;
    a.period = a.width > PART_COLUMNS ? a.width : PART_COLUMNS;
    return a;
}

/* The cell at a place of a line; false if there is none. */
static bool cell_at(const arrangement *a, size_t line, size_t place, part_cell *cell)
{
    size_t tile = line / a->height * a->side + place / a->columns, column = place % a->columns;
    if (tile >= a->tiles)
        return false;
    size_t row = line % a->height, channel = tile / a->tiles_a_channel;
    size_t y = tile % a->tiles_a_channel * a->height + row, element = (y * a->columns + column) * a->channels + channel;
    if (element >= a->n)
        return false;
    cell->element = (uint16_t)element;
    cell->edges = (uint8_t)((row == 0 ? EDGE_TOP : 0) | (column == 0 ? EDGE_LEFT : 0) | (column == 1 ? EDGE_SECOND : 0) |
                            (column + 1 == a->columns ? EDGE_RIGHT : 0));
    return true;
}

part_map part_map_make(const geometry *g, size_t n, part_cell *cells)
{
    const arrangement a = arrange(g, n);
    size_t strips = (a.lines + PART_LANES - 1) / PART_LANES, steps = strips * a.period + PART_LAG * (PART_LANES - 1), next = 0;
    for (size_t step = 0; step < steps; step++) {
        size_t first = next;
        for (size_t lane = 0; lane < PART_LANES && PART_LAG * lane <= step; lane++) {
            size_t position = step - PART_LAG * lane, line = position / a.period * PART_LANES + lane,
                   place = position % a.period;
            if (place >= a.width || line >= a.lines || !cell_at(&a, line, place, &cells[next]))
                continue;
            cells[next++].lane = (uint8_t)lane;
        }
        if (next > first)
            cells[next - 1].edges |= EDGE_STEP_END;
    }
    return (part_map){n, (ptrdiff_t)a.channels, (ptrdiff_t)(a.channels * a.columns), cells};
}

part_maps part_maps_make(const geometry *g, size_t part_elements, size_t n, part_cell *cells)
{
    part_maps maps = {.part_elements = part_elements, .n_parts = (n + part_elements - 1) / part_elements};
    size_t last = n - (maps.n_parts - 1) * part_elements;
    maps.whole = maps.last = part_map_make(g, maps.n_parts > 1 ? part_elements : last, cells);
    if (last != maps.whole.n)
        maps.last = part_map_make(g, last, cells + PART_MOST);
    return maps;
}

/* ---- context ---- */

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static int64_t median(int64_t a, int64_t b, int64_t c)
{
    int64_t low = a < b ? a : b, high = a < b ? b : a, plane = a + b - c;
    return plane < low ? low : plane > high ? high : plane;
}

static int64_t clip(int64_t v, int64_t most)
{
    return v > most ? most : v < -most ? -most : v;
}

static unsigned context_by(int64_t gradient, int64_t magnitude)
{
    int64_t m = distance(magnitude, 0);
    return context_of[4 * gradient_level[gradient < 31 ? gradient : 31] + magnitude_level[m < 4 ? m : 4]];
}

static part_outlook look_wave(int64_t W, int64_t N, int64_t NW, int64_t NE)
{
    int64_t v = 25 * clip(W - NW, 2) + 5 * clip(N - NW, 2) + clip(NE - N, 2), m = distance(v, 0);
    return (part_outlook){median(W, N, NW), wave_context[0][m < WAVE_OUTLOOKS ? m : WAVE_OUTLOOKS - 1], v < 0};
}

part_outlook part_look(const part_map *map, part_cell cell, enum code_width width, enum predictor predictor, const void *codes)
{
    const ptrdiff_t i = cell.element;
    const bool top = cell.edges & EDGE_TOP, left = cell.edges & EDGE_LEFT, right = cell.edges & EDGE_RIGHT;
    int64_t N = top ? 0 : code_at(width, codes, i - map->up), W = left ? N : code_at(width, codes, i - map->left);
    int64_t NW = left || top ? N : code_at(width, codes, i - map->up - map->left);
    int64_t NE = right || top ? N : code_at(width, codes, i - map->up + map->left);
    int64_t gradient = distance(W, NW) + distance(N, NW) + distance(N, NE), P;
    switch (predictor) {
    case PREDICT_WAVE: return look_wave(W, N, NW, NE);
    case PREDICT_MEDIAN: P = median(W, N, NW); return (part_outlook){P, context_by(gradient, P), false};
    case PREDICT_LORENZO: P = W + N - NW; return (part_outlook){P, context_by(gradient, P), false};
    case PREDICT_LEFT: {
        int64_t WW = left ? N : cell.edges & EDGE_SECOND ? NW : code_at(width, codes, i - 2 * map->left);
        return (part_outlook){W, context_by(2 * distance(W, WW), W), false};
    }
    default: return (part_outlook){0, context_by(gradient, W + N), false};
    }
}

/* ---- buffers ---- */

size_t parts_cells_room(void)
{
    return 2 * PART_MOST * sizeof(part_cell);
}

/* The cells, the bits of a part's cells, the escapes. */
size_t parts_words_room(size_t n)
{
    return parts_cells_room() + (PART_MOST + n) * sizeof(uint32_t);
}

size_t parts_symbols_room(size_t n)
{
    return n * sizeof(uint16_t);
}
