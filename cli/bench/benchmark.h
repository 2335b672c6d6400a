/*
 * Measuring codecs on one tensor.
 *
 * A round is: memcpy, then each codec compresses and decompresses, each timed alone; the best time of all rounds counts. All
 * buffers are page-aligned and touched before the first round. Afterwards each codec compresses once more and decompresses
 * into a buffer of arbitrary bytes, which is then compared with the original.
 */
#ifndef COMET_CLI_BENCHMARK_H
#define COMET_CLI_BENCHMARK_H

#include "bench/contender.h"
#include "tensor/tensorio.h"

/* One line of results; seconds are the best of the rounds. */
typedef struct bench_row {
    const char *codec;
    const char *file; /* "total" for sums */
    const char *level;
    const char *bound;   /* as written on the command line */
    comet_tensor tensor; /* unset in totals */
    double eb;           /* absolute; unset in totals */
    uint64_t bytes_in, bytes_out;
    double compress_seconds, decompress_seconds, memcpy_seconds;
    double max_error;
    double max_share; /* the largest max_error / eb; 0 where eb is 0 */
    bool total, bound_ok, zeros_kept;
    const char *device; /* NULL on the CPU */
    bool same_bytes;    /* a device's frame is the CPU's */
} bench_row;

typedef struct bench_entry {
    const contender *codec;
    comet_level level; /* for contenders without a level of their own */
    size_t max_rounds; /* a slow peer need not run in every round; 0: no limit */
} bench_entry;

typedef struct bench_job {
    const char *file, *bound;
    const loaded_tensor *input;
    double eb;
    comet_profile profile;
    bool keep_support, dither;
    size_t n_threads;
    const char *device; /* that contender_device runs on */
    size_t repeat;      /* least number of rounds */
    double seconds;     /* rounds go on until this much time is spent */
    const bench_entry *entries;
    size_t n_entries;
} bench_job;

enum { BENCH_MAX_ENTRIES = 4 };

/* Runs the job. rows has room for n_entries + 1: one for each entry that accepts the tensor, then memcpy's. */
cli_exit bench_measure(const bench_job *job, bench_row *rows, size_t *n_rows);

/* The absolute bound that `params` mean on this tensor. */
cli_exit bench_resolve(const loaded_tensor *input, const comet_params *params, const char *subject, double *eb);

/* Adds a row to the total of its codec; a total begins zero-filled. */
void bench_add(bench_row *total, const bench_row *row);

double bench_ratio(const bench_row *row);
double bench_gbps(uint64_t bytes, double seconds);

#endif
