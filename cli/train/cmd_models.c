/* comet models: the built-in nets, and nets written by hand. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "comet/net.h"
#include "kit/json_out.h"
#include "kit/number.h"
#include "kit/setters.h"
#include "train/net_size.h"
#include "train/train_setup.h"
#include "verbs.h"

typedef struct models_args {
    const char *show, *net;
    uint64_t image, channels, classes; /* 0: the net's own */
    bool json;
} models_args;

static bool set_pixels(void *target, const char *text, reason *why)
{
    return number_u64(text, 1, 65536, target, why);
}

static bool set_many(void *target, const char *text, reason *why)
{
    return number_u64(text, 1, 1 << 24, target, why);
}

static const option options[] = {
    {0, "show", "NAME", set_text, offsetof(models_args, show), "print the net in the text format, to save or change it"},
    {0, "net", "FILE", set_text, offsetof(models_args, net), "read a net in the text format and list its layers; - is stdin"},
    {0, "image", "N", set_pixels, offsetof(models_args, image), "images of N x N pixels (default: what the net was made for)"},
    {0, "channels", "N", set_many, offsetof(models_args, channels),
     "images of N channels (default: what the net was made for)"},
    {0, "classes", "N", set_many, offsetof(models_args, classes), "N classes (default: what the net was made for)"},
    OPTION_JSON(models_args, "print one JSON object a line (default: a table)"),
};

/* ---- texts ---- */

enum { SHAPE_TEXT_BYTES = 48 };

static const char *shape_text(comet_shape s, char *text)
{
    if (s.flat)
        snprintf(text, SHAPE_TEXT_BYTES, "%" PRIu32, s.channels);
    else
        snprintf(text, SHAPE_TEXT_BYTES, "%" PRIu32 " x %" PRIu32 " x %" PRIu32, s.channels, s.height, s.width);
    return text;
}

static void json_add_shape(json *j, const char *key, comet_shape s)
{
    json_add_numbers(j, key, (const uint64_t[]){s.channels, s.height, s.width}, s.flat ? 1 : 3);
}

static void json_add_size(json *j, net_size size)
{
    json_add_u64(j, "parameters", size.parameters);
    json_add_u64(j, "multiply_adds", size.multiply_adds);
}

static cli_exit print_net_json(const comet_net *net, const char *summary)
{
    const uint32_t last = comet_net_n_values(net) - 1;
    json j = json_begin();
    json_add_text(&j, "net", comet_net_name(net));
    json_add_shape(&j, "input", comet_net_shape(net, 0));
    json_add_shape(&j, "output", comet_net_shape(net, last));
    json_add_u64(&j, "layers", last);
    json_add_size(&j, whole_size(net));
    if (summary)
        json_add_text(&j, "summary", summary);
    return json_print(&j);
}

/* ---- the list of built-in nets ---- */

static cli_exit build(const models_args *args, const char *name, comet_net **net)
{
    const comet_status status =
        comet_net_zoo(net, name, (uint32_t)args->channels, (uint32_t)args->image, (uint32_t)args->classes);
    if (status == COMET_ERROR_ARGUMENT)
        return fail(CLI_USAGE, "%s", comet_last_error());
    return status == COMET_OK ? CLI_OK : fail_status(status, name);
}

static void print_row(const comet_net *net, const char *summary)
{
    char input[SHAPE_TEXT_BYTES], output[SHAPE_TEXT_BYTES], parameters[COUNT_TEXT_BYTES], multiply_adds[COUNT_TEXT_BYTES];
    const uint32_t last = comet_net_n_values(net) - 1;
    const net_size size = whole_size(net);
    printf("%-16s %-14s %8s %7" PRIu32 " %11s %14s  %s\n", comet_net_name(net), shape_text(comet_net_shape(net, 0), input),
           shape_text(comet_net_shape(net, last), output), last, count_text(size.parameters, parameters),
           count_text(size.multiply_adds, multiply_adds), summary);
}

/* A net that cannot take the given size is left out, with the reason. */
static cli_exit list_built_in(const models_args *args)
{
    cli_exit code = CLI_OK;
    size_t n_listed = 0;
    for (size_t i = 0; code == CLI_OK && comet_zoo_name(i); i++) {
        comet_net *net = NULL;
        const comet_status status =
            comet_net_zoo(&net, comet_zoo_name(i), (uint32_t)args->channels, (uint32_t)args->image, (uint32_t)args->classes);
        if (status == COMET_ERROR_ARGUMENT) {
            say("left out: %s", comet_last_error());
            continue;
        }
        if (status != COMET_OK)
            return fail_status(status, comet_zoo_name(i));
        if (n_listed++ == 0 && !args->json)
            printf("%-16s %-14s %8s %7s %11s %14s  %s\n", "name", "input", "classes", "layers", "parameters", "multiply-adds",
                   "summary");
        if (args->json)
            code = print_net_json(net, comet_zoo_summary(i));
        else
            print_row(net, comet_zoo_summary(i));
        comet_net_destroy(net);
    }
    return code != CLI_OK || n_listed > 0 ? code : fail(CLI_USAGE, "no built-in net takes images of this size");
}

static cli_exit show_built_in(const models_args *args)
{
    comet_net *net = NULL;
    char *text = NULL;
    cli_exit code = build(args, args->show, &net);
    if (code != CLI_OK)
        return code;
    const comet_status status = comet_net_write(net, &text);
    if (status == COMET_OK)
        fputs(text, stdout);
    else
        code = fail_status(status, args->show);
    comet_text_free(text);
    comet_net_destroy(net);
    return code;
}

/* ---- a net from a file ---- */

static int longest_name(const comet_net *net)
{
    size_t longest = strlen("total");
    for (uint32_t v = 0; v < comet_net_n_values(net); v++) {
        const size_t length = strlen(comet_net_layer(net, v)->name);
        longest = length > longest ? length : longest;
    }
    return (int)longest;
}

static void print_layers(const comet_net *net)
{
    const int width = longest_name(net);
    char shape[SHAPE_TEXT_BYTES], parameters[COUNT_TEXT_BYTES], multiply_adds[COUNT_TEXT_BYTES];
    printf("%-*s %-16s %-18s %11s %14s\n", width, "layer", "kind", "output", "parameters", "multiply-adds");
    for (uint32_t v = 0; v < comet_net_n_values(net); v++) {
        const comet_layer *layer = comet_net_layer(net, v);
        const net_size size = layer_size(net, v);
        printf("%-*s %-16s %-18s %11s %14s\n", width, layer->name, comet_op_name(layer->op),
               shape_text(comet_net_shape(net, v), shape), count_text(size.parameters, parameters),
               count_text(size.multiply_adds, multiply_adds));
    }
    const net_size size = whole_size(net);
    printf("%-*s %-16s %-18s %11s %14s\n", width, "total", "", "", count_text(size.parameters, parameters),
           count_text(size.multiply_adds, multiply_adds));
}

static cli_exit print_layers_json(const comet_net *net)
{
    for (uint32_t v = 0; v < comet_net_n_values(net); v++) {
        const comet_layer *layer = comet_net_layer(net, v);
        json j = json_begin();
        json_add_text(&j, "layer", layer->name);
        json_add_text(&j, "kind", comet_op_name(layer->op));
        json_add_shape(&j, "output", comet_net_shape(net, v));
        json_add_size(&j, layer_size(net, v));
        const cli_exit code = json_print(&j);
        if (code != CLI_OK)
            return code;
    }
    return print_net_json(net, NULL);
}

static cli_exit list_layers(const models_args *args)
{
    comet_net *net = NULL;
    cli_exit code = net_read(args->net, &net);
    if (code != CLI_OK)
        return code;
    if (args->json)
        code = print_layers_json(net);
    else
        print_layers(net);
    comet_net_destroy(net);
    return code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const models_args *args = given;
    (void)operands;
    (void)n_operands;
    if (args->show && args->net)
        return fail(CLI_USAGE, "--show and --net exclude each other: --show is for built-in nets, --net for files");
    if (args->net && (args->image > 0 || args->channels > 0 || args->classes > 0))
        return fail(CLI_USAGE, "--image, --channels and --classes are for built-in nets; a file has its own");
    if (args->show && args->json)
        return fail(CLI_USAGE, "--show prints the text format, not JSON");
    if (args->net)
        return list_layers(args);
    return args->show ? show_built_in(args) : list_built_in(args);
}

const verb verb_models = {
    .name = "models",
    .summary = "List the built-in nets, or look at a net of your own",
    .usage = "[--show NAME | --net FILE] [--image N] [--classes N] [--json]",
    .details =
        "Without --show and --net it lists the built-in nets: input, classes, layers, parameters, and the multiply-adds\n"
        "of one image going forward. 'comet help net_format' describes the text format.\n",
    .examples = "  comet models\n"
                "  comet models --image 64 --classes 200\n"
                "  comet models --show resnet20 > mine.net\n"
                "  comet models --net mine.net\n",
    .options = options,
    .n_options = N_ITEMS(options),
    .operands = (const char *const[]){NULL},
    .defaults = &(const models_args){0},
    .args_bytes = sizeof(models_args),
    .run = run,
};
