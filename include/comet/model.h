/*
 * A model: a net with weights, an optimiser, and memory for one batch size.
 *
 *   comet_model_plan               what a model would need, before anything is allocated
 *   comet_model_create, _destroy   weights (seeded), gradients and one planned arena
 *   comet_model_gradients          forward and backward of one batch
 *   comet_model_update             one step of the optimiser with those gradients
 *   comet_model_step               both; with fused_update without memory for all gradients
 *   comet_model_evaluate           forward alone, with the running statistics
 *   comet_model_tensor_*           weights, statistics, gradients and optimiser state by number, in torch's layout
 *   comet_model_describe_*         tensors and memory; figures.h has further figures
 *
 * Same seed, data and number of threads: the same bits. A model is used by one thread at a time; different models may be used
 * by different threads. comet_model_describe_* take structs that their init function has prepared; others fail.
 */
#ifndef COMET_MODEL_H
#define COMET_MODEL_H

#include <stdbool.h>

#include "comet/net.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct comet_model comet_model;

/* ---- parameters ---- */

typedef enum comet_optimiser_kind {
    COMET_OPTIMISER_SGD = 0,
    COMET_OPTIMISER_ADAMW = 1,
} comet_optimiser_kind;

/* "sgd" or "adamw"; "unknown" for any other value. */
COMET_API const char *comet_optimiser_name(comet_optimiser_kind kind);

/* How momentum and second moments are held between updates; what rounding adds to the noise of gradients is in docs/theory.md.
 */
typedef enum comet_state_format {
    COMET_STATE_F32 = 0,
    COMET_STATE_BF16,  /* 2 bytes a float */
    COMET_STATE_CODED, /* 17 bytes for 16 floats */
} comet_state_format;

/* "f32", "bf16" or "coded"; "unknown" for any other value. */
COMET_API const char *comet_state_format_name(comet_state_format format);

typedef struct comet_optimiser {
    size_t size;
    comet_optimiser_kind kind;
    float momentum; /* sgd; 0: none, and no memory for it */
    bool nesterov;
    float weight_decay;       /* sgd: added to the gradient, as torch does; adamw: decoupled */
    double beta1, beta2, eps; /* adamw: 0 to below 1, more than 0 */
    float clip_norm;          /* largest norm of the whole gradient; 0: no clipping */
    comet_state_format state; /* other than F32, an update rounds it at random, so that the mean is kept */
} comet_optimiser;
/* SGD with momentum 0.9 and weight decay 5e-4, or AdamW with 0.9, 0.999, 1e-8 and 0.01. */
COMET_API void comet_optimiser_init(comet_optimiser *optimiser, comet_optimiser_kind kind);

typedef enum comet_compress_mode {
    COMET_COMPRESS_OFF = 0,  /* saved activations stay as they are */
    COMET_COMPRESS_LOSSLESS, /* coded bit for bit: the same run as OFF */
    COMET_COMPRESS_FAST,     /* under adaptive bounds, at memory speed */
    COMET_COMPRESS_DENSE,    /* under adaptive bounds, as small as possible */
    COMET_COMPRESS_AUTO,     /* fast or dense for each tensor, within a budget of time */
} comet_compress_mode;
/* "off", "lossless", "fast", "dense" or "auto"; "unknown" for any other value. */
COMET_API const char *comet_compress_mode_name(comet_compress_mode mode);

/* How saved activations are held; docs/theory.md says what the bounds do to gradients. */
typedef struct comet_compression {
    size_t size;
    comet_compress_mode mode;
    double noise;    /* share that errors may add to the variance of a layer's gradient, in the mean over layers: 0.01 */
    double sigma;    /* if above 0, the paper's rule instead: standard deviation of the error in units of mean |momentum| */
    double overhead; /* AUTO: share of a step's time that coding may take: 0.05 */
    uint32_t window; /* steps between assessments once bounds have settled: 1000 */
    bool checksums;  /* of everything held, checked when it is used */
    const char *spill_folder; /* coded activations beyond spill_above go to a file there; NULL: none do */
    uint64_t spill_above;     /* bytes that may be held in memory */
    double planned_ratio;     /* what memory is planned for: raw bytes to coded ones; 0: a cautious guess */
} comet_compression;
/* OFF, with the defaults above. */
COMET_API void comet_compression_init(comet_compression *compression);

/* What computes each pass of a 3 x 3 convolution: Winograd or direct convolution. Results agree within rounding. */
typedef enum comet_convolutions {
    COMET_CONVOLUTIONS_RULE = 0, /* as the shape says */
    COMET_CONVOLUTIONS_TIMED,    /* as convolution_choices says */
    COMET_CONVOLUTIONS_DIRECT,   /* direct alone: slower, with less rounding error */
} comet_convolutions;
/* "rule", "timed" or "direct"; "unknown" for any other value. */
COMET_API const char *comet_convolutions_name(comet_convolutions convolutions);

/* In what numbers layers compute. In bf16, activations and their gradients have 8 bits of mantissa; products are added up in
 * float32, and weights, their gradients, batch statistics, the loss and the optimiser stay float32. */
typedef enum comet_precision {
    COMET_PRECISION_F32 = 0,
    COMET_PRECISION_BF16,
    COMET_PRECISION_AUTO, /* bf16 where the machine has instructions for it */
} comet_precision;
/* "f32", "bf16" or "auto"; "unknown" for any other value. */
COMET_API const char *comet_precision_name(comet_precision precision);

typedef struct comet_model_params {
    size_t size;
    uint32_t batch;
    uint32_t n_threads; /* 0: one per core */
    uint64_t seed;
    float label_smoothing;
    bool inference; /* evaluation only: no gradients, no optimiser, nothing saved */
    comet_convolutions convolutions;
    const char *convolution_choices; /* TIMED: of comet_convolutions_choose, kept by the caller as long as the model. NULL: not
                                        known yet; planned for either, computed as RULE */
    comet_precision precision;
    bool force_precision; /* BF16 also where the machine has no instructions for it, slowly; else COMET_ERROR_UNSUPPORTED */
    bool no_recompute;    /* keep the outputs of BN+ReLU instead of computing them again in backward: faster, more memory */
    bool fused_update;   /* gradients are used up as soon as they are there, by comet_model_step: no memory for all of them. Not
                            with accumulate or clipping */
    uint32_t accumulate; /* batches whose gradients are averaged before an update, at most 65536; 0 or 1: none */
    comet_optimiser optimiser;
    comet_compression compression;
    const char *freeze; /* patterns of what is not trained, "conv1,layer1.*,!*.bias"; NULL: all is. docs/training.md */
    const char *rates;  /* "fc=10x,layer4=0.001": times the run's rate, or a rate; NULL: none. Both are kept by the caller */
    double rate_base;   /* the run's rate, for rates that are not factors; comet_train_run sets it */
    const struct comet_ranks *ranks; /* processes that train this model together, comet/ranks.h; `batch` is this one's share.
                                        NULL: it trains alone. Kept by the caller */
    bool sync_batch_norm;            /* with ranks: batch norms take the statistics of all ranks' images, not of their own */
    bool shard_optimiser;            /* with ranks: each keeps and updates its part of the optimiser's state */
} comet_model_params;
/* Batch 1, seed 0, SGD, no compression. */
COMET_API void comet_model_params_init(comet_model_params *params);

/* ---- memory ---- */

/* Bytes, by what they are for. Everything a model allocates is in here, except the code that oneDNN generates. */
typedef struct comet_memory {
    size_t size;
    uint64_t weights, gradients, optimiser;
    uint64_t saved_reference; /* every distinct tensor backward needs: inputs of layers, activation outputs, indices */
    uint64_t saved;           /* what this model holds at the peak; planned, then measured once a step has run */
    uint64_t transient;       /* the rest of the arena: tensors and gradients of the layer at work */
    uint64_t scratch;         /* the largest part of `transient` that is scratchpads and reordered weights */
    uint64_t assessing;       /* samples by which errors are measured, beside coded tensors */
    uint64_t total;           /* at the peak: coded tensors, transients and samples are largest at different times */
    uint64_t saved_raw;       /* the tensors that are saved, raw: saved_reference without what backward computes again or does
                               * without.       OFF and LOSSLESS do without fewer */
    uint64_t messages;        /* with ranks: buffers of what they tell each other */
} comet_memory;
COMET_API void comet_memory_init(comet_memory *memory);
/* What comet_model_create would allocate, in *memory. Allocates no tensors, but oneDNN prepares and keeps its kernels.
 * COMET_ERROR_ARGUMENT for parameters out of range, COMET_ERROR_OVERFLOW or _MEMORY for sizes beyond any machine. */
COMET_API comet_status comet_model_plan(const comet_net *net, const comet_model_params *params, comet_memory *memory);

/* ---- creating and running ---- */

/* Allocates and initialises from the seed. The net is copied. The caller destroys the model. COMET_ERROR_MEMORY says what it
 * would need. */
COMET_API comet_status comet_model_create(comet_model **model, const comet_net *net, const comet_model_params *params);
COMET_API void comet_model_destroy(comet_model *model); /* NULL is allowed */

/* F32 or BF16. */
COMET_API comet_precision comet_model_precision(const comet_model *model);
/* The model's copy of its net, valid as long as the model; the images of a batch. */
COMET_API const comet_net *comet_model_net(const comet_model *model);
COMET_API uint32_t comet_model_batch(const comet_model *model);

typedef struct comet_scores {
    double loss;                      /* mean over the valid rows */
    uint32_t n_valid, n_top1, n_top5; /* rows whose label is the highest score, among the five highest */
} comet_scores;

/* Forward and backward of one batch, in training mode: running statistics move, gradients are set (or added up, see
 * accumulate). `step` counts from 0 and chooses the dropout masks. images: batch x C x H x W; labels: the class of each image,
 * 0 to the number of the net's outputs - 1. Any other is COMET_ERROR_ARGUMENT, with its row in the sentence: statistics have
 * moved then, but neither gradients nor *scores are written. Where the loss is not finite the call succeeds, gradients are not
 * computed, and comet_model_first_bad names the layer. */
COMET_API comet_status comet_model_gradients(comet_model *model, const float *images, const uint32_t *labels, uint64_t step,
                                             comet_scores *scores);
/* One step of the optimiser; `step` from 0 is for AdamW's correction. */
COMET_API comet_status comet_model_update(comet_model *model, double rate, uint64_t step);
/* Both at once; with fused_update the only way. Where the loss is not finite nothing is updated. If it fails half way, weights
 * may be a mixture of old and new. */
COMET_API comet_status comet_model_step(comet_model *model, const float *images, const uint32_t *labels, uint64_t step,
                                        double rate, comet_scores *scores);

/* Forward with running statistics and no dropout. Rows from n_valid on are not counted; where there are none before it, nothing
 * is computed and all scores are 0. */
COMET_API comet_status comet_model_evaluate(comet_model *model, const float *images, const uint32_t *labels, uint32_t n_valid,
                                            comet_scores *scores);
/* The class scores of the last call, batch x classes; valid until the next. */
COMET_API const float *comet_model_outputs(const comet_model *model);
/* Runs `images` forward layer by layer and gives the name of the first layer whose output is not finite, or NULL if all are. */
COMET_API const char *comet_model_first_bad(comet_model *model, const float *images, uint64_t step);

/* Frozen batch norms take over the statistics of these images: for models without trained weights. */
COMET_API comet_status comet_model_calibrate(comet_model *model, const float *images);

/* No assessments until it is called with false: for measurements, and where gradients are known to change little. A loss spike
 * withdraws bounds all the same. Not part of checkpoints; loading one ends it. */
COMET_API void comet_model_hold_bounds(comet_model *model, bool hold);

/* Writes every saved activation of the next step as DIR/<layer>_<what>.npy, in the order N C H W. NULL: no longer. */
COMET_API comet_status comet_model_dump(comet_model *model, const char *folder);

/* ---- tensors of a model, by number, in torch's layout ---- */

typedef enum comet_tensor_kind {
    COMET_TENSOR_WEIGHT = 0,    /* learnt: "conv1.weight" */
    COMET_TENSOR_STATISTIC,     /* "bn1.running_mean" */
    COMET_TENSOR_MOMENTUM,      /* of the weight of the same name; AdamW's first moment */
    COMET_TENSOR_SECOND_MOMENT, /* of the weight of the same name; AdamW */
    COMET_TENSOR_GRADIENT,      /* as the two before it, only of weights that are trained */
} comet_tensor_kind;

typedef struct comet_tensor_info {
    size_t size;
    char name[COMET_MAX_LAYER_NAME + 16]; /* torch's, without the kind */
    comet_tensor_kind kind;
    uint32_t n_dims;
    uint64_t dims[4];
    uint64_t n_elements;
} comet_tensor_info;
COMET_API void comet_tensor_info_init(comet_tensor_info *info);
/* How many tensors there are. From that number on the calls below return COMET_ERROR_ARGUMENT. */
COMET_API size_t comet_model_n_tensors(const comet_model *model);
COMET_API comet_status comet_model_describe_tensor(const comet_model *model, size_t index, comet_tensor_info *info);
/* Copies n_elements floats out or in. */
COMET_API comet_status comet_model_tensor_read(const comet_model *model, size_t index, float *elements);
COMET_API comet_status comet_model_tensor_write(comet_model *model, size_t index, const float *elements);

/* ---- figures ---- */

/* Planned before the first step, measured after it. */
COMET_API comet_status comet_model_describe_memory(const comet_model *model, comet_memory *memory);

#ifdef __cplusplus
}
#endif

#endif
