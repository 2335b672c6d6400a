/*
 * Event files of TensorBoard: records of TensorFlow (TFRecord), each an Event of its protocol buffers. A record is
 *
 *   length    8 bytes, little endian
 *   check     4 bytes: the masked CRC-32C of the length
 *   data      `length` bytes
 *   check     4 bytes: the masked CRC-32C of the data
 *
 * The first Event has file_version "brain.Event:2"; the others have a step and a Summary of scalars. Fields, by number:
 *
 *   Event    1 wall_time (double)  2 step (int64)  3 file_version (string)  5 summary (Summary)
 *   Summary  1 value (Value, repeated)
 *   Value    1 tag (string)  2 simple_value (float)
 */
#include "report/events.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/file_io.h"
#include "report/page.h"

enum { WIRE_VARINT = 0, WIRE_DOUBLE = 1, WIRE_BYTES = 2, WIRE_FLOAT = 5, TAG_BYTES = 512 };

/* ---- records ---- */

/* CRC-32C (Castagnoli), a bit at a time: files are small. */
static uint32_t crc32c(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78u & (0 - (crc & 1)));
    }
    return ~crc;
}

static uint32_t masked(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void put_little(page *p, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));
        page_bytes(p, &byte, 1);
    }
}

static void put_record(page *p, const page *data)
{
    const size_t begin = p->bytes;
    put_little(p, data->bytes, 8);
    if (p->failed)
        return;
    put_little(p, masked(crc32c(p->text + begin, 8)), 4);
    page_bytes(p, data->text, data->bytes);
    put_little(p, masked(crc32c(data->text, data->bytes)), 4);
}

/* ---- protocol buffers ---- */

static void put_varint(page *p, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        put_little(p, (value & 127) | 128, 1);
    put_little(p, value, 1);
}

static void put_key(page *p, uint32_t field, uint32_t wire)
{
    put_varint(p, (uint64_t)field << 3 | wire);
}

static void put_double(page *p, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(p, field, WIRE_DOUBLE);
    put_little(p, bits, 8);
}

static void put_float(page *p, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(p, field, WIRE_FLOAT);
    put_little(p, bits, 4);
}

static void put_field(page *p, uint32_t field, const void *data, size_t bytes)
{
    put_key(p, field, WIRE_BYTES);
    put_varint(p, bytes);
    page_bytes(p, data, bytes);
}

/* ---- events ---- */

/* An event under construction: its values so far. */
typedef struct events {
    page *out;
    page summary, value, event; /* used again for each */
    double began;
} events;

static void put_value(events *e, const char *tag, double value)
{
    if (!isfinite(value))
        return;
    e->value.bytes = 0;
    put_field(&e->value, 1, tag, strlen(tag));
    put_float(&e->value, 2, (float)value);
    put_field(&e->summary, 1, e->value.text, e->value.bytes);
}

/* Writes the values as one event, and forgets them. */
static void put_event(events *e, double step, double seconds)
{
    e->event.bytes = 0;
    put_double(&e->event, 1, e->began + (isnan(seconds) ? 0 : seconds));
    put_key(&e->event, 2, WIRE_VARINT);
    put_varint(&e->event, step > 0 && step < 1e18 ? (uint64_t)step : 0);
    put_field(&e->event, 5, e->summary.text, e->summary.bytes);
    if (e->summary.bytes > 0)
        put_record(e->out, &e->event);
    e->summary.bytes = 0;
}

static void put_version(events *e)
{
    static const char version[] = "brain.Event:2";
    e->event.bytes = 0;
    put_double(&e->event, 1, e->began);
    put_field(&e->event, 3, version, sizeof version - 1);
    put_record(e->out, &e->event);
}

static const char *const step_tags[N_STEP_FIELDS] = {
    [S_RATE] = "rate",
    [S_LOSS] = "loss/train",
    [S_TOP1] = "top1/train",
    [S_SPEED] = "images_per_s",
    [S_RATIO] = "ratio",
    [S_WEIGHTS] = "memory/weights_bytes",
    [S_GRADIENTS] = "memory/gradients_bytes",
    [S_OPTIMISER] = "memory/optimiser_bytes",
    [S_SAVED] = "memory/saved_bytes",
    [S_SAVED_RAW] = "memory/saved_raw_bytes",
    [S_SAVED_REFERENCE] = "memory/saved_reference_bytes",
    [S_TRANSIENT] = "memory/transient_bytes",
    [S_DATA] = "memory/data_bytes",
    [S_PROGRAM] = "memory/program_bytes",
    [S_RSS] = "memory/rss_bytes",
    [S_PEAK_RSS] = "memory/peak_rss_bytes",
    [S_WAIT] = "seconds/wait",
    [S_FORWARD] = "seconds/forward",
    [S_BACKWARD] = "seconds/backward",
    [S_UPDATE] = "seconds/update",
    [S_ENCODE] = "seconds/encode",
    [S_DECODE] = "seconds/decode",
    [S_ASSESS] = "seconds/assess",
};
static const char *const epoch_tags[N_EPOCH_FIELDS] = {
    [E_TRAIN_LOSS] = "loss/train_epoch",
    [E_TRAIN_TOP1] = "top1/train_epoch",
    [E_LOSS] = "loss/test",
    [E_TOP1] = "top1/test",
    [E_TOP5] = "top5/test",
    [E_BEST_TOP1] = "top1/test_best",
};

static void put_lines(events *e, const run_lines *lines, const char *const *tags, size_t n_tags)
{
    for (size_t i = 0; i < lines->n; i++) {
        for (size_t k = 0; k < n_tags; k++)
            if (tags[k])
                put_value(e, tags[k], lines->items[i].field[k]);
        put_event(e, lines->items[i].step, lines->items[i].seconds);
    }
}

static void put_layer_value(events *e, const run *r, const run_assessment *a, const char *what, double value)
{
    const run_consumer *c = &r->consumers[a->consumer];
    char tag[TAG_BYTES];
    snprintf(tag, sizeof tag, "%s/%.200s.%.200s", what, c->layer ? c->layer : "", c->what ? c->what : "");
    put_value(e, tag, value);
}

/* One event for all layers that were assessed in a step. */
static void put_assessments(events *e, const run *r)
{
    for (size_t i = 0; i < r->n_assessments; i++) {
        const run_assessment *a = &r->assessments[i];
        put_layer_value(e, r, a, "layer_bound", a->eb);
        put_layer_value(e, r, a, "layer_ratio", a->ratio);
        put_layer_value(e, r, a, "layer_sigma_ratio", a->sigma_ratio);
        if (i + 1 == r->n_assessments || r->assessments[i + 1].step != a->step)
            put_event(e, a->step, a->seconds);
    }
}

/* ---- the file ---- */

static cli_exit make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? CLI_OK : fail_errno(CLI_FAILED, errno, path);
}

/* Makes a path's folders below `folder`, which is made too. */
static cli_exit make_folders(const char *folder, char *path)
{
    cli_exit code = make_folder(folder);
    for (char *at = path + strlen(folder) + 1; code == CLI_OK && (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        code = make_folder(path);
        *at = '/';
    }
    return code;
}

char *events_path(const run *r, const char *folder)
{
    const size_t bytes = strlen(folder) + strlen(r->name) + 80;
    char *path = malloc(bytes);
    const double began = run_began(r);
    if (path)
        snprintf(path, bytes, "%s/%s/events.out.tfevents.%.0f.comet", folder, r->name, began > 0 && began < 1e12 ? began : 0);
    return path;
}

cli_exit events_write(const run *r, const char *folder, bool force)
{
    page out = {0};
    events e = {.out = &out, .began = run_began(r)};
    put_version(&e);
    put_lines(&e, &r->steps, step_tags, N_STEP_FIELDS);
    put_lines(&e, &r->epochs, epoch_tags, N_EPOCH_FIELDS);
    put_assessments(&e, r);
    char *path = events_path(r, folder);
    const bool failed = out.failed || e.summary.failed || e.value.failed || e.event.failed || !path;
    const piece whole = {out.text, out.bytes};
    cli_exit code = failed ? fail_memory(out.room) : make_folders(folder, path);
    if (code == CLI_OK)
        code = file_write(path, force, &whole, 1);
    page_free(&out), page_free(&e.summary), page_free(&e.value), page_free(&e.event);
    free(path);
    return code;
}
