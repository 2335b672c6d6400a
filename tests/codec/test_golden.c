/*
 * Golden frames: files written once by this format version, in tests/codec/golden. They must decode to what they did then (the
 * checksum of the decoded bytes stands in golden/decoded.txt), and encoding the same tensor must still give the same bytes.
 *
 * COMET_GOLDEN_WRITE=folder writes the files instead, when the format or the encoder's choices change on purpose.
 * COMET_CORPUS_WRITE=folder writes the fuzz targets' seeds (decode/, info/, roundtrip/ must exist).
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "codec/parts.h"
#include "fuzz/roundtrip_input.h"
#include "zoo.h"

#define GOLDEN_FOLDER COMET_TESTS_DIR "/codec/golden"
#define DECODED_LIST "decoded.txt"

static void file_name(const zoo_kind *kind, char name[64])
{
    snprintf(name, 64, "%s.comet", kind->name);
}

static uint64_t decoded_checksum(blob frame)
{
    size_t bytes = (size_t)info_of(frame).tensor_bytes;
    void *y = decode(NULL, frame);
    uint64_t sum = comet_checksum(y, bytes);
    free(y);
    return sum;
}

/* ---- writing ---- */

static void write_golden(const char *folder)
{
    char *list = need_malloc(zoo_size * 100), *at = list;
    for (size_t i = 0; i < zoo_size; i++) {
        char name[64];
        blob frame = zoo_frame(&zoo[i]);
        zoo_check(&zoo[i], frame);
        file_name(&zoo[i], name);
        write_file(folder, name, frame.data, frame.bytes);
        at += sprintf(at, "%016llx %s\n", (unsigned long long)decoded_checksum(frame), name);
        free(frame.data);
    }
    write_file(folder, DECODED_LIST, list, (size_t)(at - list));
    free(list);
    print_message("wrote %zu frames to %s\n", zoo_size, folder);
}

enum { SEED_BYTES = ROUNDTRIP_HEADER + 900 }; /* 15 bytes for each kind of the zoo are written */

/* An input that the round-trip target takes and that is not over at once; its data are random bytes, runs or small integers. */
static void draw_roundtrip_seed(test_rng *r, uint8_t input[SEED_BYTES])
{
    roundtrip_input in;
    bool taken = false;
    while (!taken) {
        for (size_t k = 0; k < ROUNDTRIP_HEADER; k++)
            input[k] = (uint8_t)(k < 6 || rng_chance(r, 2) ? rng_next(r) : 1 + rng_below(r, 12));
        if (roundtrip_read(input, ROUNDTRIP_HEADER, &in)) {
            taken = in.n >= 100;
            free(in.x);
        }
    }
    uint64_t kind = rng_below(r, 3);
    for (size_t k = ROUNDTRIP_HEADER; k < SEED_BYTES; k++)
        input[k] = (uint8_t)(kind == 0 ? rng_next(r) : kind == 1 ? k / 40 : rng_below(r, 3));
}

static void write_corpus(const char *folder)
{
    char path[900], name[64];
    for (size_t i = 0; i < zoo_size; i++) {
        blob frame = zoo_frame(&zoo[i]);
        file_name(&zoo[i], name);
        snprintf(path, sizeof path, "%s/decode", folder);
        write_file(path, name, frame.data, frame.bytes);
        snprintf(path, sizeof path, "%s/info", folder);
        write_file(path, name, frame.data, (size_t)frame_header_bytes(frame.data[10]));
        free(frame.data);
        uint8_t input[SEED_BYTES];
        test_rng r = {i};
        draw_roundtrip_seed(&r, input);
        snprintf(path, sizeof path, "%s/roundtrip", folder);
        snprintf(name, sizeof name, "seed_%02zu", i);
        write_file(path, name, input, ROUNDTRIP_HEADER + 15 * i);
    }
    print_message("wrote %zu seeds for each target to %s\n", zoo_size, folder);
}

/* ---- checking ---- */

/* The checksum that the list has for a file. */
static uint64_t listed_checksum(const char *list, const char *name)
{
    char line[80];
    snprintf(line, sizeof line, " %s\n", name);
    const char *found = strstr(list, line);
    if (!found || found - list < 16)
        fail_because("%s is not in %s", name, DECODED_LIST);
    return strtoull(found - 16, NULL, 16);
}

static char *read_list(void)
{
    blob file = read_file(GOLDEN_FOLDER, DECODED_LIST);
    char *list = need_malloc(file.bytes + 1);
    memcpy(list, file.data, file.bytes);
    list[file.bytes] = 0;
    free(file.data);
    return list;
}

static void check_golden(const zoo_kind *kind, const char *list)
{
    char name[64];
    file_name(kind, name);
    blob golden = read_file(GOLDEN_FOLDER, name), frame = zoo_frame(kind);
    specimen s = specimen_make(kind);
    zoo_check(kind, golden);
    free(decode_and_check(NULL, golden, s.x));
    if (decoded_checksum(golden) != listed_checksum(list, name))
        fail_because("%s no longer decodes to what it did", name);
    if (!blobs_equal(golden, frame))
        fail_because("encoding no longer gives the bytes of %s (%zu bytes, now %zu)", name, golden.bytes, frame.bytes);
    specimen_free(&s);
    free(golden.data);
    free(frame.data);
}

static void test_golden_frames(void **state)
{
    const char *golden = getenv("COMET_GOLDEN_WRITE"), *corpus = getenv("COMET_CORPUS_WRITE");
    if (golden)
        write_golden(golden);
    if (corpus)
        write_corpus(corpus);
    if (golden || corpus)
        return;
    char *list = read_list();
    for (size_t i = 0; i < zoo_size; i++)
        check_golden(&zoo[i], list);
    free(list);
}

/* The golden files hold every mode, predictor and code width that the format has. */
static void test_golden_frames_cover_the_format(void **state)
{
    bool predictors[3][N_PREDICTORS] = {{false}}, widths[3][N_CODE_WIDTHS] = {{false}}, raw = false, nonzero[3] = {false};
    for (size_t i = 0; i < zoo_size; i++) {
        blob frame = zoo_frame(&zoo[i]);
        comet_frame_info info = info_of(frame);
        const uint8_t *payload = frame.data + info.header_bytes;
        raw = raw || (info.n_chunks && payload[0] == CHUNK_RAW);
        if (info.n_chunks && payload[0] != CHUNK_RAW) {
            predictors[payload[0] - CHUNK_FAST][payload[2]] = true;
            widths[payload[0] - CHUNK_FAST][payload[1]] = true;
            nonzero[payload[0] - CHUNK_FAST] |= (payload[3] & CHUNK_NONZERO) != 0;
        }
        free(frame.data);
    }
    assert_true(nonzero[0] && nonzero[1]);
    assert_true(raw && widths[0][CODES16] && widths[0][CODES32] && widths[0][CODES64] && widths[1][CODES16] &&
                widths[1][CODES32] && widths[2][CODES16] && widths[2][CODES32]);
    for (int p = PREDICT_NONE; p < N_PREDICTORS; p++) {
        assert_true(predictors[0][p] || p == PREDICT_MEDIAN || p >= PREDICT_WAVE);
        assert_true(predictors[1][p] || p == PREDICT_UP);
        assert_true(predictors[2][p] == parts_have((enum predictor)p));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_frames),
        cmocka_unit_test(test_golden_frames_cover_the_format),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
