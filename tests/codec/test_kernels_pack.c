/* Kernels that pack blocks, and those that code a whole tile, against the reference, bit for bit; unpacking of damaged streams.
 */
#include "kernels_testing.h"

#include <math.h>
#include <stdlib.h>

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

/* READ_SLACK bytes after the blocks may be read, then comes the guard. */
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
    uint8_t *codes, *codes_ref; /* with what lies before and after them */
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

/* All families decode what was packed: elements, and the codes that later tiles need. A stream one byte too short is refused.
 */
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
        outputs_of(bytes + shift, &x, &x_ref); /* what lies after them is not written */
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

/* A tile of whole blocks of floats, as training has them, in planes or in channel blocks of 16. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack),   cmocka_unit_test(test_pack_16_bit_edges),
        cmocka_unit_test(test_unpack), cmocka_unit_test(test_unpack_of_damaged_streams),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests_name("kernels: pack", tests, make_room, free_room);
}
