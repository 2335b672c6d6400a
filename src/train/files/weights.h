/*
 * The tensors of a model as those of a safetensors file, for weights files and checkpoints alike.
 *
 * Weights and statistics have torch's names; each batch normalisation adds its num_batches_tracked (I64, 0), which torch's
 * load_state_dict asks for. The optimiser's are called optimiser.momentum.NAME and optimiser.second.NAME.
 */
#ifndef COMET_TRAIN_FILES_WEIGHTS_H
#define COMET_TRAIN_FILES_WEIGHTS_H

#include "comet/train.h"
#include "train/files/safetensors.h"

#define WEIGHTS_OPTIMISER_PREFIX "optimiser."

/* A tensor's name without what wrappers of PyTorch put before it: "module." (DataParallel and DDP) and "_orig_mod."
 * (torch.compile), in any order. A pointer into `name`. */
const char *weights_plain_name(const char *name);

/* The tensor called `name`, or else the first whose plain name that is; NULL: the file has none. */
const safetensors_tensor *weights_find(const safetensors_file *file, const char *name);

typedef struct weights_item {
    char name[COMET_MAX_LAYER_NAME + 64];
    size_t index; /* of the model's tensor; SIZE_MAX: a num_batches_tracked */
    comet_tensor_info info;
} weights_item;

typedef struct weights_list {
    const comet_model *model;
    weights_item *items;
    size_t n;
    bool hidden;      /* the momentum serves bounds only: where a file has none, it starts with zeros */
    bool finite_only; /* saving fails at the first element that is not finite, and names it */
} weights_list;

/* The weights and statistics of `model`, with the optimiser's state if asked. The model must outlive the list. */
comet_status weights_list_make(weights_list *list, const comet_model *model, bool optimiser);
void weights_list_free(weights_list *list);

comet_status weights_list_save(weights_list *list, const char *path, const char *keep, const safetensors_pair *metadata,
                               size_t n_metadata);

/* COMET_ERROR_CORRUPT, with the first tensor that is missing, left over or of another shape, where the file is not of this net.
 * The optimiser's tensors may be left over unless the list has them. */
comet_status weights_list_match(const weights_list *list, const safetensors_file *file, const char *path);

/* Reads a file that matches into `model`, which is the list's. */
comet_status weights_list_load(const weights_list *list, comet_model *model, safetensors_file *file);

/* ---- parts of weights_list_match, for files that need not match ---- */

/* The failure of a tensor that is missing (t is NULL), cannot be read or has another shape; COMET_OK where it fits. */
comet_status weights_match_item(const weights_list *list, const weights_item *item, const safetensors_tensor *t,
                                const char *path);
/* Is t of the file read, or at least known to have no weights? */
bool weights_is_expected(const weights_list *list, const safetensors_file *file, const safetensors_tensor *t);
/* The layer whose outputs are the classes' scores: the last with weights, if it has as many as the net; else NULL. */
const comet_layer *weights_classifier(const comet_net *net);
/* Is `name` a tensor of this layer? False for no layer. */
bool weights_is_of_layer(const char *name, const comet_layer *layer);
/* COMET_ERROR_CORRUPT, with its name, where an element of the tensor is not finite. */
comet_status weights_check_finite(const safetensors_file *file, const safetensors_tensor *t, const char *path);
/* Opens a file and reads all of it once. */
comet_status weights_open_verified(safetensors_file **file, const char *path);

#endif
