/* Measuring codecs; see benchmark.h. */
#include "bench/benchmark.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "comet/base.h"
#include "kit/pages.h"
#include "tensor/frameio.h"

/* An entry that is being measured. */
typedef struct lane {
    const bench_entry *entry;
    contender_task task;
    void *state;
    size_t capacity, frame_bytes;
    double compress_seconds, decompress_seconds;
} lane;

typedef struct bench {
    const bench_job *job;
    lane lanes[BENCH_MAX_ENTRIES];
    size_t n_lanes;
    void *frame, *decoded;
    size_t frame_capacity;
    double memcpy_seconds;
} bench;

static void keep_best(double *best, double started)
{
    const double seconds = comet_seconds() - started;
    if (seconds < *best)
        *best = seconds;
}

static cli_exit open_lane(bench *b, const bench_entry *entry)
{
    const bench_job *job = b->job;
    lane *l = &b->lanes[b->n_lanes];
    *l = (lane){.entry = entry, .compress_seconds = DBL_MAX, .decompress_seconds = DBL_MAX};
    l->task = (contender_task){.tensor = &job->input->tensor,
                               .src = job->input->data,
                               .bytes = job->input->bytes,
                               .eb = job->eb,
                               .level = entry->level,
                               .profile = job->profile,
                               .keep_support = job->keep_support,
                               .dither = job->dither,
                               .n_threads = job->n_threads,
                               .device = job->device};
    if (!entry->codec->accepts(&l->task))
        return CLI_OK;
    const cli_exit code = entry->codec->open(&l->task, &l->state, &l->capacity);
    if (code != CLI_OK)
        return code;
    b->n_lanes++;
    if (l->capacity > b->frame_capacity)
        b->frame_capacity = l->capacity;
    return CLI_OK;
}

static cli_exit open_bench(bench *b)
{
    const size_t bytes = b->job->input->bytes;
    for (size_t i = 0; i < b->job->n_entries; i++) {
        const cli_exit code = open_lane(b, &b->job->entries[i]);
        if (code != CLI_OK)
            return code;
    }
    b->frame = pages_alloc(b->frame_capacity);
    b->decoded = pages_alloc(bytes);
    if (!b->frame || !b->decoded)
        return fail_memory(b->frame_capacity + bytes);
    pages_touch(b->frame, b->frame_capacity);
    pages_touch(b->decoded, bytes);
    return CLI_OK;
}

static void close_bench(bench *b)
{
    for (size_t i = 0; i < b->n_lanes; i++)
        b->lanes[i].entry->codec->close(b->lanes[i].state);
    free(b->frame);
    free(b->decoded);
}

static cli_exit time_lane(const bench *b, lane *l)
{
    const contender *codec = l->entry->codec;
    double started = comet_seconds();
    cli_exit code = codec->compress(l->state, b->frame, b->frame_capacity, &l->frame_bytes);
    keep_best(&l->compress_seconds, started);
    if (code != CLI_OK)
        return code;
    started = comet_seconds();
    code = codec->decompress(l->state, b->frame, l->frame_bytes, b->decoded);
    keep_best(&l->decompress_seconds, started);
    return code;
}

static cli_exit run_rounds(bench *b)
{
    const bench_job *job = b->job;
    const double begun = comet_seconds();
    for (size_t round = 0; round < job->repeat || comet_seconds() - begun < job->seconds; round++) {
        const double started = comet_seconds();
        memcpy(b->decoded, job->input->data, job->input->bytes);
        keep_best(&b->memcpy_seconds, started);
        for (size_t i = 0; i < b->n_lanes; i++) {
            lane *l = &b->lanes[i];
            const bool rests = l->entry->max_rounds > 0 && round >= l->entry->max_rounds;
            const cli_exit code = rests ? CLI_OK : time_lane(b, l);
            if (code != CLI_OK)
                return code;
        }
    }
    return CLI_OK;
}

/* One untimed run whose result is compared with the original. */
static cli_exit check_lane(const bench *b, lane *l, bench_row *row)
{
    const contender *codec = l->entry->codec;
    const loaded_tensor *input = b->job->input;
    comet_comparison seen;
    cli_exit code = codec->compress(l->state, b->frame, b->frame_capacity, &l->frame_bytes);
    memset(b->decoded, 0xA5, input->bytes);
    if (code == CLI_OK)
        code = codec->decompress(l->state, b->frame, l->frame_bytes, b->decoded);
    if (code == CLI_OK && codec->fetch)
        code = codec->fetch(l->state, b->frame, l->frame_bytes, b->decoded, &row->same_bytes);
    if (code != CLI_OK)
        return code;
    comet_comparison_init(&seen);
    const uint64_t n = input->bytes / comet_dtype_bytes(input->tensor.dtype);
    const comet_status status = comet_compare(input->tensor.dtype, n, input->data, b->decoded, b->job->eb, &seen);
    if (status != COMET_OK)
        return fail_status(status, b->job->file);
    row->bytes_out = l->frame_bytes;
    row->max_error = seen.max_error;
    row->max_share = b->job->eb > 0 ? seen.max_error / b->job->eb : 0;
    row->bound_ok = seen.n_violations == 0;
    row->zeros_kept = seen.n_zeros_kept == seen.n_zeros;
    return CLI_OK;
}

/* The row of memcpy; the row of a codec starts from it. */
static bench_row plain_row(const bench *b)
{
    const bench_job *job = b->job;
    return (bench_row){.codec = "memcpy",
                       .file = job->file,
                       .bound = job->bound,
                       .tensor = job->input->tensor,
                       .eb = job->eb,
                       .bytes_in = job->input->bytes,
                       .bytes_out = job->input->bytes,
                       .compress_seconds = b->memcpy_seconds,
                       .decompress_seconds = b->memcpy_seconds,
                       .memcpy_seconds = b->memcpy_seconds,
                       .bound_ok = true,
                       .zeros_kept = true};
}

static cli_exit fill_rows(bench *b, bench_row *rows, size_t *n_rows)
{
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < b->n_lanes && code == CLI_OK; i++) {
        lane *l = &b->lanes[i];
        rows[i] = plain_row(b);
        rows[i].codec = l->entry->codec->name;
        rows[i].level = l->entry->codec->level ? l->entry->codec->level : level_name(l->entry->level);
        rows[i].device = l->entry->codec->fetch ? b->job->device : NULL;
        rows[i].compress_seconds = l->compress_seconds;
        rows[i].decompress_seconds = l->decompress_seconds;
        code = check_lane(b, l, &rows[i]);
    }
    rows[b->n_lanes] = plain_row(b);
    *n_rows = b->n_lanes + 1;
    return code;
}

cli_exit bench_measure(const bench_job *job, bench_row *rows, size_t *n_rows)
{
    bench b = {.job = job, .memcpy_seconds = DBL_MAX};
    cli_exit code = open_bench(&b);
    if (code == CLI_OK)
        code = run_rounds(&b);
    if (code == CLI_OK)
        code = fill_rows(&b, rows, n_rows);
    close_bench(&b);
    return code;
}

/* A target ratio needs a search that compresses; other bounds need only statistics of the tensor. */
cli_exit bench_resolve(const loaded_tensor *input, const comet_params *params, const char *subject, double *eb)
{
    if (params->bound_mode == COMET_BOUND_RATIO) {
        blob frame;
        comet_stats stats;
        comet_stats_init(&stats);
        const cli_exit code = frame_encode(&input->tensor, params, input->data, 1, subject, &frame, &stats);
        if (code == CLI_OK)
            blob_free(&frame);
        *eb = stats.eb;
        return code;
    }
    comet_encoder *encoder = NULL;
    comet_status status = comet_encoder_create(&encoder, NULL, 1);
    if (status == COMET_OK)
        status = comet_encoder_estimate(encoder, &input->tensor, params, input->data, NULL, eb);
    comet_encoder_destroy(encoder);
    return status == COMET_OK ? CLI_OK : fail_status(status, subject);
}

void bench_add(bench_row *total, const bench_row *row)
{
    if (!total->total)
        *total = (bench_row){.codec = row->codec,
                             .file = "total",
                             .level = row->level,
                             .bound = row->bound,
                             .device = row->device,
                             .total = true,
                             .same_bytes = true,
                             .bound_ok = true,
                             .zeros_kept = true};
    total->bytes_in += row->bytes_in;
    total->bytes_out += row->bytes_out;
    total->compress_seconds += row->compress_seconds;
    total->decompress_seconds += row->decompress_seconds;
    total->memcpy_seconds += row->memcpy_seconds;
    total->max_error = row->max_error > total->max_error ? row->max_error : total->max_error;
    total->max_share = row->max_share > total->max_share ? row->max_share : total->max_share;
    total->bound_ok = total->bound_ok && row->bound_ok;
    total->zeros_kept = total->zeros_kept && row->zeros_kept;
    total->same_bytes = total->same_bytes && row->same_bytes;
}

double bench_ratio(const bench_row *row)
{
    return row->bytes_out > 0 ? (double)row->bytes_in / (double)row->bytes_out : 0;
}

double bench_gbps(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / 1e9 / seconds : 0;
}
