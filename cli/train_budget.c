/* Budgets; see train_budget.h. */
#include "train_budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "figures.h"
#include "forecast.h"
#include "number.h"
#include "train_setup.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
enum { MAX_LADDER = 4, NEXT_FORECAST = 50 /* forecasts for the same job differ by up to this part */ };
/* --memory, what the machine and control groups leave, what ulimit -v leaves */
enum { GIVEN, RESIDENT, ADDRESSES, N_LIMITS, LIMIT_TEXT_BYTES = 64 };

bool set_batch(void *target, const char *text, reason *why)
{
    batch_arg *batch = target;
    batch->automatic = strcmp(text, "auto") == 0;
    batch->value = 0;
    if (batch->automatic || number_u64(text, 1, UINT32_MAX, &batch->value, why))
        return true;
    const reason number = *why;
    return reason_set(why, "%.200s; nor is it 'auto'", number.text);
}

bool budget_is_asked(const budget_args *budget, const compression_args *compression)
{
    return budget->memory > 0 || budget->batch.automatic || compression->spill;
}

/* From what was asked for to what takes least; nothing coded takes least where batches are tiny. Whoever asked for exact bits
 * does not get others. */
static size_t ladder_of(comet_compress_mode first, comet_compress_mode ladder[MAX_LADDER])
{
    size_t n = 0;
    ladder[n++] = first;
    if (first == COMET_COMPRESS_LOSSLESS) {
        ladder[n++] = COMET_COMPRESS_OFF;
        return n;
    }
    if (first == COMET_COMPRESS_OFF)
        ladder[n++] = COMET_COMPRESS_AUTO;
    if (first != COMET_COMPRESS_DENSE)
        ladder[n++] = COMET_COMPRESS_DENSE;
    if (first != COMET_COMPRESS_OFF)
        ladder[n++] = COMET_COMPRESS_OFF;
    return n;
}

typedef struct budget {
    forecaster f;
    comet_memory_limit limits[N_LIMITS]; /* bytes without the reserve; UINT64_MAX: none */
    comet_compress_mode ladder[MAX_LADDER];
    size_t n_ladder;
    uint32_t most;      /* of an automatic batch */
    bool batch_is_kept; /* that of the run which is resumed */
    /* what was chosen */
    comet_compress_mode mode;
    uint32_t batch;
    memory_forecast forecast, spilling; /* the latter with all that is coded on disk, or as much as need be */
    uint64_t spill_above;
    bool fits, spills;
} budget;

/* ---- limits ---- */

/* What must be allowed for it. */
static double reserve(uint64_t bytes)
{
    return (double)bytes / (1 - MEMORY_RESERVE);
}

/* A part of the limits that is left to use. */
static memory_bounds bounds_of(const budget *b, double part)
{
    uint64_t bytes[N_LIMITS];
    for (size_t i = 0; i < N_LIMITS; i++)
        bytes[i] =
            b->limits[i].bytes < UINT64_MAX ? (uint64_t)((double)b->limits[i].bytes * (1 - MEMORY_RESERVE) * part) : UINT64_MAX;
    return (memory_bounds){.peak = bytes[GIVEN], .further = bytes[RESIDENT], .addresses = bytes[ADDRESSES]};
}

static bool fits(const budget *b, const memory_forecast *forecast)
{
    const memory_bounds bounds = bounds_of(b, 1);
    return forecast_fits(forecast, &bounds);
}

static uint64_t needed(const memory_forecast *forecast, size_t limit)
{
    return limit == GIVEN ? forecast->peak : limit == RESIDENT ? forecast->further : forecast->addresses;
}

/* The limit that leaves least room to what is needed. */
static size_t tightest(const budget *b, const memory_forecast *forecast)
{
    size_t worst = GIVEN;
    for (size_t i = 0; i < N_LIMITS; i++)
        if ((double)needed(forecast, i) * (double)b->limits[worst].bytes >
            (double)needed(forecast, worst) * (double)b->limits[i].bytes)
            worst = i;
    return worst;
}

/* What this process has is a part of what is needed and of what is allowed, wherever only the rest is limited. */
static uint64_t already(const budget *b, size_t limit)
{
    return limit == RESIDENT ? b->f.resident : 0;
}

/* Rounded up to what a text of it shows. */
static uint64_t with_reserve(const budget *b, const memory_forecast *forecast, size_t limit)
{
    const uint64_t bytes = already(b, limit) + (uint64_t)reserve(needed(forecast, limit));
    const uint64_t grain = bytes < 1000 * MIB ? MIB : GIB / 100 + 1;
    return (bytes + grain) / grain * grain;
}

/* "300 MiB are allowed (ulimit -v)" */
static void describe_limit(const budget *b, size_t limit, char text[LIMIT_TEXT_BYTES])
{
    char size[SIZE_TEXT_BYTES];
    snprintf(text, LIMIT_TEXT_BYTES, "%s are allowed (%s)", size_text(b->limits[limit].bytes + already(b, limit), size),
             b->limits[limit].name);
}

/* ---- choosing ---- */

static cli_exit choose_batch(budget *b)
{
    const memory_bounds bounds = bounds_of(b, 1);
    cli_exit code = CLI_OK;
    b->batch = 0;
    for (size_t i = 0; i < b->n_ladder && b->batch == 0 && code == CLI_OK; i++)
        code = forecast_largest_batch(&b->f, b->ladder[i], &bounds, b->most, &b->batch);
    if (b->batch == 0)
        b->batch = BATCH_STEP; /* with what spilling can do */
    return code;
}

/* The first that fits; if none does, the one that takes least. */
static cli_exit choose_mode(budget *b)
{
    for (size_t i = 0; i < b->n_ladder && !b->fits; i++) {
        memory_forecast forecast;
        const cli_exit code = forecast_memory(&b->f, b->ladder[i], b->batch, &forecast);
        if (code != CLI_OK)
            return code;
        b->fits = fits(b, &forecast);
        if (i == 0 || b->fits || forecast.peak < b->forecast.peak) {
            b->mode = b->ladder[i];
            b->forecast = forecast;
        }
    }
    return CLI_OK;
}

/* What is coded, as small as possible, is what is spilled. */
static comet_compress_mode spilling_mode(const budget *b)
{
    return b->ladder[0] == COMET_COMPRESS_LOSSLESS ? COMET_COMPRESS_LOSSLESS : COMET_COMPRESS_DENSE;
}

/* Everything else stays in memory; coded activations get what is left, found by halves. */
static cli_exit choose_spill(budget *b)
{
    enum { HALVES = 6 };
    const comet_compress_mode mode = spilling_mode(b);
    memory_forecast forecast;
    cli_exit code = forecast_memory(&b->f, mode, b->batch, &forecast);
    if (code == CLI_OK)
        code = forecast_spilling(&b->f, mode, b->batch, 0, &b->spilling);
    b->spills = code == CLI_OK && fits(b, &b->spilling);
    if (!b->spills)
        return code;
    uint64_t low = 0, high = forecast.model.saved;
    for (int i = 0; i < HALVES && code == CLI_OK; i++) {
        const uint64_t middle = low + (high - low) / 2;
        code = forecast_spilling(&b->f, mode, b->batch, middle, &forecast);
        if (code == CLI_OK && fits(b, &forecast))
            b->spilling = forecast;
        *(code == CLI_OK && fits(b, &forecast) ? &low : &high) = middle;
    }
    b->spill_above = low;
    return code;
}

/* Of all ways on the ladder: the largest batch that would fit, 0 for none, and what the smallest that is tried would take. */
static cli_exit find_fitting(budget *b, uint32_t *batch, memory_forecast *least)
{
    const memory_bounds bounds = bounds_of(b, 1 - 1.0 / NEXT_FORECAST);
    *batch = 0;
    for (size_t i = 0; i < b->n_ladder; i++) {
        memory_forecast forecast;
        uint32_t fitting = 0;
        cli_exit code = forecast_largest_batch(&b->f, b->ladder[i], &bounds, b->batch, &fitting);
        if (code == CLI_OK)
            code = forecast_memory(&b->f, b->ladder[i], BATCH_STEP, &forecast);
        if (code != CLI_OK)
            return code;
        *batch = fitting > *batch ? fitting : *batch;
        if (i == 0 || forecast.peak < least->peak)
            *least = forecast;
    }
    return CLI_OK;
}

/* For the end of a refusal: what would fit, where the batch may change and is not as small as any that is tried. */
static cli_exit describe_fitting(budget *b, bool disk, char *text, size_t bytes)
{
    char need[SIZE_TEXT_BYTES];
    uint32_t batch;
    memory_forecast least = {.peak = 0};
    if (b->batch_is_kept) {
        snprintf(text, bytes, "; a run that is resumed keeps its batch");
        return CLI_OK;
    }
    if (b->batch <= BATCH_STEP)
        return CLI_OK;
    const cli_exit code = find_fitting(b, &batch, &least);
    if (code != CLI_OK)
        return code;
    if (batch > 0)
        snprintf(text, bytes, "; batch %" PRIu32 " would fit", batch);
    else
        snprintf(text, bytes, "; batch %d would need %s%s", BATCH_STEP,
                 size_text(with_reserve(b, &least, tightest(b, &least)), need), disk ? " without a disk" : "");
    return CLI_OK;
}

static cli_exit refuse(budget *b, bool may_spill)
{
    char need[SIZE_TEXT_BYTES], allowed[LIMIT_TEXT_BYTES], fitting[96] = "";
    cli_exit code = describe_fitting(b, may_spill, fitting, sizeof fitting);
    if (code == CLI_OK && !may_spill)
        code = choose_spill(b); /* would it do? */
    if (code != CLI_OK)
        return code;
    const bool disk_is_less = may_spill && b->spilling.peak < b->forecast.peak;
    const memory_forecast *wanted = disk_is_less ? &b->spilling : &b->forecast;
    const size_t limit = tightest(b, wanted);
    describe_limit(b, limit, allowed);
    return fail(CLI_NO_MEMORY, "batch %" PRIu32 " with compression %s%s needs %s%s, with 5 %% kept free; %s%s%s", b->batch,
                mode_name(disk_is_less ? spilling_mode(b) : b->mode), disk_is_less ? " and a disk" : "",
                size_text(with_reserve(b, wanted, limit), need), limit == ADDRESSES ? " of addresses" : "", allowed, fitting,
                b->spills ? "; --spill DIR would do on a disk" : "");
}

static void describe(const budget *b, const budget_args *args, const compression_args *compression,
                     char text[BUDGET_TEXT_BYTES])
{
    const char *chosen = b->batch == LARGEST_BATCH ? " (chosen, the most that auto takes)" : " (chosen)";
    const memory_forecast *forecast = b->spills ? &b->spilling : &b->forecast;
    const size_t limit = tightest(b, forecast);
    char peak[SIZE_TEXT_BYTES], mapped[64] = "", allowed[LIMIT_TEXT_BYTES], spill[80] = "", size[SIZE_TEXT_BYTES];
    describe_limit(b, limit, allowed);
    if (limit == ADDRESSES)
        snprintf(mapped, sizeof mapped, " in %s of addresses", size_text(forecast->addresses, size));
    if (b->spills)
        snprintf(spill, sizeof spill, ", %s of activations in memory and the rest spilled", size_text(b->spill_above, size));
    else if (compression->spill)
        snprintf(spill, sizeof spill, ", nothing need be spilled");
    snprintf(text, BUDGET_TEXT_BYTES, "batch %" PRIu32 "%s with compression %s%s%s: a peak of %s%s is expected, %s%s", b->batch,
             args->batch.automatic ? chosen : "", mode_name(b->mode), b->mode != b->ladder[0] ? " instead of " : "",
             b->mode != b->ladder[0] ? mode_name(b->ladder[0]) : "", size_text(forecast->peak, peak), mapped, allowed, spill);
}

/* Those of the machine and of --memory hold at once. */
static void find_limits(const budget_args *args, budget *b)
{
    b->limits[GIVEN] = (comet_memory_limit){.bytes = args->memory > 0 ? args->memory : UINT64_MAX, .name = "--memory"};
    comet_memory_limit_init(&b->limits[RESIDENT]);
    comet_memory_limit_init(&b->limits[ADDRESSES]);
    comet_memory_resident_limit(&b->limits[RESIDENT]);
    comet_memory_address_limit(&b->limits[ADDRESSES]);
    if (b->limits[ADDRESSES].bytes < UINT64_MAX) /* a forecast has all that is mapped */
        b->limits[ADDRESSES].bytes += b->limits[ADDRESSES].used;
}

static cli_exit begin(const budget_args *args, const compression_args *compression, const comet_train_params *p, budget *b)
{
    const uint64_t n_images = info_of(p->train_data).n_images;
    const uint64_t accumulate = p->model.accumulate > 1 ? p->model.accumulate : 1;
    const uint64_t most = n_images / accumulate < LARGEST_BATCH ? n_images / accumulate : LARGEST_BATCH;
    *b = (budget){.batch = p->model.batch, .most = (uint32_t)most, .batch_is_kept = args->batch_is_kept};
    find_limits(args, b);
    b->n_ladder = ladder_of(compression->mode.value, b->ladder);
    if (args->batch.automatic && most < BATCH_STEP)
        return fail(CLI_USAGE, "--batch auto is for %d images or more; there are %" PRIu64, BATCH_STEP, n_images);
    forecaster_init(&b->f, p->net, &p->model, compression);
    return forecaster_add_data(&b->f, p->train_data, p->test_data, p->loader_threads);
}

typedef struct settlement {
    const budget_args *args;
    const compression_args *compression;
    comet_train_params p;
    char text[BUDGET_TEXT_BYTES];
} settlement;

static cli_exit settle(void *data)
{
    settlement *s = data;
    budget b;
    cli_exit code = begin(s->args, s->compression, &s->p, &b);
    if (code == CLI_OK && s->args->batch.automatic)
        code = choose_batch(&b);
    if (code == CLI_OK)
        code = choose_mode(&b);
    if (code != CLI_OK)
        return code;
    if (s->compression->spill && !b.fits)
        code = choose_spill(&b);
    if (code != CLI_OK)
        return code;
    if (!b.fits && !b.spills)
        return refuse(&b, s->compression->spill != NULL);
    b.mode = b.spills ? spilling_mode(&b) : b.mode;
    s->p.model.batch = b.batch;
    forecast_settle(&b.f, b.mode, &s->p.model.compression);
    s->p.model.compression.spill_above = b.spill_above;
    if (b.spills)
        s->p.model.fused_update = false; /* a disk may fail half way through a step */
    else
        s->p.model.compression.spill_folder = NULL;
    describe(&b, s->args, s->compression, s->text);
    return CLI_OK;
}

/* Apart, since plans for many batches leave oneDNN with kernels for them. Pointers mean the same on both sides. */
cli_exit budget_settle(const budget_args *args, const compression_args *compression, comet_train_params *p,
                       char text[BUDGET_TEXT_BYTES])
{
    settlement s = {.args = args, .compression = compression, .p = *p};
    const cli_exit code = run_apart(settle, &s, sizeof s);
    if (code != CLI_OK)
        return code;
    p->model = s.p.model;
    memcpy(text, s.text, BUDGET_TEXT_BYTES);
    return CLI_OK;
}
