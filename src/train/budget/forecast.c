/* Forecasts of memory: a plan, what is beside it, and data; see comet/budget.h. */
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/describe.h"
#include "base/machine.h"
#include "base/status.h"
#include "train/budget/budget.h"
#include "train/data/dataset.h"

/* A program, its libraries and oneDNN's code are never less. */
static const uint64_t least_program = 16 << 20;
/* Addresses of kernels and blocks that differ between a run and the steps of a sample. */
static const uint64_t other_addresses = 12 << 20;

void comet_budget_params_init(comet_budget_params *params)
{
    *params = (comet_budget_params){.size = sizeof *params};
    comet_model_params_init(&params->model);
}

void comet_forecast_init(comet_forecast *forecast)
{
    *forecast = (comet_forecast){.size = sizeof *forecast};
    comet_memory_init(&forecast->model);
}

/* ---- creation ---- */

/* Bytes of an image in a queue. Where there is no data, images are bytes, as all but arrays of floats and made-up images are.
 */
static uint64_t row_bytes(const comet_budget_params *p)
{
    const comet_shape in = comet_net_shape(p->net, 0);
    uint64_t bytes = p->train_data ? dataset_row_bytes(p->train_data) : (uint64_t)in.channels * in.height * in.width;
    return p->test_data ? max_u64(bytes, dataset_row_bytes(p->test_data)) : bytes;
}

/* The queue of one loader: there is one for training or one for evaluation. The batch that is handed out is counted as the
 * model's input. */
static void count_data(comet_budget *b)
{
    const comet_budget_params *p = &b->params;
    const uint32_t n_threads = loader_threads(p->loader_threads);
    b->data_per_image = row_bytes(p) * loader_batches(p->queue);
    b->data_fixed = dataset_bytes_together(p->train_data, p->test_data, true);
    b->reading_bytes = p->train_data ? n_threads * p->train_data->reading_bytes : 0;
    b->n_images = p->train_data ? p->train_data->info.n_images : UINT64_MAX;
    b->loader_addresses = n_threads * comet_stack_bytes();
}

comet_status comet_budget_create(comet_budget **budget, const comet_budget_params *params)
{
    if (!budget || !params || params->size != sizeof *params || !params->net || params->model.size != sizeof params->model)
        return comet_fail(COMET_ERROR_ARGUMENT, "a budget needs parameters filled by comet_budget_params_init, and a net");
    comet_budget *b = calloc(1, sizeof *b);
    if (!b)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for a budget", sizeof *b);
    const process_bytes now = process_now();
    b->params = *params;
    count_data(b);
    b->resident = now.memory + now.files;
    b->base.memory =
        sub_u64(now.memory, comet_shared_rss() + dataset_bytes_together(params->train_data, params->test_data, false));
    b->base.files = now.files;
    b->base.addresses = sub_u64(now.addresses, b->data_fixed);
    *budget = b;
    return COMET_OK;
}

void comet_budget_destroy(comet_budget *budget)
{
    free(budget);
}

/* ---- forecasts ---- */

/* The steps of a mode, where they are yet to be taken; for OFF those of any other do. */
static comet_status need_sample(comet_budget *b, comet_compress_mode mode)
{
    bool taken = b->samples[mode].taken;
    for (size_t i = 0; mode == COMET_COMPRESS_OFF && i < N_MODES; i++)
        taken = taken || b->samples[i].taken;
    return taken ? COMET_OK : sample_take(b, mode);
}

static comet_status check_mode(const comet_budget *b, comet_compress_mode mode)
{
    if (!b || (unsigned)mode >= N_MODES)
        return comet_fail(COMET_ERROR_ARGUMENT, "mode %d of a budget: there is no such mode, or no budget", (int)mode);
    return COMET_OK;
}

/* All but the model's plan, which is there. */
static void complete(const comet_budget *b, comet_compress_mode mode, uint32_t batch, comet_forecast *f)
{
    const mode_sample *sample = &b->samples[mode];
    const uint64_t total = f->model.total, queues = b->reading_bytes + b->data_per_image * batch;
    const uint64_t mapped = max_u64(b->base.addresses + b->beside.addresses, least_program);
    f->data = b->data_fixed + queues;
    f->program = max_u64(b->base.memory + b->beside.memory + max_u64(b->base.files, b->beside.files), least_program);
    f->peak = total + f->data + f->program;
    f->further = max_u64(f->peak, b->resident + total + queues + COMET_MEMORY_BESIDE_PLAN) - b->resident;
    f->addresses = total + b->data_fixed + queues + mapped + b->loader_addresses + other_addresses;
    f->ratio = f->model.saved > 0 ? (double)f->model.saved_reference / (double)f->model.saved : NAN;
    f->ratio_later = sample->taken && f->model.saved > 0 ? sample->ratio : f->ratio;
}

/* The steps of the mode were taken. */
static void set_mode(const comet_budget *b, comet_compress_mode mode, uint32_t batch, comet_model_params *params)
{
    params->batch = batch;
    params->compression.mode = mode;
    params->compression.planned_ratio = b->samples[mode].planned_ratio;
}

/* As comet_model_plan with the settings of the run; the steps of the mode were taken. */
static comet_status foretell(const comet_budget *b, const comet_model_params *like, comet_compress_mode mode, uint32_t batch,
                             comet_forecast *forecast)
{
    comet_model_params params = *like;
    set_mode(b, mode, batch, &params);
    comet_forecast_init(forecast);
    TRY(comet_model_plan(b->params.net, &params, &forecast->model));
    complete(b, mode, batch, forecast);
    return COMET_OK;
}

static comet_model_params without_spilling(const comet_budget *b)
{
    comet_model_params params = b->params.model;
    params.compression.spill_folder = NULL;
    return params;
}

comet_status comet_budget_forecast(comet_budget *b, comet_compress_mode mode, uint32_t batch, comet_forecast *forecast)
{
    comet_forecast found;
    TRY(check_mode(b, mode));
    TRY(CHECK_SIZE(comet_forecast, forecast));
    const comet_model_params params = without_spilling(b);
    TRY(need_sample(b, mode));
    TRY(foretell(b, &params, mode, batch, &found));
    return GIVE(comet_forecast, forecast, &found);
}

comet_status comet_budget_peak(comet_budget *b, comet_compress_mode mode, uint32_t batch, comet_peak **peak)
{
    comet_forecast f;
    comet_peak *found;
    TRY(check_mode(b, mode));
    comet_model_params params = without_spilling(b);
    TRY(need_sample(b, mode));
    TRY(foretell(b, &params, mode, batch, &f));
    set_mode(b, mode, batch, &params);
    TRY(comet_model_plan_peak(&found, b->params.net, &params));
    comet_status status = comet_peak_add(found, COMET_PEAK_DATA, "", f.data);
    if (status == COMET_OK)
        status = comet_peak_add(found, COMET_PEAK_PROGRAM, "", f.program);
    if (status == COMET_OK)
        *peak = found;
    else
        comet_peak_destroy(found);
    return status;
}

comet_status forecast_spilling(comet_budget *b, comet_compress_mode mode, uint32_t batch, uint64_t spill_above,
                               comet_forecast *forecast)
{
    comet_model_params params = b->params.model;
    params.compression.spill_folder = "."; /* any will do for a plan */
    params.compression.spill_above = spill_above;
    params.fused_update = false; /* a disk may fail half way through a step */
    TRY(need_sample(b, mode));
    return foretell(b, &params, mode, batch, forecast);
}

bool forecast_fits(const comet_forecast *forecast, const budget_bounds *bounds)
{
    return forecast->peak <= bounds->peak && forecast->further <= bounds->further && forecast->addresses <= bounds->addresses;
}

comet_status forecast_largest(comet_budget *b, comet_compress_mode mode, const budget_bounds *bounds, uint32_t most,
                              uint32_t *batch)
{
    const comet_model_params params = without_spilling(b);
    uint32_t fits = 0, too_large = most / COMET_BUDGET_BATCH_STEP + 1;
    TRY(need_sample(b, mode));
    while (too_large - fits > 1) {
        const uint32_t middle = fits + (too_large - fits) / 2;
        comet_forecast forecast;
        const comet_status status = foretell(b, &params, mode, middle * COMET_BUDGET_BATCH_STEP, &forecast);
        if (status != COMET_OK && status != COMET_ERROR_MEMORY) /* beyond any machine */
            return status;
        if (status == COMET_OK && forecast_fits(&forecast, bounds))
            fits = middle;
        else
            too_large = middle;
    }
    *batch = fits * COMET_BUDGET_BATCH_STEP;
    return COMET_OK;
}

comet_status comet_budget_largest_batch(comet_budget *b, comet_compress_mode mode, uint64_t memory, uint32_t *batch)
{
    const budget_bounds bounds = {
        .peak = (uint64_t)((double)memory * (1 - COMET_BUDGET_RESERVE)), .further = UINT64_MAX, .addresses = UINT64_MAX};
    TRY(check_mode(b, mode));
    return forecast_largest(b, mode, &bounds, COMET_BUDGET_LARGEST_TRIED, batch);
}
