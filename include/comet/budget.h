/*
 * A run within a budget of memory: what training will need, before it is tried, and what fits.
 *
 *   comet_budget_create, _destroy  for one net, its data and the settings of a run
 *   comet_budget_forecast          peak memory for a batch and a way to compress
 *   comet_budget_largest_batch     the largest batch that stays below a peak
 *   comet_budget_settle            way to compress, batch and what to spill, within all limits at once
 *   comet_model_check_memory       is there room for a model now?
 *
 *   peak = what comet_model_plan says with the ratio that a few steps of a small batch had
 *        + what is resident beside it (the program, code that oneDNN generates, stacks), measured in those steps
 *        + data sets and queues of the loaders
 *
 * The steps are taken in this process when a way to compress is first asked for, on made-up images with a batch of 4, by a
 * model that is created and destroyed. Their ratio is that at their peak: early steps, while bounds are narrow, need most.
 * Bytes an image do not depend on the batch, since bounds do not. Addresses, which ulimit -v limits, are forecast in the same
 * way.
 *
 * oneDNN keeps the kernels of the batches that were tried, a few MiB: a program that trains afterwards may create the budget
 * and make the other calls in a forked copy of itself, as `comet train` does. A budget is used by one thread at a time.
 */
#ifndef COMET_BUDGET_H
#define COMET_BUDGET_H

#include "comet/data.h"
#include "comet/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct comet_budget comet_budget;

/* Share of a budget that is left alone: forecasts are a few per cent off. As in the paper. */
#define COMET_BUDGET_RESERVE 0.05
/* Batches that are chosen are multiples of the first, up to the second. */
#define COMET_BUDGET_BATCH_STEP 8
#define COMET_BUDGET_MAX_BATCH 1024
/* The largest batch that comet_budget_largest_batch tries. */
#define COMET_BUDGET_LARGEST_TRIED 4096

typedef struct comet_budget_params {
    size_t size;
    const comet_net *net;     /* must outlive the budget, and so must the data */
    comet_model_params model; /* of the run. Its mode is the first choice, its batch holds unless one is to be chosen, and
                                 something is spilled only where it has a spill_folder */
    const comet_dataset *train_data, *test_data;            /* NULL, NULL: a queue of images of bytes is counted, but no data */
    uint32_t loader_threads;                                /* 0: the default */
    uint32_t queue;                                         /* batches; 0: the default */
    void (*sampling)(void *user, comet_compress_mode mode); /* before the steps for a mode; may be NULL */
    void *user;
} comet_budget_params;

COMET_API void comet_budget_params_init(comet_budget_params *params);

/* Takes no steps yet. What this process has now counts as the program that is to train: create the budget before the model.
 * COMET_ERROR_ARGUMENT for parameters that are not initialised. */
COMET_API comet_status comet_budget_create(comet_budget **budget, const comet_budget_params *params);
COMET_API void comet_budget_destroy(comet_budget *budget); /* NULL is allowed */

/* ---- forecasts ---- */

/* Bytes, unless it says otherwise. */
typedef struct comet_forecast {
    size_t size;
    uint64_t peak;      /* resident, of all: model.total + data + program */
    uint64_t data;      /* data sets, and queues of images beside the one that the model reads */
    uint64_t program;   /* all else that is resident */
    uint64_t further;   /* beyond what this process has now: the rest of the peak, or what a run checks for if that is more */
    uint64_t addresses; /* mapped, of all */
    double ratio;       /* raw to held bytes of what is saved, at the peak; NaN: nothing is saved */
    double ratio_later; /* the same once bounds are known */
    comet_memory model; /* stays the last field: it may grow */
} comet_forecast;

COMET_API void comet_forecast_init(comet_forecast *forecast);

/* What a run with this mode and batch (1 to 65536) will need, without spilling. Takes the steps of the mode when it is first
 * asked for, seconds for a large net; for OFF those of any mode do. COMET_ERROR_MEMORY where not even those fit. */
COMET_API comet_status comet_budget_forecast(comet_budget *budget, comet_compress_mode mode, uint32_t batch,
                                             comet_forecast *forecast);

/* The largest batch, a multiple of COMET_BUDGET_BATCH_STEP up to COMET_BUDGET_LARGEST_TRIED, whose peak leaves the reserve of
 * `memory` bytes free; 0 if there is none. What this machine has does not matter. */
COMET_API comet_status comet_budget_largest_batch(comet_budget *budget, comet_compress_mode mode, uint64_t memory,
                                                  uint32_t *batch);

/* ---- choosing ---- */

typedef struct comet_budget_request {
    size_t size;
    uint64_t memory;         /* most bytes resident; 0: only what limits this process counts */
    bool choose_batch;       /* as large as fits, at most the training data's images; else that of the model's parameters */
    uint32_t least_updates;  /* of an epoch, where the batch is chosen: that leaves it at most so large; 0: any */
    bool keep_batch;         /* the batch is that of a run which goes on: a refusal names no other */
    const char *memory_name; /* what sentences call `memory`; NULL: "the budget" */
    const char *spill_name;  /* what would let it spill, for a refusal; NULL: "a spill folder" */
} comet_budget_request;

COMET_API void comet_budget_request_init(comet_budget_request *request);

#define COMET_BUDGET_TEXT_BYTES 320

typedef struct comet_budget_choice {
    size_t size;
    uint32_t batch;
    comet_compress_mode mode;
    bool spills;
    uint64_t spill_above;     /* bytes of coded activations that stay in memory, where it spills */
    uint64_t peak, addresses; /* expected bytes: resident, and mapped */
    uint64_t allowed;         /* bytes, by the limit that leaves least room */
    const char *limit;        /* that limit: memory_name, or as comet_memory_limit names it. Valid as long as the request */
    char text[COMET_BUDGET_TEXT_BYTES]; /* all of this in one line for the user */
} comet_budget_choice;

COMET_API void comet_budget_choice_init(comet_budget_choice *choice);

/* Chooses for a run that stays below request->memory and all that limits this process, with the reserve left: compression from
 * the mode asked for on to denser, then spilling where that is allowed; the batch where it is to be chosen. LOSSLESS and
 * spilling from it stay exact. Writes *choice, and batch, mode, planned ratio, spilling and fused_update to *model, which may
 * be a copy of the budget's parameters. COMET_ERROR_MEMORY where nothing fits: the sentence says what is needed, what is
 * allowed and what would fit. COMET_ERROR_ARGUMENT where a batch is to be chosen from fewer than COMET_BUDGET_BATCH_STEP
 * images. */
COMET_API comet_status comet_budget_settle(comet_budget *budget, const comet_budget_request *request, comet_model_params *model,
                                           comet_budget_choice *choice);

/* ---- a model alone ---- */

/* What a run takes beside its plan: oneDNN's code, what threads touch of their stacks, what malloc keeps. Bytes. */
#define COMET_MEMORY_BESIDE_PLAN ((uint64_t)48 << 20)

/* Is there room for comet_model_plan with `bytes_per_image` more for each image of a batch? With COMET_MEMORY_BESIDE_PLAN it is
 * compared with comet_memory_resident_limit; with the stacks of the threads, which count whole there, with
 * comet_memory_address_limit. COMET_ERROR_MEMORY, with a sentence that names the limit and the batch that would fit. */
COMET_API comet_status comet_model_check_memory(const comet_net *net, const comet_model_params *params,
                                                uint64_t bytes_per_image);

#ifdef __cplusplus
}
#endif

#endif
