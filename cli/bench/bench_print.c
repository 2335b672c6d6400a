/* Benchmark rows for machines and for people; see bench_print.h. */
#include "bench/bench_print.h"

#include <stdio.h>
#include <string.h>

#include "kit/json_out.h"
#include "kit/text.h"

static void add_speeds(json *j, const bench_row *row)
{
    json_add_double(j, "compress_gbps", bench_gbps(row->bytes_in, row->compress_seconds));
    json_add_double(j, "decompress_gbps", bench_gbps(row->bytes_in, row->decompress_seconds));
    json_add_double(j, "memcpy_gbps", bench_gbps(row->bytes_in, row->memcpy_seconds));
}

cli_exit bench_print_json(const bench_row *row, bool with_codec, bool with_bound)
{
    json j = json_begin();
    json_add_text(&j, "file", row->file);
    if (row->total) {
        json_add_null(&j, "dims");
        json_add_null(&j, "dtype");
    } else {
        json_add_numbers(&j, "dims", row->tensor.dims, row->tensor.n_dims);
        json_add_text(&j, "dtype", dtype_name(row->tensor.dtype));
    }
    json_add_text(&j, "level", row->level);
    if (row->total)
        json_add_null(&j, "eb");
    else
        json_add_double(&j, "eb", row->eb);
    json_add_u64(&j, "bytes_in", row->bytes_in);
    json_add_u64(&j, "bytes_out", row->bytes_out);
    json_add_double(&j, "ratio", bench_ratio(row));
    add_speeds(&j, row);
    json_add_double(&j, "max_error", row->max_error);
    json_add_bool(&j, "bound_ok", row->bound_ok);
    json_add_bool(&j, "zeros_kept", row->zeros_kept);
    if (row->device) {
        json_add_text(&j, "device", row->device);
        json_add_bool(&j, "same_bytes", row->same_bytes);
    }
    if (with_codec)
        json_add_text(&j, "codec", row->codec);
    if (with_bound)
        json_add_text(&j, "bound", row->bound);
    return json_print(&j);
}

void bench_print_head(int file_width)
{
    printf("%-*s %-16s %-6s %-8s %-8s %9s %8s %9s %10s %8s %9s %6s %6s\n", file_width, "file", "dims", "codec", "level",
           "bound", "eb", "ratio", "compress", "decompress", "memcpy", "error/eb", "bound", "zeros");
    printf("%-*s %-16s %-6s %-8s %-8s %9s %8s %9s %10s %8s %9s %6s %6s\n", file_width, "", "", "", "", "", "", "", "GB/s",
           "GB/s", "GB/s", "", "ok", "kept");
}

void bench_print_row(const bench_row *row, int file_width)
{
    char dims[DIMS_TEXT_BYTES] = "", shown[PRINTABLE_BYTES];
    char eb[24] = "";
    if (!row->total) {
        dims_text(row->tensor.n_dims, row->tensor.dims, "x", dims);
        snprintf(eb, sizeof eb, "%.3g", row->eb);
    }
    printf("%-*s %-16s %-6s %-8s %-8s %9s %8.2f %9.2f %10.2f %8.2f %9.3f %6s %6s\n", file_width,
           text_printable(bench_file_name(row->file), shown, sizeof shown), dims, row->codec, row->level ? row->level : "",
           row->bound, eb, bench_ratio(row), bench_gbps(row->bytes_in, row->compress_seconds),
           bench_gbps(row->bytes_in, row->decompress_seconds), bench_gbps(row->bytes_in, row->memcpy_seconds), row->max_share,
           row->bound_ok ? "yes" : "NO", row->zeros_kept ? "yes" : "NO");
    fflush(stdout);
}

const char *bench_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
