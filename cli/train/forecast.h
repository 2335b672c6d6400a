/*
 * What training will need: the peak resident set for a batch and a way to compress, before it is tried.
 *
 *   peak = what comet_model_plan says with the ratio that a few steps of a small batch had
 *        + what the process of those steps had beside its plan (code, libraries, stacks)
 *        + data sets and queues of the loaders
 *
 * The steps are taken by `comet bench train` in a process of its own, on made-up images. Their ratio is that at their peak: the
 * first steps, before bounds are known, need most. Bytes an image do not depend on the batch, since bounds do not.
 *
 * Addresses, which ulimit -v limits, are forecast in the same way from all that the process of those steps had mapped: whole
 * stacks, and 256 KiB for each of oneDNN's kernels.
 */
#ifndef COMET_CLI_FORECAST_H
#define COMET_CLI_FORECAST_H

#include "comet/train.h"
#include "train/compression_args.h"

enum { N_MODES = COMET_COMPRESS_AUTO + 1, BATCH_STEP = 8, LARGEST_BATCH = 1024 };

/* Share of a budget that is left alone: forecasts are a few per cent off. As in the paper. */
#define MEMORY_RESERVE 0.05

/* What a few steps showed. */
typedef struct mode_sample {
    bool taken;
    double planned_ratio; /* that makes comet_model_plan give the bytes held at the peak */
    double ratio;         /* of the last step, when bounds are known */
    uint64_t program;     /* resident beside the plan */
    uint64_t addresses;   /* mapped beside the plan */
} mode_sample;

typedef struct forecaster {
    const comet_net *net;
    comet_model_params params; /* of the run; batch and compression.mode change with each question */
    const compression_args *compression;
    uint64_t data_fixed, data_per_image; /* bytes beside the model */
    uint64_t image_bytes;                /* of a batch that is also the model's input */
    uint64_t loader_addresses;           /* stacks of the loaders' threads */
    uint64_t resident;                   /* what this process, which is to train, has already */
    mode_sample samples[N_MODES];
} forecaster;

/* Nothing is sampled yet; data is 0. */
void forecaster_init(forecaster *f, const comet_net *net, const comet_model_params *params,
                     const compression_args *compression);

/* Adds the queue of a loader for images of so many bytes, or of two loaders, one of them for testing. */
void forecaster_add_queues(forecaster *f, uint64_t image_bytes, bool tests);

/* Adds what data sets (test may be NULL) and the queues of their loaders, of so many threads each (0: the default), will take.
 */
cli_exit forecaster_add_data(forecaster *f, comet_dataset *train, comet_dataset *test, uint32_t n_threads);

typedef struct memory_forecast {
    comet_memory model;
    uint64_t data, program;
    uint64_t peak;      /* of all, resident */
    uint64_t further;   /* beyond what this process has: the rest of the peak, or what the run's own check asks for if more */
    uint64_t addresses; /* of all, mapped */
} memory_forecast;

/* The most of each; UINT64_MAX where it does not matter. */
typedef struct memory_bounds {
    uint64_t peak, further, addresses;
} memory_bounds;

bool forecast_fits(const memory_forecast *forecast, const memory_bounds *bounds);

/* Takes the steps of a mode when it is first asked for; for OFF those of any will do. */
cli_exit forecast_memory(forecaster *f, comet_compress_mode mode, uint32_t batch, memory_forecast *forecast);

/* The same if coded activations beyond `spill_above` bytes were spilled. */
cli_exit forecast_spilling(forecaster *f, comet_compress_mode mode, uint32_t batch, uint64_t spill_above,
                           memory_forecast *forecast);

/* The largest batch, a multiple of BATCH_STEP up to `limit`, that fits; 0 if there is none. */
cli_exit forecast_largest_batch(forecaster *f, comet_compress_mode mode, const memory_bounds *bounds, uint32_t limit,
                                uint32_t *batch);

/* The settings that a forecast of `mode` was made for. */
void forecast_settle(const forecaster *f, comet_compress_mode mode, comet_compression *compression);

#endif
