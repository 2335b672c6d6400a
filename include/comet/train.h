/*
 * Training: a net with weights and memory for one batch size, optimisers, schedules, checkpoints, and the whole run.
 *
 *   comet_model_plan               what a model would need, before anything is allocated
 *   comet_model_create, _destroy   weights (seeded), gradients and one planned arena
 *   comet_model_gradients          forward and backward of one batch
 *   comet_model_update             one step of the optimiser with those gradients
 *   comet_model_step               both, if wanted without memory for the gradients
 *   comet_model_evaluate           forward alone, with the running statistics
 *   comet_model_tensor_*           weights, statistics, gradients and optimiser state by name, in torch's layout
 *   comet_schedule_rate            learning rate of a step
 *   comet_weights_save, _load ...  safetensors that PyTorch reads and writes
 *   comet_checkpoint_newest        the file of a run's folder to take weights from
 *   comet_train_run                epochs, evaluation, checkpoints, resuming
 *
 * Same seed, data and number of threads: the same bits. A model is used by one thread at a time.
 */
#ifndef COMET_TRAIN_H
#define COMET_TRAIN_H

#include <signal.h>
#include <stdbool.h>

#include "comet/data.h"
#include "comet/net.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct comet_model comet_model;

/* ---- a model ---- */

typedef enum comet_optimiser_kind {
    COMET_OPTIMISER_SGD = 0,
    COMET_OPTIMISER_ADAMW = 1,
} comet_optimiser_kind;

typedef struct comet_optimiser {
    size_t size;
    comet_optimiser_kind kind;
    float momentum; /* sgd; 0: none, and no memory for it */
    bool nesterov;
    float weight_decay;       /* sgd: added to the gradient, as torch does; adamw: decoupled */
    double beta1, beta2, eps; /* adamw: 0 to below 1, more than 0 */
    float clip_norm;          /* largest norm of the whole gradient; 0: no clipping */
} comet_optimiser;

/* SGD with momentum 0.9 and weight decay 5e-4, or AdamW with 0.9, 0.999, 1e-8 and 0.01. */
COMET_API void comet_optimiser_init(comet_optimiser *optimiser, comet_optimiser_kind kind);

typedef enum comet_compress_mode {
    COMET_COMPRESS_OFF = 0,  /* saved activations stay as they are */
    COMET_COMPRESS_LOSSLESS, /* coded bit for bit: the same run as OFF */
    COMET_COMPRESS_FAST,     /* under adaptive bounds, at memory speed */
    COMET_COMPRESS_DENSE,    /* likewise, as small as possible */
    COMET_COMPRESS_AUTO,     /* fast or dense for each tensor, within a budget of time */
} comet_compress_mode;

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

typedef struct comet_model_params {
    size_t size;
    uint32_t batch;
    uint32_t n_threads; /* 0: one per core */
    uint64_t seed;
    float label_smoothing;
    bool inference;      /* evaluation only: no gradients, no optimiser, nothing saved */
    bool no_winograd;    /* keep to direct convolution: slower, rounding a little smaller */
    bool no_recompute;   /* keep the outputs of BN+ReLU instead of computing them again in backward: faster, more memory */
    bool fused_update;   /* gradients are used up as soon as they are there, by comet_model_step: no memory for all of them. Not
                            with accumulate or clipping */
    uint32_t accumulate; /* batches whose gradients are averaged before an update, at most 65536; 0 or 1: none */
    comet_optimiser optimiser;
    comet_compression compression;
} comet_model_params;

COMET_API void comet_model_params_init(comet_model_params *params);

/* Bytes, by what they are for. Everything a model allocates is in here, except the code that oneDNN generates. */
typedef struct comet_memory {
    uint64_t weights, gradients, optimiser;
    uint64_t
        saved_reference; /* every distinct tensor backward needs: conv, linear and BN inputs, activation outputs, indices */
    uint64_t saved;      /* what this model holds at the peak */
    uint64_t transient;  /* the rest of the arena: tensors and gradients of the layer at work */
    uint64_t scratch;    /* the largest part of `transient` that is scratchpads and reordered weights */
    uint64_t assessing;  /* samples by which errors are measured, in room that coded tensors of the first steps took */
    uint64_t total;      /* at the peak: coded tensors, transients and samples are largest at different times */
} comet_memory;

/* One line of the table: what forward leaves for backward, by layer. */
typedef struct comet_saved_line {
    const char *layer; /* valid as long as the model */
    const char *what;  /* "conv input", "bn input", "relu mask", "pool indices", ... */
    uint64_t bytes;
    bool recomputed; /* not held: backward computes it again, or does without */
} comet_saved_line;

/* What comet_model_create would allocate. */
COMET_API comet_status comet_model_plan(const comet_net *net, const comet_model_params *params, comet_memory *memory);

/* Allocates and initialises from the seed. The net is copied. COMET_ERROR_MEMORY says what it would need. */
COMET_API comet_status comet_model_create(comet_model **model, const comet_net *net, const comet_model_params *params);
COMET_API void comet_model_destroy(comet_model *model);

COMET_API comet_memory comet_model_memory(const comet_model *model);
/* The i-th line, or false past the end. */
COMET_API bool comet_model_saved_line(const comet_model *model, size_t index, comet_saved_line *line);

/* What compression has done so far. */
typedef struct comet_compression_figures {
    comet_compress_mode mode;
    double ratio;                            /* saved_reference / saved, at the peak of the last step */
    double conv_ratio;                       /* raw bytes of convolution and linear inputs to what stands for them */
    double codec_seconds;                    /* of all steps, by the clock (work of all threads / threads) */
    double sigma_ratio_min, sigma_ratio_max; /* of the layers, see comet_assessment_line; the smallest of those at_limit. NaN:
                                                none */
    uint64_t spilled_bytes;                  /* most at once */
    uint64_t n_assessments;
    uint64_t n_withdrawals;      /* of all bounds, by this process: a loss spike, or values that are not finite */
    uint64_t n_nonfinite;        /* values that were stored as they are because they were not finite, in the last step */
    const char *nonfinite_layer; /* whose are the first of them; NULL: there are none. Valid as long as the model */
} comet_compression_figures;

COMET_API comet_compression_figures comet_model_compression(const comet_model *model);

/* No assessments until it is called with false: for measurements, and where gradients are known to change little. A loss spike
 * withdraws bounds all the same. Not part of checkpoints; loading one ends it. */
COMET_API void comet_model_hold_bounds(comet_model *model, bool hold);

/* One tensor and one consumer of it, as of the last assessment. */
typedef struct comet_assessment_line {
    const char *layer;                   /* the consumer's; valid as long as the model */
    const char *what;                    /* "conv input", "bn output", ... */
    double eb;                           /* absolute bound; 0: exact */
    double eb_cut;                       /* likewise of what a relu behind a batch norm cut off; else eb */
    double nonzero;                      /* share R of elements that are not zero */
    double sigma_target, sigma_measured; /* per weight, over the assessment's steps as sigma_ratio; NaN: the consumer has none,
                                            or it was not measured */
    bool at_limit;                       /* measured, with the bound that this consumer sets; others have less by right */
    double sigma_ratio; /* measured to target, root mean square (rule sigma: mean) over the last assessments with the same
                           at_limit, a fading mean of 60 or so measured steps; NaN: a weight of less than 30 of them, or not
                           measured in this assessment */
    const char *level, *predictor; /* "fast", "none" ... */
    uint64_t bytes_raw, bytes;     /* of the tensor, raw and held */
} comet_assessment_line;

/* The i-th line, or false past the end. */
COMET_API bool comet_model_assessment_line(const comet_model *model, size_t index, comet_assessment_line *line);

/* Writes every saved activation of the next step as DIR/<layer>_<what>.npy, in the order N C H W. NULL: no longer. */
COMET_API comet_status comet_model_dump(comet_model *model, const char *folder);

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

/* Forward with running statistics and no dropout. Rows from n_valid on are not counted. */
COMET_API comet_status comet_model_evaluate(comet_model *model, const float *images, const uint32_t *labels, uint32_t n_valid,
                                            comet_scores *scores);

/* The class scores of the last call, batch x classes; valid until the next. */
COMET_API const float *comet_model_outputs(const comet_model *model);

/* Runs `images` forward layer by layer and gives the name of the first layer whose output is not finite, or NULL if all are. */
COMET_API const char *comet_model_first_bad(comet_model *model, const float *images, uint64_t step);

/* ---- tensors of a model, by number, in torch's layout ---- */

typedef enum comet_tensor_kind {
    COMET_TENSOR_WEIGHT = 0, /* learnt: "conv1.weight" */
    COMET_TENSOR_STATISTIC,  /* "bn1.running_mean" */
    COMET_TENSOR_MOMENTUM,   /* of the weight of the same name; AdamW's first moment */
    COMET_TENSOR_SECOND,     /* AdamW's second moment */
    COMET_TENSOR_GRADIENT,
} comet_tensor_kind;

typedef struct comet_tensor_info {
    char name[COMET_MAX_LAYER_NAME + 16]; /* torch's, without the kind */
    comet_tensor_kind kind;
    uint32_t n_dims;
    uint64_t dims[4];
    uint64_t n_elements;
} comet_tensor_info;

COMET_API size_t comet_model_n_tensors(const comet_model *model);
COMET_API comet_status comet_model_tensor_info(const comet_model *model, size_t index, comet_tensor_info *info);
/* Copies n_elements floats out or in. */
COMET_API comet_status comet_model_tensor_read(const comet_model *model, size_t index, float *elements);
COMET_API comet_status comet_model_tensor_write(comet_model *model, size_t index, const float *elements);

/* ---- learning rates ---- */

typedef enum comet_schedule_kind {
    COMET_SCHEDULE_CONSTANT = 0,
    COMET_SCHEDULE_STEP,     /* times `factor` every `every` epochs */
    COMET_SCHEDULE_COSINE,   /* to final_share of the rate at the end */
    COMET_SCHEDULE_ONECYCLE, /* torch's OneCycleLR: up from 1/25 in the first 30 %, down to 1/250000, cosine both ways;
                              * momentum is not cycled */
} comet_schedule_kind;

typedef struct comet_schedule {
    size_t size;
    comet_schedule_kind kind;
    double rate;          /* the largest */
    double warmup_epochs; /* linear: the n-th step of w has n / w of the rate; not for onecycle */
    double factor, every; /* step: 0 to 1, 0.1 at first; more than 0, 30 at first */
    double final_share;   /* cosine: 0 to 1, 0 at first */
} comet_schedule;

COMET_API void comet_schedule_init(comet_schedule *schedule, comet_schedule_kind kind, double rate);
/* Rate of `step` (from 0) out of n_steps, with steps_per_epoch. */
COMET_API double comet_schedule_rate(const comet_schedule *schedule, uint64_t step, uint64_t n_steps, uint64_t steps_per_epoch);

/* The largest rate of a run that was given none: SGD 0.1 x images / 256, at most 0.4, or 0.05 for nets without batch norm;
 * AdamW 0.001 x sqrt(images / 256), at most 0.002. Nets with depthwise convolutions have a third of SGD's; runs of n_steps
 * below 100 have n_steps / 100 of all that. */
COMET_API double comet_default_rate(const comet_net *net, comet_optimiser_kind optimiser, uint64_t images_per_update,
                                    uint64_t n_steps);

/* ---- weights in files ---- */

/* Weights and running statistics as safetensors, written to a temporary file and renamed. */
COMET_API comet_status comet_weights_save(const comet_model *model, const char *path);

/* Reads them back, or a file that PyTorch wrote. Every weight must be there with its shape (the sentence names the first that
 * is not), nothing else may; `num_batches_tracked` and the optimiser's part of a checkpoint are ignored. The model is unchanged
 * where the file is refused. */
COMET_API comet_status comet_weights_load(comet_model *model, const char *path);

/* The number of classes that the weights in a file are for: outputs of the layer that gives `net` its scores. The rest of the
 * file is not looked at. COMET_ERROR_CORRUPT where it has no weights of such a layer. */
COMET_API comet_status comet_weights_classes(const char *path, const comet_net *net, uint64_t *classes);

/* The net in the text format that a checkpoint or weights file of ours carries; the caller frees it with comet_text_free.
 * COMET_ERROR_UNSUPPORTED for a file without, such as PyTorch's. */
COMET_API comet_status comet_weights_net(const char *path, char **text);

/* Name of the newest checkpoint of a run's folder that is whole, for comet_text_free: last.safetensors or, where that is
 * damaged or missing, previous.safetensors; *previous is then true and comet_last_error says what is wrong with the last. Reads
 * all of the file. COMET_ERROR_IO where the folder has none. */
COMET_API comet_status comet_checkpoint_newest(const char *folder, char **path, bool *previous);

/* What a checkpoint says of its run. */
typedef struct comet_checkpoint_info {
    uint64_t step, epoch; /* updates and epochs done */
    uint64_t batch;
    double rate, warmup_epochs; /* of the schedule */
} comet_checkpoint_info;

/* The same of the newest checkpoint that is whole, as comet_checkpoint_newest finds it. */
COMET_API comet_status comet_checkpoint_describe(const char *folder, comet_checkpoint_info *info);

/* Copies the weights and statistics of a checkpoint to a file of their own, all or nothing: safetensors, or what plain
 * torch.load reads where the path ends in .pt. */
COMET_API comet_status comet_weights_export(const char *checkpoint, const char *path);

/* ---- a whole run ---- */

typedef enum comet_event_kind {
    COMET_EVENT_START,      /* memory is known, nothing computed */
    COMET_EVENT_STEP,       /* after each update */
    COMET_EVENT_EPOCH,      /* after evaluation */
    COMET_EVENT_CHECKPOINT, /* written; or not, then `text` says why */
    COMET_EVENT_ASSESS,     /* bounds were assessed in this step: see comet_model_assessment_line */
    COMET_EVENT_NOTE,       /* `text` is a sentence for the user: images skipped, an older checkpoint used, early stop ... */
    COMET_EVENT_END,
    COMET_EVENT_RATE, /* an update of comet_rate_find: its step, rate and train_loss; the fields of a run are not set */
} comet_event_kind;

typedef struct comet_train_event {
    comet_event_kind kind;
    const char *text; /* or NULL */
    const comet_model *model;
    uint64_t step, n_steps;                            /* updates done, and in the whole run */
    uint64_t epoch, n_epochs;                          /* epochs done, and begun by the end of the run */
    double rate;                                       /* of the last update */
    double train_loss, train_top1;                     /* step: of that step; epoch: means over the epoch. Shares from 0 to 1 */
    double test_loss, test_top1, test_top5, best_top1; /* epoch and end */
    double seconds;                                    /* since the run (or its resumption) began */
    double train_seconds;                              /* of them, training alone: evaluation and saving do not count */
    double images_per_s;                               /* in train_seconds */
    double wait_share;                                 /* of training time spent waiting for the loader */
    uint64_t n_skipped;                                /* broken images of the training part */
    uint64_t n_test_skipped;                           /* broken images of the last evaluation */
    double start_loss;                                 /* training loss of the first 10 updates, a mean; NaN: not known yet */
    double lowest_loss;                                /* lowest fading mean over 10 updates since then; NaN: not known yet */
    uint64_t data_bytes;                               /* loaders' queues and data sets that are held in memory */
    uint64_t peak_rss_bytes;
    bool checkpoint_ok;
    bool finished; /* start: nothing is left to do */
} comet_train_event;

typedef struct comet_train_params {
    size_t size;
    const comet_net *net;
    comet_dataset *train_data, *test_data; /* test_data may be NULL */
    comet_model_params model;
    comet_schedule schedule;
    uint32_t epochs;
    uint64_t max_steps; /* stop after so many updates; 0: epochs decide */
    bool no_augment;
    uint32_t loader_threads;
    const char *out;     /* folder for checkpoints, created if missing; NULL: none are written */
    bool resume;         /* go on from the newest good checkpoint in `out`, if there is one */
    const char *weights; /* safetensors to begin from, or NULL */
    uint64_t save_steps; /* a checkpoint every so many updates, besides one each epoch; 0: none */
    uint32_t patience;   /* early stop after so many epochs without a better top-1; 0: never */
    const char *dump;    /* folder for the saved activations of one step, see comet_model_dump; NULL: none */
    uint64_t dump_step;  /* which, from 1; the first of this run where that one is over already */
    void (*event)(void *user, const comet_train_event *event); /* may be NULL */
    void *user;
    const volatile sig_atomic_t *stop; /* set by a signal handler: finish the step, save, leave. May be NULL */
} comet_train_params;

/* SGD, one-cycle at rate 0.1, 10 epochs, batch 128. comet_default_rate tells a rate that suits net and batch. */
COMET_API void comet_train_params_init(comet_train_params *params);

typedef struct comet_train_result {
    comet_train_event last; /* as given to the end event; its model pointer is NULL */
    comet_memory memory;
    bool stopped; /* by the stop flag, before the last step */
    bool unsaved; /* checkpoints were asked for, and that of the last step could not be written */
    /* True only of runs that ended after 50 updates or more: */
    bool never_fell;   /* lowest_loss is not below start_loss */
    bool only_guesses; /* lowest_loss is not below log(classes), the loss of a guess */
} comet_train_result;

/* Runs to the end, or until stopped. A checkpoint (docs/checkpoints.md) holds weights, statistics, optimiser, step and position
 * in the data; going on from it gives the same bits as never having stopped. COMET_ERROR_DIVERGED where the loss is no longer
 * finite: the sentence says at which step and layer it began, and the last good checkpoint stays. */
COMET_API comet_status comet_train_run(const comet_train_params *params, comet_train_result *result);

typedef struct comet_rate_search {
    double rate;           /* that was chosen; the default where none was found */
    bool found;            /* false: the loss did not fall with any rate, or the stop flag ended the test */
    uint32_t n_steps;      /* that were tried, at most 100 */
    double rate_at_lowest; /* where the loss was lowest */
    double start_loss, lowest_loss;
} comet_rate_search;

/* A range test for params->schedule.rate, which is not read: up to 100 updates of a model of its own, from the same weights and
 * data as the run would begin with, whose rate grows until the loss rises. Sends COMET_EVENT_RATE after each. Needs the memory
 * of a run, and frees it. */
COMET_API comet_status comet_rate_find(const comet_train_params *params, comet_rate_search *result);

/* COMET_ERROR_ARGUMENT, with both shapes, unless images of `data` are what `net` takes and the net gives one score to each of
 * its classes, or more. `what` goes into the sentence: "training", "test". */
COMET_API comet_status comet_model_check_data(const comet_net *net, const comet_dataset *data, const char *what);

/* What a run takes beside its plan: oneDNN's code, what threads touch of their stacks, what malloc keeps. */
#define COMET_MEMORY_BESIDE_PLAN ((uint64_t)48 << 20)

/* Is there room for comet_model_plan with `bytes_per_image` more for each image of a batch? With COMET_MEMORY_BESIDE_PLAN it is
 * compared with comet_memory_resident_limit; with the stacks of the threads, which count whole there, with
 * comet_memory_address_limit. COMET_ERROR_MEMORY, with a sentence that names the limit and the batch that would fit. */
COMET_API comet_status comet_model_check_memory(const comet_net *net, const comet_model_params *params,
                                                uint64_t bytes_per_image);

/* `bytes` are left to this process, which has `used` others of the same kind. name, what sets the limit: "free memory",
 * "control group", "ulimit -v" or "ulimit -d". UINT64_MAX bytes and "none" where nothing is known or limited. */
typedef struct comet_memory_limit {
    uint64_t bytes, used;
    const char *name;
} comet_memory_limit;

/* Memory that this process can still touch: the least of what the machine has available and what its control groups leave. */
COMET_API comet_memory_limit comet_memory_resident_limit(void);

/* Addresses that this process can still map under its own limits. What is mapped counts, touched or not: a thread's stack is 8
 * MiB, and malloc takes 64 MiB for each thread unless its M_ARENA_MAX is 1. */
COMET_API comet_memory_limit comet_memory_address_limit(void);

/* The least of both, in bytes. */
COMET_API uint64_t comet_memory_available(void);

/* Largest resident set of this process so far, in bytes, as the kernel counts it. */
COMET_API uint64_t comet_peak_rss(void);
/* Largest address space of this process so far, in bytes, of which comet_memory_address_limit is the rest; 0: not known. */
COMET_API uint64_t comet_peak_address_space(void);
/* What is resident of the program and its libraries at this moment; mapped data is not in it. The kernel looks at all pages for
 * it: milliseconds. */
COMET_API uint64_t comet_program_rss(void);

#ifdef __cplusplus
}
#endif

#endif
