/*
 * Kernels of single stages (quantise, predict, gather), of every family that this machine can run, against the reference, bit
 * for bit; and the reference against the inverse of each stage. Inputs and outputs end at an inaccessible page wherever the
 * contract of kernels.h says how far a kernel may reach. Packing and tiles are in test_kernels_pack.c, the dense coder is in
 * test_kernels_dense.c.
 */
#include "kernels_testing.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- quantise and dequantise ---- */

static void check_quantise(const quantise_case *c, const uint8_t *x)
{
    size_t blocks = (c->n + BLOCK - 1) / BLOCK, bytes = blocks * BLOCK * code_bytes(c->width);
    bool finite = all_finite(c->dtype, x, c->n);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *codes, *codes_ref;
        uint64_t failed[QUANT_TILE / BLOCK + 1], failed_ref[QUANT_TILE / BLOCK + 1];
        moments m = {.min = INFINITY, .max = -INFINITY, .n_nonzero = 5}, m_ref = m;
        outputs_of(bytes, &codes, &codes_ref);
        memset(failed, 0x5a, sizeof failed);
        memset(failed_ref, 0x5a, sizeof failed_ref);
        k->quantise[c->width][c->dtype](&c->q, x, c->n, c->first, codes, failed, &m);
        reference->quantise[c->width][c->dtype](&c->q, x, c->n, c->first, codes_ref, failed_ref, &m_ref);
        check_outputs(codes, codes_ref, bytes, k, "quantise", c->n);
        assert_memory_equal(failed, failed_ref, sizeof failed);
        if (finite)
            check_moments(&m, &m_ref, k);
    }
}

static void check_dequantise(test_rng *r, const quantise_case *c)
{
    size_t element = comet_dtype_bytes(c->dtype), readable = readable_codes(c->n);
    uint8_t *codes = guarded_tail(&input, readable * code_bytes(c->width));
    fill_codes(r, c->width, readable, codes);
    size_t shift = rng_below(r, 16); /* elements of distance to the guard, so that all alignments occur */
    bool stream = rng_chance(r, 2);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *x, *x_ref;
        outputs_of((c->n + shift) * element, &x, &x_ref);
        k->dequantise[c->width][c->dtype](&c->q, codes, c->n, c->first, x, stream);
        reference->dequantise[c->width][c->dtype](&c->q, codes, c->n, c->first, x_ref, false);
        check_outputs(x, x_ref, (c->n + shift) * element, k, "dequantise", c->n);
    }
}

static void quantise_random(test_rng *r, size_t n)
{
    quantise_case c = quantise_case_of(r, n);
    comet_tensor t = tensor_1d(c.dtype, n);
    enum data_class data = (enum data_class)rng_below(r, N_DATA_CLASSES);
    uint8_t *x = guarded_tail(&input, bytes_of(&t));
    fill_tensor(r, data, &t, x);
    if (rng_chance(r, 3)) /* values on and beside the borders between codes */
        for (size_t i = 0; i < n; i++) {
            double step = c.dtype == COMET_DTYPE_F64 ? c.q.step64 : (double)c.q.step;
            set_element(c.dtype, x, i, ((double)rng_below(r, 40) - 20) * step / 2);
            if (rng_chance(r, 2))
                x[i * comet_dtype_bytes(c.dtype)] ^= 1;
        }
    check_quantise(&c, x);
    check_dequantise(r, &c);
}

static void test_quantise_every_tail(void **state)
{
    test_rng r = {11};
    for (size_t n = 1; n <= 200; n++)
        for (int i = 0; i < 12; i++)
            quantise_random(&r, n);
}

static void test_quantise_tiles(void **state)
{
    test_rng r = {12};
    for (int i = 0; i < 400; i++)
        quantise_random(&r, i % 4 ? QUANT_TILE : 1 + rng_below(&r, QUANT_TILE));
}

/* Every f16 and bf16 there is. */
static void test_quantise_all_halves(void **state)
{
    test_rng r = {13};
    for (int i = 0; i < 60; i++) {
        quantise_case c = quantise_case_of(&r, QUANT_TILE);
        c.dtype = i % 2 ? COMET_DTYPE_F16 : COMET_DTYPE_BF16;
        double eb = ldexp(1 + rng_unit(&r), (int)rng_below(&r, 20) - 14);
        if (i % 5 == 4) /* subnormals of f16, and bounds whose values overflow */
            eb = ldexp(1 + rng_unit(&r), i % 2 ? (int)rng_below(&r, 40) - 24 : (int)rng_below(&r, 240) - 120);
        assert_true(quantiser_make(c.dtype, eb, (enum quantiser_mode)(i / 2 % 4), &c.q));
        for (uint32_t h = 0; h < 65536; h += QUANT_TILE) {
            uint8_t *x = guarded_tail(&input, QUANT_TILE * 2);
            for (uint32_t j = 0; j < QUANT_TILE; j++)
                set_bits(c.dtype, x, j, h + j);
            check_quantise(&c, x);
        }
    }
}

/* The argument of quantiser.c: no f32 fails whose code is in range, however near to the border between two codes it
 * lies; and with keep support every one comes back with its sign. */
static void test_quantise_f32_needs_no_check(void **state)
{
    test_rng r = {14};
    for (int i = 0; i < 4000; i++) {
        quantise_case c = {.dtype = COMET_DTYPE_F32, .n = QUANT_TILE};
        double eb = ldexp(1 + (i % 8 ? rng_unit(&r) : 0), (int)rng_below(&r, 230) - 118);
        enum quantiser_mode mode = (enum quantiser_mode)rng_below(&r, QUANTISE_DITHER);
        bool plain = mode == QUANTISE_PLAIN, nonzero = mode == QUANTISE_NONZERO;
        assert_true(quantiser_make(c.dtype, eb, mode, &c.q));
        float *x = (float *)(void *)guarded_tail(&input, QUANT_TILE * sizeof *x);
        for (int j = 0; j < QUANT_TILE; j++) {
            double code = (double)(rng_chance(&r, 2) ? rng_below(&r, CODE16_LIMIT) : CODE16_LIMIT - 1 - rng_below(&r, 99)) +
                          (plain ? 0.5 : 0);
            float v = (float)(fmin(code * (double)c.q.step, 0x1p125) * (1 + ((double)rng_below(&r, 17) - 8) * 0x1p-24));
            v = !plain && rng_chance(&r, 9) ? (float)rng_below(&r, 3) * FLT_TRUE_MIN : v;
            v = nonzero && v == 0 ? c.q.eb : v;
            x[j] = rng_chance(&r, 2) ? v : -v;
        }
        check_quantise(&c, (const uint8_t *)x);
        FOR_EACH_FAMILY(k)
        {
            static int16_t codes[QUANT_TILE + 2 * BLOCK];
            uint64_t failed[MOST_BLOCKS];
            moments m = {.min = INFINITY, .max = -INFINITY};
            k->quantise[CODES16][c.dtype](&c.q, x, QUANT_TILE, 0, codes, failed, &m);
            for (int j = 0; j < QUANT_TILE; j++) {
                float back;
                k->dequantise[CODES16][c.dtype](&c.q, codes + j, 1, (uint32_t)j, &back, false);
                double error = fabs((double)x[j] - (double)back);
                if (!plain && ((x[j] > 0) != (back > 0) || (x[j] < 0) != (back < 0)))
                    fail_because("%a comes back as %a", (double)x[j], (double)back);
                if (failed[j / BLOCK] >> (j % BLOCK) & 1 || !(error <= eb))
                    fail_because("%a with eb %a gets code %d, error %a", (double)x[j], eb, codes[j], error);
            }
        }
    }
}

/* ---- outliers ---- */

/* Any share of elements failed, also runs without any, and a tail. */
static void test_write_outliers(void **state)
{
    test_rng r = {15};
    static uint64_t failed[ROOM / 64 / BLOCK];
    for (int i = 0; i < 600; i++) {
        size_t n = 1 + rng_below(&r, i % 2 ? 300 : ROOM / 64), element = (size_t)2 << rng_below(&r, 3),
               most = n * (element + 4);
        unsigned one_in = 1u << rng_below(&r, 12);
        uint8_t *x = guarded_tail(&input, n * element), *out, *ref;
        memset(failed, 0, sizeof failed);
        for (size_t k = 0; k < n; k++) {
            memset(x + k * element, (int)rng_below(&r, 256), element);
            failed[k / BLOCK] |= (uint64_t)rng_chance(&r, one_in) << (k % BLOCK);
        }
        FOR_EACH_FAMILY(k)
        {
            outputs_of(most + WRITE_SLACK, &out, &ref);
            size_t bytes = (size_t)(k->write_outliers(x, element, failed, n, out) - out);
            assert_int_equal(bytes, reference->write_outliers(x, element, failed, n, ref) - ref);
            check_outputs(out, ref, bytes, k, "write_outliers", n);
        }
    }
}

/* ---- predict and unpredict ---- */

static void check_predict(test_rng *r, enum code_width width, enum predictor predictor, size_t n)
{
    strides s = random_strides(r);
    size_t size = code_bytes(width), before = s.left + s.up + BLOCK, shift = rng_below(r, 9);
    uint8_t *first = guarded_tail(&input, (before + n + shift) * size);
    fill_residuals(r, width, before + n + shift, first);
    const uint8_t *codes = first + before * size;
    bool identity = predictor == PREDICT_NONE && rng_chance(r, 2);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *z, *z_ref;
        outputs_of(n * size, &z, &z_ref);
        k->predict[width](predictor, identity, codes, n, s, z);
        reference->predict[width](predictor, identity, codes, n, s, z_ref);
        check_outputs(z, z_ref, n * size, k, "predict", n);
    }
}

/* A kernel may read and overwrite up to a block after n. */
static void check_unpredict(test_rng *r, enum code_width width, enum predictor predictor, size_t n)
{
    strides s = random_strides(r);
    size_t size = code_bytes(width), before = (s.left + s.up + 2 * BLOCK - 1) / BLOCK * BLOCK, total = before + n + BLOCK;
    uint8_t *source = guarded_tail(&input, total * size);
    fill_residuals(r, width, total, source);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *a, *b;
        outputs_of(total * size, &a, &b);
        memcpy(a, source, total * size);
        memcpy(b, source, total * size);
        k->unpredict[width](predictor, a + before * size, n, s);
        reference->unpredict[width](predictor, b + before * size, n, s);
        if (memcmp(a, b, (before + n) * size) != 0)
            print_error("predictor %d, width %d, left %zu, up %zu\n", (int)predictor, (int)width, s.left, s.up);
        check_outputs(a, b, (before + n) * size, k, "unpredict", n);
    }
}

static void test_predict_and_unpredict(void **state)
{
    static const enum predictor predictors[] = {PREDICT_NONE, PREDICT_LEFT, PREDICT_UP, PREDICT_LORENZO};
    test_rng r = {21};
    for (int width = CODES16; width < N_CODE_WIDTHS; width++)
        for (size_t p = 0; p < COUNT_OF(predictors); p++)
            for (int i = 0; i < 300; i++) {
                size_t n = BLOCK * (1 + rng_below(&r, i % 10 ? 8 : QUANT_TILE / BLOCK));
                check_predict(&r, (enum code_width)width, predictors[p], n);
                check_unpredict(&r, (enum code_width)width, predictors[p], n);
            }
}

static uint64_t unzigzag(uint64_t z)
{
    return z >> 1 ^ (0 - (z & 1));
}

/* Prediction undone gives the codes back, whatever they are. */
static void test_unpredict_inverts_predict(void **state)
{
    static const enum predictor predictors[] = {PREDICT_LEFT, PREDICT_UP, PREDICT_LORENZO};
    test_rng r = {22};
    for (int i = 0; i < 300; i++) {
        strides s = random_strides(&r);
        size_t before = s.left + s.up + BLOCK, n = BLOCK * (1 + rng_below(&r, 8));
        enum predictor p = predictors[rng_below(&r, COUNT_OF(predictors))];
        int64_t *codes = (int64_t *)(void *)guarded_tail(&input, (before + n) * 8), *start = codes;
        int64_t *copy = (int64_t *)(void *)guarded_tail(&output, (before + n) * 8);
        uint64_t *z = (uint64_t *)(void *)guarded_tail(&expected, n * 8);
        fill_residuals(&r, CODES64, before + n, codes);
        memcpy(copy, codes, (before + n) * 8);
        codes += before;
        reference->predict[CODES64](p, false, codes, n, s, z);
        for (size_t k = 0; k < n; k++)
            codes[k] = (int64_t)unzigzag(z[k]);
        reference->unpredict[CODES64](p, codes, n, s);
        assert_memory_equal(start, copy, (before + n) * 8);
    }
}

/* ---- lanes ---- */

typedef struct lanes_case {
    geometry shape;
    lanes l;
} lanes_case;

static lanes_case random_lanes(test_rng *r)
{
    static const uint64_t channels[] = {1, 1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 80, 96, 100, 128, 256, 300};
    uint64_t c = channels[rng_below(r, COUNT_OF(channels))];
    uint64_t dims[4] = {1 + rng_below(r, 3), c, 1 + rng_below(r, 40), 1 + rng_below(r, 40)};
    static const comet_layout layouts[] = {COMET_LAYOUT_PLANAR, COMET_LAYOUT_CHANNELS_LAST, COMET_LAYOUT_BLOCKED8,
                                           COMET_LAYOUT_BLOCKED16};
    comet_tensor t = tensor_of(COMET_DTYPE_F32, layouts[rng_below(r, 4)], 4, dims);
    lanes_case out;
    assert_ok(geometry_make(&t, &out.shape));
    uint64_t most = min_u64(out.shape.n_elements, ROOM / 64), n = 1 + rng_below(r, most);
    out.l = geometry_lanes(&out.shape, n < 64 ? 64 : n, (size_t)n);
    return out;
}

static void check_gather_and_scatter(test_rng *r, const lanes_case *c, enum code_width width)
{
    const lanes *l = &c->l;
    size_t size = code_bytes(width), cell_bytes = l->columns * l->width * size, code_total = l->n * size;
    uint8_t *codes = guarded_tail(&input, readable_codes(l->n) * size), *back = need_malloc(code_total);
    fill_codes(r, width, readable_codes(l->n), codes);
    assert_true(l->rows * l->bands * l->columns * l->channels >= l->n);
    if (cell_bytes + 64 > ROOM) {
        free(back);
        return;
    }
    FOR_EACH_FAMILY(k)
    {
        memset(back, 0x77, code_total);
        for (size_t row = 0; row < l->rows; row++) {
            uint8_t *cells, *cells_ref;
            outputs_of(cell_bytes, &cells, &cells_ref);
            k->gather_row[width](l, codes, row, cells);
            reference->gather_row[width](l, codes, row, cells_ref);
            check_outputs(cells, cells_ref, cell_bytes, k, "gather", l->n);
            k->scatter_row[width](l, cells, row, back);
        }
        if (memcmp(back, codes, code_total) != 0)
            fail_because("scatter of family %s does not undo gather (n %zu, channels %zu, columns %zu, bands %zu, rows %zu)",
                         comet_isa_name(k->isa), l->n, l->channels, l->columns, l->bands, l->rows);
    }
    free(back);
}

static void test_gather_and_scatter(void **state)
{
    test_rng r = {41};
    for (int i = 0; i < 400; i++) {
        lanes_case c = random_lanes(&r);
        check_gather_and_scatter(&r, &c, CODES16);
        check_gather_and_scatter(&r, &c, CODES32);
    }
}

/* ---- the table ---- */

static void test_pick(void **state)
{
    comet_isa before = comet_isa_active(), isas[4];
    size_t n = usable_isas(isas);
    for (size_t i = 0; i < n; i++) {
        comet_isa_set_cap(isas[i]);
        assert_true(codec_kernels_pick()->isa <= isas[i]);
    }
    FOR_EACH_FAMILY(k)
    {
        assert_int_equal(comet_isa_set_cap(k->isa), k->isa);
        assert_ptr_equal(codec_kernels_pick(), k);
    }
    comet_isa_set_cap(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pick),
        cmocka_unit_test(test_quantise_every_tail),
        cmocka_unit_test(test_quantise_tiles),
        cmocka_unit_test(test_quantise_all_halves),
        cmocka_unit_test(test_quantise_f32_needs_no_check),
        cmocka_unit_test(test_write_outliers),
        cmocka_unit_test(test_predict_and_unpredict),
        cmocka_unit_test(test_unpredict_inverts_predict),
        cmocka_unit_test(test_gather_and_scatter),
    };
    return cmocka_run_group_tests_name("kernels", tests, make_room, free_room);
}
