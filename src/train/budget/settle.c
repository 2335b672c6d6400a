/*
 * Choosing within limits: the first way to compress, from what was asked for on to denser, that fits; then spilling. Limits are
 * the request's, what the machine and control groups leave, and what ulimit leaves of addresses; they hold at once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/describe.h"
#include "base/size_text.h"
#include "base/status.h"
#include "comet/ranks.h"
#include "train/budget/budget.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
enum { MAX_LADDER = 4, NEXT_FORECAST = 50 /* forecasts for the same job differ by up to this part */ };
enum { GIVEN, RESIDENT, ADDRESSES, N_LIMITS, LIMIT_TEXT_BYTES = 64, FITTING_BYTES = 96 };

void comet_budget_request_init(comet_budget_request *request)
{
    *request = (comet_budget_request){.size = sizeof *request};
}

void comet_budget_choice_init(comet_budget_choice *choice)
{
    *choice = (comet_budget_choice){.size = sizeof *choice};
}

typedef struct settlement {
    comet_budget *b;
    const comet_budget_request *request;
    comet_memory_limit limits[N_LIMITS]; /* bytes without the reserve; UINT64_MAX: none */
    comet_compress_mode ladder[MAX_LADDER];
    size_t n_ladder;
    uint32_t most; /* of a batch that is chosen */
    /* what was chosen */
    comet_compress_mode mode;
    uint32_t batch;
    comet_forecast forecast, spilling; /* the latter with all that is coded on disk, or as much as need be */
    uint64_t spill_above;
    bool fits, spills;
} settlement;

/* ---- limits ---- */

static comet_status find_limits(settlement *s)
{
    const comet_budget_request *r = s->request;
    for (size_t i = 0; i < N_LIMITS; i++)
        comet_memory_limit_init(&s->limits[i]);
    s->limits[GIVEN].bytes = r->memory > 0 ? r->memory : UINT64_MAX;
    s->limits[GIVEN].name = r->memory_name ? r->memory_name : "the budget";
    TRY(comet_memory_resident_limit(&s->limits[RESIDENT]));
    const comet_ranks *ranks = s->b->params.model.ranks;
    if (ranks && s->limits[RESIDENT].bytes < UINT64_MAX) /* the machine's memory is for all its ranks */
        s->limits[RESIDENT].bytes /= ranks->n_on_node;
    TRY(comet_memory_address_limit(&s->limits[ADDRESSES]));
    if (s->limits[ADDRESSES].bytes < UINT64_MAX) /* a forecast has all that is mapped */
        s->limits[ADDRESSES].bytes += s->limits[ADDRESSES].used;
    return COMET_OK;
}

/* A part of the limits that is left to use. */
static budget_bounds bounds_of(const settlement *s, double part)
{
    uint64_t bytes[N_LIMITS];
    for (size_t i = 0; i < N_LIMITS; i++) {
        const uint64_t limit = s->limits[i].bytes;
        bytes[i] = limit < UINT64_MAX ? (uint64_t)((double)limit * (1 - COMET_BUDGET_RESERVE) * part) : UINT64_MAX;
    }
    return (budget_bounds){.peak = bytes[GIVEN], .further = bytes[RESIDENT], .addresses = bytes[ADDRESSES]};
}

static bool fits(const settlement *s, const comet_forecast *forecast)
{
    const budget_bounds bounds = bounds_of(s, 1);
    return forecast_fits(forecast, &bounds);
}

static uint64_t needed(const comet_forecast *forecast, size_t limit)
{
    return limit == GIVEN ? forecast->peak : limit == RESIDENT ? forecast->further : forecast->addresses;
}

/* The limit that leaves least room to what is needed. */
static size_t tightest(const settlement *s, const comet_forecast *forecast)
{
    size_t worst = GIVEN;
    for (size_t i = 0; i < N_LIMITS; i++)
        if ((double)needed(forecast, i) * (double)s->limits[worst].bytes >
            (double)needed(forecast, worst) * (double)s->limits[i].bytes)
            worst = i;
    return worst;
}

/* What this process has is a part of what is needed and of what is allowed, wherever only the rest is limited. */
static uint64_t already(const settlement *s, size_t limit)
{
    return limit == RESIDENT ? s->b->resident : 0;
}

static uint64_t allowed(const settlement *s, size_t limit)
{
    return s->limits[limit].bytes < UINT64_MAX ? s->limits[limit].bytes + already(s, limit) : UINT64_MAX;
}

/* What must be allowed for it, rounded up to what a text of it shows. */
static uint64_t with_reserve(const settlement *s, const comet_forecast *forecast, size_t limit)
{
    const double bytes_left = (double)needed(forecast, limit) / (1 - COMET_BUDGET_RESERVE);
    const uint64_t bytes = already(s, limit) + (uint64_t)bytes_left;
    const uint64_t grain = bytes < 1000 * MIB ? MIB : GIB / 100 + 1;
    return (bytes + grain) / grain * grain;
}

/* "300 MiB are allowed (ulimit -v)" */
static void describe_limit(const settlement *s, size_t limit, char text[LIMIT_TEXT_BYTES])
{
    char size[SIZE_TEXT_BYTES];
    snprintf(text, LIMIT_TEXT_BYTES, "%s are allowed (%.30s)", comet_size_text(allowed(s, limit), size), s->limits[limit].name);
}

/* ---- choosing ---- */

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

static comet_status forecast_of(const settlement *s, comet_compress_mode mode, uint32_t batch, comet_forecast *forecast)
{
    comet_forecast_init(forecast);
    return comet_budget_forecast(s->b, mode, batch, forecast);
}

static comet_status choose_batch(settlement *s)
{
    const budget_bounds bounds = bounds_of(s, 1);
    s->batch = 0;
    for (size_t i = 0; i < s->n_ladder && s->batch == 0; i++)
        TRY(forecast_largest(s->b, s->ladder[i], &bounds, s->most, &s->batch));
    if (s->batch == 0)
        s->batch = COMET_BUDGET_BATCH_STEP; /* with what spilling can do */
    return COMET_OK;
}

/* The first that fits; if none does, the one that takes least. */
static comet_status choose_mode(settlement *s)
{
    for (size_t i = 0; i < s->n_ladder && !s->fits; i++) {
        comet_forecast forecast;
        TRY(forecast_of(s, s->ladder[i], s->batch, &forecast));
        s->fits = fits(s, &forecast);
        if (i == 0 || s->fits || forecast.peak < s->forecast.peak) {
            s->mode = s->ladder[i];
            s->forecast = forecast;
        }
    }
    return COMET_OK;
}

/* What is coded, as small as possible, is what is spilled. */
static comet_compress_mode spilling_mode(const settlement *s)
{
    return s->ladder[0] == COMET_COMPRESS_LOSSLESS ? COMET_COMPRESS_LOSSLESS : COMET_COMPRESS_DENSE;
}

/* Everything else stays in memory; coded activations get what is left, found by halves. */
static comet_status choose_spill(settlement *s)
{
    enum { HALVES = 6 };
    const comet_compress_mode mode = spilling_mode(s);
    comet_forecast forecast;
    TRY(forecast_of(s, mode, s->batch, &forecast));
    TRY(forecast_spilling(s->b, mode, s->batch, 0, &s->spilling));
    s->spills = fits(s, &s->spilling);
    uint64_t low = 0, high = forecast.model.saved;
    for (int i = 0; i < HALVES && s->spills; i++) {
        const uint64_t middle = low + (high - low) / 2;
        TRY(forecast_spilling(s->b, mode, s->batch, middle, &forecast));
        if (fits(s, &forecast)) {
            s->spilling = forecast;
            low = middle;
        } else {
            high = middle;
        }
    }
    s->spill_above = low;
    return COMET_OK;
}

/* ---- refusing ---- */

/* Over all modes of the ladder: the largest batch that would fit, 0 for none, and what the smallest that is tried would take.
 */
static comet_status find_fitting(const settlement *s, uint32_t *batch, comet_forecast *least)
{
    const budget_bounds bounds = bounds_of(s, 1 - 1.0 / NEXT_FORECAST);
    *batch = 0;
    for (size_t i = 0; i < s->n_ladder; i++) {
        comet_forecast forecast;
        uint32_t fitting = 0;
        TRY(forecast_largest(s->b, s->ladder[i], &bounds, s->batch, &fitting));
        TRY(forecast_of(s, s->ladder[i], COMET_BUDGET_BATCH_STEP, &forecast));
        *batch = fitting > *batch ? fitting : *batch;
        if (i == 0 || forecast.peak < least->peak)
            *least = forecast;
    }
    return COMET_OK;
}

/* For the end of a refusal: what would fit, where the batch may change and is not as small as any that is tried. */
static comet_status describe_fitting(const settlement *s, bool disk, char text[FITTING_BYTES])
{
    char need[SIZE_TEXT_BYTES];
    uint32_t batch;
    comet_forecast least = {.size = sizeof least};
    if (s->request->keep_batch) {
        snprintf(text, FITTING_BYTES, "; a run that is resumed keeps its batch");
        return COMET_OK;
    }
    if (s->batch <= COMET_BUDGET_BATCH_STEP)
        return COMET_OK;
    TRY(find_fitting(s, &batch, &least));
    if (batch > 0)
        snprintf(text, FITTING_BYTES, "; batch %" PRIu32 " would fit", batch);
    else
        snprintf(text, FITTING_BYTES, "; batch %d would need %s%s", COMET_BUDGET_BATCH_STEP,
                 comet_size_text(with_reserve(s, &least, tightest(s, &least)), need), disk ? " without a disk" : "");
    return COMET_OK;
}

/* --batch is of all ranks together, the batch that is settled of each. */
static const char *whose_batch(const settlement *s)
{
    const comet_ranks *ranks = s->b->params.model.ranks;
    return ranks && ranks->n_ranks > 1 ? " of each rank" : "";
}

static comet_status refuse(settlement *s, bool may_spill)
{
    const char *spill_name = s->request->spill_name ? s->request->spill_name : "a spill folder";
    char need[SIZE_TEXT_BYTES], limit_text[LIMIT_TEXT_BYTES], fitting[FITTING_BYTES] = "", spill[80] = "";
    TRY(describe_fitting(s, may_spill, fitting));
    if (!may_spill)
        TRY(choose_spill(s)); /* would it do? */
    if (s->spills)
        snprintf(spill, sizeof spill, "; %.40s would do on a disk", spill_name);
    const bool disk_is_less = may_spill && s->spilling.peak < s->forecast.peak;
    const comet_forecast *least = disk_is_less ? &s->spilling : &s->forecast;
    const size_t limit = tightest(s, least);
    describe_limit(s, limit, limit_text);
    return comet_fail(COMET_ERROR_MEMORY, "batch %" PRIu32 "%s with compression %s%s needs %s%s, with 5 %% kept free; %s%s%s",
                      s->batch, whose_batch(s), comet_compress_mode_name(disk_is_less ? spilling_mode(s) : s->mode),
                      disk_is_less ? " and a disk" : "", comet_size_text(with_reserve(s, least, limit), need),
                      limit == ADDRESSES ? " of addresses" : "", limit_text, fitting, spill);
}

/* ---- the result ---- */

static void describe_choice(const settlement *s, char text[80])
{
    const uint32_t least = s->request->least_updates;
    if (s->batch == COMET_BUDGET_MAX_BATCH)
        snprintf(text, 80, " (chosen, the most that auto takes)");
    else if (least > 0 && s->batch + COMET_BUDGET_BATCH_STEP > s->most)
        snprintf(text, 80, " (chosen, so that an epoch has about %" PRIu32 " updates or more)", least);
    else
        snprintf(text, 80, " (chosen)");
}

static void describe(const settlement *s, const comet_forecast *forecast, size_t limit, char text[COMET_BUDGET_TEXT_BYTES])
{
    char chosen[80] = "";
    if (s->request->choose_batch)
        describe_choice(s, chosen);
    const bool changed = s->mode != s->ladder[0];
    char peak[SIZE_TEXT_BYTES], mapped[64] = "", limit_text[LIMIT_TEXT_BYTES], spill[80] = "", size[SIZE_TEXT_BYTES];
    describe_limit(s, limit, limit_text);
    if (limit == ADDRESSES)
        snprintf(mapped, sizeof mapped, " in %s of addresses", comet_size_text(forecast->addresses, size));
    if (s->spills)
        snprintf(spill, sizeof spill, ", %s of activations in memory and the rest spilled",
                 comet_size_text(s->spill_above, size));
    else if (s->b->params.model.compression.spill_folder)
        snprintf(spill, sizeof spill, ", nothing need be spilled");
    snprintf(text, COMET_BUDGET_TEXT_BYTES, "batch %" PRIu32 "%s%s with compression %s%s%s: a peak of %s%s is expected, %s%s",
             s->batch, whose_batch(s), chosen, comet_compress_mode_name(s->mode), changed ? " instead of " : "",
             changed ? comet_compress_mode_name(s->ladder[0]) : "", comet_size_text(forecast->peak, peak), mapped, limit_text,
             spill);
}

static comet_status give(const settlement *s, comet_model_params *model, comet_budget_choice *choice)
{
    const comet_forecast *forecast = s->spills ? &s->spilling : &s->forecast;
    const size_t limit = tightest(s, forecast);
    comet_budget_choice c = {.batch = s->batch,
                             .mode = s->mode,
                             .spills = s->spills,
                             .spill_above = s->spill_above,
                             .peak = forecast->peak,
                             .addresses = forecast->addresses,
                             .allowed = allowed(s, limit),
                             .limit = s->limits[limit].name};
    describe(s, forecast, limit, c.text);
    TRY(GIVE(comet_budget_choice, choice, &c));
    model->batch = s->batch;
    model->compression.mode = s->mode;
    model->compression.planned_ratio = s->b->samples[s->mode].planned_ratio;
    model->compression.spill_above = s->spill_above;
    if (s->spills)
        model->fused_update = false; /* a disk may fail half way through a step */
    else
        model->compression.spill_folder = NULL;
    return COMET_OK;
}

/* ---- settling ---- */

static comet_status begin(comet_budget *b, const comet_budget_request *request, settlement *s)
{
    const comet_model_params *run = &b->params.model;
    const uint64_t images = b->n_images / (run->accumulate > 1 ? run->accumulate : 1) / (run->ranks ? run->ranks->n_ranks : 1);
    *s = (settlement){.b = b, .request = request, .batch = run->batch};
    const uint64_t updates = request->least_updates > 0 ? request->least_updates : 1;
    s->most = (uint32_t)min_u64(max_u64(images / updates, min_u64(images, COMET_BUDGET_BATCH_STEP)), COMET_BUDGET_MAX_BATCH);
    s->n_ladder = ladder_of(run->compression.mode, s->ladder);
    if (request->choose_batch && s->most < COMET_BUDGET_BATCH_STEP)
        return comet_fail(COMET_ERROR_ARGUMENT, "a batch is chosen for %d images or more; there are %" PRIu64,
                          COMET_BUDGET_BATCH_STEP, b->n_images);
    return find_limits(s);
}

static comet_status choose(settlement *s)
{
    const bool may_spill = s->b->params.model.compression.spill_folder != NULL;
    if (s->request->choose_batch)
        TRY(choose_batch(s));
    TRY(choose_mode(s));
    if (!s->fits && may_spill)
        TRY(choose_spill(s));
    if (!s->fits && !s->spills)
        return refuse(s, may_spill);
    if (s->spills)
        s->mode = spilling_mode(s);
    return COMET_OK;
}

comet_status comet_budget_settle(comet_budget *budget, const comet_budget_request *request, comet_model_params *model,
                                 comet_budget_choice *choice)
{
    settlement s;
    if (!budget || !request || request->size != sizeof *request || !model || model->size != sizeof *model)
        return comet_fail(COMET_ERROR_ARGUMENT, "a request and model parameters must be filled by their init functions");
    TRY(CHECK_SIZE(comet_budget_choice, choice));
    TRY(begin(budget, request, &s));
    TRY(choose(&s));
    return give(&s, model, choice);
}
