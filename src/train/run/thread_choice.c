/*
 * How many threads should a run have while other programs run on the machine?
 *
 *   The machine is idle (each core is free for a thread of ours, see base/load.h):  one per core, and no step is timed
 *   otherwise                                                                       a few steps are timed
 *
 * The timed models are their own and are gone afterwards, as in rate_search.c. Weights, bounds and random numbers of the run do
 * not see them. All that is left is the number.
 */
#include "train/run/thread_choice.h"

#include "base/describe.h"
#include "base/load.h"
#include "base/status.h"
#include "base/threads.h"
#include "train/data/dataset.h"
#include "train/run/trainer.h"

#define PROBE_SECONDS 0.04 /* several turns of the scheduler, of about 3 ms each */
#define FREE_SHARE 0.9     /* of a core that is ours */
#define TRIAL_SECONDS 0.5  /* of timed steps for each number of threads, or one step */
#define CLEARLY 0.98       /* of the time with all cores */
enum { MIN_STEPS = 64 };   /* of a run: the trial costs as much as some 10 steps */

/* ---- the search ---- */

/* One busy program is the usual case, so one core less is tried first; then half as many, and so on. 0: there are no more. */
static uint32_t fewer(uint32_t n_threads, uint32_t n_cores)
{
    if (n_threads == n_cores)
        return n_cores - 1;
    return n_threads == n_cores - 1 && n_threads > n_cores / 2 ? n_cores / 2 : n_threads / 2;
}

comet_status thread_choice_search(uint32_t n_cores, step_timer *timer, void *user, comet_thread_choice *choice)
{
    TRY(timer(user, n_cores, &choice->seconds_all));
    choice->n_threads = n_cores;
    choice->seconds = choice->seconds_all;
    for (uint32_t n = fewer(n_cores, n_cores); n > 0; n = fewer(n, n_cores)) {
        double seconds = 0;
        TRY(timer(user, n, &seconds));
        if (seconds >= choice->seconds)
            break;
        choice->n_threads = n;
        choice->seconds = seconds;
    }
    if (choice->seconds > CLEARLY * choice->seconds_all) {
        choice->n_threads = n_cores;
        choice->seconds = choice->seconds_all;
    }
    return COMET_OK;
}

/* ---- timed steps ---- */

typedef struct trial {
    const comet_train_params *p;
    comet_batch batch;
} trial;

/* The rate is 0: losses stay finite. */
static comet_status one_step(comet_model *model, const trial *t, uint64_t step)
{
    comet_scores scores;
    if (t->p->model.fused_update)
        return comet_model_step(model, t->batch.images, t->batch.labels, step, 0, &scores);
    TRY(comet_model_gradients(model, t->batch.images, t->batch.labels, step, &scores));
    return comet_model_update(model, 0, step);
}

static comet_status time_steps(comet_model *model, const trial *t, double *seconds)
{
    double total = 0;
    uint64_t n = 0;
    TRY(one_step(model, t, 0)); /* the first touches fresh memory */
    for (; total < TRIAL_SECONDS; n++) {
        const double began = comet_seconds();
        TRY(one_step(model, t, n + 1));
        total += comet_seconds() - began;
    }
    *seconds = total / (double)n;
    return COMET_OK;
}

/* The first steps of a compressed run, with tight bounds that are assessed in every step, take several times as long as later
 * ones, which are about as fast as without compression. So the trial compresses only where memory is short. */
static void choose_compression(const comet_net *net, comet_model_params *params)
{
    comet_model_params raw = *params;
    raw.compression.mode = COMET_COMPRESS_OFF;
    if (!params->compression.spill_folder && params->compression.planned_ratio == 0 &&
        comet_model_check_memory(net, &raw, 0) == COMET_OK)
        *params = raw;
}

static comet_status time_threads(void *user, uint32_t n_threads, double *seconds)
{
    const trial *t = user;
    comet_model_params params = t->p->model;
    comet_model *model = NULL;
    params.n_threads = n_threads;
    params.accumulate = 1;
    params.rates = NULL; /* no matter at a rate of 0 */
    params.ranks = NULL; /* the others are not asked for it */
    choose_compression(t->p->net, &params);
    TRY(comet_model_create(&model, t->p->net, &params));
    const comet_status status = time_steps(model, t, seconds);
    comet_model_destroy(model);
    return status;
}

comet_status thread_choice_by_trial(const comet_train_params *p, uint32_t n_cores, comet_thread_choice *choice)
{
    trial t = {.p = p};
    comet_loader_params params;
    comet_loader *loader = NULL;
    bool end = false;
    comet_loader_params_init(&params);
    params.batch = p->model.batch;
    params.n_threads = p->loader_threads;
    params.queue = 1;
    params.endless = true;
    TRY(comet_loader_create(&loader, p->train_data, &params));
    comet_status status = comet_loader_next(loader, &t.batch, &end);
    if (status == COMET_OK)
        status = thread_choice_search(n_cores, time_threads, &t, choice);
    if (status == COMET_OK)
        choice->timed = true;
    comet_loader_destroy(loader);
    return status;
}

/* ---- the choice ---- */

void comet_thread_choice_init(comet_thread_choice *choice)
{
    *choice = (comet_thread_choice){.size = sizeof *choice};
}

static bool run_is_short(const comet_train_params *p)
{
    const uint64_t accumulate = p->model.accumulate > 1 ? p->model.accumulate : 1;
    const uint64_t n_steps = p->train_data->info.n_images / p->model.batch / accumulate * p->epochs;
    return n_steps < MIN_STEPS || (p->max_steps > 0 && p->max_steps < MIN_STEPS);
}

/* Twice in a row: a single short visit of another program is none. */
static bool machine_is_busy(size_t n_cores)
{
    const bool first = comet_core_share(n_cores, PROBE_SECONDS) < FREE_SHARE;
    return first && comet_core_share(n_cores, PROBE_SECONDS) < FREE_SHARE;
}

comet_status comet_threads_choose(const comet_train_params *params, comet_thread_choice *choice)
{
    const size_t n_cores = comet_cores();
    comet_thread_choice found = {.size = sizeof found, .n_threads = (uint32_t)n_cores};
    TRY(CHECK_SIZE(comet_thread_choice, choice));
    TRY(trainer_check(params));
    if (n_cores > 1 && !run_is_short(params) && machine_is_busy(n_cores))
        TRY(thread_choice_by_trial(params, (uint32_t)n_cores, &found));
    return GIVE(comet_thread_choice, choice, &found);
}
