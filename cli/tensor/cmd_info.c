/* comet info: what a frame's header says, without decoding it. */
#include <inttypes.h>
#include <stdio.h>

#include "kit/json_out.h"
#include "kit/text.h"
#include "tensor/frameio.h"
#include "tensor/tensorio.h"
#include "verbs.h"

typedef struct info_args {
    bool json;
} info_args;

static const option options[] = {OPTION_JSON(info_args, "print one JSON object (default: lines to read)")};

static double ratio_of(const comet_frame_info *info)
{
    return info->frame_bytes > 0 ? (double)info->tensor_bytes / (double)info->frame_bytes : 0;
}

static void print_lines(const char *path, const comet_frame_info *info)
{
    char dims[DIMS_TEXT_BYTES], shown[PRINTABLE_BYTES];
    printf("file          %s\n", text_printable(path, shown, sizeof shown));
    printf("format        %" PRIu32 "\n", info->version);
    printf("dims          %s\n", dims_text(info->tensor.n_dims, info->tensor.dims, " x ", dims));
    printf("type          %s\n", dtype_name(info->tensor.dtype));
    printf("layout        %s\n", layout_name(info->tensor.layout));
    if (info->lossless)
        printf("bound         lossless\n");
    else
        printf("bound         %.9g\n", info->eb);
    printf("level         %s\n", level_name(info->level));
    printf("profile       %s\n", profile_name(info->profile));
    printf("keep support  %s\n", info->keep_support ? "yes" : "no");
    if (info->dither)
        printf("dither        seed %" PRIu64 "\n", info->dither_seed);
    else
        printf("dither        no\n");
    printf("checksum      %s\n", info->content_checksum ? "header and chunks" : "header only");
    printf("tensor bytes  %" PRIu64 "\n", info->tensor_bytes);
    printf("frame bytes   %" PRIu64 ", %" PRIu64 " of them header and index\n", info->frame_bytes, info->header_bytes);
    printf("ratio         %.3f\n", ratio_of(info));
    printf("chunks        %" PRIu64 " of %" PRIu64 " elements\n", info->n_chunks, info->chunk_elements);
}

static cli_exit print_json(const char *path, const comet_frame_info *info)
{
    json j = json_begin();
    json_add_text(&j, "file", path);
    json_add_u64(&j, "version", info->version);
    json_add_tensor(&j, &info->tensor);
    json_add_double(&j, "eb", info->eb);
    json_add_bool(&j, "lossless", info->lossless);
    json_add_text(&j, "level", level_name(info->level));
    json_add_text(&j, "profile", profile_name(info->profile));
    json_add_bool(&j, "keep_support", info->keep_support);
    json_add_bool(&j, "dither", info->dither);
    json_add_u64(&j, "dither_seed", info->dither_seed);
    json_add_bool(&j, "content_checksum", info->content_checksum);
    json_add_u64(&j, "n_elements", info->n_elements);
    json_add_u64(&j, "tensor_bytes", info->tensor_bytes);
    json_add_u64(&j, "frame_bytes", info->frame_bytes);
    json_add_double(&j, "ratio", ratio_of(info));
    json_add_u64(&j, "chunk_elements", info->chunk_elements);
    json_add_u64(&j, "n_chunks", info->n_chunks);
    json_add_u64(&j, "header_bytes", info->header_bytes);
    return json_print(&j);
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const info_args *args = given;
    loaded_frame frame;
    (void)n_operands;
    cli_exit code = frame_load(operands[0], &frame);
    if (code != CLI_OK)
        return code;
    if (args->json)
        code = print_json(operands[0], &frame.info);
    else
        print_lines(operands[0], &frame.info);
    frame_free(&frame);
    return code;
}

const verb verb_info = {
    .name = "info",
    .summary = "Show what a frame's header says",
    .usage = "FRAME [--json]",
    .details = "",
    .examples = "  comet info acts.comet\n"
                "  comet info acts.comet --json\n"
                "  comet compress acts.npy -e 0.1std -o - | comet info -\n",
    .options = options,
    .n_options = N_ITEMS(options),
    .operands = (const char *const[]){"FRAME, the file to describe,", NULL},
    .defaults = &(const info_args){0},
    .args_bytes = sizeof(info_args),
    .run = run,
};
