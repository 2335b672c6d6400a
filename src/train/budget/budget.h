/* Inside of budgets: what sample.c, forecast.c and settle.c share. Public: comet/budget.h. */
#ifndef COMET_TRAIN_BUDGET_BUDGET_H
#define COMET_TRAIN_BUDGET_BUDGET_H

#include "comet/budget.h"
#include "comet/peak.h"

enum { N_MODES = COMET_COMPRESS_AUTO + 1 };

/* Bytes of this process, or of a part of it. Pages of the program's own files are apart: a forked copy of a process has its
 * memory, but only those of these pages that it has used itself. */
typedef struct process_bytes {
    uint64_t memory; /* resident, without those pages */
    uint64_t files;  /* those pages */
    uint64_t addresses;
} process_bytes;

/* What a few steps of a mode showed. */
typedef struct mode_sample {
    bool taken;
    double planned_ratio; /* that makes comet_model_plan give the bytes held at the peak */
    double ratio;         /* of the last step, when bounds are known */
} mode_sample;

struct comet_budget {
    comet_budget_params params;
    uint64_t n_images;                   /* of the training data; UINT64_MAX: it is not known */
    uint64_t data_fixed, data_per_image; /* bytes beside the model: data sets, and a loader's queue */
    uint64_t reading_bytes;              /* of the loader's threads */
    uint64_t loader_addresses;           /* stacks of the loaders' threads */
    uint64_t resident;                   /* what this process has, data included */
    process_bytes base;                  /* what it has without data */
    process_bytes beside;                /* the most that steps of any mode had beside their plan; files: in all */
    mode_sample samples[N_MODES];
};

/* The most of each; UINT64_MAX where it does not matter. */
typedef struct budget_bounds {
    uint64_t peak, further, addresses;
} budget_bounds;

/* ---- sample.c ---- */

/* This process now. */
process_bytes process_now(void);
/* Takes the steps of a mode and fills its sample and what was beside their plan. */
comet_status sample_take(comet_budget *b, comet_compress_mode mode);

/* ---- forecast.c ---- */

bool forecast_fits(const comet_forecast *forecast, const budget_bounds *bounds);
/* The same as comet_budget_forecast where coded activations beyond `spill_above` bytes are spilled. */
comet_status forecast_spilling(comet_budget *b, comet_compress_mode mode, uint32_t batch, uint64_t spill_above,
                               comet_forecast *forecast);
/* The largest batch, a multiple of COMET_BUDGET_BATCH_STEP up to `most`, that fits; 0 if there is none. */
comet_status forecast_largest(comet_budget *b, comet_compress_mode mode, const budget_bounds *bounds, uint32_t most,
                              uint32_t *batch);

#endif
