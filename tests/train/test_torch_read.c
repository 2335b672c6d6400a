/*
 * Files of torch.save: those of two versions of PyTorch (torch_files/make), our own, cut short at every byte, every byte
 * damaged; pickles with every opcode and global that is refused; archives, shapes and sizes that lie.
 */
#define _GNU_SOURCE /* memmem */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/bytes.h"
#include "train/files/pickle.h"
#include "train/files/tensor_file.h"
#include "train/files/torch_file.h"
#include "train/files/torch_read.h"
#include "train/files/weights.h"

static const char fixtures[] = COMET_TESTS_DIR "/train/torch_files";
static char folder[256], path[300];

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-torch.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/a.pt", folder);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    return rmdir(folder);
}

/* ---- what torch wrote ---- */

static const struct expected {
    const char *name;
    safetensors_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[4];
} expected[] = {
    {"plain.weight", SAFETENSORS_F32, 2, {2, 3}},
    {"transposed.weight", SAFETENSORS_F32, 2, {2, 3}},
    {"strided.weight", SAFETENSORS_F32, 2, {4, 4}},
    {"channels_last.weight", SAFETENSORS_F32, 4, {2, 3, 2, 2}},
    {"offset.weight", SAFETENSORS_F32, 2, {2, 2}},
    {"shared.weight", SAFETENSORS_F32, 1, {6}},
    {"shared.bias", SAFETENSORS_F32, 1, {4}},
    {"double.weight", SAFETENSORS_F64, 1, {3}},
    {"half.weight", SAFETENSORS_F16, 1, {3}},
    {"bfloat.weight", SAFETENSORS_BF16, 1, {3}},
    {"bn.num_batches_tracked", SAFETENSORS_I64, 0, {0}},
    {"index", SAFETENSORS_OTHER, 1, {3}},
    {"scalar", SAFETENSORS_F32, 0, {0}},
    {"empty.weight", SAFETENSORS_F32, 2, {0, 4}},
    {"parameter.weight", SAFETENSORS_F32, 2, {2, 2}},
};

static void check_elements(safetensors_file *file, const safetensors_tensor *t)
{
    float elements[32];
    assert_true(t->n_elements <= COUNT_OF(elements));
    if (t->dtype == SAFETENSORS_OTHER) {
        assert_status(safetensors_read_f32(file, t, elements), COMET_ERROR_UNSUPPORTED);
        return;
    }
    assert_ok(safetensors_read_f32(file, t, elements));
    for (size_t i = 0; i < t->n_elements; i++)
        assert_near((double)elements[i], t->dtype == SAFETENSORS_I64 ? 7 : (double)i / 2 - 1, 0);
}

static void check_file(const char *from)
{
    safetensors_file *file = NULL;
    const comet_status status = tensor_file_open(&file, from);
    if (status != COMET_OK)
        fail_because("%s: %s", from, comet_last_error());
    assert_ok(safetensors_verify(file));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const struct expected *e = &expected[i];
        const safetensors_tensor *t = safetensors_at(file, i);
        assert_non_null(t);
        assert_string_equal(weights_plain_name(t->name), e->name);
        assert_int_equal(t->dtype, e->dtype);
        assert_int_equal(t->n_dims, e->n_dims);
        assert_memory_equal(t->dims, e->dims, e->n_dims * sizeof *e->dims);
        check_elements(file, t);
    }
    for (size_t i = COUNT_OF(expected); i-- > 0;) /* in another order, too */
        check_elements(file, weights_find(file, expected[i].name));
    assert_null(safetensors_at(file, COUNT_OF(expected)));
    assert_null(safetensors_metadata(file, "net"));
    safetensors_close(file);
}

static void test_files_of_torch(void **state)
{
    static const char *const tags[] = {"1.13", "2.15"};
    static const char *const names[] = {"zip", "rows", "protocol5", "checkpoint", "checkpoint-rows", "deflated"};
    for (size_t t = 0; t < COUNT_OF(tags); t++)
        for (size_t n = 0; n < COUNT_OF(names); n++) {
            char from[512];
            snprintf(from, sizeof from, "%s/%s-%s.pt", fixtures, tags[t], names[n]);
            check_file(from);
        }
}

/* ---- damage ---- */

static comet_status open_and_read(void)
{
    safetensors_file *file = NULL;
    comet_status status = tensor_file_open(&file, path);
    if (status == COMET_OK)
        status = safetensors_verify(file);
    const safetensors_tensor *t = NULL;
    for (size_t i = 0; status == COMET_OK && (t = safetensors_at(file, i)); i++) {
        float elements[64];
        assert_true(t->n_elements <= COUNT_OF(elements));
        if (t->dtype != SAFETENSORS_OTHER)
            status = safetensors_read_f32(file, t, elements);
    }
    safetensors_close(file);
    return status;
}

static const char *const damaged[] = {"1.13-zip.pt", "2.15-rows.pt", "2.15-deflated.pt", "2.15-zip.pt"};

static void test_every_truncation(void **state)
{
    for (size_t k = 0; k < COUNT_OF(damaged); k++) {
        blob whole = read_file(fixtures, damaged[k]);
        for (size_t n = 0; n < whole.bytes; n++) {
            write_file(folder, "a.pt", whole.data, n);
            assert_status(open_and_read(), COMET_ERROR_CORRUPT);
        }
        free(whole.data);
    }
}

/* In an archive damage to elements is found; in a row of pickles it is not, which has no checksum. Nowhere does it do harm. */
static void test_every_damaged_byte(void **state)
{
    for (size_t k = 0; k < COUNT_OF(damaged); k++) {
        blob whole = read_file(fixtures, damaged[k]);
        for (size_t i = 0; i < whole.bytes; i++)
            for (unsigned bit = 1; bit < 256; bit <<= 3) {
                whole.data[i] ^= (uint8_t)bit;
                write_file(folder, "a.pt", whole.data, whole.bytes);
                const comet_status status = open_and_read();
                if (status != COMET_OK && status != COMET_ERROR_CORRUPT)
                    fail_because("%s, byte %zu, bit %u: %s", damaged[k], i, bit, comet_last_error());
                whole.data[i] ^= (uint8_t)bit;
            }
        free(whole.data);
    }
}

/* The elements 0, 1 and so on that lie first in the archive are not read as others. */
static void test_damaged_elements(void **state)
{
    blob whole = read_file(fixtures, "2.15-zip.pt");
    static const float first[] = {-1, -0.5f, 0, 0.5f};
    uint8_t *at = memmem(whole.data, whole.bytes, first, sizeof first);
    assert_non_null(at);
    at[6] ^= 4;
    write_file(folder, "a.pt", whole.data, whole.bytes);
    assert_status(open_and_read(), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "the checksum of record"));
    free(whole.data);
}

static void test_other_formats(void **state)
{
    uint8_t tar[1024] = {0};
    memcpy(tar + 257, "ustar", 5);
    write_file(folder, "a.pt", tar, sizeof tar);
    assert_status(open_and_read(), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "before 0.1.10"));
    write_file(folder, "a.pt", (const uint8_t *)"PK\x03\x04 and no more", 16);
    assert_status(open_and_read(), COMET_ERROR_CORRUPT);
    write_file(folder, "a.pt", (const uint8_t *)"\x80\x02K\x01.", 5);
    assert_status(open_and_read(), COMET_ERROR_CORRUPT);
    write_file(folder, "a.pt", tar, 0);
    assert_status(open_and_read(), COMET_ERROR_CORRUPT);
    safetensors_file *file = NULL;
    assert_status(tensor_file_open(&file, "/nonexistent/a.pt"), COMET_ERROR_IO);
    assert_status(tensor_file_open(&file, "/"), COMET_ERROR_IO);
    assert_null(file);
}

/* ---- pickles ---- */

static comet_status run(const void *program, size_t bytes)
{
    pickle *p = NULL;
    uint32_t root = 0;
    size_t used = 0;
    /* In memory of its own size, so that a sanitizer sees a byte too much. */
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, program, bytes);
    const comet_status status = pickle_run(&p, "a.pt", copy, bytes, &root, &used);
    assert_true((status == COMET_OK) == (p != NULL));
    if (p)
        assert_int_equal(used, bytes);
    pickle_free(p);
    free(copy);
    return status;
}

#define RUN(text) run(text, sizeof text - 1)

static void assert_refused(comet_status status, const char *name)
{
    assert_status(status, COMET_ERROR_CORRUPT);
    if (!strstr(comet_last_error(), name))
        fail_because("\"%s\" does not name %s", comet_last_error(), name);
}

static void test_refused_globals(void **state)
{
    assert_refused(RUN("cos\nsystem\n(X\x04\0\0\0true\x85R."), "refused: its pickle has the global os.system at byte 0");
    assert_refused(RUN("\x80\x04\x8c\x05posix\x8c\x06system\x93."), "the global posix.system at byte 17");
    assert_refused(RUN("c__builtin__\neval\n."), "__builtin__.eval");
    assert_refused(RUN("cbuiltins\ngetattr\n."), "builtins.getattr");
    assert_refused(RUN("ctorch\nload\n."), "torch.load");
    assert_refused(RUN("ctorch._utils\n_rebuild_tensor_v3\n."), "torch._utils._rebuild_tensor_v3");
    assert_refused(RUN("ctorch.storage\nUntypedStorage\n."), "torch.storage.UntypedStorage");
    assert_refused(RUN("ctorch\nComplexFloatStorage\n."), "torch.ComplexFloatStorage");
    assert_refused(RUN("cnumpy.core.multiarray\nscalar\n."), "numpy.core.multiarray.scalar");
    assert_refused(RUN("ccollections\nOrderedDict.clear\n."), "collections.OrderedDict.clear"); /* no dots lead elsewhere */
    assert_refused(RUN("\x80\x04\x8c\x05torch\x8c\x0eSize.__class__\x93."), "torch.Size.__class__");
}

static void test_refused_opcodes(void **state)
{
    static const struct {
        uint8_t code;
        const char *name;
    } refused[] = {
        {'F', "FLOAT"},
        {'I', "INT"},
        {'L', "LONG"},
        {'P', "PERSID"},
        {'S', "STRING"},
        {'V', "UNICODE"},
        {'g', "GET"},
        {'i', "INST"},
        {'o', "OBJ"},
        {'p', "PUT"},
        {0x81, "NEWOBJ"},
        {0x82, "EXT1"},
        {0x83, "EXT2"},
        {0x84, "EXT4"},
        {0x92, "NEWOBJ_EX"},
        {0x97, "NEXT_BUFFER"},
        {0x98, "READONLY_BUFFER"},
        {0xff, "unknown opcode 0xff"},
        {0, "unknown opcode 0x00"},
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        const uint8_t program[] = {0x80, 2, refused[i].code, '1', '\n', '.'};
        assert_refused(run(program, sizeof program), refused[i].name);
        assert_non_null(strstr(comet_last_error(), "at byte 2"));
    }
    assert_refused(RUN("ctorch\nfloat32\n)R."), "the opcode REDUCE of torch.float32");
    assert_refused(RUN("ctorch\nFloatStorage\n)R."), "the opcode REDUCE of torch.FloatStorage");
    assert_refused(RUN("})R."), "the opcode REDUCE of a dict");
    assert_refused(RUN("ctorch\nSize\n}b."), "the opcode BUILD of torch.Size");
    assert_refused(RUN("]}b."), "the opcode BUILD of a list");
    assert_refused(RUN("ctorch\nSize\nNNs."), "the opcode SETITEM of torch.Size");
    assert_refused(RUN("}Na."), "the opcode APPEND of a dict");
    assert_refused(RUN("](NNu."), "the opcode SETITEMS of a list");
    assert_refused(RUN("K\x01Q."), "the opcode BINPERSID of a number");
    assert_refused(RUN("((X\x07\0\0\0storageK\x01X\x01\0\0\0000X\x03\0\0\0cpuK\x04tQ."), "the opcode BINPERSID of a number");
}

static void test_plain_pickles(void **state)
{
    assert_ok(RUN("\x80\x02N."));
    assert_ok(RUN("\x80\x05\x95\x01\0\0\0\0\0\0\0N."));
    assert_ok(RUN("](K\x01M\x01\x01J\xff\xff\xff\xff\x8a\x01\x80\x8b\0\0\0\0G12345678e."));
    assert_ok(RUN("ccollections\nOrderedDict\n](X\x01\0\0\0aN\x86"
                  "e\x85R."));
    assert_ok(RUN("(K\1K\2lK\3a."));
    assert_ok(RUN("(X\x01\0\0\0aNd."));
    assert_ok(RUN("\x8f(K\x01\x90."));
    assert_ok(RUN("(K\x01\x91."));
    assert_ok(RUN("N20."));
    assert_ok(RUN("K\x07(NN1."));
    assert_ok(RUN("ctorch\ndevice\nX\x03\0\0\0cpu\x85R."));
    assert_ok(RUN("ctorch\nSize\n(K\x01K\x02t\x85R."));
    assert_ok(RUN("]q\0h\0a.")); /* a list that holds itself */
    assert_ok(RUN("}\x94X\x01\0\0\0ah\0s."));
}

static void test_broken_pickles(void **state)
{
    static const struct {
        const char *program;
        size_t bytes;
    } broken[] = {
#define P(text) {text, sizeof text - 1}
        P(""),
        P("N"),
        P("."),
        P("NN."),
        P("(."),
        P("(N."),
        P("0"),
        P("1."),
        P("2."),
        P("t."),
        P("a."),
        P("]a."),
        P("]e."),
        P("u."),
        P("}(Nu."),
        P("(Nd."),
        P("\x85."),
        P("N\x86."),
        P("R."),
        P("NR."),
        P("b."),
        P("}b."),
        P("Q."),
        P("\x93."),
        P("NN\x93."),
        P("q\0."),
        P("h\0."),
        P("Nq\x01h\0."),
        P("Nr\xff\xff\xff\xff."),
        P("j\xff\xff\xff\xff."),
        P("\x80\x01N."),
        P("\x80\x06N."),
        P("\x80"),
        P("X\xff\xff\xff\xff"
          "a."),
        P("X\x02\0\0\0a"),
        P("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
          "a."),
        P("U"),
        P("G1234567"),
        P("\x8b\xff\xff\xff\xff"
          "1."),
        P("\x8a"),
        P("cos"),
        P("cos\nsystem"),
        P("\x95\xff\xff\xff\xff\xff\xff\xff\xffN."),
        P("(]N0a."),
        P("((((t."),
        P("ccollections\nOrderedDict\nNR."),
        P("ccollections\nOrderedDict\nN\x85R."),
        P("ccollections\nOrderedDict\n]Na\x85R."),
        P("ctorch\nSize\n)R."),
        P("ctorch\nSize\nN\x85R."),
        P("ctorch._utils\n_rebuild_parameter\n)R."),
        P("ctorch._utils\n_rebuild_parameter\nN\x85R."),
        P("ctorch._utils\n_rebuild_tensor_v2\n)R."),
        P("ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR."),
#undef P
    };
    for (size_t i = 0; i < COUNT_OF(broken); i++)
        if (run(broken[i].program, broken[i].bytes) != COMET_ERROR_CORRUPT)
            fail_because("pickle %zu was read", i);
}

/* Programs that make as much as they can: refused at a limit, or small. */
static void test_bombs(void **state)
{
    const size_t bytes = (size_t)5 << 20;
    uint8_t *program = malloc(bytes);
    assert_non_null(program);
    static const uint8_t fills[] = {'N', '(', ']', '}', ')', 0x94};
    for (size_t i = 0; i < COUNT_OF(fills); i++) {
        memset(program, fills[i], bytes);
        program[0] = 'N';
        assert_status(run(program, bytes), COMET_ERROR_CORRUPT);
        assert_non_null(strstr(comet_last_error(), "more than a state dict has"));
    }
    /* A list of two of the list before, over and over: its tree would have 2^500 leaves, its objects are 500. */
    size_t at = 0;
    program[at++] = ']';
    for (int i = 0; i < 500; i++) {
        program[at++] = '2';
        program[at++] = 0x86;
    }
    program[at++] = '.';
    assert_ok(run(program, at));
    /* A list of a million pairs, and dicts of that list: eight bytes of program would be 8 MB each. */
    static const char begin[] = "ccollections\nOrderedDict\nq\x01]q\x02(NN\x86", dict[] = "h\x01h\x02\x85R0";
    const size_t pairs = (size_t)1 << 20;
    memcpy(program, begin, sizeof begin - 1);
    at = sizeof begin - 1;
    memset(program + at, '2', pairs);
    at += pairs;
    program[at++] = 'e';
    for (int i = 0; i < 100; i++, at += sizeof dict - 1)
        memcpy(program + at, dict, sizeof dict - 1);
    assert_status(run(program, at), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "too many items in lists, more than a state dict has"));
    free(program);
}

/* ---- tensors in a pickle ---- */

#define STORAGE(type, n) "((X\x07\0\0\0storagectorch\n" type "\nX\x01\0\0\0000X\x03\0\0\0cpu" n "tQ"
#define TENSOR(rest) "ctorch._utils\n_rebuild_tensor_v2\n" STORAGE("FloatStorage", "K\x06") rest "tR."
#define BIG "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"

static void test_views(void **state)
{
    assert_ok(RUN(TENSOR("K\0(K\x02K\x03t(K\x03K\x01t\x89N")));
    assert_ok(RUN(TENSOR("K\0(K\x02K\x03t(K\x01K\x02t")));
    assert_ok(RUN(TENSOR("K\x05))")));
    assert_ok(RUN(TENSOR("K\x63(K\0t(K\x01t")));                              /* nothing, anywhere */
    assert_ok(RUN(TENSOR("K\0(K\x06t(K\0t")));                                /* one element six times */
    assert_refused(RUN(TENSOR("K\x06))")), "beyond its storage");             /* its only element */
    assert_refused(RUN(TENSOR("K\x01(K\x06t(K\x01t")), "beyond its storage"); /* its last */
    assert_refused(RUN(TENSOR("K\0(K\x02K\x03t(K\x04K\x01t")), "beyond its storage");
    assert_refused(RUN(TENSOR("K\0(K\x07t(K\0t")), "more elements than it"); /* a bomb of copies */
    assert_refused(RUN(TENSOR("K\0(" BIG "t(K\0t")), "more elements than it");
    assert_refused(RUN(TENSOR("K\0(" BIG BIG BIG "t(K\0K\0K\0t")), "more elements than it");
    assert_refused(RUN(TENSOR("K\0(K\x02t(" BIG "t")), "beyond its storage");
    assert_refused(RUN(TENSOR(BIG "(K\x03t(" BIG "t")), "beyond its storage");
    assert_refused(RUN(TENSOR("J\xff\xff\xff\xff(K\x02t(K\x01t")), "no place in it");
    assert_refused(RUN(TENSOR("K\0(J\xff\xff\xff\xfft(K\x01t")), "negative");
    assert_refused(RUN(TENSOR("K\0(K\x02t(J\xff\xff\xff\xfft")), "negative");
    assert_refused(RUN(TENSOR("K\0(K\x02K\x03t(K\x01t")), "as many strides as axes");
    assert_refused(RUN(TENSOR("K\0(K\1K\1K\1K\1K\1K\1K\1K\1K\1t(K\1K\1K\1K\1K\1K\1K\1K\1K\1t")), "more than 8 axes");
    assert_refused(RUN(TENSOR("K\0NN")), "no shape");
    assert_refused(RUN(STORAGE("FloatStorage", "J\xff\xff\xff\xff") "."), "the name or size of a storage");
}

/* ---- archives around a pickle ---- */

typedef struct record {
    const char *name;
    const void *data;
    size_t bytes;
    unsigned method, flags; /* as the directory has them */
    uint64_t claimed;       /* size, where it is not that of the data; 0: it is */
} record;

static size_t put_record(uint8_t *to, const record *r, bool central, size_t header)
{
    const size_t name = strlen(r->name), at = central ? 46 : 30;
    memset(to, 0, at);
    memcpy(to, central ? "PK\x01\x02" : "PK\x03\x04", 4);
    uint8_t *common = to + (central ? 8 : 6);
    store_u16(common, (uint16_t)r->flags);
    store_u16(common + 2, (uint16_t)r->method);
    store_u32(common + 8, r->method == 0 ? (uint32_t)crc32(0, r->data, (uInt)r->bytes) : 0);
    store_u32(common + 12, (uint32_t)r->bytes);
    store_u32(common + 16, (uint32_t)(r->claimed > 0 ? r->claimed : r->bytes));
    store_u16(common + 20, (uint16_t)name);
    if (central)
        store_u32(to + 42, (uint32_t)header);
    memcpy(to + at, r->name, name);
    return at + name;
}

static comet_status open_archive(const record *records, size_t n)
{
    static uint8_t bytes[1 << 16];
    size_t at = 0, headers[8];
    for (size_t i = 0; i < n; i++) {
        headers[i] = at;
        at += put_record(bytes + at, &records[i], false, 0);
        memcpy(bytes + at, records[i].data, records[i].bytes);
        at += records[i].bytes;
    }
    const size_t directory = at;
    for (size_t i = 0; i < n; i++)
        at += put_record(bytes + at, &records[i], true, headers[i]);
    memset(bytes + at, 0, 22);
    memcpy(bytes + at, "PK\x05\x06", 4);
    store_u16(bytes + at + 8, (uint16_t)n);
    store_u16(bytes + at + 10, (uint16_t)n);
    store_u32(bytes + at + 12, (uint32_t)(at - directory));
    store_u32(bytes + at + 16, (uint32_t)directory);
    write_file(folder, "a.pt", bytes, at + 22);
    return open_and_read();
}

static const char one_tensor[] =
    "}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n" STORAGE("FloatStorage", "K\x06") "K\0(K\x06t(K\x01t\x89NtRs.";
static const float six[6] = {1, 2, 3, 4, 5, 6};

#define PKL                                                      \
    {                                                            \
        "x/data.pkl", one_tensor, sizeof one_tensor - 1, 0, 0, 0 \
    }
#define OPEN(...) open_archive((const record[]){__VA_ARGS__}, sizeof((const record[]){__VA_ARGS__}) / sizeof(record))

static void test_archives(void **state)
{
    const record data = {"x/data/0", six, sizeof six, 0, 0, 0};
    assert_ok(OPEN(PKL, data));
    assert_ok(OPEN(PKL, data, {"x/byteorder", "little", 6, 0, 0, 0}, {"x/more", "", 0, 0, 0, 0}));
    assert_refused(OPEN(PKL, data, {"x/byteorder", "big", 3, 0, 0, 0}), "little-endian");
    assert_refused(OPEN(PKL, data, {"x/constants.pkl", ")", 1, 0, 0, 0}), "TorchScript");
    assert_refused(OPEN(PKL, data, {"y/data.pkl", "N.", 2, 0, 0, 0}), "not one data.pkl");
    assert_refused(OPEN({"x", "", 0, 0, 0, 0}), "not one data.pkl");
    assert_refused(OPEN(PKL), "the archive has no record data/0");
    assert_refused(OPEN(PKL, {"y/data/0", six, sizeof six, 0, 0, 0}), "the archive has no record data/0");
    assert_refused(OPEN(PKL, {"x/data/0", six, 20, 0, 0, 0}), "20 bytes, not those of 6 elements");
    assert_refused(OPEN(PKL, data, data), "two of this name");
    assert_refused(OPEN(PKL, {"x/data/0", six, sizeof six, 0, 1, 0}), "encrypted");
    assert_refused(OPEN(PKL, {"x/data/0", six, sizeof six, 12, 0, 0}), "other than deflate");
    assert_refused(OPEN(PKL, {"x/data/0", six, sizeof six, 8, 0, 0}), "");
    assert_refused(OPEN(PKL, {"x/data/0", six, sizeof six, 0, 0, 25}), "its size is impossible");
    assert_refused(OPEN(PKL, {"x/data/0", six, 4, 8, 0, 1 << 20}), "its size is impossible");
    assert_refused(OPEN({"x/data.pkl", one_tensor, sizeof one_tensor - 1, 8, 0, 200}, data), "cannot be inflated");
    assert_refused(OPEN({"x/data.pkl", "K\x01.", 3, 0, 0, 0}), "holds no state dict");
    assert_refused(OPEN({"x/data.pkl", "}.", 2, 0, 0, 0}), "holds no state dict");
    assert_refused(OPEN({"x/data.pkl", "}.N", 3, 0, 0, 0}), "");
    assert_refused(OPEN({"x/data.pkl", "cos\nsystem\n.", 12, 0, 0, 0}), "os.system");
}

/* What deflate inflates to more, or less, than the directory says. */
static void test_inflated_sizes(void **state)
{
    uint8_t packed[128];
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)six;
    z.avail_in = sizeof six;
    z.next_out = packed;
    z.avail_out = sizeof packed;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    const size_t n = z.total_out;
    deflateEnd(&z);
    assert_ok(OPEN(PKL, {"x/data/0", packed, n, 8, 0, sizeof six}));
    assert_refused(OPEN(PKL, {"x/data/0", packed, n - 1, 8, 0, sizeof six}), "");
    static const char four[] =
        "}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n" STORAGE("FloatStorage", "K\x05") "K\0(K\x05t(K\x01t\x89NtRs.";
    assert_refused(OPEN({"x/data.pkl", four, sizeof four - 1, 0, 0, 0}, {"x/data/0", packed, n, 8, 0, 20}),
                   "cannot be inflated");
    static const char seven[] =
        "}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n" STORAGE("FloatStorage", "K\x07") "K\0(K\x07t(K\x01t\x89NtRs.";
    assert_refused(OPEN({"x/data.pkl", seven, sizeof seven - 1, 0, 0, 0}, {"x/data/0", packed, n, 8, 0, 28}), "end early");
}

/* ---- what we write ---- */

static comet_status describe(void *user, size_t i, safetensors_tensor *t)
{
    static const safetensors_dtype dtypes[] = {SAFETENSORS_F32, SAFETENSORS_F64, SAFETENSORS_F16, SAFETENSORS_BF16,
                                               SAFETENSORS_I64};
    static const char *const names[] = {"module.a", "module.b", "module.c", "d", "module."};
    t->name = names[i], t->dtype = dtypes[i], t->n_dims = 2, t->dims[0] = 1, t->dims[1] = 2;
    return COMET_OK;
}

static comet_status fill(void *user, size_t i, uint64_t first, uint64_t n, void *elements)
{
    static const float values[] = {1.5f, 2.5f};
    static const double wide[] = {1.5, 1e300};
    if (i == 0 || i == 4)
        memcpy(elements, i == 0 ? (const void *)values : "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0", i == 0 ? 8 : 16);
    else if (i == 1)
        memcpy(elements, wide, sizeof wide);
    else
        memcpy(elements, i == 2 ? "\0\x3e\0\x7c" : "\xc0\x3f\x20\x40", 4);
    return COMET_OK;
}

static void test_round_trip(void **state)
{
    const safetensors_source source = {.n_tensors = 5, .describe = describe, .fill = fill};
    safetensors_file *file = NULL;
    float x[2];
    assert_ok(torch_file_save(path, &source));
    assert_ok(tensor_file_open(&file, path));
    assert_ok(safetensors_verify(file));
    static const char *const names[] = {"module.a", "module.b", "module.c", "d", "module."};
    static const double values[][2] = {{1.5, 2.5}, {1.5, INFINITY}, {1.5, INFINITY}, {1.5, 2.5}, {1, 2}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_ok(safetensors_read_f32(file, safetensors_find(file, names[i]), x));
        assert_true((double)x[0] == values[i][0] && (double)x[1] == values[i][1]);
    }
    safetensors_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_torch),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_every_damaged_byte),
        cmocka_unit_test(test_damaged_elements),
        cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_refused_globals),
        cmocka_unit_test(test_refused_opcodes),
        cmocka_unit_test(test_plain_pickles),
        cmocka_unit_test(test_broken_pickles),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_archives),
        cmocka_unit_test(test_inflated_sizes),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
