/*
 * Figures of a model: what it saves for backward and how small, what was assessed, where the time of steps goes.
 *
 *   comet_model_describe_saved        the tensors that forward leaves for backward
 *   comet_model_describe_compression  what compression has done so far
 *   comet_model_describe_assessment   bounds and errors of tensors, as of the last assessment
 *   comet_model_describe_steps        time by part, and what the last step held
 *   comet_model_trace                 what is held within one step, layer by layer
 *
 * They take structs that their init function has prepared; others fail. comet_model_describe_memory is in model.h.
 */
#ifndef COMET_FIGURES_H
#define COMET_FIGURES_H

#include "comet/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is saved ---- */

/* One line of the memory table: a tensor that forward leaves for backward. */
typedef struct comet_saved_line {
    size_t size;
    const char *layer; /* valid as long as the model */
    const char *what;  /* "conv input", "bn input", "relu mask", "pool indices", ... */
    uint64_t bytes;    /* raw */
    bool recomputed;   /* not held: backward computes it again, or does without */
} comet_saved_line;
COMET_API void comet_saved_line_init(comet_saved_line *line);
/* The index-th line. COMET_ERROR_ARGUMENT past the end. */
COMET_API comet_status comet_model_describe_saved(const comet_model *model, size_t index, comet_saved_line *line);

/* What compression has done so far. */
typedef struct comet_compression_figures {
    size_t size;
    comet_compress_mode mode;
    double ratio;                            /* saved_reference / saved, at the peak of the last step */
    double conv_ratio;                       /* raw bytes of convolution and linear inputs to what stands for them */
    double codec_seconds;                    /* of all steps, by the clock (work of all threads / threads) */
    double sigma_ratio_min, sigma_ratio_max; /* the smallest at_limit, the largest of all; NaN: none */
    uint64_t spilled_bytes;                  /* most at once */
    uint64_t n_assessments;
    uint64_t n_withdrawals;      /* of all bounds, by this process: a loss spike, or values that are not finite */
    uint64_t n_nonfinite;        /* values that were stored as they are because they were not finite, in the last step */
    const char *nonfinite_layer; /* whose are the first of them; NULL: there are none. Valid as long as the model */
} comet_compression_figures;
COMET_API void comet_compression_figures_init(comet_compression_figures *figures);
COMET_API comet_status comet_model_describe_compression(const comet_model *model, comet_compression_figures *figures);

/* One tensor and one consumer of it, as of the last assessment. */
typedef struct comet_assessment_line {
    size_t size;
    const char *layer;                   /* the consumer's; valid as long as the model */
    const char *what;                    /* "conv input", "bn output", ... */
    double eb;                           /* absolute bound; 0: exact */
    double eb_cut;                       /* bound of what a relu after a batch norm cut off; else eb */
    double nonzero;                      /* share R of elements that are not zero */
    double sigma_target, sigma_measured; /* per weight, over the assessment's steps; NaN: it has none, or was not measured */
    bool at_limit;      /* measured, with the bound that this consumer sets; a consumer that tolerates more sees less error */
    double sigma_ratio; /* measured to target, root mean square (rule sigma: mean) over the last assessments with the same
                           at_limit, a fading mean of 60 or so measured steps; NaN: a weight of less than 30 of them, or not
                           measured in this assessment */
    const char *level, *predictor; /* "fast", "none" ... */
    uint64_t bytes_raw, bytes;     /* of the tensor, raw and held */
    uint32_t tensor;               /* a number of the tensor, the same for all of its consumers and all steps of this model */
    uint64_t elements;             /* of the tensor */
    const char *consumer;          /* its kind, as in the text of a net: "conv", "batch_norm", ... */
} comet_assessment_line;
COMET_API void comet_assessment_line_init(comet_assessment_line *line);
/* The index-th line. COMET_ERROR_ARGUMENT past the end, and where nothing is held within bounds. */
COMET_API comet_status comet_model_describe_assessment(const comet_model *model, size_t index, comet_assessment_line *line);

/* ---- steps ---- */

/* Seconds by the clock, summed over all training steps of the model. Parts are disjoint: what coding takes within forward is in
 * `encode` alone, an update that comes with the gradients in `update`. Evaluation is not counted. */
typedef struct comet_step_figures {
    size_t size;
    uint64_t n_passes; /* batches that went forward and backward */
    double forward;    /* the loss is in it */
    double backward;   /* what is computed again is in it, and waiting for other processes */
    double update;
    double encode, decode;   /* of saved activations: work of all threads / threads */
    double assess;           /* of bounds; the sums that backward makes for it are in `backward` */
    uint64_t saved, spilled; /* in the last step: most bytes held for backward, in memory and on disk */
} comet_step_figures;
COMET_API void comet_step_figures_init(comet_step_figures *figures);
COMET_API comet_status comet_model_describe_steps(const comet_model *model, comet_step_figures *figures);

/* ---- within a step ---- */

/* Bytes held for backward after a layer was computed. The three are of the same tensors: as they are stored, raw, and with all
 * that a framework would hold which computes nothing again. */
typedef struct comet_trace_point {
    size_t size;
    const char *layer;                          /* valid as long as the model */
    bool backward;                              /* after its backward; else after its forward */
    uint64_t saved, saved_raw, saved_reference; /* saved: in memory and on disk */
} comet_trace_point;
COMET_API void comet_trace_point_init(comet_trace_point *point);

/* Records points in the next forward and backward. They stay until the next ones are recorded. */
COMET_API comet_status comet_model_trace(comet_model *model);
/* The index-th point in the order of time, one for each layer and direction; what is computed within another layer has none.
 * COMET_ERROR_ARGUMENT past the end. */
COMET_API comet_status comet_model_describe_trace(const comet_model *model, size_t index, comet_trace_point *point);

#ifdef __cplusplus
}
#endif

#endif
