/* comet compress: a tensor file becomes a frame file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comet/base.h"
#include "kit/json_out.h"
#include "tensor/frameio.h"
#include "tensor/tensorio.h"
#include "verbs.h"

typedef struct compress_args {
    const char *output;
    bound bound;
    comet_level level;
    uint64_t n_threads;
    comet_layout layout;
    comet_profile profile;
    dims_arg dims;
    dtype_arg dtype;
    seed_arg dither;
    double min_ratio; /* negative: not given */
    uint64_t chunk;
    bool force, json, keep_support, checksum;
} compress_args;

#define AT(field) offsetof(compress_args, field)
static const option options[] = {
    OPTION_OUTPUT(compress_args, "the frame (default IN.comet; - is standard output)"),
    {'e', "error", "BOUND", set_bound, AT(bound),
     "0.01 absolute, 1e-3rel of the value range, 0.1std of the standard\n"
     "deviation, lossless, or 12x: the smallest bound found that reaches this ratio"},
    OPTION_LEVEL(compress_args),
    OPTION_THREADS(compress_args, "threads (default 0: one per core); the bytes are the same for any number"),
    OPTION_DIMS(compress_args, "dims of raw elements, slowest first, at most 8"),
    OPTION_DTYPE(compress_args, "f32, f16, bf16 or f64: type of raw elements (default f32);\n"
                                "bf16 also for a .npy that holds bfloat16 bits as '<u2'"),
    {0, "layout", "LAYOUT", set_layout, AT(layout),
     "how the input lies in memory: nchw, nhwc, nChw8c or nChw16c\n"
     "(default nchw)"},
    OPTION_PROFILE(compress_args),
    {0, "keep-support", NULL, set_flag, AT(keep_support), "the output is zero exactly where the input is zero"},
    {0, "dither", "=SEED", set_seed, AT(dither),
     "random rounding: errors do not depend on the data, but zeros\nmay move (default seed 0)"},
    {0, "checksum", NULL, set_flag, AT(checksum), "add a checksum to every chunk, to detect damage (the default)"},
    {0, "no-checksum", NULL, clear_flag, AT(checksum), "leave out the checksums of chunks, which saves a few bytes"},
    {0, "min-ratio", "R", set_ratio, AT(min_ratio),
     "level auto: a chunk is coded fast where fast reaches this ratio\n(default 0: "
     "dense where it saves a fifth or more)"},
    {0, "chunk", "N", set_chunk, AT(chunk),
     "elements in a chunk, 64 to 16777216, for a device to 8192 or,\ndense, 262144 (default: by profile, level and shape)"},
    OPTION_FORCE(compress_args),
    OPTION_JSON(compress_args, "print the result as one JSON object on stdout"),
};

static void fill_params(const compress_args *args, comet_params *params)
{
    comet_params_init(params);
    params->bound_mode = args->bound.mode;
    params->bound = args->bound.value;
    params->level = args->level;
    params->min_ratio = args->min_ratio > 0 ? args->min_ratio : 0;
    params->profile = args->profile;
    params->keep_support = args->keep_support;
    params->dither = args->dither.given;
    params->dither_seed = args->dither.value;
    params->content_checksum = args->checksum;
    params->chunk_elements = args->chunk;
}

/* The name to write to; *memory is for free(). */
static cli_exit output_name(const compress_args *args, const char *input, const char **name, char **memory)
{
    *memory = NULL;
    *name = args->output;
    if (args->output)
        return CLI_OK;
    if (strncmp(input, "gen:", 4) == 0)
        return fail(CLI_USAGE, "a generated input has no file name; name the output with -o");
    *name = "-";
    if (file_is_standard_stream(input))
        return CLI_OK;
    const size_t bytes = strlen(input) + sizeof ".comet";
    *memory = malloc(bytes);
    if (!*memory)
        return fail_memory(bytes);
    snprintf(*memory, bytes, "%s.comet", input);
    *name = *memory;
    return CLI_OK;
}

static void add_stats(json *j, const comet_stats *stats)
{
    json_add_double(j, "eb", stats->eb);
    json_add_u64(j, "bytes_in", stats->bytes_in);
    json_add_u64(j, "bytes_out", stats->bytes_out);
    json_add_double(j, "ratio", stats->ratio);
    json_add_u64(j, "n_elements", stats->n_elements);
    json_add_u64(j, "n_nonzero", stats->n_nonzero);
    json_add_u64(j, "n_nonfinite", stats->n_nonfinite);
    json_add_double(j, "sum_of_squares", stats->sum_of_squares);
    json_add_double(j, "min", stats->min);
    json_add_double(j, "max", stats->max);
    json_add_u64(j, "n_outliers", stats->n_outliers);
    json_add_u64(j, "n_chunks", stats->n_chunks);
    json_add_u64(j, "n_chunks_raw", stats->n_chunks_raw);
    json_add_u64(j, "n_chunks_fast", stats->n_chunks_fast);
    json_add_u64(j, "n_chunks_dense", stats->n_chunks_dense);
    json_add_double(j, "seconds_bound", stats->seconds_bound);
    json_add_double(j, "seconds_quantise", stats->seconds_quantise);
    json_add_double(j, "seconds_predict", stats->seconds_predict);
    json_add_double(j, "seconds_code", stats->seconds_code);
    json_add_double(j, "seconds_total", stats->seconds_total);
}

static cli_exit report(const compress_args *args, const char *input, const char *output, const comet_tensor *tensor,
                       const comet_stats *stats, double seconds)
{
    char eb[40];
    snprintf(eb, sizeof eb, "%.6g", stats->eb);
    say("%s -> %s: %llu -> %llu bytes, ratio %.2f, eb %s, %.3f s", input, output, (unsigned long long)stats->bytes_in,
        (unsigned long long)stats->bytes_out, stats->ratio, stats->eb > 0 ? eb : "0 (lossless)", seconds);
    if (!args->json)
        return CLI_OK;
    json j = json_begin();
    json_add_text(&j, "input", input);
    json_add_text(&j, "output", output);
    json_add_tensor(&j, tensor);
    json_add_text(&j, "level", level_name(args->level));
    json_add_text(&j, "bound", args->bound.text);
    add_stats(&j, stats);
    return json_print(&j);
}

static cli_exit compress_file(const compress_args *args, const char *input, const char *output)
{
    const tensor_request request = {.layout = args->layout, .dims = args->dims, .dtype = args->dtype};
    loaded_tensor loaded;
    comet_params params;
    comet_stats stats;
    blob frame;
    cli_exit code = tensor_load(input, &request, &loaded);
    if (code != CLI_OK)
        return code;
    fill_params(args, &params);
    comet_stats_init(&stats);
    const double started = comet_seconds();
    code = frame_encode(&loaded.tensor, &params, loaded.data, (size_t)args->n_threads, input, &frame, &stats);
    const double seconds = comet_seconds() - started;
    if (code == CLI_OK) {
        const piece whole = {frame.data, frame.bytes};
        code = file_write(output, args->force, &whole, 1);
        blob_free(&frame);
    }
    if (code == CLI_OK)
        code = report(args, input, output, &loaded.tensor, &stats, seconds);
    tensor_free(&loaded);
    return code;
}

static cli_exit check_args(const compress_args *args)
{
    if (args->bound.text[0] == '\0')
        return fail(CLI_USAGE, "-e BOUND is missing: " BOUND_FORMS);
    if (args->min_ratio >= 0 && args->level != COMET_LEVEL_AUTO && args->bound.mode != COMET_BOUND_RATIO)
        return fail(CLI_USAGE, "--min-ratio has no effect without -l auto");
    return CLI_OK;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const compress_args *args = given;
    const char *output = NULL;
    char *memory = NULL;
    (void)n_operands;
    cli_exit code = check_args(args);
    if (code == CLI_OK)
        code = output_name(args, operands[0], &output, &memory);
    if (code == CLI_OK && args->json && file_is_standard_stream(output))
        code = fail(CLI_USAGE, "--json and a frame cannot both go to standard output; name a file with -o");
    if (code == CLI_OK)
        code = file_check_distinct(operands[0], output);
    if (code == CLI_OK)
        code = file_check_output(output, args->force);
    if (code == CLI_OK)
        code = compress_file(args, operands[0], output);
    free(memory);
    return code;
}

const verb verb_compress = {
    .name = "compress",
    .summary = "Compress a tensor within an error bound",
    .usage = "IN -e BOUND [-o OUT] [options]",
    .details = "IN is a .npy file ('<f4', '<f2' or '<f8', C order), raw elements with -d and -t, - for standard\n"
               "input, or a made-up tensor gen:relu:N,C,H,W (gen:bn:, gen:noise:).\n"
               "Dims are always N,C,H,W. With --layout the input already has that order: raw elements as they\n"
               "lie in memory, and a .npy of shape N,H,W,C for nhwc or N,C/16,H,W,16 for nChw16c (give -d N,C,H,W\n"
               "where C is not a multiple of 16).\n",
    .examples = "  comet compress acts.npy -e 0.1std\n"
                "  comet compress acts.npy -e 1e-3 -l dense -o acts.comet --json\n"
                "  comet compress acts.raw -d 8,64,56,56 -t f32 -e 12x\n",
    .options = options,
    .n_options = N_ITEMS(options),
    .operands = (const char *const[]){"IN, the file to compress,", NULL},
    .defaults = &(const compress_args){.min_ratio = -1, .checksum = true},
    .args_bytes = sizeof(compress_args),
    .run = run,
};
