/* comet export: the weights of a run as a file for PyTorch. */
#include <string.h>

#include "kit/file_io.h"
#include "kit/text.h"
#include "train/train_setup.h"
#include "verbs.h"

typedef struct export_args {
    const char *output;
    bool last, force;
} export_args;

static const option options[] = {
    OPTION_OUTPUT(export_args, "file to write, .safetensors or .pt; must be given"),
    {0, "last", NULL, set_flag, offsetof(export_args, last), "take the last checkpoint of a run folder (default: the best)"},
    OPTION_FORCE(export_args),
};

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const export_args *args = given;
    char path[4096];
    (void)n_operands;
    if (!args->output)
        return fail(CLI_USAGE, "-o FILE is missing");
    if (!text_ends_with(args->output, strlen(args->output), ".safetensors") &&
        !text_ends_with(args->output, strlen(args->output), ".pt"))
        return fail(CLI_USAGE, "%s: the name must end in .safetensors or .pt", args->output);
    cli_exit code = weights_path(operands[0], args->last, path, sizeof path);
    if (code == CLI_OK)
        code = file_check_output(args->output, args->force);
    if (code == CLI_OK)
        code = file_check_distinct(path, args->output);
    if (code != CLI_OK)
        return code;
    const comet_status status = comet_weights_export(path, args->output);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    say("%s: the weights of %s", args->output, path);
    return CLI_OK;
}

const verb verb_export = {
    .name = "export",
    .summary = "Write the weights of a run for PyTorch",
    .usage = "RUN|CHECKPOINT -o FILE.safetensors|FILE.pt [--last] [-f]",
    .details = "Names and shapes are torchvision's: model.load_state_dict(torch.load(\"FILE.pt\")), or with the package\n"
               "safetensors: model.load_state_dict(safetensors.torch.load_file(\"FILE.safetensors\")).\n",
    .examples = "  comet export runs/a -o resnet20.safetensors\n"
                "  comet export runs/a --last -o last.pt -f\n"
                "  comet export runs/a/previous.safetensors -o older.safetensors\n",
    .operands = (const char *const[]){"RUN or CHECKPOINT, where the weights are,", NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const export_args){0},
    .args_bytes = sizeof(export_args),
    .run = run,
};
