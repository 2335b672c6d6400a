/*
 * Models in files: weights as safetensors or as torch.save writes them, which are told apart by content, and what a run's
 * checkpoints hold (docs/checkpoints.md).
 *
 *   comet_weights_save, _load      weights and running statistics of a model
 *   comet_weights_load_fitting     those of a file that fit: another number of classes, parts of another net
 *   comet_weights_classes, _net    what a file is for
 *   comet_weights_class_names      what its classes are called
 *   comet_weights_export           a checkpoint's weights in a file of their own
 *   comet_weights_save_onnx        a net with its weights for other programs
 *   comet_checkpoint_newest        the file of a run's folder to take weights from
 *   comet_checkpoint_describe      what the newest checkpoint holds
 *
 * Files are not trusted: everything in them is checked before it is used. COMET_ERROR_IO for files that cannot be opened, read
 * or written, COMET_ERROR_CORRUPT for those that are not what they should be. Any thread, but a model serves one at a time.
 */
#ifndef COMET_WEIGHTS_H
#define COMET_WEIGHTS_H

#include "comet/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights and running statistics as safetensors, written to a temporary file and renamed. */
COMET_API comet_status comet_weights_save(const comet_model *model, const char *path);
/* The same, with the names of classes and the preparation of images that the file `like` carries, if any. */
COMET_API comet_status comet_weights_save_like(const comet_model *model, const char *path, const char *like);

/* Reads them back, or a file that PyTorch wrote. Every weight must be there with its shape (the sentence names the first that
 * is not), nothing else may; `num_batches_tracked` and the optimiser's part of a checkpoint are ignored. Names may begin with
 * what wrappers of PyTorch put before them, "module." and "_orig_mod.". Weights that are not finite are refused. The model is
 * unchanged where the file is refused. */
COMET_API comet_status comet_weights_load(comet_model *model, const char *path);

/* What may differ between a file of weights and the net. */
typedef enum comet_weights_rule {
    COMET_WEIGHTS_ALL = 0,  /* nothing, as comet_weights_load */
    COMET_WEIGHTS_NEW_HEAD, /* the number of classes: the layer that gives the scores begins anew then, and where the file has
                               no such layer */
    COMET_WEIGHTS_PARTIAL,  /* anything, as long as one tensor fits: what is not there with its shape begins anew, and what the
                               net does not have is left out */
} comet_weights_rule;

/* What was loaded. What begins anew keeps what it had: in a new model, first weights from the seed. */
typedef struct comet_weights_fit {
    size_t size;
    uint64_t n_tensors, n_loaded, n_new; /* weights and statistics of the model; n_tensors = n_loaded + n_new */
    uint64_t n_left_out;                 /* tensors of the file that the net does not have */
    uint64_t classes, classes_in_file;   /* scores of the net; those that the file is for, 0: it has no such layer */
    char *summary; /* one line, such as "loaded 120 of 122 tensors; begin anew: fc.weight, fc.bias (10 classes, the file has
                      1000)" */
    char *list;    /* a line, with its end, for each tensor that begins anew or is left out, with both shapes; may be "" */
} comet_weights_fit;
COMET_API void comet_weights_fit_init(comet_weights_fit *fit);
/* Frees both texts; NULL is allowed. */
COMET_API void comet_weights_fit_free(comet_weights_fit *fit);

/* Loads what `rule` allows. *fit (may be NULL) is written on success, and is for comet_weights_fit_free then.
 * COMET_ERROR_CORRUPT, with the first tensor that does not fit or is not finite; the model is unchanged then. */
COMET_API comet_status comet_weights_load_fitting(comet_model *model, const char *path, comet_weights_rule rule,
                                                  comet_weights_fit *fit);

/* The number of classes that the weights in a file are for: outputs of the layer that gives `net` its scores. The rest of the
 * file is not looked at. COMET_ERROR_CORRUPT where it has no weights of such a layer. */
COMET_API comet_status comet_weights_classes(const char *path, const comet_net *net, uint64_t *classes);

/* The net in the text format that a checkpoint or weights file of ours carries; the caller frees it with comet_text_free.
 * COMET_ERROR_UNSUPPORTED for a file without, such as PyTorch's. */
COMET_API comet_status comet_weights_net(const char *path, char **text);

/* Names of the classes that the weights in a file were trained on, in the order of the net's outputs, for
 * comet_class_names_free. *n is 0 and *names NULL where the file has none: data without names, files of other programs and of
 * versions that did not write them. COMET_ERROR_CORRUPT where they cannot be read. */
COMET_API comet_status comet_weights_class_names(const char *path, char ***names, uint32_t *n);
COMET_API void comet_class_names_free(char **names); /* NULL is allowed */

/* Name of the newest checkpoint of a run's folder that is whole, for comet_text_free: last.safetensors or, where that is
 * damaged or missing, previous.safetensors; *previous is then true and comet_last_error says what is wrong with the last. Reads
 * all of the file. COMET_ERROR_IO where the folder has none. */
COMET_API comet_status comet_checkpoint_newest(const char *folder, char **path, bool *previous);

/* What a checkpoint says of its run, as far as that was recorded. */
typedef struct comet_checkpoint_info {
    size_t size;
    uint64_t step, epoch, batch_in_epoch; /* updates and epochs done, batches of the epoch under way */
    uint64_t n_steps;                     /* updates of the whole run */
    uint64_t batch, accumulate;           /* images at once; batches whose gradients are averaged for an update */
    uint64_t seed, n_threads;
    comet_optimiser_kind optimiser;
    double rate, warmup_epochs;     /* of the schedule */
    bool lossy;                     /* are saved activations held within bounds? */
    double noise, sigma;            /* the rule for the bounds, see comet_compression; the other is 0, or both are */
    double best_top1, test_top1;    /* of the best and of the last evaluation, 0 to 1; NaN before the first */
    bool previous;                  /* the newest file is damaged or missing: this is the one before */
    char net[COMET_MAX_LAYER_NAME]; /* the net's name, cut to fit; "" where the file carries no net */
    comet_convolutions convolutions;
    comet_precision precision;
} comet_checkpoint_info;

COMET_API void comet_checkpoint_info_init(comet_checkpoint_info *info);
/* What the newest checkpoint of a run's folder that is whole holds; which that is, comet_checkpoint_newest says. Reads all of
 * the file. COMET_ERROR_IO where the folder has none. */
COMET_API comet_status comet_checkpoint_describe(const char *folder, comet_checkpoint_info *info);

/* The choices of convolutions that such a checkpoint holds, for comet_text_free; NULL: the run has none. COMET_ERROR_CORRUPT
 * where they are not for this net. */
COMET_API comet_status comet_checkpoint_convolutions(const char *folder, const comet_net *net, char **choices);

/* What is frozen and the rates of layers in such a checkpoint, as comet_model_params has them, for comet_text_free; NULL: the
 * run has none. */
COMET_API comet_status comet_checkpoint_groups(const char *folder, char **freeze, char **rates);

/* Copies the weights and statistics of a checkpoint, or of another file of weights, to a file of their own, all or nothing:
 * safetensors, or what plain torch.load reads where the path ends in .pt. */
COMET_API comet_status comet_weights_export(const char *checkpoint, const char *path);

/* The model's net with its weights as an ONNX file, all or nothing: what evaluation computes, for any number of images
 * (docs/checkpoints.md). `from` is the file that the weights were read from, whose names of classes and preparation of images
 * are copied; NULL: none. COMET_ERROR_UNSUPPORTED for 2 GiB of weights or more, COMET_ERROR_DIVERGED for one that is not
 * finite. */
COMET_API comet_status comet_weights_save_onnx(const comet_model *model, const char *from, const char *path);

#ifdef __cplusplus
}
#endif

#endif
