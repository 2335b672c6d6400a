/*
 * Frames that are cut, flipped, spliced and lied about: never a crash, never a read outside the frame or a write outside the
 * destination (both end at an inaccessible page), no allocation that the header does not justify; the result is an error with
 * a sentence, or a decoded tensor.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "fuzz/frame_repair.h"
#include "zoo.h"

enum { MOST_FRAME = 1 << 16, MOST_TENSOR = 1 << 24 };

static guarded frame_room, tensor_room;
static comet_decoder *decoders[2]; /* with 1 and 2 threads */
static test_allocator memory[2];
static uint64_t justified[2]; /* bytes that the frames seen since then let a decoder keep */
static blob *frames;          /* of the zoo */
static uint64_t n_decoded, n_refused;

static int set_up(void **state)
{
    frame_room = guarded_make(MOST_FRAME);
    tensor_room = guarded_make(MOST_TENSOR);
    for (size_t i = 0; i < 2; i++) {
        memory[i].guarded = true;
        comet_hooks hooks = hooks_with(&memory[i]);
        decoders[i] = new_decoder(&hooks, i + 1);
    }
    frames = need_malloc(zoo_size * sizeof *frames);
    for (size_t i = 0; i < zoo_size; i++)
        frames[i] = zoo_frame(&zoo[i]);
    return 0;
}

static int tear_down(void **state)
{
    for (size_t i = 0; i < 2; i++)
        comet_decoder_destroy(decoders[i]);
    for (size_t i = 0; i < zoo_size; i++)
        free(frames[i].data);
    free(frames);
    guarded_free(&frame_room);
    guarded_free(&tensor_room);
    print_message("%llu damaged frames decoded, %llu refused\n", (unsigned long long)n_decoded, (unsigned long long)n_refused);
    return 0;
}

/* ---- trying ---- */

static bool is_refusal(comet_status status)
{
    return status == COMET_ERROR_CORRUPT || status == COMET_ERROR_UNSUPPORTED;
}

/* What a decoder may keep for a frame: some bytes an element of the tensor, plus tables and copies of payloads. */
static void check_allocation(size_t decoder, const comet_frame_info *info, size_t frame_bytes)
{
    uint64_t most = (decoder + 1) * (64 * info->n_elements + frame_bytes + (1 << 19));
    justified[decoder] = most > justified[decoder] ? most : justified[decoder];
    if (memory[decoder].live_bytes > justified[decoder])
        fail_because("%zu bytes allocated for a tensor of %llu elements", memory[decoder].live_bytes,
                     (unsigned long long)info->n_elements);
}

/* A decoder without the buffers that earlier frames made it keep. */
static void renew_decoder(size_t i)
{
    comet_decoder_destroy(decoders[i]);
    assert_true(memory[i].n_live == 0 && !memory[i].misused);
    comet_hooks hooks = hooks_with(&memory[i]);
    decoders[i] = new_decoder(&hooks, i + 1);
    justified[i] = 0;
}

/* Reads and decodes `bytes` bytes that lie at the end of frame_room. */
static bool try_frame(size_t decoder, const uint8_t *frame, size_t bytes)
{
    comet_frame_info info;
    crash_for_good(NULL);
    comet_frame_info_init(&info);
    info.n_chunks = 4242;
    comet_status status = comet_frame_describe(frame, bytes, &info);
    size_t written = 4242, room = MOST_TENSOR;
    if (status == COMET_OK && info.tensor_bytes <= MOST_TENSOR)
        room = (size_t)info.tensor_bytes;
    else if (status != COMET_OK)
        assert_true(is_refusal(status) && info.n_chunks == 4242 && strlen(comet_last_error()) > 12);
    comet_status decoded = comet_decoder_run(decoders[decoder], frame, bytes, guarded_tail(&tensor_room, room), room, &written);
    bool ok = decoded == COMET_OK;
    if (!ok && !is_refusal(decoded) && !(decoded == COMET_ERROR_CAPACITY && status == COMET_OK && info.tensor_bytes > room))
        fail_because("a damaged frame gave %s: %s", comet_status_name(decoded), comet_last_error());
    assert_true(ok ? status == COMET_OK && written == info.tensor_bytes : written == 4242 && strlen(comet_last_error()) > 12);
    if (status == COMET_OK)
        check_allocation(decoder, &info, bytes);
    if (memory[decoder].live_bytes > (4 << 20))
        renew_decoder(decoder);
    n_decoded += ok;
    n_refused += !ok;
    return ok;
}

/* A copy at the end of frame_room. */
static uint8_t *placed(const uint8_t *data, size_t bytes)
{
    uint8_t *at = guarded_tail(&frame_room, bytes);
    memcpy(at, data, bytes);
    return at;
}

#define FOR_EACH_FRAME(f)                                \
    for (size_t frame_ = 0; frame_ < zoo_size; frame_++) \
        for (blob f = frames[frame_]; f.data; f.data = NULL)

static void test_undamaged(void **state)
{
    FOR_EACH_FRAME(f)
    for (size_t d = 0; d < 2; d++)
        assert_true(try_frame(d, placed(f.data, f.bytes), f.bytes));
}

/* ---- cut ---- */

static void test_cut_at_every_length(void **state)
{
    FOR_EACH_FRAME(f)
    for (size_t bytes = 0; bytes < f.bytes; bytes++)
        assert_false(try_frame(0, placed(f.data, bytes), bytes));
}

/* With lengths and checksums mended, so that the chunks themselves are met cut. */
static void test_cut_and_mended(void **state)
{
    FOR_EACH_FRAME(f)
    for (size_t bytes = HEADER_FIXED_BYTES; bytes < f.bytes; bytes += 1 + f.bytes / 700) {
        uint8_t *at = placed(f.data, bytes);
        repair_lengths(at, bytes);
        try_frame(0, at, bytes);
    }
}

/* Bytes after the frame do not belong to it: they change nothing. */
static void test_longer_than_the_frame(void **state)
{
    FOR_EACH_FRAME(f)
    {
        uint8_t *at = guarded_tail(&frame_room, f.bytes + 500);
        memset(at, 0xff, f.bytes + 500);
        memcpy(at, f.data, f.bytes);
        assert_true(try_frame(0, at, f.bytes + 500));
    }
}

/* ---- flipped ---- */

/* Header and index are guarded by checksums. */
static void test_flipped_bits_before_the_chunks(void **state)
{
    FOR_EACH_FRAME(f)
    for (size_t bit = 0; bit < 8 * (size_t)info_of(f).header_bytes; bit++) {
        uint8_t *at = placed(f.data, f.bytes);
        at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(try_frame(0, at, f.bytes));
        repair_checksums(at, f.bytes);
        try_frame(0, at, f.bytes);
    }
}

static void test_flipped_bits_in_chunks(void **state)
{
    FOR_EACH_FRAME(f)
    {
        size_t first = 8 * (size_t)info_of(f).header_bytes, bits = 8 * f.bytes - first, step = 1 + bits / 8000;
        for (size_t bit = first; bit < 8 * f.bytes; bit += bit < first + 8 * 300 ? 1 : step) {
            uint8_t *at = placed(f.data, f.bytes);
            at[bit / 8] ^= (uint8_t)(1 << bit % 8);
            repair_index(at, f.bytes);
            try_frame(0, at, f.bytes);
        }
    }
}

/* ---- fields ---- */

static const uint64_t extremes[] = {0,
                                    1,
                                    2,
                                    63,
                                    64,
                                    65,
                                    255,
                                    65535,
                                    (1 << 18) - 1,
                                    1 << 18,
                                    1 << 24,
                                    (1 << 24) + 1,
                                    INT32_MAX,
                                    UINT32_MAX,
                                    UINT64_C(1) << 32,
                                    UINT64_C(1) << 40,
                                    UINT64_C(0x3ff0000000000000), /* 1.0 */
                                    UINT64_C(0x7ff0000000000000), /* Inf */
                                    UINT64_C(0x7ff8000000000000), /* NaN */
                                    UINT64_C(0x0000000000000001), /* the smallest number */
                                    UINT64_C(0x7fefffffffffffff), /* the largest */
                                    UINT64_C(1) << 62,
                                    INT64_MAX,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX};

static void test_header_fields_at_extremes(void **state)
{
    FOR_EACH_FRAME(f)
    {
        size_t header = (size_t)frame_header_bytes(f.data[FRAME_AT_N_DIMS]);
        for (size_t field = 0; field + 8 < header; field += 8)
            for (size_t v = 0; v < COUNT_OF(extremes); v++)
                for (int lengths = 0; lengths < 2; lengths++) {
                    uint8_t *at = placed(f.data, f.bytes);
                    store_u64(at + field, extremes[v]);
                    (lengths ? repair_lengths : repair_checksums)(at, f.bytes);
                    try_frame(0, at, f.bytes);
                }
    }
}

static void test_header_bytes(void **state)
{
    FOR_EACH_FRAME(f)
    for (size_t field = 4; field < 16; field++)
        for (unsigned v = 0; v < 256; v++) {
            uint8_t *at = placed(f.data, f.bytes);
            at[field] = (uint8_t)v;
            repair_checksums(at, f.bytes);
            try_frame(0, at, f.bytes);
        }
}

/* Counts that contradict each other or are out of range are refused even where nothing bad would come of them. */
static void refuse_header(blob f, size_t at_field, uint64_t value)
{
    uint8_t *at = placed(f.data, f.bytes);
    store_u64(at + at_field, value);
    repair_checksums(at, f.bytes);
    assert_false(try_frame(0, at, f.bytes));
}

static void test_impossible_headers(void **state)
{
    enum { AT_EB = 16, AT_ELEMENTS = 32, AT_CHUNK_ELEMENTS = 40, AT_CHUNKS = 48 };
    static const uint64_t bad_bounds[] = {UINT64_C(0x7ff0000000000000), UINT64_C(0x7ff8000000000000),
                                          UINT64_C(0xbff0000000000000)};
    FOR_EACH_FRAME(f)
    {
        comet_frame_info info = info_of(f);
        for (int d = -1; d <= 1; d += 2) {
            refuse_header(f, AT_ELEMENTS, info.n_elements + (uint64_t)d);
            refuse_header(f, AT_CHUNKS, info.n_chunks + (uint64_t)d);
            refuse_header(f, FRAME_AT_FRAME_BYTES, info.frame_bytes + (uint64_t)d);
        }
        refuse_header(f, AT_CHUNK_ELEMENTS, 63);
        refuse_header(f, AT_CHUNK_ELEMENTS, (1 << 24) + 1);
        for (size_t i = 0; i < COUNT_OF(bad_bounds); i++)
            refuse_header(f, AT_EB, bad_bounds[i]);
        refuse_header(f, AT_EB, info.lossless ? UINT64_C(0x3ff0000000000000) : 0);
        refuse_header(f, 8, load_u64(f.data + 8) | UINT64_C(2) << 40);    /* a profile that is none */
        refuse_header(f, 8, load_u64(f.data + 8) | UINT64_C(1) << 48);    /* a byte that must be 0 */
        refuse_header(f, 8, load_u64(f.data + 8) | UINT64_C(0x10) << 24); /* a flag that is none */
        if (!info.lossless)
            refuse_header(f, 8, load_u64(f.data + 8) | (uint64_t)(FLAG_DITHER | FLAG_SUPPORT) << 24);
    }
}

/* A copy with `gap` bytes (or, if negative, fewer) at `where`, and the lengths to go with it; header and index are mended by
 * the caller. */
static uint8_t *resized(blob f, size_t where, ptrdiff_t gap, size_t *bytes)
{
    *bytes = (size_t)((ptrdiff_t)f.bytes + gap);
    uint8_t *at = guarded_tail(&frame_room, *bytes);
    size_t from = gap < 0 ? where - (size_t)gap : where, to = gap < 0 ? where : where + (size_t)gap;
    memset(at, 0, *bytes);
    memcpy(at, f.data, where);
    memcpy(at + to, f.data + from, f.bytes - from);
    store_u64(at + FRAME_AT_FRAME_BYTES, *bytes);
    return at;
}

static void refuse_resized(uint8_t *at, size_t bytes, uint64_t n_chunks)
{
    store_u64(at + 48, n_chunks);
    repair_checksums(at, bytes);
    /* The repair of the index goes by the header, which may be refused as it stands. */
    size_t index = (size_t)frame_header_bytes(at[FRAME_AT_N_DIMS]), entries = (size_t)n_chunks * INDEX_ENTRY_BYTES;
    store_u64(at + index + entries, comet_checksum(at + index, entries));
    assert_false(try_frame(0, at, bytes));
}

/* Well-formed but for one thing: a chunk too many or too few in the index, bytes that belong to no chunk. */
static void test_chunks_that_do_not_fill_the_frame(void **state)
{
    FOR_EACH_FRAME(f)
    {
        comet_frame_info info = info_of(f);
        size_t bytes, index_end = (size_t)info.header_bytes - CHECKSUM_BYTES;
        uint8_t *at = resized(f, f.bytes, 5, &bytes);
        refuse_resized(at, bytes, info.n_chunks);
        at = resized(f, index_end, INDEX_ENTRY_BYTES, &bytes);
        refuse_resized(at, bytes, info.n_chunks + 1);
        if (info.n_chunks == 0)
            continue;
        size_t last = load_u32(f.data + index_end - INDEX_ENTRY_BYTES);
        blob cut = {f.data, f.bytes - last};
        at = resized(cut, index_end - INDEX_ENTRY_BYTES, -(ptrdiff_t)INDEX_ENTRY_BYTES, &bytes);
        refuse_resized(at, bytes, info.n_chunks - 1);
    }
}

/* Several at once: shapes, types and chunk sizes that fit each other but not the payload. */
static void test_headers_that_lie_consistently(void **state)
{
    test_rng r = {91};
    for (int i = 0; i < 20000; i++) {
        blob f = frames[rng_below(&r, zoo_size)];
        uint8_t *at = placed(f.data, f.bytes);
        uint32_t n_dims = at[FRAME_AT_N_DIMS];
        at[8] = (uint8_t)rng_below(&r, 4);
        at[9] = (uint8_t)rng_below(&r, 4);
        at[11] = (uint8_t)(rng_chance(&r, 2) ? at[11] : rng_below(&r, 16));
        comet_tensor t = {.size = sizeof t, .dtype = (comet_dtype)at[8], .layout = (comet_layout)at[9], .n_dims = n_dims};
        for (uint32_t d = 0; d < n_dims; d++) {
            t.dims[d] = 1 + rng_below(&r, rng_chance(&r, 3) ? 300 : 20);
            store_u64(at + HEADER_FIXED_BYTES + 8 * d, t.dims[d]);
        }
        uint64_t n = elements_of(&t), chunk = 64 + rng_below(&r, rng_chance(&r, 2) ? 1000 : 100000);
        store_u64(at + 32, n);
        store_u64(at + 40, chunk);
        store_u64(at + 48, ceil_div_u64(n, chunk));
        repair_lengths(at, f.bytes);
        try_frame(0, at, f.bytes);
    }
}

/* The four bytes and two counts that every coded chunk begins with, and the lengths of the dense sections. */
static void test_chunk_fields(void **state)
{
    FOR_EACH_FRAME(f)
    {
        size_t first = (size_t)info_of(f).header_bytes;
        for (size_t field = 0; field < 4 && first + field < f.bytes; field++)
            for (unsigned v = 0; v < 256; v++) {
                uint8_t *at = placed(f.data, f.bytes);
                at[first + field] = (uint8_t)v;
                repair_index(at, f.bytes);
                try_frame(0, at, f.bytes);
            }
        for (size_t field = 4; field < 24 && first + field + 4 <= f.bytes; field += 4)
            for (size_t v = 0; v < COUNT_OF(extremes); v++) {
                uint8_t *at = placed(f.data, f.bytes);
                store_u32(at + first + field, (uint32_t)extremes[v]);
                repair_index(at, f.bytes);
                try_frame(0, at, f.bytes);
            }
    }
}

/* Fields that no chunk of this frame can have are refused, whatever follows. */
static void refuse_field(blob f, size_t field, unsigned value)
{
    uint8_t *at = placed(f.data, f.bytes);
    at[(size_t)info_of(f).header_bytes + field] = (uint8_t)value;
    repair_index(at, f.bytes);
    assert_false(try_frame(0, at, f.bytes));
}

static void test_impossible_chunk_fields(void **state)
{
    FOR_EACH_FRAME(f)
    {
        comet_frame_info info = info_of(f);
        uint8_t mode = info.n_chunks ? f.data[info.header_bytes] : CHUNK_RAW;
        if (mode == CHUNK_RAW)
            continue;
        bool device = info.profile == COMET_PROFILE_DEVICE;
        for (unsigned v = N_CHUNK_MODES; v < 256; v++)
            refuse_field(f, 0, v);
        refuse_field(f, 0, device ? CHUNK_DENSE : CHUNK_PARTS);
        if (device)
            refuse_field(f, 0, mode == CHUNK_FAST ? CHUNK_PARTS : CHUNK_FAST);
        for (unsigned v = N_CODE_WIDTHS; v < 256; v++)
            refuse_field(f, 1, v);
        for (unsigned v = N_PREDICTORS; v < 256; v++)
            refuse_field(f, 2, v);
        for (unsigned v = info.keep_support && !info.lossless ? 4 : 2; v < 256; v++)
            refuse_field(f, 3, v);
        refuse_field(f, 1, info.lossless ? CODES16 : CODES64);
        refuse_field(f, 2, mode == CHUNK_FAST ? PREDICT_MEDIAN : PREDICT_UP);
        bool wave_suits = mode == CHUNK_DENSE && info.tensor.layout == COMET_LAYOUT_PLANAR && !info.lossless &&
                          info.tensor.dims[3] >= WAVE_MIN_COLUMNS && info.tensor.dims[2] >= WAVE_MIN_ROWS;
        for (unsigned v = mode == CHUNK_PARTS ? PREDICT_VOLUME : PREDICT_WAVE; !wave_suits && v <= PREDICT_VOLUME; v++)
            refuse_field(f, 2, v);
    }
}

/* Frames of the versions before the first release get a sentence of their own. */
static void test_old_versions(void **state)
{
    blob f = frames[0];
    comet_frame_info info;
    comet_frame_info_init(&info);
    for (int version = 1; version < FRAME_VERSION; version++) {
        uint8_t *at = placed(f.data, f.bytes);
        char named[20];
        at[4] = (uint8_t)version;
        repair_header(at, f.bytes);
        snprintf(named, sizeof named, "version %d", version);
        assert_int_equal(comet_frame_describe(at, f.bytes, &info), COMET_ERROR_UNSUPPORTED);
        assert_non_null(strstr(comet_last_error(), named));
        assert_non_null(strstr(comet_last_error(), "compress the tensor again"));
        assert_false(try_frame(0, at, f.bytes));
    }
}

/* ---- at random ---- */

/* A few bytes changed anywhere in the chunks. */
static void test_random_bytes(void **state)
{
    test_rng r = {92};
    for (int i = 0; i < 30000; i++) {
        blob f = frames[rng_below(&r, zoo_size)];
        size_t first = (size_t)info_of(f).header_bytes;
        uint8_t *at = placed(f.data, f.bytes);
        for (uint64_t k = 1 + rng_below(&r, 8); k > 0 && first < f.bytes; k--)
            at[first + rng_below(&r, f.bytes - first)] = (uint8_t)rng_next(&r);
        repair_index(at, f.bytes);
        try_frame(i % 16 == 0, at, f.bytes);
    }
}

/* The beginning of one frame and a piece of another. */
static void test_splices(void **state)
{
    test_rng r = {93};
    uint8_t *both = need_malloc(MOST_FRAME);
    for (int i = 0; i < 30000; i++) {
        blob a = frames[rng_below(&r, zoo_size)], b = frames[rng_below(&r, zoo_size)];
        size_t head = (size_t)info_of(a).header_bytes, keep = head + rng_below(&r, a.bytes - head + 1);
        size_t from = rng_below(&r, b.bytes), piece = rng_below(&r, b.bytes - from + 1);
        memcpy(both, a.data, keep);
        memcpy(both + keep, b.data + from, piece);
        uint8_t *at = placed(both, keep + piece);
        repair_lengths(at, keep + piece);
        try_frame(i % 16 == 0, at, keep + piece);
    }
    free(both);
}

static void test_garbage(void **state)
{
    test_rng r = {94};
    for (int i = 0; i < 20000; i++) {
        size_t bytes = rng_below(&r, 300);
        uint8_t *at = guarded_tail(&frame_room, bytes);
        for (size_t k = 0; k < bytes; k++)
            at[k] = (uint8_t)rng_next(&r);
        if (bytes > 12 && i % 2) {
            memcpy(at, "COMT\3\0", 6);
            at[FRAME_AT_N_DIMS] = (uint8_t)(1 + rng_below(&r, 8));
            at[6] = (uint8_t)frame_header_bytes(at[FRAME_AT_N_DIMS]);
            at[7] = 0;
            repair_checksums(at, bytes);
        }
        try_frame(0, at, bytes);
    }
}

/* After all that, the contexts still decode what is good. */
static void test_decoders_survived(void **state)
{
    for (size_t i = 0; i < zoo_size; i++) {
        specimen s = specimen_make(&zoo[i]);
        for (size_t d = 0; d < 2; d++)
            free(decode_and_check(decoders[d], frames[i], s.x));
        specimen_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_undamaged),
        cmocka_unit_test(test_cut_at_every_length),
        cmocka_unit_test(test_cut_and_mended),
        cmocka_unit_test(test_longer_than_the_frame),
        cmocka_unit_test(test_flipped_bits_before_the_chunks),
        cmocka_unit_test(test_flipped_bits_in_chunks),
        cmocka_unit_test(test_header_fields_at_extremes),
        cmocka_unit_test(test_header_bytes),
        cmocka_unit_test(test_impossible_headers),
        cmocka_unit_test(test_chunks_that_do_not_fill_the_frame),
        cmocka_unit_test(test_headers_that_lie_consistently),
        cmocka_unit_test(test_chunk_fields),
        cmocka_unit_test(test_impossible_chunk_fields),
        cmocka_unit_test(test_old_versions),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_splices),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_decoders_survived),
    };
    return cmocka_run_group_tests_name("corrupt", tests, set_up, tear_down);
}
