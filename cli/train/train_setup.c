/* What the training verbs share; see train_setup.h. */
#include "train/train_setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/file_io.h"
#include "kit/number.h"
#include "kit/text.h"
#include "train/figures.h"

bool set_count(void *target, const char *text, reason *why)
{
    return number_u64(text, 1, UINT32_MAX, target, why);
}
bool set_any_count(void *target, const char *text, reason *why)
{
    return number_u64(text, 0, UINT32_MAX, target, why);
}
bool set_queue(void *target, const char *text, reason *why)
{
    *(uint64_t *)target = 0;
    if (strcmp(text, "auto") == 0 || number_u64(text, 1, COMET_LOADER_MAX_QUEUE, target, why))
        return true;
    const reason number = *why;
    return reason_set(why, "%.200s; nor is it 'auto'", number.text);
}
bool set_positive(void *target, const char *text, reason *why)
{
    return number_double(text, 0, 1e6, target, why);
}
bool set_share(void *target, const char *text, reason *why)
{
    return number_double(text, 0, 0.999999, target, why);
}
bool set_u64(void *target, const char *text, reason *why)
{
    return number_u64(text, 0, UINT64_MAX, target, why);
}

bool set_joined(void *target, const char *text, reason *why)
{
    char *joined = target;
    const size_t at = strlen(joined), n = strlen(text);
    if (n == 0)
        return reason_set(why, "the value is empty");
    if (at + n + 2 > GROUPS_BYTES)
        return reason_set(why, "all values together are longer than %d characters", GROUPS_BYTES - 2);
    snprintf(joined + at, GROUPS_BYTES - at, "%s%s", at > 0 ? "," : "", text);
    return true;
}

/* ---- nets ---- */

cli_exit net_read(const char *path, comet_net **net)
{
    blob text;
    const cli_exit code = file_read_small(path, NET_FILE_BYTES, &text);
    if (code != CLI_OK)
        return code;
    const comet_status status = comet_net_read(net, path, (const char *)text.data, text.bytes);
    blob_free(&text);
    if (status == COMET_ERROR_ARGUMENT) /* the sentence begins with file and line */
        return fail(CLI_BAD_INPUT, "%s", comet_last_error());
    return status == COMET_OK ? CLI_OK : fail_status(status, path);
}

cli_exit net_open(const net_args *args, uint32_t channels, uint32_t size, comet_net **net)
{
    if (!args->model && !args->file)
        return fail(CLI_USAGE, "a net is missing: give --model NAME ('comet models' lists them) or --net FILE");
    if (args->model && args->file)
        return fail(CLI_USAGE, "--model and --net cannot both be given");
    if (args->file)
        return net_read(args->file, net);
    const comet_status status = comet_net_zoo(net, args->model, channels, size, (uint32_t)args->classes);
    return status == COMET_OK ? CLI_OK : fail(CLI_USAGE, "%s", comet_last_error());
}

cli_exit net_of_weights(const char *path, comet_net **net)
{
    char *text = NULL;
    comet_status status = comet_weights_net(path, &text);
    if (status == COMET_ERROR_UNSUPPORTED)
        return fail(CLI_USAGE, "%s; give --model or --net", comet_last_error());
    if (status == COMET_OK)
        status = comet_net_read(net, path, text, strlen(text));
    comet_text_free(text);
    return status == COMET_OK ? CLI_OK : fail(CLI_BAD_INPUT, "%s", comet_last_error());
}

cli_exit fail_weights(comet_status status, const char *path, const net_args *args, const comet_net *net)
{
    char sentence[1024];
    uint64_t classes = 0;
    const uint64_t ours = comet_net_shape(net, comet_net_n_values(net) - 1).channels;
    snprintf(sentence, sizeof sentence, "%s", comet_last_error());
    const bool another_net = strstr(sentence, "of another net") != NULL; /* no number of classes makes it fit */
    if (status != COMET_ERROR_CORRUPT || !path || another_net || comet_weights_classes(path, net, &classes) != COMET_OK ||
        classes == ours)
        return fail(exit_of_status(status), "%s", sentence);
    if (args->file)
        return fail(CLI_BAD_INPUT, "%s; change the net in %s to have %" PRIu64 " outputs", sentence, args->file, classes);
    return fail(CLI_BAD_INPUT, "%s; give --classes %" PRIu64, sentence, classes);
}

/* ---- data ---- */

/* Refuses --image and --images for data whose images have a fixed size or number. */
static cli_exit check_wishes(const data_args *args, const comet_dataset_info *info)
{
    if (args->image > 0 && (args->image != info->height || args->image != info->width))
        return fail(CLI_USAGE,
                    "--image %" PRIu64 ": images of %s are %" PRIu32 " x %" PRIu32 "; --image is for folder and synthetic",
                    args->image, args->spec, info->height, info->width);
    if (args->n_images > 0 && strcmp(info->kind, "synthetic") != 0)
        return fail(CLI_USAGE, "--images %" PRIu64 ": %s has images of its own; --images is for synthetic", args->n_images,
                    args->spec);
    return CLI_OK;
}

cli_exit data_open(const data_args *args, const comet_net *net, uint64_t classes, comet_split split, comet_dataset **data)
{
    const comet_shape in = comet_net_shape(net, 0);
    comet_dataset_params params;
    if (!args->spec)
        return fail(CLI_USAGE,
                    "data is missing: give --data fashion, cifar10:DIR, idx:DIR, folder:DIR, npy:X.npy,Y.npy or synthetic");
    comet_dataset_params_init(&params);
    params.split = split;
    params.image = args->image > 0 ? (uint32_t)args->image : in.height;
    params.channels = in.channels;
    params.classes = (uint32_t)classes;
    params.n_images = split == COMET_SPLIT_TRAIN || args->n_images == 0 ? args->n_images : (args->n_images + 4) / 5;
    params.strict = args->strict;
    const comet_status status = comet_dataset_open(data, args->spec, &params);
    if (status != COMET_OK)
        return fail(status == COMET_ERROR_ARGUMENT ? CLI_USAGE
                    : status == COMET_ERROR_MEMORY ? CLI_NO_MEMORY
                                                   : CLI_BAD_INPUT,
                    "%s", comet_last_error());
    const comet_dataset_info info = info_of(*data);
    const cli_exit code = check_wishes(args, &info);
    if (code != CLI_OK) {
        comet_dataset_close(*data);
        *data = NULL;
    }
    return code;
}

/* ---- files ---- */

bool file_in_folder(const char *folder, const char *name, char *path, size_t path_bytes)
{
    return (size_t)snprintf(path, path_bytes, "%s/%s", folder, name) < path_bytes && access(path, F_OK) == 0;
}

/* The newest checkpoint of a run, the one that --resume takes. */
static cli_exit newest_path(const char *folder, char *path, size_t path_bytes)
{
    char *newest = NULL;
    bool previous = false;
    const comet_status status = comet_checkpoint_newest(folder, &newest, &previous);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    if (previous)
        say("the newest checkpoint cannot be used (%s); taking %s", comet_last_error(), newest);
    const bool fits = (size_t)snprintf(path, path_bytes, "%s", newest) < path_bytes;
    comet_text_free(newest);
    return fits ? CLI_OK : fail(CLI_BAD_INPUT, "%s: the name is too long", folder);
}

cli_exit weights_path(const char *what, bool last, char *path, size_t path_bytes)
{
    struct stat status;
    if (stat(what, &status) == 0 && S_ISDIR(status.st_mode))
        return !last && file_in_folder(what, "best.safetensors", path, path_bytes) ? CLI_OK
                                                                                   : newest_path(what, path, path_bytes);
    return (size_t)snprintf(path, path_bytes, "%s", what) < path_bytes ? CLI_OK
                                                                       : fail(CLI_BAD_INPUT, "%s: the name is too long", what);
}

comet_status model_of_weights(const comet_net *net, const char *path, comet_model **model)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = 1;
    params.inference = true;
    const comet_status status = comet_model_create(model, net, &params);
    return status == COMET_OK ? comet_weights_load(*model, path) : status;
}
