/* Benchmark rows as JSON lines, or as a table. */
#ifndef COMET_CLI_BENCH_PRINT_H
#define COMET_CLI_BENCH_PRINT_H

#include "bench/benchmark.h"

/* One JSON object on one line. `codec` and `bound` are added at the end where they are needed to tell rows apart. */
cli_exit bench_print_json(const bench_row *row, bool with_codec, bool with_bound);

/* The table's head, then its rows, with a first column of `file_width` characters. */
void bench_print_head(int file_width);
void bench_print_row(const bench_row *row, int file_width);

/* The part of a path after the last slash. */
const char *bench_file_name(const char *path);

#endif
