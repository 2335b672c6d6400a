/*
 * A range test: which rate does this net learn fastest with, on this data, with this batch?
 *
 *   The rate grows by the same factor from update to update, from 1/30 of the default to 30 times it. The loss stays where it
 *   is, falls, and rises again. The test ends there: the loss is no longer finite, or the last few are twice the lowest.
 *
 * Losses of single batches scatter. Once all are known they are smoothed along the rate, to both sides alike, and the rate with
 * the lowest smoothed loss is chosen, if that lies below the start by more than the scatter explains. One-cycle reaches its
 * largest rate for a moment only; other schedules stay there, and get a third of it.
 *
 * The model of the test is its own and is gone afterwards: a run with the rate that was found begins from the same weights as
 * any other.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/describe.h"
#include "base/status.h"
#include "comet/train.h"
#include "train/graph/ranks.h"
#include "train/run/trainer.h"

enum { N_STEPS = 100, N_START = 10, N_RECENT = 5, REACH = 8 /* updates to both sides that are averaged */ };
static const double first_share = 1.0 / 30, last_share = 30; /* of the default rate */
static const double far_above = 2;

typedef struct search {
    const comet_train_params *p;
    comet_model *model;
    comet_loader *loader;
    bool stopped;
    double first_rate;
    double rates[N_STEPS], losses[N_STEPS];
    size_t n; /* updates with a finite loss */
    double lowest_recent;
} search;

static uint32_t accumulated(const comet_train_params *p)
{
    return p->model.accumulate > 1 ? p->model.accumulate : 1;
}

/* ---- one update ---- */

static comet_status search_batch(search *s, uint64_t step, double rate, double *loss)
{
    comet_batch batch;
    comet_scores scores = {0};
    bool end = false;
    comet_status status = comet_loader_next(s->loader, &batch, &end);
    if (status != COMET_OK)
        return status;
    status = s->p->model.fused_update ? comet_model_step(s->model, batch.images, batch.labels, step, rate, &scores)
                                      : comet_model_gradients(s->model, batch.images, batch.labels, step, &scores);
    comet_loader_release(s->loader, &batch);
    *loss += scores.loss / accumulated(s->p);
    return status;
}

static comet_status search_step(search *s, uint64_t step, double rate, double *loss)
{
    comet_status status = COMET_OK;
    *loss = 0;
    for (uint32_t i = 0; i < accumulated(s->p) && status == COMET_OK; i++)
        status = search_batch(s, step, rate, loss);
    if (status == COMET_OK && !s->p->model.fused_update && isfinite(*loss))
        status = comet_model_update(s->model, rate, step);
    return status;
}

static void tell(const search *s, double rate, double loss)
{
    const comet_train_event event = {.size = sizeof event,
                                     .kind = COMET_EVENT_RATE,
                                     .model = s->model,
                                     .step = s->n,
                                     .n_steps = N_STEPS,
                                     .rate = rate,
                                     .train_loss = loss,
                                     .test_loss = NAN,
                                     .test_top1 = NAN};
    if (s->p->event)
        s->p->event(s->p->user, &event);
}

/* ---- the curve ---- */

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static double recent(const search *s)
{
    return s->n >= N_RECENT ? mean_of(s->losses + s->n - N_RECENT, N_RECENT) : INFINITY;
}

static void add_loss(search *s, double rate, double loss)
{
    s->rates[s->n] = rate;
    s->losses[s->n] = loss;
    s->n++;
    s->lowest_recent = fmin(s->lowest_recent, recent(s));
}

static bool has_risen(const search *s)
{
    return s->n >= N_RECENT && recent(s) > far_above * s->lowest_recent;
}

/* Weights fall in a straight line to both sides. */
static double smoothed(const search *s, size_t at)
{
    double sum = 0, weights = 0;
    for (size_t i = at > REACH ? at - REACH : 0; i <= at + REACH && i < s->n; i++) {
        const double weight = REACH + 1 - (double)(i > at ? i - at : at - i);
        sum += weight * s->losses[i];
        weights += weight;
    }
    return sum / weights;
}

/* Standard deviation of the first losses, which the rate has not moved yet. */
static double scatter(const search *s, double start)
{
    double sum = 0;
    for (size_t i = 0; i < N_START; i++)
        sum += (s->losses[i] - start) * (s->losses[i] - start);
    return sqrt(sum / (N_START - 1));
}

/* So that what is printed of it is all there is. */
static double three_digits(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.3g", x);
    return strtod(text, NULL);
}

/* Means of 10 and of some 12 losses differ by chance by 0.43 standard deviations of one; twice that is clear. */
static void choose(const search *s, comet_rate_search *result)
{
    result->n_steps = (uint32_t)s->n;
    if (s->n < 2 * N_START)
        return;
    result->start_loss = mean_of(s->losses, N_START);
    result->lowest_loss = INFINITY;
    for (size_t i = N_START; i < s->n; i++) {
        if (smoothed(s, i) >= result->lowest_loss)
            continue;
        result->lowest_loss = smoothed(s, i);
        result->rate_at_lowest = s->rates[i];
    }
    result->found = result->start_loss - result->lowest_loss > 0.86 * scatter(s, result->start_loss);
    if (result->found)
        result->rate = three_digits(result->rate_at_lowest / (s->p->schedule.kind == COMET_SCHEDULE_ONECYCLE ? 1 : 3));
}

/* ---- the test ---- */

static comet_status search_start(search *s)
{
    comet_loader_params loader;
    comet_status status = trainer_check(s->p);
    if (status == COMET_OK)
        status = comet_model_create(&s->model, s->p->net, &s->p->model);
    if (status == COMET_OK && s->p->weights)
        status = comet_weights_load_fitting(s->model, s->p->weights, s->p->weights_rule, NULL);
    if (status != COMET_OK)
        return status;
    comet_loader_params_init(&loader);
    ranks_share_out(s->p->model.ranks, &loader);
    loader.batch = s->p->model.batch;
    loader.n_threads = s->p->loader_threads;
    loader.queue = s->p->queue;
    loader.seed = s->p->model.seed;
    loader.shuffle = loader.endless = true;
    loader.augment = !s->p->no_augment;
    return comet_loader_create(&s->loader, s->p->train_data, &loader);
}

/* Ranks stop together, where any of them is asked to. */
static comet_status look_for_stop(search *s)
{
    const comet_ranks *r = s->p->model.ranks;
    double asked = s->p->stop && *s->p->stop;
    if (r)
        TRY(r->sum(r->self, &asked, 1));
    s->stopped = asked > 0;
    return COMET_OK;
}

static comet_status search_run(search *s)
{
    const double factor = pow(last_share / first_share, 1.0 / (N_STEPS - 1));
    double rate = s->first_rate;
    TRY(look_for_stop(s));
    for (uint64_t i = 0; i < N_STEPS && !has_risen(s) && !s->stopped; i++, rate *= factor) {
        double loss = 0;
        TRY(search_step(s, i, rate, &loss));
        if (!isfinite(loss))
            break;
        add_loss(s, rate, loss);
        tell(s, rate, loss);
        TRY(look_for_stop(s));
    }
    return COMET_OK;
}

void comet_rate_search_init(comet_rate_search *result)
{
    *result = (comet_rate_search){.size = sizeof *result};
}

comet_status comet_rate_find(const comet_train_params *params, comet_rate_search *result)
{
    TRY(CHECK_SIZE(comet_rate_search, result));
    comet_rate_search found = {.size = sizeof found};
    search s = {.p = params, .lowest_recent = INFINITY};
    const uint64_t ranks = params->model.ranks ? params->model.ranks->n_ranks : 1;
    const uint64_t images = (uint64_t)params->model.batch * ranks * accumulated(params);
    comet_status status = search_start(&s);
    if (status == COMET_OK) {
        const double usual = comet_default_rate(params->net, params->model.optimiser.kind, images, N_STEPS);
        s.first_rate = usual * first_share;
        found.rate = usual;
        status = search_run(&s);
    }
    found.stopped = s.stopped;
    if (status == COMET_OK && !s.stopped)
        choose(&s, &found);
    comet_loader_destroy(s.loader);
    comet_model_destroy(s.model);
    return status == COMET_OK ? GIVE(comet_rate_search, result, &found) : status;
}
