/* comet import: weights from PyTorch, checked against a net. */
#include <string.h>

#include "kit/file_io.h"
#include "train/train_setup.h"
#include "verbs.h"

#define ENDING ".safetensors" /* of what is written */

typedef struct import_args {
    net_args net;
    uint64_t image;
    const char *output;
    bool force;
} import_args;

static const option options[] = {
    OPTION_MODEL(import_args),
    OPTION_NET(import_args),
    {0, "classes", "N", set_count, offsetof(import_args, net.classes), "classes of a built-in net (default: the net's own)"},
    {0, "image", "N", set_count, offsetof(import_args, image), "pixels on each side (default: the net's own)"},
    OPTION_OUTPUT(import_args, "safetensors file to write; must be given"),
    OPTION_FORCE(import_args),
};

static comet_status convert(const comet_net *net, const char *from, const char *to)
{
    comet_model *model = NULL;
    comet_status status = model_of_weights(net, from, &model);
    if (status == COMET_OK)
        status = comet_weights_save_like(model, to, from);
    comet_model_destroy(model);
    return status;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const import_args *args = given;
    char path[4096];
    comet_net *net = NULL;
    (void)n_operands;
    if (!args->output)
        return fail(CLI_USAGE, "-o FILE is missing");
    const size_t length = strlen(args->output), ending = strlen(ENDING);
    if (length < ending || strcmp(args->output + length - ending, ENDING) != 0)
        return fail(CLI_USAGE, "%s: the name must end in " ENDING, args->output);
    cli_exit code = weights_path(operands[0], false, path, sizeof path);
    if (code == CLI_OK)
        code = file_check_output(args->output, args->force);
    if (code == CLI_OK)
        code = file_check_distinct(path, args->output);
    if (code == CLI_OK)
        code = net_open(&args->net, 0, (uint32_t)args->image, &net);
    if (code == CLI_OK) {
        const comet_status status = convert(net, path, args->output);
        code = status == COMET_OK ? CLI_OK : fail_weights(status, path, &args->net, net);
    }
    if (code == CLI_OK)
        say("%s: all weights of %s are there; use it with 'comet train --weights' or 'comet eval'", args->output,
            comet_net_name(net));
    comet_net_destroy(net);
    return code;
}

const verb verb_import = {
    .name = "import",
    .summary = "Take weights from PyTorch",
    .computes = true,
    .usage = "FILE.pt|FILE.safetensors --model NAME | --net FILE -o OUT.safetensors [options]",
    .details =
        "Reads what torch.save(model.state_dict(), FILE) writes, or a checkpoint that has it under 'state_dict', 'model'\n"
        "or the like, and safetensors. Checks that every tensor of the net is there with its shape, and nothing else, and\n"
        "writes them as float32 together with the net. Pickles are not run: anything in one but tensors, numbers and\n"
        "texts is refused by its name.\n",
    .examples = "  comet import resnet18.pt --model resnet18 -o start.safetensors\n"
                "  comet import mine.safetensors --net mynet.txt -o start.safetensors\n"
                "  comet train --model resnet18 --data folder:DIR --classes 1000 --weights start.safetensors\n",
    .operands = (const char *const[]){"FILE, the weights from PyTorch,", NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const import_args){.image = 0},
    .args_bytes = sizeof(import_args),
    .run = run,
};
