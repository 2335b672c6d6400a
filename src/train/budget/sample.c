/*
 * A few steps on made-up images: the ratio of a way to compress, and what this process has beside a model's plan.
 *
 * Memory that a model has touched stays resident until it is destroyed, so the resident set after the last step is that of the
 * peak. Kernels stay in oneDNN's cache: only the first steps have their memory in the difference, which is why the largest
 * difference of all modes counts.
 */
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/random.h"
#include "base/status.h"
#include "comet/figures.h"
#include "train/budget/budget.h"
#include "train/data/dataset.h"

enum { BATCH = 4, N_STEPS = 8, N_WARM = 6 };
/* Assessments after which bounds have settled: they double at each from narrow ones. */
enum { SETTLED = 3 };
enum { MAX_CLASSES_SHOWN = 10, MIN_SYNTHETIC = 8, MAX_SYNTHETIC = 4096, MAX_SYNTHETIC_CHANNELS = 16 };
static const double rate = 1e-3; /* at which no net's loss runs away */

process_bytes process_now(void)
{
    comet_memory_limit resident, address;
    comet_memory_limit_init(&resident);
    comet_memory_limit_init(&address);
    comet_memory_resident_limit(&resident);
    comet_memory_address_limit(&address);
    const uint64_t files = comet_program_rss();
    return (process_bytes){.memory = sub_u64(resident.used, files), .files = files, .addresses = address.used};
}

/* ---- images ---- */

/* A loader of textures, or noise for nets whose input no texture fits. */
typedef struct made_up {
    comet_dataset *data;
    comet_loader *loader;
    float *noise;
    uint32_t labels[BATCH];
    uint64_t bytes;
} made_up;

static void made_up_free(made_up *m)
{
    comet_loader_destroy(m->loader);
    comet_dataset_close(m->data);
    free(m->noise);
}

static comet_status make_textures(comet_shape in, uint32_t n_classes, made_up *m)
{
    comet_dataset_params data;
    comet_loader_params loader;
    comet_loader_stats stats;
    comet_dataset_params_init(&data);
    comet_loader_params_init(&loader);
    comet_loader_stats_init(&stats);
    data.image = in.height;
    data.channels = in.channels;
    data.classes = n_classes;
    data.n_images = N_STEPS * BATCH;
    loader.batch = BATCH;
    loader.queue = 1;
    loader.n_threads = 1;
    loader.shuffle = true;
    TRY(comet_dataset_open(&m->data, "synthetic", &data));
    TRY(comet_loader_create(&m->loader, m->data, &loader));
    TRY(comet_loader_describe(m->loader, &stats));
    m->bytes = stats.bytes;
    return COMET_OK;
}

/* Uniform with variance 1, as normalised images have. */
static comet_status make_noise(comet_shape in, uint32_t n_classes, made_up *m)
{
    const size_t n = (size_t)BATCH * in.channels * in.height * in.width;
    comet_random random = comet_random_start(0, COMET_STREAM_SYNTHETIC, 0, 0);
    m->bytes = n * sizeof *m->noise;
    m->noise = malloc(m->bytes);
    if (!m->noise)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for images of a forecast", n * sizeof *m->noise);
    for (size_t i = 0; i < n; i++)
        m->noise[i] = (float)(comet_random_uniform(&random) - 0.5) * 3.4641016f;
    for (uint32_t i = 0; i < BATCH; i++)
        m->labels[i] = i % n_classes;
    return COMET_OK;
}

static comet_status made_up_make(const comet_net *net, made_up *m)
{
    const comet_shape in = comet_net_shape(net, 0), out = comet_net_shape(net, comet_net_n_values(net) - 1);
    const uint32_t n_classes = out.channels < MAX_CLASSES_SHOWN ? out.channels : MAX_CLASSES_SHOWN;
    const bool fits = in.height == in.width && in.height >= MIN_SYNTHETIC && in.height <= MAX_SYNTHETIC &&
                      in.channels <= MAX_SYNTHETIC_CHANNELS && n_classes >= 2;
    return fits ? make_textures(in, n_classes, m) : make_noise(in, n_classes, m);
}

/* ---- steps ---- */

static comet_status check_loss(comet_status status, double loss)
{
    if (status == COMET_OK && !isfinite(loss))
        return comet_fail(COMET_ERROR_DIVERGED, "the loss of the steps taken for a forecast is %f, not finite", loss);
    return status;
}

static comet_status one_step(comet_model *model, made_up *m, uint64_t step)
{
    comet_batch batch = {.images = m->noise, .labels = m->labels};
    comet_scores scores = {0};
    bool end = false;
    if (m->loader)
        TRY(comet_loader_next(m->loader, &batch, &end));
    comet_status status = step == 0 ? comet_model_calibrate(model, batch.images) : COMET_OK;
    if (status == COMET_OK)
        status = comet_model_step(model, batch.images, batch.labels, step, rate, &scores);
    if (m->loader)
        comet_loader_release(m->loader, &batch);
    return check_loss(status, scores.loss);
}

typedef struct seen {
    comet_memory memory;
    comet_compression_figures figures;
    process_bytes process; /* after the last step, without the images */
} seen;

static comet_status run_steps(comet_model *model, made_up *m, seen *s)
{
    for (uint64_t i = 0; i < N_STEPS; i++) {
        TRY(comet_model_describe_compression(model, &s->figures));
        if (i >= N_WARM && s->figures.n_assessments >= SETTLED)
            comet_model_hold_bounds(model, true);
        TRY(one_step(model, m, i));
    }
    s->process = process_now();
    TRY(comet_model_describe_memory(model, &s->memory));
    return comet_model_describe_compression(model, &s->figures);
}

static comet_model_params params_of(const comet_budget *b, comet_compress_mode mode)
{
    const comet_model_params *run = &b->params.model;
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = BATCH;
    params.n_threads = run->n_threads;
    params.precision = run->precision;
    params.force_precision = run->force_precision;
    params.convolutions = run->convolutions;
    params.convolution_choices = run->convolution_choices;
    params.no_recompute = run->no_recompute;
    params.fused_update = true;
    params.freeze = run->freeze;
    params.compression = run->compression;
    params.compression.mode = mode;
    params.compression.spill_folder = NULL;
    params.compression.planned_ratio = 0;
    return params;
}

static comet_status see(const comet_budget *b, const comet_model_params *params, seen *s)
{
    made_up images = {.data = NULL};
    comet_model *model = NULL;
    comet_memory_init(&s->memory);
    comet_compression_figures_init(&s->figures);
    comet_status status = comet_model_check_memory(b->params.net, params, 0);
    if (status == COMET_OK)
        status = made_up_make(b->params.net, &images);
    if (status == COMET_OK)
        status = comet_model_create(&model, b->params.net, params);
    if (status == COMET_OK)
        status = run_steps(model, &images, s);
    if (status == COMET_OK) {
        s->process.memory -= images.bytes < s->process.memory ? images.bytes : 0;
        s->process.addresses -= images.bytes < s->process.addresses ? images.bytes : 0;
    }
    comet_model_destroy(model);
    made_up_free(&images);
    return status;
}

/* ---- what they showed ---- */

static comet_status plan_with(const comet_budget *b, const comet_model_params *like, double ratio, comet_memory *memory)
{
    comet_model_params params = *like;
    params.compression.planned_ratio = ratio;
    comet_memory_init(memory);
    return comet_model_plan(b->params.net, &params, memory);
}

/* The ratio with which the plan has `saved` bytes. A part of what is saved does not shrink with the ratio, so that two plans
 * are needed: saved = fixed + coded / ratio. */
static comet_status fit_ratio(const comet_budget *b, const comet_model_params *params, double saved, double first,
                              double *ratio)
{
    comet_memory one, two;
    *ratio = first;
    TRY(plan_with(b, params, first, &one));
    TRY(plan_with(b, params, 2 * first, &two));
    const double coded = 2 * first * ((double)one.saved - (double)two.saved), fixed = (double)one.saved - coded / first;
    if (coded > 0 && saved > fixed)
        *ratio = fmax(coded / (saved - fixed), 1);
    return COMET_OK;
}

/* What there is now beyond what there was before and what was planned; the most so far. */
static uint64_t most_beside(uint64_t most, uint64_t now, uint64_t before, uint64_t planned)
{
    const uint64_t beside = sub_u64(now, before + planned);
    return beside > most ? beside : most;
}

comet_status sample_take(comet_budget *b, comet_compress_mode mode)
{
    const comet_model_params params = params_of(b, mode);
    const process_bytes before = process_now();
    mode_sample sample = {.taken = true};
    comet_memory planned;
    seen s;
    if (b->params.sampling)
        b->params.sampling(b->params.user, mode);
    TRY(see(b, &params, &s));
    const double saved = fmax((double)s.memory.saved, 1), reference = (double)s.memory.saved_reference;
    TRY(fit_ratio(b, &params, saved, fmax(reference / saved, 1), &sample.planned_ratio));
    TRY(plan_with(b, &params, sample.planned_ratio, &planned));
    b->beside.memory = most_beside(b->beside.memory, s.process.memory, before.memory, planned.total);
    b->beside.files = max_u64(b->beside.files, s.process.files);
    b->beside.addresses = most_beside(b->beside.addresses, s.process.addresses, before.addresses, planned.total);
    sample.ratio = isnan(s.figures.ratio) ? reference / saved : s.figures.ratio;
    b->samples[mode] = sample;
    return COMET_OK;
}
