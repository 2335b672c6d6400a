/* Kernels that pack blocks, and those that code a whole tile, against the reference, bit for bit; unpacking of damaged streams.
 */
#include "kernels_testing.h"

#include <math.h>
#include <stdlib.h>

#include "codec/blocks.h"
#include "codec/kernels/block.h"

/* ---- pack and unpack ---- */

/* What packing produced: a payload's blocks from the kinds on. */
typedef struct packed {
    uint8_t data[QUANT_TILE * 8 + 1024];
    size_t bytes;
} packed;

static void check_packed(const packed *p, const packed *ref, const codec_kernels *k, const char *what)
{
    bool same = p->bytes == ref->bytes && memcmp(p->data, ref->data, ref->bytes) == 0;
    if (!same)
        fail_because("%s of family %s differs: %zu and %zu bytes", what, comet_isa_name(k->isa), p->bytes, ref->bytes);
}

static uint8_t aside[MOST_BLOCKS * (MAP_BYTES + 1) + 3 * WRITE_SLACK]; /* maps and wide bytes while blocks are packed */

static block_writer begin_packing(packed *p, size_t n_blocks)
{
    assert_true(blocks_aside_bytes(n_blocks) <= sizeof aside);
    memset(p, 0, sizeof *p);
    return blocks_write_begin(p->data, aside, n_blocks);
}

static void end_packing(const block_writer *w, size_t n_blocks, packed *p)
{
    p->bytes = (size_t)(blocks_write_end(w, aside, n_blocks) - p->data);
}

/* In two calls, the second at any block. */
static void pack_blocks(const codec_kernels *k, enum code_width width, const uint8_t *z, size_t n_blocks, size_t first_call,
                        packed *p)
{
    block_writer w = begin_packing(p, n_blocks);
    k->pack[width](z, first_call, 0, &w);
    k->pack[width](z + first_call * BLOCK * code_bytes(width), n_blocks - first_call, first_call, &w);
    end_packing(&w, n_blocks, p);
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
        assert_true(k->pack_cost[width](z, n_blocks) == 4 * n_blocks + 8 * (ref.bytes - (n_blocks + 1) / 2));
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

static bool same_place(const block_reader *a, const block_reader *b)
{
    return a->values == b->values && a->maps == b->maps && a->wides == b->wides;
}

/* Unpacks with every family; the verdict, and where it is good everything else, must be the reference's. */
static void check_unpack(enum code_width width, size_t first_block, size_t n_blocks, bool identity, block_reader start)
{
    size_t bytes = n_blocks * BLOCK * code_bytes(width);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *codes, *codes_ref;
        outputs_of(bytes, &codes, &codes_ref);
        block_reader in = start, ref = start;
        bool ok = k->unpack[width](first_block, n_blocks, identity, &in, codes);
        bool ok_ref = reference->unpack[width](first_block, n_blocks, identity, &ref, codes_ref);
        if (ok != ok_ref)
            fail_because("unpack of family %s says %d where the reference says %d (width %d, %zu blocks)",
                         comet_isa_name(k->isa), ok, ok_ref, (int)width, n_blocks);
        if (ok) {
            assert_true(same_place(&in, &ref));
            check_outputs(codes, codes_ref, bytes, k, "unpack", n_blocks);
        }
    }
}

/* READ_SLACK bytes after the blocks may be read, then comes the guard. False if the blocks have no room for all their parts. */
static bool place_blocks(test_rng *r, const uint8_t *data, size_t bytes, size_t n_blocks, block_reader *in)
{
    uint8_t *at = guarded_tail(&input, bytes + READ_SLACK);
    memcpy(at, data, bytes);
    for (size_t i = 0; i < READ_SLACK; i++)
        at[bytes + i] = (uint8_t)rng_next(r);
    return blocks_read_begin(at, at + bytes, n_blocks, in);
}

/* Where the parts are, counted block by block. */
static void check_places(const block_reader *in, const packed *p, size_t n_blocks)
{
    size_t n_wide = 0, n_maps = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        unsigned kind = get_kind(p->data, b);
        n_maps += kind == KIND_WIDE ? p->data[p->bytes - 1 - n_wide] >> 7 : kind >= 1 && kind <= KIND_BITMAP_MAX;
        n_wide += kind == KIND_WIDE;
    }
    assert_true(in->values == in->kinds + (n_blocks + 1) / 2 && in->values_end == in->maps);
    assert_true(in->wides == in->kinds + p->bytes && in->maps == in->wides - n_wide - MAP_BYTES * n_maps);
}

static void check_unpack_inverts_pack(test_rng *r, enum code_width width, size_t n_blocks)
{
    static uint8_t z[QUANT_TILE * 8], back[QUANT_TILE * 8];
    static packed p;
    block_reader start, cut;
    fill_residuals(r, width, n_blocks * BLOCK, z);
    pack_blocks(reference, width, z, n_blocks, rng_below(r, n_blocks + 1), &p);
    assert_true(place_blocks(r, p.data, p.bytes, n_blocks, &start));
    check_places(&start, &p, n_blocks);
    block_reader in = start;
    assert_true(reference->unpack[width](0, n_blocks, true, &in, back));
    assert_true(blocks_read_finished(&in));
    assert_memory_equal(back, z, n_blocks * BLOCK * code_bytes(width));
    for (int identity = 0; identity < 2; identity++)
        check_unpack(width, 0, n_blocks, identity, start);
    for (int i = 0; i < 4; i++) /* bytes missing at the end */
        if (place_blocks(r, p.data, p.bytes - rng_below(r, p.bytes + 1), n_blocks, &cut))
            check_unpack(width, 0, n_blocks, false, cut);
}

static void test_unpack(void **state)
{
    test_rng r = {32};
    for (int width = CODES16; width < N_CODE_WIDTHS; width++)
        for (int i = 0; i < 400; i++)
            check_unpack_inverts_pack(&r, (enum code_width)width, 1 + rng_below(&r, i % 16 ? 9 : MOST_BLOCKS));
}

/* Kinds and blocks that no encoder wrote: room for their parts is made or not, at random. */
static void test_unpack_of_damaged_streams(void **state)
{
    test_rng r = {33};
    int n_begun = 0;
    for (int i = 0; i < 12000; i++) {
        enum code_width width = (enum code_width)rng_below(&r, N_CODE_WIDTHS);
        uint8_t data[1024];
        size_t n_blocks = 1 + rng_below(&r, 16), first = rng_below(&r, n_blocks), bytes = rng_below(&r, sizeof data);
        for (size_t k = 0; k < bytes; k++)
            data[k] = (uint8_t)(rng_chance(&r, 2) ? rng_next(&r) & rng_next(&r) : rng_below(&r, 70));
        for (size_t k = 0; k < (n_blocks + 1) / 2 && k < bytes; k++)
            data[k] = (uint8_t)(rng_chance(&r, 3) ? rng_next(&r) : rng_below(&r, 4) * 17);
        if (n_blocks % 2 && n_blocks / 2 < bytes && rng_below(&r, 20))
            data[n_blocks / 2] &= 15;
        block_reader start;
        if (!place_blocks(&r, data, bytes, n_blocks, &start))
            continue;
        n_begun++;
        check_unpack(width, first, n_blocks - first, rng_chance(&r, 2), start);
    }
    assert_true(n_begun > 6000);
}

/* One byte fewer than the parts take is refused, and so is a half byte after the last kind. */
static void test_room_for_parts(void **state)
{
    enum { MOST = 70 };
    for (size_t n_blocks = 1; n_blocks <= MOST; n_blocks++) {
        uint8_t data[MOST / 2 + MOST * (MAP_BYTES + 1) + READ_SLACK] = {0};
        size_t parts = (n_blocks + 1) / 2;
        for (size_t b = 0; b < n_blocks; b++) {
            set_kind(data, b, b % 3 == 0 ? KIND_WIDE : b % 3 == 1 ? 3 : 8);
            parts += b % 3 == 0 ? MAP_BYTES + 1 : b % 3 == 1 ? MAP_BYTES : 0;
        }
        memset(data + (n_blocks + 1) / 2, 130, sizeof data - (n_blocks + 1) / 2);
        block_reader in;
        assert_true(blocks_read_begin(data, data + parts, n_blocks, &in));
        assert_true(in.values == in.values_end);
        assert_false(blocks_read_begin(data, data + parts - 1, n_blocks, &in));
        assert_false(blocks_read_begin(data, data, n_blocks, &in));
        data[n_blocks / 2] |= 16;
        assert_true(n_blocks % 2 == 0 || !blocks_read_begin(data, data + parts, n_blocks, &in));
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
    uint64_t n_failed = 0;
    size_t n_blocks = (c->q.n + BLOCK - 1) / BLOCK;
    block_writer w = begin_packing(&out->packed, n_blocks);
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
                              .out = &w,
                              .prefetch = c->identity ? NULL : (const float *)(const void *)residuals};
        n_failed = k->encode_tile[c->q.dtype](&job);
    } else {
        reference->quantise[CODES16][c->q.dtype](&c->q.q, c->x, c->q.n, c->q.first, codes, out->failed, &out->moments);
        reference->predict[CODES16](c->predictor, c->identity, codes, n_blocks * BLOCK, c->strides, residuals);
        reference->pack[CODES16](residuals, n_blocks, 0, &w);
    }
    end_packing(&w, n_blocks, &out->packed);
    for (size_t b = 0; k && b < n_blocks; b++)
        n_failed -= (uint64_t)__builtin_popcountll(out->failed[b]);
    assert_true(n_failed == 0);
}

/* By a family, or step by step by the reference; as if some blocks lay before the tile. */
static bool decode_tile_with(const tile_case *c, const codec_kernels *k, block_reader in, uint8_t *codes, bool stream,
                             uint8_t *x)
{
    enum { BEFORE = 6 };
    const size_t n_blocks = (c->q.n + BLOCK - 1) / BLOCK;
    uint8_t kinds[BEFORE / 2 + MOST_BLOCKS] = {0};
    memcpy(kinds + BEFORE / 2, in.kinds, (n_blocks + 1) / 2);
    block_reader after = in;
    after.kinds = kinds;
    const packed_tile tile = {.quantiser = &c->q.q,
                              .in = &after,
                              .n = c->q.n,
                              .first = BEFORE * BLOCK,
                              .predictor = c->predictor,
                              .identity = c->identity,
                              .strides = c->strides,
                              .codes = codes,
                              .x = x,
                              .stream = stream,
                              .prefetch = stream ? (const float *)(const void *)aside : NULL};
    if (k)
        return k->decode_tile[c->q.dtype](&tile) && blocks_read_finished(&after);
    if (!reference->unpack[CODES16](0, n_blocks, c->identity, &in, codes))
        return false;
    reference->unpredict[CODES16](c->predictor, codes, n_blocks * BLOCK, c->strides);
    reference->dequantise[CODES16][c->q.dtype](&c->q.q, codes, c->q.n, BEFORE * BLOCK, x, false);
    return blocks_read_finished(&in);
}

/* All families decode what was packed: elements, and the codes that later tiles need. Values one byte too short are refused.
 */
static void check_decode_tile(test_rng *r, const tile_case *c, const packed *p, const uint8_t *before)
{
    const comet_tensor t = tensor_1d(c->q.dtype, c->q.n);
    const size_t bytes = bytes_of(&t), code_bytes_total = (c->code_total + BLOCK) * 2, start = c->before * 2;
    const size_t shift = rng_chance(r, 2) ? rng_below(r, 16) * comet_dtype_bytes(c->q.dtype) : 0;
    const size_t n_blocks = (c->q.n + BLOCK - 1) / BLOCK;
    block_reader in;
    assert_true(place_blocks(r, p->data, p->bytes, n_blocks, &in));
    block_reader shorter = in;
    shorter.values_end--;
    uint8_t *codes = need_malloc(code_bytes_total), *codes_ref = need_malloc(code_bytes_total);
    FOR_EACH_FAMILY(k)
    {
        uint8_t *x, *x_ref;
        outputs_of(bytes + shift, &x, &x_ref); /* what lies after them is not written */
        memset(codes, 0, code_bytes_total);
        memcpy(codes, before, start);
        memcpy(codes_ref, codes, code_bytes_total);
        assert_true(decode_tile_with(c, NULL, in, codes_ref + start, false, x_ref));
        assert_true(decode_tile_with(c, k, in, codes + start, rng_chance(r, 2), x));
        check_outputs(x, x_ref, bytes + shift, k, "decode_tile", c->q.n);
        if (c->predictor != PREDICT_NONE)
            assert_memory_equal(codes, codes_ref, start + (c->q.n + BLOCK - 1) / BLOCK * BLOCK * 2);
        if (in.values < in.values_end)
            assert_false(decode_tile_with(c, k, shorter, codes + start, false, x));
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

/* A tile of whole blocks of f32 or 16-bit floats, as training has them, in planes or in channel blocks of 16. */
static tile_case usual_tile(test_rng *r)
{
    static const size_t columns[] = {4, 6, 7, 14, 28, 32, 33, 56, 64, 112};
    tile_case c;
    do
        c = random_tile(r, BLOCK * (1 + rng_below(r, rng_chance(r, 4) ? MOST_BLOCKS : 8)));
    while (c.q.dtype == COMET_DTYPE_F64);
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
        cmocka_unit_test(test_pack),   cmocka_unit_test(test_pack_16_bit_edges),         cmocka_unit_test(test_room_for_parts),
        cmocka_unit_test(test_unpack), cmocka_unit_test(test_unpack_of_damaged_streams), cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests_name("kernels: pack", tests, make_room, free_room);
}
