/* Forecasts of memory; see forecast.h. */
#include "forecast.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"
#include "figures.h"
#include "json_out.h"
#include "progress.h"

enum { SAMPLE_BATCH = 4, SAMPLE_STEPS = 2, SAMPLE_WARM = 6, LOADER_QUEUE = 4 /* with the batch in use */ };
enum { LOADER_THREADS = 4 /* by default, where there are as many cores */ };
static const uint64_t least_program = 16 << 20;
/* Addresses of kernels and blocks that differ between a run and the steps of a sample. */
static const uint64_t other_addresses = 12 << 20;

void forecaster_init(forecaster *f, const comet_net *net, const comet_model_params *params, const compression_args *compression)
{
    *f = (forecaster){.net = net, .params = *params, .compression = compression};
}

/* ---- data ---- */

/* A loader of single images says what the data set itself takes. */
static cli_exit dataset_bytes(comet_dataset *data, uint64_t *bytes)
{
    comet_loader_params params;
    comet_loader *loader = NULL;
    comet_loader_params_init(&params);
    params.batch = 1;
    params.n_threads = 1;
    params.queue = 1;
    const comet_status status = comet_loader_create(&loader, data, &params);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    *bytes += stats_of(loader).bytes;
    comet_loader_destroy(loader);
    return CLI_OK;
}

void forecaster_add_queues(forecaster *f, uint64_t image_bytes, bool tests)
{
    f->image_bytes = image_bytes;
    f->data_per_image += image_bytes * (LOADER_QUEUE * (tests ? 2 : 1) - 1); /* one batch is counted as the model's input */
}

static uint64_t stack_bytes(void)
{
    struct rlimit limit;
    const bool limited = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited ? (uint64_t)limit.rlim_cur : 8 << 20;
}

cli_exit forecaster_add_data(forecaster *f, comet_dataset *train, comet_dataset *test, uint32_t n_threads)
{
    const comet_dataset_info d = info_of(train);
    const uint64_t cores = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), usual = cores < LOADER_THREADS ? cores : LOADER_THREADS;
    f->loader_addresses = (n_threads > 0 ? n_threads : usual) * (test ? 2 : 1) * stack_bytes();
    comet_memory_limit resident;
    comet_memory_limit_init(&resident);
    comet_memory_resident_limit(&resident);
    f->resident = resident.used;
    forecaster_add_queues(f, (uint64_t)d.channels * d.height * d.width * sizeof(float), test != NULL);
    cli_exit code = dataset_bytes(train, &f->data_fixed);
    if (code == CLI_OK && test)
        code = dataset_bytes(test, &f->data_fixed);
    return code;
}

/* ---- a few steps ---- */

static comet_status plan_with(const forecaster *f, const comet_model_params *like, comet_compress_mode mode, double ratio,
                              uint32_t batch, comet_memory *memory)
{
    comet_model_params params = *like;
    params.batch = batch;
    params.compression.mode = mode;
    params.compression.planned_ratio = ratio;
    return comet_model_plan(f->net, &params, memory);
}

static comet_status plan(const forecaster *f, comet_compress_mode mode, double ratio, uint32_t batch, comet_memory *memory)
{
    comet_model_params params = f->params;
    params.compression.spill_folder = NULL;
    return plan_with(f, &params, mode, ratio, batch, memory);
}

/* As `comet bench train` trains: with another optimiser, and gradients used up at once. */
static comet_status plan_sample(const forecaster *f, comet_compress_mode mode, double ratio, comet_memory *memory)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.n_threads = f->params.n_threads;
    params.no_winograd = f->params.no_winograd;
    params.no_recompute = f->params.no_recompute;
    params.fused_update = true;
    return plan_with(f, &params, mode, ratio, SAMPLE_BATCH, memory);
}

/* The net as a file without a name, which the other process reads through ours. */
static cli_exit write_net(const comet_net *net, FILE **file, char path[32])
{
    char *text = NULL;
    if (comet_net_write(net, &text) != COMET_OK)
        return fail_status(COMET_ERROR_MEMORY, comet_net_name(net));
    *file = tmpfile();
    const bool written = *file && fputs(text, *file) >= 0 && fflush(*file) == 0;
    comet_text_free(text);
    if (!written)
        return fail_errno(CLI_FAILED, errno, "a temporary file for the net");
    snprintf(path, 32, "/proc/self/fd/%d", fileno(*file));
    return CLI_OK;
}

static void command_of(const forecaster *f, comet_compress_mode mode, const char *net, command *c)
{
    *c = (command){.n = 0};
    command_word(c, "comet");
    command_word(c, "bench");
    command_word(c, "train");
    command_word(c, "--in-process");
    command_word(c, "--json");
    command_text(c, "--net", net);
    command_number(c, "--batch", SAMPLE_BATCH);
    command_number(c, "--steps", SAMPLE_STEPS);
    command_number(c, "--warm", SAMPLE_WARM);
    command_number(c, "--threads", f->params.n_threads);
    command_text(c, "--compress", mode_name(mode));
    command_share(c, "--noise", f->compression->noise);
    command_share(c, "--sigma", f->compression->sigma);
    command_share(c, "--overhead", f->compression->overhead);
    command_flag(c, "--checksums", f->compression->checksums);
    command_flag(c, "--no-winograd", f->params.no_winograd);
    command_flag(c, "--no-recompute", f->params.no_recompute);
}

/* The ratio with which the plan has `saved` bytes. A part of what is saved does not shrink with the ratio, so that two plans
 * are needed: saved = fixed + coded / ratio. */
static comet_status fit_ratio(const forecaster *f, comet_compress_mode mode, double saved, double first, double *ratio)
{
    comet_memory a = {.size = sizeof a}, b = {.size = sizeof b};
    *ratio = first;
    comet_status status = plan(f, mode, first, SAMPLE_BATCH, &a);
    if (status == COMET_OK)
        status = plan(f, mode, 2 * first, SAMPLE_BATCH, &b);
    if (status != COMET_OK)
        return status;
    const double coded = 2 * first * ((double)a.saved - (double)b.saved), fixed = (double)a.saved - coded / first;
    if (coded > 0 && saved > fixed)
        *ratio = fmax(coded / (saved - fixed), 1);
    return COMET_OK;
}

static cli_exit read_sample(const forecaster *f, comet_compress_mode mode, const char *text, mode_sample *sample)
{
    cJSON *row = cJSON_Parse(text);
    const double saved = json_number(row, "saved_bytes"), reference = json_number(row, "saved_reference_bytes"),
                 peak = json_number(row, "peak_rss_bytes"), addresses = json_number(row, "peak_address_bytes"),
                 ratio = json_number(row, "ratio");
    comet_memory memory = {.size = sizeof memory};
    cJSON_Delete(row);
    if (!(saved > 0 && peak > 0 && reference > 0))
        return fail(CLI_FAILED, "the steps taken for a forecast gave no figures");
    comet_status status = fit_ratio(f, mode, saved, fmax(reference / saved, 1), &sample->planned_ratio);
    if (status == COMET_OK)
        status = plan_sample(f, mode, sample->planned_ratio, &memory);
    if (status != COMET_OK)
        return fail_status(status, comet_net_name(f->net));
    sample->program = (uint64_t)fmax(peak - (double)memory.total, (double)least_program);
    sample->addresses = (uint64_t)fmax(addresses - (double)memory.total, (double)least_program);
    sample->ratio = isnan(ratio) ? reference / saved : ratio;
    sample->taken = true;
    return CLI_OK;
}

static cli_exit take_sample(forecaster *f, comet_compress_mode mode)
{
    command c;
    FILE *file = NULL;
    char path[32], what[64], *text = NULL;
    cli_exit code = write_net(f->net, &file, path);
    snprintf(what, sizeof what, "a few steps with %s", mode_name(mode));
    progress_text("%s ...", what);
    if (code == CLI_OK) {
        command_of(f, mode, path, &c);
        code = command_run(&c, what, &text);
    }
    if (code == CLI_OK)
        code = read_sample(f, mode, text, &f->samples[mode]);
    progress_hide();
    if (file)
        fclose(file);
    free(text);
    return code;
}

/* ---- forecasts ---- */

/* Steps of the mode, or for OFF of any. */
static const mode_sample *sample_of(const forecaster *f, comet_compress_mode mode)
{
    for (size_t i = 0; mode == COMET_COMPRESS_OFF && i < N_MODES; i++)
        if (f->samples[i].taken)
            return &f->samples[i];
    return &f->samples[mode];
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* All but the model's plan, which is there. */
static void complete(const forecaster *f, comet_compress_mode mode, uint32_t batch, memory_forecast *forecast)
{
    const mode_sample *sample = sample_of(f, mode);
    const uint64_t total = forecast->model.total, queues = (f->data_per_image + f->image_bytes) * batch;
    forecast->data = f->data_fixed + f->data_per_image * batch;
    forecast->program = sample->program;
    forecast->peak = total + forecast->data + forecast->program;
    forecast->further = larger(forecast->peak, f->resident + total + queues + COMET_MEMORY_BESIDE_PLAN) - f->resident;
    forecast->addresses = total + f->data_fixed + queues + sample->addresses + f->loader_addresses + other_addresses;
}

static comet_status foretell(const forecaster *f, comet_compress_mode mode, uint32_t batch, memory_forecast *forecast)
{
    comet_memory_init(&forecast->model);
    const comet_status status = plan(f, mode, f->samples[mode].planned_ratio, batch, &forecast->model);
    if (status == COMET_OK)
        complete(f, mode, batch, forecast);
    return status;
}

bool forecast_fits(const memory_forecast *forecast, const memory_bounds *bounds)
{
    return forecast->peak <= bounds->peak && forecast->further <= bounds->further && forecast->addresses <= bounds->addresses;
}

cli_exit forecast_memory(forecaster *f, comet_compress_mode mode, uint32_t batch, memory_forecast *forecast)
{
    if (!sample_of(f, mode)->taken) {
        const cli_exit code = take_sample(f, mode);
        if (code != CLI_OK)
            return code;
    }
    const comet_status status = foretell(f, mode, batch, forecast);
    return status == COMET_OK ? CLI_OK : fail_status(status, comet_net_name(f->net));
}

cli_exit forecast_spilling(forecaster *f, comet_compress_mode mode, uint32_t batch, uint64_t spill_above,
                           memory_forecast *forecast)
{
    const cli_exit code = forecast_memory(f, mode, batch, forecast);
    if (code != CLI_OK)
        return code;
    comet_model_params params = f->params;
    params.compression.spill_folder = "."; /* of a plan, any */
    params.fused_update = false;           /* a disk may fail half way through a step */
    params.compression.spill_above = spill_above;
    const comet_status status = plan_with(f, &params, mode, f->samples[mode].planned_ratio, batch, &forecast->model);
    if (status != COMET_OK)
        return fail_status(status, comet_net_name(f->net));
    complete(f, mode, batch, forecast);
    return CLI_OK;
}

cli_exit forecast_largest_batch(forecaster *f, comet_compress_mode mode, const memory_bounds *bounds, uint32_t limit,
                                uint32_t *batch)
{
    uint32_t fits = 0, too_large = limit / BATCH_STEP + 1;
    memory_forecast forecast;
    const cli_exit code = forecast_memory(f, mode, BATCH_STEP, &forecast); /* takes the steps */
    if (code != CLI_OK)
        return code;
    while (too_large - fits > 1) {
        const uint32_t middle = fits + (too_large - fits) / 2;
        const comet_status status = foretell(f, mode, middle * BATCH_STEP, &forecast);
        if (status != COMET_OK && status != COMET_ERROR_MEMORY) /* beyond any machine */
            return fail_status(status, comet_net_name(f->net));
        if (status == COMET_OK && forecast_fits(&forecast, bounds))
            fits = middle;
        else
            too_large = middle;
    }
    *batch = fits * BATCH_STEP;
    return CLI_OK;
}

void forecast_settle(const forecaster *f, comet_compress_mode mode, comet_compression *compression)
{
    compression->mode = mode;
    compression->planned_ratio = f->samples[mode].planned_ratio;
}
