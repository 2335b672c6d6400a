/*
 * What the tests of the training engine share: nets from text, numbers by a formula that tools/make_train_golden.py has too,
 * and a model with a batch to train it on.
 */
#ifndef COMET_TESTS_TRAINING_H
#define COMET_TESTS_TRAINING_H

#include "comet/ranks.h"
#include "comet/train.h"
#include "testing.h"

/* ---- nets ---- */

/* Fails the test where the text is refused. */
comet_net *net_of(const char *text);

/* The i-th net of tests/train/operators.nets, or NULL past the end. */
comet_net *operator_net(size_t index);
comet_net *operator_net_named(const char *name);
/* Calls check with each of them. */
void for_operator_nets(void (*check)(const comet_net *net));
/* The net has a layer of this kind. */
bool has_layer(const comet_net *net, comet_op op);

/* Made-up images for the net, of 4 classes. */
comet_dataset *data_for(const comet_net *net, uint64_t n_images);
/* A run on one thread. */
comet_train_params run_on(const comet_net *net, comet_dataset *data, uint32_t batch);

/* A copy whose dropout layers drop nothing. */
comet_net *net_without_dropout(const comet_net *net);

/* ---- numbers by formula ---- */

/* Goes in front of every name from now on, for other numbers; copied. */
void formula_salt(const char *salt);
/* Scale of the batch norms that end a bottleneck's branch (NAME.bn3) in formula_weights from now on; 1 at first. */
void formula_residual(double scale);

/* x[i] = offset + bound * u, u uniform in [-1, 1) by a hash of the name and i. The same bits everywhere. */
void formula_fill(const char *name, double offset, double bound, uint64_t n, float *x);
void formula_labels(const char *name, uint32_t classes, uint32_t n, uint32_t *labels);

/* The i-th of the positions at which a tensor of n elements is sampled; the salt does not matter. */
uint64_t formula_position(const char *name, uint32_t i, uint64_t n);

/* Weights of all parameters by the formula: convolutions and linear layers within sqrt(6 / fan_in), batch norm about 1 and 0,
 * running statistics 0 and 1. */
void formula_weights(comet_model *model);

/* ---- a model and its batch ---- */

typedef struct trial {
    comet_model *model;
    uint32_t batch, classes;
    uint64_t n_images; /* floats */
    float *images;
    uint32_t *labels;
} trial;

comet_model_params trial_params(uint32_t batch);
/* BF16 where oneDNN computes in it on this machine, if need be by emulation; else F32. */
comet_precision coarsest_precision(void);
/* Weights, images and labels by the formula; params NULL: a batch of 3. */
trial trial_make(const comet_net *net, const comet_model_params *params);
void trial_free(trial *t);
/* Another batch. */
void trial_batch(trial *t, uint64_t number);
/* The rank's rows of the batch of this number of a trial of all ranks' images. */
void trial_share(trial *t, const comet_ranks *ranks, uint64_t number);
/* The loss; the model has the gradients then. */
double trial_gradients(trial *t, uint64_t step);

/* ---- tensors ---- */

/* Number of a tensor; fails the test if there is none. */
size_t tensor_index(const comet_model *model, comet_tensor_kind kind, const char *name);
/* malloc'd. info may be NULL. */
float *tensor_read(const comet_model *model, size_t index, comet_tensor_info *info);
/* All tensors of a kind one after another, malloc'd. */
float *tensors_read(const comet_model *model, comet_tensor_kind kind, uint64_t *n);

double norm_of(uint64_t n, const float *x);
/* Norm of a - b over the norm of b; 0 if both are zero. */
double relative_distance(uint64_t n, const float *a, const float *b);

#endif
