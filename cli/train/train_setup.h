/* What the training verbs share: which net, which data, which threads; and their options. */
#ifndef COMET_CLI_TRAIN_SETUP_H
#define COMET_CLI_TRAIN_SETUP_H

#include "base/size_text.h"
#include "comet/ranks.h"
#include "comet/train.h"
#include "kit/setters.h"
#include "kit/text.h"

/* Where the net comes from: a built-in one, or a file in the text format. */
typedef struct net_args {
    const char *model, *file;
    uint64_t classes; /* 0: as many as the data has */
} net_args;

typedef struct data_args {
    const char *spec;
    uint64_t image;    /* side in pixels; 0: the net's own */
    uint64_t n_images; /* synthetic; 0: the data set's default */
    bool strict;
} data_args;

/* Images of a batch, of all ranks together. */
static inline uint64_t batch_of_all(const comet_model_params *model)
{
    return (uint64_t)model->batch * (model->ranks ? model->ranks->n_ranks : 1);
}

/* What is frozen, and rates of layers: texts with commas between their parts, "" where none was given. */
enum { GROUPS_BYTES = 4096 };
typedef struct groups_args {
    char freeze[GROUPS_BYTES], rates[GROUPS_BYTES];
} groups_args;

#define OPTION_FREEZE(type)                                                       \
    {                                                                             \
        0, "freeze", "PATTERN", set_joined, offsetof(type, groups.freeze),        \
            "do not train these: layer1, 'layer1.*', '*,!fc' ...; again for more" \
    }

#define OPTION_MODEL(type)                                                                                   \
    {                                                                                                        \
        0, "model", "NAME", set_text, offsetof(type, net.model), "a built-in net; 'comet models' lists them" \
    }
#define OPTION_NET(type)                                                                                                       \
    {                                                                                                                          \
        0, "net", "FILE", set_text, offsetof(type, net.file), "a net of your own in the text format ('comet help net_format')" \
    }
#define OPTION_CLASSES(type)                                                                                                \
    {                                                                                                                       \
        0, "classes", "N", set_count, offsetof(type, net.classes), "classes of a built-in net (default: those of the data)" \
    }
#define OPTION_DATA(type)                                                     \
    {                                                                         \
        0, "data", "SPEC", set_text, offsetof(type, data.spec),               \
            "fashion, cifar10:DIR, idx:DIR, folder:DIR, npy:X,Y or synthetic" \
    }
#define OPTION_IMAGE(type)                                                       \
    {                                                                            \
        0, "image", "N", set_count, offsetof(type, data.image),                  \
            "pixels on each side, for folder and synthetic (default: the net's)" \
    }
#define OPTION_IMAGES(type)                                                           \
    {                                                                                 \
        0, "images", "N", set_count, offsetof(type, data.n_images),                   \
            "number of synthetic images; a fifth as many for testing (default 50000)" \
    }
#define OPTION_STRICT(type)                                                                                             \
    {                                                                                                                   \
        0, "strict", NULL, set_flag, offsetof(type, data.strict), "stop at a broken image (default: skip and count it)" \
    }

#define OPTION_QUEUE(type)                                                          \
    {                                                                               \
        0, "queue", "N|auto", set_queue, offsetof(type, queue),                     \
            "batches prepared ahead (default auto: as many as spare waits, 1 to 3)" \
    }

bool set_count(void *target, const char *text, reason *why);     /* uint64_t, 1 to 2^32 - 1 */
bool set_any_count(void *target, const char *text, reason *why); /* uint64_t, 0 to 2^32 - 1 */
bool set_queue(void *target, const char *text, reason *why);     /* uint64_t, 1 to 4096; auto: 0 */
bool set_positive(void *target, const char *text, reason *why);  /* double, 0 to 1e6; 0 itself is allowed */
bool set_share(void *target, const char *text, reason *why);     /* double, 0 to below 1 */
bool set_u64(void *target, const char *text, reason *why);       /* uint64_t, any */
bool set_joined(void *target, const char *text, reason *why);    /* char[GROUPS_BYTES]: with a comma after what is there */

/* The net that a file describes. */
cli_exit net_read(const char *path, comet_net **net);

/* The net that args name; channels, size and classes are for a built-in net, 0 for its own. */
cli_exit net_open(const net_args *args, uint32_t channels, uint32_t size, comet_net **net);

/* The net that the file at `path` carries. */
cli_exit net_of_weights(const char *path, comet_net **net);

/* fail_status of a call that read the weights at `path`, if any, into `net`. Where they have another number of classes, the
 * message also says what to do. */
cli_exit fail_weights(comet_status status, const char *path, const net_args *args, const comet_net *net);

/* Opens one part of the data. Images that can have any size get that of `net`. */
cli_exit data_open(const data_args *args, const comet_net *net, uint64_t classes, comet_split split, comet_dataset **data);

/* Is there such a file in the folder? Writes its path. */
bool file_in_folder(const char *folder, const char *name, char *path, size_t path_bytes);

/* `what` itself if it is a file; the best checkpoint of a folder, or the newest undamaged one if there is no best or `last` is
 * set. */
cli_exit weights_path(const char *what, bool last, char *path, size_t path_bytes);

/* A model for evaluation, of one image at a time, with the weights of a file, which are checked against the net. On failure
 * *model may be a model, too, to be destroyed. */
comet_status model_of_weights(const comet_net *net, const char *path, comet_model **model);

#endif
