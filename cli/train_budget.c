/* Budgets; see train_budget.h. */
#include "train_budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "forecast.h"
#include "number.h"
#include "train_setup.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
enum { MAX_LADDER = 4, NEXT_FORECAST = 50 /* forecasts for the same job differ by up to this part */ };

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
    uint64_t bytes, usable; /* all, and without the reserve */
    comet_compress_mode ladder[MAX_LADDER];
    size_t n_ladder;
    uint32_t limit;     /* of an automatic batch */
    bool batch_is_kept; /* that of the run which is resumed */
    /* what was chosen */
    comet_compress_mode mode;
    uint32_t batch;
    memory_forecast forecast;
    uint64_t spill_above, spilling_peak; /* the latter with all that is coded on disk */
    bool fits, spills;
} budget;

static cli_exit choose_batch(budget *b)
{
    cli_exit code = CLI_OK;
    b->batch = 0;
    for (size_t i = 0; i < b->n_ladder && b->batch == 0 && code == CLI_OK; i++)
        code = forecast_largest_batch(&b->f, b->ladder[i], b->usable, b->limit, &b->batch);
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
        b->fits = forecast.peak <= b->usable;
        if (i == 0 || forecast.peak < b->forecast.peak) {
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
        code = forecast_spilling(&b->f, mode, b->batch, 0, &b->spilling_peak);
    b->spills = code == CLI_OK && b->spilling_peak <= b->usable;
    if (!b->spills)
        return code;
    uint64_t low = 0, high = forecast.model.saved, peak = 0;
    for (int i = 0; i < HALVES && code == CLI_OK; i++) {
        const uint64_t middle = low + (high - low) / 2;
        code = forecast_spilling(&b->f, mode, b->batch, middle, &peak);
        *(peak <= b->usable ? &low : &high) = middle;
    }
    b->spill_above = low;
    return code;
}

/* What must be allowed for it, rounded up to what a text of it shows. */
static uint64_t with_reserve(uint64_t peak)
{
    const uint64_t bytes = (uint64_t)((double)peak / (1 - MEMORY_RESERVE)), grain = bytes < 1000 * MIB ? MIB : GIB / 100 + 1;
    return (bytes + grain) / grain * grain;
}

/* Of all ways on the ladder: the largest batch that would fit, 0 for none, and what the smallest that is tried would take. */
static cli_exit find_fitting(budget *b, uint32_t *batch, uint64_t *least)
{
    *batch = 0;
    *least = UINT64_MAX;
    for (size_t i = 0; i < b->n_ladder; i++) {
        memory_forecast forecast;
        uint32_t fits = 0;
        cli_exit code = forecast_largest_batch(&b->f, b->ladder[i], b->usable - b->usable / NEXT_FORECAST, b->batch, &fits);
        if (code == CLI_OK)
            code = forecast_memory(&b->f, b->ladder[i], BATCH_STEP, &forecast);
        if (code != CLI_OK)
            return code;
        *batch = fits > *batch ? fits : *batch;
        *least = forecast.peak < *least ? forecast.peak : *least;
    }
    return CLI_OK;
}

/* For the end of a refusal: what would fit, where the batch may change and is not as small as any that is tried. */
static cli_exit describe_fitting(budget *b, bool disk, char *text, size_t bytes)
{
    char need[SIZE_TEXT_BYTES];
    uint32_t batch;
    uint64_t least;
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
        snprintf(text, bytes, "; batch %d would need %s%s", BATCH_STEP, size_text(with_reserve(least), need),
                 disk ? " without a disk" : "");
    return CLI_OK;
}

static cli_exit refuse(budget *b, bool may_spill)
{
    char need[SIZE_TEXT_BYTES], has[SIZE_TEXT_BYTES], fitting[96] = "";
    cli_exit code = describe_fitting(b, may_spill, fitting, sizeof fitting);
    if (code == CLI_OK && !may_spill)
        code = choose_spill(b); /* would it do? */
    if (code != CLI_OK)
        return code;
    const bool disk_is_less = may_spill && b->spilling_peak < b->forecast.peak;
    const uint64_t wanted = with_reserve(disk_is_less ? b->spilling_peak : b->forecast.peak);
    return fail(CLI_NO_MEMORY, "batch %" PRIu32 " with compression %s%s needs %s, with 5 %% kept free; %s are allowed%s%s",
                b->batch, mode_name(disk_is_less ? spilling_mode(b) : b->mode), disk_is_less ? " and a disk" : "",
                size_text(wanted, need), size_text(b->bytes, has), fitting,
                b->spills ? "; --spill DIR would do on a disk" : "");
}

static void describe(const budget *b, const budget_args *args, const compression_args *compression,
                     char text[BUDGET_TEXT_BYTES])
{
    const char *chosen = b->batch == LARGEST_BATCH ? " (chosen, the most that auto takes)" : " (chosen)";
    char peak[SIZE_TEXT_BYTES], all[SIZE_TEXT_BYTES], spill[80] = "", size[SIZE_TEXT_BYTES];
    if (b->spills)
        snprintf(spill, sizeof spill, ", %s of activations in memory and the rest spilled", size_text(b->spill_above, size));
    else if (compression->spill)
        snprintf(spill, sizeof spill, ", nothing need be spilled");
    snprintf(text, BUDGET_TEXT_BYTES, "batch %" PRIu32 "%s with compression %s%s%s: a peak of %s is expected, %s are allowed",
             b->batch, args->batch.automatic ? chosen : "", mode_name(b->mode), b->mode != b->ladder[0] ? " instead of " : "",
             b->mode != b->ladder[0] ? mode_name(b->ladder[0]) : "", size_text(b->spills ? b->usable : b->forecast.peak, peak),
             size_text(b->bytes, all));
    strncat(text, spill, BUDGET_TEXT_BYTES - strlen(text) - 1);
}

static cli_exit begin(const budget_args *args, const compression_args *compression, const comet_train_params *p, budget *b)
{
    const uint64_t n_images = comet_dataset_describe(p->train_data).n_images, available = comet_memory_available();
    const uint64_t accumulate = p->model.accumulate > 1 ? p->model.accumulate : 1;
    const uint64_t most = n_images / accumulate < LARGEST_BATCH ? n_images / accumulate : LARGEST_BATCH;
    *b =
        (budget){.bytes = args->memory, .batch = p->model.batch, .limit = (uint32_t)most, .batch_is_kept = args->batch_is_kept};
    if (b->bytes == 0)
        b->bytes = available < UINT64_MAX / 2 ? available + comet_peak_rss() : UINT64_MAX / 2;
    b->usable = (uint64_t)((double)b->bytes * (1 - MEMORY_RESERVE));
    b->n_ladder = ladder_of(compression->mode.value, b->ladder);
    if (args->batch.automatic && most < BATCH_STEP)
        return fail(CLI_USAGE, "--batch auto is for %d images or more; there are %" PRIu64, BATCH_STEP, n_images);
    forecaster_init(&b->f, p->net, &p->model, compression);
    return forecaster_add_data(&b->f, p->train_data, p->test_data);
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
