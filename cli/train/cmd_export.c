/* comet export: the weights of a run as a file for PyTorch, or the net with them as ONNX. */
#include <inttypes.h>
#include <string.h>

#include "kit/file_io.h"
#include "kit/text.h"
#include "train/train_setup.h"
#include "verbs.h"

typedef struct export_args {
    net_args net;
    uint64_t image;
    const char *output;
    bool onnx, last, force;
} export_args;

static const option options[] = {
    OPTION_OUTPUT(export_args, "file to write, .safetensors, .pt or .onnx; must be given"),
    {0, "onnx", NULL, set_flag, offsetof(export_args, onnx), "write ONNX, whatever the name ends in"},
    OPTION_MODEL(export_args),
    OPTION_NET(export_args),
    {0, "classes", "N", set_count, offsetof(export_args, net.classes), "classes of a built-in net (default: the net's own)"},
    {0, "image", "N", set_count, offsetof(export_args, image), "pixels on each side of a built-in net (default: its own)"},
    {0, "last", NULL, set_flag, offsetof(export_args, last), "take the last checkpoint of a run folder (default: the best)"},
    OPTION_FORCE(export_args),
};

static bool ends_in(const char *name, const char *ending)
{
    return text_ends_with(name, strlen(name), ending);
}

/* The net with its weights, which are checked against it. */
static comet_status write_onnx(const comet_net *net, const char *from, const char *to)
{
    comet_model *model = NULL;
    comet_status status = model_of_weights(net, from, &model);
    if (status == COMET_OK)
        status = comet_weights_save_onnx(model, from, to);
    comet_model_destroy(model);
    return status;
}

static cli_exit export_onnx(const export_args *args, const char *path)
{
    comet_net *net = NULL;
    const bool has_net = args->net.model || args->net.file;
    cli_exit code = has_net ? net_open(&args->net, 0, (uint32_t)args->image, &net) : net_of_weights(path, &net);
    if (code != CLI_OK)
        return code;
    const comet_status status = write_onnx(net, path, args->output);
    if (status != COMET_OK) {
        code = fail_weights(status, path, &args->net, net);
    } else {
        const comet_shape in = comet_net_shape(net, 0);
        say("%s: %s with the weights of %s, for images of %" PRIu32 " x %" PRIu32 " x %" PRIu32, args->output,
            comet_net_name(net), path, in.channels, in.height, in.width);
    }
    comet_net_destroy(net);
    return code;
}

static cli_exit check_words(const export_args *args)
{
    if (!args->output)
        return fail(CLI_USAGE, "-o FILE is missing");
    const bool onnx = args->onnx || ends_in(args->output, ".onnx");
    if (!onnx && !ends_in(args->output, ".safetensors") && !ends_in(args->output, ".pt"))
        return fail(CLI_USAGE, "%s: the name must end in .safetensors, .pt or .onnx", args->output);
    if (!onnx && (args->net.model || args->net.file || args->net.classes > 0 || args->image > 0))
        return fail(CLI_USAGE, "--model, --net, --classes and --image are for ONNX; weights are written without a net");
    if ((args->net.classes > 0 || args->image > 0) && !args->net.model)
        return fail(CLI_USAGE, "--classes and --image are for a built-in net, given with --model");
    return CLI_OK;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const export_args *args = given;
    char path[4096];
    (void)n_operands;
    cli_exit code = check_words(args);
    if (code == CLI_OK)
        code = weights_path(operands[0], args->last, path, sizeof path);
    if (code == CLI_OK)
        code = file_check_output(args->output, args->force);
    if (code == CLI_OK)
        code = file_check_distinct(path, args->output);
    if (code != CLI_OK)
        return code;
    if (args->onnx || ends_in(args->output, ".onnx"))
        return export_onnx(args, path);
    const comet_status status = comet_weights_export(path, args->output);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    say("%s: the weights of %s", args->output, path);
    return CLI_OK;
}

const verb verb_export = {
    .name = "export",
    .summary = "Write the weights of a run for PyTorch, or a net as ONNX",
    .computes = true,
    .usage = "RUN|WEIGHTS -o FILE.safetensors|FILE.pt|FILE.onnx [options]",
    .details = "Names and shapes are torchvision's: model.load_state_dict(torch.load(\"FILE.pt\")), or with the package\n"
               "safetensors: model.load_state_dict(safetensors.torch.load_file(\"FILE.safetensors\")).\n"
               "ONNX holds the net too, as evaluation computes it: input (batch x channels x height x width, float32,\n"
               "prepared as for training) to scores (batch x classes, before softmax). Weights that name no net need --model\n"
               "or --net.\n",
    .examples = "  comet export runs/a -o resnet20.safetensors\n"
                "  comet export runs/a -o resnet20.onnx\n"
                "  comet export resnet18.pt --model resnet18 -o resnet18.onnx\n"
                "  comet export runs/a --last -o last.pt -f\n"
                "  comet export runs/a/previous.safetensors -o older.safetensors\n",
    .operands = (const char *const[]){"RUN or WEIGHTS, where the weights are,", NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const export_args){.image = 0},
    .args_bytes = sizeof(export_args),
    .run = run,
};
