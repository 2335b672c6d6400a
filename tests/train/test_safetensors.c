/* Safetensors: round trips, other types, files cut short at every byte, every byte damaged, headers that lie. */
#include "testing.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checksum.h"
#include "train/files/safetensors.h"

static char folder[256], path[300], other[300];

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-safetensors.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    snprintf(other, sizeof other, "%s/b.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

/* ---- a small source ---- */

typedef struct entry {
    const char *name;
    safetensors_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[2];
    const void *data;
    size_t bytes;
} entry;

static const float weights[6] = {1.5f, -0.0f, 3e38f, 1e-42f, -7, 0.1f};
static const int64_t counter = 12345;
static const entry entries[] = {
    {"conv1.weight", SAFETENSORS_F32, 2, {2, 3}, weights, sizeof weights},
    {"bn1.num_batches_tracked", SAFETENSORS_I64, 0, {0}, &counter, sizeof counter},
    {"empty", SAFETENSORS_F32, 2, {0, 5}, weights, 0},
    {"conv1.bias", SAFETENSORS_F32, 1, {2}, weights, 8},
};

static comet_status describe(void *user, size_t i, safetensors_tensor *t)
{
    const entry *e = &((const entry *)user)[i];
    t->name = e->name, t->dtype = e->dtype, t->n_dims = e->n_dims;
    memcpy(t->dims, e->dims, sizeof e->dims);
    return COMET_OK;
}

static comet_status fill(void *user, size_t i, uint64_t first, uint64_t n, void *elements)
{
    const entry *e = &((const entry *)user)[i];
    const size_t width = e->dtype == SAFETENSORS_F32 ? 4 : e->dtype == SAFETENSORS_F16 || e->dtype == SAFETENSORS_BF16 ? 2 : 8;
    memcpy(elements, (const char *)e->data + first * width, n * width);
    return COMET_OK;
}

static comet_status save_to(const char *to, const char *keep, const entry *list, size_t n)
{
    const safetensors_pair metadata[] = {{"format", "pt"}, {"text", "a \"quoted\"\nline"}};
    entry copy[8];
    memcpy(copy, list, n * sizeof *list);
    const safetensors_source source = {
        .user = copy, .n_tensors = n, .describe = describe, .fill = fill, .metadata = metadata, .n_metadata = 2};
    return safetensors_save(to, keep, &source);
}

static comet_status open_and_verify(const char *from)
{
    safetensors_file *file = NULL;
    comet_status status = safetensors_open(&file, from);
    if (status == COMET_OK)
        status = safetensors_verify(file);
    safetensors_close(file);
    return status;
}

static void test_round_trip(void **state)
{
    safetensors_file *file = NULL;
    float back[6], one;
    assert_ok(save_to(path, NULL, entries, COUNT_OF(entries)));
    assert_ok(safetensors_open(&file, path));
    assert_ok(safetensors_verify(file));
    assert_ok(safetensors_verify(file)); /* it leaves the header as it was */
    assert_string_equal(safetensors_metadata(file, "text"), "a \"quoted\"\nline");
    assert_null(safetensors_metadata(file, "nothing"));
    const safetensors_tensor *t = safetensors_find(file, "conv1.weight");
    assert_non_null(t);
    assert_int_equal(t->n_elements, 6);
    assert_ok(safetensors_read_f32(file, t, back));
    assert_memory_equal(back, weights, sizeof weights);
    assert_ok(safetensors_read_f32(file, safetensors_find(file, "bn1.num_batches_tracked"), &one));
    assert_near((double)one, 12345, 0);
    assert_int_equal(safetensors_find(file, "empty")->n_elements, 0);
    assert_ok(safetensors_read_f32(file, safetensors_find(file, "empty"), back));
    assert_null(safetensors_find(file, "conv1"));
    assert_null(safetensors_at(file, 4));
    safetensors_close(file);
}

static void test_keeps_the_old(void **state)
{
    assert_ok(save_to(path, other, entries, 1));
    const blob first = read_file(folder, "a.safetensors");
    assert_ok(save_to(path, other, entries, 4));
    const blob kept = read_file(folder, "b.safetensors");
    assert_true(blobs_equal(first, kept));
    assert_ok(open_and_verify(path));
    free(first.data);
    free(kept.data);
}

/* Whoever can write to the folder may have put links under names that could be guessed; they lead nowhere and stay. */
static void test_planted_links(void **state)
{
    static const char *const names[] = {"a.safetensors.tmp", "b.safetensors.tmp"};
    char planted[2][320];
    assert_ok(save_to(path, other, entries, 1));
    write_file(folder, "victim", (const uint8_t *)"precious", 8);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(planted[i], sizeof planted[i], "%s/%s", folder, names[i]);
        assert_int_equal(symlink("victim", planted[i]), 0);
    }
    assert_ok(save_to(path, other, entries, 4));
    const blob victim = read_file(folder, "victim");
    assert_int_equal(victim.bytes, 8);
    assert_memory_equal(victim.data, "precious", 8);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct stat s;
        assert_true(lstat(planted[i], &s) == 0 && S_ISLNK(s.st_mode));
        unlink(planted[i]);
    }
    assert_ok(open_and_verify(path));
    assert_ok(open_and_verify(other));
    snprintf(planted[0], sizeof planted[0], "%s/victim", folder);
    unlink(planted[0]);
    free(victim.data);
}

static void test_keeps_modes(void **state)
{
    struct stat s;
    assert_ok(save_to(path, NULL, entries, 1));
    assert_int_equal(chmod(path, 0604), 0);
    assert_ok(save_to(path, other, entries, 4));
    assert_true(stat(path, &s) == 0 && (s.st_mode & 0777) == 0604);
    assert_true(stat(other, &s) == 0 && (s.st_mode & 0777) == 0604); /* the old file itself */
}

static size_t n_temporaries(void)
{
    size_t n = 0;
    DIR *entries_of = opendir(folder);
    for (const struct dirent *e; entries_of && (e = readdir(entries_of));)
        n += strncmp(e->d_name, ".comet-", 7) == 0;
    closedir(entries_of);
    return n;
}

/* A limit on the size of files stands in for a full disk. */
static void test_full_disk(void **state)
{
    struct rlimit old, small;
    assert_ok(save_to(path, NULL, entries, 4));
    const blob before = read_file(folder, "a.safetensors");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 64;
    setrlimit(RLIMIT_FSIZE, &small);
    const comet_status status = save_to(path, other, entries, 4);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_status(status, COMET_ERROR_IO);
    const blob after = read_file(folder, "a.safetensors");
    assert_true(blobs_equal(before, after));
    assert_int_equal(n_temporaries(), 0);
    free(before.data);
    free(after.data);
}

static void test_every_truncation(void **state)
{
    assert_ok(save_to(path, NULL, entries, 4));
    const blob whole = read_file(folder, "a.safetensors");
    for (size_t n = 0; n < whole.bytes; n++) {
        write_file(folder, "b.safetensors", whole.data, n);
        assert_status(open_and_verify(other), COMET_ERROR_CORRUPT);
    }
    free(whole.data);
}

static void test_every_damaged_byte(void **state)
{
    assert_ok(save_to(path, NULL, entries, 4));
    blob whole = read_file(folder, "a.safetensors");
    for (size_t i = 0; i < whole.bytes; i++) {
        whole.data[i] ^= 0x11;
        write_file(folder, "b.safetensors", whole.data, whole.bytes);
        const comet_status status = open_and_verify(other);
        if (status == COMET_OK)
            /* only where the checksum itself is no longer found: it then counts as a foreign file */
            assert_null(strstr((const char *)whole.data + 8, "\"comet_checksum\":\""));
        else
            assert_int_equal(status, COMET_ERROR_CORRUPT);
        whole.data[i] ^= 0x11;
    }
    free(whole.data);
}

/* Writes a file of this header text and n_bytes zeros. */
static void write_header(const char *text, uint64_t claimed, size_t n_bytes)
{
    const size_t length = strlen(text);
    unsigned char *bytes = calloc(8 + length + n_bytes + 1, 1);
    assert_non_null(bytes);
    memcpy(bytes, &claimed, 8);
    memcpy(bytes + 8, text, length);
    write_file(folder, "b.safetensors", bytes, 8 + length + n_bytes);
    free(bytes);
}

static void test_headers_that_lie(void **state)
{
#define T(shape, offsets) "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const char *const texts[] = {
        "[]",
        "{",
        "{\"a\":1}",
        "{\"a\":{}}",
        T("[2]", "[0,4]"),
        T("[2]", "[8,0]"),
        T("[2]", "[0,8,8]"),
        T("[2]", "[0,\"8\"]"),
        T("[-2]", "[0,8]"),
        T("[2.5]", "[0,10]"),
        T("[1e300]", "[0,8]"),
        T("[4294967296,4294967296,4294967296]", "[0,0]"),
        T("[4611686018427387904]", "[0,0]"),
        T("[2]", "[4,12]"),
        T("[1]", "[0,4]"),
        T("[3]", "[0,12]"),
        T("[1,1,1,1,1,1,1,1,2]", "[0,8]"),
        T("{}", "[0,8]"),
        "{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}",
        T("[2.0]", "[0,8]"),
        T("[02]", "[0,8]"),
        T("[2e0]", "[0,8]"),
        T("[+2]", "[0,8]"),
        T("[2,]", "[0,8]"),
        T("[,2]", "[0,8]"),
        T("[2 1]", "[0,8]"),
        T("[[2]]", "[0,8]"),
        T("[18446744073709551618]", "[0,8]"),
        T("null", "[0,8]"),
        T("[2],\"shape\":[2]", "[0,8]"),
        T("[2],\"more\":1", "[0,8]"),
        T("[2]", "[0,8],"),
        T("[2]", "[0,8]") "x",
        T("[2]", "[0,8]") "{}",
        " ",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a",
        "{\"a\\",
        "{\"a\\u12",
        "{\"__metadata__\":1}",
        "{\"__metadata__\":[]}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":{\"a\":{}}}",
        "{\"__metadata__\":{\"a\":\"b\",\"a\":\"b\"}}",
        "{\"__metadata__\":{},\"__metadata__\":{}}",
        "{\"__metadata__\":{\"a\":\"\n\"}}",
        "{\"__metadata__\":{\"a\":\"\\x\"}}",
        "{\"__metadata__\":{\"a\":\"\\u0000\"}}",
        "{\"__metadata__\":{\"a\":\"\\ud800\"}}",
        "{\"__metadata__\":{\"a\":\"\\ud800\\u0041\"}}",
        "{\"__metadata__\":{\"a\":\"\\udc00\"}}",
        "{\"__metadata__\":{\"comet_checksum\":\"0\"}}",
        "{\"__metadata__\":{\"comet_checksum\":\"0123456789abcdef0\"}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
        "offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
        "offsets\":[4,8]}}",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const bool tensors = strstr(texts[i], "dtype") != NULL;
        write_header(texts[i], strlen(texts[i]), tensors ? 8 : 0); /* so that nothing else is wrong with it */
        const comet_status status = open_and_verify(other);
        if (status != COMET_ERROR_CORRUPT)
            fail_because("header %zu was read: %s", i, texts[i]);
    }
    static const uint64_t lengths[] = {0, 1, 1000, 1u << 30, UINT64_MAX, UINT64_MAX - 7, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        write_header(T("[2]", "[0,8]"), lengths[i], 8);
        assert_status(open_and_verify(other), COMET_ERROR_CORRUPT);
    }
    write_header(T("[2]", "[0,8]"), strlen(T("[2]", "[0,8]")), 8);
    assert_ok(open_and_verify(other)); /* the one they are made from */
    assert_status(open_and_verify("/nonexistent/x.safetensors"), COMET_ERROR_IO);
    assert_status(open_and_verify("/"), COMET_ERROR_IO);
}

/* Whitespace everywhere and every escape; a header that differs from ours but is one. */
static void test_strings(void **state)
{
    static const char text[] =
        "\n{ \"__metadata__\" :\t{ \"k\\u0065y\" : \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\uDE00 \xc3\xa9\" , \"\" "
        ": \"\" } ,\r\n"
        "\"a\\u0062\" : { \"data_offsets\" : [ 0 , 8 ] , \"dtype\" : \"F\\u00332\" , \"shape\" : [ 1 , 2 ] } }  \n";
    safetensors_file *file = NULL;
    write_header(text, strlen(text), 8);
    assert_ok(safetensors_open(&file, other));
    assert_string_equal(safetensors_metadata(file, "key"), "\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 \xc3\xa9");
    assert_string_equal(safetensors_metadata(file, ""), "");
    const safetensors_tensor *t = safetensors_find(file, "ab");
    assert_non_null(t);
    assert_true(t->n_dims == 2 && t->dims[0] == 1 && t->dims[1] == 2 && t->bytes == 8 && t->dtype == SAFETENSORS_F32);
    safetensors_close(file);
}

/* The checksum is the value of one key of the metadata, whatever else holds its text. */
static void test_checksum_key_elsewhere(void **state)
{
    static const char *const foreign[] = {
        "{\"__metadata__\":{\"my\\\"comet_checksum\":\"0123456789abcdef\"}}",
        "{\"__metadata__\":{\"a\":\"\\\"comet_checksum\\\":\\\"0123456789abcdef\\\"\"}}",
        "{\"\\\"comet_checksum\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
        "{\"comet_checksum\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
    };
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        write_header(foreign[i], strlen(foreign[i]), 0);
        if (open_and_verify(other) != COMET_OK)
            fail_because("header %zu: %s", i, comet_last_error());
    }
    const safetensors_pair metadata[] = {{"my\"comet_checksum", "0123456789abcdef"}, {"b", "\"comet_checksum\":\"0"}};
    entry list[] = {entries[0], {"x\"comet_checksum", SAFETENSORS_F32, 1, {2}, weights, 8}};
    const safetensors_source source = {
        .user = list, .n_tensors = 2, .describe = describe, .fill = fill, .metadata = metadata, .n_metadata = 2};
    assert_ok(safetensors_save(path, NULL, &source));
    assert_ok(open_and_verify(path));
    blob whole = read_file(folder, "a.safetensors");
    whole.data[whole.bytes - 1] ^= 1;
    write_file(folder, "b.safetensors", whole.data, whole.bytes);
    assert_status(open_and_verify(other), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "damaged: its checksum is"));
    free(whole.data);
}

/* The checksum is found however the header is laid out. */
static void test_checksum_among_spaces(void **state)
{
    static const char *const texts[] = {
        "{\"__metadata__\":{\"comet_checksum\" : \"0000000000000000\"}}",
        "{\"__metadata__\":{\"\\u0063omet_checksum\":\"0000000000000000\",\"z\":\"0000000000000000\"}}"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char text[128];
        snprintf(text, sizeof text, "%s", texts[i]);
        const uint64_t hash = comet_checksum(text, strlen(text));
        snprintf(strstr(text, "0000000000000000"), 17, "%016llx", (unsigned long long)hash);
        memcpy(strchr(text, '\0'), &texts[i][strlen(text)], strlen(texts[i]) - strlen(text) + 1);
        write_header(text, strlen(text), 0);
        assert_ok(open_and_verify(other));
        write_header(texts[i], strlen(texts[i]), 0);
        assert_status(open_and_verify(other), COMET_ERROR_CORRUPT);
    }
}

/* 30 MB of the smallest tensors: a header needs a few times its own size, also to be checked. */
static void test_large_header(void **state)
{
    enum { N = 540000, ENTRY_BYTES = 64, MOST_BYTES = 300 << 20 };
    char *text = need_malloc((size_t)N * ENTRY_BYTES);
    size_t at = 0;
    for (size_t i = 0; i < N; i++)
        at += (size_t)snprintf(text + at, ENTRY_BYTES, "%s\"%zx\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                               i > 0 ? "," : "{", i);
    snprintf(text + at, ENTRY_BYTES, "}");
    assert_true(strlen(text) > 29000000);
    write_header(text, strlen(text), 0);
    free(text);
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        unsigned long pages = 0;
        FILE *own = fopen("/proc/self/statm", "r");
        if (!own || fscanf(own, "%lu", &pages) != 1)
            _exit(2);
        fclose(own);
        const rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + MOST_BYTES;
        const struct rlimit limit = {bytes, bytes};
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            _exit(3);
        _exit(open_and_verify(other) == COMET_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Random bytes of a file without checksum are changed: whatever still opens can be read within its bounds. */
static void test_random_damage(void **state)
{
    const uint64_t seed = environment_number("COMET_TEST_SEED", 1);
    test_rng r = {seed};
    size_t n_opened = 0;
    assert_ok(save_to(path, NULL, entries, 4));
    blob whole = read_file(folder, "a.safetensors");
    char *key = strstr((char *)whole.data + 8, "comet_checksum");
    assert_non_null(key);
    key[0] = 'C';
    for (int round = 0; round < 4000; round++) {
        uint8_t *copy = need_malloc(whole.bytes);
        safetensors_file *file = NULL;
        memcpy(copy, whole.data, whole.bytes);
        for (uint64_t n = 1 + rng_below(&r, 3); n > 0; n--)
            copy[rng_chance(&r, 4) ? rng_below(&r, 9) : rng_below(&r, whole.bytes)] =
                (uint8_t)("0123456789{}[],:\"F-."[rng_below(&r, 20)]);
        write_file(folder, "b.safetensors", copy, whole.bytes);
        free(copy);
        if (safetensors_open(&file, other) != COMET_OK)
            continue;
        n_opened++;
        const safetensors_tensor *t = NULL;
        for (size_t i = 0; (t = safetensors_at(file, i)); i++) {
            float *x = need_malloc((size_t)t->n_elements * sizeof *x);
            const comet_status status = safetensors_read_f32(file, t, x);
            if (status != COMET_OK && status != COMET_ERROR_UNSUPPORTED)
                fail_because("COMET_TEST_SEED=%llu round %d: %s", (unsigned long long)seed, round, comet_last_error());
            free(x);
        }
        safetensors_close(file);
    }
    assert_true(n_opened > 10);
    free(whole.data);
}

static void check_conversion(safetensors_dtype dtype, const void *data, size_t bytes, const float *expected, uint64_t n)
{
    const entry e = {"x", dtype, 1, {n}, data, bytes};
    safetensors_file *file = NULL;
    float back[8];
    assert_ok(save_to(path, NULL, &e, 1));
    assert_ok(safetensors_open(&file, path));
    assert_ok(safetensors_read_f32(file, safetensors_at(file, 0), back));
    assert_memory_equal(back, expected, n * sizeof *back);
    safetensors_close(file);
}

static void test_conversions(void **state)
{
    static const uint16_t halves[] = {0x3C00, 0xC100, 0x0001, 0x8000, 0x7BFF, 0xFC00};
    static const float of_halves[] = {1, -2.5f, 0x1p-24f, -0.0f, 65504, -INFINITY};
    static const uint16_t bf16[] = {0x3F80, 0xC020, 0x0001};
    static const float of_bf16[] = {1, -2.5f, 0x1p-133f};
    static const double doubles[] = {1, -2.5, 1e300};
    static const float of_doubles[] = {1, -2.5f, INFINITY};
    check_conversion(SAFETENSORS_F16, halves, sizeof halves, of_halves, 6);
    check_conversion(SAFETENSORS_BF16, bf16, sizeof bf16, of_bf16, 3);
    check_conversion(SAFETENSORS_F64, doubles, sizeof doubles, of_doubles, 3);
}

/* More than one piece of the checksum, more than one block of the conversion. */
static void test_large(void **state)
{
    enum { N = 700001 };
    double *wide = need_malloc(N * sizeof *wide);
    float *back = need_malloc(N * sizeof *back);
    for (size_t i = 0; i < N; i++)
        wide[i] = (double)i;
    const entry e = {"x", SAFETENSORS_F64, 1, {N}, wide, N * sizeof *wide};
    safetensors_file *file = NULL;
    assert_ok(save_to(path, NULL, &e, 1));
    assert_ok(open_and_verify(path));
    assert_ok(safetensors_open(&file, path));
    assert_ok(safetensors_read_f32(file, safetensors_at(file, 0), back));
    for (size_t i = 0; i < N; i++)
        assert_true((double)back[i] == (double)i);
    safetensors_close(file);
    free(back);
    free(wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_keeps_the_old),
        cmocka_unit_test(test_planted_links),
        cmocka_unit_test(test_keeps_modes),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_every_damaged_byte),
        cmocka_unit_test(test_headers_that_lie),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_checksum_key_elsewhere),
        cmocka_unit_test(test_checksum_among_spaces),
        cmocka_unit_test(test_large_header),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
