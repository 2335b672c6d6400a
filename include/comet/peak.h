/*
 * The peak of a step: the moment at which a model needs most memory, and what every byte of it is then.
 *
 *   comet_model_plan_peak   finds it for a net and its parameters, before anything is allocated
 *   comet_budget_peak       the same for a way to compress and a batch of a budget, with data and program
 *   comet_peak_describe     which moment
 *   comet_peak_buffer       what is in memory then, line by line; their bytes sum up to the moment's
 *   comet_peak_add          a line for what is beside a model
 *
 * A step has these moments: forward of each layer; the loss; backward of each layer in two phases, gradients of its weights and
 * the gradient of its input. comet_peak_describe and comet_peak_buffer take structs that their init function has prepared.
 */
#ifndef COMET_PEAK_H
#define COMET_PEAK_H

#include "comet/budget.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct comet_peak comet_peak;

typedef enum comet_peak_phase {
    COMET_PHASE_FORWARD = 0,
    COMET_PHASE_LOSS,
    COMET_PHASE_WEIGHTS, /* backward: gradients of the layer's weights */
    COMET_PHASE_INPUT,   /* backward: the gradient of its input */
} comet_peak_phase;

typedef struct comet_peak_moment {
    size_t size;
    comet_peak_phase phase;
    char layer[COMET_MAX_LAYER_NAME]; /* at work; "" in the loss */
    uint64_t bytes;                   /* in memory */
    size_t n_buffers;
} comet_peak_moment;
COMET_API void comet_peak_moment_init(comet_peak_moment *moment);

/* Kinds of memory. */
typedef enum comet_peak_kind {
    COMET_PEAK_ACTIVATION = 0,  /* a layer's output as forward has it, or held raw for backward */
    COMET_PEAK_GRADIENT,        /* of a layer's output */
    COMET_PEAK_WEIGHT_GRADIENT, /* of weights: of the layer at work, or of all */
    COMET_PEAK_DECODED,         /* room in which a stored tensor is raw again */
    COMET_PEAK_CODED,           /* a stored tensor */
    COMET_PEAK_SCRATCH,         /* of kernels, and what layers compute with */
    COMET_PEAK_WEIGHTS_COPY,    /* reordered for a kernel */
    COMET_PEAK_SAMPLES,         /* by which errors are measured */
    COMET_PEAK_WEIGHTS,         /* and running statistics */
    COMET_PEAK_OPTIMISER,       /* momentum, second moments */
    COMET_PEAK_IMAGES,          /* the batch that the model reads */
    COMET_PEAK_DATA,            /* data sets, and further batches in the loader's queue */
    COMET_PEAK_PROGRAM,         /* program, libraries, code of kernels */
    COMET_PEAK_UNUSED,          /* between buffers that do not fit together */
} comet_peak_kind;
/* "activation", "weight gradient" ...; "unknown" for any other value. */
COMET_API const char *comet_peak_kind_name(comet_peak_kind kind);

typedef struct comet_peak_line {
    size_t size;
    comet_peak_kind kind;
    char layer[COMET_MAX_LAYER_NAME]; /* "": of no single layer */
    uint64_t bytes;
} comet_peak_line;
COMET_API void comet_peak_line_init(comet_peak_line *line);

/* Fails as comet_model_plan does, and with COMET_ERROR_ARGUMENT where tensors may be spilled: what is in memory then depends on
 * the run. The caller destroys the peak. */
COMET_API comet_status comet_model_plan_peak(comet_peak **peak, const comet_net *net, const comet_model_params *params);
/* As comet_budget_forecast, whose peak is the moment's bytes. */
COMET_API comet_status comet_budget_peak(comet_budget *budget, comet_compress_mode mode, uint32_t batch, comet_peak **peak);
COMET_API void comet_peak_destroy(comet_peak *peak); /* NULL is allowed */

COMET_API comet_status comet_peak_describe(const comet_peak *peak, comet_peak_moment *moment);
/* Adds a line, and its bytes to the moment's; nothing where there are no bytes. `layer` may be "". */
COMET_API comet_status comet_peak_add(comet_peak *peak, comet_peak_kind kind, const char *layer, uint64_t bytes);
/* The index-th line, the largest first. COMET_ERROR_ARGUMENT past the end. */
COMET_API comet_status comet_peak_buffer(const comet_peak *peak, size_t index, comet_peak_line *line);

#ifdef __cplusplus
}
#endif

#endif
