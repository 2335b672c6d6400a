/* comet decompress: a frame file becomes a .npy, or raw elements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comet/base.h"
#include "kit/text.h"
#include "tensor/frameio.h"
#include "tensor/tensorio.h"
#include "verbs.h"

typedef struct decompress_args {
    const char *output;
    uint64_t n_threads;
    range_arg chunks;
    bool force, raw;
} decompress_args;

#define AT(field) offsetof(decompress_args, field)
static const option options[] = {
    OPTION_OUTPUT(decompress_args, "the tensor (default FRAME without .comet, ending in .npy, or in .raw\n"
                                   "with --raw; - is standard output)"),
    OPTION_THREADS(decompress_args, "threads (default 0: one per core)"),
    {0, "chunks", "FIRST,COUNT", set_range, AT(chunks), "only these chunks, as a 1-D tensor in memory order (default all)"},
    {0, "raw", NULL, set_flag, AT(raw), "bare elements without a .npy header"},
    OPTION_FORCE(decompress_args),
};

/* acts.npy.comet, acts.comet and acts all become acts.npy (or acts.raw). *memory is for free(). */
static cli_exit output_name(const decompress_args *args, const char *input, const char **name, char **memory)
{
    *memory = NULL;
    *name = args->output ? args->output : "-";
    if (args->output || file_is_standard_stream(input))
        return CLI_OK;
    const size_t bytes = strlen(input) + sizeof ".npy";
    *memory = malloc(bytes);
    if (!*memory)
        return fail_memory(bytes);
    size_t stem = strlen(input);
    if (text_ends_with(input, stem, ".comet"))
        stem -= strlen(".comet");
    if (text_ends_with(input, stem, ".npy") && stem < strlen(input))
        stem -= strlen(".npy");
    snprintf(*memory, bytes, "%.*s%s", (int)stem, input, args->raw ? ".raw" : ".npy");
    *name = *memory;
    return CLI_OK;
}

/* What the output holds: the frame's tensor, or a 1-D tensor of the elements of some chunks. */
static comet_tensor output_tensor(const decompress_args *args, const comet_tensor *whole, size_t bytes)
{
    if (!args->chunks.given)
        return *whole;
    comet_tensor row = *whole;
    row.layout = COMET_LAYOUT_PLANAR;
    row.n_dims = 1;
    row.dims[0] = bytes / comet_dtype_bytes(whole->dtype);
    return row;
}

static cli_exit decompress_file(const decompress_args *args, const char *input, const char *output)
{
    loaded_frame frame;
    blob decoded;
    cli_exit code = frame_load(input, &frame);
    if (code != CLI_OK)
        return code;
    const double started = comet_seconds();
    code = frame_decode(&frame, input, (size_t)args->n_threads, args->chunks, &decoded);
    const double seconds = comet_seconds() - started;
    if (code == CLI_OK) {
        const comet_tensor tensor = output_tensor(args, &frame.info.tensor, decoded.bytes);
        code = tensor_save(output, args->force, args->raw, &tensor, decoded.data, decoded.bytes);
        if (code == CLI_OK)
            say("%s -> %s: %zu -> %zu bytes, %.3f s", input, output, frame.file.bytes, decoded.bytes, seconds);
        blob_free(&decoded);
    }
    frame_free(&frame);
    return code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const decompress_args *args = given;
    const char *output = NULL;
    char *memory = NULL;
    (void)n_operands;
    cli_exit code = output_name(args, operands[0], &output, &memory);
    if (code == CLI_OK)
        code = file_check_distinct(operands[0], output);
    if (code == CLI_OK)
        code = file_check_output(output, args->force);
    if (code == CLI_OK)
        code = decompress_file(args, operands[0], output);
    free(memory);
    return code;
}

const verb verb_decompress = {
    .name = "decompress",
    .summary = "Decompress a frame into a .npy file or raw elements",
    .usage = "FRAME [-o OUT] [options]",
    .details = "The .npy has the tensor's shape in memory: N,C,H,W; N,H,W,C for layout nhwc; N,C/16,H,W,16 for\n"
               "nChw16c. bf16 elements are written as their bits, '<u2'.\n",
    .examples = "  comet decompress acts.npy.comet -o back.npy\n"
                "  comet decompress acts.comet --raw -o - | sha256sum\n"
                "  comet decompress acts.comet --chunks 0,4 -o head.npy\n",
    .options = options,
    .n_options = N_ITEMS(options),
    .operands = (const char *const[]){"FRAME, the file to decompress,", NULL},
    .defaults = &(const decompress_args){0},
    .args_bytes = sizeof(decompress_args),
    .run = run,
};
