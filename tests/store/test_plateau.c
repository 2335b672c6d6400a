/* Plain backgrounds: values that many positions share come back exactly, and nothing else is the worse for it. */
#include "store/plateau.h"
#include "store_testing.h"

#define EB 0.3
enum { SEED = 23 };

/* What a picture is made of. */
typedef enum picture {
    SIGNED,   /* as a batch norm stores it: no zeros */
    POSITIVE, /* as after a relu: zeros, nothing negative */
    MIXED     /* both: there is no value to stand for the background */
} picture;

static uint64_t index_of(const comet_tensor *t, uint64_t n, uint64_t c, uint64_t y, uint64_t x)
{
    const uint64_t C = t->dims[1], H = t->dims[2], W = t->dims[3], plane = H * W, at = y * W + x;
    const uint64_t block = t->layout == COMET_LAYOUT_BLOCKED16 ? 16 : 8;
    if (t->layout == COMET_LAYOUT_PLANAR)
        return (n * C + c) * plane + at;
    if (t->layout == COMET_LAYOUT_CHANNELS_LAST)
        return (n * plane + at) * C + c;
    return ((n * ((C + block - 1) / block) + c / block) * plane + at) * block + c % block;
}

/* An ellipse in the middle is not background: three fifths of the picture are. */
static bool is_background(const comet_tensor *t, uint64_t y, uint64_t x)
{
    const double v = (double)y / (double)t->dims[2] - 0.5, u = (double)x / (double)t->dims[3] - 0.5;
    return v * v / 0.16 + u * u / 0.08 > 1;
}

static float object_value(test_rng *r, picture kind)
{
    const float v = (float)rng_normal(r);
    if (kind == POSITIVE)
        return v > 0 ? v : 0;
    if (kind == MIXED)
        return rng_chance(r, 5) ? 0 : v;
    return v == 0 ? 1 : v;
}

/* A background of its own for every picture and channel, with roundings as a convolution leaves them; in some channels so near
 * zero that values of the other sign are not far. */
static float *make_pictures(const comet_tensor *t, picture kind)
{
    test_rng r = {SEED};
    float *data = need_malloc(bytes_of(t));
    memset(data, 0, bytes_of(t));
    for (uint64_t n = 0; n < t->dims[0]; n++)
        for (uint64_t c = 0; c < t->dims[1]; c++) {
            const float even = c % 4 == 0 ? 0.002f : (float)(0.1 + rng_unit(&r)),
                        plain = kind != POSITIVE && rng_chance(&r, 2) ? -even : even;
            for (uint64_t y = 0; y < t->dims[2]; y++)
                for (uint64_t x = 0; x < t->dims[3]; x++)
                    data[index_of(t, n, c, y, x)] =
                        is_background(t, y, x) ? plain * (1 + 2e-7f * (float)rng_unit(&r)) : object_value(&r, kind);
        }
    return data;
}

static double worst_background(const comet_tensor *t, const float *x, const float *y)
{
    double worst = 0;
    for (uint64_t n = 0; n < t->dims[0]; n++)
        for (uint64_t c = 0; c < t->dims[1]; c++)
            for (uint64_t v = 0; v < t->dims[2]; v++)
                for (uint64_t u = 0; u < t->dims[3]; u++)
                    if (is_background(t, v, u)) {
                        const uint64_t i = index_of(t, n, c, v, u);
                        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
                    }
    return worst;
}

static void check_pictures(const comet_tensor *t, picture kind, comet_exactness exactness, comet_level level)
{
    const comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, level, EB);
    float *x = make_pictures(t, kind);
    comet_store *s = store_with(NULL, 2, NULL);
    comet_slot slot = declare_with(s, t, exactness, p);
    assert_ok(comet_store_put(s, slot, x));
    float *y = take_copy(s, slot);
    const comet_slot_report r = report_of(s, slot);
    const double worst = worst_background(t, x, y);
    check_values(t, &p, exactness, x, y);
    check_figures(&r, t, x, 1e-5); /* for what lies near a background by chance */
    if (kind == MIXED)
        assert_true(worst > EB / 2); /* as any other value */
    else
        assert_true(worst <= 1e-5);
    comet_store_destroy(s);
    free(y);
    free(x);
}

static void check_layout(comet_layout layout, const uint64_t dims[4])
{
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, layout, 4, dims);
    for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_DENSE; level++)
        for (int kind = SIGNED; kind <= MIXED; kind++) {
            check_pictures(&t, (picture)kind, COMET_SUPPORT, (comet_level)level);
            check_pictures(&t, (picture)kind, COMET_LOSSY, (comet_level)level);
        }
}

/* 24 channels leave padding in blocks of 16. */
static const uint64_t small[4] = {3, 24, 40, 35};

static void test_planar(void **state)
{
    (void)state;
    check_layout(COMET_LAYOUT_PLANAR, small);
}

static void test_channels_last(void **state)
{
    (void)state;
    check_layout(COMET_LAYOUT_CHANNELS_LAST, small);
}

static void test_blocked8(void **state)
{
    (void)state;
    check_layout(COMET_LAYOUT_BLOCKED8, small);
}

static void test_blocked16(void **state)
{
    (void)state;
    check_layout(COMET_LAYOUT_BLOCKED16, small);
}

/* Planes that tiles cut in pieces. */
static void test_large_planes(void **state)
{
    (void)state;
    const uint64_t dims[4] = {1, 2, 500, 400};
    check_layout(COMET_LAYOUT_PLANAR, dims);
}

/* What is not finite stays as it is, in the middle of a background too. */
static void test_nonfinite(void **state)
{
    (void)state;
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_BLOCKED16, 4, small);
    const comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, EB);
    float *x = make_pictures(&t, SIGNED);
    for (uint64_t i = 0; i < elements_of(&t); i += 1009)
        x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    comet_store *s = store_with(NULL, 1, NULL);
    comet_slot slot = declare_with(s, &t, COMET_SUPPORT, p);
    assert_ok(comet_store_put(s, slot, x));
    float *y = take_copy(s, slot);
    check_values(&t, &p, COMET_SUPPORT, x, y);
    for (uint64_t i = 0; i < elements_of(&t); i += 1009)
        assert_memory_equal(&x[i], &y[i], sizeof *x);
    comet_store_destroy(s);
    free(y);
    free(x);
}

/* The extremes are those of the elements, not of what stands for a background: with values far from zero, and with both
 * stand-ins in one tile. */
static void test_extremes(void **state)
{
    (void)state;
    const uint64_t dims[4] = {1, 2, 32, 32};
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
    for (int far = 0; far < 2; far++) {
        test_rng r = {SEED};
        float *x = need_malloc(bytes_of(&t));
        for (uint64_t i = 0; i < elements_of(&t); i++) {
            const bool plain = rng_unit(&r) < 0.1 || i % 1024 < 600, second = i >= 1024;
            x[i] = far ? (plain ? 5.5f : (float)(5 + rng_unit(&r))) : (second ? -1.f : 1.f) * (plain ? 0.7f : i % 5 ? 0.5f : 0);
            if (!far && second && x[i] == 0)
                x[i] = -0.1f;
        }
        comet_store *s = store_with(NULL, 1, NULL);
        comet_slot slot = declare_with(s, &t, COMET_LOSSY, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, EB));
        assert_ok(comet_store_put(s, slot, x));
        const comet_slot_report report = report_of(s, slot);
        check_figures(&report, &t, x, 1e-2);
        float *y = take_copy(s, slot);
        for (uint64_t i = 0; i < elements_of(&t); i++)
            assert_true(fabsf(x[i]) != 0.7f || x[i] == y[i]);
        comet_store_destroy(s);
        free(y);
        free(x);
    }
}

/* The same bytes from every instruction set. */
static void check_instruction_sets(comet_layout layout, picture kind)
{
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, layout, 4, small);
    float *x = make_pictures(&t, kind);
    comet_isa isas[4];
    const size_t n_isas = usable_isas(isas);
    const comet_isa before = comet_isa_active();
    comet_store *first = NULL;
    for (size_t k = 0; k < n_isas; k++) {
        comet_isa_set_cap(isas[k]);
        comet_store *s = store_with(NULL, 1, NULL);
        comet_slot slot = declare_with(s, &t, COMET_SUPPORT, policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, EB));
        assert_ok(comet_store_put(s, slot, x));
        if (first)
            assert_same_tiles(first, slot, s, slot);
        float *y = take_copy(s, slot);
        assert_true(worst_background(&t, x, y) <= 1e-5);
        free(y);
        if (first)
            comet_store_destroy(s);
        else
            first = s;
    }
    comet_isa_set_cap(before);
    comet_store_destroy(first);
    free(x);
}

static void test_instruction_sets(void **state)
{
    (void)state;
    for (int kind = SIGNED; kind <= POSITIVE; kind++) {
        check_instruction_sets(COMET_LAYOUT_BLOCKED16, (picture)kind);
        check_instruction_sets(COMET_LAYOUT_CHANNELS_LAST, (picture)kind);
    }
}

/* What is held comes back from the disk too; damaged in memory, without checksums, it is other values or an error. */
static void test_spilled_and_damaged(void **state)
{
    (void)state;
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_BLOCKED16, 4, small);
    float *x = make_pictures(&t, SIGNED), *room = need_malloc(bytes_of(&t));
    comet_store *s = store_with(NULL, 1, "/tmp");
    comet_slot_policy p = policy_of(COMET_POLICY_BOUNDED, COMET_LEVEL_FAST, EB);
    comet_slot held = declare_with(s, &t, COMET_SUPPORT, p);
    p.spill = true;
    comet_slot spilled = declare_with(s, &t, COMET_SUPPORT, p);
    assert_ok(comet_store_put(s, held, x));
    assert_ok(comet_store_put(s, spilled, x));
    float *y = take_copy(s, held), *z = take_copy(s, spilled);
    assert_memory_equal(y, z, bytes_of(&t));
    s->checksums = false;
    store_tile *tile = &s->slots[held]->tiles[0];
    for (size_t bit = 0; bit < 8 * (size_t)tile->bytes; bit += bit + 4096 < 8 * (size_t)tile->bytes ? 37 : 1) {
        void *data;
        tile->place[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const comet_status status = comet_store_take(s, held, room, &data);
        assert_true(status == COMET_OK || status == COMET_ERROR_CORRUPT);
        tile->place[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    comet_store_destroy(s);
    free(z);
    free(y);
    free(room);
    free(x);
}

/* ---- the two halves themselves ---- */

typedef struct pieces {
    geometry shape;
    plateau_span span;
    float *x, *copy;
    uint8_t *record;
    size_t bytes;
    plateau_figures figures;
} pieces;

static void replace_in(const comet_tensor *t, float *x, pieces *p)
{
    *p = (pieces){.x = x, .copy = need_malloc(bytes_of(t)), .record = need_malloc(plateau_record_bound(elements_of(t)))};
    assert_ok(geometry_make(t, &p->shape));
    p->span = (plateau_span){&p->shape, 0, elements_of(t)};
    p->bytes = plateau_replace(&p->span, (float)EB / 32, x, p->copy, p->record, &p->figures);
}

static void free_pieces(pieces *p)
{
    free(p->x);
    free(p->copy);
    free(p->record);
}

/* Nothing is found where nothing is plain. */
static void test_no_plateaus(void **state)
{
    (void)state;
    static const enum data_class classes[] = {DATA_RELU, DATA_SPARSE, DATA_SMOOTH, DATA_WALK_RIGHT, DATA_NOISE, DATA_LOGNORMAL};
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_BLOCKED16, 4, small);
    for (size_t k = 0; k < COUNT_OF(classes); k++) {
        pieces p;
        replace_in(&t, make_data(SEED, classes[k], &t), &p);
        if (p.bytes != 0)
            fail_because("%s: %zu bytes of plateaus", data_class_name(classes[k]), p.bytes);
        free_pieces(&p);
    }
}

/* The smallest planes that have plateaus, whose record is as long as one may be; and those that have none. */
static void test_limits(void **state)
{
    (void)state;
    static const struct {
        comet_layout layout;
        uint64_t dims[4];
        size_t bytes;
    } cases[] = {{COMET_LAYOUT_PLANAR, {1, 3, 8, 16}, 3 * 8},
                 {COMET_LAYOUT_PLANAR, {1, 3, 1, 127}, 0},
                 {COMET_LAYOUT_CHANNELS_LAST, {1, 256, 16, 16}, 4 + 256 * 4},
                 {COMET_LAYOUT_CHANNELS_LAST, {1, 257, 16, 16}, 0}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        const comet_tensor t = tensor_of(COMET_DTYPE_F32, cases[k].layout, 4, cases[k].dims);
        float *x = need_malloc(bytes_of(&t));
        for (uint64_t i = 0; i < elements_of(&t); i++)
            x[i] = 1;
        pieces p;
        replace_in(&t, x, &p);
        assert_int_equal(p.bytes, cases[k].bytes);
        assert_true(p.bytes <= plateau_record_bound(elements_of(&t)));
        free_pieces(&p);
    }
}

/* Records that were damaged are refused, or give other values; they never reach beyond the elements. */
static void test_damaged_records(void **state)
{
    (void)state;
    const comet_tensor t = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_BLOCKED16, 4, small);
    pieces p;
    replace_in(&t, make_pictures(&t, SIGNED), &p);
    assert_int_equal(p.bytes, 6 * (4 + 16 * 4));
    assert_true(plateau_restore(&p.span, p.record, p.bytes, p.copy));
    assert_false(plateau_restore(&p.span, p.record, p.bytes - 1, p.copy));
    const uint32_t beyond = UINT32_MAX, first = 0;
    memcpy(p.record + p.bytes / 6, &beyond, sizeof beyond); /* the second of six plots */
    assert_false(plateau_restore(&p.span, p.record, p.bytes, p.copy));
    memcpy(p.record + p.bytes / 6, &first, sizeof first);
    assert_false(plateau_restore(&p.span, p.record, p.bytes, p.copy));
    free_pieces(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planar),    cmocka_unit_test(test_channels_last),    cmocka_unit_test(test_blocked8),
        cmocka_unit_test(test_blocked16), cmocka_unit_test(test_large_planes),     cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_extremes),  cmocka_unit_test(test_instruction_sets), cmocka_unit_test(test_spilled_and_damaged),
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_no_plateaus),      cmocka_unit_test(test_damaged_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
