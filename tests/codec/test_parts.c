/* How codes in parts are arranged, for many shapes: every element has one cell, lanes have at most one at a step, and what a
 * cell is predicted from is known a step before. Encoder and decoder share the code, so that a round trip cannot tell. */
#include "codec_testing.h"

#include "codec/parts.h"

enum { UNKNOWN = UINT32_MAX };

static part_cell cells[2 * PART_MOST];
static uint32_t step_of[PART_MOST]; /* of each element */
static int16_t codes[PART_MOST];

static geometry geometry_of(comet_layout layout, uint64_t channels, uint64_t height, uint64_t width)
{
    const uint64_t dims[] = {3, channels, height, width};
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, layout, 4, dims);
    geometry g;
    assert_ok(geometry_make(&t, &g));
    return g;
}

static void check_steps(const part_map *map)
{
    uint32_t step = 0;
    int last_lane = -1;
    memset(step_of, 0xff, sizeof step_of);
    for (size_t i = 0; i < map->n; i++) {
        part_cell c = map->cells[i];
        assert_true(c.element < map->n && step_of[c.element] == UNKNOWN);
        assert_true(c.lane < PART_LANES && (int)c.lane > last_lane);
        step_of[c.element] = step;
        last_lane = c.edges & EDGE_STEP_END ? -1 : c.lane;
        step += (c.edges & EDGE_STEP_END) != 0;
    }
    assert_true(last_lane == -1);
}

static void known_before(const part_cell *c, ptrdiff_t neighbour)
{
    assert_true(neighbour >= 0 && step_of[neighbour] < step_of[c->element]);
}

static void check_neighbours(const part_map *map)
{
    for (size_t i = 0; i < map->n; i++) {
        const part_cell *c = &map->cells[i];
        ptrdiff_t at = c->element;
        if (!(c->edges & EDGE_LEFT))
            known_before(c, at - map->left);
        if (!(c->edges & (EDGE_LEFT | EDGE_SECOND)))
            known_before(c, at - 2 * map->left);
        if (c->edges & EDGE_TOP)
            continue;
        known_before(c, at - map->up);
        if (!(c->edges & EDGE_LEFT))
            known_before(c, at - map->up - map->left);
        if (!(c->edges & EDGE_RIGHT))
            known_before(c, at - map->up + map->left);
    }
}

static void check_parts(geometry g, size_t n)
{
    part_map map = part_map_make(&g, n, cells);
    assert_int_equal(map.n, n);
    check_steps(&map);
    check_neighbours(&map);
}

static void test_every_shape(void **state)
{
    static const size_t counts[] = {1, 31, 64, 65, 1000, 4095, PART_MOST};
    test_rng r = {71};
    for (int i = 0; i < 400; i++) {
        comet_layout layout = (comet_layout)rng_below(&r, 4);
        geometry g = geometry_of(layout, 1 + rng_below(&r, 70), 1 + rng_below(&r, 120), 1 + rng_below(&r, i % 4 ? 60 : 300));
        check_parts(g, counts[rng_below(&r, COUNT_OF(counts))]);
        check_parts(g, 1 + rng_below(&r, PART_MOST));
        check_parts(g, geometry_part_elements(&g));
        if (g.line <= PART_MOST)
            check_parts(g, (1 + rng_below(&r, PART_MOST / g.line)) * g.line);
    }
    check_parts(geometry_of(COMET_LAYOUT_CHANNELS_LAST, 16385, 2, 3), 5000);
    check_parts(geometry_of(COMET_LAYOUT_CHANNELS_LAST, 12544, 1, 1), PART_MOST);
    check_parts(geometry_of(COMET_LAYOUT_PLANAR, 1, 3, 200000), PART_MOST);
}

/* Planes of the usual nets fill parts wholly, and lanes nearly always have a cell. */
static void test_usual_planes(void **state)
{
    static const uint64_t sides[] = {7, 14, 28, 56, 112, 224};
    for (size_t i = 0; i < COUNT_OF(sides); i++) {
        geometry g = geometry_of(COMET_LAYOUT_PLANAR, 256, sides[i], sides[i]);
        assert_int_equal(geometry_part_elements(&g), PART_MOST);
        part_map map = part_map_make(&g, PART_MOST, cells);
        size_t n_steps = 0, n_tops = 0;
        for (size_t k = 0; k < map.n; k++) {
            n_steps += (map.cells[k].edges & EDGE_STEP_END) != 0;
            n_tops += (map.cells[k].edges & EDGE_TOP) != 0;
        }
        assert_true(n_steps * PART_LANES * 7 < PART_MOST * 10);
        assert_int_equal(n_tops, PART_MOST / (sides[i] < 112 ? sides[i] : PART_MOST / sides[i]));
    }
}

/* Element (row, column) of a plane has the code 100 row + column, so that predictions tell what they were made from. */
static void test_neighbours_at_edges(void **state)
{
    enum { LINES = 3, COLUMNS = 4, PLANES = 2 };
    geometry g = geometry_of(COMET_LAYOUT_PLANAR, 5, LINES, COLUMNS);
    part_map map = part_map_make(&g, PLANES * LINES * COLUMNS, cells);
    for (int i = 0; i < PLANES * LINES * COLUMNS; i++)
        codes[i] = (int16_t)(1 + 100 * (i / COLUMNS % LINES) + i % COLUMNS);
    for (size_t i = 0; i < map.n; i++) {
        int row = map.cells[i].element / COLUMNS % LINES, column = map.cells[i].element % COLUMNS;
        int N = row ? 1 + 100 * (row - 1) + column : 0, W = column ? 100 * row + column : N;
        int NW = column && row ? N - 1 : N;
        assert_int_equal(part_look(&map, map.cells[i], CODES16, PREDICT_LEFT, codes).prediction, W);
        assert_int_equal(part_look(&map, map.cells[i], CODES16, PREDICT_LORENZO, codes).prediction, W + N - NW);
        assert_int_equal(part_look(&map, map.cells[i], CODES16, PREDICT_NONE, codes).prediction, 0);
    }
}

/* 100 MiB of f32 make at least 2000 parts. */
static void test_enough_parts(void **state)
{
    const uint64_t sides[] = {7, 14, 28, 32, 56, 100, 112, 150, 224, 1000};
    for (size_t i = 0; i < COUNT_OF(sides); i++) {
        geometry g = geometry_of(COMET_LAYOUT_PLANAR, ((uint64_t)100 << 20) / 4 / 3 / sides[i] / sides[i], sides[i], sides[i]);
        uint64_t chunk = geometry_chunk_elements(&g, COMET_LEVEL_DENSE, COMET_PROFILE_DEVICE);
        assert_int_equal(chunk % geometry_part_elements(&g), 0);
        assert_true(chunk > 200000 && chunk <= geometry_most_elements(COMET_LEVEL_DENSE, COMET_PROFILE_DEVICE));
        assert_true(g.n_elements / geometry_part_elements(&g) >= 2000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_usual_planes),
        cmocka_unit_test(test_neighbours_at_edges),
        cmocka_unit_test(test_enough_parts),
    };
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
