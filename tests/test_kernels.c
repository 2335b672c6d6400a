/*
 * Every kernel of every family that this machine can run, against the reference, bit for bit; and the reference against the
 * inverse of each stage. Inputs and outputs end at an inaccessible page wherever the contract of kernels.h says how far a
 * kernel may reach.
 */
#include "testing.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "codec/chunk.h"
#include "codec/dense.h"
#include "codec/kernels/convert.h"
#include "codec/kernels/dense_model.h"
#include "codec/quantiser.h"

static const codec_kernels *const reference = &codec_kernels_reference;

/* All families compiled in, the reference among them: it is run through the same checks. */
static const codec_kernels *const families[] = {
    &codec_kernels_reference,
#ifdef COMET_HAVE_NEON
    &codec_kernels_neon,
#endif
#ifdef COMET_HAVE_AVX2
    &codec_kernels_avx2,
#endif
#ifdef COMET_HAVE_AVX512
    &codec_kernels_avx512,
#endif
};

/* The cap that COMET_MAX_ISA sets. */
static comet_isa cap;

static bool usable(const codec_kernels *k)
{
    return k->isa <= cap;
}

#define FOR_EACH_FAMILY(k)                                            \
    for (size_t family_ = 0; family_ < COUNT_OF(families); family_++) \
        for (const codec_kernels *k = families[family_]; k && usable(k); k = NULL)

/* Memory that ends at a guard: one piece for the input, one for each result. */
enum { ROOM = 1 << 20 };
static guarded input, output, expected;

static int make_room(void **state)
{
    cap = comet_isa_active();
    input = guarded_make(ROOM);
    output = guarded_make(ROOM);
    expected = guarded_make(ROOM);
    return 0;
}

static int free_room(void **state)
{
    guarded_free(&input);
    guarded_free(&output);
    guarded_free(&expected);
    return 0;
}

/* The last bytes of both outputs, filled alike with garbage. */
static void outputs_of(size_t bytes, uint8_t **a, uint8_t **b)
{
    *a = guarded_tail(&output, bytes);
    *b = guarded_tail(&expected, bytes);
    memset(*a - 64, 0xa5, bytes + 64);
    memset(*b - 64, 0xa5, bytes + 64);
}

/* Equal, and nothing was written just before. */
static void check_outputs(const uint8_t *a, const uint8_t *b, size_t bytes, const codec_kernels *k, const char *what, size_t n)
{
    if (memcmp(a, b, bytes) == 0 && memcmp(a - 64, b - 64, 64) == 0)
        return;
    size_t at = 0;
    while (at < bytes && a[at] == b[at])
        at++;
    fail_because("%s of family %s differs from the reference at byte %zu of %zu (n %zu)", what, comet_isa_name(k->isa), at,
                 bytes, n);
}

/* ---- quantise and dequantise ---- */

enum { MOST_BLOCKS = QUANT_TILE / BLOCK };

typedef struct quantise_case {
    comet_dtype dtype;
    enum code_width width;
    quantiser q;
    size_t n;
    uint32_t first;
} quantise_case;

static quantise_case quantise_case_of(test_rng *r, size_t n)
{
    quantise_case c = {.dtype = (comet_dtype)rng_below(r, N_DTYPES), .width = (enum code_width)rng_below(r, 2), .n = n};
    c.first = (uint32_t)(rng_below(r, 4096) * QUANT_TILE);
    double eb = ldexp(1 + rng_unit(r), (int)rng_below(r, 24) - 16);
    if (rng_chance(r, 8)) /* at the ends of the type's range */
        eb = c.dtype == COMET_DTYPE_F64 ? ldexp(1, (int)rng_below(r, 2000) - 1000) : ldexp(1, (int)rng_below(r, 240) - 120);
    if (!quantiser_make(c.dtype, eb, (enum quantiser_mode)rng_below(r, QUANTISE_DITHER + 1), &c.q))
        quantiser_make(c.dtype, 0.01, c.q.mode, &c.q);
    c.q.key = (uint32_t)rng_next(r);
    return c;
}

static bool all_finite(comet_dtype dtype, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = dtype == COMET_DTYPE_F64   ? ((const double *)x)[i]
                   : dtype == COMET_DTYPE_F32 ? (double)((const float *)x)[i]
                   : dtype == COMET_DTYPE_F16 ? (double)float_of_f16(((const uint16_t *)x)[i])
                                              : (double)float_of_bf16(((const uint16_t *)x)[i]);
        if (!isfinite(v))
            return false;
    }
    return true;
}

/* The sign of a zero extreme may differ: the caller takes it off. */
static void check_moments(const moments *a, const moments *b, const codec_kernels *k)
{
    if (memcmp(a->sum_of_squares, b->sum_of_squares, sizeof a->sum_of_squares) != 0)
        fail_because("sums of squares of family %s differ", comet_isa_name(k->isa));
    if (a->min != b->min || a->max != b->max || a->n_nonzero != b->n_nonzero)
        fail_because("moments of family %s differ: min %g %g, max %g %g, non-zero %llu %llu", comet_isa_name(k->isa), a->min,
                     b->min, a->max, b->max, (unsigned long long)a->n_nonzero, (unsigned long long)b->n_nonzero);
}

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

/* Codes that no encoder makes reach this stage from damaged frames. */
static void fill_codes(test_rng *r, enum code_width width, size_t n, void *codes)
{
    unsigned shift = (unsigned)rng_below(r, 16);
    bool wild = rng_chance(r, 4);
    for (size_t i = 0; i < n; i++) {
        int64_t limit = width == CODES16 ? CODE16_LIMIT : CODE32_LIMIT;
        int64_t v = (int64_t)(rng_next(r) % (uint64_t)(2 * limit + 1)) - limit;
        v = wild ? (int64_t)rng_next(r) : v >> shift;
        if (width == CODES16)
            ((int16_t *)codes)[i] = (int16_t)v;
        else
            ((int32_t *)codes)[i] = (int32_t)v;
    }
}

/* Kernels may read a block of codes more than the blocks that hold n. */
static size_t readable_codes(size_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK + BLOCK;
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
        quantiser_make(c.dtype, ldexp(1 + rng_unit(&r), (int)rng_below(&r, 20) - 14), c.q.mode, &c.q);
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

/* ---- predict and unpredict ---- */

static void fill_residuals(test_rng *r, enum code_width width, size_t n, void *z)
{
    size_t bytes = code_bytes(width);
    for (size_t i = 0; i < n; i += BLOCK) { /* blocks of every width and share of zeros */
        unsigned bits = (unsigned)rng_below(r, 8 * bytes + 1), sparse = (unsigned)rng_below(r, 20);
        for (size_t k = i; k < n && k < i + BLOCK; k++) {
            uint64_t v = bits ? rng_next(r) >> (64 - bits) : 0;
            v = sparse > 10 && rng_below(r, sparse - 9) ? 0 : v;
            memcpy((uint8_t *)z + k * bytes, &v, bytes);
        }
    }
}

static strides random_strides(test_rng *r)
{
    static const size_t lefts[] = {1, 2, 3, 8, 16, 24, 64, 100}, columns[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 56, 64, 100};
    strides s = {.left = lefts[rng_below(r, COUNT_OF(lefts))]};
    s.up = s.left * columns[rng_below(r, COUNT_OF(columns))];
    return s;
}

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

/* What lies up to a block behind n may be read and spoiled. */
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

/* ---- pack and unpack ---- */

/* What packing produced. */
typedef struct packed {
    uint8_t kinds[MOST_BLOCKS];
    uint8_t data[QUANT_TILE * 8 + 1024];
    size_t bytes;
} packed;

static void check_packed(const packed *p, const packed *ref, const codec_kernels *k, const char *what)
{
    bool same = memcmp(p->kinds, ref->kinds, sizeof ref->kinds) == 0 && p->bytes == ref->bytes &&
                memcmp(p->data, ref->data, ref->bytes) == 0;
    if (!same)
        fail_because("%s of family %s differs: %zu and %zu bytes", what, comet_isa_name(k->isa), p->bytes, ref->bytes);
}

/* In two calls, the second at any block. */
static void pack_blocks(const codec_kernels *k, enum code_width width, const uint8_t *z, size_t n_blocks, size_t first_call,
                        packed *p)
{
    memset(p, 0, sizeof *p);
    uint8_t *end = k->pack[width](z, first_call, 0, p->kinds, p->data);
    end = k->pack[width](z + first_call * BLOCK * code_bytes(width), n_blocks - first_call, first_call, p->kinds, end);
    p->bytes = (size_t)(end - p->data);
}

static void check_pack(test_rng *r, enum code_width width, size_t n_blocks)
{
    static packed p, ref;
    uint8_t *z = guarded_tail(&input, n_blocks * BLOCK * code_bytes(width));
    size_t first_call = rng_below(r, n_blocks + 1);
    fill_residuals(r, width, n_blocks * BLOCK, z);
    pack_blocks(reference, width, z, n_blocks, first_call, &ref);
    FOR_EACH_FAMILY(k)
    {
        pack_blocks(k, width, z, n_blocks, first_call, &p);
        check_packed(&p, &ref, k, "pack");
        assert_true(k->pack_cost[width](z, n_blocks) == 4 * n_blocks + 8 * ref.bytes);
    }
}

static void test_pack(void **state)
{
    test_rng r = {31};
    for (int width = CODES16; width < N_CODE_WIDTHS; width++)
        for (int i = 0; i < 600; i++)
            check_pack(&r, (enum code_width)width, 1 + rng_below(&r, i % 16 ? 9 : MOST_BLOCKS));
}

/* All 2^16 residuals, and blocks around the edges of what a byte or a map can hold. */
static void test_pack_16_bit_edges(void **state)
{
    static packed p, ref;
    static const uint16_t tops[] = {1, 2, 127, 128, 129, 255, 256, 257, 32767, 32768, 32769, 65534, 65535};
    uint16_t *z = (uint16_t *)(void *)guarded_tail(&input, BLOCK * sizeof *z);
    for (size_t t = 0; t < COUNT_OF(tops); t++)
        for (unsigned n_nonzero = 1; n_nonzero <= BLOCK; n_nonzero++)
            for (unsigned other = 1; other <= 3; other += 2) {
                for (unsigned i = 0; i < BLOCK; i++)
                    z[i] = i * 37 % BLOCK < n_nonzero ? (uint16_t)(i * 37 % BLOCK ? other : tops[t]) : 0;
                pack_blocks(reference, CODES16, (const uint8_t *)z, 1, 1, &ref);
                FOR_EACH_FAMILY(k)
                {
                    pack_blocks(k, CODES16, (const uint8_t *)z, 1, 1, &p);
                    check_packed(&p, &ref, k, "pack");
                }
            }
}

/* Unpacks with every family; the verdict, and where it is good everything else, must be the reference's. */
static void check_unpack(enum code_width width, const uint8_t *kinds, size_t first_block, size_t n_blocks, bool identity,
                         block_reader start)
{
    size_t bytes = n_blocks * BLOCK * code_bytes(width);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *codes, *codes_ref;
        outputs_of(bytes, &codes, &codes_ref);
        block_reader in = start, ref = start;
        bool ok = k->unpack[width](kinds, first_block, n_blocks, identity, &in, codes);
        bool ok_ref = reference->unpack[width](kinds, first_block, n_blocks, identity, &ref, codes_ref);
        if (ok != ok_ref)
            fail_because("unpack of family %s says %d where the reference says %d (width %d, %zu blocks)",
                         comet_isa_name(k->isa), ok, ok_ref, (int)width, n_blocks);
        if (ok) {
            assert_true(in.next == ref.next);
            check_outputs(codes, codes_ref, bytes, k, "unpack", n_blocks);
        }
    }
}

/* READ_SLACK bytes behind the blocks may be read, then comes the guard. */
static block_reader place_blocks(test_rng *r, const uint8_t *data, size_t bytes)
{
    uint8_t *at = guarded_tail(&input, bytes + READ_SLACK);
    memcpy(at, data, bytes);
    for (size_t i = 0; i < READ_SLACK; i++)
        at[bytes + i] = (uint8_t)rng_next(r);
    return (block_reader){at, at + bytes};
}

static void check_unpack_inverts_pack(test_rng *r, enum code_width width, size_t n_blocks)
{
    static uint8_t z[QUANT_TILE * 8], back[QUANT_TILE * 8];
    static packed p;
    fill_residuals(r, width, n_blocks * BLOCK, z);
    pack_blocks(reference, width, z, n_blocks, rng_below(r, n_blocks + 1), &p);
    block_reader start = place_blocks(r, p.data, p.bytes);
    block_reader in = start;
    assert_true(reference->unpack[width](p.kinds, 0, n_blocks, true, &in, back));
    assert_true(in.next == in.end);
    assert_memory_equal(back, z, n_blocks * BLOCK * code_bytes(width));
    for (int identity = 0; identity < 2; identity++)
        check_unpack(width, p.kinds, 0, n_blocks, identity, start);
    for (int cut = 0; cut < 4; cut++) /* bytes missing at the end */
        check_unpack(width, p.kinds, 0, n_blocks, false, place_blocks(r, p.data, p.bytes - rng_below(r, p.bytes + 1)));
}

static void test_unpack(void **state)
{
    test_rng r = {32};
    for (int width = CODES16; width < N_CODE_WIDTHS; width++)
        for (int i = 0; i < 400; i++)
            check_unpack_inverts_pack(&r, (enum code_width)width, 1 + rng_below(&r, i % 16 ? 9 : MOST_BLOCKS));
}

/* Kinds and blocks that no encoder wrote. */
static void test_unpack_of_damaged_streams(void **state)
{
    test_rng r = {33};
    for (int i = 0; i < 12000; i++) {
        enum code_width width = (enum code_width)rng_below(&r, N_CODE_WIDTHS);
        uint8_t kinds[16], data[1024];
        size_t first_block = rng_below(&r, 4), n_blocks = 1 + rng_below(&r, 12), bytes = rng_below(&r, sizeof data);
        for (size_t k = 0; k < sizeof kinds; k++)
            kinds[k] = (uint8_t)(rng_chance(&r, 3) ? rng_next(&r) : rng_below(&r, 4) * 17);
        for (size_t k = 0; k < bytes; k++)
            data[k] = (uint8_t)(rng_chance(&r, 2) ? rng_next(&r) & rng_next(&r) : rng_below(&r, 70));
        check_unpack(width, kinds, first_block, n_blocks, rng_chance(&r, 2), place_blocks(&r, data, bytes));
    }
}

/* ---- tiles: quantise, predict and pack in one go; and back ---- */

typedef struct tile_case {
    quantise_case q;
    const uint8_t *x;
    enum predictor predictor;
    bool identity;
    strides strides;
    uint8_t *codes, *codes_ref; /* with what lies before and behind them */
    size_t before, code_total;  /* in codes */
} tile_case;

typedef struct tile_result {
    uint64_t failed[MOST_BLOCKS + 1];
    moments moments;
    packed packed;
} tile_result;

/* job may be carried out by a family's encode_tile or step by step by the reference. */
static void run_tile(const tile_case *c, const codec_kernels *k, uint8_t *codes, tile_result *out)
{
    static _Alignas(64) uint8_t residuals[QUANT_TILE * sizeof(uint64_t)];
    memset(out->failed, 0, sizeof out->failed);
    out->moments = (moments){.min = INFINITY, .max = -INFINITY};
    memset(&out->packed, 0, sizeof out->packed);
    uint8_t *end = out->packed.data;
    uint64_t n_failed = 0;
    size_t n_blocks = (c->q.n + BLOCK - 1) / BLOCK;
    if (k) {
        const tile_job job = {.quantiser = &c->q.q,
                              .x = c->x,
                              .n = c->q.n,
                              .first = c->q.first,
                              .codes = codes,
                              .failed = out->failed,
                              .moments = &out->moments,
                              .predictor = c->predictor,
                              .identity = c->identity,
                              .strides = c->strides,
                              .residuals = residuals,
                              .kinds = out->packed.kinds,
                              .out = &end,
                              .prefetch = c->identity ? NULL : (const float *)(const void *)residuals};
        n_failed = k->encode_tile[c->q.dtype](&job);
    } else {
        reference->quantise[CODES16][c->q.dtype](&c->q.q, c->x, c->q.n, c->q.first, codes, out->failed, &out->moments);
        reference->predict[CODES16](c->predictor, c->identity, codes, n_blocks * BLOCK, c->strides, residuals);
        end = reference->pack[CODES16](residuals, n_blocks, 0, out->packed.kinds, end);
    }
    out->packed.bytes = (size_t)(end - out->packed.data);
    for (size_t b = 0; k && b < n_blocks; b++)
        n_failed -= (uint64_t)__builtin_popcountll(out->failed[b]);
    assert_true(n_failed == 0);
}

/* By a family, or step by step by the reference; as if some blocks lay before the tile. */
static bool decode_tile_with(const tile_case *c, const codec_kernels *k, const packed *p, block_reader in, uint8_t *codes,
                             bool stream, uint8_t *x)
{
    enum { BEFORE = 6 };
    const size_t n_blocks = (c->q.n + BLOCK - 1) / BLOCK;
    uint8_t kinds[BEFORE / 2 + MOST_BLOCKS] = {0};
    memcpy(kinds + BEFORE / 2, p->kinds, sizeof p->kinds);
    const packed_tile tile = {.quantiser = &c->q.q,
                              .kinds = kinds,
                              .in = &in,
                              .n = c->q.n,
                              .first = BEFORE * BLOCK,
                              .predictor = c->predictor,
                              .identity = c->identity,
                              .strides = c->strides,
                              .codes = codes,
                              .x = x,
                              .stream = stream,
                              .prefetch = stream ? (const float *)(const void *)p->data : NULL};
    if (k)
        return k->decode_tile[c->q.dtype](&tile) && in.next == in.end;
    if (!reference->unpack[CODES16](p->kinds, 0, n_blocks, c->identity, &in, codes))
        return false;
    reference->unpredict[CODES16](c->predictor, codes, n_blocks * BLOCK, c->strides);
    reference->dequantise[CODES16][c->q.dtype](&c->q.q, codes, c->q.n, BEFORE * BLOCK, x, false);
    return in.next == in.end;
}

/* What was packed, decoded by all families: elements, and the codes that tiles behind need; and a byte too short. */
static void check_decode_tile(test_rng *r, const tile_case *c, const packed *p, const uint8_t *before)
{
    const comet_tensor t = tensor_1d(c->q.dtype, c->q.n);
    const size_t bytes = bytes_of(&t), code_bytes_total = (c->code_total + BLOCK) * 2, start = c->before * 2;
    const size_t shift = rng_chance(r, 2) ? rng_below(r, 16) * comet_dtype_bytes(c->q.dtype) : 0;
    const block_reader in = place_blocks(r, p->data, p->bytes);
    uint8_t *codes = need_malloc(code_bytes_total), *codes_ref = need_malloc(code_bytes_total);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *x, *x_ref;
        outputs_of(bytes + shift, &x, &x_ref); /* what lies behind is not written */
        memset(codes, 0, code_bytes_total);
        memcpy(codes, before, start);
        memcpy(codes_ref, codes, code_bytes_total);
        assert_true(decode_tile_with(c, NULL, p, in, codes_ref + start, false, x_ref));
        assert_true(decode_tile_with(c, k, p, in, codes + start, rng_chance(r, 2), x));
        check_outputs(x, x_ref, bytes + shift, k, "decode_tile", c->q.n);
        if (c->predictor != PREDICT_NONE)
            assert_memory_equal(codes, codes_ref, start + (c->q.n + BLOCK - 1) / BLOCK * BLOCK * 2);
        if (p->bytes > 0)
            assert_false(decode_tile_with(c, k, p, (block_reader){in.next, in.end - 1}, codes + start, false, x));
    }
    free(codes);
    free(codes_ref);
}

static tile_case random_tile(test_rng *r, size_t n)
{
    static const enum predictor predictors[] = {PREDICT_NONE, PREDICT_LEFT, PREDICT_UP, PREDICT_LORENZO};
    tile_case c = {.q = quantise_case_of(r, n), .predictor = predictors[rng_below(r, 4)], .strides = random_strides(r)};
    c.q.first = 0; /* so that kinds begin at the first */
    c.identity = c.predictor == PREDICT_NONE && rng_chance(r, 2);
    return c;
}

/* Of whole blocks of floats, as training has them, in planes or in channel blocks of 16. */
static tile_case usual_tile(test_rng *r)
{
    static const size_t columns[] = {4, 6, 7, 14, 28, 32, 33, 56, 64, 112};
    tile_case c;
    do
        c = random_tile(r, BLOCK * (1 + rng_below(r, rng_chance(r, 4) ? MOST_BLOCKS : 8)));
    while (c.q.dtype != COMET_DTYPE_F32);
    c.strides.left = rng_chance(r, 2) ? 1 : 16;
    c.strides.up = 16 * columns[rng_below(r, COUNT_OF(columns))];
    return c;
}

static void check_tile(test_rng *r, tile_case c)
{
    static tile_result result, ref;
    const size_t n = c.q.n;
    comet_tensor t = tensor_1d(c.q.dtype, n);
    uint8_t *x = guarded_tail(&input, bytes_of(&t));
    fill_tensor(r, (enum data_class)rng_below(r, N_DATA_CLASSES), &t, x);
    c.x = x;
    c.before = (c.strides.left + c.strides.up + 2 * BLOCK - 1) / BLOCK * BLOCK;
    c.code_total = c.before + readable_codes(n);
    outputs_of(c.code_total * 2, &c.codes, &c.codes_ref);
    fill_codes(r, CODES16, c.before, c.codes);
    memcpy(c.codes_ref, c.codes, c.before * 2);
    uint8_t *start = need_malloc(c.code_total * 2);
    memcpy(start, c.codes, c.code_total * 2);
    run_tile(&c, NULL, c.codes_ref + c.before * 2, &ref);
    FOR_EACH_FAMILY(k)
    {
        memcpy(c.codes, start, c.code_total * 2);
        run_tile(&c, k, c.codes + c.before * 2, &result);
        check_outputs(c.codes, c.codes_ref, c.code_total * 2, k, "encode_tile", n);
        check_packed(&result.packed, &ref.packed, k, "encode_tile");
        assert_memory_equal(result.failed, ref.failed, sizeof ref.failed);
        if (all_finite(c.q.dtype, x, n))
            check_moments(&result.moments, &ref.moments, k);
    }
    check_decode_tile(r, &c, &ref.packed, start);
    free(start);
}

static void test_tiles(void **state)
{
    test_rng r = {35};
    for (size_t n = 1; n <= 200; n++)
        for (int i = 0; i < 6; i++)
            check_tile(&r, random_tile(&r, n));
    for (int i = 0; i < 600; i++)
        check_tile(&r, random_tile(&r, i % 3 ? QUANT_TILE : 1 + rng_below(&r, QUANT_TILE)));
    for (int i = 0; i < 600; i++)
        check_tile(&r, usual_tile(&r));
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

/* ---- the dense model and coder ---- */

static const enum predictor dense_predictors[] = {PREDICT_NONE, PREDICT_LEFT, PREDICT_LORENZO, PREDICT_MEDIAN, PREDICT_LINEAR};

/* Two rows of cells with two positions of padding on either side. */
typedef struct cell_rows {
    enum code_width width;
    size_t columns, lanes;  /* positions, lanes a position */
    size_t position, bytes; /* in bytes; of a row with its padding */
    uint8_t *above, *row;   /* the first cell */
    uint8_t *memory;
} cell_rows;

static cell_rows random_rows(test_rng *r)
{
    cell_rows c = {
        .width = (enum code_width)rng_below(r, 2), .columns = 1 + rng_below(r, 12), .lanes = LANES * (1 + rng_below(r, 3))};
    c.position = c.lanes * code_bytes(c.width);
    c.bytes = (c.columns + 4) * c.position;
    c.memory = aligned_alloc(64, 2 * c.bytes);
    assert_non_null(c.memory);
    c.above = c.memory + 2 * c.position;
    c.row = c.above + c.bytes;
    fill_codes(r, c.width, (size_t)(2 * c.bytes / code_bytes(c.width)), c.memory);
    return c;
}

/* As fill_codes, but within what an encoder makes, and mostly small. */
static void calm_rows(test_rng *r, cell_rows *c)
{
    size_t n = 2 * c->bytes / code_bytes(c->width);
    unsigned range = 1 + (unsigned)rng_below(r, rng_chance(r, 4) ? CODE16_LIMIT : 40);
    for (size_t i = 0; i < n; i++) {
        int32_t v = (int32_t)rng_below(r, 2 * range + 1) - (int32_t)range;
        v = rng_chance(r, 3) ? v : v / 8;
        if (c->width == CODES16)
            ((int16_t *)(void *)c->memory)[i] = (int16_t)v;
        else
            ((int32_t *)(void *)c->memory)[i] = rng_chance(r, 50) ? v * 20000 : v;
    }
}

typedef struct modelled {
    uint16_t symbols[12 * 3 * LANES];
    uint32_t escapes[12 * 3 * LANES + 32];
    size_t n_escapes;
} modelled;

static void model_with(const codec_kernels *k, enum predictor p, bool identity, const cell_rows *c, modelled *m)
{
    memset(m, 0, sizeof *m);
    uint32_t *end = k->model_row[c->width](p, identity, c->above, c->row, c->columns, c->lanes, m->symbols, m->escapes);
    m->n_escapes = (size_t)(end - m->escapes);
}

/* Escapes as a frame has them; returns the number of bits. */
static uint64_t write_escapes(const modelled *m, unsigned order, uint8_t *out)
{
    bit_writer w = {.next = out};
    for (size_t i = 0; i < m->n_escapes; i++) {
        uint64_t v = m->escapes[i] + (UINT64_C(1) << order);
        unsigned bits = bit_length_u64(v) - 1;
        bit_write(&w, 0, bits - order);
        bit_write(&w, 1, 1);
        bit_write(&w, v & ((UINT64_C(1) << bits) - 1), bits);
    }
    uint64_t bits = (uint64_t)(w.next - out) * 8 + w.n_pending;
    bit_writer_end(&w);
    return bits;
}

static void test_model_row(void **state)
{
    static modelled m, ref;
    test_rng r = {51};
    for (int i = 0; i < 1500; i++) {
        cell_rows c = random_rows(&r);
        calm_rows(&r, &c);
        enum predictor p = dense_predictors[rng_below(&r, COUNT_OF(dense_predictors))];
        bool identity = p == PREDICT_NONE && rng_chance(&r, 2);
        model_with(reference, p, identity, &c, &ref);
        FOR_EACH_FAMILY(k)
        {
            model_with(k, p, identity, &c, &m);
            assert_true(m.n_escapes == ref.n_escapes);
            assert_memory_equal(m.symbols, ref.symbols, c.columns * c.lanes * sizeof *m.symbols);
            assert_memory_equal(m.escapes, ref.escapes, ref.n_escapes * sizeof *ref.escapes);
        }
        free(c.memory);
    }
}

typedef struct coder_tables {
    uint32_t entries[N_CONTEXTS * N_SYMBOLS];
    symbol_tables symbols;
} coder_tables;

/* Frequencies in which every symbol occurs, those counted more often. */
static void fill_tables(const uint16_t *symbols, size_t n, coder_tables *t)
{
    uint32_t counts[N_CONTEXTS * N_SYMBOLS] = {0};
    for (size_t i = 0; i < n; i++)
        counts[symbols[i] & 0xff]++;
    for (uint32_t c = 0; c < N_CONTEXTS; c++) {
        uint32_t total = 1, sum = 0, start = 0, frequency[N_SYMBOLS];
        for (uint32_t s = 0; s < N_SYMBOLS; s++)
            total += counts[c * N_SYMBOLS + s];
        for (uint32_t s = 0; s < N_SYMBOLS; s++)
            sum += frequency[s] = 1 + counts[c * N_SYMBOLS + s] * (PROB_SCALE - N_SYMBOLS) / total;
        frequency[c % N_SYMBOLS] += PROB_SCALE - sum;
        for (uint32_t s = 0; s < N_SYMBOLS; s++) {
            t->entries[c * N_SYMBOLS + s] = coder_entry(start, frequency[s], symbol_bits[s]);
            t->symbols.start[c][s] = (uint16_t)start;
            start += frequency[s];
        }
        t->symbols.start[c][N_SYMBOLS] = (uint16_t)start;
    }
    dense_fill_tables(&t->symbols);
}

typedef struct coded {
    const uint8_t *words; /* end at the output's guard */
    size_t bytes;
    uint32_t state[LANES];
} coded;

static coded encode_with(const codec_kernels *k, const uint16_t *symbols, size_t n, const coder_tables *t, uint8_t *end)
{
    coded c;
    for (int i = 0; i < LANES; i++)
        c.state[i] = STATE_MIN;
    c.words = k->entropy_encode(symbols, n, t->entries, end, c.state);
    c.bytes = (size_t)(end - c.words);
    return c;
}

static coder_tables tables; /* large */

/* One of the first `range` symbols of all contexts, with raw bits. */
static uint16_t random_symbol(test_rng *r, unsigned range)
{
    unsigned symbol = (unsigned)rng_below(r, range);
    return (uint16_t)(rng_below(r, 1u << symbol_bits[symbol % N_SYMBOLS]) << 8 | symbol);
}

static void test_entropy_encode(void **state)
{
    test_rng r = {52};
    for (int i = 0; i < 300; i++) {
        size_t n = LANES * (1 + rng_below(&r, 40));
        uint16_t *symbols = (uint16_t *)(void *)guarded_tail(&input, n * sizeof *symbols);
        unsigned range = 1 + (unsigned)rng_below(&r, N_CONTEXTS * N_SYMBOLS);
        for (size_t k = 0; k < n; k++)
            symbols[k] = random_symbol(&r, rng_chance(&r, 2) ? range : 1 + range / 100);
        fill_tables(symbols, n, &tables);
        coded ref = encode_with(reference, symbols, n, &tables, expected.end);
        FOR_EACH_FAMILY(k)
        {
            coded c = encode_with(k, symbols, n, &tables, output.end);
            assert_int_equal(c.bytes, ref.bytes);
            assert_memory_equal(c.words, ref.words, ref.bytes);
            assert_memory_equal(c.state, ref.state, sizeof ref.state);
        }
    }
}

/* A reader over words and escapes that lie one behind the other, as in a frame, with READ_SLACK behind them. */
static entropy_reader reader_of(test_rng *r, unsigned order, const uint8_t *escapes, size_t escape_bytes, const uint8_t *words,
                                size_t word_bytes, const uint32_t state[LANES])
{
    uint8_t *at = guarded_tail(&input, escape_bytes + word_bytes + READ_SLACK);
    memcpy(at, escapes, escape_bytes);
    memcpy(at + escape_bytes, words, word_bytes);
    for (size_t i = 0; i < READ_SLACK; i++)
        input.end[-1 - (ptrdiff_t)i] = (uint8_t)rng_next(r);
    entropy_reader in = {.words = at + escape_bytes, .end = at + escape_bytes + word_bytes, .tables = &tables.symbols};
    in.escapes = bit_reader_make(at, escape_bytes);
    in.escape_order = order;
    memcpy(in.state, state, sizeof in.state);
    return in;
}

/* Whether every cell of the row is a code that an encoder can make. Families need not agree on others. */
static bool codes_in_range(const cell_rows *c)
{
    for (size_t i = 0; i < c->columns * c->lanes; i++) {
        int32_t v =
            c->width == CODES16 ? ((const int16_t *)(const void *)c->row)[i] : ((const int32_t *)(const void *)c->row)[i];
        int32_t limit = c->width == CODES16 ? CODE16_LIMIT : CODE32_LIMIT;
        if (v < -limit || v > limit)
            return false;
    }
    return true;
}

/* Decodes one row with every family from the same reader; the verdict, and where it is good everything else, must agree.
 * Returns the verdict; the reference's row stays in *c. */
static bool check_decode_row(enum predictor p, bool identity, cell_rows *c, const entropy_reader *start)
{
    size_t row_bytes = c->columns * c->position;
    uint8_t *saved = need_malloc(c->bytes);
    memcpy(saved, c->row - 2 * c->position, c->bytes);
    entropy_reader ref = *start;
    bool ok_ref = reference->decode_row[c->width](p, identity, c->above, c->row, c->columns, c->lanes, &ref);
    uint8_t *row_ref = need_malloc(row_bytes);
    memcpy(row_ref, c->row, row_bytes);
    bool binding = codes_in_range(c);
    FOR_EACH_FAMILY(k)
    {
        memcpy(c->row - 2 * c->position, saved, c->bytes);
        entropy_reader in = *start;
        bool ok = k->decode_row[c->width](p, identity, c->above, c->row, c->columns, c->lanes, &in);
        if (!binding)
            continue;
        if (ok != ok_ref)
            fail_because("decode_row of family %s says %d where the reference says %d (predictor %d, width %d)",
                         comet_isa_name(k->isa), ok, ok_ref, (int)p, (int)c->width);
        if (!ok)
            continue;
        assert_ptr_equal(in.words, ref.words);
        assert_true(in.escapes.position == ref.escapes.position);
        assert_memory_equal(in.state, ref.state, sizeof ref.state);
        if (memcmp(c->row, row_ref, row_bytes) != 0)
            fail_because("decode_row of family %s differs (predictor %d, width %d)", comet_isa_name(k->isa), (int)p,
                         (int)c->width);
    }
    memcpy(c->row, row_ref, row_bytes);
    free(saved);
    free(row_ref);
    return ok_ref;
}

static void test_decode_row_inverts_the_encoder(void **state)
{
    static modelled m;
    static uint8_t escapes[COUNT_OF(m.escapes) * 9 + 8]; /* 32 zeros, a one and 32 bits at most */
    test_rng r = {53};
    for (int i = 0; i < 600; i++) {
        cell_rows c = random_rows(&r);
        calm_rows(&r, &c);
        enum predictor p = dense_predictors[rng_below(&r, COUNT_OF(dense_predictors))];
        size_t n = c.columns * c.lanes, row_bytes = c.columns * c.position;
        bool identity = p == PREDICT_NONE && rng_chance(&r, 2);
        unsigned order = (unsigned)rng_below(&r, rng_chance(&r, 8) ? 32 : 12);
        model_with(reference, p, identity, &c, &m);
        size_t escape_bits = write_escapes(&m, order, escapes), escape_bytes = (escape_bits + 7) / 8;
        fill_tables(m.symbols, n, &tables);
        coded words = encode_with(reference, m.symbols, n, &tables, output.end);
        uint8_t *original = need_malloc(row_bytes);
        memcpy(original, c.row, row_bytes);
        memset(c.row, 0x3c, row_bytes);
        entropy_reader in = reader_of(&r, order, escapes, escape_bytes, words.words, words.bytes, words.state);
        assert_true(check_decode_row(p, identity, &c, &in));
        assert_memory_equal(c.row, original, row_bytes);
        if (words.bytes) { /* one word fewer: the verdict must be no */
            in = reader_of(&r, order, escapes, escape_bytes, words.words, words.bytes - 2, words.state);
            assert_false(check_decode_row(p, identity, &c, &in));
        }
        if (escape_bytes) {
            in = reader_of(&r, order, escapes, escape_bytes - 1, words.words, words.bytes, words.state);
            assert_false(check_decode_row(p, identity, &c, &in));
        }
        free(original);
        free(c.memory);
    }
}

/* Words, states and escapes that no encoder wrote. */
static void test_decode_row_of_damaged_streams(void **state)
{
    static uint8_t escapes[4096], words[8192];
    test_rng r = {54};
    for (int i = 0; i < 1500; i++) {
        cell_rows c = random_rows(&r);
        calm_rows(&r, &c);
        memset(c.row, 0, c.columns * c.position); /* what a stream that ends early leaves */
        uint16_t symbols[256];
        uint32_t states[LANES];
        unsigned range = 1 + (unsigned)rng_below(&r, rng_chance(&r, 2) ? N_CONTEXTS * N_SYMBOLS : 20);
        for (size_t k = 0; k < COUNT_OF(symbols); k++)
            symbols[k] = (uint16_t)(rng_below(&r, range) + rng_below(&r, N_CONTEXTS) * N_SYMBOLS);
        fill_tables(symbols, COUNT_OF(symbols), &tables);
        for (int k = 0; k < LANES; k++)
            states[k] = STATE_MIN + (uint32_t)rng_below(&r, UINT32_MAX - STATE_MIN);
        size_t escape_bytes = rng_below(&r, sizeof escapes), word_bytes = rng_below(&r, sizeof words / 2) * 2;
        for (size_t k = 0; k < escape_bytes; k++)
            escapes[k] = (uint8_t)rng_next(&r);
        for (size_t k = 0; k < word_bytes; k++)
            words[k] = (uint8_t)rng_next(&r);
        unsigned order = (unsigned)rng_below(&r, 32);
        entropy_reader in = reader_of(&r, order, escapes, escape_bytes, words, word_bytes, states);
        enum predictor p = dense_predictors[rng_below(&r, COUNT_OF(dense_predictors))];
        check_decode_row(p, p == PREDICT_NONE && rng_chance(&r, 2), &c, &in);
        free(c.memory);
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
        cmocka_unit_test(test_predict_and_unpredict),
        cmocka_unit_test(test_unpredict_inverts_predict),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_pack_16_bit_edges),
        cmocka_unit_test(test_unpack),
        cmocka_unit_test(test_unpack_of_damaged_streams),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_gather_and_scatter),
        cmocka_unit_test(test_model_row),
        cmocka_unit_test(test_entropy_encode),
        cmocka_unit_test(test_decode_row_inverts_the_encoder),
        cmocka_unit_test(test_decode_row_of_damaged_streams),
    };
    return cmocka_run_group_tests_name("kernels", tests, make_room, free_room);
}
